"""Judging a machine and giving the report in the form that was asked for."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from gpudoctor.cli.options import Shown
    from gpudoctor.doctor import Survey
    from gpudoctor.judge import FailOn
    from gpudoctor.matrix.questions import Matrix
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
        _print_text(report, shown, smoke_only)
    return report.exit_code


def _ignored(rules: tuple[str, ...]) -> dict[str, str]:
    """`ID|SLUG|PREFIX[=REASON]` rules as a mapping to the reason."""
    parts = (rule.partition("=") for rule in rules)
    return {name.strip(): why.strip() for name, _, why in parts}


def _print_text(report: Report, shown: Shown, smoke_only: bool) -> None:
    import io

    from gpudoctor.render.text import print_report

    color = not (shown.no_color or os.environ.get("NO_COLOR"))
    print_report(report, sys.stdout, verbose=shown.verbose, quiet=shown.quiet, color=color, smoke_only=smoke_only)
    if shown.report_file is not None:
        copy = io.StringIO()
        print_report(report, copy, verbose=shown.verbose, smoke_only=smoke_only)
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
