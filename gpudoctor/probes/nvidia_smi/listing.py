"""The list that nvidia-smi -L prints."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpudoctor.machine import MigDevice, NvmlDevice


def from_list(text: str) -> tuple[NvmlDevice, ...] | None:
    """The GPUs of `-L`; None if it lists none."""
    slices = dict(slices_by_gpu(text))
    found = tuple(
        NvmlDevice(
            index=int(line[1]),
            name=line[2].strip(),
            uuid=line[3],
            mig=True if slices.get(int(line[1])) else None,
            mig_devices=slices.get(int(line[1]), ()),
        )
        for line in re.finditer(r"^GPU (\d{1,9}): (.+?) \(UUID: ([\w-]+)\)", text, re.MULTILINE)
    )
    return found or None


def slices_by_gpu(text: str) -> Iterable[tuple[int, tuple[MigDevice, ...]]]:
    """MIG slices of each GPU as -L lists them."""
    for gpu in re.finditer(r"^GPU (\d{1,9}): .*\n((?:\s+MIG .*(?:\n|$))+)", text, re.MULTILINE):
        lines = re.finditer(r"^\s+MIG (\S+)\s+Device\s+\d+: \(UUID: ([\w/-]+)\)", gpu[2], re.MULTILINE)
        yield int(gpu[1]), tuple(MigDevice(profile=line[1], uuid=line[2]) for line in lines)
