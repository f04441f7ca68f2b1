"""Reads a matrix from YAML: our own in a checkout, overlays of a site.

Whatever a file holds, the result is tables or a `MatrixError` that names file, line and row.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.host import InputError
from gpudoctor.host.input_file import read_input
from gpudoctor.matrix.files import yaml_path
from gpudoctor.matrix.rows import KEYS, Row, Tables

SIZE_LIMIT = 8 << 20
_MOST_VALUES = 100_000
"""A matrix of the size of our own has half of that."""


class MatrixError(InputError):
    """A matrix file that cannot be used."""


class Place(Struct, frozen=True):
    """A row's place in its file: the group of its table (None: the table is one group) and its number."""

    group: int | None
    row: int


class Source(Struct, frozen=True):
    """One parsed matrix file."""

    path: str
    text: str
    tables: dict[str, Any]
    places: dict[str, list[Place]]


def load_yaml(path: str) -> Tables:
    """A whole matrix from its YAML, validated."""
    source = read_source(path)
    tables = _converted(source, {})
    _validate(tables, source, overlay=False)
    return tables


def read_source(path: str) -> Source:
    """Parse one matrix file into plain rows. Raises MatrixError."""
    text = _text(path)
    document = _parsed(path, text)
    if not isinstance(document, dict):
        raise MatrixError(f"{path}: a matrix is a mapping of tables, such as `torch_builds: ...`")
    tables: dict[str, Any] = {}
    places: dict[str, list[Place]] = {}
    for name, content in document.items():
        if name in KEYS:
            tables[name], places[name] = _rows(path, name, content)
        elif name in ("version", "wheel_index"):
            tables[name] = content
        else:
            raise MatrixError(f"{path}: no table is called {str(name)[:60]!r}{_did_you_mean(str(name))}")
    return Source(path=path, text=text, tables=tables, places=places)


def _text(path: str) -> str:
    content = read_input(path, SIZE_LIMIT, ": this is no matrix", kind=MatrixError)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise MatrixError(f"{path}:{line}: not UTF-8 text") from None


def _parsed(path: str, text: str) -> Any:
    from gpudoctor.bounded_yaml import YamlError, read_yaml

    try:
        return read_yaml(text, plain=True, trusted=path == yaml_path(), values=_MOST_VALUES).value
    except YamlError as error:
        raise MatrixError(f"{path}:{error.line}: {error}" if error.line else f"{path}: {error}") from None


def _rows(path: str, table: str, content: Any) -> tuple[list[Any], list[Place]]:
    """The rows of a table, each with the values of its head. A table is one group or a list of groups or rows."""
    single = isinstance(content, dict)
    if not single and not isinstance(content, list):
        raise MatrixError(f"{path}: {table}: a table is a head with `rows`, or a list of rows")
    rows: list[Any] = []
    places: list[Place] = []
    for number, group in enumerate([content] if single else content):
        if not isinstance(group, dict) or "rows" not in group:
            if single:
                raise MatrixError(f"{path}: {table}: its head has no `rows`")
            rows.append(group)
            places.append(Place(group=None, row=number))
            continue
        head = {name: value for name, value in group.items() if name != "rows"}
        if not isinstance(group["rows"], list):
            raise MatrixError(f"{path}: {table}: `rows` is no list")
        for index, row in enumerate(group["rows"]):
            rows.append({**head, **row} if isinstance(row, dict) else row)
            places.append(Place(group=None if single else number, row=index))
    return rows, places


def _with_needles(tables: Tables) -> Tables:
    from gpudoctor.literals import literal_part, literal_parts

    return replace(
        tables,
        log_patterns=tuple(replace(row, needle=literal_part(row.pattern)) for row in tables.log_patterns),
        error_patterns=tuple(replace(row, needles=literal_parts(row.pattern)) for row in tables.error_patterns),
        shared_files=tuple(replace(row, needles=literal_parts(row.packages)) for row in tables.shared_files),
        library_roles=tuple(replace(row, needles=literal_parts(row.library)) for row in tables.library_roles),
    )


