"""Programs that a process finds by their names."""

from __future__ import annotations

import posixpath

from gpudoctor.host import Host


def on_path(host: Host, name: str) -> bool:
    """Whether a program is there to be executed: in a folder of PATH, or under the path that the name is."""
    folders = ("/",) if "/" in name else host.environ.get("PATH", "").split(":")
    places = (posixpath.join(folder, name) for folder in folders if folder.startswith("/"))
    return any(
        found.kind == "file" and found.mode & 0o111
        for place in places
        if (found := host.stat(place).value) is not None
    )
