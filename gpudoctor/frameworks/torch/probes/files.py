"""What torch's own files say about it: version, CUDA, ROCm, build and origin.

torch/version.py is parsed as text and never run. A wheel of the package index writes "2.6.0+cu124" there and
"2.6.0" into its metadata; a wheel of the PyTorch index writes the local part into both.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

from msgspec import Struct

from gpudoctor.host import Host
from gpudoctor.machine import Distribution, TorchOrigin
from gpudoctor.matrix.versions import local_version, public_version

_RUNTIMES = ("cuda", "hip", "rocm", "xpu")
_LONGEST_VALUE = 200
_VERSION = r"[0-9]+(\.[0-9]+)*[0-9A-Za-z.+_-]*$"
_INSTALLERS = ("pip", "uv", "poetry", "pdm", "rye", "pipx")
_CUDA_PIN = r"(?:nvidia-cuda-runtime(?:-cu\d+)?|cuda-toolkit(?:\[[^]]*\])?)\s*\(?==(\d+\.\d+)"
_GPU_PINS = ("nvidia-", "cuda-toolkit", "cuda-bindings")


class VersionFile(Struct, frozen=True):
    """torch/version.py: `version` "2.9.1+rocm6.4", `cuda` "12.8", `hip` "6.4.43482-0f2d60242"."""

    version: str
    cuda: str | None = None
    hip: str | None = None
    rocm: str | None = None
    xpu: str | None = None

    @property
    def for_amd(self) -> bool:
        return bool(self.hip or self.rocm)


def parse_version_file(text: str) -> VersionFile | None:
    """The texts that the file assigns; None if it names no version."""
    values: dict[str, str] = {}
    for line in text[: 64 << 10].splitlines():
        target, equals, value = line.partition("=")
        name = target.partition(":")[0].rstrip()  # `cuda: Optional[str] = '12.8'`
        if equals and name in ("__version__", *_RUNTIMES) and (stated := _literal(value.strip())) is not None:
            values.setdefault(name, stated)
    version = values.get("__version__", "")
    if not re.match(_VERSION, version):
        return None
    return VersionFile(version, **{name: values.get(name) or None for name in _RUNTIMES})


def _literal(value: str) -> str | None:
    """The text of a quoted literal, empty for None, True and False; None if it is something else."""
    if value in ("None", "True", "False"):
        return ""
    quote, inner = value[:1], value[1:-1]
    plain = quote in ("'", '"') and value.endswith(quote) and quote not in inner and "\\" not in inner
    return inner if plain and 0 < len(inner) <= _LONGEST_VALUE else None


def read_version_file(host: Host, torch: str) -> VersionFile | None:
    """Reads torch/version.py of a torch folder."""
    return parse_version_file(host.text(posixpath.join(torch, "version.py"), 64 << 10).value or "")


def by_record(record: Distribution) -> VersionFile:
    """What the record alone tells: CUDA or ROCm by its local part ("2.9.1+cu128"), else CUDA by its requirements."""
    local = local_version(record.version).lower()
    cuda, rocm = re.match(r"cu(\d\d)(\d)", local), re.match(r"rocm(\d+\.\d+)", local)
    pinned = (re.match(_CUDA_PIN, line) for line in record.requires if not local)
    return VersionFile(
        version=record.version,
        cuda=f"{cuda[1]}.{cuda[2]}" if cuda else next((pin[1] for pin in pinned if pin), None),
        hip=rocm[1] if rocm else None,
    )


def build_of(file: VersionFile) -> str | None:
    """cu128, rocm6.4, cpu, xpu: from the local part, else from the CUDA or HIP it was built with."""
    local = local_version(file.version).lower()
    if local.startswith("rocm") and (named := re.match(r"rocm\d+(?:\.\d+)*", local)):
        return named.group()
    first = local.partition(".")[0].partition("-")[0]
    if first in ("cpu", "xpu") or (first.startswith("cu") and first[2:].isdecimal() and len(first) in (4, 5)):
        return first
    if file.cuda:
        return "cu" + "".join(file.cuda.split(".")[:2])
    if file.for_amd:
        rocm = rocm_of(file)
        return "rocm" + ".".join(rocm.split(".")[:2]) if rocm else None
    if file.xpu:
        return "xpu"
    return None


def rocm_of(file: VersionFile) -> str | None:
    """The ROCm release of the build: from the local part ("6.2.4"), else from the start of HIP's version."""
    stated = re.match(r"rocm(\d+(?:\.\d+)*)", local_version(file.version).lower())
    if stated:
        return stated.group(1)
    number = re.match(r"\d+\.\d+(?:\.\d{1,2}(?!\d))?", file.rocm or "") or re.match(r"\d+\.\d+", file.hip or "")
    return number.group() if number else None


