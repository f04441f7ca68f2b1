"""Error lines, and the facts that torch's and other programs' own messages hold."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise, takewhile, zip_longest

from gpudoctor.intake.text.facts import Facts, NamedGpu
from gpudoctor.intake.text.hypothetical import is_hypothetical
from gpudoctor.intake.text.lines import Line
from gpudoctor.late_regex import late
from gpudoctor.matrix.errors import Message
from gpudoctor.matrix.questions import Matrix

_EXCEPTION = late(r"\s{0,8}(?:[\w.]{1,80}\.)?[A-Z]\w{2,60}(?:Error|Exception|Warning|Interrupt|Exit|Abort)\b:?")
_ABOUT_GPUS = late(
    r"(?i)cuda|nvidia|nvml|\bhip\b|hipblas|rocm|rocblas|\bhsa|amdgpu|\bgpus?\b|cudnn|cublas|nccl|rccl|triton|ptxas|gfx\d|sm_\d"
    r"|libtorch|_c\.cpython|undefined symbol|kernel image|torch\.cuda|xformers|flash_attn|bitsandbytes"
    r"|\b[rg]tx ?\d|geforce|\brx ?\d{3}|radeon"
)
_COMPLAINS = late(r"(?i)error\b|\b(?:exception|fail\w*|traceback|warning|denied|crash\w*|cannot|unable)\b")
_MISSING_MODULE = late(r"No module named '(?P<name>[\w.]+)'")
_OF_TORCH = frozenset((
    "torch", "numpy", "typing_extensions", "sympy", "mpmath", "networkx", "jinja2", "fsspec", "filelock", "triton",
    "nvidia", "vllm._C", "vllm._rocm_C", "torch_directml",
))  # fmt: skip
"""Modules that torch itself imports, and compiled parts: only their absence is a fault of the environment that is
examined."""
_MISSING_LIBRARY = late(r"(?P<name>lib[\w.+-]{1,80}?)\.so[\w.]{0,20}: cannot open shared object file")
_OF_GPUS = late(
    r"lib(?:cu|nv|nccl|torch|c10|caffe2|roc(?!k)|hip|hsa|amd|tensilelite|miopen|migraphx|mcwamp|hc_am|rccl|mkl|gomp|cupti|magma|bitsandbytes)",
    re.I,
)
"""Libraries of drivers, toolkits and frameworks: without libGL, say, no GPU is amiss."""
_SUPPOSED = late(r"^(?!.*\b(?:I|[Mm]y|[Ww]e)\b).*\b(?:[Ii]f|[Uu]nless|[Ww]hether|[Ii]n case)\b[^.;:,!?\"'`(]{0,60}$")
"""What stands before a message that nobody has seen: "falls back to the CPU if"."""
_HEADING = late(r"\s*#{1,6}\s+")
"""A title that repeats the message."""
_MOST_WRAPPED = 2000
"""In a longer text the line breaks are the program's own, not a person's."""
_BROKEN_FROM = 60
"""Columns of the narrowest terminal that breaks lines."""
_WHERE = late(r"current device: \d{1,3}, in function ggml_\w{1,80}")
"""What ggml prints on the line below its message: that the message is not torch's."""
_FAILED_PACKAGES = "Errors were encountered while processing:"
"""What dpkg prints above the names of packages that could not be installed."""
_PACKAGE = late(r"\s{0,4}[a-z0-9][a-z0-9.+:-]{1,60}")
_MOST_PACKAGES = 8
_IMPORT_OF_LIBRARY = "ImportError: lib"
_FRAME = late(r"\s{0,4}File \"?(?:[^\"\n]{0,200}(?:site|dist)-packages/)?[a-z]\w{1,60}/")
_PACKAGE_OF_FRAME = late(r"(?P<package>[a-z]\w*)/")
"""The package in a frame of a traceback: below site-packages, or where a compiled module names its source."""
_ASKED = late(
    r"(?:list_physical_devices\(\W?GPU\W?\)|\bjax\.(?:local_)?devices\(\W?\w{0,4}\W?\)|get_available_providers\(\)"
    r"|\b(?:ort|onnxruntime)\.get_device\(\)|is_built_with_cuda\(\))[)\"'`]{0,3}\s*$"
)
"""A call that asks a framework for the GPUs that it can use."""
_QUOTED_COMMAND = late(r"\s{0,8}(?:File \"|\^{2,}|~{3,}|at 0x|#\d{1,3}\s(?!.{0,40}\bhip::FatBinary))")
"""Lines of a traceback, which quote code. Where HIP looks for code for the GPU, the frame itself is the message."""

