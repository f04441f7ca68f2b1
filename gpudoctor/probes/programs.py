"""Programs on PATH that compute on GPUs: which libraries they have for that, and the variables of their services.

The matrix names the programs. One that is not installed costs a look for its name in the folders of PATH.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from gpudoctor.host import Host
from gpudoctor.machine import Distribution, Program, ProgramBackend
from gpudoctor.matrix.rows.programs import GpuProgram
from gpudoctor.probes.load_path import search
from gpudoctor.probes.variables import relevant_variables

_USUAL_FOLDERS = ("/usr/local/bin", "/usr/bin")
_OWN_LIBRARY = r"libggml(-base|-cpu[\w-]*)?\.so"
"""A folder with one of these is where the program's libraries lie."""
_BACKEND = r"libggml-(cuda|hip|vulkan)\.so"
_MOST_SUBFOLDERS = 64
_UNITS = ("/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system",
          "/lib/systemd/system")  # fmt: skip
_MOST_TEXT = 64 << 10


def read_programs(
    host: Host, rows: Iterable[GpuProgram], environ: Mapping[str, str], relevant: Collection[str]
) -> tuple[Program, ...]:
    """The installed ones. Of their services' variables those are kept that affect GPUs, `relevant` among them."""
    places = [folder for folder in environ.get("PATH", "").split(":") if folder.startswith("/")]
    folders = tuple(dict.fromkeys((*places, *_USUAL_FOLDERS)))
    found = []
    for row in rows:
        paths = (posixpath.join(folder, command) for command in row.commands for folder in folders)
        path = next((path for path in paths if host.exists(path)), None)
        if path is not None:
            found.append(_program(host, row, path, environ, relevant))
    return tuple(found)


def _program(
    host: Host, row: GpuProgram, path: str, environ: Mapping[str, str], relevant: Collection[str]
) -> Program:
    service, settings = _service(host, row.service) if row.service else ("", {})
    own = host.resolve(path) or path
    folder = _folder(host, row, posixpath.dirname(own))
    loading = settings if service else environ
    backends = tuple(_backends(host, row, folder, loading) if folder else _built_in(host, own))
    return Program(
        name=row.program,
        path=path,
        folder=folder or (posixpath.dirname(own) if backends else ""),
        backends=backends,
        variables=relevant_variables(settings, relevant),
        service=service,
    )


# --- its libraries -----------------------------------------------------------------------------------


def _folder(host: Host, row: GpuProgram, home: str) -> str:
    """Where its libraries lie; "" if that is not known."""
    folders = dict.fromkeys(posixpath.normpath(posixpath.join(home, folder)) for folder in row.folders)
    return next((folder for folder in folders if _matching(host, folder, _OWN_LIBRARY)), "")


def _matching(host: Host, folder: str, pattern: str) -> list[str]:
    return [name for name in host.names(folder).value or () if re.match(pattern, name)]


def _backends(host: Host, row: GpuProgram, folder: str, environ: Mapping[str, str]) -> Iterator[ProgramBackend]:
    subfolders: Iterable[str] = row.subfolders
    if "*" in subfolders:
        subfolders = (name for name in (host.names(folder).value or ())[:_MOST_SUBFOLDERS] if "." not in name)
    for place in (folder, *(posixpath.join(folder, name) for name in subfolders)):
        kinds: dict[str, str] = {}
        for name in _matching(host, place, _BACKEND):  # libggml-hip.so, libggml-hip.so.0: one library
            kinds.setdefault(name.partition(".")[0].removeprefix("libggml-"), name)
        for kind, name in kinds.items():
            if backend := _backend(host, kind, posixpath.join(place, name), folder, environ):
                yield backend


def _built_in(host: Host, path: str) -> Iterator[ProgramBackend]:
    """The code in the program's own file, if everything was linked into it."""
    found = _backend(host, "", path, posixpath.dirname(path), {})
    if found and (found.sass or found.ptx or found.gfx):
        yield found


