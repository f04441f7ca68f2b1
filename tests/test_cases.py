"""Real fault reports (`tests/cases`), each laid out as a host folder and judged by `gpudoctor check --root`.

`python -m tests.test_cases` prints which report is judged how, and which is not and why.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.cases.reports import JUDGED, REPORTS, host_of
from tests.cases.shown import ANSWERS, SHOWN
from tests.support.hosts import first_fix
from tests.support.in_process import invoked


def judged(name: str, root: Path) -> dict[str, Any]:
    """The JSON report of gpudoctor on the machine of a report."""
    found = host_of(name, root / "host").check()
    if name not in ANSWERS:
        return found
    ANSWERS[name](found["machine"])
    snapshot = root / "machine.json"
    snapshot.write_text(json.dumps({"schema": 1, "gpudoctor": found["gpudoctor"], "machine": found["machine"]}))
    arguments = ["check", "--from", str(snapshot), "--format", "json"]
    result = invoked(*arguments)
    answered: dict[str, Any] = json.loads(result.stdout)
    return answered


def wrong(name: str, found: dict[str, Any]) -> str:
    """What is wrong with a judgement; "" where it is right."""
    expected = REPORTS[name].expected
    slug, severity = expected.slug or REPORTS[name].diagnosis, expected.severity
    findings = [(f["slug"], f["severity"]) for f in found["findings"]]
    errors = [name for name, worst in findings if worst == "error"]
    if severity == "none":
        return f"a false alarm: {errors}" if errors else ""
    if (slug, severity) not in findings:
        return f"{slug} is not among {findings}"
    if (severity == "error" and errors[0] != slug) or (severity != "error" and errors):
        return f"{slug} is not what comes first: {findings}"
    position = findings.index((slug, severity))
    fix = first_fix({"findings": found["findings"][position:]}) if found["findings"][position]["fixes"] else ""
    if severity == "error" and not fix:
        return "an error without a fix"
    return "" if expected.fix.lower() in fix.lower() else f"the fix is another: {fix}"


@pytest.mark.parametrize("name", JUDGED)
def test_a_real_report_is_judged_rightly(name: str, tmp_path: Path) -> None:
    assert wrong(name, judged(name, tmp_path)) == ""


def test_the_reports_are_all_there_and_most_diagnoses_are_taken_as_they_are() -> None:
    assert len(REPORTS) == 134
    assert len(JUDGED) >= 118
    assert not (SHOWN.keys() | ANSWERS.keys()) - set(JUDGED)
    others = [REPORTS[name].expected for name in JUDGED if REPORTS[name].expected.slug]
    assert all(expected.why for expected in others)
    assert len(others) <= len(JUDGED) - 110


def test_healthy_machines_are_among_the_reports() -> None:
    healthy = {name for name in JUDGED if REPORTS[name].diagnosis == "healthy"}
    assert len(healthy) >= 10
    assert {REPORTS[name].expected.severity for name in healthy} == {"none"}


def table() -> None:
    """Report, diagnosis, at which level it is judged, whether rightly, and what was found, one a line."""
    for name, report in REPORTS.items():
        if report.not_judged:
            print(f"{name}\t{report.diagnosis}\tnot judged: {report.not_judged}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            found = judged(name, Path(folder))
        told = " ".join(f"{f['severity']}:{f['slug']}" for f in found["findings"])
        level = "driver" if name in ANSWERS else "static"
        print(f"{name}\t{report.diagnosis}\t{level}\t{wrong(name, found) or 'right'}\t{told}\t{report.expected.why}")


if __name__ == "__main__":
    table()
