"""The examined Python environment, read from its files: the interpreter is never started here."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from gpudoctor.host import Host, LiveHost
from gpudoctor.machine import (
    DamagedFile,
    Distribution,
    Fact,
    LoadPath,
    PythonEnvironment,
    Torch,
    TorchCopy,
    absent,
    known,
    unknown,
)
from gpudoctor.probes.distributions import (
    CondaPackage,
    channel_of,
    conda_packages,
    conda_torch,
    distributions_in,
    with_conda,
)
from gpudoctor.probes.environment_libraries import (
    cudnn_on_path,
    cxx_runtime,
    foreign_libraries,
    missing_libraries,
    system_libraries,
)
from gpudoctor.probes.import_path import ImportPath, import_path
from gpudoctor.probes.project_files import conda_tool, torch_asked
from gpudoctor.probes.python_layout import Layout, find_layout
from gpudoctor.probes.torch_copies import Copies, find_copies, record_fits
from gpudoctor.probes.torch_damage import damaged_files
from gpudoctor.probes.torch_files import (
    Setting,
    VersionFile,
    build_of,
    by_label,
    is_jetson,
    is_ngc,
    origin_of,
    read_version_file,
    rocm_of,
)
from gpudoctor.probes.torch_libraries import LibraryWalk, interpreter_rpath, walk_libraries

Lock = Literal["uv.lock", "poetry.lock", "pixi.lock", ""]
_LOCKS: tuple[Lock, ...] = ("uv.lock", "poetry.lock", "pixi.lock")


def probe_environment(host: Host, python: str | None, variables: Mapping[str, str]) -> Fact[PythonEnvironment]:
    """The environment of `python` (an interpreter, a venv or a conda prefix of the running system), or the host's
    active one. `variables` overlay the host's own.

    Raises InputError where `python` is none of these.
    """
    environ = {**host.environ, **variables}
    if python is not None and not host.live:
        host = LiveHost()  # --python is always a path of the running system, also beside --root
    layout = find_layout(host, python, environ)
    if layout is None:
        return absent("PATH", "no Python was found") if host.live else unknown("no Python in this recording")
    path = import_path(host, layout, environ)
    packages = conda_packages(host, layout.prefix) if layout.kind == "conda" else ()
    distributions = with_conda(distributions_in(host, path.folders), packages)
    surroundings = _Surroundings(
        host=host,
        layout=layout,
        path=path,
        environ=environ,
        distributions=distributions,
        conda=conda_torch(packages),
        rpath=interpreter_rpath(host, layout.interpreter),
    )
    torch, walk, system = _torch(surroundings)
    libraries = foreign_libraries(host, environ, walk)
    stdcxx, stdcxx_path = cxx_runtime(host, walk, system, surroundings.rpath)
    project, lock = _project(host, layout)
    return known(
        PythonEnvironment(
            prefix=layout.prefix,
            kind=layout.kind,
            python=known(layout.python, layout.prefix) if layout.python else unknown("no file tells the version"),
            interpreter=layout.interpreter,
            site_packages=path.site_packages,
            distributions=_listing(path, distributions),
            torch=torch,
            externally_managed=_externally_managed(host, layout),
            has_pip=any(distribution.name == "pip" for distribution in distributions),
            uv_managed="uv" in layout.config,
            project=project,
            lock=lock,
            torch_asked=torch_asked(host, project or posixpath.dirname(layout.prefix))
            if layout.kind == "venv"
            else (),
            conda_tool=conda_tool(host, layout.prefix) if layout.kind == "conda" else "conda",
            python_headers=_headers(host, layout),
            libstdcxx=stdcxx,
            libstdcxx_path=stdcxx_path,
            cudnn_on_path=cudnn_on_path(libraries),
            libraries=libraries,
            source=layout.prefix,
        ),
        layout.prefix,
    )


class _Surroundings(Struct, frozen=True):
    """What is known of an environment before its torch is looked at."""

    host: Host
    layout: Layout
    path: ImportPath
    environ: dict[str, str]
    distributions: tuple[Distribution, ...]
    conda: CondaPackage | None
    rpath: tuple[str, ...]


def _listing(path: ImportPath, distributions: tuple[Distribution, ...]) -> Fact[tuple[Distribution, ...]]:
    if path.unreadable:
        return Fact(state="denied", source=path.unreadable[0].source, why=path.unreadable[0].why)
    if not path.site_packages:
        return unknown("no site-packages folder was found")
    return known(distributions, path.site_packages[0])


# --- torch ---------------------------------------------------------------------------------------


def _torch(around: _Surroundings) -> tuple[Fact[Torch], LibraryWalk | None, LoadPath]:
    """Torch, what its libraries ask for, and what the system's load path has of that."""
    host, copies = around.host, find_copies(around.host, around.path, around.conda)
    if not copies.importable:
        return _no_torch(around, copies), None, system_libraries(host, around.environ, None)
    readable = ((copy, file) for copy in copies.importable if (file := _version_of(around, copy)) is not None)
    first, file = next(readable, (None, None))
    if first is None or file is None:
        why = "what is imported as torch names no version"
        nothing: Fact[Torch] = unknown(why, copies.importable[0].path)
        return nothing, None, system_libraries(host, around.environ, None)
    version_path = posixpath.join(first.path, "version.py")
    record = _record_of(around, first.path, file)
    walk = walk_libraries(host, first.path, around.path, around.rpath)
    system = system_libraries(host, around.environ, walk)
    found = Torch(
        version=file.version,
        build=build_of(file) or _cpu_build(host, around, first.path, file),
        cuda=file.cuda,
        hip=file.hip,
        rocm=rocm_of(file) if file.hip or file.rocm else None,
        origin=origin_of(file, _setting(around, first.path, first.via, record)),
        path=first.path,
        copies=copies.all,
        damaged=_damage(host, first.path, record),
        needs_glibcxx=walk.glibcxx,
        needs_libraries=missing_libraries(walk, system),
        has_cuda_libraries=_has_gpu_libraries(host, around.layout, first.path),
        source=version_path,
    )
    return known(found, version_path), walk, system


