"""Packages whose wheel was made for another Python or platform than the one that imports them, or is gone.

WHEEL, beside METADATA, holds the tags of the wheel that was installed (PEP 427, PEP 425). They tell it also of
libraries whose names do not, such as `libtriton.so`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection

from msgspec.structs import replace

from gpudoctor.host import Host
from gpudoctor.machine import Distribution
from gpudoctor.probes.file_owner import Program, extension_python
from gpudoctor.probes.python_layout import Layout
from gpudoctor.probes.record import read_record
from gpudoctor.wheel_tags import misfit

_WHEEL_LIMIT = 64 << 10
_MOST_TAGS = 500


def with_their_wheels(
    host: Host, layout: Layout, distributions: tuple[Distribution, ...], program: Program, packages: Collection[str]
) -> tuple[Distribution, ...]:
    """The same distributions, with a mark on those whose wheel is for another Python than this one or another
    processor or C library than `program`, on those whose files are links that lead nowhere, and on those of
    `packages` whose wheel holds nothing compiled."""
    inside = f"{layout.prefix.rstrip('/')}/"
    return tuple(
        _with_its_wheel(host, one, layout.python, program, marked=one.name in packages)
        if one.path.startswith(inside) and one.path.endswith(".dist-info")
        else one
        for one in distributions
    )


def _with_its_wheel(
    host: Host, distribution: Distribution, python: str | None, program: Program, *, marked: bool
) -> Distribution:
    wheel = host.text(posixpath.join(distribution.path, "WHEEL"), _WHEEL_LIMIT)
    if wheel.absent and any(_leads_nowhere(host, f"{distribution.path}/{name}") for name in ("METADATA", "WHEEL")):
        return replace(distribution, unlinked=True)
    tags = re.findall(r"(?m)^Tag:\s*(\S+)\s*$", wheel.value or "")[:_MOST_TAGS]
    if marked and tags and all(tag.endswith("-none-any") for tag in tags):
        return replace(distribution, pure=True)
    made_for = _made_for(host, distribution, tags, python, program) if python else ""
    return replace(distribution, made_for=made_for) if made_for else distribution


def _leads_nowhere(host: Host, path: str) -> bool:
    return host.link(path) is not None and host.stat(path).absent


def _made_for(host: Host, distribution: Distribution, tags: list[str], python: str, program: Program) -> str:
    """What its wheel is for; "" where that is this Python, or nothing tells. Some distributions build one package for
    several Pythons, and record no files: the tags are those of the last."""
    parts = [tag.split("-") for tag in tags]
    machine, musl = program.machine, program.musl
    wrong = [misfit(*tag, python=python, machine=machine, musl=musl) for tag in parts if len(tag) == 3]
    if not wrong or not all(wrong):
        return ""
    record = read_record(host, distribution.path)
    if record is None:
        return ""
    libraries = [path.decode("utf-8", "replace") for path, _ in record.libraries]
    loaded = any(extension_python(path) == python for path in libraries)
    return "" if loaded and wrong[0].startswith("Python") else wrong[0]
