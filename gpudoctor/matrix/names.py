"""Names of GPUs: one key for the many spellings of a name.

"NVIDIA GeForce RTX 5090 Laptop GPU", "rtx5090 mobile" and "GeForce RTX 5090 Max-Q / Mobile" are one GPU.
"""

from __future__ import annotations

import re
from functools import lru_cache

from gpudoctor.machine import Vendor

_VENDOR = {"nvidia", "amd", "ati", "corporation", "advanced", "micro", "devices", "inc", "graphics", "card", "gpu"}
_BRAND = {"geforce", "quadro", "tesla", "grid", "radeon", "instinct", "tm", "r"}
_TIER = {"rtx", "gtx", "gts", "gt", "rx", "pro", "generation", "edition"}
_DETAIL = {
    *("pcie", "sxm", "sxm2", "sxm3", "sxm4", "sxm5", "sxm6", "nvl", "oam", "hbm2", "hbm2e", "hbm3", "hbm3e", "gddr6"),
    *("gddr6x", "mig", "lhr", "oem", "ada", "blackwell", "workstation", "server", "mobile", "ac", "dgxs", "fhhl"),
    *("vf", "hgx", "nvgpu", "embedded", "sff", "cnx", "refresh", "cec", "pascal", "edition", "generation"),
    *("series", "fe", "founders", "ls", "mcm", "mba", "nvl36", "nvl72", "developer", "kit", "superchip", "grace"),
    *("accelerator", "kepler", "maxwell", "volta", "turing", "ampere", "lovelace", "hopper"),
}
_MEMORY = r"\d+(?:gb|g)$|\d+g\.\d+gb$"
_VGPU = r"(?:(?<=[ahv]\d00)[dlmx]{1,2})?(?:-\d)?-(?:\d{1,2}(?=[qcba])|\d{3}(?=[qc]))(?P<series>[qcba])(?:me|\d)?$"
"""The type of a vGPU, at the end of its name: letters of the board, MIG slices, gigabytes, series, media engines or
screens ("V100DX-32Q", "A100-1-5CME", "T4-2B4")."""


@lru_cache(maxsize=8192)  # every key of a name begins with its words
def words(name: str) -> tuple[str, ...]:
    """A name in lower-case words; every form of "laptop" becomes the word mobile."""
    text = re.sub(_VGPU, "", name.lower().strip())
    text = re.sub(r"(?:with )?max-q(?: design)?|max q|laptop|mobile|notebook", " mobile ", text)
    text = re.sub(r"(nvidia|geforce|quadro|tesla|radeon|instinct)(?=[a-z]*\d)", r"\1 ", text)
    text = re.sub(r"lite hash rate", " lhr ", text)
    text = re.sub(r"(\d) (gb)\b", r"\1\2", text)
    found: list[str] = []
    for word in re.split(r"[^a-z0-9.]+", text.replace("™", " ").replace("®", " ")):
        if word and not (word == "mobile" and "mobile" in found):
            found.append(word)
    return tuple(found)


def product(name: str) -> str:
    """The product in a line of lspci: of "GA102 [GeForce RTX 3090] (rev a1)" what the last brackets hold."""
    brackets = re.findall(r"\[([^\[\]]*\d[^\[\]]*)\]", re.sub(r"\[[0-9a-fA-F]{4}:[0-9a-fA-F]{4}\]", "", name))
    return brackets[-1] if brackets else name


def exact_key(name: str) -> str:
    """All words but the maker's, in any order: "A100 80GB PCIe" and "A100-PCIE-80GB" are one product."""
    return " ".join(sorted(word for word in words(name) if word not in _VENDOR))


def brands(name: str) -> set[str]:
    """The product lines that a name tells: GeForce, Quadro, Radeon ..."""
    return _BRAND.intersection(words(name))


def vgpu_series(name: str) -> str | None:
    """The series of a vGPU: "C" of "GRID A100-10C"; None for the name of a whole GPU."""
    found = re.search(_VGPU, name.lower().strip())
    return found["series"].upper() if found else None


def figure_only(name: str) -> bool:
    """Whether a name has neither line nor tier: "4090". Of a Radeon the tier alone is left out: "Radeon 7900 XT"."""
    return ((_BRAND - {"radeon"}) | _TIER).isdisjoint(words(name))


def short_key(name: str) -> str:
    """Without the brand: "rtx5090"."""
    return "".join(word for word in words(name) if word not in _VENDOR | _BRAND and word != "generation")


def bare_key(name: str) -> str:
    """The number alone, without brand and tier: "5090", "6700xt"."""
    return "".join(word for word in words(name) if word not in _VENDOR | _BRAND | _TIER)


def loose_key(name: str) -> str:
    """Without memory size, form factor and generation too: "h100" for "H100 80GB HBM3"."""
    return "".join(telling(name))


def unordered_key(name: str) -> str:
    """The same words in any order: "RTX 6000 Pro" is RTX PRO 6000."""
    return " ".join(sorted(telling(name)))


def telling(name: str) -> list[str]:
    """The words that tell one product from another."""
    kept = [word for word in words(name) if word not in _VENDOR | _BRAND | _DETAIL]
    return [word for word in kept if not re.match(_MEMORY, word)]


def says_nothing(name: str) -> bool:
    """Whether a name tells no product: "AMD Radeon Graphics", "GeForce RTX"."""
    return _TIER.issuperset(telling(name))


def parts(name: str) -> tuple[str, ...]:
    """Shorter forms of a name, the longest first, down to a product line and a number: a board's maker calls it "MSI
    RTX 3090 Gaming"."""
    said = words(name)
    lengths = ((length, start) for length in range(len(said) - 1, 0, -1) for start in range(len(said) - length + 1))
    found = (said[start : start + length] for length, start in lengths)
    return tuple(
        " ".join(some)
        for some in found
        if not (_BRAND | _TIER).isdisjoint(re.match(r"[a-z]*", word)[0] for word in some)  # type: ignore[index]
        and any(character.isdigit() for word in some for character in word)
    )


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


def has_number(key: str, asked: str) -> bool:
    """Whether a name has the number that a person gave: 1060, 7900xtx, gtx1060."""
    return (
        re.search(r"\d{3,4}[a-z]{0,3}$", asked) is not None
        and re.search(rf"(?<!\d){asked}(?!\d(?!\d?gb))", key) is not None
    )


def resemble(asked: str, key: str) -> bool:
    """Whether two keys have similar numbers, and similar letters if both have any."""
    from difflib import SequenceMatcher

    numbers, letters = ((re.sub(other, "", asked), re.sub(other, "", key)) for other in (r"\D", r"\d"))
    alike = SequenceMatcher(None, *numbers).ratio() >= 0.75
    return alike and (not all(letters) or SequenceMatcher(None, *letters).ratio() >= 0.5)


def maker(text: str) -> Vendor | None:
    """The maker that a name implies."""
    lower = text.lower()
    if re.search(r"nvidia|geforce|quadro|tesla", lower):
        return "nvidia"
    # Its name weighs more than a line of products, which people mix up: "AMD RTX 580".
    if re.search(r"\b(?:amd|ati)\b(?! (?:ryzen|epyc|threadripper|athlon))|radeon|instinct", lower):
        return "amd"
    if re.search(r"\b[rg]tx", lower):
        return "nvidia"
    return "amd" if re.search(r"\bamd\b|\brx", lower) else None
