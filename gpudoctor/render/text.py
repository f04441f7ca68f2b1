"""The report for a person: how it stands, what this machine has, each problem with its fix, what to type next."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, TextIO

from gpudoctor.finding import SEEN
from gpudoctor.plain_text import TO_BE_SURE, is_command, questions
from gpudoctor.privacy import pseudonyms
from gpudoctor.render.headline import could_not_check, headline, in_brief
from gpudoctor.render.inventory import inventory
from gpudoctor.render.lines import MARKS, Line, ignored_lines, print_lines
from gpudoctor.render.next_command import next_lines
from gpudoctor.render.steps import fix_lines

if TYPE_CHECKING:
    from gpudoctor.render.style import ReportStyle
    from gpudoctor.report import Report, ReportedFinding


def print_report(report: Report, out: TextIO, look: ReportStyle) -> None:
    """Print a report to `out`: with colour if it is a terminal and `look` wants that."""
    here = report.subject.kind == "machine"
    lines = _first_problem(report) if look.quiet else _lines(report, look)
    print_lines(lines, out, color=look.color, exact_commands=here, stand_in=pseudonyms(report.machine))


def _first_problem(report: Report) -> Iterator[Line]:
    for finding in report.findings[:1]:
        if finding.severity == "error":
            yield from _problem(finding, report, verbose=False, first=True)


def _lines(report: Report, look: ReportStyle) -> Iterator[Line]:
    yield headline(report, look)
    read = look.about != "image" and report.subject.kind not in ("text", "whatif")
    level = f" · level {report.machine.level}" if read else ""
    yield [(f"gpudoctor {report.gpudoctor} · {report.subject.name}{level}", "dim")]
    for part in (inventory(report) if look.about == "machine" else (), look.table):
        if lines := tuple(part):
            yield []
            yield from lines
    if look.note:
        yield [("  ", ""), (look.note, "dim")]
    shown = [finding for finding in report.findings if look.verbose or finding.severity != "note"]
    for number, finding in enumerate(shown):
        yield []
        yield from _problem(finding, report, verbose=look.verbose, first=number == 0)
    notes = [note for note in report.findings if note not in shown and not _is_told(note, shown)]
    if notes:
        yield []
    for note in notes:
        yield [("  · Note  ", "cyan"), (note.message, ""), (f" [{note.id}]", "dim")]
    yield from _question_lines(report, look)
    yield from ignored_lines(report)
    if look.best:
        yield []
        yield [("Best build here: ", "bold"), (look.best[0], "")]
        yield [("  ", ""), (look.best[1], "command")]
    yield []
    yield from next_lines(report, look)


def _is_told(note: ReportedFinding, shown: list[ReportedFinding]) -> bool:
    """Whether a note tells nothing new: a cause that the message of a problem lists, no GPU, no torch."""
    named = not note.evidence and not note.fixes and any(note.slug in problem.message for problem in shown)
    return named or note.slug == "torch-missing" or (note.slug == "no-gpu" and note.saw == "no GPU")


def _problem(finding: ReportedFinding, report: Report, *, verbose: bool, first: bool) -> Iterator[Line]:
    """What is wrong, its fix, what was seen and found, what else it may be, and how sure that is."""
    from gpudoctor.render.plain import found_and_needed, message_parts, origins

    mark, style = MARKS[finding.severity]
    subject = f"  {finding.subject}" if finding.subject else ""
    yield [(mark, style), (finding.slug, "bold"), (f" [{finding.id}]", "dim"), (subject, "")]
    message, parts = message_parts(_without_fixes(finding))
    yield [("    ", ""), (message, "")]
    for number, fix in enumerate(finding.fixes if first or verbose else finding.fixes[:1]):
        yield from fix_lines(fix, "Alternative" if number else "Fix", here=report.subject.here, told=finding.message)
    if cause := _its_cause(finding, report):
        yield [("    Fix: ", "green"), (f"that of {cause.slug} [{cause.id}]: this goes with it", "")]
    yield from _seen(parts)
    for label, value in () if cause else found_and_needed(finding):
        yield [(f"    {label:<8}", "dim"), (value, "")]
    yield from ([("    from    ", "dim"), (origin, "")] for origin in origins(finding, report))
    for label, text in parts.items():
        yield from _open_question(label, text)
    if finding.confidence != "certain":
        from gpudoctor.render.certainty import certainty

        sure = certainty(finding, report)
        yield [("    ", ""), (sure, "dim")]
    if not verbose:
        return
    for evidence in finding.evidence:
        source = f"  ({evidence.source})" if evidence.source else ""
        yield [("    read    ", "dim"), (f"{evidence.fact} = {evidence.value}{source}", "dim")]
    if finding.refs:
        yield [("    see     ", "dim"), (", ".join(finding.refs), "dim")]


def _seen(parts: dict[str, str]) -> Iterator[Line]:
    if SEEN in parts:
        yield [("    seen    ", "dim"), (parts.pop(SEEN).removesuffix("."), "")]


def _without_fixes(finding: ReportedFinding) -> str:
    """The message without a sentence that is the title of a fix, which follows it."""
    titles = [fix.title for fix in finding.fixes if f" {fix.title}" in finding.message and fix.title.endswith(".")]
    return finding.message.replace(f" {titles[0]}", "") if titles else finding.message


def _open_question(label: str, text: str) -> Iterator[Line]:
    """What else it may be, or what decides: a command on a line of its own, so that it can be copied."""
    asked = [re.sub(r"^`([^`]+)`$", r"\1", part) for part in questions(text.removesuffix("."))]
    if label == TO_BE_SURE and any(is_command(part) for part in asked):
        yield [("    ", ""), (label, "dim")]
        yield from ([("      ", ""), (part, "command" if is_command(part) else "")] for part in asked)
    else:
        yield [("    ", ""), (f"{label} ", "dim"), (text, "")]


def _its_cause(finding: ReportedFinding, report: Report) -> ReportedFinding | None:
    """The problem whose fix ends one that has no fix of its own."""
    return next(
        (one for one in report.findings if one.id in finding.caused_by and one.fixes and not finding.fixes), None
    )


def _question_lines(report: Report, look: ReportStyle) -> Iterator[Line]:
    questions = [question for question in report.not_judged if look.verbose or question.matters]
    told = any(finding.severity == "warning" for finding in report.findings)
    texts = [could_not_check(question) for question in questions]
    if report.verdict == "unknown" and not told and not look.verbose and texts:
        texts[0] = texts[0].removeprefix(in_brief(questions[0])).removeprefix(".")  # the first line has that
    if not any(texts):
        return
    from gpudoctor.render.plain import message_parts

    yield []
    for question, text in zip(questions, texts, strict=True):
        if not text:
            continue
        message, parts = message_parts(text)
        if message:
            style = "magenta" if question.matters else "dim"
            yield [("  ? ", style), (message.strip(), ""), (f" [{question.id}]", "dim")]
        yield from _seen(parts)
        for label, part in parts.items():
            yield from _open_question(label, part)
