"""What single programs print about the machine when they start: ollama, ComfyUI, the Stable Diffusion web UIs.

And from which system a text is.
"""

from __future__ import annotations

import re
from itertools import islice

from gpudoctor.intake.text.facts import Facts, NamedGpu
from gpudoctor.intake.text.lines import Line, text_of
from gpudoctor.intake.text.properties import vendor_of
from gpudoctor.intake.text.prose import sentence_around
from gpudoctor.late_regex import late
from gpudoctor.line_search import lines_with
from gpudoctor.matrix.questions import Matrix

_OLLAMA = late(r"msg=\"?(?:inference compute|types)\"?")
_FIELD = late(r"(?P<key>\w{2,20})=(?P<value>\"[^\"]{0,200}\"|\S{1,200})")
_OLLAMA_AMD = late(
    r"msg=\"?(?:amdgpu is not supported|unsupported Radeon iGPU|a"
    r"mdgpu is supported).{0,400}?gpu_type=(?P<gfx>gfx[0-9a-f]{3,4})"
)
_GGML = late(
    r"Device (?P<index>\d{1,2}): (?P<name>[^,\n]{3,80}), (?:compute capability "
    r"(?P<major>\d{1,2})\.(?P<minor>\d)|(?P<gfx>gfx[0-9a-f]{3,4}))"
)
_GGML_HEAD = late(r"found \d{1,2} (?P<kind>ROCm|CUDA) devices")
_MOST_DEVICES = 20
"""Lines below that head which are about its devices."""
_TORCH = late(
    r"(?:pytorch version|[Tt]orch)(?::?\s{1,3}|={2,3}(?=\d))[`*'\"]{0,2}"
    r"(?P<version>\d\.\d{1,2}\.\d{1,2}(?:[\w.]{0,20})(?:\+[\w.]{2,40})?)(?![\w.])"
)
_WITH_BUILD = late(
    r"(?i)\b(?:py)?torch(?:[ =]{1,3}|(?: in (?:my|the|this|our) \w{1,20})? is (?:still |at )?)"
    r"v?(?P<version>\d\.\d{1,2}(?:\.\d{1,2})?)[ (,+]{1,3}(?:with )?"
    r"(?P<build>cu1[0-3]\d|rocm\d\.\d)\b"
    r"|\b(?P<before>cu1[0-3]\d|rocm\d\.\d) (?:build|wheel|version) of (?:py)?torch "
    r"(?P<of>\d\.\d{1,2}(?:\.\d{1,2})?)(?!\w|\.\w)"
)
"""A sentence that names a release of torch and its build: "torch 2.8 cu129", "a cu130 build of torch 2.10"."""
_BUILD_BEHIND = late(
    r"(?i)[ (,-]{1,3}(?:with )?(?P<build>cu1[0-3]\d\b|rocm\d\.\d\b"
    r"|(?<=-)cpu\b|(?<!, )cpu(?=[ -]?only\b| (?:build|version|wheel)\b|\)|[,.;]?(?:\s*$|,)))"
)
"""The build that stands behind a version: "2.8.0 (cu129)", "2.5.1-cpu", and not "2.8.0, CPU: Ryzen 5"."""
_RELEASE = late(r"(?i)\b(?:py)?torch v?(?P<version>[12]\.\d{1,2})(?![\w+]|\.\w)")
"""The same without the last figure, and without a build."""
_ALONE = late(r"\s{0,8}['\"]?(?P<version>[12]\.\d{1,2}\.\d{1,2}[\w.]{0,20}\+(?:rocm\d|cu1\d)[\w.]{1,30})['\"]?\s*")
"""What `print(torch.__version__)` prints."""
_CUDA_BESIDE = late(r"[ ,(/+-]{1,3}(?:with |for )?CUDA[ :]{0,2}(?P<cuda>1\d\.\d)\b")
_SDNEXT = late(r".{0,40}INFO\s{1,8}Torch: torch==(?P<version>\d\S{2,40})")
_NOT_INSTALLED = late(
    r"(?i)used to build|\[conda\]|pip (?!list|show|freeze)|install(?!ed\b)|requires?|needs?|upgrade|downgrad"
    r"|built (?:for|with)|compiled|compatible|>=|<|nightly build|from|works|before|after|tried|not yet|\(you have"
    r"|previously|used to|\bhad\b|depends|because|fix(?:ed|es)|solved|conflict"
)
"""Words of a sentence about a torch that need not be the present one."""
_FEW_WORDS = 3
"""A program's line has no more before the name of torch; a sentence that a person wrote has."""
_YOLO = late(
    r"Python-3\.\d{1,2}\S{0,8} torch-(?P<version>\d\.\d{1,2}\.\d{1,2}[\w.+]{0,40})"
    r"(?: CUDA:(?P<index>\d{1,2}) \((?P<name>[^,()]{2,60}), \d{3,7}MiB\))?"
)
"""What Ultralytics' programs print when they start."""
_XFORMERS = late(r"xformers(?: version)?:\s{0,3}(?P<version>\d\.\d[\w.+]{0,30})|^xFormers (?P<head>0\.[\w.+]{3,30})$")
_XFORMERS_SAW = late(r"pytorch\.cuda:\s+(?P<not>not )?available$")
_BITSANDBYTES = late(r"=+ bitsandbytes v(?P<version>\d\.\d[\w.+]{0,30}) =+")
_DEVICE = late(
    r"Device: (?:cuda|hip):?(?P<index>\d{0,2}) (?P<name>[^:\n]{3,80}?)(?: : \w+)?$|Using device: "
    r"(?:cuda:)?(?P<other>NVIDIA [^\n]{3,60}|AMD [^\n]{3,60})"
)
_VLLM = late(r"(?:vLLM (?:API server )?version v?|vllm-openai:v)(?P<version>\d+\.\d+[\w.+]{0,30})")
_AMD_ARCH = late(r"AMD arch: (?P<gfx>gfx[0-9a-f]{3,4})")
_PROSE_PACKAGE = late(
    r"^\s{0,8}(?:[-*] )?(?:torch|pytorch|PyTorch)[ =:]{1,3}v?(?P<version>\d\.\d{1,2}(?:\.\d{1,2})?"
    r"(?:[\w.]{0,12})(?:\+[\w.]{2,40})?)\s*$"
)
_REMOVED_BY_UV = late(r" - [\w.-]{1,80}==\S{1,60}\s{0,8}$")
_PRINTED_VERSION = late(r"torch\.__version__['\"]?\s{0,3}[:=]\s{0,3}['\"]?(?P<version>\d\.\d{1,2}[\w.+]{0,60})")

