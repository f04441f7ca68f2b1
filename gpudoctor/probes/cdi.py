"""CDI specifications: which files of the driver a container engine mounts into containers that ask for a GPU."""

from __future__ import annotations

import re

from gpudoctor.host import Host
from gpudoctor.machine import CdiSpec, Fact, System, known, unknown

_FOLDERS = ("/etc/cdi", "/var/run/cdi")
"""The second takes precedence: of two specifications of one device, its own counts."""
_LIMIT = 4 << 20
_KIND = r"""(?<!\w)kind"?\s{0,9}:\s{0,9}["']?((?:[\w.-]{1,99}\.)?nvidia\.com/gpu)\b"""
_PATH = r"""(?<!\w)%s"?\s{0,9}:\s{0,9}["']?(/[^"'\s,}\]]+)"""
_LIBRARY = r".*/lib(?:cuda|nvidia-ml)\.so\.(\d{3,}\.\d+(?:\.\d+)?)"
_LAZY = r"/dev/(?!nvidia\d|dri/)"
"""Nodes that the driver makes at their first use."""
_MOST_FILES, _MOST_PATHS = 20, 2000


def probe_cdi(host: Host, system: System) -> Fact[tuple[CdiSpec, ...]]:
    """The specifications of NVIDIA's GPUs that count here. Only their paths are read, which look alike in YAML and in
    JSON: a whole parser would cost every start."""
    if system.container.known:
        return unknown("the host's specifications are not seen from a container", _FOLDERS[0])
    found: dict[str, list[CdiSpec]] = {}
    for folder in _FOLDERS:
        here: dict[str, list[CdiSpec]] = {}
        names = [name for name in host.names(folder).value or () if name.endswith((".yaml", ".yml", ".json"))]
        for name in names[:_MOST_FILES]:
            if (spec := _spec(host, f"{folder}/{name}")) is not None:
                here.setdefault(spec.kind, []).append(spec)
        found |= here
    specs = tuple(spec for same in found.values() for spec in same)
    return known(specs, ", ".join(spec.path for spec in specs) or _FOLDERS[0])


def _spec(host: Host, path: str) -> CdiSpec | None:
    text = host.text(path, _LIMIT).value or ""
    kind = re.search(_KIND, text)
    if kind is None:
        return None
    from_host = re.findall(_PATH % "hostPath", text)
    # A node without a path of its own on the host has the same path there.
    elsewhere = any("/dev/" in named for named in from_host)
    named = dict.fromkeys([*from_host, *(() if elsewhere else re.findall(_PATH % "path", text))])
    versions = dict.fromkeys(match[1] for path in named if (match := re.fullmatch(_LIBRARY, path)))
    return CdiSpec(
        path=path, kind=kind[1], versions=tuple(versions), missing=_missing(host, tuple(named)[:_MOST_PATHS])
    )


def _missing(host: Host, named: tuple[str, ...]) -> tuple[str, ...]:
    """Named files that are not there. A recording need not hold them."""
    if not host.live:
        return ()
    return tuple(path for path in named if not re.match(_LAZY, path) and host.stat(path).absent)
