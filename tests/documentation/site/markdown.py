"""Small pieces of Markdown that made pages consist of."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Sequence

Row = Sequence[str]


def page(title: str, description: str, *parts: str) -> str:
    """A page with its head. JSON is YAML; the theme does not quote descriptions."""
    head = json.dumps({"title": title, "description": description.replace('"', "'")}, ensure_ascii=False)
    return "\n\n".join(("---\n" + head + "\n---", f"# {escaped(title)}", *filter(None, parts))) + "\n"


def escaped(text: str) -> str:
    """Text that stands as it is: nothing of it is markup."""
    return re.sub(r"([\\`*_{}\[\]#|!~])", r"\\\1", html.escape(text, quote=False))


def prose(text: str) -> str:
    """Text in which only what stands between backquotes is markup."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return escaped(text)
    return "".join(code(part) if number % 2 else escaped(part) for number, part in enumerate(parts))


def code(text: str) -> str:
    """A code span, whatever the text holds."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def screen(command: str, printed: str) -> str:
    """A command and what it prints."""
    return f"```console\n$ {command}\n{printed.rstrip()}\n```"


def table(rows: Iterable[Row], *, filtered: str = "") -> str:
    """A table, its first row the head; with `filtered` a field above it narrows its rows: the text in the field."""
    head, *body = (f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows)
    lines = "\n".join((head, "|" + "---|" * (head.count(" | ") + 1), *body))
    if not filtered:
        return f'<div class="wide" markdown>\n\n{lines}\n\n</div>'
    return f'<div class="wide" data-filter="{html.escape(filtered)}" markdown>\n\n{lines}\n\n</div>'