_RENDERER = late(r"\s{0,12}OpenGL renderer string: (?P<chip>NAVI\d\d) \(")
_OPENGL = late(
    r"\s{0,12}(?:OpenGL (?:core profile )?version string: |Attribute 'NvidiaDriverVersion' .{0,60}: )"
    r"(?:\d\.\d\.\d NVIDIA )?(?P<driver>\d{3}\.\d{2,3}(?:\.\d{2})?)"
)
"""What glxinfo and nvidia-settings print of the driver."""

_WINDOWS = late(
    r"(?i)\b[A-Z]:\\(?:Users|Program|Windows|AI\b|ComfyUI|\w)|microsoft windows|(?<![a-z])windows[- ]?(?:10"
    r"|11|server|7|8)(?![a-z\d])|(?<![a-z])win(?:10|11)\b|platform: (?:win32|windows)|os: windows"
    r"|\\site-packages\\|nvcuda\.dll|cudnn64_\d|\.dll\b.{0,40}(?:not found|could not|failed|error)"
    r"|win32_videocontroller|WinError|\\AppData\\|WindowsPath|Scripts\\activate|\.pyd\b|\[MSC v\.\d{4} "
)
_MACOS = late(
    r"(?i)\bmac ?os\b|\bos x\b|darwin-?\d|macosx_|/Users/[^/\s]+/(?:Library|Documents|miniconda"
    r"|anaconda|miniforge|\.venv|opt)|\bFile \"/Users/|\bmps\b.{0,20}(?:device|backend|available)|Apple M\d"
    r"|\bmac ?book|\bM[1-5] ?(?:mac|pro|max|ultra|chip)s?\b|(?<![a-z])mac(?=[\u4e00-\u9fff])"
    r"|\bmy (?:\w+ )?mac\b(?! ?address)|\b(?:have|got|own|bought|use|using) an? (?:\w+ )?mac\b(?! ?address)"
    r"|\bmac (?:mini|studio|m\d)\b"
)
_WSL = late(r"(?i)microsoft-standard-WSL2|\bWSL ?2?\b|/usr/lib/wsl/|/dev/dxg|/mnt/[cd]/")