_WARNING = late(
    r"(?P<name>[^\n]{2,80}?) with CUDA capability sm_(?P<sm>\d{2,3}) is not compatible with the current PyTorch"
)
_BEFORE_A_NAME = late(r"^(?:.*\s(?=NVIDIA |(?<!NVIDIA )(?:GeForce|Tesla|Quadro|TITAN) )|.*Warning: ?|#{1,6} )")
"""It may stand in the middle of a sentence, where its name begins with that of the vendor or a series."""
_SUPPORTS = late(
    r"(?:supports CUDA capabilities|supported by this (?:version of PyTorch|library) is)\s{0,4}"
    r"(?P<archs>(?:(?:sm|compute)_\d{2,3}[af]?[ ,]{0,3}){1,40})"
)
_OLD_GPU = late(
    r"Found GPU(?P<index>\d{1,2}) (?P<name>[^\n]{2,80}?) which is of (?:cuda )?capability "
    r"(?P<major>\d)\.(?P<minor>\d)",
    re.I,
)
_TF_GPU = late(
    r"name: (?P<name>[^,\n]{2,80}), (?:pci bus id: (?P<bdf>[0-9a-f:.]{7,16}), )?compute capability: "
    r"(?P<major>\d{1,2})\.(?P<minor>\d)"
)
_TF_AMD = late(
    r"name: (?P<name>[^,\n]{2,80}), pci bus id: [0-9a-f:.]{7,16}\) with AMDGPU version ?: ?(?P<gfx>gfx\w{3,4})"
)
_PROPERTIES = late(
    r"_CudaDeviceProperties\(name='(?P<name>[^'\n]{3,80})', major=(?P<major>\d{1,2}), minor=(?P<minor>\d)"
    r"(?:.{0,60}gcnArchName='(?P<gfx>gfx[0-9a-f]{3,4})\b)?"
)
"""What torch.cuda.get_device_properties() returns."""
_SERVES = late(r"driver on your system is too old \(found version (?P<version>\d{4,5})\)")
_HAVE = late(r"PyTorch [\w.+]{3,40} with CUDA \w{1,5} \(you have (?P<torch>\d[\w.+-]{2,60})\)")
_BNB = late(
    r"CUDA_VERSION=(?P<cuda>\d{3})(?:, Highest Compute Capability: \(?(?P<major>\d{1,2})[., ]{1,2}(?P<minor>\d))?"
)
_DRIVER_IN_MESSAGE = late(
    r"(?:kernel (?:reported )?(?:version|driver)|driver version|NVIDIA driver)[^\d\n]{1,40}"
    r"(?P<version>\d{3}\.\d{2,3}(?:\.\d{1,2})?)(?!\d)",
    re.I,
)
_KINDS = {
    "cuda": r"Found no NVIDIA driver on your system|The NVIDIA driver on your system is too old"
    r"|error from cudaGetDeviceCount",
    "cpu": r"Torch not compiled with CUDA enabled"
    r"|(?:[Tt]orch built with CUDA|torch\.backends\.cuda\.is_built\(\)|CUDA built)\s?[:=]\s{0,12}False",
    "rocm": r"\bHIP error: |No HIP GPUs are available",
}
"""What only a torch of one kind prints."""
_OF_HIP = ("hipErrorNoBinaryForGpu", "MIOpen(HIP): ", "MIOpen Error: ", "RuntimeError: HIP error", "No HIP GPUs are")
"""What no program for CUDA prints."""
_KIND_SIGNS = late(r"NVIDIA driver|cudaGet|not compiled|HIP |built")
_SMI_HEAD = late(
    r"Driver Version: (?P<driver>\d{3}\.\d{2,3}(?:\.\d{1,2})?)\s{1,30}(?:CUDA Version: (?P<cuda>\d{1,2}\.\d))?"
)


_WITHOUT_CUDA = late(r"CUDA (?:UMD )?Version: ?(?:ERR!|N/A)")
"""In the head of nvidia-smi's table: no libcuda was found there and then."""


def without_refuted(facts: Facts) -> None:
    """Leaves out what a torch that found a GPU refutes: no message, but a missing part of a table."""
    if any(one.what == "available" and one.value == "True" for one in facts.said):
        facts.errors = [line for line in facts.errors if not _WITHOUT_CUDA.search(line.text)]


