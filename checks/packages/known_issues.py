"""Known issues of packages, and those without a slug of their own (GPD428, GPD430, GPD440)."""

from __future__ import annotations

from gpudoctor.check import Verdicts
from gpudoctor.frameworks.torch import check
from gpudoctor.situation import Situation
from gpudoctor.situation.issue_findings import GENERAL, of_slug

# --- which rows match ------------------------------------------------------------------------------


# --- findings --------------------------------------------------------------------------------------


# --- the checks ------------------------------------------------------------------------------------


@check("GPD428", "ptxas-too-old", "packages")
def ptxas_too_old(situation: Situation) -> Verdicts:
    """The ptxas that Triton brings does not know this GPU.

    ## Why it matters
    torch.compile and Triton kernels fail with "Value 'sm_121a' is not defined for option 'gpu-name'".

    ## How it is judged
    By the known issues of the matrix: GPU and version of Triton.

    ## Fix safety
    TRITON_PTXAS_PATH has Triton use the ptxas of an installed toolkit; nothing else changes.
    """
    yield from of_slug(situation, "ptxas-too-old")


@check("GPD430", "miopen-kdb-missing", "packages")
def miopen_kdb_missing(situation: Situation) -> Verdicts:
    """MIOpen has no ready kernels for this GPU.

    ## Why it matters
    The first convolutions are slow, because MIOpen compiles their kernels; it prints "Missing system database file".

    ## How it is judged
    By the known issues of the matrix.

    ## Fix safety
    Nothing has to be done.
    """
    yield from of_slug(situation, "miopen-kdb-missing")


@check("GPD440", "rocm-mem-efficient-attention", "packages")
def rocm_mem_efficient_attention(situation: Situation) -> Verdicts:
    """Memory-efficient attention of this ROCm build computes wrong values.

    ## Why it matters
    Results are wrong without any error: corrupted images, diverging training.

    ## How it is judged
    By the known issues of the matrix: torch and ROCm.

    ## Fix safety
    The math backend of scaled_dot_product_attention is slower and needs more memory.
    """
    yield from of_slug(situation, "rocm-mem-efficient-attention")


@check("GPD450", GENERAL, "packages")
def known_issue(situation: Situation) -> Verdicts:
    """A known issue of the compatibility matrix applies to this machine.

    ## Why it matters
    As the row of the matrix says.

    ## How it is judged
    Every condition of the row must match what is known of the machine. Rows whose condition suffices count as the row
    says; those that only some work brings out are a note; those that mean nothing without their symptom need its line
    in the kernel log of this boot. An issue whose workaround is set already is silent. Rows of a cause that has a
    check of its own belong to that check.

    ## Fix safety
    As the row of the matrix says.
    """
    yield from of_slug(situation, GENERAL)
