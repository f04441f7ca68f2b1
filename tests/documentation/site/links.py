"""Links of the site: from files of the repository to pages, and from names of problems and GPUs to their pages."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection
from functools import cache
from typing import Any

from gpudoctor.check import Check
from gpudoctor.suites import image_checks, machine_checks
from tests.support.check_cases import matrix

_FENCE = re.compile(r"^(?:```|~~~)", re.MULTILINE)
_LINK = re.compile(r"\]\((?P<target>[^)\s:#]+)(?P<anchor>#[^)\s]*)?\)")
_SPAN = re.compile(r"(?<![\[`])`(?P<text>[^`\n]+)`(?![`\]])")
_SHORTEST_MESSAGE = 12


def page_of(path: str) -> str:
    """The page of the site that a file of the repository is."""
    return "index.md" if path == "README.md" else path.removeprefix("docs/")


def between(page: str, other: str) -> str:
    """The relative link from one page to another."""
    return posixpath.relpath(other, posixpath.dirname(page) or ".")


def relinked(text: str, path: str, page: str, known: Collection[str]) -> str:
    """The text of a file of the repository, its links as they must be where it is shown: the page that shows a file,
    the file, the README of a folder."""

    def link(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), found["target"]))
        place = page_of(target)
        pages = (f"{place}.md", place, f"{place}/README.md")
        name = next((name for name in pages if name in known), None)
        return f"]({between(page, name)}{found['anchor'] or ''})" if name else found[0]

    return _outside_of_code(text, lambda part: _LINK.sub(link, part))


def cross_referenced(text: str, page: str) -> str:
    """Names of checks and known error messages between backquotes, as links to their pages; headings stay."""

    def link(found: re.Match[str]) -> str:
        name = _page_of_name(found["text"])
        return f"[{found[0]}]({between(page, name)})" if name and name != page else found[0]

    def linked(part: str) -> str:
        lines = part.split("\n")
        return "\n".join(line if line.startswith("#") else _SPAN.sub(link, line) for line in lines)

    return _outside_of_code(text, linked)


def check_page(slug: str) -> str:
    return f"checks/{slug}.md"


def message_page(id: str) -> str:
    return f"messages/{id}.md"


@cache
def checks() -> tuple[Check[Any], ...]:
    """Every check that has a page."""
    return (*machine_checks(), *image_checks())


@cache
def check_pages() -> dict[str, str]:
    """The pages of checks, by slug and by id."""
    return {name: check_page(check.slug) for check in checks() for name in (check.slug, check.id)}


@cache
def _page_of_name(text: str) -> str | None:
    """The page of what stands between backquotes: a check, a kind of GPU, or a message that people see."""
    if text in check_pages():
        return check_pages()[text]
    if matrix().gpus.target(text) or matrix().gpus.capability(text):
        return f"builds/{text}.md"
    if len(text) < _SHORTEST_MESSAGE or " " not in text or text.startswith(("gpudoctor", "pip", "docker", "$")):
        return None
    found = matrix().errors.messages_in(text)
    return message_page(found[0].id) if found else None


def _outside_of_code(text: str, change: Callable[[str], str]) -> str:
    """Change a text between its code blocks."""
    ends = [found.start() for found in _FENCE.finditer(text)]
    parts = [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]
    return "".join(part if number % 2 else change(part) for number, part in enumerate(parts))
