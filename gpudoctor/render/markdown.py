"""A report as Markdown, to be pasted into a bug report.

Every text that comes from a machine stands in a code span or a fence, where it cannot become a heading, a mention, a
link or HTML, and cannot end what it stands in.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from gpudoctor.render.headline import other_frameworks, usable
from gpudoctor.render.inventory import inventory
from gpudoctor.render.lines import printable
from gpudoctor.render.plain import finding_lines, one_line, runs_in_a_shell
from gpudoctor.render.steps import step_lines, telling_steps

if TYPE_CHECKING:
    from gpudoctor.check import Check
    from gpudoctor.report import Report, ReportedFinding

_WIDTH = 100
_SAFE_IN_SPAN = re.compile(r"[^`|\\]*[^`|\\ ]")


def markdown(report: Report, checks: Sequence[Check[Any]] = ()) -> str:
    """Verdict, machine, problems with their evidence folded, what could not be checked."""
    return "\n".join(_lines(report)).rstrip("\n") + "\n"


def _lines(report: Report) -> Iterator[str]:
    if report.subject.kind == "text":
        yield from _head_of_comment(report)
    else:
        yield from _head(report)
    if report.machine.gpus or report.subject.kind != "whatif":
        yield from _machine(report)
    for finding in report.findings:
        yield from _finding(finding)
    if questions := report.open_questions:
        yield from (
            "### Could not check",
            "",
            *(f"- {question.id}: {code(question.why)}" for question in questions),
            "",
        )
    if report.ignored:
        yield from ("### Ignored", "", *(f"- {ignored.id}: {code(ignored.why or '-')}" for ignored in report.ignored))


def _head_of_comment(report: Report) -> Iterator[str]:
    """The head of a comment that a maintainer posts below a report. It repeats nothing of the report's text."""
    errors = sum(finding.severity == "error" for finding in report.findings)
    found = f"{errors or 'no'} problem{'s' * (errors != 1)}" if report.verdict != "unknown" else "more is needed"
    yield f"## gpudoctor on this report: {found}"
    yield ""
    yield "This was concluded from the text of the report alone; what it does not say is taken as healthy."
    yield "`gpudoctor check` on the machine itself tells more."
    yield ""


def _head(report: Report) -> Iterator[str]:
    yield f"## gpudoctor: {_heading(report)}"
    yield ""
    level = f", level {report.machine.level}"
    label = "this machine" if report.subject.kind == "machine" else code(report.subject.label)
    yield f"gpudoctor {code(report.gpudoctor)}, matrix {code(report.matrix)}, {label}{level}."
    yield ""


def _heading(report: Report) -> str:
    """The verdict; but nothing is called ok where no GPU or no framework could be used."""
    if report.verdict != "ok" or (usable(report) and (report.machine.torch or other_frameworks(report))):
        return report.verdict
    return "no framework to check" if usable(report) else "no usable GPU"


def _machine(report: Report) -> Iterator[str]:
    yield "| machine | |"
    yield "|---|---|"
    for line in inventory(report):
        name, *rest = (text for text, _ in line)
        yield f"| {name.strip()} | {code(''.join(rest))} |"
    yield ""


def _finding(finding: ReportedFinding) -> Iterator[str]:
    yield f"### {finding.severity}: {finding.slug} [{finding.id}]"
    yield ""
    said = (finding.subject, *finding_lines(replace(finding, fixes=())))
    yield from _fence(part for line in said for part in _wrap(line))
    for number, fix in enumerate(finding.fixes):
        yield f"{'Alternative' if number else 'Fix'}: {code(fix.title)}"
        yield ""
        if steps := [line for step in telling_steps(fix) for line in step_lines(step)]:
            yield from _fence(steps, "sh" if runs_in_a_shell(fix) else "")
    if finding.evidence:
        yield "<details><summary>Evidence</summary>"
        yield ""
        yield from _fence(
            f"{evidence.fact} = {evidence.value}" + (f"  ({evidence.source})" if evidence.source else "")
            for evidence in finding.evidence
        )
        yield "</details>"
        yield ""


def _wrap(line: str) -> list[str]:
    """Lines whose names, numbers and commands stay whole."""
    return textwrap.wrap(line, _WIDTH, break_long_words=False, break_on_hyphens=False)


def _fence(lines: Iterable[str], language: str = "") -> Iterator[str]:
    """Lines in a fence that is longer than any run of backticks in them."""
    body = [part for line in lines for part in printable(line).split("\n")]
    ticks = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", "\n".join(body))), default=0))
    yield from (f"{ticks}{language}", *body, ticks, "")


def code(text: str) -> str:
    """A text as a code span of one line that means the same in a table.

    What would end a span or a cell makes it a <code> element, all punctuation written as numbers.
    """
    text = printable(one_line(text))
    if not text:
        return ""
    if _SAFE_IN_SPAN.fullmatch(text):
        return f"`{text}`"
    return f"<code>{''.join(c if c.isalnum() or c == ' ' else f'&#{ord(c)};' for c in text)}</code>"
