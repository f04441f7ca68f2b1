"""Libraries as the dynamic loader of an examined process would find them (ld.so(8)); none of them is loaded."""

from __future__ import annotations

import posixpath
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.host import Host
from gpudoctor.machine import Fact, Library, LibraryKind, LoadPath, absent, denied, known, unknown
from gpudoctor.probes.container import probe_container
from gpudoctor.probes.loader_cache import CACHE, CACHE_LIMIT, cached_paths, configured_folders, default_folders
from gpudoctor.probes.mounts import Mount, mount_at, mount_below, read_mounts
from gpudoctor.probes.processor import read_arch

DRIVER_LIBRARIES = (
    "libcuda.so.1", "libcuda.so", "libnvidia-ml.so.1", "libnvidia-ptxjitcompiler.so.1",
    "libhsa-runtime64.so.1", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so",
    "libdxcore.so", "librocdxg.so",
)  # fmt: skip
_C_LIBRARY = "libc.so.6"
_NIX_DRIVER_FOLDER = "/run/opengl-driver/lib"
# The folders in /etc/ld.so.conf.d on systems that have such a folder.
_USUAL_FOLDERS = (
    "/usr/lib/wsl/lib", "/usr/lib/aarch64-linux-gnu/nvidia", "/usr/lib/aarch64-linux-gnu/tegra",
    "/usr/local/nvidia/lib64", "/opt/rocm/lib",
)  # fmt: skip

_BESIDE = (
    "/usr/local/nvidia/lib64", "/usr/lib64-nvidia", _NIX_DRIVER_FOLDER, "/usr/lib/wsl/lib", "/.singularity.d/libs",
    "/home/kubernetes/bin/nvidia/lib64", "/opt/nvidia/current/usr/lib",
    "/run/nvidia/driver/usr/lib/x86_64-linux-gnu", "/run/nvidia/driver/usr/lib64",
    "/usr/lib/aarch64-linux-gnu/nvidia", "/usr/lib/aarch64-linux-gnu/tegra",
)  # fmt: skip
"""Where GKE, Colab, NixOS, WSL, Apptainer, Flatcar, NVIDIA's GPU operator and L4T put the driver's libraries; a
variable or ld.so.conf has to name it."""

_ELF_MACHINES = {"x86_64": 62, "aarch64": 183}
_DRIVER_VERSION = r"\d{3,}\.\d+(?:\.\d+)?$"
_LINK_TEXT = r"[\w./+-]+\.so[\w.]*"

_COMPAT = r"cuda[^/]*/([^/]+/){0,3}compat[^/]*/|/cuda-compat[^/]*/"
_L4T = "/usr/lib/aarch64-linux-gnu/nvidia"
_TOOLKITS = ("/usr/local/cuda", "/opt/rocm", "/opt/nvidia/nsight", "/opt/nvidia/hpc_sdk", "/usr/lib/rocm")
_ROCM_OWN = ("libhsa-runtime", "libamdhip")
DRIVER_OWN = ("libcuda.so", "libnvcuvid.so", "libnvidia-", "libnvoptix.so")
"""How the names of the NVIDIA driver's own libraries begin."""


class _Place(Struct, frozen=True):
    """A folder to look into, or (`file`) one library; `via` is what puts it on the path."""

    path: str
    via: str
    file: bool = False


def driver_libraries(host: Host, variables: Mapping[str, str]) -> LoadPath:
    """The user-space libraries of the drivers: libcuda, NVML, HSA, HIP, dxcore."""
    path = search(host, DRIVER_LIBRARIES, variables)
    if path.first("libcuda.so.1") is not None:
        return path
    look = _Look(host, read_arch(host).value, [])
    beside = (look.at(_Place(folder, "beside the load path"), "libcuda.so.1") for folder in _BESIDE)
    whole = any(host.exists(f"{folder}/{_C_LIBRARY}") for folder in path.searched)
    return replace(path, beside=tuple(found[0] for found in beside if found), whole=whole)


