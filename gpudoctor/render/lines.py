"""Lines of styled spans, printed through rich on a terminal or as plain text into a pipe.

Nothing that was read from a machine is taken as markup or as terminal control.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TextIO

from gpudoctor.privacy import public_text, without_secrets

if TYPE_CHECKING:
    from gpudoctor.report import Report

Span = tuple[str, str]
"""(text, style); a style is one of rich's names, "" for none."""
Line = list[Span]

_PLAIN_WIDTH = 80


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

    lines = [[(shown(text, style), style) for text, style in line] for line in given]
    if color and out.isatty():
        _print_rich(lines, out)
    else:
        _print_plain(lines, out)


def ignored_lines(report: Report) -> Iterator[Line]:
    """What a person chose to ignore, and was found."""
    for ignored in report.ignored:
        yield [("  ignored  ", "dim"), (f"{ignored.id}{f' ({ignored.why})' if ignored.why else ''}", "dim")]


def printable(text: str) -> str:
    """Text without secrets, and with control characters, escapes and direction overrides made visible."""
    text = without_secrets(text)
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
