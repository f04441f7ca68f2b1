"""GPUs in the output of rocm-smi and amd-smi: their JSON, their lists, and their tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from gpudoctor.host import Host
from gpudoctor.machine import Fact, SmiGpu, known, unknown
from gpudoctor.probes.pci_address import normal_address

TOOLS = ("amd-smi", "rocm-smi")

# Names of one value in the tools' releases, without spaces and in lower case; the first that is there counts.
_DEVICE = ("deviceid", "device_id", "gpuid", "did", "cardmodel")
_REVISION = ("devicerev", "rev_id", "revisionid")
_BUS = ("bdf", "pcibus", "bus")
_GFX = ("gfxversion", "target_graphics_version")
_PRODUCT = ("market_name", "cardseries", "devicename", "product_name", "gpu-name")
_BYTES = ("vramtotalmemory(b)",)
_SIZE = ("size",)
_UNITS = {"": 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_MOST_GPUS = 1024


def recorded_smi(host: Host) -> Fact[tuple[SmiGpu, ...]]:
    """The GPUs that a recording's amd-smi or rocm-smi shows. Unknown if neither was recorded or shows one."""
    missing = unknown("neither amd-smi nor rocm-smi was recorded")
    for tool in TOOLS:
        result = host.run((tool,), 0)
        if result.value is None:
            continue
        gpus = parse_smi(result.value.stdout)
        if gpus:
            return known(gpus, result.source)
        missing = unknown("nothing in its output names a GPU", result.source)
    return missing


def parse_smi(text: str) -> tuple[SmiGpu, ...]:
    """The GPUs of an output in any of the tools' forms; none if it is an error text or garbage."""
    blocks = _of_json(text) or _of_lists(text) or _of_lines(text) or _of_tables(text)
    gpus = (_gpu(block) for block in blocks[:_MOST_GPUS])
    return tuple(gpu for gpu in gpus if gpu != SmiGpu())


def _gpu(block: Mapping[str, str]) -> SmiGpu:
    device = re.match(r"(?:0x)?([0-9a-f]{4})\b", _first(block, _DEVICE).lower())
    revision = re.match(r"(?:0x)?([0-9a-f]{1,2})\b", _first(block, _REVISION).lower())
    gfx = re.match(r"gfx[0-9a-f]{3,4}\b", _first(block, _GFX).lower())
    product = _first(block, _PRODUCT).removeprefix("...")  # amd-smi's table leaves out the beginning
    return SmiGpu(
        product="" if re.match(r"N/A|0x", product) else product,
        pci_id=f"1002:{device[1]}" if device else None,
        revision=revision[1].zfill(2) if revision else None,
        bdf=normal_address(_first(block, _BUS)),
        gfx=gfx[0] if gfx else None,
        memory=_bytes(_first(block, _BYTES) or _first(block, _SIZE)),
    )


def _first(block: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((block[name] for name in names if block.get(name, "N/A") != "N/A"), "")


def _bytes(text: str) -> int | None:
    size = re.match(r"(\d{1,15})\s*([KMG]?B)?$", text)
    return int(size[1]) * _UNITS[size[2] or ""] if size else None


def _key(name: str) -> str:
    return re.sub(r"\s+", "", name).lower()


# --- forms -----------------------------------------------------------------------------------------


def _of_json(text: str) -> list[dict[str, str]]:
    """rocm-smi: {"card0": {...}}; amd-smi: [{"gpu": 0, "asic": {...}}] or {"gpu_data": [...]}. A document that is cut
    off counts as far as it goes."""
    start = re.search(r"[\[{]", text)
    if start is None or text[: start.start()].strip():
        return []
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _blocks(text, r'\s*"card\d+": \{', r'\s*"([^"]{1,100})": "([^"]{0,300})"')
    if isinstance(document, dict):
        cards = [value for name, value in document.items() if re.fullmatch(r"card\d+", name)]
        document = cards or document.get("gpu_data") or [document]
    blocks = document if isinstance(document, list) else []
    return [dict(_flat(block)) for block in blocks if isinstance(block, dict)]


def _blocks(text: str, head: str, pair: str) -> list[dict[str, str]]:
    """The keys and values of lines that match `pair`, below each line that matches `head`."""
    blocks: list[dict[str, str]] = []
    for line in text.split("\n"):
        if re.match(head, line):
            blocks.append({})
        elif blocks and (found := re.match(pair, line)):
            blocks[-1].setdefault(_key(found[1]), found[2])
    return blocks


def _flat(block: Mapping[str, Any], depth: int = 0) -> Iterator[tuple[str, str]]:
    """The values of nested objects by their own names; {"value": 196592, "unit": "MB"} is one value."""
    for name, value in block.items():
        if not isinstance(value, dict):
            yield _key(name), str(value)[:300]
        elif "value" in value and "unit" in value:
            yield _key(name), f"{value['value']} {value['unit']}"[:300]
        elif depth < 3:
            yield from _flat(value, depth + 1)


def _of_lists(text: str) -> list[dict[str, str]]:
    """amd-smi list and static: "GPU: 0", then indented "KEY: VALUE" lines."""
    blocks = _blocks(text, r"GPU: \d+\s*$", r"\s*([A-Z_]{2,40}): (.{0,300})")
    return [{key: value.strip() for key, value in block.items()} for block in blocks]


def _of_lines(text: str) -> list[dict[str, str]]:
    """rocm-smi --showproductname and others: "GPU[0]\t\t: Card Series: \t\tNavi 21"."""
    blocks: dict[str, dict[str, str]] = {}
    for number, name, value in re.findall(r"^GPU\[(\d{1,4})\]\s*: ([^:\n]{1,60}):[ \t]*(.{0,300})$", text, re.M):
        blocks.setdefault(number, {}).setdefault(_key(name), value.strip())
    return list(blocks.values())


def _of_tables(text: str) -> list[dict[str, str]]:
    """rocm-smi's concise table and --showhw, and the table that amd-smi prints without a command."""
    hardware = re.findall(
        r"^\d+\s+(?:\d+\s+)?(?:0x)?([0-9a-f]{4})\s(?:.{0,40}?(gfx[0-9a-f]{3,4})\s)?.*\s([0-9a-f]{4}:[0-9A-Fa-f:.]{7})(?:\s+\d+)?\s*$",
        text,
        re.M,
    )
    if hardware:
        return [{"did": device, "gfxversion": gfx, "bus": bus} for device, gfx, bus in hardware]
    concise = re.findall(r"^\d+\s+\d+\s+0x([0-9a-f]{4}),\s+\d+\s", text, re.M)
    if concise:
        return [{"did": device} for device in concise]
    rows = re.findall(
        r"^\|[ \t]+([0-9a-f]{4}:[0-9a-f:.]{7})[ \t]+([^|\s][^|\n]{0,200})\|.*\n\|.{0,200}?\d{1,9}/(\d{1,9}) MB",
        text,
        re.M,
    )
    return [{"bus": bus, "gpu-name": name.rstrip(), "size": f"{size} MB"} for bus, name, size in rows]
