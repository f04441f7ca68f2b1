"""The NVIDIA stack as files show it: kernel module, nodes, fabric manager, container toolkit."""

from __future__ import annotations

import re
import stat

from gpudoctor.host import Host
from gpudoctor.machine import (
    DeviceNode,
    Fabric,
    Fact,
    NvidiaModule,
    NvidiaStack,
    ProcGpu,
    System,
    absent,
    known,
    unknown,
)
from gpudoctor.probes.cdi import probe_cdi
from gpudoctor.probes.modules import blocked_modules, dkms_modules, installed_modules, loaded_modules
from gpudoctor.probes.pci import PciDevice
from gpudoctor.probes.pci_address import normal_address

PROC = "/proc/driver/nvidia"
MODULES = (
    *("nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm", "nvgpu", "nouveau", "nova_core", "nova_drm"),
    "nvidia_vgpu_vfio",
)
_GPUDIRECT = ("nvidia_peermem", "nv_peer_mem", "gdrdrv")
_ON_DISK = ("nvidia", "nouveau", "nova_core")
_NODE = r"nvidia\d+|nvidiactl|nvidia-uvm|nvidia-modeset|nvidia-nvswitch\w+|dxg|nvhost-.+|nvmap|nvgpu"
_FIRMWARE = "/lib/firmware"
_CUDA = "/usr/local/cuda"
_PTXAS = f"{_CUDA}/bin/ptxas"
_BINARIES = ("/usr/bin", "/usr/local/bin", "/usr/sbin", "/usr/local/nvidia/toolkit", "/opt/nvidia/toolkit")
_UNINSTALLER = "nvidia-uninstall"
_MODPROBE = "/usr/bin/nvidia-modprobe"
_VERSION = r"\d+\.\d+(?:\.\d+)?"
_FABRIC_MANAGER = "nv-fabricmanager"
_UMAD = "/sys/class/infiniband_mad"
_FABRIC_VERSION = (
    r"(?:Fabric Manager version (?:is )?:?|fabric manager NVIDIA GPU driver interface version)\s*(\d+(?:\.\d+)+)"
)
_FABRIC_PACKAGE = r"nvidia-fabricmanager(?:-\d+)?"


def probe_nvidia(host: Host, pci: Fact[tuple[PciDevice, ...]], system: System) -> NvidiaStack:
    """Everything that files tell but `userland`; level driver fills in `nvml`, `cuda` and `smi`."""
    listed = host.names(f"{PROC}/gpus")
    gpus = tuple(_proc_detail(host, name) for name in listed.value or ())
    present = loaded_modules(host, (*MODULES, *_GPUDIRECT))
    loaded, gpudirect = _only(present, MODULES), _only(present, _GPUDIRECT)
    module = _module(host, loaded)
    return NvidiaStack(
        module=module,
        modules_loaded=loaded,
        gpudirect_modules=gpudirect,
        modules_installed=installed_modules(host, system.kernel.value, _ON_DISK),
        dkms=dkms_modules(host, "nvidia"),
        blocked=blocked_modules(host, MODULES),
        nodes=_nodes(host),
        modprobe=_modprobe(host),
        proc_gpus=known(tuple(gpu.bdf for gpu in gpus), listed.source) if listed.known else listed,
        proc_details=gpus,
        firmware=_firmware(host, module, system),
        fabric=_fabric(host, pci, system),
        run_file=_run_file(host),
        toolkit=_toolkit(host),
        ptxas=_ptxas(host),
        cdi=probe_cdi(host, system),
    )


def _only(present: Fact[tuple[str, ...]], names: tuple[str, ...]) -> Fact[tuple[str, ...]]:
    if present.value is None:
        return present
    return known(tuple(name for name in present.value if name in names), present.source)


