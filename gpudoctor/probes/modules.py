"""Kernel modules: loaded ones, installed ones for each kernel, DKMS, and rules that block them."""

from __future__ import annotations

import posixpath
import re
from typing import Literal

from gpudoctor.host import Host
from gpudoctor.machine import BlockedModule, DkmsModule, Fact, InstalledModule, known, unknown

MODULES = ("/lib/modules", "/usr/lib/modules")
DKMS = "/var/lib/dkms"
_BUILD_LOG_LIMIT = 4 << 20

_INDEX_LIMIT = 8 << 20
_DEBIAN = r"nvidia_(?:current|tesla|legacy)(?:_\d+(?:xx)?)?(?:_open)?$"
"""Debian keeps several branches side by side: nvidia-current.ko, nvidia-tesla-535.ko are all "nvidia"."""
_SUFFIXES = (".ko", ".ko.xz", ".ko.zst", ".ko.gz")
# Folders of these drivers' modules below /lib/modules/<kernel>: DKMS's, those of distributions' own packages,
# of NVIDIA's installer, and of the kernel itself.
_PLACES = (
    "updates/dkms", "updates", "extra", "extramodules", "misc", "kernel/drivers/video",
    "kernel/drivers/gpu/drm/amd/amdgpu", "kernel/drivers/gpu/drm/nouveau", "kernel/drivers/gpu/nova-core",
)  # fmt: skip
_PARENTS = ("extra", "weak-updates", "weak-updates/updates", "kernel")
"""Folders with a sub-folder per driver: extra/nvidia, weak-updates/nvidia-580, kernel/nvidia-580-open."""


def loaded_modules(host: Host, names: tuple[str, ...]) -> Fact[tuple[str, ...]]:
    """Which of `names` are loaded or built into the kernel."""
    listed = host.text("/proc/modules")
    folders = host.names("/sys/module")
    if not listed.known and not folders.known:
        return unknown("neither /proc/modules nor /sys/module can be read", "/proc/modules")
    present = {line.split()[0] for line in (listed.value or "").splitlines() if line.strip()}
    present.update(folders.value or ())
    source = "/proc/modules" if listed.known else "/sys/module"
    return known(tuple(name for name in names if name in present), source)


def installed_modules(host: Host, running: str | None, names: tuple[str, ...]) -> Fact[tuple[InstalledModule, ...]]:
    """Module files of `names` for all kernels. Unknown if those of the running kernel cannot be seen (a container has
    none) and no other kernel has any."""
    for root in MODULES:
        kernels = host.names(root)
        if kernels.value is not None:
            break
    if kernels.value is None:
        return kernels.unanswered()
    folders = tuple(kernel for kernel in kernels.value if kernel[:1].isdigit())
    found = tuple(
        module for kernel in folders for module in _of_kernel(host, f"{root}/{kernel}", names, kernel == running)
    )
    if not found and running not in folders:
        return unknown(f"no folder of the running kernel {running or ''}".rstrip(), root)
    return known(found, root)


def _of_kernel(host: Host, root: str, names: tuple[str, ...], indexed: bool) -> list[InstalledModule]:
    """Module files of one kernel, its own ones last: the others take precedence when a module is loaded."""
    places = [f"{root}/{place}" for place in _PLACES]
    for parent in _PARENTS:
        families = host.names(f"{root}/{parent}").value or ()
        places += [f"{root}/{parent}/{name}" for name in families if name.startswith(("nvidia", "amdgpu"))]
    files = {
        f"{place}/{name}" for place in places for name in host.names(place).value or () if module_name(name) in names
    }
    if indexed:
        files.update(f"{root}/{path}" for path in _from_index(host, root, names))
    modules = [_installed_module(host, posixpath.basename(root), path) for path in sorted(files)]
    return sorted(modules, key=lambda module: "/kernel/drivers/" in module.path)


def module_name(file_name: str) -> str:
    """Name of the module in a file, "" if it is none: "nvidia-uvm.ko.zst" is nvidia_uvm."""
    if not file_name.endswith(_SUFFIXES):
        return ""
    name = file_name.rpartition(".ko")[0].replace("-", "_")
    return "nvidia" if name.startswith("nvidia_") and re.match(_DEBIAN, name) else name


