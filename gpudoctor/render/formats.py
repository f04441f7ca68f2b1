"""The forms of a report: which there are, and who writes each.

Only the chosen writer is imported: `preflight` reads the list at every start of a container.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from gpudoctor.check import Check
    from gpudoctor.render.style import ReportStyle
    from gpudoctor.report import Report

FORMATS = ("text", "json", "junit", "github", "markdown", "html", "sarif", "gitlab", "openmetrics")


def write_report(
    report: Report, style: str, out: TextIO, look: ReportStyle | None = None, checks: Sequence[Check[Any]] = ()
) -> None:
    """Write a report to `out` in one of FORMATS. `checks` are those that ran."""
    if look is None:
        from gpudoctor.render.style import PLAIN

        look = PLAIN
    if style == "text":
        from gpudoctor.render.text import print_report

        print_report(report, out, look)
    elif style == "json":
        from gpudoctor.render.json import report_data, to_json

        out.write(to_json(report_data(report, private=look.private)))
    elif style == "html":
        from gpudoctor.render.html.report import report_page
        from gpudoctor.render.json import shareable

        out.write(report_page(shareable(report, private=look.private), look, checks))
    else:
        from gpudoctor.render.json import shareable

        out.write(_writer(style)(shareable(report, private=look.private), checks))


def report_text(
    report: Report, style: str, look: ReportStyle | None = None, checks: Sequence[Check[Any]] = ()
) -> str:
    """A report in one of FORMATS, as a text."""
    copy = io.StringIO()
    write_report(report, style, copy, look, checks)
    return copy.getvalue()


def _writer(style: str) -> Callable[[Report, Sequence[Check[Any]]], str]:
    """The function of a format's module that is named as the format."""
    writer: Callable[[Report, Sequence[Check[Any]]], str]
    writer = getattr(import_module(f"gpudoctor.render.{style}"), style)
    return writer
