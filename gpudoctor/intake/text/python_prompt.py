"""What people paste from a Python prompt, and what calls of print printed: torch, its CUDA, whether it sees a GPU."""

from __future__ import annotations

import re
from itertools import pairwise

from gpudoctor.intake.text.facts import Facts, NamedGpu
from gpudoctor.intake.text.hypothetical import is_hypothetical
from gpudoctor.intake.text.lines import Line, answer_below
from gpudoctor.late_regex import late

_PROMPT = late(r"\s{0,4}(?:>>>|In ?\[\d{0,4}\]:)\s?(?P<code>.{3,300})")
_PRINTED = late(
    r"\s{0,6}(?:print\()?['\"]?(?P<name>torch\.(?:__version__|version\.cuda|version\.hip|cuda\.is_available\(\)|cuda\.device_count\(\)|cuda\.get_device_name\(\w{0,12}\)|cuda\.get_arch_list\(\)|cuda\.get_device_capability\(\w{0,12}\)|backends\.cudnn\.version\(\)))['\"]?\)?\s{0,3}(?:[:=]{1,2}|->|returns|gives|is|→|,|#|//|(?=\s(?:True|False)\b))\s{0,3}(?P<value>.{1,400})"
)
_GPUS = r"(?:\w+ ){0,3}(?:gpus?|(?:graphics |video )?cards?|cuda|rtx|rx|radeon|geforce)\b"
_SEES_NONE = late(
    r"(?i)(?P<if>\b(?:if|when|whenever|where|unless|until) (?:\w+ ){0,2})?\b(?:py)?torch\b"
    r"(?:[^.;!?\n]|\.(?=\d)){0,60}?"
    r"(?:\b(?:see|find|detect|recogni[sz]e|list|report|show|get)s? (?:no|zero|0) (?:\w+ )?(?:gpus?|cards?|devices?)\b"
    r"|(?:(?<!did)n't|(?<!did)n\u2019t|(?<!did )\bnot(?! only)|\bcannot|\bcant|\bdoesnt|\bnever|\bunable to"
    r"|\bfail(?:s|ed)? to|\brefuses to)"
    rf" (?:\w+ ){{0,2}}(?:see|find|detect|recogni[sz]e|use|access|pick up)(?:s|ing)? {_GPUS}"
    r"(?! (?:fully|enough|well|much|efficiently|properly|completely|at (?:full|\d))))"
    r"|\bno (?:gpus?|cuda devices?) (?:(?:is|are|was|were) )?(?:found|detected|seen|visible|available)"
    r" (?:by|in|to|for|from) (?:py)?torch\b"
    r"|\b(?:gpus?|cuda|card)(?: (?:is|are|was))?(?:n't|n\u2019t| not) (?:being )?"
    r"(?:available|detected|found|seen|recogni[sz]ed|visible|used)(?: (?:by|in|to|for|from) (?:py)?torch\b|[.,;!)]|$)"
    r"|\bdevice[_ ]count(?:\(\))? (?:is|returns?|gives?|=+) 0\b"
)
"""A person's own words for what torch.cuda.is_available() answers."""
_SAID_AVAILABLE = late(
    r"(?i)(?:(?:torch\.)?cuda\.is_av\w{5,9}(?:\(\))?|(?<![\w.])is_available\b(?:\(\))?"
    r"|(?<!is )\bcuda available(?=\s?[:=]))[`'\" ]{0,3}"
    r"(?:(?:always|still|only|now) )?(?:returns?|returned|is|was|(?:gives|gave)(?: me)?|:|=|->|→|shows|says"
    r"|(?:只会|总是|一直)?(?:返回|为|是)|==)?[`'\" ]{0,3}\s?(?P<value>true|false)\b(?! (?:until|before|at first)\b)"
    r"|^\s{0,8}gpu available\s{2,60}(?P<short>yes|no)\b"
)
_CALLED = late(
    r"(?:\([\w.-]{1,40}\) ?)?[-`*$#%>!\s]{0,4}(?:import torch[;,\s]{1,3})?"
    r"(?:print\(|(?:(?:srun|docker|podman|kubectl|apptainer|singularity|distrobox|uv|poetry|conda|sudo) "
    r"[^'\"|;&]{0,200})?python3? -c ['\"].{0,60}print\()?"
    r"(?P<name>torch\.(?:__version__|version\.cuda|version\.hip|cuda\.(?:is_available|device_count"
    r"|get_device_name|get_arch_list)))(?:\([^)]{0,20}\))?\)?['\"`]{0,3}\s?(?:returns?|gives|output"
    r"|prints|:|is|=|->){0,2}\s?:?`?"
)
"""A call without prompt; its answer stands on the next line."""
_ANSWERS = (
    "torch.cuda.is_available", "torch.__version__", "torch.version.cuda", "torch.version.hip",
    "torch.cuda.device_count",
    "torch.cuda.get_device_name", "torch.cuda.get_arch_list", "torch.cuda.get_device_capability",
)  # fmt: skip
_PRINT = late(r"print\((?P<all>(?:[^()]|\([^()]{0,60}\)){3,300})\)")
_ARGUMENT = late(r"\s*(?P<one>(?:[^,()'\"]|\([^()]{0,60}\)|'[^']{0,60}'|\"[^\"]{0,60}\")+)(?:,|$)")
_FAR_ANSWERS = 10
"""Lines below a command in which its answers stand."""
_FORMS = {"torch.__version__": r"['\"]?\d{1,2}\.\d", "torch.cuda.is_available": r"True\b|False\b"}
"""How an answer begins. Those of other commands of the same line may stand before it."""
_PRINTED_TOGETHER = late(
    r"\(?['\"]?(?P<torch>\d\.\d{1,2}\.\d{1,2}\w{0,12}\+(?:cpu|cu\d{2,3}|rocm\d[\d.]{0,6}))['\"]?,? {1,4}"
    r"(?:(?P<cuda>\d{1,2}\.\d)|None|(?P<available>True|False))(?P<rest>(?:,? .{1,400}|\))?)"
)
"""What a call of print that nobody pasted printed: torch's version, and its CUDA or whether it sees a GPU."""
_AVAILABLE = late(r"\b(?:True|False)\b")
_ASKED_MODULE = late(
    r"(?:.{0,80}\bprint\(|\s{0,8}>>> ?|\s{0,8}In ?\[\d{0,4}\]: ?)(?P<module>\w{2,20})\.__version__\)?[\"']?\s*$"
)
_OUT = late(r"Out ?\[\d{0,4}\]: ?")
"""Before an answer of IPython."""
_ON_A_GPU = late(r"(?:Out ?\[\d{0,4}\]: ?)?tensor\(.{0,400}\bdevice='cuda:\d")
"""A tensor that a GPU computed."""
_MODULES = {
    "tf": "tensorflow", "tensorflow": "tensorflow", "jax": "jax", "jaxlib": "jaxlib", "ort": "onnxruntime",
    "onnxruntime": "onnxruntime", "np": "numpy", "numpy": "numpy", "torchvision": "torchvision",
    "torchaudio": "torchaudio", "vllm": "vllm", "xformers": "xformers", "triton": "triton", "cupy": "cupy",
    "transformers": "transformers", "bitsandbytes": "bitsandbytes", "bnb": "bitsandbytes",
}  # fmt: skip
"""Packages by the names that programs import them by."""


