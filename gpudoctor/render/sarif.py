"""A report as SARIF 2.1.0, which code scanning services and editors read: a rule for every check that ran, a result
for each alert.

GitHub refuses a whole file in which one result has no place in a file. What was found on a machine gets one that is
named after what was examined, "this-machine".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from gpudoctor.check import Check
from gpudoctor.host.input_file import read_given
from gpudoctor.render.alerts import Alert, alerts, examined_name
from gpudoctor.render.json import to_json
from gpudoctor.report import Report

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_DISTRIBUTION = "gpudoctor-cli"
_LARGEST = 1 << 20

Data = dict[str, Any]


def sarif(report: Report, checks: Sequence[Check[Any]]) -> str:
    """The log as JSON: one run."""
    found = list(alerts(report))
    rules = _rules(checks, found)
    numbers = {rule["id"]: number for number, rule in enumerate(rules)}
    driver = {"name": "gpudoctor", "version": report.gpudoctor, "semanticVersion": report.gpudoctor, "rules": rules}
    if pages := _documentation():
        driver["informationUri"] = pages
    run = {
        "tool": {"driver": driver},
        # Logs of one category replace each other where they are uploaded: each subject has its own.
        "automationDetails": {"id": f"gpudoctor/{_uri(examined_name(report))}/"},
        "invocations": [_invocation(report)],
        "columnKind": "unicodeCodePoints",
        "results": [_result(alert, numbers[alert.id]) for alert in found],
        "properties": {"verdict": report.verdict, "matrix": report.matrix},
    }
    return to_json({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


# --- rules -----------------------------------------------------------------------------------------------------


def _rules(checks: Sequence[Check[Any]], found: Sequence[Alert]) -> list[Data]:
    """A rule for each check that ran, and for each id of an alert that none of them has."""
    pages = _documentation()
    rules = {check.id: _rule(check, pages) for check in checks}
    for alert in found:
        rules.setdefault(alert.id, {"id": alert.id})
    return [rules[id] for id in sorted(rules)]


def _rule(check: Check[Any], pages: str) -> Data:
    explanation = check.explanation
    rule: Data = {
        "id": check.id,
        "name": check.slug,
        "shortDescription": {"text": check.title},
        "fullDescription": {"text": _paragraph(explanation) or check.title},
        "help": {"text": re.sub(r"^#+ ", "", explanation, flags=re.MULTILINE), "markdown": explanation},
        "properties": {"tags": sorted({check.layer, check.framework or check.layer})},
    }
    if pages:
        rule["helpUri"] = f"{pages.rstrip('/')}/checks/{check.slug}/"
    return rule


def _paragraph(explanation: str) -> str:
    """Why it matters: the first paragraph below a heading."""
    found = re.search(r"^## .+\n((?:.+\n?)+)", explanation, re.MULTILINE)
    return " ".join(found[1].split()) if found else ""


def _documentation() -> str:
    """Where the installed distribution says that its pages are; "" if it does not."""
    from importlib.metadata import PackageNotFoundError, metadata

    try:
        links: list[str] = metadata(_DISTRIBUTION).get_all("Project-URL") or []
    except PackageNotFoundError:
        return ""
    named = {name.strip().lower(): url.strip() for name, _, url in (link.partition(",") for link in links)}
    return named.get("documentation", "")


# --- results ---------------------------------------------------------------------------------------------------


def _result(alert: Alert, rule: int) -> Data:
    """GitHub goes by `primaryLocationLineHash`, which it takes from the lines of a file itself: only what lies in no
    file needs one from here."""
    fingerprints = {"gpudoctor/v1": alert.fingerprint}
    if alert.line is None:
        fingerprints["primaryLocationLineHash"] = alert.fingerprint
    result: Data = {
        "ruleId": alert.id,
        "ruleIndex": rule,
        "level": alert.severity,
        "message": {"text": alert.text},
        "locations": [_location(alert)],
        "partialFingerprints": fingerprints,
    }
    if finding := alert.finding:
        result["properties"] = {
            "slug": finding.slug,
            "confidence": finding.confidence,
            "evidence": [f"{one.fact} = {one.value} ({one.source})" for one in finding.evidence],
        }
    return result


def _location(alert: Alert) -> Data:
    region = {"startLine": alert.line or 1, **(_columns(alert.path, alert.line) if alert.line else {})}
    physical = {"artifactLocation": {"uri": _uri(alert.path)}, "region": region}
    if alert.line is not None:
        return {"physicalLocation": physical}
    concerned = {"name": alert.subject or alert.path, "kind": "resource"}
    return {"physicalLocation": physical, "logicalLocations": [concerned]}


def _columns(path: str, line: int) -> dict[str, int]:
    """The columns between which the line has text; empty if the file is not here."""
    try:
        text = read_given(path, _LARGEST).decode("utf-8-sig").splitlines()[line - 1]
    except (OSError, ValueError, IndexError):
        return {}
    return {"startColumn": len(text) - len(text.lstrip()) + 1, "endColumn": len(text.rstrip()) + 1} if text else {}


def _uri(path: str) -> str:
    from urllib.parse import quote

    # A first segment with a colon would be taken for a scheme: quote writes that as %3A.
    return quote(path.replace("\\", "/"), safe="/-._~", errors="replace")


# --- the run ---------------------------------------------------------------------------------------------------


def _invocation(report: Report) -> Data:
    invocation: Data = {"executionSuccessful": True, "exitCode": report.exit_code, "endTimeUtc": report.created}
    if report.ignored:
        # Not results with suppressions: GitHub shows these as alerts all the same.
        invocation["toolConfigurationNotifications"] = [
            {"level": "note", "message": {"text": f"ignored [{one.id}]: {one.why or 'without a reason'}"}}
            for one in report.ignored
        ]
    return invocation
