"""Judging a machine and giving the report in the form that was asked for."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, TextIO, cast

if TYPE_CHECKING:
    from gpudoctor.cli.options import Shown
    from gpudoctor.doctor import Survey
    from gpudoctor.judge import FailOn
    from gpudoctor.machine import Machine
    from gpudoctor.matrix.questions import Matrix
    from gpudoctor.render.text import Line
    from gpudoctor.report import Report, Subject


def present(survey: Survey, subject: Subject, matrix: Matrix, shown: Shown, *, smoke_only: bool = False) -> int:
    """Judge, print the report to stdout (and to the report file), and give its exit code.

    `smoke_only`: a text has of the machine only what the smoke kernels did.
    """
    from gpudoctor.judge import judge
    from gpudoctor.report import make_report

    judgement = judge(
        survey.machine,
        matrix,
        select=shown.select,
        ignore=_ignored(shown.ignore),
        open_questions=survey.open_questions,
    )
    report = make_report(
        survey.machine,
        matrix,
        judgement,
        subject=subject,
        fail_on=cast("FailOn", shown.fail_on),
        timings_ms=survey.timings_ms,
    )
    if shown.style == "json":
        from gpudoctor.render.public import report_data, to_json

        text = to_json(report_data(report, private=shown.private))
        sys.stdout.write(text)
        _write_report_file(shown.report_file, text)
    else:
        _print_text(report, shown, _table(survey.machine, matrix, smoke_only or shown.verbose), smoke_only)
    return report.exit_code


def _ignored(rules: tuple[str, ...]) -> dict[str, str]:
    """`ID|SLUG|PREFIX[=REASON]` rules as a mapping to the reason."""
    parts = (rule.partition("=") for rule in rules)
    return {name.strip(): why.strip() for name, _, why in parts}


def _table(machine: Machine, matrix: Matrix, wanted: bool) -> list[Line]:
    """What the smoke kernels did, where they were run."""
    if machine.smoke is None or not wanted:
        return []
    from gpudoctor.render.smoke import rates_on_paper, smoke_table

    return list(smoke_table(machine.smoke, rates_on_paper(machine, matrix)))


def _print_text(report: Report, shown: Shown, table: list[Line], table_only: bool) -> None:
    import io

    from gpudoctor.render.text import print_report

    def show(out: TextIO, quiet: bool, color: bool) -> None:
        print_report(report, out, verbose=shown.verbose, quiet=quiet, color=color, table=table, table_only=table_only)

    show(sys.stdout, shown.quiet, not (shown.no_color or os.environ.get("NO_COLOR")))
    if shown.report_file is not None:
        copy = io.StringIO()
        show(copy, quiet=False, color=False)
        _write_report_file(shown.report_file, copy.getvalue())


def _write_report_file(path: str | None, text: str) -> None:
    from gpudoctor.host import InputError

    if path is None:
        return
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise InputError(
            f"--report-file {path}: cannot be written: {(error.strerror or str(error)).lower()}"
        ) from None
