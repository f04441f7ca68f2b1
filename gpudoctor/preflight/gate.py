"""Whether the command may start: one judgement, or several while drivers and device plugins come up."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.finding import SetVariable, UnsetVariable
from gpudoctor.judge import FailOn, Judgement, exit_code, judge

if TYPE_CHECKING:
    from gpudoctor.doctor import Survey
    from gpudoctor.finding import Finding
    from gpudoctor.machine import Level
    from gpudoctor.matrix.questions import Matrix
    from gpudoctor.requirement import Requirement

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 5.0
_OF_THE_NODE = ("gpu", "gpu.model", "gpu.memory", "sm", "gfx", "driver", "driver.cuda", "p2p", "same-model")
"""Requirements that a driver or a device plugin which comes up late can still meet."""


class Rules(Struct, frozen=True):
    """What is judged, and what refuses."""

    level: Level
    required: tuple[Requirement, ...] = ()
    select: tuple[str, ...] = ()
    ignore: dict[str, str] = {}
    fail_on: FailOn = "error"
    set_env: bool = False


class Passage(Struct, frozen=True):
    """What was judged last; `variables` are set (None: unset) for the command only."""

    survey: Survey
    judgement: Judgement
    code: int
    variables: dict[str, str | None] = {}


def passage(
    probe: Callable[[Level], Survey],
    matrix: Matrix,
    rules: Rules,
    wait: float = 0.0,
    pause: Callable[[float], None] = time.sleep,
) -> Passage:
    """Judge at the level of the rules; while only the node is at fault, again and again for `wait` seconds.

    In between, files alone are read: a driver that is not there costs nothing.
    """
    deadline = time.monotonic() + wait
    length = _FIRST_PAUSE
    found = _judged(probe(rules.level), matrix, rules)
    while found.code and _may_come(found.judgement, rules) and (left := deadline - time.monotonic()) > 0:
        pause(min(length, left))
        length = min(length * 1.5, _LONGEST_PAUSE)
        found = _judged(probe("static"), matrix, rules)
        if rules.level != "static" and found.judgement.verdict != "error":
            found = _judged(probe(rules.level), matrix, rules)
    if found.code and rules.level != "static" and found.survey.machine.level == "static":
        return _judged(probe(rules.level), matrix, rules)
    return found


def _judged(survey: Survey, matrix: Matrix, rules: Rules) -> Passage:
    first = _judgement(survey, matrix, rules)
    changes = _variables(first) if rules.set_env and first.verdict == "error" else {}
    if not changes:
        return Passage(survey, first, exit_code(first.verdict, rules.fail_on))
    variables = {name: value for name, value in {**survey.machine.variables, **changes}.items() if value is not None}
    changed = replace(survey, machine=replace(survey.machine, variables=variables))
    second = _judgement(changed, matrix, rules)
    code = exit_code(second.verdict, rules.fail_on)
    if code:  # the variables do not help: the first judgement is the true one
        return Passage(survey, first, exit_code(first.verdict, rules.fail_on))
    return Passage(changed, second, code, changes)


def _judgement(survey: Survey, matrix: Matrix, rules: Rules) -> Judgement:
    return judge(
        survey.machine,
        matrix,
        select=rules.select,
        ignore=rules.ignore,
        open_questions=survey.open_questions,
        required=rules.required,
    )


def _variables(judgement: Judgement) -> dict[str, str | None]:
    """What the errors' ways out set or unset, where a way out is nothing but variables."""
    changes: dict[str, str | None] = {}
    for finding in judgement.findings:
        if finding.severity != "error":
            continue
        for way in finding.ways_out:
            if all(isinstance(remedy, (SetVariable, UnsetVariable)) for remedy in way.remedies):
                for remedy in way.remedies:
                    if isinstance(remedy, SetVariable):
                        changes.setdefault(remedy.name, remedy.value)
                    elif isinstance(remedy, UnsetVariable):
                        changes.setdefault(remedy.name, None)
                break
    return changes


def _may_come(judgement: Judgement, rules: Rules) -> bool:
    """Whether waiting can help: no error lies in the image itself."""
    return all(_of_the_node(finding, rules) for finding in judgement.findings if finding.severity == "error")


def _of_the_node(finding: Finding, rules: Rules) -> bool:
    if finding.slug == "requirement-not-met":
        asked = {requirement.text: requirement.name for requirement in rules.required}
        return asked.get(finding.want) in _OF_THE_NODE
    return finding.id < "GPD4"
