"""Why a command was not started: the first problem and its fix, in a few lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpudoctor.plain_text import number_of
from gpudoctor.render.headline import could_not_check
from gpudoctor.render.lines import Line, ignored_lines
from gpudoctor.render.next_command import next_line
from gpudoctor.render.steps import fix_lines

if TYPE_CHECKING:
    from gpudoctor.report import Report


def refusal_lines(report: Report, command: tuple[str, ...], code: int, again: tuple[str, ...]) -> Iterator[Line]:
    """A refusal in brief, for a log; `code` is what gpudoctor exits with, `again` the options with which `check`
    shows the same, and more of it."""
    first = report.findings[0] if report.findings else None
    what = f"{command[0] or 'the command'} was not started" if command else "this machine does not pass"
    yield [("gpudoctor: ", "bold"), (f"{what} (exit {code}).", "bold red")]
    more = ""
    if report.verdict == "unknown":
        for question in report.open_questions:
            yield [("  ? ", "magenta"), (could_not_check(question), ""), (f" [{question.id}]", "dim")]
    elif first is not None:
        yield [("  ", ""), (f"{first.slug} [{first.id}]  ", "bold"), (first.subject, "")]
        yield [("    ", ""), (first.message, "")]
        for fix in first.fixes[:1]:
            yield from fix_lines(fix, "Fix", here=report.subject.here)
        others = sum(finding.severity == first.severity for finding in report.findings) - 1
        beside = f"{number_of(others, 'more problem')}. " if others else ""
        more = f"{beside}`gpudoctor explain {first.id}` tells more."
    yield from ignored_lines(report)
    if more:
        yield [("  ", ""), (more, "")]
    yield next_line(("gpudoctor", "check", *again, *(() if more else ("-v",))))
