"""What is paired: nodes with all their ranks, or single ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

Between = Literal["nodes", "gpus"]
Hello = Mapping[str, Any]


class Unit(Struct, frozen=True):
    """A node, or one rank of it."""

    name: str
    ranks: tuple[int, ...]
    """Ranks by their local number: those of the same place are paired."""


def units_of(hellos: Mapping[int, Hello], between: Between | None) -> tuple[tuple[Unit, ...], Between]:
    """What is paired. By default it is nodes; on one node its GPUs."""
    nodes: dict[str, list[int]] = {}
    for rank in sorted(hellos, key=lambda rank: (hellos[rank]["local_rank"], rank)):
        hello = hellos[rank]
        nodes.setdefault(str(hello["agent"] or hello["name"]), []).append(rank)
    between = between or ("nodes" if len(nodes) > 1 else "gpus")
    groups = sorted(nodes.values(), key=min)
    names = _unique_names([hellos[ranks[0]]["name"] for ranks in groups])
    if between == "nodes":
        return tuple(Unit(name, tuple(ranks)) for name, ranks in zip(names, groups, strict=True)), between
    units = [
        Unit(f"{name} {rank_name(hellos[rank])}", (rank,))
        for name, ranks in zip(names, groups, strict=True)
        for rank in ranks
    ]
    return tuple(units), between


def rank_name(hello: Hello) -> str:
    """What a rank is on its node: "GPU 3"."""
    return f"{'GPU' if hello.get('gpus') else 'rank'} {hello['local_rank']}"


def pairs_of_ranks(one: Unit, other: Unit) -> tuple[tuple[int, int], ...]:
    """Who computes with whom when two units meet."""
    return tuple(zip(one.ranks, other.ranks, strict=False))


def chosen_backend(hellos: Mapping[int, Hello], asked: str | None) -> str:
    """torch's name of the backend; "" if no rank has one. RCCL is called nccl there. GPUs are used if most ranks see
    one: a node without is faulty then, and not the measure of all."""
    if asked:
        return "nccl" if asked == "rccl" else asked
    looked = [hello for hello in hellos.values() if hello.get("ended") == "done"]
    with_gpus = [hello for hello in looked if hello["gpus"] and hello["nccl"]]
    if with_gpus and 2 * len(with_gpus) >= len(looked):
        return "nccl"
    return "gloo" if any(hello["gloo"] for hello in looked) else ""


def _unique_names(names: Sequence[str]) -> list[str]:
    """Names that several have get a number."""
    count, seen, result = Counter(names), Counter[str](), []
    for name in names:
        seen[name] += 1
        result.append(f"{name}#{seen[name]}" if count[name] > 1 else name)
    return result