def _from_index(host: Host, root: str, names: tuple[str, ...]) -> set[str]:
    """Paths of these modules in depmod's index: also in places nobody thought of."""
    index = host.data(f"{root}/modules.dep", _INDEX_LIMIT).value or b""
    wanted = b"|".join(re.escape(name.encode()).replace(b"_", b"[-_]") for name in names)
    lines = re.finditer(rb"^([^:\n]*/(?:" + wanted + rb")\.ko(?:\.\w+)?):", index, re.MULTILINE)
    paths = {line[1].decode("utf-8", "replace") for line in lines}
    return {path for path in paths if not path.startswith("/") and host.exists(f"{root}/{path}")}


def _installed_module(host: Host, kernel: str, path: str) -> InstalledModule:
    from gpudoctor.probes.modinfo import flavour_of_license, flavour_of_source, read_modinfo

    folder, file_name = posixpath.split(path)
    name = module_name(file_name)
    if name != "nvidia":
        own = read_modinfo(host, path) if name == "amdgpu" and "/kernel/drivers/" not in path else {}
        return InstalledModule(name=name, kernel=kernel, path=path, version=own.get("version"))
    info = read_modinfo(host, path)
    if not info:
        # A compressed nvidia.ko is huge; nvidia-modeset comes from the same build and is a fiftieth of its size.
        beside = (other for other in host.names(folder).value or () if re.match(r"nvidia\b.*modeset\.ko", other))
        info = read_modinfo(host, f"{folder}/{next(beside, '')}")
    version = info.get("version") or _version_in_path(path)
    flavour = flavour_of_license(info.get("license")) or ("open" if "-open" in path else None)
    return InstalledModule(
        name=name, kernel=kernel, path=path, version=version, flavour=flavour or flavour_of_source(host, version)
    )


def _version_in_path(path: str) -> str | None:
    found = re.search(r"nvidia[-/](?:open[-/])?(\d{3}\.\d+(?:\.\d+)?)(?:/|-)", path)
    return found[1] if found else None


# --- DKMS ------------------------------------------------------------------------------------------


_DKMS_NAMES = {
    "nvidia": r"nvidia(?:-open|-current|-tesla|-legacy|-srv|-\d)?(?:-[-\w.]+)?",
    "amdgpu": r"amdgpu(?:-dkms)?",
}
_OTHER_DKMS = ("nvidia-fs", "nvidia-peermem", "nvidia-fb")


def dkms_modules(host: Host, family: Literal["nvidia", "amdgpu"]) -> Fact[tuple[DkmsModule, ...]]:
    """DKMS's modules of a driver, per version and kernel. A version that is built for no kernel has kernel "" and
    status added (its last build may have failed) or broken (its source is gone)."""
    listing = host.names(DKMS)
    if listing.value is None:
        return listing.unanswered()
    named = [name for name in listing.value if re.fullmatch(_DKMS_NAMES[family], name) and name not in _OTHER_DKMS]
    trees = tuple(tree for name in named for tree in _dkms_trees(host, name))
    return known(trees, DKMS)


def _dkms_trees(host: Host, name: str) -> list[DkmsModule]:
    folder = f"{DKMS}/{name}"
    entries = host.names(folder).value or ()
    installed = {
        target for entry in entries if entry.startswith("kernel-") and (target := host.resolve(f"{folder}/{entry}"))
    }
    trees: list[DkmsModule] = []
    for version in (entry for entry in entries if not entry.startswith("kernel-") and entry != "original_module"):
        inside = host.names(f"{folder}/{version}").value or ()
        kernels = [entry for entry in inside if entry not in ("source", "build")]
        for kernel in kernels:
            for arch in host.names(f"{folder}/{version}/{kernel}").value or ():
                place = f"{folder}/{version}/{kernel}/{arch}"
                if host.names(f"{place}/module").value:
                    status = "installed" if host.resolve(place) in installed else "built"
                    trees.append(DkmsModule(name, version, kernel, status, place))  # type: ignore[arg-type]
        if (failed := _failed_build(host, name, version)) and failed.kernel not in kernels:
            trees.append(failed)
        if not any(tree.version == version for tree in trees):
            gone = "source" in inside and host.stat(f"{folder}/{version}/source").absent
            trees.append(DkmsModule(name, version, "", "broken" if gone else "added", f"{folder}/{version}"))
    return trees