_SYSTEMS = (
    ("windows", _WINDOWS, (
        "\\", "win1", "Win1", "indows", "win32", ".dll", "WinError", ".pyd", "INDOWS", "Win32", "[MSC v",
    )),
    ("macos", _MACOS, (
        "mac", "Mac", "MAC", "arwin", "OS X", "os x", "Apple M", "mps", "/Users/",
        *(f"{m}{n}" for m in "mM" for n in "12345"),
    )),
    ("wsl", _WSL, ("WSL", "wsl", "/dev/dxg", "/mnt/")),
)  # fmt: skip
"""Systems, what tells of them, and texts of which one is in every line that does."""
_EVERYWHERE = late(
    r"(?i)\bLinux\b[^,;]{0,30}, (?:WSL ?2?\b[^,;]{0,20}(?:,|,? (?:and|or)) Windows"
    r"|Windows\b[^,;]{0,10}(?:,|,? (?:and|or)) WSL)"
    r"|\bWindows\b[^,;]{0,10}, WSL ?2?\b[^,;]{0,20}(?:,|,? (?:and|or)) Linux\b"
)
"""It is so on each of them: none is the one that the rest of the text is about."""
_ASKED_OR_DENIED = late(
    r"(?i)\b(?:see|check|test|find out) (?:if|whether) (?:we|it|this)\b|\b(?:non-|not (?:(?:on|in|a|under) )?)WSL"
)
"""As nvidia-container-cli writes in each of its logs: "to see if we are running under ... (WSL)"."""
_INSTALLS = late(r"\b(?:pip3?|uv|conda|mamba|apt|apt-get|dnf)\b.{0,40}\b(?:un)?install\b")
_TORCHS_NAME = late(r"(?i)\b(?:py)?torch\b(?![-_])")
_PATH = late(r"(?:/[\w.+-]+)+/[\w.+-]*")
"""Folders that people named, and addresses."""
_SSH = late(r"(?i)(?<![./\\])\bssh(?:ed|ing)?\b(?![./\\])(?! (?:in)?to (?:it|that|this)\b)")
_SSH_TO = late(r"(?i)\bssh(?:ed|ing)? (?:in)?to (?:\w+ ){0,2}$")


