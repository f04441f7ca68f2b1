"""Tables of the reference, made from the program's own records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpudoctor.requirement import FIELDS, example
from tests.documentation.program import OptionRow, option_rows


def table(what: str) -> str:
    """The table that a marker names. Raises ValueError for one that is not known."""
    if what == "requirements":
        return _requirements()
    if what == "options of several commands":
        return _options((row for row in option_rows() if len(row.commands) > 1), with_commands=True)
    if what.startswith("options of "):
        command = what.removeprefix("options of ")
        return _options(row for row in option_rows() if row.commands == (command,))
    raise ValueError(f"no table is called {what!r}")


def _options(rows: Iterable[OptionRow], *, with_commands: bool = False) -> str:
    lines = [("option", "variable", "meaning", *(["commands"] if with_commands else []))]
    for row in rows:
        names = ", ".join(f"`{name}`" for name in row.names[:-1])
        value = f" {row.value}" if row.value else ""
        option = f"{names}{', ' if names else ''}`{row.names[-1]}{value}`"
        lines.append((option, row.variable, row.meaning, *([", ".join(row.commands)] if with_commands else [])))
    return _table(lines)


def _requirements() -> str:
    lines = [("field", "operators", "example", "meaning")]
    for name, field in FIELDS.items():
        taken = " ".join(f"`{one}`" for one in field.operators) or "none"
        lines.append((f"`{name}`", taken, f"`{example(name)}`", field.meaning))
    return _table(lines)


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    head, *body = (f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |\n" for row in rows)
    return "".join((head, "|" + "---|" * len(rows[0]) + "\n", *body))
