"""Looking at a machine as `check` does, once before and once after a fix, and what may be run there."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

import click
from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.command_line.arguments import ReportOptions
from gpudoctor.command_line.machine_source import Sources, examine, with_description, with_questions_of_fixes
from gpudoctor.command_line.project_settings import Settings, project_settings, requirements
from gpudoctor.command_line.reporting import judgement_of
from gpudoctor.engine import Judgement
from gpudoctor.exit_codes import FailOn, exit_code
from gpudoctor.finding import NotJudged, SetVariable, VariableRemedy
from gpudoctor.host import InputError
from gpudoctor.machine import Machine
from gpudoctor.situation import Situation
from gpudoctor.survey import Survey

if TYPE_CHECKING:
    from gpudoctor.planner.planned_steps import Permissions
    from gpudoctor.planner.repair import Repair


class Diagnosis(Struct, frozen=True):
    """What one look at the machine found."""

    survey: Survey
    judgement: Judgement
    exit_code: int

    @property
    def machine(self) -> Machine:
        return self.survey.machine


class Examination:
    """The same machine, looked at as often as is asked, and judged in the same way each time."""

    def __init__(self, sources: Sources, shown: ReportOptions) -> None:
        from gpudoctor.matrix.load import load_matrix

        self.sources = sources
        self.shown = shown
        settings = project_settings() if sources.is_this_machine else Settings()
        self.required = requirements(settings, sources.require, os.environ)
        self.matrix = load_matrix(sources.overlays)

    def look_under(self, variables: Iterable[VariableRemedy]) -> Diagnosis:
        """Look as a process with these variables would: everything probed, and every child, has them."""
        given, before = self.sources, dict(os.environ)
        kept = dict(given.variables)
        try:
            for one in variables:
                kept.pop(one.name, None)
                os.environ.pop(one.name, None)
                if isinstance(one, SetVariable):
                    os.environ[one.name] = one.value
            return self._look(replace(given, variables=kept))
        finally:
            os.environ.clear()
            os.environ.update(before)

    def look(self) -> Diagnosis:
        """Probe and judge. Raises InputError for what cannot be read."""
        return self._look(self.sources)

    def _look(self, given: Sources) -> Diagnosis:
        survey, _ = examine(given, self.matrix, self.shown)
        survey = with_questions_of_fixes(survey, given, self.matrix)
        survey = with_description(
            survey, given.description, self.matrix, lambda machine: self.judge(survey, machine, foresee=False)
        )
        judgement = self.judge(survey, survey.machine)
        return Diagnosis(survey, judgement, exit_code(judgement.verdict, cast("FailOn", self.shown.fail_on)))

    def judge(self, survey: Survey, machine: Machine, *, foresee: bool = True) -> Judgement:
        """Judge a machine as `check` does, with the questions that a survey left open."""
        return judgement_of(machine, self.matrix, self.shown, self.required, survey.open_questions, foresee=foresee)

    def plan(
        self, look: Diagnosis, *, only: Iterable[str], alternative: int, system: bool, also: Iterable[str] = ()
    ) -> Repair:
        """The plan for what a look found; `also` are ids of notes that count, too. Raises InputError for a name that
        no check has and a fix that is not there."""
        from gpudoctor.cli.journal import unhelpful
        from gpudoctor.planner.repair import NoSuchFixError, repair

        def questions_on(machine: Machine) -> Iterable[NotJudged]:
            judged = self.judge(look.survey, machine, foresee=False).not_judged
            return (question for question in judged if question not in look.survey.open_questions)

        try:
            return repair(
                look.judgement.findings,
                Situation(look.machine, self.matrix, self.required),
                self.allowed(look, system=system),
                lambda machine: self.judge(look.survey, machine, foresee=False).findings,
                only=ids_of(only, self.shown.plugins),
                alternative=alternative,
                also=also,
                questions=look.judgement.not_judged,
                questions_on=questions_on,
                unhelpful=unhelpful(look.machine) if self.here else None,
            )
        except NoSuchFixError as error:
            raise InputError(str(error)) from None

    @property
    def same_target(self) -> tuple[str, ...]:
        """The options that name this machine and environment to another command."""
        return self.sources.options

    @property
    def here(self) -> bool:
        """Whether the plan's commands are for the running system."""
        return self.sources.snapshot is None and self.sources.examined.root is None

    @property
    def is_described(self) -> bool:
        """Whether a snapshot, a text or options say what the machine has: a fix does not change that."""
        return self.sources.snapshot is not None or not self.sources.description.empty

    @property
    def subject(self) -> str:
        """The machine in a few words."""
        described = self.sources.description.label
        place = self.sources.snapshot or self.sources.examined.root or "this machine"
        return f"{place} ({described})" if described else place

    def allowed(self, look: Diagnosis, *, system: bool) -> Permissions:
        """What may be run: packages in a live environment outside any root; system steps here and as root."""
        from gpudoctor.planner.planned_steps import Permissions

        elsewhere = self._elsewhere(look.machine)
        if system and (elsewhere or not self.here or not self.sources.description.empty):
            raise click.UsageError("--system changes the running machine: it does not go with another one's facts")
        if system and os.geteuid() != 0:
            raise click.UsageError("--system runs steps for root: start gpudoctor as root (sudo gpudoctor fix ...)")
        if not self.here or not self.sources.description.empty:
            system, why = False, "belongs to the other machine"
        else:
            why = Permissions().system_why_not
        elsewhere = elsewhere or _of_another_account(look.machine)
        return Permissions(not elsewhere, system, elsewhere, system_why_not=why)

    def _elsewhere(self, machine: Machine) -> str:
        """Why the examined environment is not one of the running system; "" where it is."""
        given = self.sources
        if given.snapshot is not None:
            return "It is another machine: the plan is shown, not run."
        if given.description.torch or given.description.python_version:
            return "The torch or Python is only described: the plan is shown, not run."
        if given.description.packages:
            return "The packages are only described: the plan is shown, not run."
        root, python = given.examined.root, given.examined.python
        if root is not None and python is None:
            return "Files below a root are only read: the plan is shown, not run."
        below = os.path.realpath(root) if root is not None else ""
        if below and os.path.commonpath((os.path.realpath(python or ""), below)) == below:
            return "An environment below a root is only read: the plan is shown, not run."
        if not machine.environment.known:
            return "No Python environment was found to fix."
        return ""


def ids_of(names: Iterable[str], plugins: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The ids of checks that `--only` names, found here or not. Raises InputError for a name that no check has."""
    from gpudoctor.suites import machine_checks

    return tuple(dict.fromkeys(check.id for name in names for check in machine_checks(plugins).named(name)))


def _of_another_account(machine: Machine) -> str:
    """Why root does not change the packages of the examined environment; "" where it may."""
    from gpudoctor.fix.errors import RepairError
    from gpudoctor.fix.scope import Scope, check_owner

    prefix = os.path.realpath(machine.examined.prefix) if machine.examined.prefix else ""
    try:
        check_owner(prefix, Scope(roots=()))
    except RepairError as error:
        return str(error)
    return ""
