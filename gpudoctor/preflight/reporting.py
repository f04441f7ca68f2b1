"""What preflight reports: why the command was not started, in a few lines, and the reports that were asked for."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from gpudoctor.report import Report, Subject, make_report

if TYPE_CHECKING:
    from gpudoctor.command_line.option_parser import Given
    from gpudoctor.preflight.gate import Passage


def write_reports(passed: Passage, given: Given, code: int) -> None:
    """Write the refusal to stderr where `code` is not 0, and the report to its file.

    The report goes to stdout only in a machine-readable form, and without a command that owns that stream. Raises
    InputError, after all else, if the file cannot be written.
    """
    report = make_report(
        passed.survey.machine,
        passed.matrix,
        passed.judgement,
        subject=Subject("machine", "this machine"),
        fail_on=passed.rules.fail_on,
        timings_ms=passed.survey.timings_ms,
    )
    if code:
        _refuse(report, given, code)
    from gpudoctor.render.formats import report_text
    from gpudoctor.render.report_file import write_report_file

    style, checks = given.get("style") or "text", passed.judgement.checks
    if style != "text" and not given["command"]:
        sys.stdout.write(report_text(report, style, checks=checks))
    if given.get("report_file"):
        write_report_file(given["report_file"], report_text(report, style, checks=checks))


def _refuse(report: Report, given: Given, code: int) -> None:
    if given.get("verbose"):
        from gpudoctor.render.style import ReportStyle
        from gpudoctor.render.text import print_report

        print_report(report, sys.stderr, ReportStyle(verbose=True, color=True))
    from gpudoctor.command_line.option_parser import words
    from gpudoctor.command_line.options import MATRIX, PYTHON, REQUIRE
    from gpudoctor.render.lines import print_lines
    from gpudoctor.render.refusal import refusal_lines

    again = words((PYTHON, MATRIX, REQUIRE), given)
    lines = refusal_lines(report, given["command"], code, again)
    print_lines(lines, sys.stderr, color=True, exact_commands=True)