def _module(host: Host, loaded: Fact[tuple[str, ...]]) -> Fact[NvidiaModule]:
    banner = host.text(f"{PROC}/version", 4096)
    if banner.value is not None:
        module = parse_banner(banner.value)
        if module is not None:
            return known(module, banner.source)
    version = host.text("/sys/module/nvidia/version", 256)
    if version.value is not None and re.fullmatch(_VERSION, version.value):
        return known(NvidiaModule(version=version.value), version.source)
    if banner.value is not None:
        return unknown("no version in it", banner.source)
    if loaded.value is not None and "nvidia" not in loaded.value:
        return absent(loaded.source, "the module nvidia is not loaded")
    return unknown(banner.why or "its version cannot be read", banner.source)


def parse_banner(text: str) -> NvidiaModule | None:
    """/proc/driver/nvidia/version; its build date may be in any language."""
    found = re.search(rf"Kernel Module(?:\s+for\s+\S+)?\s+({_VERSION})", text)
    if found is None:
        return None
    return NvidiaModule(version=found[1], flavour="open" if "Open Kernel Module" in text else "proprietary")


def _firmware(host: Host, module: Fact[NvidiaModule], system: System) -> Fact[tuple[str, ...]]:
    """The loaded module's firmware, in the folders where the kernel looks."""
    if module.value is None or system.container.known:
        return unknown("no module is loaded, or its firmware lies on the host", _FIRMWARE)
    if not host.names(_FIRMWARE).value:
        return unknown("the kernel's firmware lies elsewhere", _FIRMWARE)
    below = f"nvidia/{module.value.version}"
    listed = [host.names(f"{folder}/{below}") for folder in (_FIRMWARE, f"{_FIRMWARE}/updates")]
    files = tuple(name for names in listed for name in names.value or ())
    return known(files, listed[0].source) if files else listed[0]


