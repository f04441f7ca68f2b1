"""A report as GitLab's code quality report, which merge requests show: a JSON list in the form of Code Climate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpudoctor.check import Check
from gpudoctor.render.alerts import alerts, examined_name
from gpudoctor.render.json import to_json
from gpudoctor.report import Report

_SEVERITIES = {"error": "critical", "warning": "major", "note": "info"}


def gitlab(report: Report, checks: Sequence[Check[Any]] = ()) -> str:
    """An entry for each alert, then for what is ignored; an empty list where all is well."""
    entries = [
        {
            "check_name": f"{alert.id} {alert.finding.slug}" if alert.finding else alert.id,
            "description": alert.text.partition("\n")[0],
            "content": {"body": alert.text},
            "severity": _SEVERITIES[alert.severity],
            "fingerprint": alert.fingerprint,
            "location": _location(alert.path, alert.line),
        }
        for alert in alerts(report)
    ]
    entries += [
        {
            "check_name": one.id,
            "description": f"ignored: {one.why or 'without a reason'}",
            "severity": "info",
            "fingerprint": f"ignored {one.id}",
            "location": _location(examined_name(report)),
        }
        for one in report.ignored
    ]
    return to_json(entries)


def _location(path: str, line: int | None = None) -> dict[str, Any]:
    return {"path": path, "lines": {"begin": line or 1}}
