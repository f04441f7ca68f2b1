"""How findings name GPUs: equal GPUs together, by their names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

from gpudoctor.finding import Device, Finding, Severity, gpu_subject
from gpudoctor.machine import Gpu, Vendor

VENDORS: dict[Vendor, str] = {"nvidia": "NVIDIA", "amd": "AMD"}
"""The name of a vendor in a message."""

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


def group_by(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, tuple[Item, ...]]:
    """The items in groups, in their order: eight equal GPUs are one finding."""
    groups: dict[Key, tuple[Item, ...]] = {}
    for item in items:
        groups[key(item)] = (*groups.get(key(item), ()), item)
    return groups


def called(gpus: tuple[Gpu, ...]) -> str:
    """The names of some GPUs in a message, equal ones once: "NVIDIA A100-SXM4-80GB (8 GPUs)"."""
    counts = Counter(gpu.name for gpu in gpus)
    return ", ".join(name if count == 1 else f"{name} ({count} GPUs)" for name, count in counts.items())


def subject_of(gpus: tuple[Gpu, ...]) -> str:
    """What a finding about these GPUs is about: one with its number, several by their names."""
    return gpu_subject(gpus[0]) if len(gpus) == 1 else called(gpus)


def gpu_names(gpus: Iterable[Gpu]) -> str:
    """Each name once."""
    return ", ".join(dict.fromkeys(gpu.name for gpu in gpus))


def finding(severity: Severity, gpus: tuple[Gpu, ...], **parts: Any) -> Finding:
    """A finding about a group of equal GPUs; `parts` are the other fields of a Finding."""
    devices = tuple(Device.of(gpu) for gpu in gpus)
    device = devices[0] if len(gpus) == 1 else None
    return Finding(severity=severity, subject=subject_of(gpus), device=device, devices=devices, **parts)
