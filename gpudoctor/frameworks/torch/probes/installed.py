"""The torch of an environment, read from its files: which build it is, whether it is complete, what it loads."""

from __future__ import annotations

import posixpath

from gpudoctor.frameworks.torch.probes.copies import Copies, record_fits
from gpudoctor.frameworks.torch.probes.damage import damaged_files
from gpudoctor.frameworks.torch.probes.files import (
    OriginFacts,
    VersionFile,
    build_of,
    by_record,
    is_jetson,
    is_ngc,
    origin_of,
    read_version_file,
    rocm_of,
)
from gpudoctor.frameworks.torch.probes.libraries import LibraryWalk, interpreter_rpath, walk_libraries
from gpudoctor.host import Host
from gpudoctor.machine import (
    DamagedFile,
    Distribution,
    LoadPath,
    MissingSymbols,
    SuspectFile,
    Torch,
    TorchCopy,
    known,
    unknown,
)
from gpudoctor.probes.distributions import channel_of
from gpudoctor.probes.environment_libraries import (
    cxx_runtime,
    foreign_libraries,
    missing_libraries,
    on_a_variable,
    system_libraries,
)
from gpudoctor.probes.file_owner import Owners, extension_python, unusable
from gpudoctor.probes.late_libraries import LateLibraries, late_libraries, other_wheels
from gpudoctor.probes.python_layout import Layout
from gpudoctor.probes.surroundings import InstalledTorch, Surroundings


def probe_torch(around: Surroundings, copies: Copies) -> InstalledTorch:
    """The first of `copies` that says its version; at least one of them can be imported."""
    host = around.host
    readable = ((copy, file) for copy in copies.importable if (file := _version_of(around, copy)) is not None)
    first, file = next(readable, (None, None))
    if first is None or file is None:
        return InstalledTorch(unknown("the torch that Python imports names no version", copies.importable[0].path))
    record = _record_of(around, first.path, file)
    source = posixpath.join(first.path, "version.py")
    unseen = not host.live and host.stat(first.path).state in ("absent", "unknown")
    if unseen and record:
        source = f"{record.path} (the recording holds nothing else of this torch)"
    rpath = interpreter_rpath(host, around.layout.interpreter)
    mixed = other_wheels(around.distributions)
    late = late_libraries(around.late, around.distributions)
    deep = bool(mixed) or on_a_variable(around.environ)
    walk = walk_libraries(host, first.path, around.path, rpath, late.opened, deep=deep)
    system = system_libraries(host, around.environ, walk)
    unresolved = missing_libraries(walk, system)
    foreign, missing = _from_outside(around, first.path, walk, mixed, late)
    if file.for_amd:
        from gpudoctor.probes.amdsmi_package import amdsmi_misfit

        missing += amdsmi_misfit(host, around.path, first.path, around.environ)
    damaged = () if unseen else _damage(host, first.path, record)
    found = Torch(
        version=file.version,
        build=build_of(file) or _cpu_build(host, around, first.path, file),
        cuda=file.cuda,
        hip=file.hip,
        rocm=rocm_of(file) if file.for_amd else None,
        origin=origin_of(file, _setting(around, first.path, first.via, record)),
        path=first.path,
        copies=copies.all,
        damaged=tuple(file for file in damaged if file.problem != "not-executable"),
        needs_glibcxx=walk.glibcxx,
        needs_glibc=walk.glibc,
        needs_libraries=unresolved,
        unloadable=() if unseen else _unloadable_files(around, first.path, walk.unread, unresolved),
        has_cuda_libraries=_has_gpu_libraries(host, around.layout, first.path),
        own_hsa_runtime=_has_hsa_runtime(host, first.path) if file.for_amd else None,
        source=source,
    )
    stdcxx, stdcxx_path = cxx_runtime(host, walk, system, rpath)
    return InstalledTorch(
        torch=known(found, source),
        locked=tuple(file for file in damaged if file.problem == "not-executable"),
        libraries=foreign,
        missing_symbols=missing,
        libstdcxx=stdcxx,
        libstdcxx_path=stdcxx_path,
    )


def _from_outside(
    around: Surroundings, torch: str, walk: LibraryWalk, mixed: frozenset[str], late: LateLibraries
) -> tuple[LoadPath, tuple[MissingSymbols, ...]]:
    """The libraries that variables lead torch to, and the symbols that they and other wheels' libraries lack."""
    host = around.host
    foreign = foreign_libraries(host, around.environ, walk, torch)
    if not mixed and not foreign.found:
        return foreign, ()
    from gpudoctor.probes.library_symbols import missing_symbols, without_unloadable

    return without_unloadable(walk, foreign, missing_symbols(host, walk, foreign, mixed, late.dispatchers))


def _version_of(around: Surroundings, copy: TorchCopy) -> VersionFile | None:
    """What version.py says, or if that is damaged, the record beside it. None for a mere torch.py: then the torch
    behind it is described, and `copies` has the one that Python imports."""
    file = read_version_file(around.host, copy.path)
    record = next((d for d in around.distributions if d.name == "torch"), None)
    if file is None and record and copy.path == posixpath.join(posixpath.dirname(record.path), "torch"):
        return by_record(record) if record.version else None
    return file


def _record_of(around: Surroundings, torch: str, file: VersionFile) -> Distribution | None:
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


def _setting(around: Surroundings, torch: str, via: str, record: Distribution | None) -> OriginFacts:
    host, conda = around.host, around.conda
    inside = torch.startswith(posixpath.join(around.layout.prefix, "lib") + "/")
    by_conda = conda is not None and inside and (record is None or record.installer in ("", "conda"))
    return OriginFacts(
        real_path=host.resolve(torch) or torch,
        distribution=record,
        conda_channel=channel_of(host, conda) if by_conda and conda else None,
        editable=via == "editable" or (via == ".pth" and host.exists(posixpath.join(torch, "../setup.py"))),
        jetson=is_jetson(host),
        ngc=is_ngc(host, around.environ),
    )


def _gpu_library_folders(layout: Layout, torch: str) -> tuple[str, ...]:
    """Where libtorch lies: in the wheel, or in the prefix of conda and of distributions."""
    prefix = layout.base_prefix if layout.kind == "venv" else layout.prefix
    shared = [
        posixpath.join(prefix, lib) for lib in ("lib", "lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu")
    ]
    return (posixpath.join(torch, "lib"), *shared)


def _has_hsa_runtime(host: Host, torch: str) -> bool | None:
    names = host.names(posixpath.join(torch, "lib")).value
    return None if names is None else any(name.startswith("libhsa-runtime64.so") for name in names)


def _has_gpu_libraries(host: Host, layout: Layout, torch: str) -> bool | None:
    """Whether libtorch_cuda or libtorch_hip lies beside libtorch_cpu; None if there is no libtorch."""
    for folder in _gpu_library_folders(layout, torch):
        names = host.names(folder).value or ()
        if any(name.startswith(("libtorch_cuda", "libtorch_hip")) and ".so" in name for name in names):
            return True
        if any(name.startswith("libtorch_cpu.so") for name in names):
            return False
    return None


def _cpu_build(host: Host, around: Surroundings, torch: str, file: VersionFile) -> str | None:
    """cpu, if version.py names no GPU runtime and there are no GPU libraries either."""
    if file.cuda or file.for_amd or file.xpu:
        return None
    return "cpu" if _has_gpu_libraries(host, around.layout, torch) is False else None


def _unloadable_files(
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
