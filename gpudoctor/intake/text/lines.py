"""Pasted text as plain lines: without colours, quoting, markup and line numbers, each with its number in the text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain, count, islice, pairwise
from typing import NamedTuple

from gpudoctor.intake.text.quotations import without_messages_of_others
from gpudoctor.late_regex import late
from gpudoctor.plain_text import without_controls

LONGEST_SENTENCE = 600
"""Of a longer line, sentences are read no further."""
_LONGEST = 4000
"""Characters of a line that are read; nothing that a tool prints about a GPU is longer."""
_MOST_LINES = 100_000
_MOST = 4 << 20
"""Characters of a text that are read: half of them at its beginning, half at its end."""

_ESCAPE = late(
    r"(?:\x1b|\^\[|␛)(?:\[[0-?]{0,40}[ -/]{0,4}[@-~]|\][^\x07\x1b]{0,300}(?:\x07|\x1b\\)?|[@-_])|\x9b[0-?]{0,40}[@-~]"
)
_COLOUR_REMAINS = late(r"\[(?:\d{1,3};){0,4}\d{0,3}m")
"""What a browser leaves of an escape sequence."""
_OF_PLAIN = r"[\w .,:;=()/'\"|+*#%!?{}$\]<>-]*"
_PLAIN = late(rf"(?!.{{0,7}}>){_OF_PLAIN}(?:\[(?![\d;]*m){_OF_PLAIN})*", re.ASCII)
"""A line of which nothing needs to be taken: a ">" at its beginning may be a quote."""
_COMMENT = late(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_QUOTE = late(r"\s{0,3}>(?!>> ) ?")
_TAG = late(
    r"</?(?:details|summary|pre|code|p|br|b|i|em|strong|kbd|samp|div|span|sub|sup|h[1-6]|blockquote)\b[^<>\n]{0,200}/?>",
    re.I,
)
_FENCE = late(r"\s{0,8}(?:`{3,}|~{3,})[\w+#. -]{0,40}$")
_INDENT = "  "
"""Of a block of code in Markdown, or within an item of a list."""
_ESCAPED = late(r"\\([_*`])|^(\s*)\\(?=- )|\\{1,16}(?=\")")
"""What Markdown's editors write for a letter that is no markup, and logs for a quotation mark within quoted text."""
_APOSTROPHE = late(r"(?<=[A-Za-z])[\u2018\u2019\u02bc\u00b4](?=[A-Za-z])")
"""As phones and editors write it: patterns know the plain one."""
_WIDE_COLON = late(r"(?<=[A-Za-z0-9)\]])\uff1a\s?")
"""As input methods for Chinese write it behind a key; patterns know the plain one."""
_NUMBERED = late(r"\s{0,6}(\d{1,6})(?:[:|.)]|\s\|)?(?:\s|$)")
_PROMPT = late(
    r"(?P<indent> {0,12})(?:\([\w.-]{1,40}\) ){0,2}(?!root@[0-9a-f]{12}:)"
    r"[\w.-]{1,40}@[\w.-]{1,60}[: ][^$#%\n]{0,100}[$#%] "
)
"""A prompt with the name of a person and of a machine."""
_RUN_STAMP = late(r"\ufeff?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}Z ")
"""What GitHub Actions writes before each line of a log."""
_PIECE_STAMP = late(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\.\d{6} - ?")
"""What ComfyUI's log writes before each piece of a line."""
_SERVICE = late(r"[\w.-]{1,60}\s{1,40}\| ?")
"""What `docker compose` writes before each line: the name of the service."""
_JOURNAL = late(r"[^\W_][\w.]{1,8} {1,2}\d{1,2} \d\d:\d\d:\d\d [\w.-]{1,64} [\w./@-]{1,64}(?:\[\d{1,9}\])?: ")
_UNCHECKED = late(r"\s{0,8}[-*+] \[ ?\] ")
"""A box of an issue form that nobody checked."""
_BOX = late(r"\s{0,8}[-*+] \[[ xX]?\] ")
_ASKS = late(r"#{2,6} .{1,120}[?\uff1f]")
"""The question of a form, which the checked box below it answers."""
_HUNK = late(r"@@ -\d{1,6}(?:,(?P<before>\d{1,5}))? \+\d{1,6}(?:,(?P<after>\d{1,5}))? @@")


class Line(NamedTuple):
    """One line and its number in the text, from 1."""

    number: int
    text: str


def is_of_a_journal(text: str) -> bool:
    """Whether a program wrote the line into the system's journal: it names the program, and is nobody's complaint."""
    return text[:1].isalnum() and _JOURNAL.match(text) is not None


def text_of(lines: Iterable[Line]) -> str:
    """The lines as one text."""
    return "\n".join(line.text for line in lines)


def answer_below(lines: tuple[Line, ...], place: int) -> Line | None:
    """The line below this one that may hold the answer to it."""
    return next((line for line in lines[place + 1 : place + 4] if line.text.strip()), None)


def plain_lines(content: bytes) -> tuple[Line, ...]:
    """The lines of a pasted text, empty ones too."""
    text, last, left_out = _bounded(_decoded(content))
    if "<!--" in text:
        text = _COMMENT.sub(lambda match: "\n" * match[0].count("\n"), text)
    text = _TAG.sub("", text).replace("\t", " " * 8)
    raw = text.split("\n")[:_MOST_LINES]
    raw = list(_without_changes(raw)) if "\n@@ -" in text else raw
    raw = without_messages_of_others(raw) if "\n>" in f"\n{text}" else raw
    cleaned = [line.rstrip() if len(line) <= _LONGEST and _PLAIN.fullmatch(line) else _clean(line) for line in raw]
    if "[ ] " in text or "[] " in text:
        cleaned = list(_without_unchecked(cleaned))
    numbers = chain(range(1, last + 1), count(last + left_out + 1))
    return tuple(map(Line, numbers, _without_indentation(_without_prefixes(cleaned))))


def _without_changes(lines: list[str]) -> Iterator[str]:
    """The lines; those of a patch are empty: what it adds or takes away is no state of a machine."""
    left = 0
    for line in lines:
        hunk = _HUNK.match(line)
        if hunk:
            left = sum(int(size or 1) for size in hunk.groups())
        elif line and not line.startswith((" ", "+", "-", "\\")):
            left = 0
        yield "" if left else line
        left -= bool(left and not hunk)


def _without_unchecked(lines: list[str]) -> Iterator[str]:
    """The lines; the boxes that nobody checked, and the questions that boxes answer, are empty: nobody says them."""
    below = ""
    kept = []
    for line in reversed(lines):
        asked = _ASKS.match(line) and _BOX.match(below)
        kept.append("" if asked or _UNCHECKED.match(line) else line)
        below = line or below
    return reversed(kept)


def _bounded(text: str) -> tuple[str, int, int]:
    """The beginning and the end of a long text, the last line of the beginning, and how many lines follow that are
    left out."""
    if len(text) <= _MOST:
        return text, len(text), 0
    half = _MOST // 2
    left_out = text.count("\n", half, len(text) - half) - 1
    return f"{text[:half]}\n{text[-half:]}", text.count("\n", 0, half) + 1, left_out


def _decoded(content: bytes) -> str:
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):  # as PowerShell writes files
        return content.decode("utf-16", "replace")
    return content.decode("utf-8", "replace").removeprefix("\ufeff")


