"""Files of torch that cannot be loaded here, as they lie there."""

from __future__ import annotations

import posixpath

from gpudoctor.machine import SuspectFile
from gpudoctor.probes.file_owner import Owners, extension_python, unusable
from gpudoctor.probes.surroundings import Surroundings


def unloadable_files(
    around: Surroundings, torch: str, unread: tuple[str, ...], missing: tuple[str, ...]
) -> tuple[SuspectFile, ...]:
    """Files that certainly make `import torch` fail here: its extension module, libraries that may not be read, and
    the files that should have the `missing` libraries."""
    host, layout = around.host, around.layout
    names = host.names(torch)
    if names.state == "denied":
        return (SuspectFile(path=torch, owner="torch", problem="unreadable"),)
    extensions = [name for name in names.value or () if name.startswith("_C.") and name.endswith(".so")]
    fitting = [name for name in extensions if extension_python(name) in ("", layout.python)]
    found = []
    for path in (*(posixpath.join(torch, name) for name in (fitting or extensions)[:1]), *unread):
        problem, detail = unusable(host, path, layout.python, layout.interpreter)
        if problem:
            found.append(SuspectFile(path=path, owner="torch", problem=problem, detail=detail))
    if missing:
        owners = Owners(host, around.distributions, layout.python, layout.interpreter)
        found += [file for name in missing for file in owners.of_library(name) if file.problem]
    return tuple(found)
