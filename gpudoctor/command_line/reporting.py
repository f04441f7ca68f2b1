"""Judging a machine and giving the report in the form that was asked for."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, cast

from msgspec.structs import replace

from gpudoctor.finding import NotJudged, can_be_foreseen
from gpudoctor.render.style import ReportStyle

if TYPE_CHECKING:
    from gpudoctor.command_line.arguments import ReportOptions
    from gpudoctor.engine import Judgement
    from gpudoctor.exit_codes import FailOn
    from gpudoctor.machine import Machine
    from gpudoctor.matrix.questions import Matrix
    from gpudoctor.matrix.rows import GpuRates
    from gpudoctor.render.lines import Line
    from gpudoctor.report import Report, Subject
    from gpudoctor.requirement import Requirement
    from gpudoctor.survey import Survey


def present(
    survey: Survey,
    subject: Subject,
    matrix: Matrix,
    shown: ReportOptions,
    *,
    required: tuple[Requirement, ...] = (),
    about: Literal["machine", "kernels"] = "machine",
    again: tuple[str, ...] = (),
    require: tuple[str, ...] = (),
    complete: Callable[[Survey], Survey] | None = None,
) -> int:
    """Judge, print the report to stdout (and to the report file), and give its exit code.

    `about` "kernels": a text has of the machine only what the smoke kernels did. `again`: the options that name
    this machine and environment to other commands; `require`: those that state requirements; `complete`: as `judged`
    takes it.
    """
    report, judgement = report_of(survey, subject, matrix, shown, required, complete)
    for_people = shown.style in ("text", "html") and not shown.quiet
    look = ReportStyle(
        about=about,
        table=_table(survey.machine, matrix, about == "kernels" or shown.verbose),
        rates=_rates(survey.machine, matrix) if shown.style == "html" else {},
        again=again,
        require=require,
        best=_best(report, matrix) if for_people and not _another_is_required(required) else None,
        note=_note(report, again) if for_people else "",
    )
    give(report, judgement, shown, look)
    return report.exit_code


def judgement_of(
    machine: Machine,
    matrix: Matrix,
    shown: ReportOptions,
    required: tuple[Requirement, ...] = (),
    open_questions: tuple[NotJudged, ...] = (),
    *,
    foresee: bool = True,
) -> Judgement:
    """The judgement of a machine by the checks that count here; `foresee` as of `engine.judge`."""
    from gpudoctor.engine import ignore_rules, judge
    from gpudoctor.suites import machine_checks

    return judge(
        machine,
        matrix,
        machine_checks(shown.plugins),
        select=shown.select,
        project_select=shown.project_select,
        ignore=ignore_rules(shown.ignore),
        project_ignore=ignore_rules(shown.project_ignore),
        open_questions=open_questions,
        required=required,
        foresee=foresee,
    )


def report_of(
    survey: Survey,
    subject: Subject,
    matrix: Matrix,
    shown: ReportOptions,
    required: tuple[Requirement, ...] = (),
    complete: Callable[[Survey], Survey] | None = None,
) -> tuple[Report, Judgement]:
    """The report of a surveyed machine, and the judgement that it tells. `complete` adds what only fixes need: a
    machine without problems is not read any further."""
    from gpudoctor.report import make_report

    judgement = judgement_of(survey.machine, matrix, shown, required, survey.open_questions, foresee=False)
    whole = _tells_fixes_of_notes(survey.machine, shown)
    if can_be_foreseen(one for one in judgement.findings if whole or one.severity != "note"):
        survey = complete(survey) if complete else survey
        judgement = judgement_of(survey.machine, matrix, shown, required, survey.open_questions)
    report = make_report(
        survey.machine,
        matrix,
        judgement,
        subject=subject,
        fail_on=cast("FailOn", shown.fail_on),
        timings_ms=survey.timings_ms,
    )
    return report, judgement


def _tells_fixes_of_notes(machine: Machine, shown: ReportOptions) -> bool:
    """Whether anybody reads them: a short text tells none, but where no framework is it names the best build."""
    brief = shown.style == "text" and not shown.verbose and shown.report_file is None
    return not brief or not machine.torch


def give(report: Report, judgement: Judgement, shown: ReportOptions, look: ReportStyle) -> None:
    """The report to stdout and, whole and without colour, to the report file; `look` says what a text is about."""
    from gpudoctor.render.formats import report_text, write_report

    look = replace(look, private=shown.private, verbose=shown.verbose, quiet=shown.quiet, color=not shown.no_color)
    write_report(report, shown.style, sys.stdout, look, judgement.checks)
    if shown.report_file is not None:  # not made in vain
        from gpudoctor.render.report_file import write_report_file

        whole = replace(look, quiet=False, color=False)
        write_report_file(shown.report_file, report_text(report, shown.style, whole, judgement.checks))


def _note(report: Report, again: tuple[str, ...]) -> str:
    """A note that gpudoctor's own environment is not the examined one."""
    from gpudoctor.host import LiveHost
    from gpudoctor.probes.python_layout import in_tool

    active = any(os.environ.get(name) for name in ("VIRTUAL_ENV", "CONDA_PREFIX"))
    if report.subject.kind != "machine" or active or "--python" in again or not in_tool(LiveHost(), os.environ):
        return ""
    return "gpudoctor's own environment (uvx, pipx) is not examined; activate yours, or name it with --python."


def _another_is_required(required: tuple[Requirement, ...]) -> bool:
    return any(one.framework not in (None, "torch") for one in required)


def _best(report: Report, matrix: Matrix) -> tuple[str, str] | None:
    """The torch build to install where a usable GPU is, and no framework."""
    from gpudoctor.render.headline import usable

    machine, environment = report.machine, report.machine.examined
    if not environment.torch.absent or not usable(report) or environment.frameworks.others:
        return None
    if environment.start_faults or environment.torch_remains or environment.interrupted:
        return None  # its Python can install nothing, or a fix brings back what was there
    if any(one.severity == "error" for one in report.findings):
        return None  # the problem comes first; or no torch is the problem, and its fix says it
    from gpudoctor.recommend import recommend
    from gpudoctor.render.recommend import best_command
    from gpudoctor.situation import Situation
    from gpudoctor.situation.installer import installer

    return best_command(recommend(Situation(machine, matrix)), pip=installer(environment) != "uv")


def _table(machine: Machine, matrix: Matrix, wanted: bool) -> tuple[Line, ...]:
    """What the smoke kernels did, where they were run."""
    if machine.smoke is None or not wanted:
        return ()
    from gpudoctor.render.smoke import smoke_table

    return tuple(smoke_table(machine.smoke, _rates(machine, matrix)))


def _rates(machine: Machine, matrix: Matrix) -> dict[str, GpuRates]:
    if machine.smoke is None:
        return {}
    from gpudoctor.render.smoke import rates_on_paper

    return rates_on_paper(machine, matrix)
