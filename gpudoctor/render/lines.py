"""Lines of styled spans, printed through rich on a terminal with colour, as plain text elsewhere.

The text is the same in both. Nothing that was read from a machine is taken as markup or as terminal control.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TextIO

from gpudoctor.plain_text import without_workflow_commands
from gpudoctor.privacy import public_text, without_secrets
from gpudoctor.render.layout import Line, Span, wrap

if TYPE_CHECKING:
    from gpudoctor.report import Report

__all__ = ["MARKS", "Line", "Span", "columns", "ignored_lines", "print_lines", "printable"]

_PLAIN_WIDTH, _WIDEST = 80, 120
MARKS = {
    "error": ("✗ Problem  ", "bold red"),
    "warning": ("! Warning  ", "bold yellow"),
    "note": ("· Note  ", "cyan"),
}
"""How the line about a problem begins, and its style."""


def print_lines(
    given: Iterable[Line],
    out: TextIO,
    *,
    color: bool,
    exact_commands: bool = False,
    stand_in: Callable[[str], str] = str,
) -> None:
    """Print lines, home folders left out: with colour if `out` is a terminal and `color`, plain text otherwise.

    `stand_in` puts something for the UUIDs of GPUs.

    Commands that are to be pasted here (`exact_commands`) keep another user's home folder; secrets are never shown.
    """
    clean = public_text(os.path.expanduser("~"), stand_in)

    def shown(text: str, style: str) -> str:
        exact = exact_commands and style == "command"
        return printable(text if exact else clean(text))

    terminal = out.isatty()
    width = min(columns(out), _WIDEST) if terminal else _PLAIN_WIDTH
    lines: list[Line] = []
    for line in given:
        clear = [(shown(text, style), style) for text, style in line]
        # A program, or a log, takes a command as one line; a person copies it from the screen.
        whole = not terminal and any(style == "command" for _, style in clear)
        lines += [clear] if whole else wrap(clear, width)
    if color and _shows_color(out):
        _print_rich(lines, out)
    else:
        out.writelines("".join(text for text, _ in line).rstrip() + "\n" for line in lines)


def _shows_color(out: TextIO) -> bool:
    """Whether a stream shows colour."""
    return out.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")


def ignored_lines(report: Report) -> Iterator[Line]:
    """What a person chose to ignore, and was found."""
    for ignored in report.ignored:
        yield [("  ignored  ", "dim"), (f"{ignored.id}{f' ({ignored.why})' if ignored.why else ''}", "dim")]


def printable(text: str) -> str:
    """Text without secrets, and with control characters, escapes, direction overrides and commands to a CI made
    visible."""
    text = without_workflow_commands(without_secrets(text))
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else f"\\x{ord(c):02x}" for c in text)


def columns(terminal: TextIO) -> int:
    """How wide a terminal is; one that was told no size has none."""
    return os.get_terminal_size(terminal.fileno()).columns or _PLAIN_WIDTH


def _print_rich(lines: list[Line], out: TextIO) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(file=out, highlight=False)
    styles = {"command": "bold", "verbatim": "bold"}
    for line in lines:
        body = Text.assemble(*((text, styles.get(style, style)) for text, style in line))
        console.print(body, soft_wrap=True)
