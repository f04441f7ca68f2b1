"""Cases with a known cause: pasted texts, and machines that public reports describe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import yaml

from benchmarks.accuracy import wheels
from benchmarks.accuracy.split import Half, half
from tests.cases import fresh

HEALTHY = "healthy"


class Case(msgspec.Struct, frozen=True):
    """One report. Its text is put to a tool, or the machine that it describes (`state`), or a command (`argv`)."""

    name: str
    group: str
    """Of which file it is."""
    ref: str
    cause: str
    """The slug of the true cause, or HEALTHY."""
    confirmed: str
    """By whom: maintainer, reporter, participant, or inferred (nobody)."""
    accept: tuple[str, ...] = ()
    """Other causes that are as good."""
    text: str = ""
    state: fresh.Case | None = None
    argv: tuple[str, ...] = ()

    @property
    def half(self) -> Half:
        return half(self.name)


def read(folder: Path) -> list[Case]:
    """The cases of a folder: pasted texts, and the machines of `fresh_reports.yaml`."""
    found = []
    for path, reader in ((folder / name, reader) for name, reader in _READERS.items()):
        if path.is_file():
            found += reader(path)
    return found


def _texts(path: Path) -> list[Case]:
    rows: dict[str, dict[str, Any]] = yaml.safe_load(path.read_text())
    return [_case(name, path.stem, row) for name, row in rows.items()]


def _shared(path: Path) -> list[Case]:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [
        _case(
            row["id"],
            "shared texts",
            {"cause": row["diagnosis"], "confirmed": row["confirmed_by"], "text": row["input"]} | {"ref": row["ref"]},
        )
        for row in rows
    ]


def _machines(path: Path) -> list[Case]:
    read = fresh.read() if path.resolve() == fresh.PATH else {}
    return [
        Case(name, "machines", one.ref, one.cause, one.confirmed, tuple(one.accept), state=one)
        for name, one in read.items()
        if not one.missing
    ]


def _wheels(path: Path) -> list[Case]:
    rows: dict[str, dict[str, str]] = yaml.safe_load(path.read_text())
    accept = ("torch-dropped-old-gpu",)
    return [
        Case(name, "wheels", name, row["cause"], "cuobjdump", accept, argv=wheels.arguments(row))
        for name, row in rows.items()
    ]


def _case(name: str, group: str, row: dict[str, Any]) -> Case:
    return msgspec.convert({"name": name, "group": group, **row}, Case)


_READERS = {
    "texts.yaml": _texts,
    "threads.yaml": _texts,
    "issues.yaml": _texts,
    "cases.jsonl": _shared,
    "fresh_reports.yaml": _machines,
    "wheels.yaml": _wheels,
}
