"""What people write of a machine in sentences: its GPUs, driver, kernel, distribution and ROCm."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

from gpudoctor.intake.text.facts import Facts, NamedGpu, Statement
from gpudoctor.intake.text.lines import Line
from gpudoctor.late_regex import late

_NVIDIA_NAME = late(
    r"(?<!Radeon )(?<!AMD )(?:[Nn][Vv][Ii][Dd][Ii][Aa] {1,2})?(?:[Gg]e[Ff]orce )?"
    r"(?:RTX|GTX|GT|rtx|gtx|gt|Gtx|Rtx)(?: {0,2}|-)(?:PRO |A)?\d{3,4}0?[Mm]?(?![A-Za-z]{3,})"
    r"(?:[- ]?(?:Ti|TI|ti|SUPER|Super|super|Ada|Blackwell|D|Max-Q|Laptop GPU|Mobile|Laptop)\b){0,3}"
    r"|(?:10|16|20|30|40|50)[5-9]0 (?:RTX|GTX)\b|(?:TITAN|Titan) X \(Pascal\)"
    r"|(?:NVIDIA )?(?:Tesla|Quadro|TITAN|Titan) [A-Z]{1,3} ?\w{0,6}\b|(?:NVIDIA )?\b(?:[AHVP]100|H200"
    r"|H800|A800|B200|B300|GH200|GB10|DGX Spark|GB200|A10G?|A30|A40|A6000|L40S?|L4|T4|P40|K80|M40|M60"
    r"|V100S?)\b"
    r"|(?i:\bJetson (?:Nano|TX[12]|(?:AGX )?(?:Orin|Xavier|Thor)(?: Nano| NX)?)|\bAGX (?:Orin|Xavier|Thor)"
    r"|\b(?:Orin|Xavier) (?:Nano|NX))\b|\bJetson \w{2,6}\b"
    r"|(?:NVIDIA )?(?:[Gg]e[Ff]orce )?\b(?:MX ?[1-5]\d0|[89][1-9]0MX?)\b"
    r"|(?i:(?<![\d.,/])\b(?:10|16|20|30|40|50)[5-9]0 ?(?:Ti|SUPER)\b)"
    r"|(?i:(?:(?<=\bmy )|(?<=\bthe )|(?<=\bgpu ))(?:16|20|30|40|50)[5-9]0\b(?! ?(?:mb|mib|ms|tokens|images|steps)))"
    r"|(?i:(?:(?<=\bhave a )|(?<=\bhas a )|(?<=\bgot a )|(?<=\bown a )|(?<=\bwith a )|(?<=\busing a )|(?<=\bon a ))"
    r"(?:16|20|30|40|50)[5-9]0(?=[.,;:!?)]|$| (?:and|but|with|in|it|so|laptop|mobile|\(?\d{1,2} ?gb)\b))"
    r"|(?<![A-Za-z0-9_.,/])(?:16|20|30|40|50)[5-9]0(?=显卡| ?(?:GPU|gpu|graphics card|card|issue|problem|support)\b)"
)
_AMD_NAME = late(
    r"(?i:(?:\bAMD )?(?:\bRadeon )?\bRX[ -]?\d{3,4}\w?(?:[ -]?(?:XTX|XT|GRE|M|S))?\b)|(?:AMD )?Radeon (?:Pro |PRO "
    r"|AI PRO )?(?:VII|\d{3}M|80[456]0S|8050S|8060S|R?\w?\d{4}(?: ?(?:XTX?|GRE)|\w)?)\b|(?:AMD )?"
    r"(?:Instinct )?\b(?i:MI)\d{2,3}[A-Za-z]?\b"
    r"|(?i:(?:\b|(?<=\b\dx))(?:[5-7][3-9][05]0|90[67]0) ?(?:XTX?|GRE)\b)"
    r"|(?<![\w./-])(?i:pro )?(?:[Ww][5-7][3-9]00[DX]?|[Vv](?:620|710)|R9[67]00D?)\b"
    r"|(?:AMD )?(?:Radeon )?(?:RX )?\bVega ?(?:56|64)\b"
    r"|\b[57][5-9]00G\b|\bStrix (?:Halo|Point)\b"
    r"|(?<!GTX )(?<!gtx )(?<!GeForce )\b(?:[67]80|8[89]0)[Mm]\b"
)
_WITHOUT_DIGITS = ("etson", "AGX", "agx", "rin N", "rin n", "avier N", "avier n", "VII", "Strix")
_GFX = late(r"(?<![\w/-])gfx(?P<number>80[1-5]|9\d\d|90[0-9a-f]|94\d|95\d|1[0-2]\d\d)(?![\w])")
_DRIVER = late(
    r"(?i)(?:\bdrivers?\b[^\d\n]{0,20}|\bnvidia-smi (?:shows|says|reports|prints|gives|displays) (?:version )?)"
    r"(?P<version>\d{3}\.\d{2,3}(?:\.\d{1,2})?)(?![\d.]*\d)(?! ?(?:[MG]i?B|W\b|%))"
)
_SEVERAL_GPUS = late(
    r"(?i)(?<![\w.,/=-])(?P<count>[2-9]|1[0-6]|two|three|four|five|six|eight|several|multiple)(?: ?[x\u00d7])?"
    r" (?:identical |different )?(?:nvidia |geforce |tesla |quadro )?"
    r"(?:(?:rtx|gtx|titan|tesla|quadro|[ahlvpkmt]\d{1,3}0?s?)\b|gpus\b|graphics? cards\b)"
)
"""GPUs of one kind that a sentence counts, without naming each."""
_KERNEL = late(
    r"(?i)\bkernel(?: version)?[\s:=]{1,3}v?(?P<release>[4-9]\.\d{1,2}(?:\.\d{1,3})?(?:-[\w.+-]{1,60})?)(?!\w|\.\d)"
    r"|(?<![\w.])(?P<before>[4-9]\.\d{1,2}(?:\.\d{1,3})?) (?:linux )?kernel\b"
)
_OS = late(
    r"(?i)(?<![\w./:-])"
    r"(?P<os>(?:Ubuntu|Debian|Fedora|Linux Mint|Pop!_OS|openSUSE Leap|Rocky(?: Linux)?|AlmaLinux|RHEL"
    r"|Nobara|Zorin OS) \d{1,2}(?:\.\d{1,2}){0,2}(?: LTS)?)(?![\w.]*\d)"
)
_ROCM = late(r"(?i)\brocm[ -]?v?(?P<version>[3-9]\.\d{1,2}(?:\.\d{1,2})?)(?![\d.]*\d)")
_ANOTHER = late(
    r"(?i)grad(?:e|ing)|before|after|\btried|latest|requires?|needs?\b|>=|<|instead|older|newer"
    r"|minimum|recommend|\b(?:from|replac\w+|remov\w+|uninstall\w+) (?:\w+ ){0,2}drivers?\b"
)
"""Words of a sentence about a driver that need not be the present one."""
_DRIVER_NUMBER = late(r"(?<![\w.+])[1-9]\d{2}\.\d{2,3}(?:\.\d{1,2})?(?![\d.]*\d)")
_WORKS = late(r"(?i)\bworks?\b")
"""The same in the words between two commas: "everything else works" is of no driver."""
_PYTHON_FOLDER = late(r"(?:/lib(?:64)?/python|\\Python)(?P<major>3)\.?(?P<minor>\d{1,2})[/\\]")
_PYTHON = late(
    r"(?<![\w./-])[Pp]ython(?: version)?[ :=]{1,3}v?3\.(?P<minor>\d{1,2})(?:\.\d{1,2})?"
    r"(?![\w+]|\.\d|,? (?:\(you have|or |and (?:newer|later|above|up))| to )"
)
_FOR_AMD = late(
    r"download\.pytorch\.org/whl/(?:nightly/|test/)?rocm\d"
    r"|(?<![A-Za-z])(?:AMD|Radeon|amd)(?: [\w-]{1,12}){0,3} (?:GPU|gpu|(?:graphics |video )?card)s?\b"
    r"|\b(?:GPU|(?:graphics |video )?card)\W{1,3}(?:\w{1,3}\W{1,2}){0,2}(?:AMD|Radeon)\b"
    r"|(?i:\b(?:using|use|have|got|own|with|on|running) (?:an? |my )?(?:AMD|Radeon)\b)"
    r"(?! (?i:cpu|ryzen|epyc|processor|thread))"
    r"|(?i:(?<![/\w.-])rocm\b)(?!(?: used to build| runtime is found|_)|\s?[:=]\s?(?:N/?A|None|False|Could not))"
)
"""What people write whose GPU is AMD's: they install ROCm."""
_LISTING = late(
    r"(?i)(?:target|(?<!black)(?<!pip )(?<!conda )list\b|arch(?:itecture)?s|offload|builds? for|PYTORCH_ROCM_ARCH"
    r"|GPU_TARGETS)"
)
"""Lines that list what something is built for."""
_COMPARING = late(r"(?i)(?:support|instead of|works? (?:on|with)|unlike|compar)")


