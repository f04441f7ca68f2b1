"""Packages that bring Triton: all of them own the folder triton/."""

from __future__ import annotations

import csv
import posixpath
from collections.abc import Iterable

from gpudoctor.host import Host
from gpudoctor.machine import TRITONS, Distribution

_LIBRARY = "triton/_C/libtriton.so"
_MOST_RECORD = 8 << 20


def triton_owner(host: Host, distributions: Iterable[Distribution]) -> str:
    """Of several installed Tritons the one whose files are there: the size of the library tells. "" if there are not
    several, or if it does not tell."""
    installed = [one for one in distributions if one.name in TRITONS and one.path]
    if len(installed) < 2:
        return ""
    owners = [one.name for one in installed if _is_there(host, one)]
    return owners[0] if len(owners) == 1 else ""


def _is_there(host: Host, distribution: Distribution) -> bool:
    record = host.text(posixpath.join(distribution.path, "RECORD"), _MOST_RECORD).value or ""
    rows = (row for row in csv.reader(record.splitlines()) if len(row) == 3 and row[0] == _LIBRARY)
    size = next((row[2] for row in rows), "")
    stat = host.stat(posixpath.join(posixpath.dirname(distribution.path), _LIBRARY)).value
    return stat is not None and size == str(stat.size)
