"""Decides whether the command may start: checks once, or repeatedly while drivers and device plugins start."""

from __future__ import annotations

import time
from collections.abc import Callable, MutableMapping
from typing import TYPE_CHECKING

from msgspec import Struct

from gpudoctor.engine import Judgement, judge
from gpudoctor.exit_codes import FailOn, exit_code
from gpudoctor.finding import Finding, Layer, SetVariable
from gpudoctor.machine import Level
from gpudoctor.situation.usable_gpus import standings, usable_count
from gpudoctor.suites import machine_checks

if TYPE_CHECKING:
    from gpudoctor.matrix.questions import Matrix
    from gpudoctor.requirement import Requirement
    from gpudoctor.survey import Survey

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 5.0
_OF_THE_NODE = ("gpu", "gpu.model", "gpu.memory", "sm", "gfx", "driver", "driver.cuda", "p2p", "same-model")
"""Requirements that a driver or a device plugin can still meet when it starts late."""
_REQUIREMENT = "GPD910"
_NODE: tuple[Layer, ...] = ("driver", "access", "runtime")
"""Layers in which a driver or a device plugin can still fix a problem when it starts late; waiting fixes no other."""

Changes = dict[str, str | None]
"""Variables to set, or (None) to unset."""


class Rules(Struct, frozen=True):
    """What is checked, and what refuses."""

    level: Level
    required: tuple[Requirement, ...] = ()
    select: tuple[str, ...] = ()
    project_select: tuple[str, ...] = ()
    ignore: dict[str, str] = {}
    project_ignore: dict[str, str] = {}
    plugins: tuple[str, ...] = ()
    fail_on: FailOn = "error"
    set_env: bool = False


class Passage(Struct, frozen=True):
    """The last check and its rules; `variables` were changed in this process."""

    survey: Survey
    judgement: Judgement
    matrix: Matrix
    rules: Rules
    variables: Changes = {}

    @property
    def code(self) -> int:
        """The exit code before `status` makes it distinct from a command's own."""
        return exit_code(self.judgement.verdict, self.rules.fail_on)

    @property
    def summary(self) -> str:
        """One line on what the command gets: "ok: NVIDIA L4, torch 2.6.0+cu124 in /opt/venv"."""
        machine = self.survey.machine
        names = [standing.gpu.name for standing in standings(machine) if standing.usable]
        gpus = [f"{count} x {name}" if (count := names.count(name)) > 1 else name for name in dict.fromkeys(names)]
        if gpus and (number := usable_count(machine)) < len(names):
            gpus[0] = f"{number} of {gpus[0]}"
        packages = f"torch {machine.torch.version}" if machine.torch else "Python"
        examined = [f"{packages} in {machine.examined.prefix}"] if machine.examined.prefix else []
        variables = [
            f"without {name}" if value is None else f"{name}={value}" for name, value in self.variables.items()
        ]
        slugs = dict.fromkeys(f.slug for f in self.judgement.findings if f.severity != "note")
        verdict = f"{self.judgement.verdict} ({', '.join(slugs)})" if slugs else self.judgement.verdict
        none = "no GPU" if slugs else "no GPU, and none is required"
        line = f"{verdict}: {', '.join((*(gpus or [none]), *examined, *variables))}"
        ignored = [f"{one.id} ({one.why})" if one.why else one.id for one in self.judgement.ignored]
        return f"{line}; ignored: {', '.join(ignored)}" if ignored else line


class Gate:
    """Checks one machine as often as needed by the same rules. The probes read `environ`, and `set_env` changes
    it."""

    def __init__(
        self, probe: Callable[[Level], Survey], matrix: Matrix, rules: Rules, environ: MutableMapping[str, str]
    ) -> None:
        self._probe = probe
        self._matrix = matrix
        self._rules = rules
        self._environ = environ

    def passage(self, wait: float = 0.0, pause: Callable[[float], None] = time.sleep) -> Passage:
        """Check; while only the node is at fault, check again for `wait` seconds, plus one last check at most. Checks
        in between read only files while these show a problem: a missing driver then costs nothing."""
        deadline = time.monotonic() + wait
        length = _FIRST_PAUSE
        found = self._look(self._rules.level)
        while found.code and self._waiting_can_help(found.judgement) and (left := deadline - time.monotonic()) > 0:
            pause(min(length, left))
            found = self._look_again(last=length >= left)
            length = min(length * 1.5, _LONGEST_PAUSE)
        return found

    def _look_again(self, last: bool) -> Passage:
        """Check at level static; deeper if that shows no error, or if this check is the last."""
        if self._rules.level == "static" or last:
            return self._look(self._rules.level)
        found = self._look("static")
        return found if found.judgement.verdict == "error" else self._look(self._rules.level)

    def _look(self, level: Level) -> Passage:
        found = self._check(level)
        changes = _variables(found.judgement) if self._rules.set_env else {}
        if not changes:
            return found
        before: Changes = {name: self._environ.get(name) for name in changes}
        self._apply(changes)  # everything probed now, and every child, sees them
        changed = self._check(level, changes)
        if changed.code == 0:
            return changed
        self._apply(before)  # they do not help, so the first result stands
        return found

    def _check(self, level: Level, variables: Changes | None = None) -> Passage:
        survey, rules = self._probe(level), self._rules
        judgement = judge(
            survey.machine,
            self._matrix,
            machine_checks(rules.plugins),
            select=rules.select,
            project_select=rules.project_select,
            ignore=rules.ignore,
            project_ignore=rules.project_ignore,
            open_questions=survey.open_questions,
            required=rules.required,
        )
        return Passage(survey, judgement, self._matrix, rules, variables or {})

    def _apply(self, changes: Changes) -> None:
        for name, value in changes.items():
            if value is None:
                self._environ.pop(name, None)
            else:
                self._environ[name] = value

    def _waiting_can_help(self, judgement: Judgement) -> bool:
        """Whether waiting can help: no problem that refuses lies in the image itself."""
        refusing = ("error", "warning") if self._rules.fail_on == "warning" else ("error",)
        faults = (finding for finding in judgement.findings if finding.severity in refusing)
        questions = (question for question in judgement.not_judged if question.matters)
        answerable = all(question.layer in _NODE or question.id == _REQUIREMENT for question in questions)
        return answerable and all(map(self._is_of_node, faults))

    def _is_of_node(self, finding: Finding) -> bool:
        if finding.id == _REQUIREMENT:
            asked = {requirement.text: requirement.name for requirement in self._rules.required}
            return asked.get(finding.want) in _OF_THE_NODE
        return finding.layer in _NODE


def _variables(judgement: Judgement) -> Changes:
    """The variables that `gpudoctor env` prints."""
    from gpudoctor.planner.repair import variables_for

    wanted = variables_for(judgement.findings)
    return {one.name: one.value if isinstance(one, SetVariable) else None for one in wanted}
