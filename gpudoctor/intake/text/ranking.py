"""Which statement of a text holds where several differ, and which of them contradict each other.

The one place that ranks sources. A driver's tool knows the driver, a running program its own torch, a list of
packages what is installed; a sentence counts where nothing else tells.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

from gpudoctor.intake.text.facts import By, Facts, NamedGpu, Statement
from gpudoctor.matrix.versions import public_version

_USUAL: tuple[By, ...] = get_args(By)
_RANKS: dict[str, tuple[By, ...]] = {
    "torch": ("program", "report", "list", "shell", "tool", "prose"),
    "torch cuda": ("program", "report", "list", "shell", "tool", "prose"),
    "available": ("program", "report", "shell", "tool", "list", "prose"),
}
_GPU_RANK: tuple[By, ...] = ("tool", "report", "program", "shell", "list", "prose")


def decided(facts: Facts, what: str) -> Statement | None:
    """The statement that holds: of the best source, the last one, since people try again."""
    said = [one for one in facts.said if one.what == what]
    if not said:
        return None
    ranks = _RANKS.get(what, _USUAL)
    best = min(ranks.index(one.by) for one in said)
    return [one for one in said if ranks.index(one.by) == best][-1]


def decided_with(facts: Facts, prefix: str) -> dict[str, Statement]:
    """The same for all facts of a kind, by the rest of their name: "package " gives {"numpy": ...}."""
    names = dict.fromkeys(one.what for one in facts.said if one.what.startswith(prefix))
    found = ((name.removeprefix(prefix), decided(facts, name)) for name in names)
    return {name: one for name, one in found if one is not None}


def contradictions(facts: Facts) -> tuple[str, ...]:
    """Statements that cannot hold of one machine at one time, in words."""
    found = []
    for what, name in (
        ("torch", "torch"),
        ("driver", "the NVIDIA driver"),
        ("python", "Python"),
        ("kernel", "the kernel"),
    ):
        chosen = decided(facts, what)
        others = [one for one in facts.said if one.what == what and one.by != "prose"]
        different = [one for one in others if chosen and not _agree(what, chosen.value, one.value)]
        if chosen and different:
            said = ", ".join(dict.fromkeys(f"{one.value} (line {one.line})" for one in different[:3]))
            found.append(f"{name}: {chosen.value} (line {chosen.line}) is used; the text also says {said}")
    return tuple(found)


def _agree(what: str, one: str, other: str) -> bool:
    if what == "torch":
        one, other = public_version(one), public_version(other)
    return one.startswith(other) or other.startswith(one)


def gpus_of_best_source(facts: Facts) -> tuple[NamedGpu, ...]:
    """The GPUs that the best source lists; of several listings the last. What the others tell of them is added."""
    exact = [gpu for gpu in facts.gpus if not gpu.vendor_only]
    if all(gpu.by == "prose" for gpu in exact):
        exact = facts.gpus
    for by in _GPU_RANK:
        listed = [gpu for gpu in exact if gpu.by == by]
        if not listed:
            continue
        if by == "prose":
            return tuple(listed)
        return tuple(_once(listed))
    return ()


def _once(listed: Iterable[NamedGpu]) -> Iterable[NamedGpu]:
    """Each GPU of a source once: two lines about one index or address are about one GPU."""
    listed = list(listed)
    indexed = [gpu for gpu in listed if gpu.index is not None]
    block = max((gpu.block for gpu in indexed), default=0)
    if indexed:
        by_index = {gpu.index: gpu for gpu in indexed if gpu.block == block}
        return [by_index[index] for index in sorted(by_index, key=lambda index: index or 0)]
    seen: dict[str, NamedGpu] = {}
    unnamed = [gpu for gpu in listed if gpu.block == listed[-1].block]
    for gpu in unnamed:
        key = gpu.bdf or (
            f"{gpu.name} {gpu.line}"
            if gpu.by in ("tool", "report") and gpu.name
            else gpu.name or gpu.pci_id or gpu.arch
        )
        if key not in seen:
            seen[key] = gpu
    return list(seen.values())
