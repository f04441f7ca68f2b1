"""The driver's libcuda in a folder in which the loader does not look. Holds no checks itself."""

from __future__ import annotations

import posixpath

from gpudoctor.check import Case
from gpudoctor.finding import SetVariable, WayOut
from gpudoctor.machine import Library


def beside_the_path(case: Case) -> Library | None:
    """A libcuda.so.1 that nothing loads, where none is on the load path."""
    return next(iter(case.machine.load_path.beside), None)


def put_on_path(case: Case, library: Library) -> WayOut:
    """The way out "let the loader look where it lies"."""
    folder = posixpath.dirname(library.path)
    folders = ":".join(filter(None, (folder, case.variable("LD_LIBRARY_PATH"))))
    variable = SetVariable("LD_LIBRARY_PATH", folders, why=f"{posixpath.basename(library.path)} is there")
    return WayOut(f"Put {folder} on the load path", (variable,))
