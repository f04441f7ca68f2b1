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
_PREFIX = re.compile(
    r"^(?:Failed to initialize|[\w.]*(?:Error|Exception|Warning): |WARNING:\s*|\S*/python\S*: |bash: )(?=.{20})"
)
_VENDORS = {"nvidia": "NVIDIA GPUs", "amd": "AMD GPUs", "any": "GPUs of every vendor"}


@cache
def pages() -> dict[str, str]:
    """By name."""
    titles = titles_of(machine_checks())
    return {message_page(row.id): _page(row, titles) for row in _rows()}


def overview() -> str:
    """All messages, in one table."""
    rows = [("message", "it means")]
    rows += [(f"[{code(_first_line(row))}]({row.id}.md)", prose(row.meaning)) for row in _rows()]
    return table(rows, filtered="Paste a part of your message")


def title(row: ErrorPattern) -> str:
    """The message as one would search for it: its first line without what every message starts with."""
    text = _first_line(row)
    text = _PREFIX.sub("", text) if not text.startswith("Failed") else text
    return text if len(text) <= _TITLE else text[:_TITLE].rpartition(" ")[0] + " ..."


def _rows() -> tuple[ErrorPattern, ...]:
    return matrix().tables.error_patterns


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
        f"```text\n{row.example.strip()}\n```",
        f"It means: {told}",
        "## Which one is it here?",
        "`gpudoctor check` reads the machine that printed this and names the cause with its fix. For a machine that you "
        "do not have, write the message and what was printed around it into a file: `gpudoctor check --from FILE`.",
        f"`gpudoctor explain {row.id}` prints this page. Printed on {_VENDORS[row.vendor]}. "
        + (f"Source: {prose(row.source)}." if row.source else ""),
    )
