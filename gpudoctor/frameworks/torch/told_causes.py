"""Which message the words of a person are about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.frameworks.torch.smoke_faults import CRASH, NO_CODE

if TYPE_CHECKING:
    from gpudoctor.matrix.rows import ErrorPattern, ToldCircumstance

_NO_GPU_FOUND = frozenset(("no-driver", "torch-cpu-only", "program-on-cpu", "container-no-gpu"))
"""Causes of messages that only say that no GPU was found."""


def tells_of(circumstance: ToldCircumstance, row: ErrorPattern, causes: tuple[str, ...]) -> bool:
    """Whether a circumstance is about this message: it names one of its causes, or why no GPU is found. That a
    program has libraries of its own tells what to install where code is missing, and nothing of other faults."""
    if not circumstance.of_torch:
        return row.slug in NO_CODE and row.of_torch
    if circumstance.slug in causes:
        return True
    open_ = row.slug == CRASH or row.slug in _NO_GPU_FOUND
    ranks = circumstance.severity == "error" and not circumstance.of_message
    return open_ and ranks and bool(_NO_GPU_FOUND.intersection(causes))
