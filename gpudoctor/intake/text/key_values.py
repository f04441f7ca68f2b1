"""Lines of the form "Key: value": collect_env and its descendants, the lists of transformers and its kin, the banners
that programs print when they start."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpudoctor.intake.text.facts import By, Facts, NamedGpu
from gpudoctor.intake.text.lines import Line
from gpudoctor.late_regex import late

_LINE = late(
    r"\s{0,12}(?:[-*+•|\[]\s{0,3}|\[\w[\w -]{0,24}\]\s{1,3}|INFO[\s:-]{1,10})?[*_`'\"]{0,3}"
    r"(?P<key>[A-Za-z][A-Za-z0-9_ ./()?`-]{1,60}?)[*_`'\"]{0,3}\s{0,30}(?::(?!:)|=(?!=)"
    r"|\|)[*_`]{0,3}\s{0,40}[`'\"]?(?P<value>.{0,400})$"
)
_NOTHING = late(
    r"(?:could not collect|n/?a|none|no cuda|unknown|not (?:found|installed|available)|null|-+|\?+"
    r"|no response|_no response_"
    r"|<.{0,80}>|\(?e\.g\..{0,80}|\[?e\.g"
    r"\..{0,80}|\.{3}|fill in.{0,60})[.\s]*",
    re.IGNORECASE,
)
"""Values that say nothing: what a tool prints for want of one, and placeholders of issue forms."""

_KEYS = {
    "torch": (
        "pytorch version", "torch version", "torch", "pytorch", "pytorch version gpu", "pytorch_version",
        "torch.__version__", "pytorch build tag", "pytorch build", "torch build",
        "torch_version", "pytorch.version", "pytorch-version", "pytorch version (gpu?)", "- torch",
        "torch version gpu",
    ),
    "torch cuda": (
        "cuda used to build pytorch", "torch.version.cuda", "torch cuda version", "pytorch cuda version",
        "torch cuda",
        "cuda compiled version", "pytorch compiled cuda version", "built with cuda",
    ),
    "torch hip": (
        "rocm used to build pytorch", "torch.version.hip", "rocm version used to build pytorch",
        "hip runtime (torch)",
    ),
    "available": (
        "is cuda available", "cuda available", "torch.cuda.is_available()", "torch.cuda.is_available",
        "gpu available",
        "cuda is available", "is_cuda_available", "cuda_available", "gpu available in torch", "torch cuda available",
        "using gpu", "pytorch gpu available", "is cuda available?",
    ),
    "driver": (
        "nvidia driver version", "driver version", "nvidia driver", "gpu driver", "gpu driver version",
        "cuda driver version", "nvidia_driver_version",
        "nvidia-driver", "driver_version", "nvidia gpu driver version", "nvidia open gpu kernel modules version",
    ),
    "python": ("python version", "python", "python_version", "sys.version"),
    "os": ("os", "operating system", "linux distribution", "distro", "distribution", "host os", "os version",
        "system", "os name", "os platform and distribution", "os image"),
    "platform": ("python platform", "platform"),
    "kernel": ("kernel", "kernel version", "linux kernel", "host kernel", "uname -r", "uname"),
    "arch": ("architecture",),
    "libc": ("libc version", "libc"),
    "cudnn": ("cudnn version", "cudnn"),
    "cuda toolkit": ("cuda runtime version", "nvcc", "nvcc version"),
    "rocm": ("hip runtime version", "rocm version", "rocm", "rocm/miopen version"),
}  # fmt: skip
_BY_KEY = {key: what for what, keys in _KEYS.items() for key in keys}
_GPU_KEYS = frozenset((
    "gpu", "gpus", "gpu type", "gpu model", "gpu models", "gpu name", "graphics card", "video card", "device name",
    "gpu models and configuration", "cuda gpu", "gpu device", "gpu hardware", "gpu(s)", "graphics", "hardware",
    "graphics processor",
    "gpu model and memory",
    "gpu info", "device", "cuda_gpu", "accelerator", "pytorch gpu", "gpu 0 name", "gpu_name", "nvidia gpu",
    "amd gpu", "torch.cuda.get_device_name(0)", "gpu.name",
    "accelerator(s)",
))  # fmt: skip
_GPU_NAME = late(
    r"(?i)nvidia|geforce|rtx|gtx|quadro|tesla|titan|radeon|instinct"
    r"|\bamd\b|\brx ?\d|gfx\d|\b(?:[ahbvltp]\d{1,3}0?|gh200|gb\d{2,3})\b|firepro|jetson|\bmi\d{2,3}"
    r"|arc"
)
_OF_INVENTORIES = late(r"Device-|pci 0x|.{1,120}\[[0-9a-f]{4}\]$|\[[A-Z][^\[\]]{2,80}\]$")
"""What inxi, hwinfo, lspci and amdgpu_top print behind such keys, in a form of their own."""
_GPU_LINE = late(
    r"\s{0,12}(?:[A-Z]{4,9}: )?(?:[-*]\s{0,3})?(?:[*_]{2})?GPU\s?"
    r"(?P<index>\d{1,3}(?:\s?[,-]\s?\d{1,3}){0,63})(?:[*_]{2})?\s?[:=](?:[*_]{2})?\s{1,20}"
    r"(?P<name>(?!(?:10de|1002):)[^\n]{2,160})$"
)
_NEXT_GPU = late(r"[,;/|]?\s{1,4}(?:and )?(?=GPU ?\d{1,2} ?[:=] )")
"""Between the GPUs that a person writes into one line."""
_NO_NAME = late(
    r"(?i)[\s,;(|+-]{1,4}(?:with |on |and )?(?:nvidia[- ])?(?:drivers?|torch|pytorch|cuda|rocm|python|kernel"
    r"|ubuntu|debian|fedora|windows|win1[01])\b.*"
)
"""What people write behind the name of a GPU."""
_CAPABILITY = late(
    r"\s{0,12}GPU (?P<index>\d{1,3}(?:,\d{1,3}){0,63}) Compute Capability: (?P<major>\d{1,2})\.(?P<minor>\d)"
)
_PACKAGES = (
    "accelerate", "bitsandbytes", "deepspeed", "diffusers", "flash-attn", "flash_attn", "flashinfer", "jax", "jaxlib",
    "numpy", "onnxruntime", "onnxruntime-gpu", "peft", "pytorch-lightning", "safetensors", "tensorflow", "torchaudio",
    "torchvision", "transformers", "triton", "trl", "vllm", "xformers", "sglang", "torchao", "torchcodec", "unsloth",
    "optimum", "auto-gptq", "autoawq", "lightning", "nccl",
)  # fmt: skip
_PACKAGE_OF = {
    form: name
    for name in _PACKAGES
    for form in (name, f"{name} version", f"{name} info", name.replace("-", "_"), f"{name}_version")
}
_PLATFORM = late(r"Linux-\d")
"""Of Python's `platform.platform()`."""
_MOST = 64
_KERNEL_OF_WSL = late(r"(\d+\.\d+\.\d{2,3}\.\d)(?:-\d{1,2})?")
"""What `wsl --version` prints of it: "6.6.87.2-1"; no other kernel has four numbers."""
_RELEASE = late(r"(?:\w{4,9} )?(?:Linux )?(?P<release>\d{1,2}\.\d{1,3}\.[\w.+~-]{0,60}\w\+?)(?= |$)")
_OS_NAMES = {"nt": "Windows", "posix": ""}
"""What Python calls systems: Linux and macOS have one name."""
_WITHIN = late(r"(?P<os>Linux), (?P<kind>Docker|Podman)", re.I)
"""What the form of ollama's issues offers."""
_OF_FASTFETCH = late(r"(?: @ [\d.]{1,5} GHz)?(?: \([\d.]{1,6} GiB\))? \[(?:Discrete|Integrated)\]$")
"""What fastfetch writes behind a GPU."""
_NIX = late(r"Linux (?P<kernel>\d[\w.-]{2,40}), (?P<os>NixOS, \d\d\.\d\d)\b")
"""What nix-info prints."""
_BUILD_OF_WINDOWS = late(r"\d{1,2}\.\d\.\d{4,5} N/A")
_ARCHITECTURES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
_START = late(
    r"(?:Collecting environment information|PyTorch version: |- `?(?:transformers"
    r"|accelerate)`? [Vv]ersion|`?Accelerate`? version: )"
)


