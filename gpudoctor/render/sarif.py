"""A report as SARIF 2.1.0, which code scanning services and editors read: a rule for every check that ran, a result
for each finding and for each question that matters.

GitHub refuses a whole file in which one result has no place in a file. What was found on a machine gets one that is
named after what was examined, "this-machine".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from gpudoctor.render.plain import finding_lines, place_in_project
from gpudoctor.render.public import to_json

if TYPE_CHECKING:
    from gpudoctor.check import Check
    from gpudoctor.report import Report, ReportedFinding

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_DISTRIBUTION = "gpudoctor-cli"
_LARGEST = 1 << 20

Data = dict[str, Any]


def sarif(report: Report, checks: Sequence[Check[Any]]) -> str:
    """The log as JSON: one run."""
    results = [*_findings(report), *_questions(report)]
    rules = _rules(checks, results)
    numbers = {rule["id"]: number for number, rule in enumerate(rules)}
    driver = {"name": "gpudoctor", "version": report.gpudoctor, "semanticVersion": report.gpudoctor, "rules": rules}
    if pages := _documentation():
        driver["informationUri"] = pages
    run = {
        "tool": {"driver": driver},
        # Logs of one category replace each other where they are uploaded: each subject has its own.
        "automationDetails": {"id": f"gpudoctor/{_uri(_name(report))}/"},
        "invocations": [_invocation(report)],
        "columnKind": "unicodeCodePoints",
        "results": [{"ruleIndex": numbers[result["ruleId"]], **result} for result in _with_fingerprints(results)],
        "properties": {"verdict": report.verdict, "matrix": report.matrix},
    }
    return to_json({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


# --- rules -----------------------------------------------------------------------------------------------------


def _rules(checks: Sequence[Check[Any]], results: Sequence[Data]) -> list[Data]:
    """A rule for each check that ran, and for each name of a result that none of them has."""
    pages = _documentation()
    rules = {check.id: _rule(check, pages) for check in checks}
    for result in results:
        rules.setdefault(result["ruleId"], {"id": result["ruleId"]})
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
        rule["helpUri"] = f"{pages.rstrip('/')}/checks/{check.id}/"
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


def _findings(report: Report) -> Iterator[Data]:
    for finding in report.findings:
        place = place_in_project(finding)
        yield {
            "ruleId": finding.id,
            "level": finding.severity,
            "message": {"text": "\n".join(finding_lines(finding))},
            "locations": [_location(report, place, finding.subject)],
            "properties": {
                "slug": finding.slug,
                "confidence": finding.confidence,
                "evidence": [f"{one.fact} = {one.value} ({one.source})" for one in finding.evidence],
            },
            "partialFingerprints": _stable(finding, place),
        }


def _questions(report: Report) -> Iterator[Data]:
    """What could not be checked and matters: a log without problems must not look like a machine without."""
    for question in report.not_judged:
        if question.matters:
            yield {
                "ruleId": question.id,
                "level": "error" if report.exit_code else "warning",
                "message": {"text": f"could not check: {question.why}"},
                "locations": [_location(report, None, _name(report))],
                "partialFingerprints": {"gpudoctor/v1": _digest(question.id, "not judged", _name(report))},
            }


def _location(report: Report, place: tuple[str, int] | None, subject: str) -> Data:
    """A place in a file of the project; else a name for what was examined, and what of it is concerned."""
    if place is None:
        named = {"artifactLocation": {"uri": _uri(_name(report))}, "region": {"startLine": 1}}
        return {
            "physicalLocation": named,
            "logicalLocations": [{"name": subject or _name(report), "kind": "resource"}],
        }
    path, line = place
    region = {"startLine": line, **_columns(path, line)}
    return {"physicalLocation": {"artifactLocation": {"uri": _uri(path)}, "region": region}}


def _columns(path: str, line: int) -> dict[str, int]:
    """From where to where the line says something; nothing if the file is not here."""
    from gpudoctor.host.given_file import read_given

    try:
        text = read_given(path, _LARGEST).decode("utf-8-sig").splitlines()[line - 1]
    except (OSError, ValueError, IndexError):
        return {}
    return {"startColumn": len(text) - len(text.lstrip()) + 1, "endColumn": len(text.rstrip()) + 1} if text else {}


def _name(report: Report) -> str:
    """What was examined, as the name of a file: "this-machine", "docker/Dockerfile"."""
    return report.subject.label.replace("\\", "/").strip("./ ").replace(" ", "-") or "gpudoctor"


def _uri(path: str) -> str:
    from urllib.parse import quote

    # A first segment with a colon would be taken for a scheme: quote writes that as %3A.
    return quote(path.replace("\\", "/"), safe="/-._~", errors="replace")


# --- fingerprints ----------------------------------------------------------------------------------------------


def _stable(finding: ReportedFinding, place: tuple[str, int] | None) -> dict[str, str]:
    """What tells this finding from others, and stays when lines are added above it: no line number."""
    if place is None:
        return {"gpudoctor/v1": _digest(finding.id, finding.slug, finding.subject)}
    path, line = place
    at = f"{path}:{line}"
    said = [one.value for one in finding.evidence if one.source == at]
    subject = "" if finding.subject == at else finding.subject
    return {"gpudoctor/v1": _digest(finding.id, finding.slug, subject, path, *said)}


def _with_fingerprints(results: Sequence[Data]) -> Iterator[Data]:
    """Results that are equal are counted. GitHub goes by `primaryLocationLineHash`, and takes it from the lines of a
    file itself; what lies in no file needs one from here."""
    seen: Counter[str] = Counter()
    for result in results:
        digest = result["partialFingerprints"]["gpudoctor/v1"]
        seen[digest] += 1
        prints = {"gpudoctor/v1": f"{digest}:{seen[digest]}"}
        if "logicalLocations" in result["locations"][0]:
            prints["primaryLocationLineHash"] = prints["gpudoctor/v1"]
        yield {**result, "partialFingerprints": prints}


def _digest(*parts: str) -> str:
    from hashlib import sha256

    return sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:16]


# --- the run ---------------------------------------------------------------------------------------------------


def _invocation(report: Report) -> Data:
    invocation: Data = {
        "executionSuccessful": True,
        "exitCode": report.exit_code,
        "endTimeUtc": report.created,
    }
    if report.ignored:
        # Not results with suppressions: GitHub shows these as alerts all the same.
        invocation["toolConfigurationNotifications"] = [
            {"level": "note", "message": {"text": f"ignored [{one.id}]: {one.why or 'without a reason'}"}}
            for one in report.ignored
        ]
    return invocation