def read_prompt(lines: tuple[Line, ...], place: int, text: str, facts: Facts) -> None:
    """What the line at this place, whose whole command is `text`, and the answers below it say."""
    number = lines[place].number
    if "+" in text and (printed := _PRINTED_TOGETHER.fullmatch(text.strip())):
        _together(printed, number, facts)
    if "__version__" in text and (asked_module := _ASKED_MODULE.match(text)):
        _module_version(asked_module, answer_below(lines, place), facts)
    if "cuda:" in text and _ON_A_GPU.match(text):
        facts.say("available", "True", number, "program")
    if "torch" in text or "Torch" in text or "vailable" in text:
        prints = _prints(text) if "print(" in text else []
        if sum(name != "" for call in prints for name in call) > 1:
            _answers(prints, lines[place + 1 : place + _FAR_ANSWERS], facts)
        else:
            _python(number, text, answer_below(lines, place), facts)


def _python(number: int, text: str, following: Line | None, facts: Facts) -> None:
    """What a Python prompt, or a program that prints its own call, says of torch."""
    if (prompt := _PROMPT.match(text)) and following is not None:
        code = prompt["code"].strip()
        name = next((name for name in _ANSWERS if name in code), "")
        if name and "=" not in code.partition("print")[0].replace("==", ""):
            _answer(name, following.text.strip(), following.number, facts)
        return
    if (asked := _CALLED.fullmatch(text.strip())) and following is not None:
        _answer(asked["name"], following.text.strip(), following.number, facts)
        return
    if printed := _PRINTED.search(text):
        _answer(re.sub(r"\(.*", "", printed["name"]), printed["value"].strip(), number, facts)
    elif (said := _SAID_AVAILABLE.search(text)) and not is_hypothetical(text):
        facts.say("available", str((said["value"] or said["short"]).lower() in ("true", "yes")), number, "prose")
    elif (blind := _SEES_NONE.search(text)) and not (is_hypothetical(text) or blind["if"]):
        facts.say("sees no gpu", "False", number, "prose")


