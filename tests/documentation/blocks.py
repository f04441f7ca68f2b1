"""The parts of a page that the program makes: found by their markers, and made again."""

from __future__ import annotations

import re

from tests.documentation.screens import screen
from tests.documentation.tables import table

_MADE = re.compile(
    r"^(?P<marker><!-- (?P<kind>screen|table): (?P<what>.+) -->\n)"
    r"(?P<body>```console\n(?:.*\n)*?```\n|(?:\|.*\n)*)",
    re.MULTILINE,
)


def remade(text: str) -> str:
    """A page with every made part as the program makes it now."""
    return _MADE.sub(lambda part: part["marker"] + _made(part["kind"], part["what"], part["body"]), text)


def _made(kind: str, what: str, body: str) -> str:
    if kind == "table":
        return table(what)
    commands = re.findall(r"^\$ (.+)$", body, re.MULTILINE)
    if not commands:
        raise ValueError(f"the screen of {what} has no line that starts with '$ '")
    shown = "\n\n".join(f"$ {command}\n{screen(what, command)}" for command in commands)
    return f"```console\n{shown}\n```\n"
