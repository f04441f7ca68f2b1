"""Visibility variables of a text that names fewer GPUs than its machine has."""

from __future__ import annotations

import re

from msgspec.structs import replace

from gpudoctor.intake.text.facts import Facts
from gpudoctor.intake.text.ranking import decided
from gpudoctor.machine import Machine
from gpudoctor.matrix.questions import Matrix

_NAMES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
_OF_A_SEEN_GPU = (
    "torch-no-arch-for-gpu", "torch-dropped-old-gpu", "torch-rocm-no-arch-for-gpu", "rocblas-no-arch",
    "gpu-busy-or-exclusive", "gpu-too-old-for-feature",
)  # fmt: skip
"""Causes of messages that a program prints only where it sees a GPU."""


def without_other_gpus(machine: Machine, facts: Facts, matrix: Matrix) -> Machine:
    """The machine without a variable that chooses one of the GPUs that the text does not name: it says that there are
    several, or a message shows that the program sees the chosen one."""
    if not machine.gpus or not (decided(facts, "several gpus") or _sees_a_gpu(machine, facts, matrix)):
        return machine
    variables = {
        name: value
        for name, value in machine.variables.items()
        if name not in _NAMES or not _is_beyond(value, len(machine.gpus))
    }
    return replace(machine, variables=variables)


def _is_beyond(value: str, count: int) -> bool:
    """Whether it names a GPU behind the last one of so many, and only numbers."""
    numbers = value.split(",")
    return all(re.fullmatch(r"\d{1,3}", number) for number in numbers) and max(map(int, numbers)) >= count


def _sees_a_gpu(machine: Machine, facts: Facts, matrix: Matrix) -> bool:
    available = decided(facts, "available")
    if available and available.value == "True":
        return True
    vendors = {gpu.vendor for gpu in machine.gpus}
    vendor = next(iter(vendors)) if len(vendors) == 1 else None
    rows = (matrix.errors.cause_seen(text, vendor) for text in machine.errors)
    return any(row is not None and row.slug in _OF_A_SEEN_GPU for row in rows)