def read_errors(lines: tuple[Line, ...], facts: Facts, matrix: Matrix) -> None:
    """The error lines whose cause the matrix knows; else the last exception, if it is about GPUs."""
    facts.errors.extend(line for line in _known_messages(lines, matrix) if _counts(line.text))
    if not facts.errors and len(lines) <= _MOST_WRAPPED:
        found = _known_messages((*lines, *_unwrapped(lines)), matrix)  # what a text says elsewhere rules some out
        facts.errors.extend(line for line in found if _counts(line.text))
    if is_harmless(facts.errors, matrix):
        unknown = [line for line in lines if _EXCEPTION.match(line.text) and _ABOUT_GPUS.search(line.text)]
        facts.unexplained.extend(unknown[-1:])
    if not facts.errors:
        complaints = [line.text for line in lines if _COMPLAINS.search(line.text)]
        if complaints and not any(map(_ABOUT_GPUS.search, complaints)):
            facts.off_topic = "no error" if any(_ABOUT_GPUS.search(line.text) for line in lines) else "nothing"


def is_harmless(messages: Iterable[Line], matrix: Matrix) -> bool:
    """Whether no message tells a fault: healthy programs print all of them."""
    rows = (matrix.errors.cause_seen(line.text, None) for line in messages)
    return all(row is not None and row.severity == "note" for row in rows)


def _unwrapped(lines: tuple[Line, ...]) -> Iterator[Line]:
    """Each line with the next one, as a terminal or a person may have broken it in two."""
    for line, following in pairwise(lines):
        if is_hypothetical(line.text) or is_hypothetical(following.text):
            continue
        if following.text[:1] == " " or len(line.text) >= _BROKEN_FROM:
            yield Line(line.number, f"{line.text} {following.text.strip()}")
        if len(line.text) >= _BROKEN_FROM:
            yield Line(line.number, line.text + following.text)


def _known_messages(lines: tuple[Line, ...], matrix: Matrix) -> Iterable[Line]:
    """The lines that hold a known message, each message once, in their order. A heading counts only where the line
    below it names no cause, and a title only where no other line holds its message with more that tells."""
    texts = [line.text for line in lines]
    if any("in function ggml_" in text for text in texts):
        texts = [_with_place(text, following) for text, following in zip_longest(texts, texts[1:], fillvalue="")]
    if any(text.endswith(_FAILED_PACKAGES) for text in texts):
        texts = [
            _with_packages(text, texts[place + 1 : place + 1 + _MOST_PACKAGES]) for place, text in enumerate(texts)
        ]
    if any(map(_ASKED.search, texts)) and any(map(_ABOUT_GPUS.search, texts)):  # else nobody misses one
        texts = [_with_answer(text, texts[place + 1 : place + 3]) for place, text in enumerate(texts)]
    if any(map(_FRAME.match, texts)):
        texts = list(_with_packages_of_frames(texts, matrix))
    first = {text: place for place, text in reversed(list(enumerate(texts)))}
    messages = matrix.errors.messages_in(
        "\n".join(text if first[text] == place else "" for place, text in enumerate(texts))
    )
    named = {message.number for message in messages if message.names_cause}
    title = next((number for number, text in enumerate(texts, 1) if text.strip()), 0)
    return tuple(
        Line(lines[message.number - 1].number, _HEADING.sub("", texts[message.number - 1], count=1).strip())
        for message in messages
        if (message.names_cause or message.number + 1 not in named)
        and not (message.number == title and _is_repeated(message, messages, texts))
        and not _is_supposed(message, texts[message.number - 1])
    )


def _is_repeated(title: Message, messages: Iterable[Message], texts: list[str]) -> bool:
    """Whether the line of another message holds the one of the title, too: that other is the more exact one."""
    pattern = re.compile(title.row.pattern)
    return any(other.number != title.number and pattern.search(texts[other.number - 1]) for other in messages)


def _is_supposed(message: Message, text: str) -> bool:
    found = re.search(message.row.pattern, text)
    return found is not None and _SUPPOSED.match(text[: found.start()]) is not None


def _with_place(text: str, following: str) -> str:
    """A line of ggml's message together with the next one, which tells where it failed."""
    where = _WHERE.search(following)
    return f"{text}, {where[0]}" if where else text


def _with_packages_of_frames(texts: list[str], matrix: Matrix) -> Iterator[str]:
    """Imports that found no library together with the package of the last frame above: it needs that library. Other
    exceptions together with it where it has a build of its own for a GPU."""
    importer = ""
    for text in texts:
        if text.startswith("Traceback (most recent call last)"):
            importer = ""
        elif frame := _FRAME.match(text):
            importer = _PACKAGE_OF_FRAME.findall(frame[0])[-1]
        missing = importer and text.startswith(_IMPORT_OF_LIBRARY) and "cannot open shared object file" in text
        raised = importer and not missing and _EXCEPTION.match(text) and matrix.programs_named(importer)
        yield f"{text} (imported by {importer})" if missing else f"{text} (raised in {importer})" if raised else text


