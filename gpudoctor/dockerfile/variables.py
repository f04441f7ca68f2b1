"""Variables in a Dockerfile: `$NAME`, `${NAME}`, `${NAME:-default}`, `${NAME:+other}`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpudoctor.dockerfile.bounds import Bounds
from gpudoctor.machine import VISIBILITY

OVERRIDE = re.compile(r"HSA_OVERRIDE_GFX_VERSION(_\d+)?$")
_REFERENCE = re.compile(
    r"\\(.)|\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)(?:(:?[-+?])((?:[^{}$]|\$\w+|\$\{\w+\})*))?\}|\{[^}]*\}?)"
)
_NAMED = re.compile(r"\$\{?(\w+)(?:[^}$]*\})?")


def expanded(text: str, known: Mapping[str, str], bounds: Bounds) -> str | None:
    """The text with every variable replaced by its value; None if a variable is unknown."""
    result = partly_expanded(text, known, bounds)
    return None if "$" in result else result


def partly_expanded(text: str, known: Mapping[str, str], bounds: Bounds) -> str:
    """The text with the known variables replaced by their values; the others stay as written."""
    if "$" not in text and "\\" not in text:
        return text

    def value(match: re.Match[str]) -> str:
        if match[1] is not None:
            return match[1] if match[1] == "$" else match[0]
        name = match[2] or match[3]
        if name is None:
            return match[0]
        operator, word = match[4] or "", match[5] or ""
        is_set = name in known and (known[name] != "" or not operator.startswith(":"))
        if operator.endswith("-") and not is_set:
            return partly_expanded(word, known, bounds)
        if operator.endswith("+"):
            return partly_expanded(word, known, bounds) if is_set else ""
        if name not in known:
            return match[0]
        bounds.expanded.spend(len(known[name]))
        return known[name]

    return _REFERENCE.sub(value, text)


NO_GPU = ("", "void", "none")
"""The values of NVIDIA_VISIBLE_DEVICES, which is for the container toolkit, with which it gives no GPU."""

HIDING: dict[str, tuple[str, ...]] = {
    "CUDA_VISIBLE_DEVICES": ("", "-1", "none", "NoDevFiles"),
    "HIP_VISIBLE_DEVICES": ("-1",),
    "ROCR_VISIBLE_DEVICES": ("-1",),
}
"""The values with which they hide every GPU on purpose. HIP and ROCr take an empty one as unset."""

OVERRIDE_CUDA = "CONDA_OVERRIDE_CUDA"
"""Tells conda which CUDA the driver will support."""
OF_THE_MACHINE = "machine"
"""Its value for a list of packages: conda runs where the driver is. What pixi takes only its manifest tells."""

OF_PROGRAMS = (*VISIBILITY, "HSA_OVERRIDE_GFX_VERSION", "LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONPATH")
"""Variables that decide what a started program sees, and that start scripts set."""


def slip_in_devices(value: str) -> str:
    """Why a value of such a variable that is meant to show GPUs shows none; "" for any other value. CUDA, HIP and
    ROCr read numbers and UUIDs, and stop at the first entry that is neither."""
    first = value.split(",", maxsplit=1)[0].strip()
    if first[:1] in ("'", '"'):
        return "its quotes are part of the value"
    if re.fullmatch(r"all|gpus?|(gpu|cuda|nvidia):?\d*", first, re.IGNORECASE):
        return f"{first} is neither a number nor a UUID"
    return ""


def without(text: str, name: str) -> str:
    """The text without its references to one variable."""
    return _NAMED.sub(lambda found: "" if found[1] == name else found[0], text)
