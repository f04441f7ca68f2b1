"""Loads the matrix: the JSON Lines of an installed gpudoctor, the YAML of a checkout, overlays of a site.

The JSON Lines are made from the YAML and validated when the wheel is built (hatch_build.py): a line for each table,
so that a start decodes only those that it needs. YAML is validated here. Whatever a file holds, the result is a
matrix or a `MatrixError` that names file, line and row.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from itertools import accumulate, pairwise
from typing import Any, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.host import InputError
from gpudoctor.host.input_file import read_given
from gpudoctor.matrix.questions import Matrix
from gpudoctor.matrix.rows import KEYS, Row, Tables

SIZE_LIMIT = 8 << 20
_MOST_VALUES = 100_000
"""A matrix of the size of our own has half of that."""

_PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
_LINES = os.path.join(_PACKAGE, "compat_matrix.jsonl")


class MatrixError(InputError):
    """A matrix file that cannot be used."""


class _Head(Struct, frozen=True):
    """The first line of the build hook's output."""

    sha256: str
    """Of the YAML that it was made from."""
    lengths: dict[str, int]
    """Bytes of each table, in the order in which they follow, a line each."""


class Built:
    """The build hook's output, opened for single tables. Raises OSError, and ValueError for anything else."""

    def __init__(self, path: str) -> None:
        self._path = path
        with open(path, "rb") as file:
            line = file.readline()
            size = os.fstat(file.fileno()).st_size
        head = msgspec.json.decode(line, type=_Head)
        ends = [*accumulate(head.lengths.values(), initial=len(line))]
        if ends[-1] != size or head.lengths.keys() != set(Tables.__struct_fields__):
            raise ValueError("not the tables of this gpudoctor")
        self.sha256 = head.sha256
        self._places = dict(zip(head.lengths, pairwise(ends), strict=True))

    def table(self, name: str) -> Any:
        """One table. Raises ValueError if it is not one of this gpudoctor."""
        start, end = self._places[name]
        with open(self._path, "rb") as file:
            file.seek(start)
            return msgspec.json.decode(file.read(end - start), type=Tables.__annotations__[name])

    def tables(self) -> Tables:
        """All tables."""
        return Tables(**{name: self.table(name) for name in self._places})


class _Opened:
    """Replaces Tables, and decodes a table on first use. A start needs few of the two thousand rows."""

    __struct_fields__ = Tables.__struct_fields__

    def __init__(self, built: Built) -> None:
        self._built = built

    def __getattr__(self, name: str) -> Any:
        if name not in self.__struct_fields__:
            raise AttributeError(name)
        table = self._built.table(name)
        setattr(self, name, table)
        return table


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


def load_matrix(overlays: Sequence[str] = ()) -> Matrix:
    """The matrix of this installation. Rows of the overlay files are added, or replace rows with the same key. Raises
    MatrixError."""
    tables = _own_tables() if overlays else _needed_tables()
    for path in overlays:
        tables = _overlaid(tables, read_source(path))
    return Matrix(tables)


def yaml_path() -> str:
    """The matrix that people edit: beside the package in a checkout, inside the package in a wheel."""
    checkout = os.path.join(os.path.dirname(_PACKAGE), "compat_matrix.yaml")
    return checkout if os.path.isfile(checkout) else os.path.join(_PACKAGE, "compat_matrix.yaml")


def load_yaml(path: str) -> Tables:
    """A whole matrix from its YAML, validated."""
    source = read_source(path)
    tables = _converted(source, {})
    _validate(tables, source, overlay=False)
    return tables


def validate_matrix(files: Sequence[str] = ()) -> Tables:
    """Check every row of the YAML and then of the given files: overlays, or whole matrices (with a `version`).
    Returns the resulting tables. Raises MatrixError for the first wrong row, and says how many more there are."""
    tables = load_yaml(yaml_path())
    for path in files:
        source = read_source(path)
        tables = load_yaml(path) if "version" in source.tables else _overlaid(tables, source)
    return tables


def to_lines(path: str) -> bytes:
    """A YAML matrix as JSON Lines, for a wheel."""
    tables = load_yaml(path)
    lines = {name: msgspec.json.encode(getattr(tables, name)) + b"\n" for name in tables.__struct_fields__}
    head = _Head(_hash(_content(path)), {name: len(line) for name, line in lines.items()})
    return b"".join((msgspec.json.encode(head), b"\n", *lines.values()))


@cache
def _needed_tables() -> Tables:
    """A wheel's tables one by one on first use; all tables if the YAML may have been edited."""
    built = _built() if os.path.dirname(yaml_path()) == _PACKAGE else None
    return _own_tables() if built is None else cast("Tables", _Opened(built))


@cache
def _own_tables() -> Tables:
    path, built = yaml_path(), _built()
    # In a checkout the YAML may have been edited since the JSON Lines were made.
    if built is not None and (os.path.dirname(path) == _PACKAGE or built.sha256 == _hash(_content(path))):
        with suppress(ValueError):
            return built.tables()
    return load_yaml(path)


def _built() -> Built | None:
    try:
        return Built(_LINES)
    except (OSError, ValueError):
        return None


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _hash(content: bytes) -> str:
    from hashlib import sha256

    return sha256(content).hexdigest()


# --- YAML -----------------------------------------------------------------------------------------


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
    try:
        content = read_given(path, SIZE_LIMIT)
    except (OSError, ValueError) as error:
        raise MatrixError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(content) > SIZE_LIMIT:
        raise MatrixError(f"{path}: larger than {SIZE_LIMIT >> 20} MiB: this is no matrix")
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
    from gpudoctor.matrix.needles import literal_part, literal_parts

    return replace(
        tables,
        log_patterns=tuple(replace(row, needle=literal_part(row.pattern)) for row in tables.log_patterns),
        error_patterns=tuple(replace(row, needles=literal_parts(row.pattern)) for row in tables.error_patterns),
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


def _overlaid(tables: Tables, source: Source) -> Tables:
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
