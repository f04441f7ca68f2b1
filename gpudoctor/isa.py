"""What code runs on what GPU. Every answer names the rule that it used."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from typing import Literal

from msgspec import Struct

Runs = Literal["yes", "no", "unknown"]

_NVIDIA = r"(?:sm|compute)_(\d{1,2})(\d)([af]?)$"

# Members of a family of `f` code: sm_100f runs on 10.0 and 10.3, and on nothing older than itself.
_FAMILIES = (
    frozenset({(10, 0), (10, 3)}),
    frozenset({(11, 0)}),
    frozenset({(12, 0), (12, 1)}),
)

# Before CUDA 13 the chip of Jetson Thor was called sm_101.
_RENAMED = {(10, 1): (11, 0)}

_RANK = {"yes": 2, "unknown": 1, "no": 0}


class Answer(Struct, frozen=True):
    """Whether code runs on a GPU, by which rule, and through which piece of code."""

    runs: Runs
    rule: str
    """Id of the rule: sass-same-major, sass-arch-specific, sass-family, sass-tegra, sass-renamed, ptx-forward,
    ptx-too-new, ptx-family, ptx-arch-specific, no-nvidia-code, gfx-same, gfx-generic,
    gfx-features, no-gfx-code, not-an-arch."""
    by: str = ""
    """The architecture that decided ("sm_86", "compute_90")."""
    native: bool = False
    """Ready machine code, not PTX that the driver compiles at the first start."""


Capability = tuple[int, int]


def capability(arch: str | None) -> Capability | None:
    """The compute capability that an NVIDIA architecture names ("sm_89", "sm_90a", "compute_120"): (8, 9)."""
    parsed = _parsed(arch or "")
    return parsed[0] if parsed else None


def dotted(arch: str) -> str:
    """A compute capability as NVIDIA and torch write it: "8.9" of "sm_89"; "" for what names none."""
    found = capability(arch)
    return f"{found[0]}.{found[1]}" if found else ""


def cuda_runs(
    sm: str,
    sass: Collection[str],
    ptx: Collection[str],
    *,
    ptx_readable: bool | None = None,
    tegra: bool | None = False,
) -> Answer:
    """Whether code with these SASS and PTX architectures runs on a GPU.

    `sm` is "sm_89"; `sass` items "sm_80", "sm_90a", "sm_100f"; `ptx` items "compute_90", "compute_90a".
    `ptx_readable` says whether the driver knows that PTX's version (None: not known). `tegra` says that the
    GPU is a Tegra's: machine code for desktop chips of the same major does not run there (None: not known).
    """
    return _cuda_runs(sm, tuple(sass), tuple(ptx), ptx_readable, tegra)


@lru_cache(maxsize=1024)  # most builds have code for the same architectures
def _cuda_runs(
    sm: str, sass: tuple[str, ...], ptx: tuple[str, ...], ptx_readable: bool | None, tegra: bool | None
) -> Answer:
    gpu = _parsed(sm)
    if gpu is None:
        return Answer("unknown", "not-an-arch", sm)
    answers = [_sass(gpu, code, tegra) for code in sass if not code.startswith("compute_")]
    answers += [_ptx(gpu, code, ptx_readable) for code in ptx]
    return _best(answers, Answer("no", "no-nvidia-code"))


def gfx_runs(gfx: str, code: Collection[str], generics: Collection[str] = ()) -> Answer:
    """Whether code objects for `code` ("gfx1030", "gfx90a:xnack-", "gfx11-generic") run on `gfx`.

    `gfx` may carry the GPU's own modes ("gfx90a:sramecc+:xnack-"). Where it does not, code for the mode that a
    GPU is usually in runs, and for the other one it is not known. `generics` are the generic targets that the
    GPU accepts.
    """
    name, modes = _target(gfx)
    if not name.startswith("gfx"):
        return Answer("unknown", "not-an-arch", gfx)
    return _best([_gfx(name, modes, item, generics) for item in code], Answer("no", "no-gfx-code"))


# --- NVIDIA ----------------------------------------------------------------------------------------


@lru_cache(maxsize=256)  # every build is held against every GPU
def _parsed(arch: str) -> tuple[Capability, str] | None:
    """("sm_90a" → (9, 0), "a"); None for what is no such name."""
    found = re.match(_NVIDIA, arch)
    return ((int(found[1]), int(found[2])), found[3]) if found else None


def _sass(gpu: tuple[Capability, str], code: str, tegra: bool | None) -> Answer:
    parsed = _parsed(code)
    if parsed is None:
        return Answer("unknown", "not-an-arch", code, native=True)
    target, suffix = parsed
    have = gpu[0]
    if _RENAMED.get(target) == have:
        return Answer("unknown", "sass-renamed", code, native=True)
    if suffix == "a":
        return Answer("yes" if target == have else "no", "sass-arch-specific", code, native=True)
    if suffix == "f":
        return Answer("yes" if _same_family(target, have) else "no", "sass-family", code, native=True)
    if target[0] != have[0] or target[1] > have[1]:
        return Answer("no", "sass-same-major", code, native=True)
    if tegra is not False and target != have:
        # CUDA C++ Programming Guide, binary compatibility: desktop only; seen to fail on Orin (jax-ml/jax#40492)
        return Answer("no" if tegra else "unknown", "sass-tegra", code, native=True)
    return Answer("yes", "sass-same-major", code, native=True)


def _ptx(gpu: tuple[Capability, str], code: str, readable: bool | None) -> Answer:
    parsed = _parsed(code)
    if parsed is None:
        return Answer("unknown", "not-an-arch", code)
    target, suffix = parsed
    have = gpu[0]
    if suffix == "a":
        fits, rule = target == have, "ptx-arch-specific"
    elif suffix == "f":
        fits, rule = _same_family(target, have), "ptx-family"
    else:
        fits, rule = target <= have, "ptx-forward"
    if not fits:
        return Answer("no", rule, code)
    if readable is None:
        return Answer("unknown", rule, code)
    return Answer("yes", rule, code) if readable else Answer("no", "ptx-too-new", code)


def _same_family(target: Capability, have: Capability) -> bool:
    """Family code runs on its own chip and on newer members of its family."""
    return target == have or (target < have and any(target in family and have in family for family in _FAMILIES))


# --- AMD -------------------------------------------------------------------------------------------


def _target(text: str) -> tuple[str, dict[str, str]]:
    """("gfx90a:sramecc+:xnack-" → "gfx90a", {"sramecc": "+", "xnack": "-"})."""
    name, *features = text.strip().removeprefix("amdgcn-amd-amdhsa--").split(":")
    return name, {feature[:-1]: feature[-1] for feature in features if feature[-1:] in ("+", "-")}


def _gfx(name: str, modes: dict[str, str], code: str, generics: Collection[str]) -> Answer:
    target, wanted = _target(code)
    if not target.startswith("gfx"):
        return Answer("unknown", "not-an-arch", code, native=True)
    generic = target.endswith("-generic")
    if target != name and not (generic and target in generics):
        return Answer("no", "gfx-generic" if generic else "gfx-same", code, native=True)
    if any(modes.get(feature, sign) != sign for feature, sign in wanted.items()):
        return Answer("no", "gfx-features", code, native=True)
    usual = {**_default_modes(name), **modes}
    if any(usual.get(feature) != sign for feature, sign in wanted.items()):
        return Answer("unknown", "gfx-features", code, native=True)
    return Answer("yes", "gfx-generic" if generic else "gfx-same", code, native=True)


def _default_modes(name: str) -> dict[str, str]:
    """The modes of a GPU that states none, unless somebody changed them: ECC of the registers on, xnack off."""
    return {"sramecc": "+", "xnack": "+" if name.startswith("gfx125") else "-"}


def _best(answers: list[Answer], none: Answer) -> Answer:
    """The answer that decides: what runs before what may run, machine code before PTX, the closest code last."""
    if not answers:
        return none
    return max(
        answers,
        key=lambda answer: (_RANK[answer.runs], answer.rule == "ptx-too-new", answer.native, _nearness(answer.by)),
    )


def _nearness(arch: str) -> tuple[int, ...]:
    parsed = _parsed(arch)
    return (*parsed[0], bool(parsed[1])) if parsed else (0, 0, 0)
