"""Lists each folder once, and distinguishes what is missing from what cannot be seen."""

from __future__ import annotations

from gpudoctor.host import Host


class FolderNames:
    """The content of a host's folders."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._known: dict[str, frozenset[str] | None] = {}

    def names(self, folder: str) -> frozenset[str] | None:
        """The names in a folder; empty if it is known to be absent, None if nothing is known."""
        if folder not in self._known:
            names = self._host.names(folder)
            self._known[folder] = None if names.undecided else frozenset(names.value or ())
        return self._known[folder]