def read_programs(lines: tuple[Line, ...], facts: Facts) -> None:
    """Facts in the start-up lines of programs."""
    whole = text_of(lines)
    signs = {row[0]: frozenset(lines_with(row[2], whole)) for row in _SYSTEMS}
    unseen = [row for row in _SYSTEMS if signs[row[0]]]
    for place, (number, text) in enumerate(lines):
        if "Torch is not able to use GPU" in text:  # the start of the Stable Diffusion web UIs
            facts.say("available", "False", number, "program")
        if "WSL" in text and _EVERYWHERE.search(text):
            unseen, facts.said = [], [one for one in facts.said if not one.what.startswith("system ")]
        for row in unseen:
            if place in signs[row[0]] and (found := row[1].search(text)) and not _is_aside(text, found):
                facts.say(f"system {row[0]}", text.strip()[:200], number, "prose")
                unseen = [other for other in unseen if other != row]
        if "msg=" in text and _OLLAMA.search(text):
            _ollama(number, text, facts)
        elif "msg=" in text and (found := _OLLAMA_AMD.search(text)):
            facts.gpus.append(NamedGpu(number, "program", arch=found["gfx"]))
        if "Device" in text or "device" in text:
            _device(number, text, facts, rocm=_is_below_rocm(place, lines))
        if "orch" in text:
            _torch(number, text, facts)
        elif ("+rocm" in text or "+cu1" in text) and (alone := _ALONE.fullmatch(text)):
            facts.say("torch", alone["version"], number, "program")
        if "AMD arch" in text and (arch := _AMD_ARCH.search(text)):
            facts.gpus.append(NamedGpu(number, "program", arch=arch["gfx"]))
        if "ormers" in text and (found := _XFORMERS.search(text)):
            facts.say("package xformers", found["version"] or found["head"], number, "program")
        if "pytorch.cuda" in text and (found := _XFORMERS_SAW.match(text)):
            facts.say("available", str(not found["not"]), number, "program")
        if "bitsandbytes v" in text and (found := _BITSANDBYTES.match(text)):
            facts.say("package bitsandbytes", found["version"], number, "program")
        if ("NVIDIA" in text or "NvidiaDriver" in text) and (found := _OPENGL.match(text)):
            facts.say("driver", found["driver"], number, "program")
        if "NAVI" in text and (found := _RENDERER.match(text)):
            facts.gpus.append(NamedGpu(number, "list", name=found["chip"]))
        if ("vLLM" in text or "vllm-openai:" in text) and (found := _VLLM.search(text)):
            facts.say("package vllm", found["version"], number, "program")


def _is_aside(text: str, system: re.Match[str]) -> bool:
    """Whether a line only asks for a system, or names that of the machine from which a person uses another one."""
    desk = bool(_SSH.search(text)) and not _SSH_TO.search(text[: system.start()])
    return desk or bool(_ASKED_OR_DENIED.search(text))


def _ollama(number: int, text: str, facts: Facts) -> None:
    """ollama's line about each GPU: library=cuda compute=8.6 driver=12.4 name=... (older: variant=v12)."""
    fields = {found["key"]: found["value"].strip('"') for found in _FIELD.finditer(text)}
    library, compute, name = (fields.get(key, "") for key in ("library", "compute", "name"))
    bdf = fields.get("pci_id", "")
    if library.lower().startswith(("cuda", "rocm", "hip", "vulkan")):
        facts.say("gpu started", text, number, "program")
    if library.lower().startswith("cuda") and (number_of := re.fullmatch(r"(\d{1,2})\.(\d)", compute)):
        arch = f"sm_{number_of[1]}{number_of[2]}"
        facts.gpus.append(NamedGpu(number, "program", name=fields.get("description", name), arch=arch, bdf=bdf))
    elif library.lower().startswith(("rocm", "hip")) and re.fullmatch(r"gfx[0-9a-f]{3,4}", compute):
        facts.gpus.append(NamedGpu(number, "program", name=fields.get("description", ""), arch=compute, bdf=bdf))
    if library.lower().startswith("cuda") and re.fullmatch(r"\d{1,2}\.\d", fields.get("driver", "")):
        facts.say("driver cuda", fields["driver"], number, "program")


def _is_below_rocm(place: int, lines: tuple[Line, ...]) -> bool:
    """Whether ggml counts the devices of ROCm in the lines above, and none of CUDA behind them."""
    heads = (_GGML_HEAD.search(line.text) for line in reversed(lines[max(0, place - _MOST_DEVICES) : place]))
    return any(head["kind"] == "ROCm" for head in islice(filter(None, heads), 1))


