"""The answer to nvidia-smi --query-gpu=... --format=csv, with its heading or without."""

from __future__ import annotations

import re

from gpudoctor.late_regex import late
from gpudoctor.machine import NvmlDevice
from gpudoctor.probes.nvidia_smi.values import LOST, mib, some
from gpudoctor.probes.pci_address import normal_address

_COLUMNS = {"name", "uuid", "driver_version", "pci.bus_id", "index", "compute_cap", "memory.total", "memory.used"}
_OTHER_NAMES = {"gpu_name": "name", "gpu_uuid": "uuid", "gpu_bus_id": "pci.bus_id"}
_OPTION = late(r"^.*--query-gpu=|\s--\S+.*$")
"""What stands around the columns in the command itself."""
_ASKED_BY = late(r"^- Accelerator: ")
"""What diffusers-cli writes before the first line of nvidia-smi's answer."""
_CSV = late(
    r"(?:^|, |Accelerator: )(?:NVIDIA|GeForce|Tesla|Quadro|TITAN)\b[^,]{1,60}(?:,|$)"
    r"|driver_version|memory\.total|pci\.bus_id|compute_cap|gpu_name"
)
"""What stands in one of its lines; quick to look for."""
_CELLS = (
    ("name", late(r"(?:NVIDIA|GeForce|Tesla|Quadro|TITAN)\b[\w .()/-]{1,60}")),
    ("uuid", late(r"GPU-[0-9a-f-]{4,40}")),
    ("pci.bus_id", late(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d")),
    ("driver_version", late(r"[3-9]\d{2}\.\d{2,3}\.\d{2}")),
    ("memory.total", late(r"\d{3,7} MiB")),
    ("compute_cap", late(r"\d{1,2}\.\d")),
)
"""What a cell holds tells its column, where the heading was left out."""
_SHORT_DRIVER = late(r"[3-9]\d{2}\.\d{2,3}")
"""A driver's version, or watts where the units were left out, too."""
_FEW_CELLS = 3


def from_csv(text: str) -> tuple[NvmlDevice, ...] | None:
    """`--query-gpu=... --format=csv`, with its heading or without."""
    found: list[NvmlDevice] = []
    for row in csv_rows(text):
        index, capability = row.get("index", ""), row.get("compute_cap", "")
        lost = next((cell.strip("[]") for cell in row.values() if cell.strip("[]") in LOST), "")
        found.append(
            NvmlDevice(
                index=int(index) if re.fullmatch("[0-9]{1,9}", index) else len(found),
                name=some(row.get("name")) or "" if not lost else "",
                bdf=normal_address(row.get("pci.bus_id", "")) or "",
                uuid=some(row.get("uuid")) or "",
                capability=capability if re.fullmatch(r"\d+\.\d", capability) else None,
                memory=mib(row.get("memory.total")),
                memory_used=mib(row.get("memory.used")),
                lost=bool(lost),
                why=lost,
            )
        )
    return tuple(found) or None


def csv_rows(text: str) -> list[dict[str, str]]:
    """The rows of all such answers in a text, by column."""
    header: list[str] = []
    rows: list[dict[str, str]] = []
    for line in text.splitlines():
        if "," not in line:
            continue
        if columns := _csv_header(line):
            header = columns
            continue
        cells = [cell.strip() for cell in _ASKED_BY.sub("", line).split(",")]
        row = dict(zip(header, cells, strict=True)) if len(cells) == len(header) else _told_by_cells(cells)
        if row and "pid" not in header:
            rows.append(row)
    return rows


def _csv_header(line: str) -> list[str]:
    """The columns that a heading, or the command, names; none if the line is neither."""
    named = [cell.partition("[")[0].strip() for cell in _OPTION.sub("", line).split(",")]
    header = [_OTHER_NAMES.get(name, name) for name in named]
    return header if len(_COLUMNS.intersection(header)) > 1 and len(header) == len(set(header)) else []


def _told_by_cells(cells: list[str]) -> dict[str, str]:
    row: dict[str, str] = {}
    for cell in cells:
        for column, pattern in _CELLS:
            if column not in row and pattern.fullmatch(cell):
                row[column] = cell
                break
    units = "memory.total" in row or len(cells) <= _FEW_CELLS
    if "driver_version" not in row and units and (short := list(filter(_SHORT_DRIVER.fullmatch, cells))):
        row["driver_version"] = short[0]
    if re.fullmatch(r"\d{1,3}", cells[0]):
        row["index"] = cells[0]
    # A name with a capability alone may be of a list of products.
    return row if "name" in row and len(set(row) - {"index", "compute_cap"}) > 1 else {}


def is_csv(line: str) -> bool:
    """Whether it is the heading of such an answer, its command, or a line that tells its columns by itself."""
    return _CSV.search(line) is not None and bool(
        _csv_header(line) or _told_by_cells([cell.strip() for cell in _ASKED_BY.sub("", line).split(",")])
    )
