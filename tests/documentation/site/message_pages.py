"""A page for each error message that gpudoctor knows: its title is the message, so that a search finds it."""

from __future__ import annotations

import re
from functools import cache

from gpudoctor.cli.explain import message_explained, titles_of
from gpudoctor.matrix.errors import Message
from gpudoctor.matrix.rows import ErrorPattern
from gpudoctor.suites import machine_checks
from tests.documentation.site.links import message_page
from tests.documentation.site.markdown import code, page, prose, table
from tests.support.check_cases import matrix

_TITLE = 110
_SHORTEST = 8
_PREFIX = re.compile(r"^(?:[\w.]*(?:Error|Exception|Warning): |WARNING:\s*|\S*/python\S*: |bash: )(?=.{20})")
_VENDORS = {"nvidia": "NVIDIA GPUs", "amd": "AMD GPUs", "any": "GPUs of every vendor"}


@cache
def pages() -> dict[str, str]:
    """By name."""
    titles = titles_of(machine_checks())
    return {message_page(row.id): _page(row, titles) for row in _rows()}


def overview() -> str:
    """All messages, in one table."""
    rows = [("message", "it means")]
    for row in _rows():
        forms = "".join(f"<br>{code(form)}" for form in other_forms(row))
        rows.append((f"[{code(_first_line(row))}]({row.id}.md){forms}", prose(row.meaning)))
    return table(rows, filtered="Paste a part of your message")


def title(row: ErrorPattern) -> str:
    """The message as one would search for it: its first line without what every message starts with. Of a long one it
    is the sentence that is known."""
    text = _PREFIX.sub("", _first_line(row))
    known = re.search(row.pattern, text)
    if known and len(text) > _TITLE:
        sentence = max((end.end() for end in re.finditer(r"[.?!|] ", text[: known.start()])), default=0)
        text = text[sentence if known.end() - sentence <= _TITLE else known.start() :]
    return text if len(text) <= _TITLE else text[:_TITLE].rpartition(" ")[0] + " ..."


def other_forms(row: ErrorPattern) -> tuple[str, ...]:
    """Other texts that mean the same: the alternatives of the pattern, in words that it matches."""
    plain_groups = re.sub(r"(?<!\\)\((?!\?)", "(?:", row.pattern)
    forms = (_spoken(part) for part in _alternatives(plain_groups))
    told = {form for form in forms if len(form) >= _SHORTEST and re.search(row.pattern, form.replace("...", ""))}
    return tuple(sorted(form for form in told if form not in row.example))


def _alternatives(pattern: str) -> list[str]:
    """The parts of a pattern between its bars; a bar within one group makes two of the part around it."""
    group = re.search(r"\(\?:([^()]*\|[^()]*)\)(?![?*+{])", pattern)
    if group:
        before, after = pattern[: group.start()], pattern[group.end() :]
        head, tail = before.rpartition("|"), after.partition("|")
        grown = "|".join(f"{head[2]}{option}{tail[0]}" for option in group[1].split("|"))
        return _alternatives("".join((*head[:2], grown, *tail[1:])))
    return pattern.split("|")


def _spoken(part: str) -> str:
    """A pattern as people would read it; "" where that takes more than a few replacements."""
    part = re.sub(r"\[[A-Z]([a-z])\]", r"\1", part)
    part = re.sub(r"\(\?:([^()|]*)\)\??", r"\1", part)
    part = re.sub(r"(?:\\[Swd]|\.)(?:[*+]|\{[\d,]+\})", "...", re.sub(r"^\^|\$$|\\b", "", part))
    part = re.sub(r"\\([^\w\s])", "\0\\1", part)
    return "" if re.search(r"(?<!\0)[\[\](){}*+?\\]", part) else part.replace("\0", "").strip()


def _rows() -> tuple[ErrorPattern, ...]:
    return matrix().tables.error_patterns


def _also(row: ErrorPattern) -> tuple[str, ...]:
    lines = [f"- {code(form)}" for form in other_forms(row)]
    return ("## Other forms of the message", "\n".join(lines)) if lines else ()


def _first_line(row: ErrorPattern) -> str:
    return row.example.splitlines()[0].strip()


def _page(row: ErrorPattern, titles: dict[str, str]) -> str:
    explained = message_explained(Message(row, _first_line(row), 1), titles)
    _, _, told = explained.partition("\n\nIt means: ")
    for text in filter(None, (row.meaning, row.ask, row.workaround)):
        told = told.replace(text, prose(text))
    return page(
        title(row),
        f"{title(row)}: {row.meaning}. Its causes, what decides between them, and the fix.",
        "[Error messages](README.md)",
        f"```text\n{row.example.strip()}\n```",
        f"It means: {told}",
        "## Which one is it here?",
        "Install gpudoctor (`pip install gpudoctor-cli`, see [Start](../start.md)) into the environment of the "
        "program. `gpudoctor check` reads the machine that printed this, and names the cause with its fix. For a "
        "machine that you do not have, write the message and what was printed around it into a file: "
        "`gpudoctor check --from FILE`.",
        *_also(row),
        f"`gpudoctor explain {row.id}` prints this page. Printed on {_VENDORS[row.vendor]}. "
        + (f"Source: {prose(row.source)}." if row.source else ""),
    )
