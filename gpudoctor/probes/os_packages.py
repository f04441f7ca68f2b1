"""Versions of installed distribution packages, from the package managers' own files."""

from __future__ import annotations

import re

from gpudoctor.host import Host
from gpudoctor.machine import Fact, absent, known

DPKG_STATUS = "/var/lib/dpkg/status"
PACMAN_LOCAL = "/var/lib/pacman/local"
_STATUS_LIMIT = 16 << 20


def package_version(host: Host, pattern: str) -> Fact[str]:
    """Version of the first installed package whose name matches `pattern` (a regular expression).

    dpkg and pacman keep readable lists, rpm a database.
    """
    status = host.data(DPKG_STATUS, _STATUS_LIMIT)
    if status.value is not None:
        return _from_dpkg(status.value, pattern)
    listing = host.names(PACMAN_LOCAL)
    if listing.value is not None:
        return _from_pacman(listing.value, pattern)
    from gpudoctor.probes.rpm_database import rpm_version  # most hosts have one of the lists

    return rpm_version(host, pattern)


def _from_dpkg(status: bytes, pattern: str) -> Fact[str]:
    for found in re.finditer(rb"^Package: (?:" + pattern.encode() + rb")$", status, re.MULTILINE):
        paragraph = status[found.start() : status.find(b"\n\n", found.end()) + 1 or None]
        version = re.search(rb"^Version: (?:\d+:)?(\S+)", paragraph, re.MULTILINE)
        if version and re.search(rb"^Status: .* installed$", paragraph, re.MULTILINE):
            return known(version[1].decode("ascii", "replace"), DPKG_STATUS)
    return absent(DPKG_STATUS, "not installed")


def _from_pacman(names: tuple[str, ...], pattern: str) -> Fact[str]:
    for name in names:
        found = re.fullmatch(rf"(?:{pattern})-((?:\d+:)?[^-]+-[^-]+)", name)
        if found:
            return known(found[1].rpartition(":")[2], f"{PACMAN_LOCAL}/{name}")
    return absent(PACMAN_LOCAL, "not installed")