def search(host: Host, names: Sequence[str], variables: Mapping[str, str], *, shadowed: bool = True) -> LoadPath:
    """Look for each name in LD_PRELOAD, LD_LIBRARY_PATH, the loader's cache and its default folders.

    For each name the first entry of `found` is the one that the loader would load. With `shadowed`, later ones are
    looked for too, and marked as such.
    """
    arch = read_arch(host).value
    gaps: list[Fact[object]] = []
    found: list[Library] = []
    seen: set[tuple[str, str]] = set()
    places, by_cache = _places(host, variables, names, arch, gaps)
    look = _Look(host, arch, gaps)
    for name in names:
        for place in (*places.before, *by_cache.get(name, ()), *places.after):
            library, real = look.at(place, name) or (None, "")
            if library is not None and (name, real) not in seen:
                seen.add((name, real))
                found.append(library)
                if not shadowed:
                    break
    folders = dict.fromkeys(place.path for place in (*places.before, *places.after) if not place.file)
    searched = tuple(folder for folder in folders if host.exists(folder))
    return LoadPath(found=tuple(found), searched=searched, complete=_complete(gaps, searched, bool(by_cache)))


def userland_version(host: Host, load_path: LoadPath) -> Fact[str]:
    """Version of the NVIDIA driver's own user-space libraries, without cuda-compat and stubs. They may lie beside the
    load path, hidden behind cuda-compat; a mount from the host takes precedence over an image's own."""
    own = [library for library in load_path.found if library.kind == "driver" and library.name.startswith(DRIVER_OWN)]
    for library in sorted(own, key=lambda library: (not library.mounted, "nvidia-ml" not in library.name)):
        if library.version:
            return known(library.version, library.path)
    if any(library.kind == "wsl" for library in load_path.found):
        return unknown("the driver is that of Windows", "/usr/lib/wsl")
    if any(library.kind == "jetson" for library in load_path.found):
        return unknown("L4T's libraries carry no version", "load path")
    folders: dict[str | None, str] = {}
    for folder in (*load_path.searched, *default_folders(read_arch(host).value), *_USUAL_FOLDERS):
        folders.setdefault(host.resolve(folder), folder)
    for folder in folders.values():
        names = host.names(folder).value or ()
        versions = {
            version
            for name in (*_beginning_with("libcuda.so.", names), *_beginning_with("libnvidia-ml.so.", names))
            if re.match(_DRIVER_VERSION, version := name.partition(".so.")[2])
            and _kind(f"{folder}/{name}") == "driver"
        }
        if versions:
            return known(max(versions, key=_numbers), folder)
    if own:
        return unknown("its libraries carry no version", own[0].path)
    if load_path.complete.known and load_path.searched:
        return absent("load path", "no libcuda or libnvidia-ml of a driver")
    return unknown(load_path.complete.why or "not every folder of the load path could be read", "load path")


def _beginning_with(prefix: str, names: Sequence[str]) -> Sequence[str]:
    """Those with a prefix, among sorted names (thousands, in a system's folder)."""
    return names[bisect_left(names, prefix) : bisect_left(names, prefix + "\U0010ffff")]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


# --- where to look -----------------------------------------------------------------------------------


class _Places(Struct, frozen=True):
    before: tuple[_Place, ...]
    """Searched before the cache."""
    after: tuple[_Place, ...]


