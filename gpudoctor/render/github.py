"""A report as annotations of GitHub workflows: lines that the runner shows beside a job, a pull request, a file.

A line is `::error title=...::message`. What has a meaning in it is written %XX, so no text from a machine can start
a command of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from gpudoctor.render.lines import printable
from gpudoctor.render.plain import finding_lines, place_in_project

if TYPE_CHECKING:
    from gpudoctor.check import Check
    from gpudoctor.report import Report

_LEVELS = {"error": "error", "warning": "warning", "note": "notice"}


def github(report: Report, checks: Sequence[Check[Any]] = ()) -> str:
    """A line for each finding, then for each question that matters; nothing where all is well."""
    return "".join(f"{line}\n" for line in _lines(report))


def _lines(report: Report) -> Iterator[str]:
    for finding in report.findings:
        properties = {"title": f"{finding.slug} [{finding.id}] {finding.subject}".rstrip()}
        if place := place_in_project(finding):
            properties = {"file": place[0], "line": str(place[1]), **properties}
        yield _annotation(_LEVELS[finding.severity], properties, "\n".join(finding_lines(finding)))
    for question in report.open_questions:
        level = "error" if report.exit_code else "warning"
        yield _annotation(level, {"title": f"could not check [{question.id}]"}, question.why)
    for ignored in report.ignored:
        yield _annotation("notice", {"title": f"ignored [{ignored.id}]"}, ignored.why or "without a reason")


def _annotation(level: str, properties: dict[str, str], message: str) -> str:
    written = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{level} {written}::{_data(message)}"


def _data(text: str) -> str:
    """The message of an annotation, as actions/toolkit escapes it."""
    return printable(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """The value of a property, as actions/toolkit escapes it."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")
