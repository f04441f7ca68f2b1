"""The libraries that a framework beside torch opens itself: whether it finds them whole, and which ones it finds."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.codeobjects.symbols import provided_symbols, symbols_needed_of
from gpudoctor.frameworks.torch.nvidia_wheels import distribution_of, opens_beside, without_cuda
from gpudoctor.host import Host
from gpudoctor.machine import Distribution, Fact, Library, MissingSymbols, known, unknown
from gpudoctor.matrix.rows.packages import FrameworkBuild
from gpudoctor.matrix.versions import figures
from gpudoctor.probes.elf_files import ask_elf
from gpudoctor.probes.environment_libraries import wheel_version
from gpudoctor.probes.load_path import search
from gpudoctor.probes.record import damage, ends_early, read_record

_MOST_FOLDERS = 400
_MOST_NAMED = 3
_TOOLKITS = ("/usr/local/cuda", "/opt/cuda")
"""Where CUDA's own installers put it: some frameworks look there, whatever the loader's path."""
_VERSIONED = "libnvJitLink"
"""Its symbols carry the release of CUDA that they came with: others need a certain one of it."""


class OpenedLibraries(Struct, frozen=True):
    """What was found of the libraries that a build opens."""

    not_found: Fact[tuple[str, ...]]
    beside: tuple[str, ...] = ()
    misfits: tuple[MissingSymbols, ...] = ()
    overruled: tuple[Library, ...] = ()


def opened_libraries(
    host: Host,
    build: FrameworkBuild,
    site: str,
    environ: Mapping[str, str],
    prefix: str,
    distributions: Iterable[Distribution] = (),
) -> OpenedLibraries:
    """Look for them where the framework does."""
    if not build.opens:
        return OpenedLibraries(unknown("it opens none itself"))
    wheels = {folder: frozenset(host.names(folder).value or ()) for folder in _wheels(host, site)}
    # A torch for GPUs, where there is one, loads the same libraries from the wheels.
    by_loader = build.looks == "loader" and not host.exists(posixpath.join(site, "torch/lib/libtorch_cuda.so"))
    own = {} if by_loader else dict(wheels)
    own |= {folder: frozenset(host.names(folder).value or ()) for folder in _others(site, prefix, environ)}
    there = {name: found for name in build.opens if (found := _first(own, name))}
    owners: dict[str, list[Distribution]] = {}
    for one in distributions:
        if one.path.startswith(f"{site}/nvidia_"):
            owners.setdefault(without_cuda(one.name), []).append(one)
    broken = tuple(
        lost
        for found in there.values()
        if (lost := _lost(host, found, own[posixpath.dirname(found)], owners))
        and not _is_elsewhere(host, lost, found, environ)
    )
    lacking = tuple(name for name in build.opens if name not in there)
    path = search(host, build.opens, environ, shadowed=False) if lacking or build.variable_wins else None
    if lacking and path is not None:
        lacking = tuple(name for name in lacking if path.first(name) is None)
        if lacking and path.complete.value is not True:
            return OpenedLibraries(unknown(path.complete.why or "the loader's path could not be read", site))
    beside = (posixpath.dirname(found) for name in lacking if (found := _first(wheels, name)))
    return OpenedLibraries(
        not_found=known((*lacking, *broken), site),
        beside=tuple(dict.fromkeys(beside)),
        misfits=tuple(_misfits(host, there, own)),
        overruled=tuple(
            replace(one, version=one.version or wheel_version(host, one.path))
            for one in (path.found if path and build.variable_wins else ())
            if one.via == "LD_LIBRARY_PATH" and one.path not in there.values()
        ),
    )


def _wheels(host: Host, site: str) -> Iterator[str]:
    wheels = posixpath.join(site, "nvidia")
    for name in (host.names(wheels).value or ())[:_MOST_FOLDERS]:
        yield posixpath.join(wheels, name, "lib")


def _others(site: str, prefix: str, environ: Mapping[str, str]) -> Iterator[str]:
    """conda's libraries, torch's, and a toolkit."""
    yield posixpath.join(prefix, "lib")
    yield posixpath.join(site, "torch", "lib")
    named = (environ.get(name, "") for name in ("CUDA_PATH", "CUDA_HOME"))
    for toolkit in (*filter(None, named), *_TOOLKITS):
        for folder in ("lib64", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"):
            yield posixpath.join(toolkit, folder)


def _first(folders: Mapping[str, frozenset[str]], name: str) -> str:
    return next((posixpath.join(folder, name) for folder, names in folders.items() if name in names), "")


def _lost(host: Host, path: str, names: frozenset[str], owners: Mapping[str, list[Distribution]]) -> str:
    """The library, or one that it opens from its own folder (libcudnn_ops), if its file is cut short, or is gone
    although a wheel lists it. A recording may hold only the beginning of a file."""
    folder, name = posixpath.split(path)
    for part in sorted(part for part in names if opens_beside(name, part)):
        if host.live and ends_early(host, posixpath.join(folder, part)):
            return part
    for owner in owners.get(distribution_of(name) or "", ()):
        site = posixpath.dirname(owner.path)
        record = read_record(host, owner.path)
        for listed, size in record.libraries if record else ():
            place, part = posixpath.split(posixpath.join(site, listed.decode("utf-8", "replace")))
            if place == folder and opens_beside(name, part) and damage(host, posixpath.join(place, part), size):
                return part
    return ""


def _is_elsewhere(host: Host, part: str, opener: str, environ: Mapping[str, str]) -> bool:
    """Whether the loader finds the same release of a part of the library that opens it outside its folder: behind
    that folder where the part is gone, in LD_LIBRARY_PATH where its file there is cut short."""
    other = search(host, (part,), environ, shadowed=False).first(part)
    folder = posixpath.dirname(opener)
    if other is None or (host.exists(posixpath.join(folder, part)) and other.via != "LD_LIBRARY_PATH"):
        return False
    own, version = wheel_version(host, opener), other.version or wheel_version(host, other.path)
    named = "." in part.rpartition(".so.")[2]  # libnvrtc-builtins.so.13.0 has its release in its name
    return named or bool(own and version and figures(own)[:3] == figures(version)[:3])


def _misfits(
    host: Host, opened: Mapping[str, str], folders: Mapping[str, frozenset[str]]
) -> Iterator[MissingSymbols]:
    for path in opened.values():
        needed = _asks(host, path)
        found = _first(folders, needed) if needed else ""
        lacking = _symbols(host, path, needed) - _symbols(host, found, "") if found else frozenset()
        if lacking:
            yield MissingSymbols(needed, found, path, tuple(sorted(lacking)[:_MOST_NAMED]), late=True)


def _asks(host: Host, path: str) -> str:
    """The name of the library with versioned symbols that it needs; "" if none."""
    needed = ask_elf(host, path, lambda elf: elf.needed) or ()
    return next((name for name in needed if name.startswith(_VERSIONED)), "")


def _symbols(host: Host, path: str, needed: str) -> frozenset[str]:
    """The symbols that it needs from the library `needed`, or provides itself where that is ""."""
    return (
        ask_elf(host, path, lambda elf: symbols_needed_of(elf, needed) if needed else provided_symbols(elf))
        or frozenset()
    )
