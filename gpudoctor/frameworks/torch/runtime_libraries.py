"""Packages that bring a library for each CUDA and ROCm and load that for torch's (bitsandbytes): what a release has.

Holds no checks itself.
"""

from __future__ import annotations

from gpudoctor.machine import Distribution, Torch
from gpudoctor.matrix.rows.installing import RuntimeLibraries
from gpudoctor.matrix.versions import local_version, package_matches
from gpudoctor.situation import Situation


def runtime_of(torch: Torch) -> str:
    """ "cuda128", "rocm64"; "" for a CPU build."""
    if torch.cuda:
        return "cuda" + "".join(torch.cuda.split(".")[:2])
    return "rocm" + "".join(torch.rocm.split(".")[:2]) if torch.rocm else ""


def major_of(runtime: str) -> str:
    """ "cuda12" of "cuda128", "rocm7" of "rocm714": CUDA has two digits for the major, ROCm one."""
    return runtime[: 6 if runtime.startswith("cuda") else 5]


def row_of(situation: Situation, installed: Distribution) -> RuntimeLibraries | None:
    """What the matrix says of an installed release."""
    rows = situation.matrix.tables.runtime_libraries
    ours = (row for row in rows if row.package == installed.name)
    return next((row for row in ours if package_matches(row.version, installed.version)), None)


def runtimes_of(situation: Situation, installed: Distribution) -> tuple[str, ...]:
    """What the libraries of an installed package are for: by its files, by the matrix where only its release is
    known. Empty if unknown, as of one that was built here."""
    if installed.runtimes or not installed.only_named or local_version(installed.version):
        return installed.runtimes
    row = row_of(situation, installed)
    return row.runtimes if row else ()


def depends_on_torch(situation: Situation, package: str) -> bool:
    """Whether the torch here decides which releases of a package work."""
    rows = situation.matrix.tables.runtime_libraries
    return bool(situation.torch and runtime_of(situation.torch)) and any(row.package == package for row in rows)


def release_for_torch(situation: Situation, package: str) -> str | None:
    """The newest release of a package with a library for the torch here, and for its Python; None: none is known."""
    torch = situation.torch
    rows = (row for row in reversed(situation.matrix.tables.runtime_libraries) if row.package == package)
    return next((row.newest for row in rows if torch and _serves(row, torch, situation.python)), None)


def _serves(row: RuntimeLibraries, torch: Torch, python: str | None) -> bool:
    own = runtime_of(torch)
    near = row.neighbours and major_of(own) in map(major_of, row.runtimes)
    if not (near or own in row.runtimes):
        return False
    if row.torch and not package_matches(row.torch, torch.version):
        return False
    return not (row.python and python) or package_matches(row.python, python.rstrip("t"))
