"""The matrix's known issues: conditions that all must match (GPD312 to 315, GPD428 to 440, GPD450)."""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.builds.drivers import cuda_driver
from gpudoctor.builds.issues import concerned, holds_for, holds_here, worked_around
from gpudoctor.check import Case, Verdicts, check
from gpudoctor.finding import Evidence, Finding, Manual, SetVariable, Severity, WayOut
from gpudoctor.machine import Gpu, LogFault
from gpudoctor.matrix.rows import IssueCondition, KnownIssue

_GENERAL = "known-issue"


# --- which rows match ------------------------------------------------------------------------------


def _concerned(case: Case, when: IssueCondition) -> tuple[Gpu, ...]:
    """The usable cards that a condition speaks of; those of torch's own maker only, unless it names packages."""
    if when.vendor and case.built_for not in (when.vendor, None):
        return ()
    if when.vendor and case.built_for is None and not (when.packages and case.torch is None):
        return ()
    return concerned(when, case.usable)


def _matches(case: Case, when: IssueCondition) -> bool:
    """Whether every field that is given matches. What is not known never matches."""
    return holds_here(when, case.machine, _concerned(case, when)) and holds_for(
        when, case.torch, lambda name: _version(case, name)
    )


def _version(case: Case, package: str) -> str | None:
    installed = case.environment.distribution(package) if case.environment else None
    return installed.version if installed else None


def _symptoms(case: Case, row: KnownIssue) -> tuple[LogFault, ...]:
    """Lines of this boot's kernel log that are the row's symptom."""
    log = case.machine.kernel_log.value
    faults = log.faults if log and row.log else ()
    return tuple(fault for fault in faults if fault.kind == row.log and row.xid in (None, fault.xid))


# --- findings --------------------------------------------------------------------------------------


def of_slug(case: Case, slug: str) -> Iterator[Finding]:
    """One finding for each row of that slug that matches; rows about a release of the firmware are left to GPD116."""
    for row in case.matrix.known_issues():
        if row.slug != slug or row.when.firmware or not _matches(case, row.when) or worked_around(row, case.machine):
            continue
        symptoms = _symptoms(case, row)
        if row.trigger == "symptom" and not symptoms:
            continue
        yield _finding(case, row, symptoms)


def _severity(row: KnownIssue, seen: bool) -> Severity:
    """What only some work brings out is a note, unless the row names a cause with a weight of its own; a line of the
    log is of the past, and never an error."""
    if row.trigger == "workload" and row.slug == _GENERAL and not seen:
        return "note"
    return "warning" if row.severity == "error" and row.trigger != "facts" else row.severity


def _finding(case: Case, row: KnownIssue, symptoms: tuple[LogFault, ...]) -> Finding:
    leads = {"facts": "Known issue", "workload": "Known issue with some work", "symptom": "Known issue, in the log"}
    text = row.symptom if row.symptom.endswith(".") else f"{row.symptom}."
    confidence = (
        "certain" if symptoms else {"high": "likely", "medium": "possible", "low": "possible"}[row.confidence]
    )
    return Finding(
        severity=_severity(row, bool(symptoms)),
        message=f"{leads[row.trigger]}: {text} {row.workaround}".strip(),
        saw=symptoms[-1].line if symptoms else _saw(case, row),
        want=row.workaround,
        subject=row.id,
        confidence=confidence,  # type: ignore[arg-type]
        evidence=_evidence(case, row, symptoms),
        ways_out=(_way_out(row),),
        refs=tuple(ref.strip() for ref in row.source.split(";") if ref.strip()),
    )


def _saw(case: Case, row: KnownIssue) -> str:
    return ", ".join(f"{item.fact} {item.value}" for item in _evidence(case, row, ()))


