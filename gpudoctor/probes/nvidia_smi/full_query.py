"""The output of nvidia-smi -q, and of -q -x."""

from __future__ import annotations

import re
from typing import Literal

from gpudoctor.machine import MigDevice, NvmlDevice
from gpudoctor.probes.nvidia_smi.board import smi_board
from gpudoctor.probes.nvidia_smi.listing import slices_by_gpu
from gpudoctor.probes.nvidia_smi.values import (
    FABRIC,
    LOST,
    VIRTUALIZATION,
    compute_mode,
    licensed,
    mib,
    pci_id,
    some,
    switch,
)
from gpudoctor.probes.pci_address import normal_address

Pairs = list[tuple[str, str]]
"""(path, value) in the order printed: ("fb_memory_usage.total", "23028 MiB")."""

_DEEPEST = 10
"""Tags within tags; nvidia-smi writes some six."""


def from_xml(text: str) -> tuple[NvmlDevice, ...] | None:
    """The GPUs of `-q -x`; None if the text is none."""
    if "<nvidia_smi_log" not in text:
        return None
    body = text[text.index("<nvidia_smi_log") :].partition("</nvidia_smi_log>")[0]
    # Not an XML parser: recordings are truncated, and quoted badly; every GPU in them counts.
    pieces = re.split(r"<gpu id=[\\\"' ]*([0-9A-Fa-f:.]{1,20})[^<>]{0,80}>", body)
    return tuple(
        _device(n, address, _xml_pairs(piece))
        for n, (address, piece) in enumerate(zip(pieces[1::2], pieces[2::2], strict=True))
    )


def _xml_pairs(piece: str) -> Pairs:
    pairs: Pairs = []
    path: list[str] = []
    for closing, name, rest, value in re.findall(r"<(/?)([A-Za-z_][\w.-]{0,80})([^<>]{0,200})>([^<]*)", piece):
        if rest.endswith("/"):
            continue
        tag = name.lower()
        if closing:
            if tag in path:
                del path[len(path) - 1 - path[::-1].index(tag) :]
            continue
        if len(path) < _DEEPEST:
            path.append(tag)
        pairs.append((".".join(path), value.strip()))
    return pairs


def from_query(text: str) -> tuple[NvmlDevice, ...] | None:
    """The GPUs of `-q`; None if the text is none."""
    start = text.find("NVSMI LOG")
    if start < 0:
        return None
    body = text[start : text.find("NVSMI LOG", start + 1)] if text.find("NVSMI LOG", start + 1) > 0 else text[start:]
    pieces = re.split(r"^GPU ([0-9A-Fa-f:.]{7,16})[ \t]*$", body, flags=re.MULTILINE)
    names = dict(slices_by_gpu(text))
    return tuple(
        _device(n, address, _query_pairs(piece), names.get(n, ()))
        for n, (address, piece) in enumerate(zip(pieces[1::2], pieces[2::2], strict=True))
    )


def _query_pairs(piece: str) -> Pairs:
    pairs: Pairs = []
    headings: list[tuple[int, str]] = []
    for line in piece.splitlines():
        if not line.startswith(" ") and line.strip():
            break
        key, _, value = line.partition(":")
        indent = len(key) - len(key.lstrip())
        while headings and headings[-1][0] >= indent:
            headings.pop()
        if not (name := key.strip()):
            continue
        above = f"{headings[-1][1]}." if headings else ""
        path, value = above + name.lower().replace(" ", "_"), value.strip()
        pairs.append((path, value))
        if not value:
            headings.append((indent, path))
    return pairs


def _device(index: int, address: str, pairs: Pairs, profiles: tuple[MigDevice, ...] = ()) -> NvmlDevice:
    first: dict[str, str] = {}
    for path, value in pairs:
        first.setdefault(path, value)
    compute_processes = sum(
        path.endswith("type") and value.startswith("C") for path, value in pairs if "process" in path
    )
    lost = [value for _, value in pairs if value in LOST]
    return NvmlDevice(
        index=index,
        name=first.get("product_name", ""),
        bdf=normal_address(address) or "",
        uuid=some(first.get("gpu_uuid") or first.get("uuid")) or "",
        pci_id=pci_id(first.get("pci.device_id") or first.get("pci.pci_device_id")),
        memory=mib(first.get("fb_memory_usage.total")),
        memory_used=mib(first.get("fb_memory_usage.used")),
        compute_mode=compute_mode(first.get("compute_mode")),
        processes=compute_processes if any("process" in path for path in first) else None,
        mig=switch(first.get("mig_mode.current") or first.get("mig_mode.current_mig")),
        mig_pending=switch(first.get("mig_mode.pending") or first.get("mig_mode.pending_mig")),
        mig_devices=_slices(pairs, profiles),
        ecc_uncorrectable=_uncorrectable(pairs, "volatile"),
        ecc_uncorrectable_ever=_uncorrectable(pairs, "aggregate"),
        remap_failed=switch(
            first.get("remapped_rows.remapping_failure_occurred") or first.get("remapped_rows.remapped_row_failure")
        ),
        remap_pending=switch(first.get("remapped_rows.pending") or first.get("remapped_rows.remapped_row_pending")),
        fabric=FABRIC.get(first.get("fabric.state", "")),
        virtualization=VIRTUALIZATION.get(first.get("gpu_virtualization_mode.virtualization_mode", "").lower()),
        licensed=licensed(first),
        board=smi_board(first),
        lost=bool(lost),
        why=lost[0] if lost else "",
    )


def _slices(pairs: Pairs, profiles: tuple[MigDevice, ...]) -> tuple[MigDevice, ...]:
    memory: list[int | None] = []
    for path, value in pairs:
        if path.endswith("mig_device.index"):
            memory.append(None)
        elif "mig_device." in path and path.endswith("fb_memory_usage.total") and memory:
            memory[-1] = mib(value)
    if not memory:
        return profiles
    named = profiles if len(profiles) == len(memory) else (MigDevice(),) * len(memory)
    return tuple(
        MigDevice(profile=name.profile, memory=size, uuid=name.uuid) for name, size in zip(named, memory, strict=True)
    )


def _uncorrectable(pairs: Pairs, kind: Literal["volatile", "aggregate"]) -> int | None:
    """Sum of the uncorrectable counts; older drivers call them double bit and give a total."""
    counter = f"ecc_errors.{kind}."
    errors = [(path, value) for path, value in pairs if path.startswith(counter)]
    counts = [
        int(value)
        for path, value in errors
        if ("uncorrectable" in path or path.endswith("double_bit.total")) and re.fullmatch("[0-9]{1,18}", value)
    ]
    return sum(counts) if counts else None
