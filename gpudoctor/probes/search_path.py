"""Programs that a process finds by their names."""

from __future__ import annotations

import posixpath

from gpudoctor.host import Host


def on_path(host: Host, name: str) -> bool:
    """Whether a program can be executed: its name is an absolute path, or stands in a folder of PATH."""
    folders = ("/",) if name.startswith("/") else host.environ.get("PATH", "").split(":")
    places = (posixpath.join(folder, name) for folder in folders if folder.startswith("/"))
    return any(
        found.kind == "file" and found.mode & 0o111
        for place in places
        if (found := host.stat(place).value) is not None
    )
