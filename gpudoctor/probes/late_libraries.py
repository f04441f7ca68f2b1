"""What the installed NVIDIA wheels are compared with: torch's pins, and the libraries that others open late."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from gpudoctor.dependencies import parsed
from gpudoctor.frameworks.torch.nvidia_wheels import distribution_of, without_cuda
from gpudoctor.machine import Distribution
from gpudoctor.matrix.rows.packages import LateLibrary
from gpudoctor.matrix.versions import package_matches

_PINNING = ("torch", "cuda-toolkit")


def other_wheels(distributions: Iterable[Distribution]) -> frozenset[str]:
    """NVIDIA's wheels, without CUDA suffix, that are installed in another version than torch requires."""
    listed = {one.name: one for one in distributions}
    pins: dict[str, list[str]] = {}
    for name in _PINNING:
        for line in listed[name].requires if name in listed else ():
            pin = parsed(line) if line.startswith("nvidia-") else None
            if pin is not None and pin.specifier.startswith("=="):
                pins.setdefault(pin.name, []).append(pin.specifier)
    return frozenset(
        without_cuda(name)
        for name, wanted in pins.items()
        if name in listed and not any(package_matches(one, listed[name].version) for one in wanted)
    )


class LateLibraries(Struct, frozen=True):
    """First parts of names ("libcudnn_ops"), by that of the library that opens them."""

    opened: dict[str, tuple[str, ...]]
    dispatchers: dict[str, tuple[str, ...]]
    """Libraries that only forward calls to the ones that they open."""


def late_libraries(rows: Iterable[LateLibrary], distributions: Iterable[Distribution]) -> LateLibraries:
    """What the installed releases open when they need it."""
    opened: dict[str, tuple[str, ...]] = {}
    dispatchers: dict[str, tuple[str, ...]] = {}
    versions = {without_cuda(one.name): one.version for one in distributions}
    for row in rows:
        version = versions.get(distribution_of(row.opener) or "")
        if row.version is None or version is None or package_matches(row.version, version):
            opened[row.opener] = (*opened.get(row.opener, ()), *row.opens)
            if row.dispatches:
                dispatchers[row.opener] = (*dispatchers.get(row.opener, ()), *row.opens)
    return LateLibraries(opened=opened, dispatchers=dispatchers)
