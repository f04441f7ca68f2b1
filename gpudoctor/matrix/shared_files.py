"""Packages that own the same files under several names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpudoctor.matrix.rows import SharedFiles


def group_of(row: SharedFiles, name: str) -> str:
    """What the packages that own the same files have in common; "" for a package that owns none of a row's."""
    for part in row.needles:
        if part in name:
            break
    else:  # most packages, of hundreds
        return ""
    found = re.fullmatch(row.packages, name)
    return "" if found is None else found.groupdict().get("one") or row.id