def _proc_detail(host: Host, name: str) -> ProcGpu:
    text = host.text(f"{PROC}/gpus/{name}/information", 4096).value or ""
    pairs = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())}
    minor, uuid = pairs.get("Device Minor", ""), pairs.get("GPU UUID", "")
    return ProcGpu(
        bdf=normal_address(name) or name,
        model=pairs.get("Model", "") if pairs.get("Model") != "Unknown" else "",
        minor=int(minor) if re.fullmatch("[0-9]{1,9}", minor) else None,
        uuid=uuid if re.fullmatch(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", uuid) else "",
        excluded=pairs.get("GPU Excluded", "") == "Yes",
    )


def _nodes(host: Host) -> Fact[tuple[DeviceNode, ...]]:
    names = host.names("/dev")
    if names.value is None:
        return names.unanswered()
    if not names.value:
        return host.missing("/dev/nvidiactl")  # an empty /dev belongs to an image, not to a machine
    ours = [name for name in names.value if name.startswith(("nv", "dxg")) and re.fullmatch(_NODE, name)]
    nodes = [host.open_node(f"/dev/{name}") for name in ours]
    # Each slice has a node, and there may be a hundred; whether one opens says nothing about the GPU.
    for name in host.names("/dev/nvidia-caps").value or ():
        found = host.stat(path := f"/dev/nvidia-caps/{name}").value
        if found is not None:
            nodes.append(DeviceNode(path=path, mode=found.mode, uid=found.uid, gid=found.gid))
    return known(tuple(nodes), "/dev")


# --- NVSwitch fabric -------------------------------------------------------------------------------


def _fabric(host: Host, pci: Fact[tuple[PciDevice, ...]], system: System) -> Fabric:
    numbers = [name.partition("nvidia-nvswitch")[2] for name in host.names("/dev").value or ()]
    nodes = [number for number in numbers if number.isdecimal()]
    on_bus = [device for device in pci.value or () if device.is_nvswitch]
    count = max(len(nodes), len(on_bus))
    switches: Fact[int] = known(count, pci.source if on_bus else "/dev")
    if not count and not pci.known:
        switches = pci.unanswered()
    version = _manager_version(host)
    if not count and not version.known:
        running: Fact[bool] = unknown("not looked for: no NVSwitch and no fabric manager", "/proc")
    else:
        running = _manager_running(host, system)
    umad = unknown("not looked for: no fabric manager", _UMAD) if version.absent else _umad(host)
    return Fabric(switches=switches, manager_version=version, manager_running=running, umad=umad)


def _umad(host: Host) -> Fact[bool]:
    """ib_umad makes this folder, as a module or built into the kernel."""
    if host.exists(_UMAD):
        return known(True, _UMAD)
    return known(False, _UMAD) if host.live else unknown("a recording need not hold it", _UMAD)


def _manager_version(host: Host) -> Fact[str]:
    binary = next((path for folder in _BINARIES if host.exists(path := f"{folder}/{_FABRIC_MANAGER}")), None)
    if binary is None:
        return host.missing(f"/usr/bin/{_FABRIC_MANAGER}")
    from gpudoctor.probes.os_packages import package_version

    packaged = package_version(host, _FABRIC_PACKAGE)
    if packaged.value is not None:
        return known(packaged.value.partition("-")[0], packaged.source)
    for name in host.names("/usr/share/doc").value or ():
        found = re.fullmatch(r"nvidia-fabric-?manager-(\d+\.\d+(?:\.\d+)?).*", name)
        if found:
            return known(found[1], f"/usr/share/doc/{name}")
    log = host.text("/var/log/fabricmanager.log")
    stated = re.findall(_FABRIC_VERSION, log.value or "")
    if stated:
        return known(stated[-1], log.source)
    return unknown("it is installed; no file tells its version", binary)


def _manager_running(host: Host, system: System) -> Fact[bool]:
    if system.container.known:
        return unknown("the host's processes are not seen from a container", "/proc")
    processes = [name for name in host.names("/proc").value or () if name.isdigit()]
    # The kernel cuts names to 15 characters.
    comm = _FABRIC_MANAGER[:15]
    for process in processes:
        if host.text(f"/proc/{process}/comm", 64).value == comm:
            return known(True, f"/proc/{process}/comm")
    if processes and host.live:
        return known(False, "/proc")
    for path in (
        "/run/nvidia-fabricmanager/nv-fabricmanager.pid",
        "/var/run/nvidia-fabricmanager/nv-fabricmanager.pid",
    ):
        if host.exists(path):
            return known(True, path)
    return known(False, "/proc") if processes else unknown("no processes in this recording", "/proc")


# --- container toolkit -----------------------------------------------------------------------------


def _modprobe(host: Host) -> Fact[bool]:
    """libcuda knows it by this path alone. A recording seldom has the system's programs, and their rights."""
    found = host.stat(_MODPROBE)
    if found.absent and not host.exists("/usr/bin/env"):
        return unknown("the system's programs are not in this recording", _MODPROBE)
    if found.value is None:
        return found.unanswered()
    return known(not host.live or bool(found.value.mode & stat.S_ISUID), _MODPROBE)


def _run_file(host: Host) -> Fact[str]:
    """NVIDIA's installer lays its uninstaller beside nvidia-smi, and the uninstaller removes itself."""
    paths = [f"{folder}/{_UNINSTALLER}" for folder in _BINARIES[:2]]
    found = next((path for path in paths if host.exists(path)), None)
    return known(found, found) if found else host.missing(paths[0])


def _toolkit(host: Host) -> Fact[str]:
    """Version, else path, of the NVIDIA Container Toolkit on this host."""
    for name in ("nvidia-ctk", "nvidia-container-runtime", "nvidia-container-cli"):
        for folder in _BINARIES:
            path = f"{folder}/{name}"
            if host.exists(path):
                from gpudoctor.probes.os_packages import package_version

                packaged = package_version(host, r"nvidia-container-toolkit(?:-base)?")
                return known(packaged.value or path, packaged.source if packaged.value else path)
    return host.missing("/usr/bin/nvidia-ctk")


# --- CUDA toolkit ----------------------------------------------------------------------------------


def _ptxas(host: Host) -> Fact[str]:
    """The CUDA release of the default toolkit's ptxas, by the toolkit's own version file."""
    if not host.exists(_PTXAS):
        return host.missing(_PTXAS)
    versions = host.text(f"{_CUDA}/version.json", 64 << 10)
    found = re.search(r'"cuda"\s*:\s*\{[^}]*"version"\s*:\s*"(\d+\.\d+)', versions.value or "")
    return known(found[1], versions.source) if found else unknown("no version.json beside it", _PTXAS)
