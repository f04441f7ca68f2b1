"""Writes the stored schemas anew after a change of the types: `python -m tests.schemas` (Python 3.11 or newer)."""

from __future__ import annotations

from pathlib import Path

from gpudoctor.render.documents import DOCUMENTS, schema_of

FOLDER = Path(__file__).parents[1] / "schemas"


def write() -> None:
    """One file for each document, and no other."""
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.json"):
        old.unlink()
    for name in DOCUMENTS:
        (FOLDER / f"{name}.json").write_bytes(schema_of(name))


if __name__ == "__main__":
    write()
