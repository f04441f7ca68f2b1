"""What rank 0 does beside its own part: order the trials, gather what they came to, find who is to blame."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.json import encode

from gpudoctor.fleet.pair.blame import Judgement, judge
from gpudoctor.fleet.pair.nodes import Between, Unit, chosen_backend, pairs_of_ranks, units_of
from gpudoctor.fleet.pair.outcome import Part, look_failure, part_of, worst
from gpudoctor.fleet.pair.rank import Group, Order, Rank
from gpudoctor.fleet.pair.rounds import Course
from gpudoctor.fleet.pair.schedule import Pair, Round
from gpudoctor.fleet.pair.trials import Met, Trial, Trials, meetings_of
from gpudoctor.plain_text import number_of

JOINING_SECONDS = 300.0
"""Until all ranks have told who they are: each imports torch and starts its GPU."""
_GRACE_SECONDS = 60.0
"""Beyond the limit of a trial, until its answers are there."""
_LEAVING_SECONDS = 10.0
GPU_BYTES, CPU_BYTES = 256 << 20, 4 << 20
Progress = Callable[[str], None]


class PairOptions(Struct, frozen=True):
    """What was asked for."""

    rounds: int | None
    """None: all, so that every link is tested."""
    seconds: float
    backend: str | None = None
    size: int | None = None
    between: Between | None = None


class Coordinator:
    """Leads the ranks of a job; `rank` is number 0."""

    def __init__(self, rank: Rank, wanted: PairOptions, progress: Progress) -> None:
        self._rank, self._wanted, self._progress = rank, wanted, progress
        self._step = 0
        self._lost: set[int] = set()

    def test(self) -> Trials:
        """Let the units meet as the schedule says, then all together that are not to blame."""
        self._progress("waiting for all ranks")
        hellos = self._gather("hello", range(self._rank.place.size), JOINING_SECONDS)
        present = {rank: hello for rank, hello in hellos.items() if hello is not None}
        missing = tuple(rank for rank in hellos if rank not in present)
        self._lost.update(missing)
        units, between = units_of(present, self._wanted.between)
        backend = chosen_backend(present, self._wanted.backend)
        size = self._wanted.size or (GPU_BYTES if backend == "nccl" else CPU_BYTES)
        trials = Trials(units, between, present, missing, Trial(self._wanted.seconds, size, backend))
        if len(units) < 2 or not backend:
            return trials
        return self._test(trials)

    def end(self, code: int) -> None:
        """Let all ranks end with this code."""
        ranks = [rank for rank in range(1, self._rank.place.size) if rank not in self._lost]
        for rank in ranks:
            self._order(rank, Order("end", code=code))
        self._gather(f"answer/{self._step}", ranks, _LEAVING_SECONDS)

    def _test(self, trials: Trials) -> Trials:
        out = {
            number: part for number, unit in enumerate(trials.units) if (part := _own_failure(unit, trials.hellos))
        }
        wanted = len(trials.units) if self._wanted.rounds is None else self._wanted.rounds
        course = Course(len(trials.units), wanted)
        met: list[Met] = []
        while pairs := course.next(meetings_of(met), out):
            number = met[-1].round + 1 if met else 1
            self._progress(f"round {number}: {number_of(len(pairs), 'pair')}")
            met += self._round(trials, pairs, number, out)
        judgement = judge(meetings_of(met), out)
        gang = tuple(n for n in range(len(trials.units)) if n not in out and n not in judgement.convicted)
        together = self._together(trials, gang, judgement)
        return Trials(
            **{name: getattr(trials, name) for name in ("units", "between", "hellos", "missing", "trial")},
            rounds=course.rounds,
            complete=course.is_complete,
            met=tuple(met),
            out=out,
            judgement=judgement,
            together=together,
            gang=gang,
        )

    def _round(self, trials: Trials, pairs: Round, number: int, out: dict[int, Part]) -> list[Met]:
        """What became of each pair; a unit that failed by itself goes to `out`, and its pair says nothing."""
        groups: dict[str, tuple[int, ...]] = {}
        lanes: dict[Pair, list[tuple[int, int]]] = {}
        for pair in pairs:
            lanes[pair] = list(pairs_of_ranks(*(trials.units[node] for node in pair)))
            groups.update({f"{number}/{one}-{other}": (one, other) for one, other in lanes[pair]})
        parts = self._compute(trials.trial, groups)
        for node in {node for pair in pairs for node in pair}:
            own = [parts[rank] for rank in trials.units[node].ranks if rank in parts and parts[rank].own]
            if own:
                out[node] = worst(own)
        return [
            Met(
                number,
                pair,
                worst([_lane(parts[one], parts[other]) for one, other in lanes[pair]]),
                tuple(parts[rank] for lane in lanes[pair] for rank in lane if parts[rank].status != "right"),
            )
            for pair in pairs
            if out.keys().isdisjoint(pair)
        ]

    def _together(self, trials: Trials, gang: Sequence[int], judgement: Judgement) -> Part | None:
        """All of the gang in one group."""
        ranks = tuple(sorted(rank for node in gang for rank in trials.units[node].ranks))
        if len(gang) < 2 or judgement.usual_seconds is None:
            return None
        self._progress(f"all together: {len(ranks)} ranks")
        parts = self._compute(trials.trial, {"all": ranks})
        right = [part for part in parts.values() if part.status == "right"]
        if len(right) == len(parts):
            return min(right, key=lambda part: part.seconds)
        return worst([part for part in parts.values() if part.status != "right"])

    def _compute(self, trial: Trial, groups: Mapping[str, Sequence[int]]) -> dict[int, Part]:
        """Let these groups of ranks compute at the same time, all others rest."""
        orders = {
            rank: Order("compute", trial, Group(name, number, len(ranks)))
            for name, ranks in groups.items()
            for number, rank in enumerate(ranks)
        }
        for rank in range(1, self._rank.place.size):
            if rank not in self._lost:
                self._order(rank, orders.get(rank, Order("rest")))
        own = self._rank.obey(orders.get(0, Order("rest")))
        others = [rank for rank in orders if rank and rank not in self._lost]
        answers = self._gather(f"answer/{self._step}", others, trial.seconds + _GRACE_SECONDS)
        self._step += 1
        self._lost.update(rank for rank, answer in answers.items() if answer is None)
        answers[0] = own
        return {rank: part_of(rank, answers.get(rank), trial.seconds) for rank in orders}

    def _order(self, rank: int, order: Order) -> None:
        self._rank.member.set(f"order/{self._step}/{rank}", encode(order).decode())

    def _gather(self, key: str, ranks: Sequence[int], seconds: float) -> dict[int, dict[str, Any] | None]:
        """What these ranks told, None for those that told nothing in time."""
        deadline = time.monotonic() + seconds
        found: dict[int, dict[str, Any] | None] = {}
        for rank in ranks:
            text = self._rank.member.get(f"{key}/{rank}", deadline - time.monotonic())
            found[rank] = None if text is None else json.loads(text)
        return found


def _own_failure(unit: Unit, hellos: Mapping[int, Mapping[str, Any]]) -> Part | None:
    """The first rank of a unit that could not even look what it has."""
    for rank in unit.ranks:
        if failure := look_failure(dict(hellos[rank])):
            return Part(rank, "unable", detail=failure)
    return None


def _lane(one: Part, other: Part) -> Part:
    """What became of two ranks together. The rank that came last has the true time; the other one's includes
    waiting."""
    if one.status == other.status == "right":
        return min(one, other, key=lambda part: part.seconds)
    return worst([part for part in (one, other) if part.status != "right"])
