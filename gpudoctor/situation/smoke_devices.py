"""Which GPU computed what: torch numbers and names the devices that kernels ran on in its own way."""

from __future__ import annotations

import re

from gpudoctor.machine import Gpu, Machine, SmokeDevice, Vendor
from gpudoctor.situation.usable_gpus import in_process_order, standings


def gpus_behind(machine: Machine, vendor: Vendor, devices: tuple[SmokeDevice, ...]) -> dict[str, Gpu]:
    """The GPU behind each of torch's devices ("cuda:0"), if known: by PCI address, by UUID, by a unique name, else by
    position if torch counts as many GPUs as a process should see."""
    devices = tuple(device for device in devices if device.name != "cpu")
    gpus, found = machine.of_vendor(vendor), dict[str, Gpu]()
    for device in devices:
        same = [gpu for gpu in gpus if _address(gpu.bdf) and _address(gpu.bdf) == _address(device.bdf)]
        same = same or [gpu for gpu in gpus if _has_uuid(gpu, device.uuid)]
        if same:
            found[device.name] = same[0]
    usable = {standing.gpu.key for standing in standings(machine) if standing.usable}
    left = [gpu for gpu in gpus if gpu.key in usable and gpu not in found.values()]
    rest = [device for device in devices if device.name not in found]
    if not rest or len(rest) != len(left) or any(_differ(device, gpu) for device in rest for gpu in left):
        return found
    places = [gpu for gpu in in_process_order(machine, vendor) if gpu in left]
    if len(left) == 1 or len(places) == len(rest):
        return found | dict(zip((device.name for device in rest), places if len(left) > 1 else left, strict=True))
    for device in rest:
        named = [gpu for gpu in left if device.product and gpu.name == device.product]
        if len(named) == 1 and [other.product for other in rest].count(device.product) == 1:
            found[device.name] = named[0]
    return found


def _differ(device: SmokeDevice, gpu: Gpu) -> bool:
    """Whether both have a PCI address. Those that share one are matched before."""
    return bool(_address(device.bdf) and _address(gpu.bdf))


def _address(bdf: str | None) -> str:
    """A PCI address without its function and with a four-digit domain, because tools write it in different widths."""
    found = re.fullmatch(r"(?:([0-9a-fA-F]+):)?([0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.[0-7])?", bdf or "")
    return f"{int(found[1] or '0', 16):04x}:{found[2].lower()}" if found else ""


def _has_uuid(gpu: Gpu, uuid: str) -> bool:
    """Whether the UUID is that of the GPU or of one of its slices. torch writes both in the same form."""
    slices = [mig.uuid for mig in gpu.asked.mig_devices]
    return _plain(uuid) in {_plain(name) for name in (gpu.uuid, *slices)} - {""}


def _plain(uuid: str) -> str:
    return uuid.lower().removeprefix("gpu-").removeprefix("mig-")