def _backend(host: Host, kind: str, path: str, folder: str, environ: Mapping[str, str]) -> ProgramBackend | None:
    if kind == "vulkan":
        return ProgramBackend(kind, path)
    from gpudoctor.probes.extension_files import read_library

    read = read_library(host, Distribution("", ""), path)
    if read is None:
        return ProgramBackend(kind, path) if kind else None
    extension, asker = read
    place = posixpath.dirname(path)
    from gpudoctor.frameworks.torch.probes.libraries import expanded

    own = (*expanded(asker.runpath or asker.rpath, place)[0], place, folder)
    return ProgramBackend(
        kind=kind or ("hip" if extension.gfx else "cuda"),
        path=path,
        sass=extension.sass,
        ptx=extension.ptx,
        gfx=extension.gfx,
        blas_gfx=_blas(host, place),
        runtime=_runtime(host, own, extension.needs),
        missing=_missing(host, own, extension.needs, environ),
    )


def _blas(host: Host, folder: str) -> tuple[str, ...] | None:
    """Targets of the rocBLAS that lies beside a library."""
    names = host.names(posixpath.join(folder, "rocblas", "library")).value
    if not names:
        return None
    from gpudoctor.codeobjects.kernel_files import tensile_targets

    return tensile_targets(names)


def _runtime(host: Host, folders: Iterable[str], needs: tuple[str, ...]) -> str:
    """ "12.8" of a libcudart.so.12.8.90 in these folders, else "12" of the name that it asks for."""
    for folder in dict.fromkeys(folders):
        for name in _matching(host, folder, r"libcudart\.so\.\d+\.\d+\.\d"):
            return ".".join(name.split(".")[2:4])
    named = next((name for name in needs if name.startswith("libcudart.so.")), "")
    return named.removeprefix("libcudart.so.")


def _missing(
    host: Host, folders: Iterable[str], needs: tuple[str, ...], environ: Mapping[str, str]
) -> tuple[str, ...]:
    """The libraries that are neither in its folders nor on the loader's path; none if some place is unreadable."""
    there = {name for folder in dict.fromkeys(folders) for name in host.names(folder).value or ()}
    lacking = tuple(name for name in needs if name not in there)
    if not lacking:
        return ()
    path = search(host, lacking, environ, shadowed=False)
    return tuple(name for name in lacking if path.first(name) is None) if path.complete.value is True else ()


# --- its service -------------------------------------------------------------------------------------


def _service(host: Host, unit: str) -> tuple[str, dict[str, str]]:
    """The file of a systemd unit, and the environment variables that it and its drop-ins set."""
    path = next((path for folder in _UNITS if host.exists(path := posixpath.join(folder, unit))), "")
    if not path:
        return "", {}
    dropped = {}  # by name: one in /etc takes the place of one in /usr/lib
    for folder in reversed(_UNITS):
        drops = posixpath.join(folder, f"{unit}.d")
        dropped.update({name: posixpath.join(drops, name) for name in _matching(host, drops, r".*\.conf$")})
    settings: dict[str, str] = {}
    from_files: dict[str, str] = {}
    for file in (path, *(dropped[name] for name in sorted(dropped))):
        for key, value in _settings(host.text(file, _MOST_TEXT).value or ""):
            if key == "EnvironmentFile":
                from_files.update(_assignments(host.text(value.lstrip("-"), _MOST_TEXT).value or ""))
            elif value:
                settings.update(_assignments(value))
            else:  # an empty value takes back what was set before
                settings.clear()
    return path, {**settings, **from_files}


def _settings(text: str) -> Iterator[tuple[str, str]]:
    joined = text.replace("\\\n", " ")
    return ((found[1], found[2].strip()) for found in re.finditer(r"(?m)^(Environment(?:File)?)=(.*)$", joined))


def _assignments(text: str) -> dict[str, str]:
    """NAME=VALUE words in a shell's quotes, on any number of lines."""
    import shlex

    words = []
    for line in text.splitlines():
        if not line.lstrip().startswith(("#", ";")):
            try:
                words += shlex.split(line)
            except ValueError:  # an open quote
                continue
    return dict(word.partition("=")[::2] for word in words if "=" in word)
