"""Why the Python of an environment cannot start, or does not see its packages, as far as files tell.

A venv is a link to a Python, a pyvenv.cfg and a folder of packages for one version. If the Python was removed or
updated, or pyvenv.cfg is gone, nothing in the environment works, and no package is to blame. The same holds for one
that was made on another machine, or on Windows.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping

from gpudoctor.host import Host
from gpudoctor.machine import StartFault, StartFaultKind
from gpudoctor.probes.import_path import ImportPath
from gpudoctor.probes.python_layout import Layout, along_links, lib_folders, standard_folders

_VERSIONED = r"python(\d+\.\d+)t?$"
_PYTHONS = ("/usr/local/bin", "/usr/bin")
_ON_WINDOWS = r"[A-Za-z]:[\\/]"


def start_faults(
    host: Host, layout: Layout, path: ImportPath, foreign: str, variables: Mapping[str, str]
) -> tuple[StartFault, ...]:
    """Those of an environment of the running system: a recording need not hold the interpreter. `foreign` is the
    processor of an interpreter that is made for another one."""
    if not host.live:
        return ()
    undecodable = (StartFault(kind="pth-undecodable", path=file) for file in path.undecodable)
    home = variables.get("PYTHONHOME", "")
    of_links = _of_packages(host, layout)
    return (*_of_interpreter(host, layout, foreign), *_of_home(host, layout, home), *of_links, *undecodable)


def _of_packages(host: Host, layout: Layout) -> Iterator[StartFault]:
    """A link in place of the packages, or of a folder above them, that leads nowhere (an unmounted disk)."""
    python = layout.python
    for name in ("lib", f"lib/python{python}", f"lib/python{python}/site-packages") if layout.kind == "venv" else ():
        path = posixpath.join(layout.prefix, name)
        *_, target = along_links(host, path)
        if target != path and host.stat(path).absent:
            yield StartFault(kind="packages-gone", path=path, detail=target, python=python or "")
            return


def _of_home(host: Host, layout: Layout, home: str) -> Iterator[StartFault]:
    """PYTHONHOME names the prefix of a standard library, for every Python that is started."""
    folder, python = home.partition(":")[0], layout.python
    if not posixpath.isabs(folder) or python is None:
        return
    version = python.rstrip("t")
    libraries = [posixpath.join(one, "os.py") for one in standard_folders(folder, python)]
    libraries.append(posixpath.join(folder, f"lib/python{version.replace('.', '')}.zip"))
    if not any(map(host.exists, libraries)):
        yield StartFault(kind="no-library", path=folder, python=python)


def _may_be_a_program(host: Host, path: str) -> bool:
    """Whether the kernel may start the file; one that cannot be read may be any."""
    head = host.data(path, 4).value
    return head is None or head.startswith((b"\x7fELF", b"#!"))


def _of_interpreter(host: Host, layout: Layout, foreign: str) -> Iterator[StartFault]:
    prefix = posixpath.dirname(posixpath.dirname(layout.interpreter))
    home = layout.config.get("home", "")
    if foreign:
        yield _fault(host, layout, "interpreter-foreign", layout.prefix, [], foreign)
    elif layout.kind == "venv" and re.match(_ON_WINDOWS, home):
        yield _fault(host, layout, "of-windows", layout.prefix, [], home)
    elif layout.kind == "venv":
        real = host.resolve(layout.interpreter)
        named = re.search(_VERSIONED, real or "")
        folders = lib_folders(host, layout.prefix)
        if real is None and host.stat(layout.interpreter).absent:
            *_, target = along_links(host, layout.interpreter)
            yield _fault(host, layout, "interpreter-gone", layout.prefix, folders[:1], target)
        elif not _may_be_a_program(host, layout.interpreter):
            yield _fault(host, layout, "interpreter-no-program", layout.prefix, folders[:1], "no program")
        elif named and folders and named[1] not in [version.rstrip("t") for version in folders]:
            yield _fault(host, layout, "interpreter-other", layout.prefix, folders[:1], f"Python {named[1]}")
        elif real and named and _has_library_of_another(host, layout.prefix, home, real, named[1]):
            yield _fault(host, layout, "interpreter-mixed", layout.prefix, folders[:1], real)
    elif host.exists(posixpath.join(prefix, "bin/activate")):
        packages = [
            version
            for version in lib_folders(host, prefix)
            if host.exists(posixpath.join(prefix, "lib", f"python{version}", "site-packages"))
        ]
        library = any(host.exists(posixpath.join(prefix, "lib", f"python{one}", "os.py")) for one in packages)
        if packages and not library:
            yield _fault(host, layout, "no-pyvenv-cfg", prefix, packages[:1], _home(host, layout))


def _has_library_of_another(host: Host, prefix: str, home: str, real: str, version: str) -> bool:
    """Whether pyvenv.cfg leads an interpreter to the standard library of another Python: `python -m venv --upgrade`
    writes that file again, and leaves the links."""
    other = host.resolve(posixpath.join(home, f"python{version}"))
    if other is None or other == real or real.startswith(f"{prefix.rstrip('/')}/"):
        return False
    library = f"lib/python{version}/os.py"
    roots = (posixpath.dirname(posixpath.dirname(path)) for path in (home.rstrip("/") + "/python", real))
    own, others = (host.resolve(posixpath.join(root, library)) for root in roots)
    return own is not None and others is not None and own != others


def _fault(
    host: Host, layout: Layout, kind: StartFaultKind, prefix: str, versions: list[str], detail: str
) -> StartFault:
    python = versions[0] if versions else layout.python or ""
    links = tuple(
        posixpath.join(prefix, "bin", name)
        for name in host.names(posixpath.join(prefix, "bin")).value or ()
        if re.match(r"python(\d+(\.\d+)?t?)?$", name)
    )
    return StartFault(
        kind=kind,
        path=layout.interpreter if kind != "no-pyvenv-cfg" else posixpath.join(prefix, "pyvenv.cfg"),
        prefix=prefix,
        detail=detail,
        python=python,
        links=tuple(sorted(links)),
        other=_another(host, layout, python),
    )


def _another(host: Host, layout: Layout, python: str) -> str:
    """A Python of that version outside of the environment."""
    folders = [layout.config.get("home", ""), *_PYTHONS, *host.environ.get("PATH", "").split(":")]
    real = host.resolve(layout.interpreter)
    if layout.kind != "venv" and real:
        folders.insert(0, posixpath.dirname(real))
    for folder in folders:
        path = posixpath.join(folder, f"python{python}")
        inside = folder.startswith(f"{layout.prefix.rstrip('/')}/") and layout.kind == "venv"
        if folder.startswith("/") and not inside and "/shims" not in folder and host.exists(path):
            return path
    return ""


def _home(host: Host, layout: Layout) -> str:
    """The prefix that an interpreter has without a pyvenv.cfg."""
    real = host.resolve(layout.interpreter)
    return posixpath.dirname(posixpath.dirname(real)) if real else ""
