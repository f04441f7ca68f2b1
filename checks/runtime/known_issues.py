"""Known issues of drivers and runtimes (GPD312, GPD313, GPD315)."""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import Device, Finding
from gpudoctor.frameworks.torch import builds
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
    Graphics of a processor that torch has no code for are left out beside a discrete GPU that it supports.

    ## Fix safety
    HSA_ENABLE_SDMA=0 makes copies slower; nothing else changes.
    """
    yield from _computing(situation, "amd-sdma-hang")


@check("GPD315", "rocm-runtime-bug", "runtime")
def rocm_runtime_bug(situation: Situation) -> Verdicts:
    """This ROCm release is known to have a bug on this GPU.

    ## Why it matters
    The message describes the bug; it comes from the matrix.

    ## How it is judged
    The check compares GPU, ROCm and torch with the known issues of the matrix.
    Graphics of a processor that torch has no code for are left out beside a discrete GPU that it supports.

    ## Fix safety
    A torch without the bug replaces the installed one, if there is one; else the matrix names the workaround.
    """
    yield from _computing(situation, "rocm-runtime-bug")


def _computing(situation: Situation, slug: str) -> Iterator[Finding]:
    """The slug's findings, without those that are only about integrated graphics that torch has no code for, beside
    a discrete GPU that it serves: nothing runs on them. What the kernel log shows has happened, and stays."""
    issues = tuple(of_slug(situation, slug))
    if not issues:
        return
    from gpudoctor.frameworks.torch.gpu_coverage import fits

    all_fits = fits(situation)
    beside = any(fit.served and not fit.gpu.integrated for fit in all_fits)
    idle = [Device.of(fit.gpu) for fit in all_fits if beside and fit.gpu.integrated and fit.fails]
    for found in issues:
        seen = found.confidence == "certain"
        if seen or not found.devices or any(device not in idle for device in found.devices):
            yield builds.without_issue(situation, found)
