"""Judging a machine and giving the report in the form that was asked for."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

if TYPE_CHECKING:
    from gpudoctor.command_line.arguments import Shown
    from gpudoctor.engine import FailOn, Judgement
    from gpudoctor.machine import Machine
    from gpudoctor.matrix.questions import Matrix
    from gpudoctor.render.lines import Line
    from gpudoctor.report import Report, Subject
    from gpudoctor.requirement import Requirement
    from gpudoctor.survey import Survey


def present(
    survey: Survey,
    subject: Subject,
    matrix: Matrix,
    shown: Shown,
    *,
    required: tuple[Requirement, ...] = (),
    smoke_only: bool = False,
) -> int:
    """Judge, print the report to stdout (and to the report file), and give its exit code.

    `smoke_only`: a text has of the machine only what the smoke kernels did.
    """
    report, judgement = judged(survey, subject, matrix, shown, required)
    give(report, judgement, shown, _table(survey.machine, matrix, smoke_only or shown.verbose), smoke_only)
    return report.exit_code


def judged(
    survey: Survey, subject: Subject, matrix: Matrix, shown: Shown, required: tuple[Requirement, ...] = ()
) -> tuple[Report, Judgement]:
    """The report of a surveyed machine, and the judgement that it tells."""
    from gpudoctor.engine import ignore_rules, judge
    from gpudoctor.report import make_report
    from gpudoctor.suites import machine_checks

    judgement = judge(
        survey.machine,
        matrix,
        machine_checks(shown.plugins),
        select=shown.select,
        project_select=shown.project_select,
        ignore=ignore_rules(shown.ignore),
        project_ignore=ignore_rules(shown.project_ignore),
        open_questions=survey.open_questions,
        required=required,
    )
    report = make_report(
        survey.machine,
        matrix,
        judgement,
        subject=subject,
        fail_on=cast("FailOn", shown.fail_on),
        timings_ms=survey.timings_ms,
    )
    return report, judgement


def give(report: Report, judgement: Judgement, shown: Shown, table: tuple[Line, ...], table_only: bool) -> None:
    """The report to stdout and, whole and without colour, to the report file."""
    from gpudoctor.render.formats import Look, report_text, write_report

    color = not (shown.no_color or os.environ.get("NO_COLOR"))
    look = Look(shown.private, shown.verbose, shown.quiet, color, table, table_only)
    write_report(report, shown.style, sys.stdout, look, judgement.checks)
    if shown.report_file is not None:  # not made in vain
        from gpudoctor.render.report_file import write_report_file

        whole = replace(look, quiet=False, color=False)
        write_report_file(shown.report_file, report_text(report, shown.style, whole, judgement.checks))


def _table(machine: Machine, matrix: Matrix, wanted: bool) -> tuple[Line, ...]:
    """What the smoke kernels did, where they were run."""
    if machine.smoke is None or not wanted:
        return ()
    from gpudoctor.render.smoke import rates_on_paper, smoke_table

    return tuple(smoke_table(machine.smoke, rates_on_paper(machine, matrix)))
