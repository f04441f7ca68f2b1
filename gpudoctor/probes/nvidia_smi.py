"""Parses nvidia-smi's output in any of its forms: table, -q, -q -x, -L, CSV; and its failures."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from gpudoctor.machine import FabricState, MigDevice, NvidiaApi, NvmlDevice, Virtualization
from gpudoctor.probes.nvidia_smi_board import smi_board
from gpudoctor.probes.pci import normal_bdf

_MIB = 1 << 20
_LOST = ("GPU is lost", "GPU requires reset")
Pairs = list[tuple[str, str]]
"""(path, value) in the order printed: ("fb_memory_usage.total", "23028 MiB")."""

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
    for parse in (_from_xml, _from_query, _from_table, _from_csv, _from_list):
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
    columns = (row.get("driver_version", "") for row in _csv_rows(text))
    return (driver[1] if driver else next(columns, None) or None, cuda[1] if cuda else None)


def _lost(text: str, known: tuple[NvmlDevice, ...]) -> tuple[NvmlDevice, ...]:
    """GPUs that nvidia-smi could not open."""
    found = re.finditer(
        r"Unable to determine the device handle for (?:GPU ?\d{0,4}:? ?)?([0-9A-Fa-f:.]{7,16}): ([^\n]+)", text
    )
    addresses = {normal_bdf(line[1]): line[2].strip() for line in found}
    listed = {device.bdf for device in known}
    new = [(bdf, why) for bdf, why in addresses.items() if bdf and bdf not in listed]
    return tuple(NvmlDevice(index=len(known) + n, bdf=bdf, lost=True, why=why) for n, (bdf, why) in enumerate(new))


# --- -q and -q -x ----------------------------------------------------------------------------------


_DEEPEST = 10
"""Tags within tags; nvidia-smi writes some six."""


def _from_xml(text: str) -> tuple[NvmlDevice, ...] | None:
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


def _from_query(text: str) -> tuple[NvmlDevice, ...] | None:
    start = text.find("NVSMI LOG")
    if start < 0:
        return None
    body = text[start : text.find("NVSMI LOG", start + 1)] if text.find("NVSMI LOG", start + 1) > 0 else text[start:]
    pieces = re.split(r"^GPU ([0-9A-Fa-f:.]{7,16})[ \t]*$", body, flags=re.MULTILINE)
    names = dict(_slices_by_gpu(text))
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
    lost = [value for _, value in pairs if value in _LOST]
    return NvmlDevice(
        index=index,
        name=first.get("product_name", ""),
        bdf=normal_bdf(address),
        uuid=_some(first.get("gpu_uuid") or first.get("uuid")) or "",
        pci_id=_pci_id(first.get("pci.device_id") or first.get("pci.pci_device_id")),
        memory=_mib(first.get("fb_memory_usage.total")),
        memory_used=_mib(first.get("fb_memory_usage.used")),
        compute_mode=_compute_mode(first.get("compute_mode")),
        processes=compute_processes if any("process" in path for path in first) else None,
        mig=_switch(first.get("mig_mode.current") or first.get("mig_mode.current_mig")),
        mig_devices=_slices(pairs, profiles),
        ecc_uncorrectable=_uncorrectable(pairs, "volatile"),
        ecc_uncorrectable_ever=_uncorrectable(pairs, "aggregate"),
        remap_failed=_switch(
            first.get("remapped_rows.remapping_failure_occurred") or first.get("remapped_rows.remapped_row_failure")
        ),
        remap_pending=_switch(first.get("remapped_rows.pending") or first.get("remapped_rows.remapped_row_pending")),
        fabric=_fabric(first.get("fabric.state")),
        virtualization=_virtualization(first.get("gpu_virtualization_mode.virtualization_mode")),
        licensed=_licensed(first),
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
            memory[-1] = _mib(value)
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


# --- the table -------------------------------------------------------------------------------------

_ROW = re.compile(
    r"^\|[ \t]*(\d{1,9})[ \t]+([^|\s][^|\n]{0,200})\|[ \t]*([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)"
    r"[^|\n]*\|([^|\n]*)\|",
    re.MULTILINE,
)
_PERSISTENCE = re.compile(r"\s(?:On|Off|N/A|ERR!|TCC|WDDM|MCDM)$")
"""What stands behind the name, in the same cell."""


def _from_table(text: str) -> tuple[NvmlDevice, ...] | None:
    if "| NVIDIA-SMI" not in text:
        return None
    body = text[text.index("| NVIDIA-SMI") :]
    body = body[: body.find("| NVIDIA-SMI", 1)] if body.find("| NVIDIA-SMI", 1) > 0 else body
    slices = {**_slices_in_table(body), **dict(_slices_by_gpu(text))}
    rows = list(_ROW.finditer(body))
    found = []
    for row, following in zip(rows, [*rows[1:], None], strict=False):
        name, ecc = _PERSISTENCE.sub("", row[2].strip()).strip(), row[4].strip()
        rest = body[row.end() : following.start() if following else len(body)].splitlines()[1:3]
        used, total, mode = _second_line(rest[0] if rest else "")
        mig = re.search(r"\|\s*(Enabled\*?|Disabled\*?)\s*\|\s*$", rest[1]) if len(rest) > 1 else None
        cells = "\n".join((row[0], *rest))
        lost = next((sign for sign in _LOST if sign in cells), "")
        found.append(
            NvmlDevice(
                index=int(row[1]),
                name="" if name == "ERR!" else name,
                bdf=normal_bdf(row[3]),
                memory=total,
                memory_used=used,
                compute_mode=_compute_mode(mode),
                mig=mig[1].startswith("Enabled") if mig else None,
                mig_devices=slices.get(int(row[1]), ()),
                ecc_uncorrectable=int(ecc) if re.fullmatch("[0-9]{1,18}", ecc) else None,
                lost=bool(lost),
                why=lost,
            )
        )
    return tuple(found)


def _slices_in_table(body: str) -> dict[int, tuple[MigDevice, ...]]:
    """The table below the GPUs, "| GPU  GI  CI  MIG | Memory-Usage |": it has no names and no UUIDs."""
    found: dict[int, tuple[MigDevice, ...]] = {}
    _, _, below = body.partition("| MIG devices:")
    pattern = r"^\|\s*(\d{1,9})\s+\d+\s+\d+\s+\d+\s*\|\s*\d+\s*MiB\s*/\s*(\d{1,9})\s*MiB"
    for row in re.finditer(pattern, below, re.MULTILINE):
        found[int(row[1])] = (*found.get(int(row[1]), ()), MigDevice(memory=int(row[2]) * _MIB))
    return found


def _second_line(line: str) -> tuple[int | None, int | None, str]:
    sizes = re.search(r"\b(\d{1,9})\s*MiB\s*/\s*(\d{1,9})\s*MiB", line)
    mode = re.search(r"(Default|E\. ?Process|E\. ?Thread|Prohibited)\s*\|", line)
    used, total = (int(sizes[1]) * _MIB, int(sizes[2]) * _MIB) if sizes else (None, None)
    return used, total, mode[1] if mode else ""


# --- -L and CSV --------------------------------------------------------------------------------------


def _from_list(text: str) -> tuple[NvmlDevice, ...] | None:
    slices = dict(_slices_by_gpu(text))
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


def _slices_by_gpu(text: str) -> Iterable[tuple[int, tuple[MigDevice, ...]]]:
    """MIG slices of each GPU as -L lists them."""
    for gpu in re.finditer(r"^GPU (\d{1,9}): .*\n((?:\s+MIG .*(?:\n|$))+)", text, re.MULTILINE):
        lines = re.finditer(r"^\s+MIG (\S+)\s+Device\s+\d+: \(UUID: ([\w/-]+)\)", gpu[2], re.MULTILINE)
        yield int(gpu[1]), tuple(MigDevice(profile=line[1], uuid=line[2]) for line in lines)


_COLUMNS = {"name", "uuid", "driver_version", "pci.bus_id", "index", "compute_cap", "memory.total", "memory.used"}
_OTHER_NAMES = {"gpu_name": "name", "gpu_uuid": "uuid", "gpu_bus_id": "pci.bus_id"}
_OPTION = re.compile(r"^.*--query-gpu=|\s--\S+.*$")
"""What stands around the columns in the command itself."""
_ASKED_BY = re.compile(r"^- Accelerator: ")
"""What diffusers-cli writes before the first line of nvidia-smi's answer."""
_CSV = re.compile(
    r"(?:^|, |Accelerator: )(?:NVIDIA|GeForce|Tesla|Quadro|TITAN)\b[^,]{1,60}(?:,|$)"
    r"|driver_version|memory\.total|pci\.bus_id|compute_cap|gpu_name"
)
"""What stands in one of its lines; quick to look for."""
_CELLS = (
    ("name", re.compile(r"(?:NVIDIA|GeForce|Tesla|Quadro|TITAN)\b[\w .()/-]{1,60}")),
    ("uuid", re.compile(r"GPU-[0-9a-f-]{4,40}")),
    ("pci.bus_id", re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d")),
    ("driver_version", re.compile(r"[3-9]\d{2}\.\d{2,3}\.\d{2}")),
    ("memory.total", re.compile(r"\d{3,7} MiB")),
    ("compute_cap", re.compile(r"\d{1,2}\.\d")),
)
"""What a cell holds tells its column, where the heading was left out."""
_SHORT_DRIVER = re.compile(r"[3-9]\d{2}\.\d{2,3}")
"""A driver's version, or watts where the units were left out, too."""
_FEW_CELLS = 3


def _from_csv(text: str) -> tuple[NvmlDevice, ...] | None:
    """`--query-gpu=... --format=csv`, with its heading or without."""
    found: list[NvmlDevice] = []
    for row in _csv_rows(text):
        index, capability = row.get("index", ""), row.get("compute_cap", "")
        lost = next((cell.strip("[]") for cell in row.values() if cell.strip("[]") in _LOST), "")
        found.append(
            NvmlDevice(
                index=int(index) if re.fullmatch("[0-9]{1,9}", index) else len(found),
                name=_some(row.get("name")) or "" if not lost else "",
                bdf=normal_bdf(row.get("pci.bus_id", "")),
                uuid=_some(row.get("uuid")) or "",
                capability=capability if re.fullmatch(r"\d+\.\d", capability) else None,
                memory=_mib(row.get("memory.total")),
                memory_used=_mib(row.get("memory.used")),
                lost=bool(lost),
                why=lost,
            )
        )
    return tuple(found) or None


def _csv_rows(text: str) -> list[dict[str, str]]:
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


# --- values ------------------------------------------------------------------------------------------


def _some(value: str | None) -> str | None:
    return None if value is None or value.strip("[]") in ("", "N/A", "Not Supported") else value


def _mib(value: str | None) -> int | None:
    found = re.fullmatch(r"(\d{1,9})(?: MiB)?", value or "")
    return int(found[1]) * _MIB if found else None


def _switch(value: str | None) -> bool | None:
    return {"Enabled": True, "Yes": True, "Disabled": False, "No": False}.get(value or "")


def _compute_mode(value: str | None) -> Literal["default", "exclusive", "prohibited"] | None:
    if not value:
        return None
    if value == "Default":
        return "default"
    if value == "Prohibited":
        return "prohibited"
    return "exclusive" if value.startswith(("E.", "Exclusive")) else None


def _fabric(value: str | None) -> FabricState | None:
    states: dict[str, FabricState] = {
        "Completed": "completed",
        "In Progress": "in-progress",
        "Not Started": "not-started",
        "N/A": "not-supported",
    }
    return states.get(value or "")


def _virtualization(value: str | None) -> Virtualization | None:
    modes: dict[str, Virtualization] = {
        "none": "none",
        "pass-through": "pass-through",
        "vgpu": "vgpu",
        "host vgpu": "host-vgpu",
        "host vsga": "host-vsga",
    }
    return modes.get((value or "").lower())


def _licensed(first: dict[str, str]) -> bool | None:
    """ "Licensed (Expiry: ...)", "Unlicensed (Restricted)", "N/A"; older drivers name the product GRID."""
    products = ("vgpu_software_licensed_product", "grid_licensed_product")
    status = next((value for name in products if (value := first.get(f"{name}.license_status"))), "")
    return {"licensed": True, "unlicensed": False}.get(status.partition(" ")[0].lower())


def _pci_id(value: str | None) -> str | None:
    """ "0x232110DE" is device 2321 of vendor 10de."""
    found = re.fullmatch(r"(?:0x)?([0-9A-Fa-f]{4})(10[Dd][Ee])", value or "")
    return f"10de:{found[1].lower()}" if found else None
