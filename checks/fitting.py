"""Which usable cards the installed torch has code for, and what a card that it does not serve weighs.

Holds no checks itself.
"""

from __future__ import annotations

from msgspec import Struct

from gpudoctor.builds import Carried, cards_to_serve, carries, replacements, toolkit_knows
from gpudoctor.check import Case
from gpudoctor.finding import (
    Confidence,
    Device,
    Evidence,
    Finding,
    NotJudged,
    SetVariable,
    Severity,
    UnsetVariable,
    WayOut,
    gpu_subject,
)
from gpudoctor.machine import Gpu, Torch
from gpudoctor.matrix.versions import figures
from gpudoctor.visibility import runtime_order, select, visibility_variables

FROM_AN_INDEX = ("pypi", "download.pytorch.org", "unknown")
"""Origins whose versions pair as the package index says; others bring pairs of their own."""

_MADE_FOR_ITS_PLACE = ("source", "conda", "conda-forge", "ngc", "jetson", "distribution")
"""Origins whose builds are made for the machines they run on: no list of an index can contradict them."""

REPAIRED_WITH_TORCH = (
    "torch-install-damaged",
    "torch-import-fails",
    "torchvision-mismatch",
    "torchaudio-mismatch",
    "numpy2-old-torch",
    "cudnn-mismatch",
    "nccl-shadowed",
    "libstdcxx-too-old",
)
"""Faults of the present build that vanish with another one."""


class Fit(Struct, frozen=True):
    """A usable card of the vendor that torch is built for, and what torch carries for it."""

    gpu: Gpu
    carried: Carried

    @property
    def served(self) -> bool:
        return self.carried.runs == "yes" and self.carried.blas != "no"


def fits(case: Case) -> tuple[Fit, ...]:
    """One per usable card of the vendor that the installed torch is built for; none for other torches."""
    vendor = case.built_for
    if vendor is None:
        return ()
    return tuple(Fit(gpu, carries(case.machine, case.matrix, gpu)) for gpu in case.usable_of(vendor))


def weight(fit: Fit, all_fits: tuple[Fit, ...]) -> Severity:
    """How much a card weighs that torch has no code for: a note beside a better card that works, else an error.

    The first card of a process is the fastest one (CUDA), so an unserved card that is newer than all served
    ones is what a program meets first.
    """
    working = [other.gpu for other in all_fits if other.served]
    weaker = any(figures(fit.gpu.arch.value or "") < figures(other.arch.value or "") for other in working)
    return "note" if working and (fit.gpu.integrated or weaker) else "error"


def alike(some: tuple[Fit, ...]) -> tuple[tuple[Fit, ...], ...]:
    """Fits of one card name and one answer together, so that eight equal cards are one finding."""
    groups: dict[tuple[str, str | None, Carried], list[Fit]] = {}
    for fit in some:
        groups.setdefault((fit.gpu.name, fit.gpu.arch.value, fit.carried), []).append(fit)
    return tuple(tuple(group) for group in groups.values())


def about(group: tuple[Fit, ...], **parts: object) -> Finding:
    """A finding about such a group; `parts` are the other fields of a Finding."""
    first = group[0].gpu
    device = Device.of(first) if len(group) == 1 else None
    subject = gpu_subject(first) if len(group) == 1 else f"{first.name} ({len(group)} cards)"
    return Finding(subject=subject, device=device, **parts)  # type: ignore[arg-type]


def evidence(torch: Torch, fit: Fit) -> tuple[Evidence, ...]:
    """What a judgement about code rests on."""
    return (
        Evidence.of("gpu.arch", fit.gpu.arch),
        Evidence("torch.version", torch.version, torch.source),
        Evidence("torch.archs", spelled(fit.carried.code), fit.carried.source),
    )