_ITEM = {"gpu models and configuration": "", "gpus": "", "gpu": "- "}
"""Keys below which the GPUs stand, and what each line of such a list begins with."""
_LEADER = late(r" \.{3,80} (?!\[)")
"""The dots of ds_report."""
_HEADING = late(r"(?:#{1,6}\s|\*\*)\s{0,3}(?P<key>[A-Za-z][A-Za-z0-9_ ./()-]{1,40}?)[*:\s]{0,4}$")
"""A heading of an issue form; its value stands below."""


def read_key_values(lines: Iterable[Line], facts: Facts) -> None:
    """What lines of keys and values say."""
    block, header = 0, 0
    awaiting_gpus, heading, section = "", "", ""
    for number, printed in lines:
        text = _LEADER.sub(": ", printed, count=1) if " ..." in printed else printed
        if ("ersion" in text or "environment" in text) and _START.search(text) and number > header + 3:
            block, header = block + 1, number
            facts.reports.append(number)
        if text.startswith(("#", "*")) and (found := _HEADING.match(text)):
            heading = " ".join(found["key"].lower().split())
            continue
        if heading and text.strip():
            if _is_key(heading) and not ((of_its_own := _LINE.match(text)) and _is_key(_key(of_its_own))):
                _note(heading, text.strip().strip("`*"), number, block, facts)
            heading = ""
        if ":" not in text and "=" not in text and "|" not in text:
            if awaiting_gpus and text.lstrip().startswith(_ITEM[awaiting_gpus]) and _is_gpu_name(text):
                facts.gpus.append(NamedGpu(number, "report", name=text.strip().removeprefix("- "), block=block))
            elif text.strip():
                awaiting_gpus = ""
            continue
        gpu = "GPU" in text
        if gpu and (capability := _CAPABILITY.match(text)):
            arch = f"sm_{capability['major']}{capability['minor']}"
            for index in _indices(capability["index"]):
                facts.say(f"capability {index}", arch, number, "report")
            continue
        if gpu and _GPU_LINE.match(text):
            for listed in filter(None, map(_GPU_LINE.match, _NEXT_GPU.split(text))):
                _gpus_of_a_line(listed["index"], listed["name"], number, block, facts)
            continue
        found = _LINE.match(text)
        if found is None:
            continue
        key = _key(found)
        value = found["value"].strip().strip("`'\"|").rstrip(",;").strip().strip("*`'\"")
        awaiting_gpus = key if key in _ITEM and not value else ""
        section = section if value or awaiting_gpus else key
        if key == "available" and section == "cuda":  # Lightning
            key = "cuda available"
        _note(key, value, number, block, facts)


