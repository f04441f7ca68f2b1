"""A report as JUnit XML, which build servers show: a test case for every check that ran.

Errors are failures; a question that matters and was not answered is an error of the test; what a person ignored is
skipped. Warnings and notes pass, and say in the case's output what they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from gpudoctor.render.lines import printable
from gpudoctor.render.plain import finding_lines, one_line

if TYPE_CHECKING:
    from gpudoctor.check import Check
    from gpudoctor.report import Report, ReportedFinding


def junit(report: Report, checks: Sequence[Check[Any]]) -> str:
    """The XML, of the form that the xUnit plug-in's schema describes."""
    names = {check.id: check.slug for check in checks}
    names.update((finding.id, finding.slug) for finding in report.findings)  # a check that crashed, too
    for id in (*(ignored.id for ignored in report.ignored), *(q.id for q in report.not_judged if q.matters)):
        names.setdefault(id, "not-judged")
    root = Element("testsuites", name="gpudoctor")
    suite = SubElement(root, "testsuite", name=printable(f"gpudoctor {report.subject.label}"))
    _properties(suite, report)
    for id, slug in sorted(names.items()):
        _case(suite, id, slug, report)
    cases = suite.findall("testcase")
    counts = {
        "tests": len(cases),
        "failures": len(suite.findall("testcase/failure")),
        "errors": len(suite.findall("testcase/error")),
    }
    for name, count in counts.items():
        root.set(name, str(count))
        suite.set(name, str(count))
    suite.set("skipped", str(sum(situation.find("skipped") is not None for situation in cases)))
    suite.set("time", f"{sum(report.timings_ms.values()) / 1000:.3f}")
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _properties(suite: Element, report: Report) -> None:
    properties = SubElement(suite, "properties")
    facts = {
        "verdict": report.verdict,
        "exit_code": str(report.exit_code),
        "gpudoctor": report.gpudoctor,
        "matrix": report.matrix,
        "level": report.machine.level,
    }
    for name, value in facts.items():
        SubElement(properties, "property", name=name, value=printable(value))


def _case(suite: Element, id: str, slug: str, report: Report) -> None:
    """One case with one outcome: the first error of a check is its message, the text holds all of them."""
    situation = SubElement(suite, "testcase", name=f"{id} {slug}", classname=f"gpudoctor.{id[:4]}", time="0")
    findings = [finding for finding in report.findings if finding.id == id]
    errors = [finding for finding in findings if finding.severity == "error"]
    remarks = [finding for finding in findings if finding.severity != "error"]
    open_questions = [question for question in report.not_judged if question.id == id]
    essential = [question for question in open_questions if question.matters]
    if errors:
        failure = SubElement(situation, "failure", type=slug, message=printable(one_line(errors[0].message)))
        failure.text = printable("\n\n".join(_finding_text(finding) for finding in errors))
    elif essential:
        error = SubElement(situation, "error", type="not-judged", message=printable(one_line(essential[0].why)))
        error.text = printable("\n".join(f"could not check: {question.why}" for question in essential))
    elif ignored := next((ignored for ignored in report.ignored if ignored.id == id), None):
        why = f"ignored: {ignored.why}" if ignored.why else "ignored"
        SubElement(situation, "skipped", type="ignored", message=printable(one_line(why)))
    elif open_questions and not findings:
        SubElement(situation, "skipped", type="not-judged", message=printable(one_line(open_questions[0].why)))
    if remarks:
        SubElement(situation, "system-out").text = printable(
            "\n\n".join(_finding_text(finding) for finding in remarks)
        )


def _finding_text(finding: ReportedFinding) -> str:
    return "\n".join((f"{finding.severity}: {finding.subject}", *finding_lines(finding)))