def _clean(line: str) -> str:
    """The line without what a terminal, a browser or Markdown adds to it."""
    line = line[:_LONGEST].rstrip("\r")
    if "\r" in line:  # a progress bar: what was last written over it
        line = next((part for part in reversed(line.split("\r")) if part.strip()), "")
    if not line.isprintable() or "^[" in line or "␛" in line:
        line = _ESCAPE.sub("", line)
        line = without_controls(line.replace("\xa0", " "), "")
    if "[" in line and "m" in line:
        line = _COLOUR_REMAINS.sub("", line)
    if "&" in line:
        import html  # its table of two thousand names

        line = html.unescape(line)
        line = line if line.isprintable() else without_controls(line, " ")
    if ">" in line[:8]:
        while not line.startswith(">>> ") and (quote := _QUOTE.match(line)):
            line = line[quote.end() :]
    if "`" in line[:12] or "~" in line[:12]:
        line = "" if _FENCE.match(line) else line
    if "\\" in line:
        line = _ESCAPED.sub(lambda found: found[1] or found[2] or "", line)
    if not line.isascii():
        line = _WIDE_COLON.sub(": ", _APOSTROPHE.sub("'", line))
    if "@" in line:
        line = _PROMPT.sub(r"\g<indent>$ ", line, count=1) if _PROMPT.match(line) else line
    return line.rstrip()


def _without_prefixes(lines: list[str]) -> list[str]:
    """The lines without numbers, stamps or names of services that most of them begin with."""
    if any(map(_RUN_STAMP.match, lines[:200])):
        lines = [_RUN_STAMP.sub("", line, count=1) for line in lines]
    lines = [_PIECE_STAMP.sub("", line) if " - " in line else line for line in lines]
    services = [match[0] for line in lines if "|" in line and (match := _SERVICE.match(line))]
    if len(services) > 4 and len(services) > len([line for line in lines if line]) / 2:
        lines = [_SERVICE.sub("", line, count=1) for line in lines]
    return _without_numbers(lines)


def _without_indentation(lines: list[str]) -> list[str]:
    """The lines; those of an indented block of code, which follows an empty line, without what all of them have."""
    start, after_empty = -1, True
    for place, line in enumerate([*lines, "."]):
        indented = line.startswith(_INDENT)
        if start >= 0 and line and not indented:
            lines[start:place] = _without_common(lines[start:place])
            start = -1
        elif start < 0 and indented and after_empty:
            start = place
        after_empty = not line
    return lines


def _without_common(block: list[str]) -> list[str]:
    width = min((len(line) - len(line.lstrip(" ")) for line in block if line), default=0)
    return [line[width:] for line in block]


def _without_numbers(lines: list[str]) -> list[str]:
    """Lines copied from an editor or a viewer: each begins with the number after the one before."""
    filled = sum(map(bool, lines))
    others = (line for line in lines if line and not _NUMBERED.match(line))
    if next(islice(others, filled // 5, None), None) is not None:  # in a long text soon found
        return lines
    found = [_NUMBERED.match(line) for line in lines]
    numbers = [int(match[1]) for match in found if match]
    steps = sum(after == before + 1 for before, after in pairwise(numbers))
    if steps < 4 or steps <= 0.8 * filled:
        return lines
    rest = [line[match.end() :] if match else line for line, match in zip(lines, found, strict=True)]
    return _without_common([line if line.strip() else "" for line in rest])


def joined(lines: Iterable[str]) -> str:
    """The lines in one; a line that does not go on with the one before it is kept apart from it."""
    whole = ""
    for line in filter(None, lines):
        goes_on = whole.endswith((".", "!", "?", ":", ",", ";")) or not line[0].isupper()
        whole += f"{' ' if goes_on else ' / '}{line}" if whole else line
    return whole
