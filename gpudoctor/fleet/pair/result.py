"""What was measured, as checks judge it and reports tell it: with names, speeds and words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from statistics import median
from typing import TYPE_CHECKING

from gpudoctor.fleet.pair.blame import Blame, Judgement
from gpudoctor.fleet.pair.capacity import Capacity, between_gpus, between_nodes
from gpudoctor.fleet.pair.nodes import rank_name
from gpudoctor.fleet.pair.outcome import Part, worst
from gpudoctor.fleet.pair.schedule import Pair
from gpudoctor.fleet.pair.trials import Met, Trials
from gpudoctor.plain_text import enumeration

if TYPE_CHECKING:
    from gpudoctor.matrix.questions import Matrix

_NOBODY = Judgement(Blame(), Blame(), None)
_MOST_NAMES = 8


class PairResult:
    """All trials of a job."""

    def __init__(self, trials: Trials, matrix: Matrix | None = None) -> None:
        self.trials = trials
        self._matrix = matrix
        self.judgement = trials.judgement or _NOBODY
        self.names = tuple(unit.name for unit in trials.units)
        self.missing = trials.missing
        self.complete = trials.complete
        self.together = trials.together
        self.gang = tuple(self.names[node] for node in trials.gang)
        self.between_gpus = trials.between == "gpus"

    @cached_property
    def out(self) -> Mapping[int, Part]:
        """Nodes that failed by themselves. If all did, the fault is not in each of them."""
        out = self.trials.out
        return {} if len(out) == len(self.names) else dict(sorted(out.items()))

    @property
    def counted(self) -> int:
        """How many nodes could meet others."""
        return len(self.names) - len(self.out)

    @property
    def untested(self) -> str:
        """Why no pair at all was tested; "" if one was."""
        trials = self.trials
        if trials.met:
            return ""
        if not trials.trial.backend:
            return "this torch has no backend for collectives: neither NCCL nor Gloo"
        if len(self.names) < 2:
            return f"there is nobody to pair with: {len(self.names)} of the {trials.between} answered"
        if len(trials.out) == len(self.names):
            return f"no node could take part: {self.detail(next(iter(trials.out.values())))}"
        return "no two nodes were left to pair"

    # --- what was measured ---

    def met(self, number: int) -> list[Met]:
        """The pairings of a node."""
        return [met for met in self.trials.met if number in met.nodes]

    def evidence(self, number: int) -> list[Met]:
        """The pairings of a node with others that are not to blame themselves."""
        blamed = {*self.out, *self.judgement.failed.nodes} - {number}
        return [met for met in self.met(number) if blamed.isdisjoint(met.nodes)]

    def computes_wrong(self, number: int) -> bool:
        """Whether wrong data is all that went wrong."""
        return all(met.part.status in ("wrong", "right") for met in self.evidence(number))

    def between(self, pair: Pair) -> list[Met]:
        """The pairings of a pair."""
        return [met for met in self.trials.met if met.nodes == pair]

    def bandwidth(self, seconds: float | None, ranks: int = 2) -> float | None:
        """The bus bandwidth of an all-reduce, in GB/s, as nccl-tests computes it."""
        return None if not seconds else round(self.trials.trial.size / seconds * 2 * (ranks - 1) / ranks / 1e9, 3)

    @property
    def capacity(self) -> Capacity | None:
        """What the usual pairing could reach; None if that is unknown."""
        trials = self.trials
        if trials.trial.backend != "nccl":
            return None
        if trials.between == "nodes":
            return between_nodes(trials.units, trials.hellos)
        return between_gpus(trials.hellos, self._matrix) if self._matrix else None

    # --- words ---

    def names_of(self, pair: Pair) -> tuple[str, str]:
        return self.names[pair[0]], self.names[pair[1]]

    def speed(self, met: Sequence[Met]) -> str:
        """The bandwidth of pairings that went right, with what is usual."""
        own = self.bandwidth(median(each.part.seconds for each in met))
        return f"{own:g} GB/s, usual are {self.bandwidth(self.judgement.usual_seconds):g} GB/s"

    def worst_detail(self, met: Sequence[Met], number: int | None = None) -> str:
        """What happened in the worst of some pairings, on the side of a node if it is given: its partners may only
        have noticed that it was gone."""
        faults = [fault for each in met for fault in each.faults]
        ranks = () if number is None else self.trials.units[number].ranks
        own = [fault for fault in faults if fault.rank in ranks]
        return self.detail(worst(own or faults or [each.part for each in met]))

    def detail(self, part: Part) -> str:
        """What happened, with the GPU where a node has several."""
        unit = next((unit for unit in self.trials.units if part.rank in unit.ranks), None)
        if not part.detail or unit is None or len(unit.ranks) == 1:
            return part.detail
        return f"{part.detail}, {rank_name(self.trials.hellos[part.rank])} of {unit.name}"


def in_words(names: Iterable[str]) -> str:
    """ "n1, n2 and n3"; of many, the first ones."""
    names = list(names)
    if len(names) > _MOST_NAMES:
        return enumeration(names, _MOST_NAMES)
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