def _places(
    host: Host, variables: Mapping[str, str], names: Sequence[str], arch: str | None, gaps: list[Fact[object]]
) -> tuple[_Places, dict[str, tuple[_Place, ...]]]:
    """Folders before and after the cache, and the cache's content by name."""
    before = (*_preload_places(variables, gaps), *_library_path(host, variables, arch, gaps))
    after = [_Place(folder, "default") for folder in default_folders(arch)]
    if host.exists("/nix/store") or host.exists("/etc/NIXOS"):
        # Nix's own builds carry this folder in their RUNPATH.
        after.append(_Place(_NIX_DRIVER_FOLDER, "RPATH"))
    cache = host.data(CACHE, CACHE_LIMIT)
    cached = None if cache.value is None else cached_paths(cache.value, names, arch)
    if cached is None:
        folders = configured_folders(host)
        after = [*(_Place(folder, "ld.so.conf") for folder in folders), *after]
        if not folders and not host.live:
            after += [_Place(folder, "ld.so.conf") for folder in _USUAL_FOLDERS if host.exists(folder)]
        return _Places(before, _distinct(host, after)), {}
    entries = {name: tuple(_Place(path, "ld.so.cache", True) for path in paths) for name, paths in cached.items()}
    return _Places(before, _distinct(host, after)), entries


def _distinct(host: Host, places: Sequence[_Place]) -> tuple[_Place, ...]:
    """Existing folders, each once: /lib is /usr/lib on most systems today."""
    by_real = {host.resolve(place.path): place for place in reversed(places)}
    return tuple(place for place in places if place in by_real.values() and host.exists(place.path))


def _preload_places(variables: Mapping[str, str], gaps: list[Fact[object]]) -> Iterator[_Place]:
    for entry in variables.get("LD_PRELOAD", "").replace(":", " ").split():
        if entry.startswith("/") and "$" not in entry:
            yield _Place(entry, "LD_PRELOAD", file=True)
        elif "/" in entry:
            gaps.append(unknown(f"LD_PRELOAD names {entry}, which depends on the process", "LD_PRELOAD"))


def _library_path(
    host: Host, variables: Mapping[str, str], arch: str | None, gaps: list[Fact[object]]
) -> Iterator[_Place]:
    """Entries of LD_LIBRARY_PATH: an empty or relative one means the current folder of the process."""
    value = variables.get("LD_LIBRARY_PATH", "")
    for entry in value.replace(";", ":").split(":") if value else ():
        if "$ORIGIN" in entry or "${ORIGIN}" in entry or "PLATFORM" in entry:
            gaps.append(unknown(f"LD_LIBRARY_PATH has {entry}, which depends on the library", "LD_LIBRARY_PATH"))
            continue
        for folder in _expand(entry, arch):
            if folder.startswith("/"):
                yield _Place(posixpath.normpath(folder), "LD_LIBRARY_PATH")
            elif host.live and (here := host.resolve(folder or ".")) is not None:
                yield _Place(here, "LD_LIBRARY_PATH")
            elif not host.live:
                gaps.append(unknown("LD_LIBRARY_PATH names the current folder, which is not recorded", entry))


def _expand(entry: str, arch: str | None) -> tuple[str, ...]:
    """$LIB stands for lib64 or Debian's triplet."""
    if "$LIB" not in entry and "${LIB}" not in entry:
        return (entry,)
    libs = ("lib64", "lib/aarch64-linux-gnu" if arch == "aarch64" else "lib/x86_64-linux-gnu")
    return tuple(entry.replace("${LIB}", lib).replace("$LIB", lib) for lib in libs)


def _complete(gaps: list[Fact[object]], searched: tuple[str, ...], cached: bool) -> Fact[bool]:
    if not any(folder.startswith(("/usr/lib", "/lib")) for folder in searched) and not cached:
        return unknown("no library folder is recorded", "load path")
    if gaps:
        gap = gaps[0]
        return denied(gap.source, gap.why) if gap.state == "denied" else unknown(gap.why, gap.source)
    return known(True, "load path")


# --- the files there ---------------------------------------------------------------------------------


