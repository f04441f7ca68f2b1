"""What a person reads when the command was not started: the first cause and its way out, in a few lines."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

from gpudoctor.report import Report, Subject, make_report

if TYPE_CHECKING:
    from gpudoctor.matrix.questions import Matrix
    from gpudoctor.preflight.arguments import Given
    from gpudoctor.preflight.gate import Passage


def tell(passed: Passage, matrix: Matrix, given: Given, code: int) -> None:
    """The refusal (where `code` is not 0) to stderr, the report to its file; to stdout only where JSON was asked for
    and no command would own that stream. Raises InputError where the file cannot be written."""
    report = make_report(
        passed.survey.machine,
        matrix,
        passed.judgement,
        subject=Subject("machine", "this machine"),
        fail_on=given.get("fail_on") or "error",
        timings_ms=passed.survey.timings_ms,
    )
    if code:
        _refuse(report, given, code)
    style = given.get("style") or "text"
    if style == "json" and not given["command"]:
        sys.stdout.write(_text(report, style))
    if given.get("report_file"):
        _write(given["report_file"], _text(report, style))


def _refuse(report: Report, given: Given, code: int) -> None:
    if given.get("verbose"):
        from gpudoctor.render.text import print_report

        print_report(report, sys.stderr, verbose=True)
    from gpudoctor.render.refusal import print_refusal

    print_refusal(report, sys.stderr, given["command"], code)


def _text(report: Report, style: str) -> str:
    if style == "json":
        from gpudoctor.render.public import report_data, to_json

        return to_json(report_data(report, private=False))
    from gpudoctor.render.text import print_report

    copy = io.StringIO()
    print_report(report, copy)
    return copy.getvalue()


def _write(path: str, text: str) -> None:
    from gpudoctor.host import InputError

    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        said = (error.strerror or str(error)).lower()
        raise InputError(f"--report-file {path}: cannot be written: {said}") from None