def _converted(source: Source, missing: dict[str, Any]) -> Tables:
    try:
        return _with_needles(msgspec.convert({**missing, **source.tables}, Tables))
    except msgspec.ValidationError as error:
        text = str(error)
        at = re.search(r" - at `(?:key` in `)?\$\.?(\w+)?(?:\[(\d+)\])?(.*)`$", text)
        problem = text[: at.start()] if at else text
        if "`str`, got `int`" in problem or "`str`, got `float`" in problem:
            problem += " (versions and ids are texts: put it in quotes)"
        if at is None or at[1] is None:
            raise MatrixError(f"{source.path}: {problem}") from None
        where = at[3].lstrip(".") if at[2] is not None else ""
        raise _error(
            source, at[1], int(at[2]) if at[2] else None, f"{where}: {problem}" if where else problem
        ) from None


def overlaid(tables: Tables, source: Source) -> Tables:
    """The tables with the rows of an overlay. Raises MatrixError."""
    added = _converted(source, {"version": tables.version})
    merged: dict[str, Any] = {}
    for name in source.tables:
        if name in KEYS:
            own = {}
            for index, row in enumerate(getattr(added, name)):
                if row_key(name, row) in own:
                    raise _error(source, name, index, "a second row with this key")
                own[row_key(name, row)] = row
            merged[name] = tuple({**{row_key(name, row): row for row in getattr(tables, name)}, **own}.values())
        else:
            merged[name] = getattr(added, name)
    result = replace(tables, **merged)
    _validate(result, source, overlay=True)
    return result


def row_key(table: str, row: Row) -> tuple[Any, ...]:
    """What distinguishes a row from the others of its table."""
    return tuple(getattr(row, field) for field in KEYS[table])


# --- errors -----------------------------------------------------------------------------------------


def _validate(tables: Tables, source: Source, *, overlay: bool) -> None:
    from gpudoctor.matrix.validate import problems

    own = None
    if overlay:
        own = {
            name: {row_key(name, row) for row in getattr(_converted(source, {"version": ""}), name)}
            for name in source.places
        }
    found = list(problems(tables, overlay=own))
    if not found:
        return
    first, more = found[0], len(found) - 1
    index = first.index
    if own is not None and index is not None:
        index = _index_in(source, tables, first.table, index)
    raise _error(source, first.table, index, first.text + (f" (and {more} more)" if more else ""))


def _index_in(source: Source, tables: Tables, table: str, index: int) -> int | None:
    """The number in the overlay of a row that has `index` in the merged table."""
    wanted = row_key(table, getattr(tables, table)[index])
    for number, row in enumerate(source.tables.get(table, ())):
        if isinstance(row, dict) and tuple(row.get(field) for field in KEYS[table]) == wanted:
            return number
    return None


def _error(source: Source, table: str, index: int | None, problem: str) -> MatrixError:
    line = _line(source, table, index)
    where = f"{source.path}:{line}" if line else str(source.path)
    if index is None:
        return MatrixError(f"{where}: {table}: {problem}")
    row = source.tables[table][index] if table in KEYS and index < len(source.tables[table]) else None
    named = ""
    if isinstance(row, dict):
        named = " (" + ", ".join(str(row[field])[:40] for field in KEYS[table] if row.get(field) is not None) + ")"
    return MatrixError(f"{where}: {table}, row {index + 1}{named}: {problem}")


def _line(source: Source, table: str, index: int | None) -> int | None:
    """The line of a row, found by reading the file once more: only an error costs that."""
    from gpudoctor.bounded_yaml import YamlError, read_yaml

    try:
        node = _item(read_yaml(source.text, trusted=True).node, table)
        if node is None or index is None or table not in source.places:
            return node.start_mark.line + 1 if node else None
        place = source.places[table][index]
        group = node if place.group is None else node.value[place.group]
        rows = _item(group, "rows") if isinstance(group.value[0], tuple) else group
        return int(rows.value[place.row].start_mark.line) + 1 if rows else None
    except (YamlError, IndexError):
        return None


def _item(node: Any, key: str) -> Any:
    return next((value for name, value in node.value if name.value == key), None)


def _did_you_mean(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, [*KEYS, "wheel_index"], n=1)
    return f"; did you mean {near[0]}?" if near else ""
