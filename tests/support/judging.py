"""Judging small Machines in tests: what is told of them, by the real matrix.

told(machine)                        [(slug, severity), ...] of all checks
finding(machine, "driver-too-old")   the one finding of that slug
"""

from __future__ import annotations

from gpudoctor.engine import Judgement, judge
from gpudoctor.finding import Finding, NotJudged, ReplaceTorch, SetVariable, UnsetVariable
from gpudoctor.machine import Machine
from gpudoctor.suites import machine_checks
from tests.support.check_cases import matrix


def judged(machine: Machine, *select: str) -> Judgement:
    return judge(machine, matrix(), machine_checks(), select=select)


def told(machine: Machine, *select: str) -> list[tuple[str, str]]:
    return [(finding.slug, finding.severity) for finding in judged(machine, *select).findings]


def severity(machine: Machine, slug: str) -> str | None:
    """Severity of the finding of that slug; None where there is none."""
    return dict(told(machine)).get(slug)


def finding(machine: Machine, slug: str) -> Finding:
    (found,) = [finding for finding in judged(machine).findings if finding.slug == slug]
    return found


def questions(machine: Machine) -> list[NotJudged]:
    """What could not be judged and matters."""
    return [question for question in judged(machine).not_judged if question.matters]


def remedies(machine: Machine, slug: str, fix: int = 0) -> list[str]:
    """A way out of a finding, in short: "torch 2.7.0+cu128", "set A=b", "unset A", else the kind of remedy."""
    return [_short(remedy) for remedy in finding(machine, slug).fixes[fix].remedies]


def fixes(machine: Machine, slug: str) -> list[list[str]]:
    return [[_short(remedy) for remedy in fix.remedies] for fix in finding(machine, slug).fixes]


def _short(remedy: object) -> str:
    if isinstance(remedy, ReplaceTorch):
        return f"torch {remedy.version}+{remedy.build}" + (f" [{remedy.extra}]" if remedy.extra else "")
    if isinstance(remedy, SetVariable):
        return f"set {remedy.name}={remedy.value}"
    if isinstance(remedy, UnsetVariable):
        return f"unset {remedy.name}"
    name = getattr(remedy, "name", "") or getattr(remedy, "branch", "")
    detail = getattr(remedy, "specifier", "") or getattr(remedy, "version", "")
    return f"{type(remedy).__name__} {name}{detail}".strip()
