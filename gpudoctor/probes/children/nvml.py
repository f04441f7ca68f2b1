"""Initialise NVML and list its GPUs: {"nvml": answer} in the shape of gpudoctor.machine.NvidiaApi."""

from __future__ import annotations

import ctypes
from itertools import takewhile

from .channel import load, mapped, say
from .libcuda import cuda_version

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

c_uint, c_ulonglong, byref = ctypes.c_uint, ctypes.c_ulonglong, ctypes.byref
SUCCESS, INSUFFICIENT_SIZE, LOST, RESET_REQUIRED = 0, 7, 15, 16
NO_FUNCTION = 13
COMPUTE_MODES: dict[int | None, str] = {0: "default", 1: "exclusive", 2: "prohibited", 3: "exclusive"}
VIRTUALIZATION: dict[int | None, str] = {0: "none", 1: "pass-through", 2: "vgpu", 3: "host-vgpu", 4: "host-vsga"}
THROTTLE_REASONS = {
    0x4: "power-cap", 0x8: "hardware", 0x10: "sync-boost", 0x20: "thermal", 0x40: "hardware-thermal",
    0x80: "power-brake",
}  # fmt: skip
"""Why the clocks are lower than they could be; an idle GPU and chosen clocks are no reason to tell."""
MOST_LINKS = 36
FABRIC_STATES = {0: "not-supported", 1: "not-started", 2: "in-progress", 3: "completed"}


class PciInfo(ctypes.Structure):
    _fields_ = [
        ("legacy", ctypes.c_char * 16), ("domain", c_uint), ("bus", c_uint), ("device", c_uint),
        ("device_id", c_uint), ("subsystem_id", c_uint), ("bus_id", ctypes.c_char * 32),
    ]  # fmt: skip


