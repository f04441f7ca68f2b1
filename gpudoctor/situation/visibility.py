"""The variables that choose among a vendor's GPUs (CUDA_VISIBLE_DEVICES ...), read as the runtimes read them."""

from __future__ import annotations

import re

from msgspec import Struct

from gpudoctor.machine import Gpu, Vendor


class Selection(Struct, frozen=True):
    """The GPUs that the value of a visibility variable selects, entry by entry."""

    gpus: tuple[Gpu, ...]
    """The GPUs that remain, in the requested order."""
    invalid: tuple[str, ...] = ()
    """Entries that name no GPU."""
    certain: bool = True
    """False if it is unknown which GPUs the entries mean (order or UUIDs unknown)."""
    entries: int = 0
    """How many entries count. `gpus` holds more GPUs if it is unknown which ones the entries mean."""
    repeated: str = ""
    """An entry that CUDA read twice; it then shows no GPU at all."""


def select(value: str, gpus: tuple[Gpu, ...], *, ordered: bool = True) -> Selection:
    """Read one variable's value as the runtimes do: entries after the first invalid one do not count.

    `ordered` says whether an index surely means the GPU at that place: CUDA counts the fastest GPU
    first unless CUDA_DEVICE_ORDER=PCI_BUS_ID. Of an entry CUDA reads the number that it begins with ("0 1" is 0), and
    a GPU that is named twice hides them all (torch.cuda._parse_visible_devices does the same). A space before a UUID
    spoils it, small or capital letters in it do not (driver 580.159.04 on an H100).
    """
    chosen: list[Gpu] = []
    invalid: tuple[str, ...] = ()
    certain, count, by_cuda = True, 0, any(gpu.vendor == "nvidia" for gpu in gpus)
    read: list[str] = []
    for piece in value.split(",") if value.strip() else ():
        entry = piece.strip()
        if not entry and chosen:
            break  # "0," ends after its first entry
        number = re.match(r"(?:[+]|-(?=0*(?!\d)))?([0-9]+)" if by_cuda else "([0-9]+)$", entry)
        named = _at_place(number[1], gpus) if number else _named(piece.rstrip() if by_cuda else entry, gpus)
        if named is None:
            invalid = (entry,)
            break
        name = str(int(number[1][:9])) if number else entry
        if by_cuda and name in read:
            return Selection((), (), certain, repeated=entry)
        read.append(name)
        certain, count = certain and len(named) == 1, count + 1
        chosen.extend(named)
    if not ordered and 0 < len(chosen) < len(gpus) and len({gpu.arch.value for gpu in gpus}) > 1:
        certain = False
    return Selection(tuple(chosen), invalid, certain, count)


def _at_place(entry: str, gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...] | None:
    place = int(entry[:9])
    return gpus[place : place + 1] or None


def _named(entry: str, gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...] | None:
    """GPUs that a UUID entry may mean: one GPU, or those with unknown UUIDs; None if it names none."""
    if not re.match(r"(GPU|MIG)-[\w-]", entry):
        return None
    uuids = {gpu.uuid: gpu for gpu in gpus if gpu.uuid}
    silent = tuple(gpu for gpu in gpus if not gpu.uuid)
    if entry.startswith("MIG-"):
        # Only the driver tells the slices of a GPU.
        silent = tuple(gpu for gpu in gpus if not gpu.asked.uuid)
        slices = {mig.uuid: gpu for gpu in gpus for mig in gpu.asked.mig_devices if mig.uuid}
        uuids = {**slices, **{f"MIG-{uuid}": gpu for uuid, gpu in uuids.items()}}
    small = entry.lower()
    found = tuple(gpu for uuid, gpu in uuids.items() if _begins_alike(uuid.lower(), small))
    return found[:1] or silent or None


def _begins_alike(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)


def visibility_variables(variables: dict[str, str], vendor: Vendor) -> tuple[tuple[str, str], ...]:
    """The variables that a runtime of that vendor obeys, in the order it applies them, with their values.

    CUDA and ROCr take an empty value for "no GPU" (ROCm/legacy-rocm-build#1170); HIP takes it for "not set".
    GPU_DEVICE_ORDINAL is OpenCL's alone, whatever AMD's page on isolation says (rocclr, Device::init).
    """
    names: tuple[str, ...] = ("CUDA_VISIBLE_DEVICES",)
    if vendor == "amd":
        of_hip = [name for name in ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES") if variables.get(name)]
        names = ("ROCR_VISIBLE_DEVICES", *of_hip[:1])
    return tuple((name, variables[name]) for name in names if name in variables)
