"""Rows of the compatibility matrix as a table for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TextIO

from gpudoctor.render.lines import Line, columns, print_lines

if TYPE_CHECKING:
    from gpudoctor.matrix.rows import Tables

_LEFT_OUT = ("source", "checked")
"""Columns that only `--format json` has."""
_WIDEST, _NAME = 40, 12
_NOTHING: tuple[object, ...] = (None, "", [], (), {})


def overview(tables: Tables) -> dict[str, int]:
    """How many rows each table has."""
    found = {name: getattr(tables, name) for name in tables.__struct_fields__}
    return {name: len(rows) for name, rows in found.items() if isinstance(rows, tuple)}


def rows_with(rows: Iterable[Any], words: Iterable[str]) -> list[dict[str, Any]]:
    """The rows that contain all words, as built-in types."""
    import msgspec

    from gpudoctor.render.json import json_line

    wanted = [word.lower() for word in words]
    return [msgspec.to_builtins(row) for row in rows if all(word in json_line(row).lower() for word in wanted)]


def print_rows(rows: list[dict[str, Any]], out: TextIO) -> None:
    """Print them below their column names; columns that are empty in all rows, and sources, are left out. Where a
    terminal has no room for the columns, the values of a row stand below each other."""
    found = dict.fromkeys(name for row in rows for name, value in row.items() if value not in _NOTHING)
    names = [name for name in found if name not in _LEFT_OUT]
    cells = {name: [_shorten(_cell(row.get(name))) for row in rows] for name in names}
    widths = {name: max(len(name), *map(len, column)) for name, column in cells.items()}
    if out.isatty() and sum(widths.values()) + 2 * len(widths) > columns(out):
        print_lines((line for row in rows for line in _record(row, names)), out, color=True)
        return
    lines: list[Line] = [_row({name: name for name in cells}, widths, "bold")]
    lines += [_row({name: column[at] for name, column in cells.items()}, widths, "") for at in range(len(rows))]
    print_lines(lines if rows else [[("no row contains all of these words", "")]], out, color=True)


def _record(row: dict[str, Any], names: list[str]) -> Iterator[Line]:
    """A row as lines: its first value, and below it the name and the value of the others."""
    yield [(_cell(row.get(names[0])), "bold")]
    for name in names[1:]:
        if text := _cell(row.get(name)):
            yield [(f"    {name:<{_NAME}} ", "dim"), (text, "")]


def _row(cells: dict[str, str], widths: dict[str, int], style: str) -> Line:
    text = "  ".join(f"{value:<{widths[name]}}" for name, value in cells.items())
    return [(text.rstrip(), style), ("", "verbatim")]


def _cell(value: Any) -> str:
    """A value in a few words."""
    if isinstance(value, dict):
        text = " ".join(f"{name}={_cell(part)}" for name, part in value.items() if part not in _NOTHING)
    elif isinstance(value, list | tuple):
        text = " ".join(_cell(part) for part in value)
    elif isinstance(value, bool):
        text = "yes" if value else "no"
    else:
        text = "" if value is None else str(value)
    return text


def _shorten(text: str) -> str:
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"
