"""The report for a person: what this machine has, the first cause, what was seen and wanted, the way out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TextIO

from gpudoctor.privacy import pseudonyms
from gpudoctor.render.inventory import inventory
from gpudoctor.render.lines import Line, ignored_lines, print_lines
from gpudoctor.render.steps import fix_lines

if TYPE_CHECKING:
    from gpudoctor.report import Report, ReportedFinding

_MARKS = {"error": ("✗ ERROR", "bold red"), "warning": ("! WARNING", "bold yellow"), "note": ("· note", "cyan")}
_VERDICTS = {
    "ok": ("OK", "bold green"),
    "warning": ("WARNING", "bold yellow"),
    "error": ("ERROR", "bold red"),
    "unknown": ("UNKNOWN", "bold magenta"),
}


def print_report(
    report: Report,
    out: TextIO,
    *,
    verbose: bool = False,
    quiet: bool = False,
    color: bool = True,
    table: Sequence[Line] = (),
    table_only: bool = False,
) -> None:
    """Print a report to `out`: with colour if it is a terminal and `color`, plain text otherwise.

    `table` tells what the smoke kernels did; `table_only`: nothing else is told of the machine.
    """
    here = report.subject.kind == "machine"
    head = () if table_only else inventory(report)
    lines = _lines(report, verbose, quiet, (head, table))
    print_lines(lines, out, color=color, exact_commands=here, stand_in=pseudonyms(report.machine))


def _lines(report: Report, verbose: bool, quiet: bool, parts: tuple[Iterable[Line], ...]) -> Iterator[Line]:
    worst = [finding for finding in report.findings if finding.severity == "error"]
    if quiet:
        for finding in worst[:1]:
            yield from _finding(finding, verbose=False, first=True)
        return
    label = report.subject.label if report.subject.kind != "machine" else "this machine"
    yield [("gpudoctor ", "bold"), (f"{report.gpudoctor} · {label} · level {report.machine.level}", "")]
    yield []
    for number, part in enumerate(filter(None, map(tuple, parts))):
        if number:
            yield []
        yield from part
    shown = [f for f in report.findings if verbose or f.severity != "note"] or []
    for number, finding in enumerate(shown):
        yield []
        yield from _finding(finding, verbose, first=number == 0)
    notes = [f for f in report.findings if f.severity == "note" and f not in shown]
    if notes:
        yield []
        yield from (
            [("  · note  ", "cyan"), (f"{finding.message} ", ""), (f"[{finding.id}]", "dim")] for finding in notes
        )
    yield from _open_questions(report, verbose)
    yield from ignored_lines(report)
    yield []
    yield _verdict(report)


def _finding(finding: ReportedFinding, verbose: bool, first: bool) -> Iterator[Line]:
    mark, style = _MARKS[finding.severity]
    yield [(f"{mark}  ", style), (finding.slug, "bold"), (f" [{finding.id}]", "dim"), (f"  {finding.subject}", "")]
    yield [(f"    {finding.message}", "")]
    if finding.saw:
        yield [("    saw   ", "dim"), (finding.saw, "")]
    if finding.want:
        yield [("    want  ", "dim"), (finding.want, "")]
    if finding.confidence != "certain":
        yield [(f"    This is {finding.confidence}, not certain.", "dim")]
    if verbose:
        for evidence in finding.evidence:
            yield [
                (f"    read  {evidence.fact} = {evidence.value}", "dim"),
                (f"  ({evidence.source})" if evidence.source else "", "dim"),
            ]
        if finding.refs:
            yield [(f"    see   {', '.join(finding.refs)}", "dim")]
    shown = finding.fixes if first or verbose else finding.fixes[:1]
    for number, fix in enumerate(shown):
        yield from fix_lines(fix, "Way out" if number == 0 else "Or")


def _open_questions(report: Report, verbose: bool) -> Iterator[Line]:
    questions = [q for q in report.not_judged if verbose or q.matters]
    if questions:
        yield []
    for question in questions:
        style = "magenta" if question.matters else "dim"
        yield [("  ? not judged  ", style), (f"{question.why} [{question.id}]", "")]


def _verdict(report: Report) -> Line:
    word, style = _VERDICTS[report.verdict]
    errors = sum(finding.severity == "error" for finding in report.findings)
    failed = report.smoke is not None and any(k.status not in ("pass", "skipped") for k in report.smoke.kernels)
    rest = {
        "ok": "though not all kernels pass: see the notes above." if failed else "no fault was found.",
        "warning": f"{'not all kernels pass: see above' if failed else 'it works, but see above'}.",
        "error": f"repair the first finding first (`gpudoctor explain {report.findings[0].id}` says more)."
        if errors
        else "",
        "unknown": "something that decides about a usable GPU could not be judged.",
    }[report.verdict]
    return [("Verdict: ", "bold"), (word, style), (f", {rest}", "")]
