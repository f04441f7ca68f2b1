"""Circumstances that count only where the facts of the same text bear them out: releases that do not know the GPU."""

from __future__ import annotations

import re

from gpudoctor.intake.text.facts import Facts
from gpudoctor.intake.text.ranking import decided
from gpudoctor.machine import OVERRIDE, Machine, Told
from gpudoctor.matrix.questions import Matrix
from gpudoctor.matrix.rows.amd import RocmBlas
from gpudoctor.matrix.versions import Figures, figures, minor

_SEES_NO_GPU = ("program-finds-no-gpu", "opencl-program-finds-no-gpu")
"""Circumstances that a program refutes by naming the GPU on which it is about to compute."""


def borne_out(facts: Facts, machine: Machine, matrix: Matrix) -> tuple[Told, ...]:
    """What the text tells, without what asks for facts that are not there."""
    rows = {row.id: row for row in matrix.tables.told_circumstances}
    refuted = any(one.what == "gpu started" and one.by == "program" for one in facts.said)
    told = [(one, rows.get(one.circumstance)) for one in facts.told]  # WORKS_NOW has no row
    if refuted:
        told = [(one, row) for one, row in told if one.circumstance not in _SEES_NO_GPU]
    told = [(one, row) for one, row in told if row is None or _holds(row.where, facts, machine, matrix)]
    exact = any(row and one.complains and not (row.of_message or row.last) for one, row in told)
    return tuple(one for one, row in told if not (exact and row and row.last))


def _holds(where: str, facts: Facts, machine: Machine, matrix: Matrix) -> bool:
    if where == "rocm-lacks-kernels":
        return _rocm_lacks_kernels(facts, machine, matrix)
    return where != "kernel-before-gpu" or _kernel_is_older(facts, machine, matrix)


def _rocm_lacks_kernels(facts: Facts, machine: Machine, matrix: Matrix) -> bool:
    """Whether rocBLAS of the named release has files for none of the AMD GPUs. A torch brings its own rocBLAS."""
    said, targets = decided(facts, "rocm"), _targets(machine)
    version = re.match(r"\d{1,2}\.\d{1,2}", said.value) if said else None
    if version is None or machine.torch is not None or machine.variables.get(OVERRIDE) or not targets:
        return False
    rows = [row for row in matrix.tables.rocm_blas if row.rocblas]
    # Releases before the first listed one had no more targets than it.
    until = [row for row in rows if minor(row.rocm) <= minor(version[0])]
    row = max(until, key=_release) if until else min(rows, key=_release)
    return targets.isdisjoint(row.rocblas or ())


def _release(row: RocmBlas) -> Figures:
    return minor(row.rocm)


def _kernel_is_older(facts: Facts, machine: Machine, matrix: Matrix) -> bool:
    """Whether the named kernel is older than the first one that supports each of the AMD GPUs."""
    said = decided(facts, "kernel")
    version = re.match(r"\d{1,2}\.\d{1,3}", said.value) if said else None
    if said is None or matrix.distributions.has_backports(machine.system.os.value, said.value):
        return False
    found = [matrix.gpus.target(target) for target in _targets(machine)]
    first = [target.first_kernel for target in found if target and target.first_kernel]
    known = version is not None and len(first) == len(found) > 0
    return version is not None and known and all(figures(version[0]) < figures(one) for one in first)


def _targets(machine: Machine) -> set[str]:
    """The gfx targets of AMD's GPUs; none where one is unknown."""
    gpus = machine.of_vendor("amd")
    targets = {gpu.arch.value for gpu in gpus if gpu.arch.value}
    return targets if all(gpu.arch.value for gpu in gpus) else set()