def _no_torch(around: _Surroundings, copies: Copies) -> Fact[Torch]:
    searched = around.path.site_packages
    if around.path.unreadable:
        return Fact(state="denied", source=around.path.unreadable[0].source, why=around.path.unreadable[0].why)
    if not searched:
        return unknown("no site-packages folder was found")
    trace = next(iter(copies.traces), None)
    why = f"no torch there; {trace.via}: {trace.path}" if trace else "no torch there"
    return absent(searched[0], why)


def _version_of(around: _Surroundings, copy: TorchCopy) -> VersionFile | None:
    """What version.py says; where that is damaged, what the record beside it says. None for a torch.py that
    only stands in the way: then the torch behind it is described, and `copies` has the one that is imported."""
    file = read_version_file(around.host, copy.path)
    record = next((d for d in around.distributions if d.name == "torch"), None)
    if file is None and record and copy.path == posixpath.join(posixpath.dirname(record.path), "torch"):
        return by_label(record.version) if record.version else None
    return file


def _record_of(around: _Surroundings, torch: str, file: VersionFile) -> Distribution | None:
    """The distribution that these files belong to; not one of another folder or version."""
    record = next((d for d in around.distributions if d.name == "torch"), None)
    if record is None or posixpath.dirname(record.path) != posixpath.dirname(torch):
        return None
    return record if record_fits(file.version, record.version) else None


def _damage(host: Host, torch: str, record: Distribution | None) -> tuple[DamagedFile, ...]:
    found = damaged_files(host, posixpath.dirname(torch), record.path if record else None)
    version = posixpath.join(torch, "version.py")
    text = host.text(version, 64 << 10).value
    if text is None or "__version__" in text:
        return found
    return (DamagedFile(path=version, problem="truncated"), *(file for file in found if file.path != version))


def _setting(around: _Surroundings, torch: str, via: str, record: Distribution | None) -> Setting:
    host, conda = around.host, around.conda
    inside = torch.startswith(posixpath.join(around.layout.prefix, "lib") + "/")
    by_conda = conda is not None and inside and (record is None or record.installer in ("", "conda"))
    return Setting(
        real_path=host.resolve(torch) or torch,
        distribution=record,
        conda_channel=channel_of(host, conda) if by_conda and conda else None,
        editable=via == "editable" or (via == ".pth" and host.exists(posixpath.join(torch, "../setup.py"))),
        jetson=is_jetson(host),
        ngc=is_ngc(host, around.environ),
    )


def _gpu_library_folders(layout: Layout, torch: str) -> tuple[str, ...]:
    """Where libtorch lies: in the wheel; in the prefix of conda and of distributions."""
    prefix = layout.base_prefix if layout.kind == "venv" else layout.prefix
    shared = [
        posixpath.join(prefix, lib) for lib in ("lib", "lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu")
    ]
    return (posixpath.join(torch, "lib"), *shared)


def _has_gpu_libraries(host: Host, layout: Layout, torch: str) -> bool | None:
    """Whether libtorch_cuda or libtorch_hip lies where libtorch_cpu does; None where no libtorch is found."""
    for folder in _gpu_library_folders(layout, torch):
        names = host.names(folder).value or ()
        if any(name.startswith(("libtorch_cuda", "libtorch_hip")) and ".so" in name for name in names):
            return True
        if any(name.startswith("libtorch_cpu.so") for name in names):
            return False
    return None


def _cpu_build(host: Host, around: _Surroundings, torch: str, file: VersionFile) -> str | None:
    """cpu, where version.py names no GPU runtime and there are no GPU libraries either."""
    if file.cuda or file.hip or file.rocm or file.xpu:
        return None
    return "cpu" if _has_gpu_libraries(host, around.layout, torch) is False else None


# --- the environment's own properties --------------------------------------------------------------


def _externally_managed(host: Host, layout: Layout) -> bool:
    """PEP 668: a mark in the standard library of an interpreter that is not a venv."""
    if layout.kind == "venv" or layout.python is None:
        return False
    folders = (posixpath.join(layout.prefix, lib, f"python{layout.python}") for lib in ("lib", "lib64"))
    return any(host.exists(posixpath.join(folder, "EXTERNALLY-MANAGED")) for folder in folders)


def _headers(host: Host, layout: Layout) -> Fact[bool]:
    if layout.python is None:
        return unknown("the Python version is not known")
    path = posixpath.join(layout.base_prefix, "include", f"python{layout.python}", "Python.h")
    found = host.stat(path)
    if found.known or found.absent:
        return known(found.known, path)
    return Fact(state=found.state, source=path, why=found.why)


def _project(host: Host, layout: Layout) -> tuple[str, Lock]:
    """The project folder and lock file that own this environment: beside a .venv, or above .pixi/envs/NAME."""
    folder, name = posixpath.split(layout.prefix)
    if name == ".venv":
        places = [folder]
    elif folder.endswith("/.pixi/envs"):
        places = [folder.removesuffix("/.pixi/envs")]
    else:
        places = []
    for place in places:
        for lock in _LOCKS:
            if host.exists(posixpath.join(place, lock)):
                return place, lock
    return "", ""
