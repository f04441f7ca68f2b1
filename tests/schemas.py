"""Writes the stored schemas anew after a change of the types: `python -m tests.schemas` (Python 3.11 or newer)."""

from __future__ import annotations

from inspect import cleandoc
from pathlib import Path
from typing import Any

import msgspec

from gpudoctor.fleet.pair.report import PairReport
from gpudoctor.fleet.records import FleetReport
from gpudoctor.host.recorded_host import HostFile
from gpudoctor.intake.snapshot import Snapshot
from gpudoctor.render.documents import (
    AskedOfMachine,
    Explanation,
    Forgotten,
    History,
    Kernels,
    ListedCheck,
    Plan,
    Recommendations,
    Scan,
    Undo,
    Variables,
)
from gpudoctor.report import Report

FOLDER = Path(__file__).parents[1] / "schemas"
DOCUMENTS: dict[str, Any] = {
    "report": Report,
    "snapshot": Snapshot,
    "fix": Plan,
    "fix-history": History,
    "fix-undo": Undo,
    "fix-forget": Forgotten,
    "env": Variables,
    "explain": Explanation,
    "scan": Scan,
    "recommend": Recommendations,
    "variants": AskedOfMachine,
    "fleet": FleetReport,
    "list": tuple[ListedCheck, ...],
    "smoke-list": Kernels,
    "host": HostFile,
    "fleet-pair": PairReport,
}
"""By the names of their schemas; "host" is the gpudoctor-host.json of a recorded folder."""


def schema_of(name: str) -> bytes:
    """The JSON Schema of a document. Not on Python 3.10: there msgspec gives `Fact[tuple[A, ...]]` and
    `Fact[tuple[B, ...]]` one name."""
    schema = {"title": name, **_dedented(msgspec.json.schema(DOCUMENTS[name]))}
    return msgspec.json.format(msgspec.json.encode(schema, order="sorted"), indent=2) + b"\n"


def _dedented(schema: Any) -> Any:
    """Before Python 3.13 a docstring keeps its indent, which msgspec leaves in descriptions of generic types."""
    if isinstance(schema, dict):
        return {
            key: cleandoc(value) if key == "description" and isinstance(value, str) else _dedented(value)
            for key, value in schema.items()
        }
    return [_dedented(item) for item in schema] if isinstance(schema, list) else schema


def write() -> None:
    """One file for each document, and no other."""
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.json"):
        old.unlink()
    for name in DOCUMENTS:
        (FOLDER / f"{name}.json").write_bytes(schema_of(name))


if __name__ == "__main__":
    write()
