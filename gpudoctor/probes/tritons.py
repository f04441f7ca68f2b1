"""Packages that bring Triton: all of them own the folder triton/."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable

from gpudoctor.dependencies import TRITONS
from gpudoctor.host import Host
from gpudoctor.machine import Distribution
from gpudoctor.matrix.versions import public_version

_LIBRARY = "triton/_C/libtriton.so"
_MOST_RECORD = 8 << 20


def triton_owner(host: Host, distributions: Iterable[Distribution]) -> str:
    """The name of the Triton whose files are there, where several are installed. The size of the library decides, or
    the version that the module states. "" if there are not several, or if neither decides."""
    installed = [one for one in distributions if one.name in TRITONS and one.path]
    if len(installed) < 2:
        return ""
    for is_there in (_by_size, _by_version):
        owners = [one.name for one in installed if is_there(host, one)]
        if len(owners) == 1:
            return owners[0]
    return ""


def _by_size(host: Host, distribution: Distribution) -> bool:
    record = host.text(posixpath.join(distribution.path, "RECORD"), _MOST_RECORD).value or ""
    line = next((line for line in record.splitlines() if line.startswith(f"{_LIBRARY},")), "")
    size = line.rpartition(",")[2]
    stat = host.stat(posixpath.join(posixpath.dirname(distribution.path), _LIBRARY)).value
    return stat is not None and size == str(stat.size)


def _by_version(host: Host, distribution: Distribution) -> bool:
    module = posixpath.join(posixpath.dirname(distribution.path), "triton/__init__.py")
    stated = re.search(r"""(?m)^__version__ = ['"]([\d.]+)""", host.text(module, _MOST_RECORD).value or "")
    return stated is not None and stated[1] == public_version(distribution.version)
