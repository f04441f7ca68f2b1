"""Libraries that were compiled into the sources of an editable install: its RECORD lists only the way there."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from gpudoctor.host import Host
from gpudoctor.machine import Distribution
from gpudoctor.probes.import_path import pth_paths
from gpudoctor.probes.record import listed_files

_LIMIT = 256 << 10
_MOST_FILES = 2000
_DEEPEST = 4
_MAPPED = r"""['"]([\w.]{1,100})['"]\s*:\s*['"](/[^'"\n]{1,1000})['"]"""
"""A line of MAPPING in the finder that setuptools writes: 'package': '/sources/package'."""
_OF_A_PYTHON = r"\.cpython-(\w+)-"


def compiled_in_sources(host: Host, distribution: Distribution, record: bytes, python: str) -> Iterator[str]:
    """Paths of the libraries that this Python can load; none for a distribution that is not editable."""
    left = [_MOST_FILES]
    for folder in dict.fromkeys(_folders(host, distribution, record)):
        for path in _libraries(host, folder, _DEEPEST, left):
            tag = re.search(_OF_A_PYTHON, path)
            if tag is None or tag[1] == python.replace(".", ""):
                yield path


def _folders(host: Host, distribution: Distribution, record: bytes) -> Iterator[str]:
    """The folders of its packages, as its .pth files and its finder name them."""
    site = posixpath.dirname(distribution.path)
    for name, _ in listed_files(record, b".pth,"):
        for line in pth_paths(_text(host, site, name)):
            if line.startswith("/"):
                yield from (posixpath.join(line, package) for package in _packages(host, distribution))
    for name, _ in listed_files(record, b"_finder.py,"):
        yield from (found[2] for found in re.finditer(_MAPPED, _text(host, site, name)))


def _packages(host: Host, distribution: Distribution) -> list[str]:
    """The names that are imported: only some tools list them."""
    listed = host.text(posixpath.join(distribution.path, "top_level.txt"), _LIMIT).value or ""
    named = [name for name in listed.split() if re.fullmatch(r"\w+", name)]
    return named or [distribution.name.replace("-", "_")]


def _text(host: Host, site: str, name: bytes) -> str:
    return host.text(posixpath.join(site, name.decode("utf-8", "replace")), _LIMIT).value or ""


def _libraries(host: Host, folder: str, depth: int, left: list[int]) -> Iterator[str]:
    """Libraries below a folder, as long as `left` allows to look at more names."""
    for name in sorted(host.names(folder).value or ()):
        left[0] -= 1
        if left[0] < 0:
            return
        path = posixpath.join(folder, name)
        if name.endswith(".so"):
            yield path
        elif depth > 1 and "." not in name and name != "__pycache__":
            yield from _libraries(host, path, depth - 1, left)
