"""The questions that the matrix answers: pure functions over its rows.

`Matrix` holds the rows and the few look-up tables over them. Nothing here reads a file.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Identity:
    """A card that the matrix knows: what a PCI id or a name stands for."""
