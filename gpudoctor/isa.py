"""What code runs on what GPU. Every answer names the rule that it used (design §4)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from msgspec import Struct

Runs = Literal["yes", "no", "unknown"]


class Answer(Struct, frozen=True):
    """Whether code runs on a card, by which rule, and through which piece of code."""

    runs: Runs
    rule: str
    """Id of the rule: sass-same-major, sass-arch-specific, sass-family, ptx-forward, gfx-same, gfx-generic ..."""
    by: str = ""
    """The architecture that decided ("sm_86", "compute_90")."""
    native: bool = False
    """Ready machine code, not PTX that the driver compiles at the first start."""


def cuda_runs(
    sm: str, sass: Collection[str], ptx: Collection[str], *, ptx_readable: bool | None = None, tegra: bool = False
) -> Answer:
    """Whether code with these SASS and PTX architectures runs on a card.

    `sm` is "sm_89"; `sass` items "sm_80", "sm_90a", "sm_100f"; `ptx` items "compute_90", "compute_90a".
    `ptx_readable` says whether the driver knows that PTX's version (None: not known).
    """
    raise NotImplementedError


def gfx_runs(gfx: str, code: Collection[str], generics: Collection[str] = ()) -> Answer:
    """Whether code objects for `code` ("gfx1030", "gfx90a:xnack-", "gfx11-generic") run on `gfx`.

    `generics` are the generic targets that the card accepts.
    """
    raise NotImplementedError
