"""A Python environment before its torch is read, and the result of reading it."""

from __future__ import annotations

from msgspec import Struct

from gpudoctor.host import Host
from gpudoctor.machine import DamagedFile, Distribution, Fact, LoadPath, MissingSymbols, Torch, unknown
from gpudoctor.matrix.rows.packages import LateLibrary
from gpudoctor.probes.distributions import CondaPackage
from gpudoctor.probes.import_path import ImportPath
from gpudoctor.probes.python_layout import Layout


class Surroundings(Struct, frozen=True):
    """Where an environment lies, what its processes import from, and what is installed there."""

    host: Host
    layout: Layout
    path: ImportPath
    environ: dict[str, str]
    distributions: tuple[Distribution, ...]
    conda: CondaPackage | None
    """Conda's record of torch."""
    late: tuple[LateLibrary, ...] = ()
    """Libraries that others open when they need them."""


class InstalledTorch(Struct, frozen=True):
    """The torch that Python imports, and the libraries from outside that it loads."""

    torch: Fact[Torch]
    locked: tuple[DamagedFile, ...] = ()
    """Its programs that nobody may execute."""
    libraries: LoadPath = LoadPath()
    """GPU libraries that LD_LIBRARY_PATH and LD_PRELOAD lead to."""
    missing_symbols: tuple[MissingSymbols, ...] = ()
    libstdcxx: Fact[str] = unknown("no torch could be read")
    libstdcxx_path: str = ""
