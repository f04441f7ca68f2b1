"""ROCm on WSL without the variable that lets its runtime use /dev/dxg (GPD214)."""

from __future__ import annotations

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import Evidence, Finding, Fix, SetVariable, unset
from gpudoctor.situation import Situation
from gpudoctor.situation.wsl import dxg_opens, looks_behind_dxg, of_another_vendor


@check("GPD214", "rocm-wsl-dxg-env", "access")
def rocm_wsl_dxg_env(situation: Situation) -> Verdicts:
    """ROCm on WSL does not look for the GPU behind /dev/dxg.

    ## Why it matters
    Inside WSL there is no /dev/kfd. ROCm releases before 7.13 use /dev/dxg only if HSA_ENABLE_DXG_DETECTION=1; later
    ones use it unless the variable is 0.

    ## How it is judged
    The check reads the ROCm release inside torch, the variable, and /dev/dxg. A runtime that lists a GPU is healthy.

    ## Fix safety
    The variable has no effect outside WSL.
    """
    machine, torch = situation.machine, situation.torch
    if not situation.in_wsl or torch is None or torch.rocm is None or dxg_opens(situation) is False:
        return
    if of_another_vendor(situation):
        return
    hsa = machine.amd.hsa.value
    value = situation.variable("HSA_ENABLE_DXG_DETECTION")
    row = situation.matrix.amd.wsl_rocm(torch.rocm)
    if (hsa and hsa.lists_gpu) or row is None or looks_behind_dxg(situation):
        return
    name = "HSA_ENABLE_DXG_DETECTION"
    why = f"ROCm {torch.rocm} uses /dev/dxg only with this variable"
    fix = (
        Fix(f"Set {name}=1", (SetVariable(name, "1", why=why),))
        if row.dxg_variable
        else unset(name, "0 keeps ROCm from using /dev/dxg")
    )
    yield Finding(
        severity="error",
        message=f"ROCm {torch.rocm} inside WSL does not look for the GPU: {name} is {value or 'not set'}.",
        saw=f"{name}={value}" if value is not None else f"{name} not set",
        want=f"{name}=1" if row.dxg_variable else f"{name} not 0",
        subject="ROCm on WSL",
        evidence=(
            Evidence.of("system.wsl", machine.system.wsl),
            Evidence("torch.rocm", torch.rocm, torch.source),
            Evidence(f"variables.{name}", value or "not set", "environment"),
        ),
        fixes=(fix,),
        refs=("ROCm/librocdxg#34", "ROCm/rocm-systems#4216"),
    )
