"""Asks the drivers that the arguments name. It runs in a bare child: each of them may hang or crash."""

from __future__ import annotations

import os


def main(*asked: str) -> None:
    """`asked` is "hsa" and the path of the runtime, or "nvml", "cuda" or both."""
    if asked[0] == "hsa":
        from .hsa import ask_hsa

        ask_hsa(asked[1])
    if "nvml" in asked:
        from .nvml import ask_nvml

        ask_nvml()
    if "cuda" in asked:
        from .libcuda import ask_cuda

        ask_cuda()
    # A driver's own clean-up may hang; nothing here needs it.
    os._exit(0)