_PROCESSOR = late(r"(?i)\bRyzen (?:AI )?(?:Max ?\+? )?(?:\d )?(?:PRO )?(?:HX )?\d{3,4}\w{0,3}\b")
_WANTS_CPU = late(
    r"(?i)(?<!use )(?<!use ['\"])(?:\bdevice ?= ?[\"']?cpu\b|--(?:device[ =])?cpu\b)|\buse[-_]cpu\b"
    r"|\b(?:want|trying|tried|like|possible|how|can i|try)\b[^.;!?]{0,40}\b(?:run|use|work|train|infer)\w*\b"
    r"[^.;!?]{0,40}\b(?:on|from|with|using) (?:the |my |a )?cpu\b(?! instead)"
    r"|\b(?:how (?:to|do I|can I)|want to|happy with)\b[^.;!?]{0,40}\b(?:without (?:(?:a|an|any|the) )?gpu"
    r"|(?:the )?cpu)\b"
    r"|\bcpu\b[^.;!?]{0,12}\b(?:on purpose|intentional(?:ly)?|deliberately)\b"
    r"|\bcpu[- ]only (?:machine|server|laptop|setup|mode)\b|\bonly (?:need|want)s?\b[^.;!?]{0,20}\bcpu\b"
    r"|\bI (?:have no|do ?n.t have (?:a |an )?(?:\w+ )?)gpu\b|\bwithout (?:a |an |any )gpu\b|\bmac ?book\b"
)
"""What people write who have no GPU, or do not want to use one."""
_EXCEPTION = late(r"\b[A-Z]\w{2,40}(?:Error|Exception): .*")
"""What a program says: it may tell those without a GPU what to do."""
_OF_CPU = ("pu", "PU", "Pu", "ook", "OOK")
"""Ends of the words that it looks for: most lines have none, and need no search."""


