"""All smoke kernels, in the order in which they run."""

from __future__ import annotations

import importlib

from .kernel import LEVELS, Kernel

_MODULES: tuple[str, ...] = (
    "basics", "attention", "layers", "indexing", "linalg", "randomness", "training", "low_precision", "memory",
    "compiled", "graphs", "rates", "several_gpus", "soak",
)  # fmt: skip
"""Modules of kernels, in order; each lists its own in the order of their definition."""


def all_kernels() -> tuple[Kernel, ...]:
    """Every kernel; those of a level come before those of the next."""
    found = [
        value
        for name in _MODULES
        for value in vars(importlib.import_module("." + name, __name__)).values()
        if isinstance(value, Kernel)
    ]
    return tuple(sorted(found, key=lambda kernel: LEVELS.index(kernel.level)))