def _key(line: re.Match[str]) -> str:
    return " ".join(line["key"].replace("`", "").lower().split())


def _is_key(key: str) -> bool:
    return key in _BY_KEY or key in _GPU_KEYS


def _note(key: str, value: str, number: int, block: int, facts: Facts) -> None:
    """What one key with its value says."""
    inner = re.match(r"GPU (\d{1,3}): (.+)", value)
    if key in _GPU_KEYS:
        name = inner[2] if inner else value
        device = re.match(r"(?:cuda|hip|xpu):?(\d{1,2})?[\s:,-]{1,4}(.*)", name)
        if device:  # ComfyUI: "Device: cuda:0 NVIDIA GeForce RTX 4090 : native"
            name = device[2].partition(" : ")[0]
        name = _NO_NAME.sub("", _OF_FASTFETCH.sub("", name))
        names = name.split(", ")
        if len(names) > 1 and len(set(names)) == 1:  # one name for each GPU
            for place, one in enumerate(names[:_MOST]):
                _note(key, f"GPU {place}: {one}", number, block, facts)
            return
        if not _NOTHING.fullmatch(name) and _is_gpu_name(name) and not _OF_INVENTORIES.match(name):
            index = int(inner[1]) if inner else int(device[1]) if device and device[1] else None
            by: By = "program" if key == "device" else "report"
            facts.gpus.append(NamedGpu(number, by, name=name.strip(), index=index, block=block))
            if by == "program" and device:  # torch has asked the GPU for its name
                facts.say("available", "True", number, by)
        return
    if package := _PACKAGE_OF.get(key):
        if version := re.match(r"[v=]{0,2}(\d[\w.+!-]{0,60})", value):
            facts.say(f"package {package.replace('_', '-')}", version[1], number, "report")
        return
    what = _BY_KEY.get(key)
    if what is None:
        return
    if what in ("torch cuda", "torch hip"):
        facts.say(what, value, number, "report")  # "None" says that it is no build of that kind
        if said := re.search(r" / is ((?i:\*{0,2}not)?)[ *]{0,3}available", value):  # fastai
            facts.say("available", str(not said[1]), number, "report")
    elif what == "torch":
        _torch(value, number, facts)
    elif _NOTHING.fullmatch(value):
        return
    elif what in ("os", "arch", "kernel"):
        _system(what, value, number, facts)
    elif what == "available":
        if said := re.match(r"(true|yes|1\b|false|no\b|0\b)", value.lower()):
            facts.say("available", str(said[1] in ("true", "yes", "1")), number, "report")
    elif what == "driver":
        if version := re.search(r"(?<![\d.])(\d{3}\.\d{2,3}(?:\.\d{1,2})?)(?!\d)", value):
            facts.say("driver", version[1], number, "report")
    elif what == "python":
        if version := re.match(r"\D{0,8}(3\.\d{1,2})(?!\d)", value):
            facts.say("python", version[1], number, "report")
    else:
        facts.say(what, value.rstrip("."), number, "report")


