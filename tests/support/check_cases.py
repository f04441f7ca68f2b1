"""Running one check, or a layer's checks, over a Machine."""

from __future__ import annotations

from functools import cache

from gpudoctor.engine import judge
from gpudoctor.finding import Finding, NotJudged
from gpudoctor.machine import KernelLog, LogFault, Machine, known
from gpudoctor.matrix.load import load_matrix
from gpudoctor.matrix.questions import Matrix
from gpudoctor.suites import machine_checks
from gpudoctor.testing import check_result

BELOW_TORCH = ("GPD1", "GPD2")


@cache
def matrix() -> Matrix:
    return load_matrix()


def found(machine: Machine, slug: str) -> list[Finding]:
    """What the check of that slug finds."""
    return list(check_result(slug, machine).findings)


def unanswered(machine: Machine, slug: str) -> list[NotJudged]:
    return list(check_result(slug, machine).not_judged)


def below_torch(machine: Machine) -> list[tuple[str, str]]:
    """(slug, severity) of everything that the checks of hardware, kernel, driver and access find, in order."""
    judgement = judge(machine, matrix(), machine_checks(), select=BELOW_TORCH)
    return [(finding.slug, finding.severity) for finding in judgement.findings]


def first(machine: Machine) -> Finding:
    """The finding that those checks put first."""
    return judge(machine, matrix(), machine_checks(), select=BELOW_TORCH).findings[0]


def remedies(finding: Finding) -> list[str]:
    """Names of the remedies of the first way out."""
    return [type(remedy).__name__ for remedy in finding.fixes[0].remedies]


def log(*lines: str) -> dict[str, object]:
    """`kernel_log=` of a Machine with these lines, each classified by the matrix's patterns as the probe does."""
    import re

    faults = []
    for line in lines:
        for pattern in matrix().tables.log_patterns:
            hit = re.search(pattern.pattern, line)
            if hit:
                groups = hit.groupdict()
                xid = groups.get("xid")
                faults.append(
                    LogFault(kind=pattern.id, line=line, bdf=groups.get("bdf"), xid=int(xid) if xid else None)
                )
                break
        else:
            raise AssertionError(f"no pattern of the matrix knows {line!r}")
    return {"kernel_log": known(KernelLog(faults=tuple(faults), source="dmesg"), "dmesg")}
