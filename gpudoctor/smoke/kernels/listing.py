"""The devices that torch sees: names, architectures, addresses, memory. This initialises CUDA or HIP."""

from __future__ import annotations

import re
from typing import Any, Sequence


def list_devices(torch: Any, untouched: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Every GPU, in the shape of gpudoctor.machine.SmokeDevice.

    Makes no context on GPUs whose address or uuid is in `untouched`. Raises what torch raises.
    """
    rocm = bool(getattr(torch.version, "hip", None))
    return [_describe(torch, index, rocm, untouched) for index in range(int(torch.cuda.device_count()))]


def _describe(torch: Any, index: int, rocm: bool, untouched: Sequence[str]) -> dict[str, Any]:
    properties = torch.cuda.get_device_properties(index)
    device: dict[str, Any] = {
        "name": f"cuda:{index}",
        "product": str(properties.name),
        "arch": _arch(properties, rocm),
        "bdf": _address(properties) or _address_by_runtime(index),
        "uuid": _uuid(properties, rocm),
        "memory": int(properties.total_memory),
    }
    if device["bdf"] not in untouched and device["uuid"] not in untouched:
        try:
            device["free"] = int(torch.cuda.mem_get_info(index)[0])
        except Exception:  # the kernels will tell why
            device["free"] = None
    return device


def _arch(properties: Any, rocm: bool) -> str:
    if rocm:
        return str(getattr(properties, "gcnArchName", "")).partition(":")[0]
    return f"sm_{properties.major}{properties.minor}"


def _address(properties: Any) -> str | None:
    """ "0000:01:00.0", if this torch tells it."""
    place = [getattr(properties, name, None) for name in ("pci_domain_id", "pci_bus_id", "pci_device_id")]
    if any(number is None for number in place):
        return None
    return "{:04x}:{:02x}:{:02x}.0".format(*(int(number) for number in place if number is not None))


def _address_by_runtime(index: int) -> str | None:
    """The address from the runtime that torch has loaded."""
    try:
        import ctypes

        for pattern, function in (
            (r"\S*/libcudart[-.]\S*", "cudaDeviceGetPCIBusId"),
            (r"\S*/libamdhip64[-.]\S*", "hipDeviceGetPCIBusId"),
        ):
            with open("/proc/self/maps", errors="replace") as maps:
                path = re.search(pattern, maps.read())
            buffer = ctypes.create_string_buffer(32)
            if path and getattr(ctypes.CDLL(path.group()), function)(buffer, 32, index) == 0:
                return buffer.value.decode("ascii", "replace").lower()
    except (ImportError, OSError, AttributeError):
        pass
    return None


def _uuid(properties: Any, rocm: bool) -> str:
    """ "GPU-..." as the driver's own tools write it; empty if this torch does not tell it."""
    text = str(getattr(properties, "uuid", "") or "")
    if rocm and text:
        try:  # HIP keeps the GPU's number as sixteen letters, which torch writes as if they were a UUID
            text = bytes.fromhex(text.replace("-", "")).decode("ascii")
        except ValueError:
            return ""
    return "GPU-" + text if text and not text.startswith(("GPU-", "MIG-")) else text