def read_asides(lines: Iterable[Line], facts: Facts) -> None:
    """Driver, kernel, ROCm and Python that a sentence names, whose GPUs it is about, and the Python in whose folder
    files lie."""
    distributions: dict[str, Statement] = {}
    pythons: dict[str, Statement] = {}
    for number, text in lines:
        for os in _OS.finditer(text):
            added = text[: os.start()].endswith("(")  # a remark on what stands before it, not on the rest
            if added or not (_may_be_another(text, os) or _COMPARING.search(text)):
                distributions.setdefault(os["os"].lower(), Statement("os", os["os"], number, "prose"))
        if several := _SEVERAL_GPUS.search(text):
            facts.say("several gpus", several["count"].lower(), number, "prose")
        if "ython" in text and (folder := _PYTHON_FOLDER.search(text)):
            facts.say("python", f"{folder['major']}.{folder['minor']}", number, "prose")
        elif "ython" in text and (named := _PYTHON.search(text)) and not _may_be_another(text, named):
            pythons.setdefault(named["minor"], Statement("python", f"3.{named['minor']}", number, "prose"))
        if (
            ("river" in text or "nvidia-smi" in text)
            and (driver := _DRIVER.search(text))
            and not _may_be_another(text, driver)
        ):
            facts.say("driver", driver["version"], number, "prose")
        if ("yzen" in text or "YZEN" in text) and (processor := _PROCESSOR.search(text)):
            facts.say("processor", processor[0], number, "prose")
        if "ernel" in text and (kernel := _KERNEL.search(text)) and not _may_be_another(text, kernel):
            facts.say("kernel", (kernel["release"] or kernel["before"]).rstrip("."), number, "prose")
        if any(sign in text for sign in _OF_CPU) and _WANTS_CPU.search(_EXCEPTION.sub("", text)):
            facts.say("wants cpu", text.strip()[:200], number, "prose")
        if (
            "AMD" in text or "amd" in text or "ocm" in text or "OCm" in text or "OCM" in text or "Radeon" in text
        ) and _FOR_AMD.search(text):
            facts.say("for amd", text.strip()[:200], number, "prose")
            if (rocm := _ROCM.search(text)) and not _may_be_another(text, rocm):
                facts.say("rocm", rocm["version"], number, "prose")
    elsewhere = any(one.what in ("system windows", "system macos", "container") for one in facts.said)
    if len(distributions) == 1 and not elsewhere:  # of several, a sentence may be about another machine's
        facts.said += distributions.values()
    if len(pythons) == 1 and not any(one.what == "python" for one in facts.said):
        facts.said += pythons.values()


