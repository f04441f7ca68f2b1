"""Names of GPUs: one key for the many spellings of a name.

"NVIDIA GeForce RTX 5090 Laptop GPU", "rtx5090 mobile" and "GeForce RTX 5090 Max-Q / Mobile" are one GPU.
"""

from __future__ import annotations

import re

_VENDOR = {"nvidia", "amd", "ati", "corporation", "advanced", "micro", "devices", "inc", "graphics", "card", "gpu"}
_BRAND = {"geforce", "quadro", "tesla", "grid", "radeon", "instinct", "tm", "r"}
_TIER = {"rtx", "gtx", "gts", "gt", "rx", "pro", "generation", "edition"}
_DETAIL = {
    *("pcie", "sxm", "sxm2", "sxm3", "sxm4", "sxm5", "sxm6", "nvl", "oam", "hbm2", "hbm2e", "hbm3", "hbm3e", "gddr6"),
    *("gddr6x", "mig", "lhr", "oem", "ada", "blackwell", "workstation", "server", "mobile", "ac", "dgxs", "fhhl"),
    *("vf", "hgx", "nvgpu", "embedded", "sff", "cnx", "refresh", "cec", "pascal", "edition", "generation"),
}
_MEMORY = r"\d+(?:gb|g)$|\d+g\.\d+gb$"
_VGPU = r"(?:(?<=[ahv]\d00)[dlmx]{1,2})?(?:-\d)?-\d+(?P<series>[qcba])(?:me|\d)?$"
"""The type of a vGPU, at the end of its name: letters of the board, MIG slices, gigabytes, series, media engines or
screens ("V100DX-32Q", "A100-1-5CME", "T4-2B4")."""


def words(name: str) -> list[str]:
    """A name in lower-case words; every form of "laptop" becomes the word mobile."""
    text = re.sub(_VGPU, "", name.lower().strip())
    text = re.sub(r"(?:with )?max-q(?: design)?|max q|laptop|mobile|notebook", " mobile ", text)
    text = re.sub(r"lite hash rate", " lhr ", text)
    text = re.sub(r"(\d) (gb)\b", r"\1\2", text)
    found: list[str] = []
    for word in re.split(r"[^a-z0-9.]+", text.replace("™", " ").replace("®", " ")):
        if word and not (word == "mobile" and "mobile" in found):
            found.append(word)
    return found


def vgpu_series(name: str) -> str | None:
    """The series of a vGPU: "C" of "GRID A100-10C"; None for the name of a whole GPU."""
    found = re.search(_VGPU, name.lower().strip())
    return found["series"].upper() if found else None


def branded(name: str) -> bool:
    """Whether a name has its product line: GeForce, Quadro, Radeon ..."""
    return not _BRAND.isdisjoint(words(name))


def figure_only(name: str) -> bool:
    """Whether a name has neither line nor tier: "4090"."""
    return (_BRAND | _TIER).isdisjoint(words(name))


def short_key(name: str) -> str:
    """Without the brand: "rtx5090"."""
    return "".join(word for word in words(name) if word not in _VENDOR | _BRAND and word != "generation")


def bare_key(name: str) -> str:
    """The number alone, without brand and tier: "5090", "6700xt"."""
    return "".join(word for word in words(name) if word not in _VENDOR | _BRAND | _TIER)


def loose_key(name: str) -> str:
    """Without memory size, form factor and generation too: "h100" for "H100 80GB HBM3"."""
    kept = [word for word in words(name) if word not in _VENDOR | _BRAND | _DETAIL]
    return "".join(word for word in kept if not re.match(_MEMORY, word))


def alternatives(name: str) -> tuple[str, ...]:
    """The single names in a combined one: "Radeon RX 6700/6700 XT" gives RX 6700 and RX 6700 XT."""
    if "/" not in name:
        return (name,)
    pieces = [piece.strip() for piece in name.split("/")]
    found: list[str] = []
    lead: list[str] = []
    for piece in pieces:
        part = piece.split()
        if not part or re.match(_MEMORY, part[0].lower()):
            continue
        if re.match(r"\d", part[0]) and lead:
            part = [*lead, *part]
        elif any(word.lower() in _TIER for word in part):
            lead = part[: max(index for index, word in enumerate(part) if word.lower() in _TIER) + 1]
        found.append(" ".join(part))
    return (name, *found)
