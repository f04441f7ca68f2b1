"""Judging small Machines in tests: what is told of them, by the real matrix.

told(machine)                        [(slug, severity), ...] of all checks
finding(machine, "driver-too-old")   the one finding of that slug
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gpudoctor.engine import Judgement, judge
from gpudoctor.finding import (
    AnyRemedy,
    Finding,
    InstallDriver,
    NotJudged,
    RemovePackage,
    ReplacePackage,
    ReplaceTorch,
    SetVariable,
    UnsetVariable,
)
from gpudoctor.machine import Machine
from gpudoctor.matrix.versions import figures, package_matches
from gpudoctor.planner.planned_steps import Permissions
from gpudoctor.planner.repair import Repair, repair
from gpudoctor.situation import Situation
from gpudoctor.suites import machine_checks
from tests.support.check_cases import matrix


def judged(machine: Machine, *select: str) -> Judgement:
    return judge(machine, matrix(), machine_checks(), select=select)


def found_without_foresight(machine: Machine) -> tuple[Finding, ...]:
    """What the checks find, with every fix that they propose: how a plan judges what it would leave."""
    return judge(machine, matrix(), machine_checks(), foresee=False).findings


def plan_of(machine: Machine, allowed: Permissions | None = None, **asked: Any) -> Repair:
    """The plan for what is wrong with a machine."""
    situation = Situation(machine, matrix())
    return repair(judged(machine).findings, situation, allowed or Permissions(), found_without_foresight, **asked)


def until_done(findings: Sequence[Finding], before: Machine) -> Callable[[Machine], tuple[Finding, ...]]:
    """A judge that finds each of these until one of its fixes is done."""

    def judge_of_these(machine: Machine) -> tuple[Finding, ...]:
        return tuple(
            finding
            for finding in findings
            if not any(
                fix.remedies and all(_is_done(remedy, machine, before) for remedy in fix.remedies)
                for fix in finding.fixes
            )
        )

    return judge_of_these


def _is_done(remedy: AnyRemedy, machine: Machine, before: Machine) -> bool:
    if isinstance(remedy, ReplaceTorch):
        return machine.torch is not None and machine.torch.version == f"{remedy.version}+{remedy.build}"
    if isinstance(remedy, ReplacePackage):
        found = machine.installed(remedy.name)
        return found is not None and package_matches(remedy.specifier, found.version)
    if isinstance(remedy, RemovePackage):
        return machine.installed(remedy.name) is None
    if isinstance(remedy, SetVariable):
        return machine.variables.get(remedy.name) == remedy.value
    if isinstance(remedy, UnsetVariable):
        return remedy.name not in machine.variables
    if isinstance(remedy, InstallDriver):
        return machine.nvidia.module.value is not None and figures(machine.nvidia.module.value.version) >= figures(
            remedy.minimum
        )
    return machine.nvidia != before.nvidia


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
