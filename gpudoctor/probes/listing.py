"""Folders listed once each, with what is not there told from what cannot be seen."""

from __future__ import annotations

from gpudoctor.host import Host


class Listing:
    """What folders of a host hold."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._known: dict[str, frozenset[str] | None] = {}

    def names(self, folder: str) -> frozenset[str] | None:
        """What a folder holds; empty where it is known to be absent, None where nothing can be said."""
        if folder not in self._known:
            names = self._host.names(folder)
            self._known[folder] = None if names.undecided else frozenset(names.value or ())
        return self._known[folder]
