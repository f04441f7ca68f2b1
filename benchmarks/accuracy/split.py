"""Which cases are worked on, and which are kept for measuring alone.

The split is by the case's name, so that nobody chooses it and a new case falls into a half by itself.
"""

from __future__ import annotations

import hashlib
from typing import Literal

Half = Literal["worked on", "kept"]


def half(name: str) -> Half:
    """The half of a case. Nobody reads a kept case or its answer while working; only its totals are printed."""
    return "kept" if int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) % 2 else "worked on"