def _prints(text: str) -> list[list[str]]:
    """The arguments of each call of print: names that say something of torch, and "" for the others."""
    calls = [[one["one"].strip() for one in _ARGUMENT.finditer(found["all"])] for found in _PRINT.finditer(text)]
    return [
        [next((name for name in _ANSWERS if re.fullmatch(rf"{re.escape(name)}(?:\(.*\))?", one)), "") for one in call]
        for call in calls
    ]


def _answers(calls: list[list[str]], following: tuple[Line, ...], facts: Facts) -> None:
    """What several calls of print, or one with several arguments, printed: a line for each call."""
    lines = iter([line for line in following if line.text.strip()])
    for names in calls:
        form = _FORMS.get(names[0], "")
        line = next((line for line in lines if re.match(form, line.text.strip())), None)
        values = line.text.split(maxsplit=len(names) - 1) if line else []
        for name, value in zip(names, values, strict=False):
            _answer(name, value.strip(), line.number if line else 0, facts)


def _together(printed: re.Match[str], number: int, facts: Facts) -> None:
    _answer("torch.__version__", printed["torch"], number, facts)
    if printed["cuda"]:
        _answer("torch.version.cuda", printed["cuda"], number, facts)
    if available := printed["available"] or next(iter(_AVAILABLE.findall(printed["rest"])), ""):
        _answer("torch.cuda.is_available", available, number, facts)
    _answer("torch.cuda.get_arch_list", printed["rest"], number, facts)


def _module_version(asked: re.Match[str], following: Line | None, facts: Facts) -> None:
    package = _MODULES.get(asked["module"])
    if package and following and (version := re.fullmatch(r"\s*['\"]?(\d[\w.+!-]{0,60}?)['\"]?\s*", following.text)):
        facts.say(f"package {package}", version[1], following.number, "program")


def _answer(name: str, value: str, number: int, facts: Facts) -> None:
    value = _OUT.sub("", value, count=1).strip("'\"`()# ")  # people answer in a comment, too
    if name == "torch.__version__" and (version := re.match(r"\d{1,2}\.\d{1,3}[\w.+-]{0,60}", value)):
        facts.say("torch", version[0].rstrip("."), number, "program")
    elif name == "torch.version.cuda" and re.match(r"None\b|\d{1,2}\.\d", value):
        facts.say("torch cuda", value.split()[0].strip("'\""), number, "program")
    elif name == "torch.version.hip" and re.match(r"None\b|\d\.\d", value):
        facts.say("torch hip", value.split()[0].strip("'\""), number, "program")
    elif name == "torch.cuda.is_available" and (
        said := re.match(
            r"(?i)(?:(?:i get|(?:it|which|that) (?:(?:always|still|only|just|now) )?(?:is|returns|gives|says|prints)"
            r"|returns|gives|->|=>) ?)?(true|false)\b",
            value,
        )
    ):
        facts.say("available", said[1].title(), number, "program")
    elif name == "torch.cuda.get_device_name" and 3 < len(value) < 80 and "Error" not in value:
        facts.gpus.append(NamedGpu(number, "program", name=value))
    elif name == "torch.cuda.get_arch_list" and (
        archs := re.findall(r"(?:sm|compute)_\d{2,3}[af]?|gfx[0-9a-f]{3,4}", value)
    ):
        facts.say("archs", " ".join(archs), number, "program")
    elif name == "torch.cuda.device_count" and (count := re.match(r"\d{1,2}\b", value)):
        facts.say("available", str(int(count[0]) > 0), number, "program")


def two_lines_say(lines: tuple[Line, ...], facts: Facts) -> None:
    """ "CUDA AVAILABLE:" with its answer on the next line."""
    said = [line for line in lines if line.text.strip()]
    for line, following in pairwise(said):
        if (
            "vailable" in line.text.lower()
            and re.fullmatch(r"\s*(?:torch )?(?:cuda|gpu)[ _]available\??\s?:?\s*", line.text, re.I)
            and re.fullmatch(r"\s*(?:True|False)\s*", following.text)
        ):
            facts.say("available", following.text.strip(), following.number, "program")
