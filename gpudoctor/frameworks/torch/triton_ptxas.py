"""Fixes where Triton's own ptxas does not know a GPU."""

from __future__ import annotations

from gpudoctor.finding import Fix, ReplaceTorch, by_hand
from gpudoctor.frameworks.torch.installed_build import better_torch
from gpudoctor.machine import Torch
from gpudoctor.matrix.versions import at_least, figures
from gpudoctor.situation import Situation


def ptxas_fixes(situation: Situation, variable: Fix) -> tuple[Fix, ...]:
    """Another torch, whose Triton knows the GPUs, and the variable that names the ptxas of the installed toolkit.

    The variable comes first where that ptxas is known to know the GPUs. Where it does not, or none is installed, the
    variable would change nothing: Triton then falls back to its own.
    """
    torch = situation.torch
    others = tuple(fix for fix in better_torch(situation) if torch and _installs_another(fix, torch))
    toolkit, needed = situation.machine.nvidia.ptxas, _cuda_needed(situation)
    if toolkit.undecided or needed is None:
        return (*others, variable)
    if toolkit.value is not None and at_least(toolkit.value, needed):
        return (variable, *others)
    text = f"Install the CUDA toolkit {needed} or newer, then: {variable.title}"
    return (*others, by_hand("Install a newer CUDA toolkit", text))


def _installs_another(fix: Fix, torch: Torch) -> bool:
    installs = [remedy for remedy in fix.remedies if isinstance(remedy, ReplaceTorch)]
    return any(not torch.is_build(remedy.version, remedy.build) for remedy in installs)


def _cuda_needed(situation: Situation) -> str | None:
    """The first CUDA that knows all usable NVIDIA GPUs."""
    rows = [situation.matrix.gpus.capability(gpu.arch.value) for gpu in situation.usable_of("nvidia")]
    return max((row.first_cuda for row in rows if row), key=figures, default=None)