def _evidence(case: Case, row: KnownIssue, symptoms: tuple[LogFault, ...]) -> tuple[Evidence, ...]:
    when, torch, system = row.when, case.torch, case.machine.system
    found = [Evidence("gpu.arch", gpu.arch.value or "", gpu.arch.source) for gpu in _concerned(case, when)[:1]]
    if torch and (when.torch or when.cuda or when.rocm):
        found.append(Evidence("torch.version", torch.version, torch.source))
    if when.kernel:
        found.append(Evidence.of("kernel", system.kernel))
    if when.driver:
        found.append(Evidence("driver", cuda_driver(case.machine) or case.machine.amd.module.value or ""))
    for wanted in when.packages:
        installed = case.environment.distribution(wanted.package) if case.environment else None
        found.append(
            Evidence(wanted.package, installed.version if installed else "", installed.path if installed else "")
        )
    found += [Evidence(item.name, case.variable(item.name) or "", "environment") for item in when.env]
    found += [Evidence("kernel_log", fault.line, case.machine.kernel_log.source) for fault in symptoms[-2:]]
    return tuple(found)


def _way_out(row: KnownIssue) -> WayOut:
    settings = tuple(SetVariable(name, value, why=row.symptom) for name, value in row.variables.items())
    return WayOut(row.workaround, settings or (Manual(row.workaround),))


# --- the checks ------------------------------------------------------------------------------------


@check("GPD312", "nccl-p2p-hang", "runtime")
def nccl_p2p_hang(case: Case) -> Verdicts:
    """Direct traffic between these cards is known to hang NCCL or RCCL.

    ## Why it matters
    A run on several cards stops at its first all-reduce, without an error.

    ## How it is judged
    By the known issues of the matrix: card, driver and number of cards, or the symptom in the kernel log.

    ## Fix safety
    NCCL_P2P_DISABLE=1 makes traffic between cards slower; nothing else changes.
    """
    yield from of_slug(case, "nccl-p2p-hang")


@check("GPD313", "amd-sdma-hang", "runtime")
def amd_sdma_hang(case: Case) -> Verdicts:
    """Copies between host and card are known to hang on this card.

    ## Why it matters
    A copy never returns: the card's SDMA engine does not answer.

    ## How it is judged
    By the known issues of the matrix: card and ROCm, or the symptom in the kernel log.

    ## Fix safety
    HSA_ENABLE_SDMA=0 makes copies slower; nothing else changes.
    """
    yield from of_slug(case, "amd-sdma-hang")


@check("GPD315", "rocm-runtime-bug", "runtime")
def rocm_runtime_bug(case: Case) -> Verdicts:
    """This ROCm is known to have a fault on this card.

    ## Why it matters
    As the row of the matrix says.

    ## How it is judged
    By the known issues of the matrix: card, ROCm and torch.

    ## Fix safety
    As the row of the matrix says.
    """
    yield from of_slug(case, "rocm-runtime-bug")


@check("GPD428", "ptxas-too-old", "packages")
def ptxas_too_old(case: Case) -> Verdicts:
    """The ptxas that Triton brings does not know this card.

    ## Why it matters
    torch.compile and Triton kernels fail with "Value 'sm_121a' is not defined for option 'gpu-name'".

    ## How it is judged
    By the known issues of the matrix: card and version of Triton.

    ## Fix safety
    TRITON_PTXAS_PATH has Triton use the ptxas of an installed toolkit; nothing else changes.
    """
    yield from of_slug(case, "ptxas-too-old")


@check("GPD430", "miopen-kdb-missing", "packages")
def miopen_kdb_missing(case: Case) -> Verdicts:
    """MIOpen has no ready kernels for this card.

    ## Why it matters
    The first convolutions are slow, because MIOpen compiles their kernels; it prints "Missing system database file".

    ## How it is judged
    By the known issues of the matrix.

    ## Fix safety
    Nothing has to be done.
    """
    yield from of_slug(case, "miopen-kdb-missing")


@check("GPD440", "rocm-mem-efficient-attention", "packages")
def rocm_mem_efficient_attention(case: Case) -> Verdicts:
    """Memory-efficient attention of this ROCm build computes wrong values.

    ## Why it matters
    Results are wrong without any error: corrupted images, diverging training.

    ## How it is judged
    By the known issues of the matrix: torch and ROCm.

    ## Fix safety
    The math backend of scaled_dot_product_attention is slower and needs more memory.
    """
    yield from of_slug(case, "rocm-mem-efficient-attention")


@check("GPD450", _GENERAL, "packages")
def known_issue(case: Case) -> Verdicts:
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
    yield from of_slug(case, _GENERAL)
