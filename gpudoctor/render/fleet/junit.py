"""A fleet's report as JUnit XML: a suite for each node, a case for each of its problems and differences."""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement, indent, tostring

from gpudoctor.fleet.records import FleetNode, FleetProblem, FleetReport
from gpudoctor.render.fleet.summary import title_of
from gpudoctor.render.lines import printable


def text_of(report: FleetReport) -> str:
    """The XML, of the form that the xUnit plug-in's schema describes."""
    root = Element("testsuites", name="gpudoctor fleet")
    told = {(group.id, one.id): one for group in report.groups for one in group.problems}
    for node in report.nodes:
        _suite(root, node, told)
    for name in ("tests", "failures", "errors"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _suite(root: Element, node: FleetNode, told: dict[tuple[str, str], FleetProblem]) -> None:
    suite = SubElement(root, "testsuite", name=printable(node.name))
    for id in node.problems:
        one = told[(node.group, id)]
        _case(suite, f"{one.id} {one.slug}", one.message, failed=one.severity == "error")
    for odd in node.odd:
        told_odd = f"{title_of(odd.fact)} is {odd.value}; most nodes have {odd.norm}"
        _case(suite, f"same {odd.fact}", told_odd, failed=odd.severity == "error")
    if node.why or (node.verdict == "unknown" and not len(suite)):
        case = SubElement(suite, "testcase", name="answered", classname="gpudoctor.fleet", time="0")
        SubElement(case, "error", type="unknown", message=printable(node.why or "a question was left open"))
    elif not len(suite):
        SubElement(suite, "testcase", name="no problem", classname="gpudoctor.fleet", time="0")
    suite.set("tests", str(len(suite.findall("testcase"))))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("errors", str(len(suite.findall("testcase/error"))))
    suite.set("skipped", "0")
    suite.set("time", "0")


def _case(suite: Element, name: str, message: str, *, failed: bool) -> None:
    case = SubElement(suite, "testcase", name=printable(name), classname="gpudoctor.fleet", time="0")
    if failed:
        SubElement(case, "failure", type="problem", message=printable(message)).text = printable(message)
    else:
        SubElement(case, "system-out").text = printable(message)
