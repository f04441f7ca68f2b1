"""What was measured: the units, how their pairs did, and how all did together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from gpudoctor.fleet.pair.blame import Judgement, Meeting
from gpudoctor.fleet.pair.nodes import Between, Unit
from gpudoctor.fleet.pair.outcome import Part
from gpudoctor.fleet.pair.schedule import Pair


class Trial(Struct, frozen=True):
    """What is the same in all trials of a job."""

    seconds: float
    """The limit of a trial, with its set-up."""
    size: int
    """Bytes of each collective."""
    backend: str = ""


class Met(Struct, frozen=True):
    """A pair of units in a round, and the worst of what their ranks did."""

    round: int
    nodes: Pair
    part: Part
    faults: tuple[Part, ...] = ()
    """What each rank that did not go right came to, on both sides."""


class Trials(Struct, frozen=True):
    """All that was measured."""

    units: tuple[Unit, ...]
    between: Between
    hellos: Mapping[int, Mapping[str, Any]]
    missing: tuple[int, ...]
    """Ranks that never said who they are."""
    trial: Trial
    rounds: int = 0
    complete: bool = False
    met: tuple[Met, ...] = ()
    out: Mapping[int, Part] = {}
    """Units that failed without anybody else."""
    judgement: Judgement | None = None
    together: Part | None = None
    gang: tuple[int, ...] = ()
    """Units that computed all together."""


def meetings_of(met: Sequence[Met]) -> list[Meeting]:
    """What counts for conviction."""
    return [Meeting(one.nodes, one.part.status == "right", one.part.seconds, one.part.quick) for one in met]