class _Look:
    """Looks at single files; containers and mounts are read once, when a library is found."""

    def __init__(self, host: Host, arch: str | None, gaps: list[Fact[object]]) -> None:
        self._host = host
        self._arch = arch
        self._gaps = gaps
        self._mounts: tuple[Mount, ...] | None = None

    def at(self, place: _Place, name: str) -> tuple[Library, str] | None:
        """The library that `place` gives for `name`, if any, and where its links lead."""
        if place.file and place.via == "LD_PRELOAD" and not _serves(posixpath.basename(place.path), name):
            return None
        path = place.path if place.file else f"{place.path}/{name}"
        stat = self._host.stat(path)
        if stat.value is None:
            if stat.state == "denied" or (stat.state == "unknown" and place.via.startswith("LD_")):
                self._gaps.append(stat.unanswered(path))
            if place.via == "ld.so.cache" and not self._host.live:
                self._gaps.append(unknown("named in ld.so.cache and not in this recording", path))
            return None
        if stat.value.kind != "file" or not self._loadable(path):
            return None
        real = self._real(path)
        mounted, origin = self._mounted(real)
        library = Library(
            name=name,
            path=path,
            version=_version(name, real) or _version(name, origin),
            kind=_kind(path, real),
            via=place.via,
            mounted=mounted,
        )
        return library, real

    def _loadable(self, path: str) -> bool:
        """False for a library of another architecture or word size: the loader skips it."""
        head = self._host.data(path, 20).value or b""
        if len(head) < 20 or head[:4] != b"\x7fELF":
            return True
        machine = int.from_bytes(head[18:20], "little")
        wanted = _ELF_MACHINES.get(self._arch or "")
        return head[4] == 2 and machine in ((wanted,) if wanted else _ELF_MACHINES.values())

    def _real(self, path: str) -> str:
        """Where links lead. Archives and checkouts may have turned links into files that hold their target."""
        real = self._host.resolve(path) or path
        if not self._host.live:
            target = self._host.text(real, 256).value or ""
            if re.fullmatch(_LINK_TEXT, target):
                beside = posixpath.normpath(posixpath.join(posixpath.dirname(real), target))
                return beside if self._host.exists(beside) else real
        return real

    def _mounted(self, real: str) -> tuple[bool | None, str]:
        """In a container: whether the file comes from outside its image, and its name there."""
        if self._mounts is None:
            inside = probe_container(self._host).known
            self._mounts = (read_mounts(self._host).value or ()) if inside else ()
        if not self._mounts:
            return None, ""
        mount = mount_below(self._mounts, real)
        own = mount_at(self._mounts, real)
        return mount is not None and mount.point != "/", own.root if own is not None else ""


def _serves(file: str, name: str) -> bool:
    """Whether a preloaded file provides a name: its file name tells, its soname is not read."""
    return file == name or file.startswith(name.partition(".so")[0] + ".so")


def _version(name: str, path: str) -> str | None:
    """ "580.95.05" of a path that ends in libcuda.so.580.95.05; None for a lone number, which names an interface."""
    _, named, version = posixpath.basename(path).rpartition(".so.")
    first, _, rest = version.partition(".")
    if not named or not first.isdecimal() or not rest.replace(".", "").replace("_", "").isalnum():
        return None
    return None if name.startswith(DRIVER_OWN) and not re.match(_DRIVER_VERSION, version) else version


def _kind(*paths: str) -> LibraryKind:
    """The owner of a library, by its folders; `paths` are the names of one file."""

    def any_has(*parts: str) -> bool:
        return any(part in path for path in paths for part in parts)

    if any_has("/stubs/"):
        return "stub"
    if any_has("compat") and any(re.search(_COMPAT, path) for path in paths):
        return "compat"
    if any_has("/usr/lib/wsl/"):
        return "wsl"
    if any_has("/tegra/", "/tegra-egl/", "/nvgpu/") or any(posixpath.dirname(p).endswith(_L4T) for p in paths):
        return "jetson"
    if any_has("/site-packages/", "/dist-packages/"):
        return "wheel"
    if any(path.startswith(_TOOLKITS) or posixpath.basename(path).startswith(_ROCM_OWN) for path in paths):
        return "toolkit"
    return "driver"