class Memory(ctypes.Structure):
    _fields_ = [("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong)]


class MemoryV2(ctypes.Structure):
    _fields_ = [("version", c_uint), *((name, c_ulonglong) for name in ("total", "reserved", "free", "used"))]


class FabricInfo(ctypes.Structure):
    _fields_ = [("cluster", ctypes.c_ubyte * 16), ("status", c_uint), ("clique", c_uint), ("state", ctypes.c_ubyte)]


class LicenseExpiry(ctypes.Structure):
    _fields_ = [("year", c_uint), ("parts", ctypes.c_ushort * 5), ("status", ctypes.c_ubyte)]


class LicensableFeature(ctypes.Structure):
    _fields_ = [
        ("code", c_uint), ("licensed", c_uint), ("info", ctypes.c_char * 128), ("product", ctypes.c_char * 128),
        ("enabled", c_uint), ("expiry", LicenseExpiry),
    ]  # fmt: skip


class LicensableFeatures(ctypes.Structure):
    _fields_ = [("supported", ctypes.c_int), ("count", c_uint), ("features", LicensableFeature * 3)]


class Nvml:
    """Calls by name: a function that this library does not have answers NO_FUNCTION."""

    def __init__(self, library: Any) -> None:
        self.library = library

    def call(self, name: str, *arguments: Any) -> int:
        function = getattr(self.library, name, None)
        return NO_FUNCTION if function is None else int(function(*arguments))

    def read(self, name: str, kind: Any, *arguments: Any) -> Any:
        """What a function writes into its last argument, of that kind; None if it fails."""
        found = kind()
        return found if self.call(name, *arguments, byref(found)) == SUCCESS else None

    def number(self, name: str, *arguments: Any, kind: Any = c_uint) -> int | None:
        found = self.read(name, kind, *arguments)
        return None if found is None else int(found.value)

    def text(self, name: str, *handle: Any) -> str:
        buffer = ctypes.create_string_buffer(96)
        if self.call(name, *handle, buffer, c_uint(96)) != SUCCESS:
            return ""
        return buffer.value.decode("utf-8", "replace")

    def message(self, status: int) -> str:
        function = getattr(self.library, "nvmlErrorString", None)
        if function is None:
            return ""
        function.restype = ctypes.c_char_p
        return bytes(function(status) or b"").decode("utf-8", "replace")


def ask_nvml() -> None:
    """Initialise NVML and list its GPUs. NVML does not obey CUDA_VISIBLE_DEVICES."""
    library = load("nvml", "libnvidia-ml.so.1")
    if library is None:
        return
    nvml = Nvml(library)
    say(doing="nvmlInit")
    status = nvml.call("nvmlInit_v2")
    if status == NO_FUNCTION:
        status = nvml.call("nvmlInit")
    answer: dict[str, Any] = {"status": status, "message": nvml.message(status), "library": mapped("libnvidia-ml.so")}
    if status != SUCCESS:
        say(nvml=answer)
        return
    answer["message"] = ""
    answer["driver_version"] = nvml.text("nvmlSystemGetDriverVersion") or None
    if (version := nvml.number("nvmlSystemGetCudaDriverVersion", kind=ctypes.c_int)) is not None:
        answer["cuda_version"] = cuda_version(version)
    say(nvml=dict(answer, message="it did not list its GPUs"))
    if (count := nvml.number("nvmlDeviceGetCount_v2")) is not None:
        answer["devices"] = [nvml_device(nvml, index) for index in range(min(count, 256))]
    say(nvml=answer)


def nvml_device(nvml: Nvml, index: int) -> dict[str, Any]:
    """One GPU, in the shape of gpudoctor.machine.NvmlDevice."""
    say(doing=f"asking NVML for GPU {index}")
    handle = ctypes.c_void_p()
    status = nvml.call("nvmlDeviceGetHandleByIndex_v2", c_uint(index), byref(handle))
    if status != SUCCESS:
        lost = status in (LOST, RESET_REQUIRED)
        return {"index": index, "lost": lost, "why": nvml.message(status) or f"NVML error {status}"}
    device = {
        "index": index,
        "name": nvml.text("nvmlDeviceGetName", handle),
        "uuid": nvml.text("nvmlDeviceGetUUID", handle),
        **nvml_pci(nvml, handle),
        **nvml_memory(nvml, handle),
        **nvml_health(nvml, handle),
        "compute_mode": COMPUTE_MODES.get(nvml.number("nvmlDeviceGetComputeMode", handle)),
        "processes": nvml_processes(nvml, handle),
        **nvml_mig(nvml, handle),
        **nvml_virtualization(nvml, handle),
        "board": nvml_board(nvml, handle),
    }
    major, minor = ctypes.c_int(), ctypes.c_int()
    if nvml.call("nvmlDeviceGetCudaComputeCapability", handle, byref(major), byref(minor)) == SUCCESS:
        device["capability"] = f"{major.value}.{minor.value}"
    if fabric := nvml.read("nvmlDeviceGetGpuFabricInfo", FabricInfo, handle):
        device["fabric"] = FABRIC_STATES.get(fabric.state)
    return device


def nvml_board(nvml: Nvml, handle: Any) -> dict[str, Any]:
    """Firmware, PCIe link, power and NVLinks, in the shape of gpudoctor.machine.Board."""
    enforced = nvml.number("nvmlDeviceGetEnforcedPowerLimit", handle)
    default = nvml.number("nvmlDeviceGetPowerManagementDefaultLimit", handle)
    persistence = nvml.number("nvmlDeviceGetPersistenceMode", handle)
    return {
        "vbios": nvml.text("nvmlDeviceGetVbiosVersion", handle),
        "inforom": nvml.text("nvmlDeviceGetInforomImageVersion", handle),
        "gsp_firmware": nvml.text("nvmlDeviceGetGspFirmwareVersion", handle),
        "pcie_generation": nvml.number("nvmlDeviceGetCurrPcieLinkGeneration", handle),
        "pcie_generation_max": nvml.number("nvmlDeviceGetMaxPcieLinkGeneration", handle),
        "pcie_width": nvml.number("nvmlDeviceGetCurrPcieLinkWidth", handle),
        "pcie_width_max": nvml.number("nvmlDeviceGetMaxPcieLinkWidth", handle),
        "power_limit": None if enforced is None else round(enforced / 1000),
        "power_limit_default": None if default is None else round(default / 1000),
        "throttled": nvml_throttling(nvml, handle),
        "persistence": None if persistence is None else persistence == 1,
        **nvml_links(nvml, handle),
    }


def nvml_throttling(nvml: Nvml, handle: Any) -> list[str]:
    """Why the GPU runs slower than it could now; the function has two names."""
    for name in ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"):
        if (reasons := nvml.number(name, handle, kind=c_ulonglong)) is not None:
            return [reason for bit, reason in THROTTLE_REASONS.items() if reasons & bit]
    return []


def nvml_links(nvml: Nvml, handle: Any) -> dict[str, int]:
    """How many NVLinks the GPU has, and how many are up."""
    answers = (nvml.number("nvmlDeviceGetNvLinkState", handle, c_uint(link)) for link in range(MOST_LINKS))
    states = list(takewhile(lambda state: state is not None, answers))
    return {"links": len(states), "links_up": sum(state == 1 for state in states)} if states else {}


def nvml_virtualization(nvml: Nvml, handle: Any) -> dict[str, Any]:
    """Whether the GPU is whole, passed through, or lent; and whether a vGPU has its licence."""
    mode = VIRTUALIZATION.get(nvml.number("nvmlDeviceGetVirtualizationMode", handle))
    found: dict[str, Any] = {"virtualization": mode}
    licences = (
        nvml.read("nvmlDeviceGetGridLicensableFeatures_v4", LicensableFeatures, handle) if mode == "vgpu" else None
    )
    if licences:
        enabled = [feature for feature in licences.features[: min(licences.count, 3)] if feature.enabled]
        found["licensed"] = any(feature.licensed for feature in enabled) if enabled else None
    return found


def nvml_pci(nvml: Nvml, handle: Any) -> dict[str, Any]:
    """Address and PCI id."""
    pci = nvml.read("nvmlDeviceGetPciInfo_v3", PciInfo, handle)
    if pci is None:
        return {}
    text = bytes(pci.bus_id).decode("ascii", "replace")
    address = text or f"{pci.domain:08x}:{pci.bus:02x}:{pci.device:02x}.0"
    return {
        "bdf": address.lower()[-12:].zfill(12),
        "pci_id": f"{pci.device_id & 0xFFFF:04x}:{pci.device_id >> 16:04x}",
    }


def nvml_memory(nvml: Nvml, handle: Any) -> dict[str, Any]:
    """Total and used bytes."""
    # The second form leaves out the driver's own memory; GPUs that share the system's memory have neither.
    newer = MemoryV2(version=ctypes.sizeof(MemoryV2) | 2 << 24)
    if nvml.call("nvmlDeviceGetMemoryInfo_v2", handle, byref(newer)) == SUCCESS:
        return {"memory": newer.total, "memory_used": newer.used}
    older = nvml.read("nvmlDeviceGetMemoryInfo", Memory, handle)
    return {"memory": older.total, "memory_used": older.used} if older else {}


def nvml_health(nvml: Nvml, handle: Any) -> dict[str, Any]:
    """Uncorrectable errors and row remapping; a lost GPU is noticed here."""
    health: dict[str, Any] = {}
    for name, counter in (("ecc_uncorrectable", 0), ("ecc_uncorrectable_ever", 1)):
        errors = c_ulonglong()
        status = nvml.call("nvmlDeviceGetTotalEccErrors", handle, c_uint(1), c_uint(counter), byref(errors))
        if status == SUCCESS:
            health[name] = errors.value
        elif status in (LOST, RESET_REQUIRED):
            health.update(lost=True, why=nvml.message(status))
    correctable, uncorrectable, pending, failed = c_uint(), c_uint(), c_uint(), c_uint()
    status = nvml.call(
        "nvmlDeviceGetRemappedRows", handle, byref(correctable), byref(uncorrectable), byref(pending), byref(failed)
    )
    if status == SUCCESS:
        health.update(remap_pending=bool(pending.value), remap_failed=bool(failed.value))
    elif status in (LOST, RESET_REQUIRED):
        health.update(lost=True, why=nvml.message(status))
    return health


def nvml_processes(nvml: Nvml, handle: Any) -> int | None:
    """Number of processes with a compute context."""
    for name in ("_v3", "_v2", ""):
        count = c_uint(0)
        status = nvml.call("nvmlDeviceGetComputeRunningProcesses" + name, handle, byref(count), None)
        if status in (SUCCESS, INSUFFICIENT_SIZE):
            return count.value
    return None


def nvml_mig(nvml: Nvml, handle: Any) -> dict[str, Any]:
    """MIG mode and the existing slices."""
    current, pending = c_uint(), c_uint()
    if nvml.call("nvmlDeviceGetMigMode", handle, byref(current), byref(pending)) != SUCCESS:
        return {}
    slices = []
    for index in range(nvml.number("nvmlDeviceGetMaxMigDeviceCount", handle) or 0 if current.value else 0):
        mig = nvml.read("nvmlDeviceGetMigDeviceHandleByIndex", ctypes.c_void_p, handle, c_uint(index))
        if mig is None:
            continue
        name = nvml.text("nvmlDeviceGetName", mig)
        slices.append(
            {
                "profile": name.partition(" MIG ")[2],
                "memory": nvml_memory(nvml, mig).get("memory"),
                "uuid": nvml.text("nvmlDeviceGetUUID", mig),
            }
        )
    return {"mig": current.value == 1, "mig_pending": pending.value == 1, "mig_devices": slices}
