"""The report for a person: what this machine has, the first cause, what was seen and wanted, the way out.

Lines are built as styled spans, and printed through rich on a terminal or as plain text into a pipe.
Nothing that was read from a machine is taken as markup or as terminal control.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TextIO

from gpudoctor.fix.steps import EnvStep, Fix, ManualStep, RunStep
from gpudoctor.intake.snapshot import pseudonyms, public_text
from gpudoctor.plain_text import without_passwords
from gpudoctor.render.inventory import inventory

if TYPE_CHECKING:
    from gpudoctor.report import Report, ReportedFinding

Span = tuple[str, str]
"""(text, style); a style is one of rich's names, "" for none."""
Line = list[Span]

_MARKS = {"error": ("✗ ERROR", "bold red"), "warning": ("! WARNING", "bold yellow"), "note": ("· note", "cyan")}
_VERDICTS = {
    "ok": ("OK", "bold green"),
    "warning": ("WARNING", "bold yellow"),
    "error": ("ERROR", "bold red"),
    "unknown": ("UNKNOWN", "bold magenta"),
}
_PLAIN_WIDTH = 80


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


def print_lines(
    given: Iterable[Line],
    out: TextIO,
    *,
    color: bool,
    exact_commands: bool = False,
    stand_in: Callable[[str], str] = str,
) -> None:
    """Print lines, home folders left out: with colour if `out` is a terminal and `color`, plain text otherwise.

    `stand_in` puts something for the UUIDs of cards.

    Commands that are to be pasted here (`exact_commands`) keep another user's home folder; passwords of indexes are
    never shown.
    """
    clean = public_text(os.path.expanduser("~"), stand_in)

    def shown(text: str, style: str) -> str:
        exact = exact_commands and style == "command"
        return printable(without_passwords(text if exact else clean(text)))

    lines = [[(shown(text, style), style) for text, style in line] for line in given]
    if color and out.isatty():
        _print_rich(lines, out)
    else:
        _print_plain(lines, out)


def printable(text: str) -> str:
    """Text with control characters, escapes and direction overrides made visible."""
    return "".join(c if c.isprintable() or c == "\n" else f"\\x{ord(c):02x}" for c in text)


def _print_plain(lines: list[Line], out: TextIO) -> None:
    import textwrap

    terminal = os.get_terminal_size(out.fileno()).columns if out.isatty() else 0
    width = terminal or _PLAIN_WIDTH  # a terminal that was told no size has none
    for line in lines:
        text = "".join(span for span, _ in line)
        indent = len(text) - len(text.lstrip())
        keep = any(style == "command" for _, style in line)
        wrapped = (
            [text]
            if keep
            else textwrap.wrap(
                text,
                width,
                subsequent_indent=" " * (indent + 2),
                break_long_words=False,
                break_on_hyphens=False,
            )
        )
        out.write("\n".join(wrapped or [""]).rstrip() + "\n")


def _print_rich(lines: list[Line], out: TextIO) -> None:
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    console = Console(file=out, highlight=False, soft_wrap=False)
    for line in lines:
        body = Text()
        for text, style in line:
            body.append(text, style="bold" if style == "command" else style)
        if any(style == "command" for _, style in line):
            console.print(body, soft_wrap=True)
            continue
        indent = len(body.plain) - len(body.plain.lstrip())
        console.print(Padding(body[indent:] if indent else body, (0, 0, 0, indent), expand=False))


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
    for ignored in report.ignored:
        yield [("  ignored  ", "dim"), (f"{ignored.id}{f' ({ignored.why})' if ignored.why else ''}", "dim")]
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


def fix_lines(fix: Fix, label: str) -> Iterator[Line]:
    """One way out with its steps."""
    yield [(f"    {label}: ", "green"), (fix.title, "")]
    for step in fix.steps:
        if isinstance(step, RunStep):
            as_root = "sudo " if step.risk == "root" and os.geteuid() else ""
            yield [(f"      {as_root}{command_line(step.argv)}", "command")]
        elif isinstance(step, EnvStep):
            yield [(f"      export {step.name}={shlex.quote(step.value)}", "command")]
            if step.why:
                yield [(f"      ({step.why})", "dim")]
        elif isinstance(step, ManualStep):
            yield from ([(f"      {line}", "")] for line in step.text.splitlines())


def command_line(argv: tuple[str, ...] | list[str]) -> str:
    """A command as it can be pasted into a shell; a home folder is written ~."""
    home = os.path.expanduser("~")

    def quoted(argument: str) -> str:
        if home not in ("/", "") and argument.startswith(home + "/"):
            return "~/" + shlex.quote(argument[len(home) + 1 :])
        if argument.startswith("~/"):  # of a snapshot, which leaves homes out
            return "~/" + shlex.quote(argument[2:])
        return shlex.quote(argument)

    return " ".join(quoted(argument) for argument in argv)


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
