"""The AMD stack as files show it: KFD topology, amdgpu, nodes, ROCm and firmware of the system."""

from __future__ import annotations

import re

from gpudoctor.host import Host
from gpudoctor.machine import AmdStack, DeviceNode, Fact, KfdNode, RocmInstall, System, absent, denied, known, unknown
from gpudoctor.probes.modules import blocked_modules, dkms_modules, installed_modules, loaded_modules
from gpudoctor.probes.pci import AMD, PciDevice
from gpudoctor.probes.pci_address import address_of

_FIRMWARE = (
    r"linux-firmware-amdgpu|amd-gpu-firmware|kernel-firmware-amdgpu|firmware-amd-graphics|linux-firmware-amd-graphics"
    r"|linux-firmware"
)
"""The package of AMD's firmware in the spellings of Arch, Fedora and Red Hat, SUSE, Debian, Ubuntu."""

MODULES = ("amdgpu", "radeon", "amdkcl", "amdttm", "amdxcp")
_TOPOLOGY = ("/sys/class/kfd/kfd/topology/nodes", "/sys/devices/virtual/kfd/kfd/topology/nodes")
_XGMI = 11
_VIDEO_MEMORY = (1, 2)
"""Heap types of memory banks: video memory that the processor sees, and video memory that it does not see."""


def probe_amd(host: Host, pci: Fact[tuple[PciDevice, ...]], system: System) -> AmdStack:
    """Everything that files tell; level driver fills in `hsa`."""
    loaded = loaded_modules(host, MODULES)
    topology = _topology(host)
    here = any(device.vendor == AMD for device in pci.value or ()) or bool(topology.value)
    return AmdStack(
        module=_module(host, loaded),
        modules_loaded=loaded,
        modules_installed=installed_modules(host, system.kernel.value, ("amdgpu",)),
        dkms=dkms_modules(host, "amdgpu"),
        blocked=blocked_modules(host, MODULES),
        kfd=_kfd(host),
        render_nodes=_render_nodes(host),
        topology=topology,
        rocm=_rocm(host, here),
        firmware_package=_firmware(host) if here else unknown("not looked for: no AMD GPU"),
    )


def _module(host: Host, loaded: Fact[tuple[str, ...]]) -> Fact[str]:
    version = host.text("/sys/module/amdgpu/version", 256)
    if version.value:
        return known(version.value, version.source)
    if loaded.value is None:
        return loaded.unanswered()
    if "amdgpu" in loaded.value:
        # The kernel's own amdgpu states no version; amdgpu-dkms does.
        return known("in-tree", "/sys/module/amdgpu")
    return absent(loaded.source, "the module amdgpu is not loaded")


def _kfd(host: Host) -> Fact[DeviceNode]:
    node = host.open_node("/dev/kfd")
    if node.opened in ("ENOENT", "untried"):
        return host.missing("/dev/kfd")
    return known(node, "/dev/kfd")


def _render_nodes(host: Host) -> Fact[tuple[DeviceNode, ...]]:
    names = host.names("/dev/dri")
    if names.value is None:
        return names.unanswered()
    ours = [name for name in names.value if re.fullmatch(r"renderD\d+", name) and _may_be_amd(host, name)]
    return known(tuple(host.open_node(f"/dev/dri/{name}") for name in ours), "/dev/dri")


def _may_be_amd(host: Host, name: str) -> bool:
    """False if sysfs says that the node is another maker's."""
    vendor = host.text(f"/sys/class/drm/{name}/device/vendor", 64).value
    return vendor is None or vendor.lower().removeprefix("0x") == AMD


# --- KFD topology ----------------------------------------------------------------------------------


def _topology(host: Host) -> Fact[tuple[KfdNode, ...]]:
    """All nodes, processors included, in the order of their numbers; numbers may have gaps."""
    for folder in _TOPOLOGY:
        listing = host.names(folder)
        if listing.value is not None:
            numbers = sorted(int(name) for name in listing.value if re.fullmatch("[0-9]{1,9}", name))
            return known(tuple(_node(host, f"{folder}/{number}", number) for number in numbers), folder)
        if listing.state == "denied":
            return denied(folder, listing.why)
    return host.missing(_TOPOLOGY[0])


def _node(host: Host, folder: str, number: int) -> KfdNode:
    text = host.text(f"{folder}/properties", 65536)
    properties = _properties(text.value or "")
    if "simd_count" not in properties:
        # The kernel hides a GPU from processes whose device cgroup does not grant it. A recording may have lost it.
        return KfdNode(node=number, readable=False)
    gpu = properties["simd_count"] > 0
    return KfdNode(
        node=number,
        gfx=gfx_of(properties["gfx_target_version"]) if gpu and "gfx_target_version" in properties else None,
        bdf=_bdf(properties) if gpu else None,
        pci_id=f"{properties.get('vendor_id', 0):04x}:{properties['device_id']:04x}" if _has_id(properties) else None,
        render_minor=properties.get("drm_render_minor") or None if gpu else None,
        memory=_video_memory(host, folder, properties) if gpu else None,
        simd_count=properties["simd_count"],
        unique_id=str(properties.get("unique_id") or ""),
        xgmi_links=_xgmi_links(host, folder) if gpu else 0,
    )


