"""The table that nvidia-smi prints without options."""

from __future__ import annotations

import re

from gpudoctor.late_regex import late
from gpudoctor.machine import MigDevice, NvmlDevice
from gpudoctor.probes.nvidia_smi.listing import slices_by_gpu
from gpudoctor.probes.nvidia_smi.values import LOST, MIB, compute_mode
from gpudoctor.probes.pci_address import normal_address

_ROW = late(
    r"^\|[ \t]*(\d{1,9})[ \t]+([^|\s][^|\n]{0,200})\|[ \t]*([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)"
    r"[^|\n]*\|([^|\n]*)\|",
    re.MULTILINE,
)
_PERSISTENCE = late(r"\s(?:On|Off|N/A|ERR!|TCC|WDDM|MCDM)$")
"""What stands behind the name, in the same cell."""


def from_table(text: str) -> tuple[NvmlDevice, ...] | None:
    """The GPUs of the table; None if the text is none."""
    if "| NVIDIA-SMI" not in text:
        return None
    body = text[text.index("| NVIDIA-SMI") :]
    body = body[: body.find("| NVIDIA-SMI", 1)] if body.find("| NVIDIA-SMI", 1) > 0 else body
    slices = {**_slices_in_table(body), **dict(slices_by_gpu(text))}
    rows = list(_ROW.finditer(body))
    found = []
    for row, following in zip(rows, [*rows[1:], None], strict=False):
        name, ecc = _PERSISTENCE.sub("", row[2].strip()).strip(), row[4].strip()
        rest = body[row.end() : following.start() if following else len(body)].splitlines()[1:3]
        used, total, mode = _second_line(rest[0] if rest else "")
        mig = re.search(r"\|\s*(Enabled|Disabled)(\*?)\s*\|\s*$", rest[1]) if len(rest) > 1 else None
        mig_pending = mig[1] == "Enabled" if mig else None
        cells = "\n".join((row[0], *rest))
        lost = next((sign for sign in LOST if sign in cells), "")
        found.append(
            NvmlDevice(
                index=int(row[1]),
                name="" if name == "ERR!" else name,
                bdf=normal_address(row[3]) or "",
                memory=total,
                memory_used=used,
                compute_mode=compute_mode(mode),
                mig=mig_pending != bool(mig[2]) if mig else None,  # the star: so it will be after a reset
                mig_pending=mig_pending,
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
        found[int(row[1])] = (*found.get(int(row[1]), ()), MigDevice(memory=int(row[2]) * MIB))
    return found


def _second_line(line: str) -> tuple[int | None, int | None, str]:
    sizes = re.search(r"\b(\d{1,9})\s*MiB\s*/\s*(\d{1,9})\s*MiB", line)
    mode = re.search(r"(Default|E\. ?Process|E\. ?Thread|Prohibited)\s*\|", line)
    used, total = (int(sizes[1]) * MIB, int(sizes[2]) * MIB) if sizes else (None, None)
    return used, total, mode[1] if mode else ""