def _failed_build(host: Host, name: str, version: str) -> DkmsModule | None:
    """The build that ended with an error: DKMS removes this folder after one that did not."""
    log = f"{DKMS}/{name}/{version}/build/make.log"
    text = host.text(log, _BUILD_LOG_LIMIT).value or ""
    kernel = re.search(r"^.{0,80}make\.log for \S+ for kernel (\S+)", text)
    ended = re.search(r"^make(?:\[\d+\])?: \*\*\* ", text, re.MULTILINE)
    return DkmsModule(name, version, kernel[1], "added", log, failed=True) if kernel and ended else None


# --- rules that block a module -----------------------------------------------------------------------

_RULE_FOLDERS = (
    "/etc/modprobe.d", "/run/modprobe.d", "/usr/local/lib/modprobe.d", "/usr/lib/modprobe.d",
    "/lib/modprobe.d",
)  # fmt: skip
# Programs that people switch graphics with: their rules are chosen on purpose.
_SWITCHES = (
    "nvidia-prime", "prime-select", "envycontrol", "system76-power", "supergfx", "optimus-manager",
    "bumblebee",
)  # fmt: skip
_REFUSALS = ("/bin/false", "/bin/true", "/usr/bin/false", "/usr/bin/true", ":")


def blocked_modules(host: Host, names: tuple[str, ...]) -> Fact[tuple[BlockedModule, ...]]:
    """Rules that keep one of `names` from loading: modprobe.d (for files of one name the first folder wins), the
    kernel command line, switches for hybrid graphics."""
    rules: list[BlockedModule] = []
    seen: set[str] = set()
    readable = False
    for folder in _RULE_FOLDERS:
        listing = host.names(folder)
        readable = readable or not listing.undecided
        for name in listing.value or ():
            if name.endswith(".conf") and name not in seen:
                seen.add(name)
                rules += _rules_of_file(host, f"{folder}/{name}", names)
    options = host.text("/proc/cmdline", 16384)
    rules += _rules_of_command_line(options.value or "", names)
    if not rules and not readable and not options.known:
        return unknown("neither modprobe.d nor the kernel command line can be read", _RULE_FOLDERS[0])
    return known(tuple(rules), "modprobe.d and the kernel command line")


def _rules_of_file(host: Host, path: str, names: tuple[str, ...]) -> list[BlockedModule]:
    text = host.text(path, 65536).value or ""
    switches = [switch for switch in _SWITCHES if switch in (path + text).lower()]
    source = f"{path} (prime-select)" if switches[:1] in (["nvidia-prime"], ["prime-select"]) else path
    rules = []
    for line in text.splitlines():
        words = line.split("#")[0].split()
        module = module_name(words[1] + ".ko") if len(words) > 1 else ""
        if module not in names:
            continue
        refused = words[0] == "install" and len(words) > 2 and words[2] in _REFUSALS
        turned_off = words[0] == "alias" and words[2:] == ["off"]
        if words[0] == "blacklist" or refused or turned_off:
            rules.append(BlockedModule(module, " ".join(words), source, bool(switches)))
    return rules


def _rules_of_command_line(text: str, names: tuple[str, ...]) -> list[BlockedModule]:
    rules = []
    for option in text.split():
        key, _, value = option.partition("=")
        if key.replace("-", "_") in ("modprobe.blacklist", "module_blacklist", "rd.driver.blacklist"):
            listed = {name.replace("-", "_") for name in value.split(",")}
            rules += [BlockedModule(name, option, "/proc/cmdline") for name in names if name in listed]
        elif option in ("nomodeset", "amdgpu.modeset=0") and "amdgpu" in names:
            # amdgpu refuses to start without kernel mode setting; NVIDIA's module does not care.
            rules.append(BlockedModule("amdgpu", option, "/proc/cmdline"))
    return rules