def _may_be_another(text: str, found: re.Match[str]) -> bool:
    """Whether the words around a version leave open that it is the present one."""
    whole, clause = sentence_around(text, found), _between(text, found, (*_ENDS, ", ", "; "))
    several = len(set(_DRIVER_NUMBER.findall(whole))) > 1
    return several or bool(_ANOTHER.search(whole) or _WORKS.search(clause))


_ENDS = (". ", "! ", "? ")


def sentence_around(text: str, found: re.Match[str]) -> str:
    """The sentence of a text that a match stands in."""
    return _between(text, found, _ENDS)


def _between(text: str, found: re.Match[str], ends: tuple[str, ...]) -> str:
    """The sentence that a match stands in, or what else stands between two such ends."""
    start = max(text.rfind(end, 0, found.start()) for end in ends) + 1
    after = [place for end in ends if (place := text.find(end, found.end())) >= 0]
    return text[start : min(after, default=len(text))]


def read_prose(lines: Iterable[Line], facts: Facts) -> None:
    """GPUs that sentences name: counted only where nothing else names one. A sentence about what is supported names
    many: it counts only where no other does."""
    lines = tuple(
        line
        for line in lines
        if (any(sign.isdigit() for sign in line.text) or any(name in line.text for name in _WITHOUT_DIGITS))
        and not _LISTING.search(line.text)
    )
    errors = {line.number for line in facts.errors}  # an error may name the target of another GPU than the one meant
    meant = (line for line in lines if line.number not in errors and not _COMPARING.search(line.text))
    before = len(facts.gpus)
    _gpus_of_sentences(meant, facts, elsewhere=True)
    if len(facts.gpus) == before:
        _gpus_of_sentences(lines, facts)


