"""Readers of native code: which GPU architectures a library has code for, from its headers alone."""

from __future__ import annotations

from msgspec import Struct


class Code(Struct, frozen=True):
    """The GPU code of one file: `sass` "sm_90a", `ptx` "compute_90", `gfx` "gfx90a:xnack-" or "gfx11-generic". For a
    file without any, all are empty and there is no reason."""

    sass: tuple[str, ...] = ()
    ptx: tuple[str, ...] = ()
    gfx: tuple[str, ...] = ()
    relocatable: tuple[str, ...] = ()
    """NVIDIA code for the device linker only: no driver loads it."""
    share: dict[str, float] = {}
    """For each of the first three, the share of the containers (of its vendor) that have it."""
    containers: int = 0
    """Fat binaries (NVIDIA) or bundles (AMD); those of a sample that were not read count too."""
    kpack: bool = False
    """AMD: its device code is in separate archives or packages."""
    reason: str | None = None
    """Why it could not be read, or not to its end; what was read before that is given."""

    def architectures(self, least: float = 0.0) -> tuple[str, ...]:
        """Architectures whose share of the containers is at least `least`."""
        return tuple(arch for arch in (*self.sass, *self.ptx, *self.gfx) if self.share[arch] >= least)