class OriginFacts(Struct, frozen=True):
    """What tells a torch's origin besides its files."""

    real_path: str
    """Its folder, links followed."""
    distribution: Distribution | None
    conda_channel: str | None = None
    """Channel of the conda record that owns the files; None if conda does not."""
    editable: bool = False
    jetson: bool = False
    ngc: bool = False


def origin_of(file: VersionFile, setting: OriginFacts) -> TorchOrigin:
    """Who built it. The order matters: a tag of only one builder takes precedence over a place or an installer."""
    local, public = local_version(file.version).lower(), public_version(file.version)
    distribution = setting.distribution
    requires = distribution.requires if distribution else ()
    pinned = any(line.lower().startswith(_GPU_PINS) for line in requires)
    if "nv" in local and re.search(r"(^|\.)nv\d\d\.\d\d", local):
        return "jetson" if setting.jetson and not setting.ngc else "ngc"
    if setting.editable:
        return "source"
    if setting.conda_channel is not None or (distribution and distribution.installer == "conda"):
        return "conda-forge" if setting.conda_channel == "conda-forge" else "conda"
    if _owned_by_distribution(setting):
        return "distribution"
    if local.startswith("rocm") and _is_amd(public, local, distribution):
        return "amd"
    if local.startswith("git") or _is_alpha(public):
        return "ngc" if setting.ngc else "source"
    if ".dev" in public and re.search(r"\.dev\d{8}$", public):
        return "nightly"
    if setting.jetson and file.cuda and not pinned:
        return "jetson"
    if distribution is None:
        return "unknown"
    if local_version(distribution.version):
        return "download.pytorch.org" if _is_index_tag(local) else "unknown"
    if local or pinned or (file.cuda is None and file.hip is None):
        return "pypi"
    return "unknown"


def _is_alpha(public: str) -> bool:
    return "a" in public and re.search(r"\da\d+$", public) is not None


def _owned_by_distribution(setting: OriginFacts) -> bool:
    if setting.real_path.startswith(("/nix/store/", "/gnu/store/")):
        return True
    installed = setting.distribution is not None and setting.distribution.installer.startswith(_INSTALLERS)
    return setting.real_path.startswith(("/usr/lib/", "/usr/lib64/")) and not installed


def _is_amd(public: str, local: str, distribution: Distribution | None) -> bool:
    """Whether AMD built the wheel.

    AMD's wheels name a commit or all three numbers of their ROCm ("rocm7.1.1.lw.git351ff442", "rocm7.14.0"); their
    previews are alphas. The PyTorch index names two numbers since 6.3, three only for 5.1.1, 5.4.2, 6.2.4.
    """
    numbers = re.match(r"rocm(\d+)\.(\d+)(\.\d+)?(.*)$", local)
    if numbers is None:
        return False
    if "git" in numbers.group(4) or "lw" in numbers.group(4) or re.match(r"a\d", numbers.group(4)):
        return True
    if _is_alpha(public):
        return True
    if distribution and re.search(r"//repo\.(radeon|amd)\.com/", distribution.direct_url):
        return True
    return numbers.group(3) is not None and (int(numbers.group(1)), int(numbers.group(2))) >= (6, 3)


def _is_index_tag(local: str) -> bool:
    return (
        re.fullmatch(r"cu\d{2,3}|cpu(\.cxx11\.abi)?|xpu|rocm\d+(\.\d+)*|cu\d+\.(with\.)?pypi\.cudnn", local)
        is not None
    )


def is_ngc(host: Host, environ: Mapping[str, str]) -> bool:
    """Whether this is NVIDIA's own container image of PyTorch."""
    return bool(environ.get("NVIDIA_PYTORCH_VERSION")) or host.exists("/opt/pytorch/pytorch")


def is_jetson(host: Host) -> bool:
    """Whether this is a Tegra board, or a container made for one."""
    if host.exists("/etc/nv_tegra_release"):
        return True
    return "nvidia,tegra" in (host.text("/proc/device-tree/compatible", 4096).value or "")
