"""The matrix as a wheel has it: MessagePack, each table by itself, so that a start decodes only those that it needs.

The length of the head in four bytes, the head, the tables.
"""

from collections.abc import Callable
from importlib import import_module
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct, msgpack

if TYPE_CHECKING:
    from gpudoctor.matrix.rows import Tables

_ROWS = "gpudoctor.matrix.rows."


class _Head(Struct, frozen=True):
    sha256: str
    """Of the YAML that it was made from."""
    version: str
    lengths: dict[str, int]
    """Bytes of each table, in the order in which they follow."""
    kinds: dict[str, str]
    """What the rows of each table are: "gpus.NvidiaGpu". Whoever reads one table imports no other kinds."""


class Stored:
    """The build hook's output, opened for single tables. Raises OSError, and ValueError for anything else."""

    def __init__(self, path: str) -> None:
        self._path = path
        with open(path, "rb", buffering=0) as file:
            start = int.from_bytes(file.read(4), "little")
            self._head = head = msgpack.decode(file.read(start), type=_Head)
            ends = [*accumulate(head.lengths.values(), initial=4 + start)]
            if ends[-1] != file.seek(0, 2) or head.lengths.keys() != head.kinds.keys():
                raise ValueError("not whole")
        self.sha256, self.version = head.sha256, head.version
        self._places = dict(zip(head.lengths, pairwise(ends), strict=True))

    @property
    def names(self) -> tuple[str, ...]:
        """The fields of its Tables."""
        return ("version", *self._places)

    def table(self, name: str) -> Any:
        """One table. Raises ValueError if it is not one of this gpudoctor."""
        start, end = self._places[name]
        module, _, kind = self._head.kinds[name].partition(".")
        try:
            row: Any = getattr(import_module(_ROWS + module), kind)
        except (ImportError, AttributeError):  # a checkout had it there when the file was made
            raise ValueError(f"no rows of kind {module}.{kind}") from None
        with open(self._path, "rb", buffering=0) as file:
            file.seek(start)
            return msgpack.decode(file.read(end - start), type=tuple[row, ...] | row | None)

    def tables(self) -> "Tables":
        """All tables. Raises ValueError if they are not those of this gpudoctor."""
        from gpudoctor.matrix.rows import Tables

        if self.names != Tables.__struct_fields__:
            raise ValueError("not the tables of this gpudoctor")
        return Tables(version=self.version, **{name: self.table(name) for name in self._places})


class Opened:
    """Replaces Tables, and decodes a table on first use. A start needs few of the two thousand rows. A table that is
    damaged comes from `whole`."""

    def __init__(self, stored: Stored, whole: Callable[[], "Tables"]) -> None:
        self._stored, self._whole = stored, whole
        self.version = stored.version
        self.__struct_fields__ = stored.names

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            table = self._stored.table(name)
        except (KeyError, ValueError):
            table = getattr(self._whole(), name)
        setattr(self, name, table)
        return table


def opened(stored: Stored, whole: Callable[[], "Tables"]) -> "Tables":
    """Its tables, each decoded on first use."""
    return cast("Tables", Opened(stored, whole))


def stored_form(tables: "Tables", sha256: str) -> bytes:
    """The tables of a YAML of that hash."""
    written = {name: msgpack.encode(getattr(tables, name)) for name in tables.__struct_fields__ if name != "version"}
    kinds = {name: _kind(tables.__annotations__[name]) for name in written}
    head = msgpack.encode(_Head(sha256, tables.version, {name: len(table) for name, table in written.items()}, kinds))
    return b"".join((len(head).to_bytes(4, "little"), head, *written.values()))


def _kind(annotation: Any) -> str:
    """The row of `tuple[Row, ...]` and of `Row | None`."""
    row = annotation.__args__[0]
    return f"{row.__module__.removeprefix(_ROWS)}.{row.__name__}"