def confidence(fit: Fit) -> Confidence:
    """Certain where the code was read, or is that of this very build; likely by a list that was drawn from others."""
    drawn = "derived" in fit.carried.source or "published" in fit.carried.source
    return "likely" if drawn else "certain"


def spelled(archs: tuple[str, ...]) -> str:
    """ "sm_50 sm_60 ... sm_90"."""
    return " ".join(archs) or "none"


def better_torch(case: Case) -> tuple[WayOut, ...]:
    """Ways out by another torch, chosen for the cards that it should serve."""
    vendor = case.built_for
    usable = case.usable_of(vendor) if vendor and case.usable_of(vendor) else case.usable
    cards = cards_to_serve(case.machine, case.matrix, usable)
    return replacements(case.machine, case.matrix, cards, keep=case.torch)


def without_variable(way: WayOut, name: str) -> WayOut:
    """A way out that also does away with a variable, unless it sets or unsets it already."""
    if any(isinstance(remedy, SetVariable | UnsetVariable) and remedy.name == name for remedy in way.remedies):
        return way
    return WayOut(way.title, (*way.remedies, UnsetVariable(name, why="the card's own target then counts")))


def process_order(case: Case) -> tuple[Gpu, ...]:
    """AMD cards as a HIP process numbers them, visibility variables applied; empty where that is not known."""
    cards = runtime_order(case.machine, "amd")
    for _, value in visibility_variables(case.machine.variables, "amd"):
        selection = select(value, cards)
        if not selection.certain:
            return ()
        cards = selection.cards
    return cards


def visible_as(case: Case, wanted: tuple[Gpu, ...]) -> tuple[str, str] | None:
    """The variable and value that leave only `wanted` of AMD's cards to a process: HIP_VISIBLE_DEVICES counts
    what ROCR_VISIBLE_DEVICES leaves."""
    cards = runtime_order(case.machine, "amd")
    rocr = case.variable("ROCR_VISIBLE_DEVICES")
    if rocr is not None:
        selection = select(rocr, cards)
        if not selection.certain:
            return None
        cards = selection.cards
    places = [str(place) for place, gpu in enumerate(cards) if any(gpu is other for other in wanted)]
    return ("HIP_VISIBLE_DEVICES", ",".join(places)) if places else None


def build_name(torch: Torch) -> str:
    """How a person knows this build: "torch 2.9.1+cu128", "torch 2.9.1 (CUDA 12.8)"."""
    if "+" in torch.version:
        return f"torch {torch.version}"
    with_ = f" (CUDA {torch.cuda})" if torch.cuda else f" (ROCm {torch.rocm})" if torch.rocm else ""
    return f"torch {torch.version}{with_}"


def not_told(case: Case, fit: Fit, all_fits: tuple[Fit, ...]) -> NotJudged:
    """That nothing tells whether a build serves a card. It does not matter for integrated graphics beside a card
    that works, nor for a build that was made for its place by a toolkit that can compile for the card."""
    torch = case.torch
    assert torch is not None
    beside = fit.gpu.integrated and any(other.served for other in all_fits)
    trusted = fit.carried.rule == "no-list" and torch.origin in _MADE_FOR_ITS_PLACE
    able = toolkit_knows(case.matrix, torch, fit.gpu) != "not-yet"
    return NotJudged(why=why_unknown(torch, fit), matters=not (beside or (trusted and able)))


def why_unknown(torch: Torch, fit: Fit) -> str:
    """Why cannot be said whether a build serves a card."""
    if fit.carried.rule == "no-arch":
        return f"the architecture of {fit.gpu.name} is not known, so neither whether {build_name(torch)} has code "
        "for it"
    if fit.carried.rule == "no-list":
        return f"which architectures {build_name(torch)} was built for is not known ({torch.archs.why or 'no list'})"
    return (
        f"whether the code of {build_name(torch)} ({spelled(fit.carried.code)}) runs on {fit.gpu.name} "
        f"({fit.gpu.arch.value}) is not known"
    )