def _properties(text: str) -> dict[str, int]:
    found = re.finditer(r"^(\w+)[ \t]+(\d{1,20})[ \t]*$", text, re.MULTILINE)
    return {line[1]: int(line[2]) for line in found}


def _has_id(properties: dict[str, int]) -> bool:
    return 0 < properties.get("device_id", 0) <= 0xFFFF


def gfx_of(version: int) -> str | None:
    """The target of a gfx_target_version: decimal major, minor and stepping, two digits each. The name has the
    stepping in hexadecimal: 90010 is gfx90a, 100301 is gfx1031."""
    major, minor, stepping = version // 10000, version // 100 % 100, version % 100
    if not 6 <= major <= 99 or minor > 9 or stepping > 15:
        return None
    return f"gfx{major}{minor}{stepping:x}"


def _bdf(properties: dict[str, int]) -> str | None:
    domain, location = properties.get("domain", 0), properties.get("location_id", 0)
    # Bits above 16 of the location number the partitions of a GPU. 0000:00:00.0 is never one; in a virtual machine of
    # Hyper-V each GPU is the first device of a domain of its own.
    return address_of(domain, location) if domain or location else None


def _video_memory(host: Host, folder: str, properties: dict[str, int]) -> int | None:
    total = 0
    for bank in host.names(f"{folder}/mem_banks").value or ():
        bank_properties = _properties(host.text(f"{folder}/mem_banks/{bank}/properties", 4096).value or "")
        if bank_properties.get("heap_type") in _VIDEO_MEMORY:
            total += bank_properties.get("size_in_bytes", 0)
    return total or properties.get("local_mem_size") or None


def _xgmi_links(host: Host, folder: str) -> int:
    links = host.names(f"{folder}/io_links").value or ()
    texts = (host.text(f"{folder}/io_links/{link}/properties", 4096).value or "" for link in links)
    return sum(_properties(text).get("type") == _XGMI for text in texts)


# --- ROCm and firmware of the system -----------------------------------------------------------------


def _rocm(host: Host, here: bool) -> Fact[tuple[RocmInstall, ...]]:
    """ROCm installations of the system: below /opt, at ROCM_PATH, or the distribution's own. The last are searched
    for only if there is a GPU."""
    listing = host.names("/opt")
    folders = [f"/opt/{name}" for name in listing.value or () if name == "rocm" or re.match(r"rocm-\d", name)]
    folders += [f"/opt/rocm/{name}" for name in host.names("/opt/rocm").value or () if name.startswith("core-")]
    if host.environ.get("ROCM_PATH", "").startswith("/"):
        folders.append(host.environ["ROCM_PATH"].rstrip("/"))
    found: dict[str, RocmInstall] = {}
    for folder in folders:
        version, place = _rocm_version(host, folder), host.resolve(folder)
        if version is not None and place is not None:
            targets = _blas_targets(host, folder) if here else None
            found.setdefault(place, RocmInstall(version=version, path=folder, blas_gfx=targets))
    if found:
        return known(tuple(found.values()), "/opt")
    if here:
        from gpudoctor.probes.os_packages import package_version

        packaged = package_version(host, r"libhsa-runtime64-1|rocm-core|hsa-rocr")
        upstream = re.match(r"\d+\.\d+(?:\.\d+)?", packaged.value or "")
        if upstream:
            return known((RocmInstall(version=upstream[0], path="/usr"),), packaged.source)
    if listing.undecided:
        return listing.unanswered()
    return known((), "/opt")


def _blas_targets(host: Host, folder: str) -> tuple[str, ...] | None:
    """Targets of the kernel files of that ROCm's rocBLAS."""
    names = host.names(f"{folder}/lib/rocblas/library").value
    if not names:
        return None
    from gpudoctor.codeobjects.kernel_files import tensile_targets  # imports the readers of libraries

    return tensile_targets(names) or None


def _rocm_version(host: Host, folder: str) -> str | None:
    for name in ("version", "version-rocm", "version-dev", "version-utils"):
        text = host.text(f"{folder}/.info/{name}", 256).value or ""
        version = re.match(r"\d+\.\d+(?:\.\d+)?", text)
        if version:
            return version[0]
    return None


def _firmware(host: Host) -> Fact[str]:
    from gpudoctor.probes.os_packages import package_version

    return package_version(host, _FIRMWARE)
