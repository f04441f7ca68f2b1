"""cuda-compat in an image: a newer libcuda, which runs on the older driver of a host with data-centre GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gpudoctor.dockerfile.image import Image
from gpudoctor.dockerfile.installs import system_packages
from gpudoctor.machine import Library

if TYPE_CHECKING:
    from gpudoctor.machine import Gpu
    from gpudoctor.matrix.questions import Matrix


def named_folders(image: Image) -> list[str]:
    """The folders of cuda-compat in LD_LIBRARY_PATH of the image."""
    value = image.variable("LD_LIBRARY_PATH") or ""
    return [part for part in value.split(":") if re.search(r"/compat/?$", part)]


def compat_cuda(image: Image) -> str | None:
    """The CUDA of the cuda-compat that containers of the image load: one that LD_LIBRARY_PATH names, or that of the
    base image, which the container toolkit loads where it helps. None: there is none, or its CUDA is not known."""
    base = image.facts.cuda if image.facts.compat else None
    commands = (step.command for step in image.steps if not step.command.maybe)
    packages = (re.match(r"cuda-compat-(\d+)-(\d+)", name) for one in commands for name in system_packages(one))
    installed = {f"{found[1]}.{found[2]}" for found in packages if found}
    for folder in named_folders(image):
        version = re.search(r"/cuda-(\d+\.\d+)/", folder)
        cuda = version[1] if version else base
        return cuda if cuda in installed or cuda == base else None
    return base


def compat_library(image: Image, matrix: Matrix, gpus: Iterable[Gpu], driver: str) -> Library | None:
    """The libcuda of cuda-compat, if containers of the image load it on these GPUs with this driver."""
    ours = [gpu for gpu in gpus if gpu.vendor == "nvidia"]
    cuda = compat_cuda(image)
    if not (cuda and driver and ours) or not all(gpu.datacenter for gpu in ours):
        return None
    version = matrix.nvidia.compat_driver(cuda, driver)
    if version is None:
        return None
    folder = next(iter(named_folders(image)), "/usr/local/cuda/compat").rstrip("/")
    return Library(
        name="libcuda.so.1", path=f"{folder}/libcuda.so.{version}", version=version, kind="compat", via="the image"
    )
