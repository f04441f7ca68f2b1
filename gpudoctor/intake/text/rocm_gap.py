"""Whether the ROCm that a text names has kernels for the GPU: a crash of a program without torch then has a cause."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpudoctor.intake.text.facts import Facts
from gpudoctor.intake.text.ranking import decided
from gpudoctor.matrix.versions import Figures, minor

if TYPE_CHECKING:
    from gpudoctor.machine import Machine, Told
    from gpudoctor.matrix.questions import Matrix
    from gpudoctor.matrix.rows import RocmBlas

_OVERRIDE = "HSA_OVERRIDE_GFX_VERSION"


def borne_out(facts: Facts, machine: Machine, matrix: Matrix) -> tuple[Told, ...]:
    """What the text tells, without circumstances that ask for a gap of its ROCm where there is none."""
    asking = {row.id for row in matrix.tables.told_circumstances if row.where_rocm_lacks}
    if not any(one.circumstance in asking for one in facts.told) or _rocm_lacks_kernels(facts, machine, matrix):
        return tuple(facts.told)
    return tuple(one for one in facts.told if one.circumstance not in asking)


def _rocm_lacks_kernels(facts: Facts, machine: Machine, matrix: Matrix) -> bool:
    """Whether rocBLAS of the named release has files for none of the AMD GPUs. A torch brings its own rocBLAS."""
    said = decided(facts, "rocm")
    version = re.match(r"\d{1,2}\.\d{1,2}", said.value) if said else None
    targets = {gpu.arch.value for gpu in machine.of_vendor("amd")}
    if version is None or machine.torch is not None or machine.variables.get(_OVERRIDE) or not all(targets):
        return False
    rows = [row for row in matrix.tables.rocm_blas if row.rocblas]
    # Releases before the first listed one had no more targets than it.
    until = [row for row in rows if minor(row.rocm) <= minor(version[0])]
    row = max(until, key=_release) if until else min(rows, key=_release)
    return bool(targets) and targets.isdisjoint(row.rocblas or ())


def _release(row: RocmBlas) -> Figures:
    return minor(row.rocm)
