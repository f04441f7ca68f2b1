"""Libraries of packages beside the frameworks: the packages they belong to, and whose GPUs they compute on."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable

from gpudoctor.machine import Extension, Vendor
from gpudoctor.situation import Situation
from gpudoctor.situation.gpu_groups import group_by

_NVIDIA = ("libcu", "libnv", "libnccl", "libnpp", "libc10_cuda", "libtorch_cuda")
_NAMED = r"cuda|rocm|gpu|-cu\d\d|migraphx|tensorrt"


def by_package(situation: Situation) -> dict[str, tuple[Extension, ...]]:
    """The extensions of each package."""
    return group_by(situation.machine.extensions, lambda one: one.package)


def alternatives(extensions: Iterable[Extension]) -> dict[str, tuple[Extension, ...]]:
    """Libraries whose paths differ only in numbers are for different releases or GPUs, and one of them is loaded:
    libbitsandbytes_cuda126.so and _cuda130.so, sm90/common_ops.abi3.so and sm100/common_ops.abi3.so."""
    return group_by(extensions, lambda one: place_of(one.path))


def place_of(path: str) -> str:
    """What the paths of alternatives have in common."""
    return re.sub(r"\d+", "", path)


def vendor_of(extension: Extension) -> Vendor | None:
    """The vendor of the GPUs that it computes on, by its code, else by the libraries that it needs; None if neither
    decides."""
    if extension.sass or extension.ptx:
        return "nvidia"
    if extension.gfx:
        return "amd"
    names = (*extension.needs, *extension.opens, *(one.name for one in extension.missing))
    return None if not names else "nvidia" if names[0].startswith(_NVIDIA) else "amd"


def made_for_gpus(package: str, extensions: Iterable[Extension]) -> bool:
    """Whether a package is of no use without a GPU: its name says so, or it was compiled against torch. Others
    (xgboost, tensorflow) also compute on the CPU, and some people have them for that."""
    return re.search(_NAMED, package) is not None or any(one.of_torch for one in extensions)


def file_of(extension: Extension) -> str:
    """How a message names its file."""
    return posixpath.basename(extension.path)