def _with_answer(text: str, following: list[str]) -> str:
    """A call that asks for GPUs together with what it printed."""
    answer = next(filter(None, map(str.strip, following)), "")
    return f"{text} {answer}" if _ASKED.search(text) else text


def _with_packages(text: str, following: list[str]) -> str:
    """A heading of dpkg together with the packages below it."""
    if not text.endswith(_FAILED_PACKAGES):
        return text
    names = takewhile(_PACKAGE.fullmatch, following)
    return " ".join((text, *map(str.strip, names)))


def _counts(text: str) -> bool:
    """Whether a message is one that a program printed of its own environment."""
    missing = _MISSING_MODULE.search(text)
    if missing and missing["name"] not in _OF_TORCH:
        return False
    library = _MISSING_LIBRARY.search(text)
    if library and not _OF_GPUS.match(library["name"]):
        return False
    return not _QUOTED_COMMAND.match(text) and not is_hypothetical(text)


def about_gpus(text: str) -> bool:
    """Whether a line names a GPU or what computes on it."""
    return _ABOUT_GPUS.search(text) is not None


def is_of_torch(text: str) -> bool:
    """Whether an exception is about torch itself, or about a module that it needs."""
    missing = _MISSING_MODULE.search(text)
    return missing["name"].split(".")[0] in _OF_TORCH if missing else "torch" in text or "numpy" in text


def read_messages(lines: Iterable[Line], facts: Facts) -> None:
    """Facts that messages hold: GPUs, architecture lists, versions."""
    for number, text in lines:
        if "is not compatible with" in text and (warning := _WARNING.search(text)):
            name = _BEFORE_A_NAME.sub("", warning["name"]).strip()
            facts.gpus.append(NamedGpu(number, "program", name=name, arch=f"sm_{warning['sm']}"))
        if "upport" in text and (supports := _SUPPORTS.search(text)):
            facts.say(
                "archs", " ".join(re.findall(r"(?:sm|compute)_\d{2,3}[af]?", supports["archs"])), number, "program"
            )
        if "DeviceProperties(" in text and (properties := _PROPERTIES.search(text)):
            amd = re.search(r"AMD|Radeon|Instinct", properties["name"])  # their numbers are no compute capability
            sm = "" if amd else f"sm_{properties['major']}{properties['minor']}"
            facts.gpus.append(NamedGpu(number, "program", name=properties["name"], arch=properties["gfx"] or sm))
        if "apability" in text:
            _capability(text, number, facts)
        if "AMDGPU version" in text and (ignored := _TF_AMD.search(text)):
            facts.gpus.append(NamedGpu(number, "program", name=ignored["name"].strip(), arch=ignored["gfx"]))
        if "is too old" in text and (serves := _SERVES.search(text)):
            facts.say(
                "driver cuda",
                f"{int(serves['version']) // 1000}.{int(serves['version']) % 1000 // 10}",
                number,
                "program",
            )
        if "you have" in text and (have := _HAVE.search(text)):
            facts.say("torch", have["torch"], number, "program")
        if "PyTorch settings found" in text and (said := _BNB.search(text)):
            facts.say("torch cuda", f"{said['cuda'][:2]}.{said['cuda'][2]}", number, "program")
            if said["major"]:
                facts.gpus.append(NamedGpu(number, "program", arch=f"sm_{said['major']}{said['minor']}"))
        if any(sign in text for sign in _OF_HIP):
            facts.say("hip printed", "yes", number, "program")
        for kind, pattern in _KINDS.items() if _KIND_SIGNS.search(text) else ():
            if re.search(pattern, text):
                facts.say("torch kind", kind, number, "program")
        if "Driver Version: " in text and (head := _SMI_HEAD.search(text)):
            facts.say("driver", head["driver"], number, "tool")
            facts.say("driver cuda", head["cuda"] or "", number, "tool")
        elif "river" in text and (driver := _DRIVER_IN_MESSAGE.search(text)):
            facts.say("driver", driver["version"], number, "program")


def _capability(text: str, number: int, facts: Facts) -> None:
    """GPUs that a message tells with their compute capability."""
    for pattern in (_OLD_GPU, _TF_GPU):
        if found := pattern.search(text):
            arch = f"sm_{found['major']}{found['minor']}"
            facts.gpus.append(NamedGpu(number, "program", name=found["name"].strip(), arch=arch))
            return
