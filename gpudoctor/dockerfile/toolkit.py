"""CUDA's toolkit in an image: the compiler, and the stub of libcuda."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpudoctor.dockerfile.image import Image, Step
from gpudoctor.dockerfile.unreadable_commands import installs_unread

_TOOLKIT = re.compile(
    r"nvcc|cuda-?toolkit|cuda-\d|cuda-compiler|cuda-driver-dev|cuda_\d|conda|mamba|spack|nvhpc", re.IGNORECASE
)
_WITH_CUDA = re.compile(r"cuda|^/(usr(/local)?/?)?$")
"""A folder that may hold /usr/local/cuda."""


def without_toolkit(image: Image, steps: Sequence[Step]) -> bool:
    """Whether the base image has no toolkit, and none of these steps may bring one."""
    facts = image.facts
    if not facts.known or facts.compiler or facts.vendor == "amd" or facts.origin in ("ngc", "jetson"):
        return False
    return not any(_may_bring_it(image, one) for one in steps)


def without_stubs(image: Image, folder: str) -> bool:
    """Whether a folder of stubs is surely not there: only the toolkit has it."""
    copied = (part for one in image.copied if one.origin for part in (*one.sources, one.target))
    return (
        folder.startswith("/usr/local/cuda")
        and without_toolkit(image, image.steps)
        and not any(map(_WITH_CUDA.search, copied))
    )


def _may_bring_it(image: Image, step: Step) -> bool:
    """Whether a step may bring an nvcc that a setup.py finds. Files that pip reads do not."""
    if step.installs and step.pip.tool != "conda":
        return any(one.name.startswith("nvidia-cuda-nvcc") for one in step.pip.requirements)
    return installs_unread(image, step) or _TOOLKIT.search(step.command.text) is not None
