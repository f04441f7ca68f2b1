"""A report as alerts, which code scanning services keep from run to run: each has a place and a fingerprint."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from gpudoctor.finding import Severity
from gpudoctor.render.plain import finding_lines, place_in_project

if TYPE_CHECKING:
    from gpudoctor.report import Report, ReportedFinding


class Alert(Struct, frozen=True):
    """A finding, or a question that matters and was not answered: a report without problems must not look like that
    of a machine without."""

    id: str
    severity: Severity
    text: str
    path: str
    """A file of the project, or `examined`."""
    line: int | None
    """None for what was found in no file of the project."""
    subject: str
    fingerprint: str
    finding: ReportedFinding | None = None


def alerts(report: Report) -> Iterator[Alert]:
    """All that a service should track. Equal ones are counted, so that no two have the same fingerprint."""
    seen: Counter[str] = Counter()

    def counted(*parts: str) -> str:
        digest = _digest(*parts)
        seen[digest] += 1
        return f"{digest}:{seen[digest]}"

    for finding in report.findings:
        place = place_in_project(finding)
        path, line = place or (examined_name(report), None)
        text = "\n".join(finding_lines(finding))
        fingerprint = counted(*_lasting(finding, place))
        yield Alert(finding.id, finding.severity, text, path, line, finding.subject, fingerprint, finding)
    for question in report.open_questions:
        name = examined_name(report)
        text, fingerprint = f"could not check: {question.why}", counted(question.id, "not judged", name)
        yield Alert(question.id, "error" if report.exit_code else "warning", text, name, None, name, fingerprint)


def examined_name(report: Report) -> str:
    """What was examined, in the form of a file's name: "this-machine", "docker/Dockerfile"."""
    return report.subject.label.replace("\\", "/").strip("./ ").replace(" ", "-") or "gpudoctor"


def _lasting(finding: ReportedFinding, place: tuple[str, int] | None) -> tuple[str, ...]:
    """What tells a finding from others and stays when lines are added above it: no line number."""
    if place is None:
        return finding.id, finding.slug, finding.subject
    at = f"{place[0]}:{place[1]}"
    said = (one.value for one in finding.evidence if one.source == at)
    return finding.id, finding.slug, finding.subject.replace(at, ""), place[0], *said


def _digest(*parts: str) -> str:
    from hashlib import sha256

    return sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:16]
