"""Lines of styled spans, broken to a width: the same with and without colour.

A line that is too long goes on below its own text. A command goes on after a backslash, between two words of the
shell, so that it can be copied as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

Span = tuple[str, str]
"""(text, style); a style is one of rich's names, "command" (for a shell), "verbatim" (never broken), "" for none."""
Line = list[Span]
"""A first span that ends in a space is a label: what follows it hangs beside it."""

_WIDEST_LABEL = 24
_SHELL_WORD = r"""(?:'[^']*'|"[^"]*"|\\.|[^\s'"\\])+"""
_WORD = rf" *{_SHELL_WORD}| +|."
_WITH_VALUE = rf" *--[a-z][a-z-]* +(?!-){_SHELL_WORD}"
"""An option and its value, which people read together."""
_CODE = r"`[^`]+`"
_LONGEST_CODE = 62
"""Characters of code within a sentence that stay together."""


def wrap(line: Line, width: int) -> Iterator[Line]:
    """The lines that a line becomes at this width; a single word that is longer stays whole."""
    line = [(re.sub(r"\s", " ", text), style) for text, style in line]
    styles = {style for _, style in line}
    if "verbatim" in styles or sum(len(text) for text, _ in line) <= width:
        yield _trim(line)
    elif "command" in styles:
        yield from _broken_command(line, width)
    else:
        yield from _broken_text(line, width)


def _broken_text(line: Line, width: int) -> Iterator[Line]:
    text = "".join(part for part, _ in line)
    # A command that is named in a sentence is copied, too.
    breaks = re.sub(_CODE, lambda code: code[0].replace(" ", "_") if len(code[0]) <= _LONGEST_CODE else code[0], text)
    hang = _hang(line)
    start, indent = 0, 0
    while len(text) - start > width - indent:
        first = max(start + 1, hang) if start == 0 else start + 1
        end = breaks.rfind(" ", first, start + width - indent + 1)
        end = end if end >= 0 else breaks.find(" ", max(first, start + width - indent))
        if end < 0:
            break
        yield _trim([(" " * indent, ""), *_part(line, start, end)])
        start = end + len(text[end:]) - len(text[end:].lstrip())
        indent = hang
    if text[start:].strip():
        yield _trim([(" " * indent, ""), *_part(line, start, len(text))])


def _hang(line: Line) -> int:
    """Where the text of a line begins, behind its label or its indentation."""
    first = line[0][0]
    if len(line) > 1 and first.endswith(" ") and len(first) <= _WIDEST_LABEL:
        return len(first)
    return len(first) - len(first.lstrip())


def _part(line: Line, start: int, end: int) -> Iterator[Span]:
    """What stands between two characters of a line."""
    at = 0
    for text, style in line:
        part = text[max(start - at, 0) : max(end - at, 0)]
        if part:
            yield part, style
        at += len(text)


def _broken_command(line: Line, width: int) -> Iterator[Line]:
    hang = _hang(line)
    current: Line = []
    length = 0
    for text, style in line:
        part = ""
        for word in _words(text, width - hang - len("   \\")) if style == "command" else [text]:
            if length > hang and style == "command" and length + len(word) + len(" \\") > width:
                yield [*current, (f"{part} \\", style)]
                current, part, length = [(" " * (hang + 2), "")], word.lstrip(), hang + 2 + len(word.lstrip())
                continue
            part += word
            length += len(word)
        current.append((part, style))
    yield _trim(current)


def _words(command: str, room: int) -> Iterator[str]:
    """The words of a command with the spaces before them, an option with its value where there is room for both."""
    for part in re.findall(f"{_WITH_VALUE}|{_WORD}", command):
        yield from [part] if len(part.strip()) <= room else re.findall(_WORD, part)


def _trim(line: Line) -> Line:
    """Without blanks at its end."""
    while line and not line[-1][0].strip():
        line = line[:-1]
    return [*line[:-1], (line[-1][0].rstrip(), line[-1][1])] if line else []