def _device(number: int, text: str, facts: Facts, *, rocm: bool) -> None:
    if found := _GGML.search(text):
        name = found["name"].strip()
        amd = rocm or vendor_of({"name": name}) == "amd"
        # Of an AMD GPU the number is the beginning of its target, "11.0" of gfx1100 to gfx1103: its name tells which.
        arch = found["gfx"] or ("" if amd else f"sm_{found['major']}{found['minor']}")
        name = f"AMD {name}" if amd and not vendor_of({"name": name}) else name
        facts.gpus.append(NamedGpu(number, "program", name=name, index=int(found["index"]), arch=arch))
        facts.say("gpu started", text, number, "program")
    elif found := _DEVICE.search(text):
        name = found["name"] or found["other"]
        index = int(found["index"]) if found["index"] else None
        facts.gpus.append(NamedGpu(number, "program", name=name.strip(), index=index))
        facts.say("available", "True", number, "program")  # torch has asked the GPU for its name


def _torch(number: int, text: str, facts: Facts) -> None:
    if logged := _SDNEXT.match(text):
        facts.say("torch", logged["version"], number, "program")
    elif printed := _PRINTED_VERSION.search(text):
        facts.say("torch", printed["version"].rstrip("."), number, "program")
    elif yolo := _YOLO.search(text):
        facts.say("torch", yolo["version"].rstrip("."), number, "program")
        if yolo["name"]:
            facts.gpus.append(NamedGpu(number, "program", name=yolo["name"], index=int(yolo["index"])))
    elif _REMOVED_BY_UV.match(text) or "o matching distribution" in text:  # nothing that is installed
        return
    elif plain := _PROSE_PACKAGE.match(text):
        facts.say("torch", plain["version"], number, "list")
    elif (found := _TORCH.search(text)) and not _NOT_INSTALLED.search(sentence_around(text, found)):
        few = len(text[: found.start()].split()) < _FEW_WORDS
        in_sentence = "==" in found[0] or (":" not in found[0] and not few)
        if beside := _CUDA_BESIDE.match(text, found.end()):
            facts.say("torch cuda", beside["cuda"], number, "prose")
        version, build = found["version"].rstrip("."), _BUILD_BEHIND.match(text, found.end())
        version += f"+{build['build'].lower()}" if build and "+" not in version else ""
        facts.say("torch", version, number, "prose" if in_sentence else "program")
    elif build := _WITH_BUILD.search(text):
        version = build["version"] or build["of"]
        release = version if version.count(".") > 1 else f"{version}.0"
        facts.say("torch", f"{release}+{(build['build'] or build['before']).lower()}", number, "prose")
    elif (
        "conda" not in text  # whose builds have other code
        and (bare := _RELEASE.search(text))
        and not _CUDA_BESIDE.match(text, bare.end())  # which `torch_history` reads
        and not _NOT_INSTALLED.search(sentence_around(text, bare))
    ):
        facts.say("release of torch", f"{bare['version']}.0", number, "prose")


def read_what_it_is_about(lines: tuple[Line, ...], facts: Facts, matrix: Matrix) -> None:
    """The program or package with a build of its own for a GPU that the title names; else the only one that the text
    names beside its lists of packages and the commands of installers; else the only one that those name."""
    listed = {said.line for said in facts.said if said.what.startswith("package ") and said.by != "prose"}
    texts = [_PATH.sub(" ", line.text) for line in lines if line.text.strip() and line.number not in listed]
    facts.names_torch = any(map(_TORCHS_NAME.search, texts))
    told = [text for text in texts if not _INSTALLS.search(text)]
    for words in (texts[0].lower(), "\n".join(told).lower(), "\n".join(texts).lower()) if texts else ():
        if named := matrix.programs_named(words):
            facts.about = named[0].program if len(named) == 1 else ""
            return
