"""What people write of a machine in sentences: its GPUs, driver, kernel, distribution and ROCm."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

from gpudoctor.intake.text.facts import Facts, NamedGpu, Statement
from gpudoctor.intake.text.hypothetical import is_hypothetical
from gpudoctor.intake.text.lines import LONGEST_SENTENCE, Line
from gpudoctor.late_regex import late

_FIGURE = r"(?:10[1-8]|16[356]|20[5-8]|[345]0[5-9])0"
"""Of a GeForce that people call by it alone."""
_NVIDIA_NAME = late(
    r"(?<!Radeon )(?<!AMD )(?:[Nn][Vv][Ii][Dd][Ii][Aa] {1,2})?(?:[Gg]e[Ff]orce )?"
    r"(?:RTX|GTX|GT|rtx|gtx|gt|Gtx|Rtx)(?: {0,2}|-)(?:PRO |A)?\d{3,4}0?[Mm]?(?![A-Za-z]{3,})"
    r"(?:[- ]?(?:Ti|TI|ti|SUPER|Super|super|Ada|Blackwell|D|Max-Q|Laptop GPU|Mobile|Laptop)\b){0,3}"
    rf"|{_FIGURE} (?:RTX|GTX)\b"
    r"|(?:NVIDIA )?(?:Tesla|Quadro|TITAN|Titan) [A-Z]{1,3}p?(?: ?\d\w{0,5})?\b(?: \(?(?:Maxwell|Pascal)\b\)?)?"
    r"|(?:NVIDIA )?(?:\b|(?<=\b\d[x*\u00d7]))(?:[AHVP]100|H200?"
    r"|H800|A800|B200|B300|GH200|GB10|DGX Spark|GB200|A10G?|A16|A30|A40|A[2456]000|A[45]500|L40S?|L20|L4|T4|P40|K80"
    r"|M40|M60|V100S?)(?=s?\b)"
    r"|(?i:\bJetson (?:Nano|TX[12]|(?:AGX )?(?:Orin|Xavier|Thor)(?: Nano| NX)?)|\bAGX (?:Orin|Xavier|Thor)"
    r"|\b(?:Orin|Xavier) (?:Nano|NX))\b|\bJetson \w{2,6}\b"
    r"|(?:NVIDIA )?(?:[Gg]e[Ff]orce )?\b(?:MX ?[1-5]\d0|[89][1-9]0MX?)\b"
    r"|(?i:\bPRO [2-6][05]00 Blackwell\b)|\bNVIDIA T(?:[46]00|[125]?000|550)\b"
    rf"|(?i:(?<![\d.,/])\b{_FIGURE} ?(?:Ti|SUPER)\b)"
    rf"|(?i:(?:(?<=\bnvidia )|(?<=\bgeforce )){_FIGURE}m?\b)"
    rf"|(?i:(?:(?<=\bmy )|(?<=\bthe )|(?<=\bgpu )|(?<=\bnew )){_FIGURE}\b"
    r"(?! ?(?:mb|mib|ms|tokens|images|steps|lines|rows|files)))"
    r"|(?i:(?:(?!10)(?<=\ba )|(?!1|205)(?:(?<=\()|(?<=\bwith )|(?<!listening on )(?<=\bon )|(?<=\busing )"
    rf"|(?<=\bgpu: )|(?<=\bdual )|(?<=\bsingle )|(?<=\dx)|(?<=\dx ))){_FIGURE}s?"
    r"(?=[.,;:!?)]|$| (?:and|but|with|in|it|so|laptop|mobile|\(?\d{1,2} ?gb)\b))"
    rf"|(?:(?<=显卡)|(?<=显卡 )|(?<=显卡\uff1a)|(?<=显卡:)|(?<=显卡是)){_FIGURE}\b"
    rf"|(?<![A-Za-z0-9_.,/]){_FIGURE}(?=显卡|[单双]卡| ?(?:GPU|gpu|graphics card|card|issue|problem|support)\b)"
)
_AMD_NAME = late(
    r"(?i:(?:\bAMD )?(?:\bRadeon )?\bRX[ -]?\d{3,4}\w?(?:[ -]?(?:XTX|XT|GRE|M|S))?\b)|(?:AMD )?Radeon (?:Pro |PRO "
    r"|AI PRO )?(?:VII|\d{3}M|80[456]0S|8050S|8060S|WX ?\d{4}|R[79] (?:\d{3}X?|Fury(?: X)?)"
    r"|R?\w?\d{4}(?: ?(?:XTX?|GRE)|\w)?)\b|(?:AMD )?(?:Instinct )?\b(?i:MI)\d{2,3}[A-RT-Za-rt-z]?(?=s?\b)"
    r"|(?i:(?:\b|(?<=\b\dx))(?:[5-7][3-9][05]0|90[67]0) ?(?:XTX?|GRE)\b)"
    r"|\bFirePro [WSDV]\d{4}\w?\b"
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
_BRANCH_NUMBER = r"(?:3(?:40|90)|4[1-9][058]|5[1-9][05]|6[1-9][05])(?:[.-]?xx?)?"
_BRANCH = late(
    r"(?i)\bdrivers?(?:(?: (?:version|branch|series))?[ :=v-]{1,3}R?| (?:from|of|in) [^.;,\n()\d]{1,24}\()"
    rf"(?P<behind>{_BRANCH_NUMBER})(?:-\w+)?\b"
    rf"|\bnvidia(?:-driver|-dkms|-open)?[ -]v?R?(?P<package>{_BRANCH_NUMBER})(?:-\w+)?\b"
    rf"|(?<![RG]TX )(?<!\bRX )(?<![\w.-])v?R?(?P<before>{_BRANCH_NUMBER}) (?:series |branch )?(?:\w+ )?drivers?\b"
)
"""The branch of NVIDIA's driver, which is all that people say of it who know it by heart: "driver 535"."""
_OF_A_LIST = late(r"\s{0,8}[a-z][a-zA-Z]{1,2}\s{1,4}\S+\s{1,60}\d|.{0,80}\s:\s")
"""A line of dpkg, which has a state before a package, or of a table."""
_ANY_BRANCH = late(r"(?<![\w.])(?:3(?:40|90)|4[1-9][058]|5[1-9][05]|6[1-9][05])(?=(?:[.-]?xx?|-\w+)?(?![\w.]|\.\d))")
_OF_A_BRANCH = late(r"(?i)\b(?:drop(?:s|ped|ping)?|supports?|supported|removes?|ends?)\b")
"""Words of a sentence about what a branch does, whoever has it."""
_NO_BRANCH = late(r"\.\d|\s?(?:[MG]i?B|W|watts?|ms|fps|%|(?:gpu|card|tokens)s?)\b", re.I)
"""What stands behind another number."""
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
    r"(?i)(?<![\w./:@-])"
    r"(?P<os>NixOS(?=-(?:rebuild|version)\b)|Bazzite(?=-(?:nvidia|dx|deck|gnome)\b)"
    r"|(?:Ubuntu|Debian|Fedora|Linux ?Mint|Pop!?[_ ]OS|openSUSE Leap|CentOS(?: Linux)?|SLES|RHEL"
    r"|Rocky(?: Linux)?|AlmaLinux|Nobara|Zorin OS|Amazon Linux|Oracle Linux)"
    r" ?\d{1,2}(?:\.\d{1,2}){0,2}(?: LTS)?(?![\w.]*\d|-\d)"
    r"|(?:(?:Arch|Garuda|Void|Rocky) Linux|Archlinux|CachyOS|Manjaro|EndeavourOS|NixOS|Bazzite|Gentoo"
    r"|(?:openSUSE )?Tumbleweed|Ubuntu|Fedora|Debian|AlmaLinux)"
    r"(?! ?\d| (?:wiki|forums?|news|package|repo)|[\w/.@-]*\w))"
)
"""A release of a distribution, or the name of one that people write without a number."""
_OF_PACKAGE = late(
    r"(?<=\d)ubuntu\d(?:[\d.]*~|\.)(?P<ubuntu>2[0-8]\.\d\d)(?!\d)|[+~]deb(?P<debian>1[1-9])u?\d|"
    r"\.fc(?P<fedora>[3-9]\d)(?:\.|\b)"
)
"""The release of a distribution in the version of a package that was built for it: "1ubuntu1~22.04"."""
_ROCM = late(r"(?i)\brocm[ -]?v?(?P<version>[3-9]\.\d{1,2}(?:\.\d{1,2})?)(?![\d.]*\d)")
_ANOTHER = late(
    r"(?i)grad(?:e|ing)|before|after|\btried|latest|requires?|needs?\b|>=|<|instead|older|newer"
    r"|minimum|recommend|\b(?:from|replac\w+|remov\w+|uninstall\w+) (?:\w+ ){0,2}drivers?\b"
)
"""Words of a sentence about a driver that need not be the present one."""
_DRIVER_NUMBER = late(r"(?<![\w.+])[1-9]\d{2}\.\d{2,3}(?:\.\d{1,2})?(?![\d.]*\d)")
_NOW = late(
    r"(?i)\b(?:upgrad|updat|mov|switch|migrat|chang)\w* (?:[^.;,!?()]{0,40} )?(?:to|on) "
    r"(?:(?:the|a|my|new|latest|nvidia|linux|drivers?|kernel|version) ){0,4}$"
)
"""What stands before the release that a person has since: "upgraded to Fedora 43"."""
_UNDONE = late(
    r"(?i)\b(?:tr(?:y|ied|ying)|want\w*|plan\w*|should|could|can|cannot|if|back|downgrad\w+|revert\w*|instead|how"
    r"|require\w*|needs?|recommend\w*|please|suggest\w*|will|would)\b|n't\b|\?"
)
"""Unless it only wanted to, or went back."""
_WORKS = late(r"(?i)\bworks?\b")
"""The same in the words between two commas: "everything else works" is of no driver."""
_PYTHON_FOLDER = late(r"(?:/lib(?:64)?/python|\\Python)(?P<major>3)\.?(?P<minor>\d{1,2})[/\\]")
_PYTHON = late(
    r"(?<![\w./-])(?:[Pp]ython(?: version)?[ :=]{0,3}v?|--python[ =]|py)3\.(?P<minor>\d{1,2})(?:\.\d{1,2})?"
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
    r"(?i)(?:target|(?<!black)(?<!pip )(?<!conda )(?<!not )(?<!n't )list\b|arch(?:itecture)?s|offload|builds? for"
    r"|PYTORCH_ROCM_ARCH|GPU_TARGETS)"
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
    packaged: dict[str, Statement] = {}
    branches: dict[str, Statement] = {}
    pythons: dict[str, Statement] = {}
    for number, text in lines:
        for os in _OS.finditer(text):
            added = text[: os.start()].endswith("(")  # a remark on what stands before it, not on the rest
            if added or not (_was_another(text, os) or _COMPARING.search(text)):
                distributions.setdefault(os["os"].lower(), Statement("os", os["os"], number, "prose"))
        if ("ubuntu" in text or "deb1" in text or ".fc" in text) and (package := _OF_PACKAGE.search(text)):
            name = f"{package.lastgroup or ''} {package[package.lastgroup or 0]}".capitalize()
            packaged.setdefault(name, Statement("os", name, number, "prose"))
        about_a_driver = "river" in text or "vidia" in text or "VIDIA" in text
        beginning = text[:LONGEST_SENTENCE]
        named = [*_BRANCH.finditer(beginning)] if about_a_driver and not _OF_A_LIST.match(text) else []
        for branch in named if named and not is_hypothetical(beginning) else ():
            stem = (branch["behind"] or branch["package"] or branch["before"])[:3]
            if not _may_be_another_branch(beginning, branch):
                branches.setdefault(stem, Statement("driver branch", stem, number, "prose"))
        if several := _SEVERAL_GPUS.search(text):
            facts.say("several gpus", several["count"].lower(), number, "prose")
        if "ython" in text and (folder := _PYTHON_FOLDER.search(text)):
            facts.say("python", f"{folder['major']}.{folder['minor']}", number, "prose")
        elif "ython" in text and (python := _PYTHON.search(text)) and not _may_be_another(text, python):
            pythons.setdefault(python["minor"], Statement("python", f"3.{python['minor']}", number, "prose"))
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
    if not elsewhere:
        facts.said += _one_of(distributions) or _one_of(packaged)
    facts.said += _one_of(branches)
    if not any(one.what == "python" for one in facts.said):
        facts.said += _one_of(pythons)


def _one_of(said: dict[str, Statement]) -> list[Statement]:
    """What is said, if all say one thing: of several, a sentence may be about another machine's. "Ubuntu" is "Ubuntu
    22.04", too."""
    exact = [one for one in said if not any(other != one and other.startswith(one) for other in said)]
    return [said[exact[0]]] if len(exact) == 1 else []


def _may_be_another(text: str, found: re.Match[str]) -> bool:
    """Whether the words around a version leave open that it is the present one."""
    whole, clause = sentence_around(text, found), _between(text, found, _CLAUSE_ENDS)
    if _is_new(text, found, clause):
        return False
    several = len(set(_DRIVER_NUMBER.findall(whole))) > 1
    return several or bool(_ANOTHER.search(whole) or _WORKS.search(clause))


def _may_be_another_branch(text: str, branch: re.Match[str]) -> bool:
    if _NO_BRANCH.match(text, branch.end()) or _may_be_another(text, branch):
        return True
    whole = sentence_around(text, branch)
    return len({*_ANY_BRANCH.findall(whole)}) > 1 or bool(_OF_A_BRANCH.search(whole))


def _was_another(text: str, system: re.Match[str]) -> bool:
    """The same of a distribution, of which people have one: the words that count stand in the same clause."""
    clause = _between(text, system, _CLAUSE_ENDS)
    return bool(_ANOTHER.search(clause) or _WORKS.search(clause)) and not _is_new(text, system, clause)


def _is_new(text: str, found: re.Match[str], clause: str) -> bool:
    return _NOW.search(text[: found.start()]) is not None and not _UNDONE.search(clause)


_ENDS = (". ", "! ", "? ")
_CLAUSE_ENDS = (*_ENDS, ", ", "; ")


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
    # An error may name the target of another GPU than the one meant; behind the message in a title a person does.
    errors = {line.number for line in facts.errors if line.number > 1}
    meant = (line for line in lines if line.number not in errors and not _COMPARING.search(line.text))
    before = len(facts.gpus)
    _gpus_of_sentences(meant, facts, elsewhere=True)
    if len(facts.gpus) == before:
        _gpus_of_sentences(lines, facts)


_MACHINE = r"(?:machine|computer|pc|box|rig|desktop|laptop|server|workstation)"
_WAS_REPLACED = late(
    r"(?i)\b(?:swapp|replac|exchang|upgrad|switch|mov|chang)\w* (?:from )?(?:(?:the|my|our|an?) )?"
    r"(?P<old>[^.;!?\n]{2,40}?) (?:by|for|with|to) (?:(?:the|my|our|an?) )?(?:new )?"
    r"(?=nvidia|geforce|amd|radeon|intel|arc\b|[rg]tx|rx|[2-9]\d{3}|[abhlpv]\d)"
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
_ONE_OF_THEM = late(r"(?i)\b(?:or|vs\.?|versus|than|either|which(?! is| are| was)|compar\w+|tested|benchmark\w*)\b")
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


_WORDS_OF_A_TITLE = 5


def _gpus_of_sentences(lines: Iterable[Line], facts: Facts, *, elsewhere: bool = False) -> None:
    """`elsewhere`: a GPU of another machine does not count."""
    for number, text in ((number, text[:LONGEST_SENTENCE]) for number, text in lines):
        titled = number == 1 and len(text.split()) >= _WORDS_OF_A_TITLE
        found = [list(pattern.finditer(text)) for pattern in (_NVIDIA_NAME, _AMD_NAME)]
        gone = _gone(text, elsewhere) if any(found) else set[int]()
        for one_vendor in filter(None, found):
            named = [one for one in one_vendor if one.start() not in gone]
            together = _together(text, named)
            facts.gpus += (
                NamedGpu(number, "prose", name=one[0].strip(), block=number * (one in together), titled=titled)
                for one in named
            )
        for gfx in _GFX.finditer(text):
            facts.gpus.append(NamedGpu(number, "prose", arch=gfx[0]))


def _gone(text: str, elsewhere: bool) -> set[int]:
    """Places of GPUs that another one has replaced, or that another machine has."""
    replaced = _WAS_REPLACED.search(text)
    gone = {*range(*replaced.span("old"))} if replaced else set[int]()
    for other in _OF_ANOTHER_MACHINE.finditer(text) if elsewhere else ():
        gone.update(range(*other.span("former" if other["other"] is None else "other")))
    return gone
