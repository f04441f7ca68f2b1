"""Parses nvidia-smi's output in any of its forms: table, -q, -q -x, -L, CSV; and its failures."""

from __future__ import annotations

import re

from gpudoctor.machine import NvidiaApi, NvmlDevice
from gpudoctor.probes.nvidia_smi.csv import csv_rows, from_csv
from gpudoctor.probes.nvidia_smi.full_query import from_query, from_xml
from gpudoctor.probes.nvidia_smi.listing import from_list
from gpudoctor.probes.nvidia_smi.table import from_table
from gpudoctor.probes.pci_address import normal_address

# NVML's codes for what nvidia-smi says when it fails.
_FAILURES = (
    ("Driver/library version mismatch", 18),
    ("couldn't communicate with the NVIDIA driver", 9),
    ("Driver Not Loaded", 9),
    ("Insufficient Permissions", 4),
    ("GPU access blocked by the operating system", 17),
    ("GPU is lost", 15),
    ("Shared Library Not Found", 12),
    ("couldn't find libnvidia-ml.so", 12),
    ("Unknown Error", 999),
    ("Failed to initialize NVML", 999),
    ("NVIDIA-SMI has failed", 999),
)


def parse_smi(text: str, errors: str = "") -> NvidiaApi | None:
    """One answer from any output of nvidia-smi; None if nothing in it is nvidia-smi's. `status` is NVML's code of the
    failure it reports, 0 if it listed GPUs or found none."""
    driver, cuda = _versions(text)
    for parse in (from_xml, from_query, from_table, from_csv, from_list):
        devices = parse(text)
        if devices is not None:
            lost = _lost(text + "\n" + errors, devices)
            return NvidiaApi(
                0, library="nvidia-smi", driver_version=driver, cuda_version=cuda, devices=devices + lost
            )
    both = f"{text}\n{errors}"
    alone = _lost(both, ())
    if alone:
        return NvidiaApi(0, library="nvidia-smi", driver_version=driver, cuda_version=cuda, devices=alone)
    for sign, status in _FAILURES:
        if sign in both:
            line = next(line.strip() for line in both.splitlines() if sign in line)
            return NvidiaApi(status, message=line[:300], library="nvidia-smi", driver_version=driver)
    if "No devices were found" in both:
        return NvidiaApi(0, message="No devices were found", library="nvidia-smi", devices=())
    return NvidiaApi(0, library="nvidia-smi", driver_version=driver, cuda_version=cuda) if driver else None


def _versions(text: str) -> tuple[str | None, str | None]:
    driver = re.search(
        r"(?:(?<!Guest )Driver Version\s*:|DRIVER version\s*:|<driver_version>)\s*(\d{3}\.[\d.]+\d)", text
    )
    cuda = re.search(r"(?:CUDA Version\s*:|<cuda_version>)\s*(\d+\.\d+)", text)
    columns = (row.get("driver_version", "") for row in csv_rows(text))
    return (driver[1] if driver else next(columns, None) or None, cuda[1] if cuda else None)


def _lost(text: str, known: tuple[NvmlDevice, ...]) -> tuple[NvmlDevice, ...]:
    found = re.finditer(
        r"Unable to determine the device handle for (?:GPU ?\d{0,4}:? ?)?([0-9A-Fa-f:.]{7,16}): ([^\n]+)", text
    )
    addresses = {normal_address(line[1]) or "": line[2].strip() for line in found}
    listed = {device.bdf for device in known}
    new = [(bdf, why) for bdf, why in addresses.items() if bdf and bdf not in listed]
    return tuple(NvmlDevice(index=len(known) + n, bdf=bdf, lost=True, why=why) for n, (bdf, why) in enumerate(new))
