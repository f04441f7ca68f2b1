"""Fields of rows that hold version specifiers or regular expressions, and what is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct, structs

from gpudoctor.matrix.versions import check_specifier

_SPECIFIERS = {
    "nvidia_kernel_limits": ("driver", "kernel"),
    "cudnn_floors": ("cudnn",),
    "amdgpu_dkms_limits": ("dkms", "kernel"),
    "amdgpu_dkms_systems": ("kernel",),
    "rocm_driver_window": ("rocm",),
    "hipblaslt_use": ("rocm",),
    "companions": ("torchvision_torch", "torchaudio_torch", "triton"),
    "stable_companions": ("torch",),
    "torch_dependents": ("version", "torch"),
    "runtime_libraries": ("version", "torch", "python"),
    "late_libraries": ("version",),
    "framework_builds": ("version",),
    "package_conflicts": ("version", "other_version"),
    "requirement_uses": ("version",),
    "framework_variables": ("version", "package_version"),
    "framework_flags": ("gone_from",),
    "torch_releases": ("triton",),
    "wheel_pages": ("torch",),
}
_PATTERNS = (
    "distribution", "requires", "pattern", "unless", "beside", "without", "spare", "library", "packages",
    "gone", "takes", "chosen", "record", "for_builds",
)  # fmt: skip
"""Fields that hold regular expressions, in whatever row."""


def wrong_specifiers(table: str, row: Any) -> Iterator[str]:
    """Of the fields of this table that hold a specifier, or none."""
    for field in _SPECIFIERS.get(table, ()):
        value = getattr(row, field)
        if value:
            yield from wrong_specifier(field, value)


def wrong_specifier(field: str, value: str) -> Iterator[str]:
    """What is no PEP 440 specifier."""
    try:
        check_specifier(value)
    except ValueError as error:
        yield f"{field}: {error}"


def wrong_expressions(row: Any) -> list[str]:
    """Of fields that hold one expression, names and values, or a record of expressions."""
    wrong = []
    for field in _PATTERNS:
        value = getattr(row, field, None)
        held = structs.asdict(value) if isinstance(value, Struct) else value
        texts = (*held, *held.values()) if isinstance(held, dict) else (held,)
        wrong += [error for one in texts if isinstance(one, str) for error in wrong_expression(field, one)]
    return wrong


def wrong_expression(field: str, pattern: str) -> Iterator[str]:
    """What is no regular expression of Python."""
    try:
        re.compile(pattern)
    except re.error as error:
        yield f"{field}: {error}"
