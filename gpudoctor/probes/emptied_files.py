"""Modules and libraries that were not written to their end: a full disk and a power cut leave files of no length, or
of some blocks.

An import shows only what it loads: torch.compile, say, needs a thousand further files. All that the RECORD of the
packages lists is looked at, which takes a tenth of a second: this is for where the import was tried, too.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection

from msgspec.structs import replace

from gpudoctor.host import Host
from gpudoctor.machine import DamagedFile, Distribution, PythonEnvironment
from gpudoctor.probes.record import read_record

_LINE = rb"\n([^,\n\"]+\.(?:py|so(?:\.[\d.]+)?)),[^,\n]*,([1-9]\d{0,15})(?=\r?\n|$)"
_LEFT_OUT = r"(?:^|/)(?:tests?|testing|examples?|benchmarks?|\.\.)/"
"""Folders."""
_MOST_REPORTED = 20
_BLOCK = 4096


def with_emptied_files(host: Host, environment: PythonEnvironment, packages: Collection[str]) -> PythonEnvironment:
    """The environment, the damage of these packages with their emptied files."""
    found = tuple(_completed(host, one) if one.name in packages else one for one in environment.packages)
    torch, fact = next((one for one in found if one.name == "torch"), None), environment.torch
    if torch is not None and fact.value is not None and torch.path:
        inside = posixpath.dirname(torch.path) == posixpath.dirname(fact.value.path)
        known = {file.path for file in fact.value.damaged}
        more = tuple(file for file in torch.lost if inside and file.path not in known)
        damaged = (*fact.value.damaged, *more)[:_MOST_REPORTED]
        environment = environment.with_torch_facts(damaged=damaged)
        # Of the distribution torch the programs alone are told: its files are those of the framework.
        found = tuple(replace(one, damaged=one.locked) if one.name == "torch" else one for one in found)
    return replace(environment, distributions=replace(environment.distributions, value=found))


def _completed(host: Host, package: Distribution) -> Distribution:
    readable = package.path.endswith(".dist-info") and not package.unlinked
    record = read_record(host, package.path) if readable else None
    if record is None:
        return package
    site, known = posixpath.dirname(package.path), {file.path for file in package.damaged}
    emptied = []
    for name, size in re.findall(_LINE, b"\n" + record.content):
        path = posixpath.join(site, name.decode("utf-8", "replace"))
        if path not in known and not re.search(_LEFT_OUT, path[len(site) :]) and _is_cut(host, path, int(size)):
            emptied.append(DamagedFile(path=path, problem="truncated"))
            if len(emptied) == _MOST_REPORTED:
                break
    return replace(package, damaged=(*package.damaged, *emptied)) if emptied else package


def _is_cut(host: Host, path: str, size: int) -> bool:
    """Whether a file is empty, or a source that ends before its time with a block: one that was edited ends anywhere,
    and a library that was stripped is smaller."""
    found = host.stat(path).value
    if found is None or found.kind != "file" or (found.size and not path.endswith(".py")):
        return False
    return found.size < size and found.size % _BLOCK == 0
