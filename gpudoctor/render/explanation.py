"""An explanation, which is Markdown, as a terminal shows it; a pipe gets the Markdown itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TextIO

from gpudoctor.plain_text import is_command
from gpudoctor.render.lines import Line, Span, print_lines
from gpudoctor.render.next_command import next_line

_HEADING = re.compile(r"(#+) (.*)")
_ITEM = re.compile(r"(- |\d+\. )(.*)", re.DOTALL)


def print_explanation(text: str, out: TextIO, then: tuple[str, ...]) -> None:
    """Print it to `out`, with colour if it is a terminal, and, last, the command to type."""
    if out.isatty():
        print_lines(_lines(text), out, color=True)
    else:
        out.write(f"{text}\n")
    print_lines(([], next_line(then)), out, color=True)


def _lines(text: str) -> Iterator[Line]:
    """Headings, paragraphs, lists, and lines that are shown as they are; what a heading is of follows it at once."""
    after_text = False
    for block in text.split("\n\n"):
        first, _, rest = block.partition("\n")
        heading = _HEADING.fullmatch(first)
        if after_text:
            yield []
        if heading:
            yield [(heading[2], "bold magenta" if len(heading[1]) > 1 else "bold")]
        after_text = bool(rest) or not heading
        yield from _body(rest if heading else block)


def _body(block: str) -> Iterator[Line]:
    if block.startswith("    "):
        yield from ([("    ", ""), _as_it_is(line.strip())] for line in block.splitlines())
        return
    for part in re.split(r"\n(?=- |\d+\. )", block) if block else ():
        item = _ITEM.fullmatch(part)
        words = " ".join((item[2] if item else part).split())
        yield [(f"  {item[1]}" if item else "", ""), *_with_code(words)]


def _as_it_is(line: str) -> Span:
    return line, "command" if is_command(line) else "verbatim"


def _with_code(text: str) -> Iterator[Span]:
    for part in re.split(r"(`[^`]+`)", text):
        if part:
            yield part, "bold cyan" if part.startswith("`") else ""