def _system(what: str, value: str, number: int, facts: Facts) -> None:
    if what == "arch":
        facts.say(what, _ARCHITECTURES.get(value.lower().replace("-", "_"), ""), number, "report")
    elif what == "kernel":
        told = _RELEASE.match(value)  # screenfetch names the processor before it, inxi the distribution behind it
        release = told["release"] if told else value.removeprefix("Linux ").rstrip(".")
        of_wsl = _KERNEL_OF_WSL.fullmatch(release)
        facts.say(what, f"{of_wsl[1]}-microsoft-standard-WSL2" if of_wsl else release, number, "report")
    elif value.lower() in _OS_NAMES:
        if name := _OS_NAMES[value.lower()]:
            facts.say("os", name, number, "report")
    elif _PLATFORM.match(value):
        facts.say("platform", value, number, "report")
    elif inside := _WITHIN.fullmatch(value):
        facts.say("os", inside["os"], number, "report")
        facts.say("container", inside["kind"].lower(), number, "report")
    elif nix := _NIX.match(value):
        facts.say("kernel", nix["kernel"], number, "report")
        facts.say("os", nix["os"].replace(",", ""), number, "report")
    elif not _BUILD_OF_WINDOWS.match(value):  # "linux" says less than whatever else names the system
        facts.say("os", value.rstrip("."), number, "prose" if value.lower() == "linux" else "report")


def _torch(value: str, number: int, facts: Facts) -> None:
    """ "2.5.1+cu124", "2.1.0+cu121 (True)", "2.8.0+cu128 with CUDA"."""
    if version := re.match(
        r"[v=]{0,2}(\d{1,2}\.\d{1,3}[\w.+-]{0,60})(?:\s\((?:(?:yes|available)|(?P<available>True|False|NA))\))?",
        value,
    ):
        facts.say("torch", version[1].rstrip("."), number, "report")
        if version["available"] in ("True", "False"):
            facts.say("available", version["available"], number, "report")
    elif re.match(r"(?:not installed|N/A)", value):
        facts.say("torch missing", value, number, "report")


def _gpus_of_a_line(indices: str, name: str, number: int, block: int, facts: Facts) -> None:
    """ "GPU 0: NVIDIA A100", "GPU 0,1,2,3: NVIDIA H100 80GB HBM3"."""
    if _NOTHING.fullmatch(name.strip()) or not _is_gpu_name(name):
        return
    name = _NO_NAME.sub("", _OF_FASTFETCH.sub("", re.sub(r"\((?:UUID:|Compute).*", "", name).strip()))
    for index in _indices(indices):
        facts.gpus.append(NamedGpu(number, "report", name=name, index=index, block=block))


def _indices(listed: str) -> list[int]:
    """ "0,2-4" are 0, 2, 3 and 4; at most 64."""
    places: list[int] = []
    for part in listed.replace(" ", "").split(","):
        ends = [int(number) for number in part.split("-")]
        places += range(ends[0], min(ends[-1], ends[0] + 63) + 1)
    return places[:64]


def _is_gpu_name(text: str) -> bool:
    """Whether a value may name a GPU; most keys "device" or "hardware" hold something else."""
    return len(text) < 160 and _GPU_NAME.search(text) is not None
