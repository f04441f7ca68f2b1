"""HTML that cannot be broken by what it shows: every text is escaped unless it was built here."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

from gpudoctor.render.lines import printable

_EMPTY = frozenset(("br", "line", "link", "meta", "rect"))
"""Elements without content, and so without an end tag."""


class Markup(str):
    """Finished HTML. Any other text is escaped where it is used."""

    __slots__ = ()


Child = str | None


def escaped(text: str) -> Markup:
    """A text as HTML: without secrets, with control characters and direction overrides made visible."""
    return Markup(html.escape(printable(text)))


def prose(text: str) -> Markup:
    """A sentence whose `commands` are set as code."""
    pieces = re.split(r"`([^`\n]+)`", text)
    return fragment(element("code", piece) if place % 2 else piece for place, piece in enumerate(pieces))


def element(name: str, /, *children: Child, **attributes: str | bool | None) -> Markup:
    """One element. `class_` is the attribute class, `data_copy` is data-copy; None and False leave one out."""
    said = "".join(_attribute(key, value) for key, value in attributes.items() if value is not None)
    if name in _EMPTY:
        return Markup(f"<{name}{said}>" if name in ("br", "link", "meta") else f"<{name}{said}/>")
    return Markup(f"<{name}{said}>{fragment(children)}</{name}>")


def fragment(children: Iterable[Child]) -> Markup:
    """Texts and elements, one after the other."""
    return Markup("".join(child if isinstance(child, Markup) else escaped(child) for child in children if child))


def _attribute(key: str, value: str | bool) -> str:
    name = key.rstrip("_").replace("_", "-")
    if isinstance(value, bool):
        return f" {name}" if value else ""
    return f' {name}="{escaped(value)}"'
