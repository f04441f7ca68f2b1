"""What torch and other GPU packages require: which of it is installed, and whether its files are there.

Only the distributions of that closure are opened, some 25 of 120. Of a RECORD, which may have thousands of lines,
only what makes a package importable is compared with the disk: the first file of each package and of those in it, a
module that stands alone, libraries, and the assembler that Triton and JAX start. Other files, such as tests, may be
deleted to save room.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Iterator
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.dependencies import closure, find_one, marker_environment
from gpudoctor.host import Host
from gpudoctor.machine import DamagedFile, Distribution
from gpudoctor.probes.distributions import JUDGED, with_details
from gpudoctor.probes.import_path import Folder, ImportPath
from gpudoctor.probes.record import Record, damage, locked_programs, read_record

_MOST_FILES = 2000
_MOST_REPORTED = 20
_FIRST_FILE = b"/__init__.py,"
_ASSEMBLER = b"/bin/ptxas,"
_LEFT_OUT = {b"test", b"tests", b"testing", b"example", b"examples", b"benchmark", b"benchmarks", b".."}
"""Folders."""
_TOP_LEVEL_LIMIT = 64 << 10
_DEPTH = 1
"""Packages in a package whose first file is looked at."""


class Checked(Struct, frozen=True):
    """All distributions, those of the closure with what was read of them, and what that closure lacks."""

    distributions: tuple[Distribution, ...]
    not_installed: tuple[str, ...]


def required_packages(
    host: Host,
    path: ImportPath,
    distributions: tuple[Distribution, ...],
    *,
    packages: Collection[str],
    python: str | None,
    elsewhere: Collection[str] = (),
) -> Checked:
    """Follow what `packages` require, as far as they are installed. `elsewhere` are names that another package
    manager has."""
    listed = {distribution.name: distribution for distribution in distributions}
    opened: dict[str, Distribution] = {}

    def find(name: str) -> Distribution | None:
        if name not in opened and name in listed:
            found = listed[name]
            whole = found if name in JUDGED or not found.path else with_details(host, found)
            opened[name] = _with_damage(host, path, whole)
        return opened.get(name)

    uname = host.uname().value
    environment = marker_environment(python, uname.machine if uname else "x86_64")
    roots = sorted(JUDGED.union(packages))
    required = closure(roots, find, environment)
    for name in roots:
        find(name)
    names = sorted({one.what.name for one in required})
    lacking = [name for name in names if find_one(name, find) is None and name not in elsewhere]
    if not _complete(host, path) or (len(lacking) == len(names) and not host.live):
        lacking = []  # a recording that holds the record of torch, and nothing of what it requires
    return Checked(
        distributions=tuple(opened.get(distribution.name, distribution) for distribution in distributions),
        not_installed=tuple(name for name in lacking if not _has_module(path.folders, name)),
    )


def _complete(host: Host, path: ImportPath) -> bool:
    """Whether what is in none of the listed folders certainly does not exist: a recording may hold only a part."""
    folders = path.folders
    if not all(archive.endswith(".egg") for archive in path.archives):
        return False  # what another archive holds is not known
    return bool(folders) and not path.unreadable and all(host.missing(folder.path).absent for folder in folders)


def _has_module(folders: Iterable[Folder], name: str) -> bool:
    """Whether a folder of the import path has a module of that name, recorded or not."""
    if name.startswith("nvidia-"):
        return False  # libraries, in a folder that several of them share
    module = name.replace("-", "_")
    return any(
        found == module or (found.startswith(f"{module}.") and found.endswith((".py", ".so", ".pyc")))
        for folder in folders
        for found in map(str.lower, folder.names)
    )


# --- a RECORD against the disk -------------------------------------------------------------------------


def _with_damage(host: Host, path: ImportPath, distribution: Distribution) -> Distribution:
    """Torch's RECORD, the longest of all, is compared where torch is read."""
    if not distribution.path or distribution.name == "torch":
        return distribution
    record = read_record(host, distribution.path)
    if record is None:
        return _without_modules(host, path, distribution)
    site = posixpath.dirname(distribution.path)
    looked_at = list(islice(_looked_at(record), _MOST_FILES))
    compared = (damage(host, posixpath.join(site, name), size) for name, size in looked_at)
    damaged = [problem for problem in compared if problem is not None]
    emptied = bool(damaged) and sum(file.problem == "missing" for file in damaged) == len(looked_at)
    damaged = [*damaged[:_MOST_REPORTED], *locked_programs(host, site, record.programs)]
    return replace(distribution, damaged=tuple(damaged), emptied=emptied) if damaged else distribution


def _without_modules(host: Host, path: ImportPath, distribution: Distribution) -> Distribution:
    """A distribution without RECORD: emptied if no folder of the import path has the module of its own name, or any
    module if it has none of that name, of those in its top_level.txt."""
    listed = host.text(posixpath.join(distribution.path, "top_level.txt"), _TOP_LEVEL_LIMIT).value or ""
    own = distribution.name.replace("-", "_")
    modules = [name for name in listed.split() if name.lower() == own] or listed.split()
    if not modules or not _complete(host, path) or any(_has_module(path.folders, name.lower()) for name in modules):
        return distribution
    site = posixpath.dirname(distribution.path)
    damaged = (DamagedFile(path=posixpath.join(site, name), problem="missing") for name in modules[:_MOST_REPORTED])
    return replace(distribution, damaged=tuple(damaged), emptied=True)


def _looked_at(record: Record) -> Iterator[tuple[str, int]]:
    """Paths and sizes. An empty file is none that a package cannot do without."""
    packages = [(path, size) for path, size in record.files(_FIRST_FILE) if path.count(b"/") <= _DEPTH + 1]
    alone = [] if packages else [(path, size) for path, size in record.files(b".py,") if b"/" not in path]
    assemblers = record.files(_ASSEMBLER) if record.programs else ()
    for path, size in (*packages, *record.libraries, *assemblers, *alone):
        if size and _LEFT_OUT.isdisjoint(path.split(b"/")):
            yield path.decode("utf-8", "replace"), size
