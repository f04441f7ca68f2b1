"""Known issues of drivers and runtimes (GPD312, GPD313, GPD315)."""

from __future__ import annotations

from gpudoctor.check import Verdicts, check
from gpudoctor.situation import Situation
from gpudoctor.situation.issue_findings import of_slug


@check("GPD312", "nccl-p2p-hang", "runtime")
def nccl_p2p_hang(situation: Situation) -> Verdicts:
    """Direct transfers between these GPUs are known to hang NCCL or RCCL.

    ## Why it matters
    A run on several GPUs stops at its first all-reduce, without an error.

    ## How it is judged
    The check compares GPU, driver and number of GPUs with the matrix's known issues, or finds a line in the kernel
    log.

    ## Fix safety
    NCCL_P2P_DISABLE=1 makes transfers between GPUs slower; nothing else changes.
    """
    yield from of_slug(situation, "nccl-p2p-hang")


@check("GPD313", "amd-sdma-hang", "runtime")
def amd_sdma_hang(situation: Situation) -> Verdicts:
    """Copies between host and GPU are known to hang on this GPU.

    ## Why it matters
    A copy never returns: the GPU's SDMA engine does not answer.

    ## How it is judged
    The check compares GPU and ROCm with the known issues of the matrix, or finds the symptom in the kernel log.

    ## Fix safety
    HSA_ENABLE_SDMA=0 makes copies slower; nothing else changes.
    """
    yield from of_slug(situation, "amd-sdma-hang")


@check("GPD315", "rocm-runtime-bug", "runtime")
def rocm_runtime_bug(situation: Situation) -> Verdicts:
    """This ROCm release is known to have a bug on this GPU.

    ## Why it matters
    The message describes the bug; it comes from the matrix.

    ## How it is judged
    The check compares GPU, ROCm and torch with the known issues of the matrix.

    ## Fix safety
    The fix is the workaround that the matrix names.
    """
    yield from of_slug(situation, "rocm-runtime-bug")