_MACHINE = r"(?:machine|computer|pc|box|rig|desktop|laptop|server|workstation)"
_WAS_REPLACED = late(
    r"(?i)\b(?:swapp|replac|exchang|upgrad|switch|mov|chang)\w* (?:from )?(?:(?:the|my|our|an?) )?"
    r"(?P<old>[^.;!?\n]{2,40}?) (?:by|for|with|to) (?:(?:the|my|our|an?) )?(?:new )?"
    r"(?=nvidia|geforce|amd|radeon|[rg]tx|rx|[2-9]\d{3}|[abhlpv]\d)"
)
"""A GPU in the place of which there is another one now."""
_OF_ANOTHER_MACHINE = late(
    rf"(?i)\bfrom (?:the|my|our|an?) (?P<other>[^.,;!?\n]{{2,40}}? {_MACHINE}\b[^.,;!?\n]{{0,40}})"
    rf"|\b(?:old(?:er)?|previous|former) {_MACHINE}\b(?P<former>[^.;!?\n]{{0,40}})"
)
"""A GPU from whose machine something was taken over: another than the one that a text is about, if it names one."""


_JOINED = late(
    r"(?i)(?:[\s,+&/()]|\d{1,3} ?gb\b|\b(?:and|with|plus|beside|besides|next to|along ?side(?: of)?|together with"
    r"|as well as|an?|one|two|three|four|another|the|my|our|its|old|older|new|newer|second|single|nvidia|geforce"
    r"|gpus?|cards?|\d{1,2} ?x|x ?\d{1,2}|\d)\b)+"
)
"""What stands between the names of GPUs that are in one machine."""
_IN_ONE_MACHINE = late(
    r"(?i)\b(?:ha(?:ve|s|d)|got|own|runs?|with|holds?|contains?|consists?|add(?:ed)?|put|plugged|install(?:ed)?|machine"
    r"|box|server|rig|pc|workstation|system|host|node|setup|computer|laptop|both)\b|\+"
)
_ONE_OF_THEM = late(r"(?i)\b(?:or|vs\.?|versus|than|either|which|compar\w+|tested|benchmark\w*)\b")
"""Words of somebody who has one of the GPUs that a sentence names, or each in a machine of its own."""
_ANY_END = late(r"[.!?](?:\s|$)|\n")


def _together(text: str, found: list[re.Match[str]]) -> list[re.Match[str]]:
    """The GPUs of a line that its words join to those of one machine."""
    joined = [
        (one, other)
        for one, other in pairwise(found)
        if _JOINED.fullmatch(text[one.end() : other.start()]) and one[0].lower() != other[0].lower()
    ]
    if not joined:
        return []
    start = max((end.end() for end in _ANY_END.finditer(text, 0, joined[0][0].start())), default=0)
    end = _ANY_END.search(text, joined[-1][1].end())
    sentence = text[start : end.start() if end else len(text)]
    if _ONE_OF_THEM.search(sentence) or not _IN_ONE_MACHINE.search(sentence):
        return []
    return list(dict.fromkeys(one for pair in joined for one in pair))


def _gpus_of_sentences(lines: Iterable[Line], facts: Facts, *, elsewhere: bool = False) -> None:
    """`elsewhere`: a GPU of another machine does not count."""
    for number, text in lines:
        replaced = _WAS_REPLACED.search(text[:600])
        gone = {*range(*replaced.span("old"))} if replaced else set[int]()
        for other in _OF_ANOTHER_MACHINE.finditer(text[:600]) if elsewhere else ():
            gone.update(range(*other.span("former" if other["other"] is None else "other")))
        for pattern in (_NVIDIA_NAME, _AMD_NAME):
            named = [found for found in pattern.finditer(text[:600]) if found.start() not in gone]
            together = _together(text[:600], named)
            facts.gpus += (
                NamedGpu(number, "prose", name=found[0].strip(), block=number * (found in together))
                for found in named
            )
        for gfx in _GFX.finditer(text[:600]):
            facts.gpus.append(NamedGpu(number, "prose", arch=gfx[0]))
