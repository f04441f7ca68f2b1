"""From what was measured to what it says: problems, a row for each node, the verdict."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from gpudoctor import __version__
from gpudoctor.engine import FailOn, exit_code
from gpudoctor.finding import Verdict
from gpudoctor.fleet.pair.conviction import Blame, Judgement
from gpudoctor.fleet.pair.lead import Met, Trials
from gpudoctor.fleet.pair.nodes import rank_name
from gpudoctor.fleet.pair.outcome import Part, worst
from gpudoctor.fleet.pair.report import NodeState, PairedNode, Pairing, PairProblem, PairReport, Together
from gpudoctor.fleet.pair.schedule import Pair
from gpudoctor.plain_text import utc

_NOBODY = Judgement(Blame(), Blame(), None)


def report_of(trials: Trials, fail_on: FailOn = "error") -> PairReport:
    """What rank 0 prints."""
    told = _Telling(trials)
    problems, open_questions = tuple(told.problems()), tuple(told.not_judged())
    severities = {problem.severity for problem in problems}
    verdict: Verdict = "error" if "error" in severities else "unknown" if open_questions else "ok"
    verdict = "warning" if verdict == "ok" and severities else verdict
    first = next(iter(trials.hellos.values()), {})
    return PairReport(
        gpudoctor=__version__,
        created=utc(time.time()),
        verdict=verdict,
        exit_code=exit_code(verdict, fail_on),
        torch=str(first.get("torch", "")),
        backend="rccl" if trials.trial.backend == "nccl" and first.get("rocm") else trials.trial.backend,
        between=trials.between,
        bytes=trials.trial.size,
        rounds=trials.rounds,
        links_judged=trials.complete,
        usual_gb_per_s=told.bandwidth(told.judgement.usual_seconds),
        problems=problems,
        nodes=tuple(told.row(number) for number in range(len(trials.units))),
        pairings=tuple(map(told.pairing, trials.met)),
        together=told.together(),
        exclude=told.exclude(),
        not_judged=open_questions,
    )


class _Telling:
    """Sentences and rows about what was measured."""

    def __init__(self, trials: Trials) -> None:
        self._trials = trials
        self.judgement = trials.judgement or _NOBODY
        self._names = [unit.name for unit in trials.units]
        self._out = {} if len(trials.out) == len(trials.units) else dict(trials.out)
        """If nobody could take part, it is no node's own fault."""

    # --- rows ---

    def bandwidth(self, seconds: float | None, ranks: int = 2) -> float | None:
        """The bus bandwidth of an all-reduce, in GB/s, as nccl-tests computes it."""
        return None if not seconds else round(self._trials.trial.size / seconds * 2 * (ranks - 1) / ranks / 1e9, 3)

    def row(self, number: int) -> PairedNode:
        own = self._met(number)
        right = [met.part.seconds for met in own if met.part.status == "right"]
        state = self._state(number)
        unit = self._trials.units[number]
        part = self._trials.out.get(number) or (_worst_of(own) if state != "ok" and own else None)
        return PairedNode(
            name=unit.name,
            ranks=unit.ranks,
            gpu=next((self._trials.hellos[rank].get("gpu") for rank in unit.ranks), None),
            state=state,
            pairings=len(own),
            right=len(right),
            gb_per_s=self.bandwidth(median(right)) if right else None,
            detail=self._detail(part) if part else "",
        )

    def pairing(self, met: Met) -> Pairing:
        one, other = (self._names[node] for node in met.nodes)
        right = met.part.status == "right"
        return Pairing(
            round=met.round,
            nodes=(one, other),
            status=met.part.status,
            gb_per_s=self.bandwidth(met.part.seconds) if right else None,
            seconds=met.part.seconds if right else None,
            detail=self._detail(met.part),
        )

    def together(self) -> Together | None:
        part = self._trials.together
        if part is None:
            return None
        ranks = sum(len(self._trials.units[node].ranks) for node in self._trials.gang)
        right = part.status == "right"
        return Together(
            nodes=len(self._trials.gang),
            ranks=ranks,
            status=part.status,
            gb_per_s=self.bandwidth(part.seconds, ranks) if right else None,
            seconds=part.seconds if right else None,
            detail=self._detail(part),
        )

    def exclude(self) -> tuple[str, ...]:
        out = {number for number, part in self._out.items() if part.status != "busy"}
        return tuple(self._names[number] for number in sorted(out | self.judgement.convicted))

    # --- problems ---

    def problems(self) -> Iterator[PairProblem]:
        """What is wrong, errors first."""
        for number, part in sorted(self._out.items()):
            if part.status == "unable":
                message = f"{self._names[number]} failed before it met any other node: {self._detail(part)}."
                yield self._of_node("GPD740", "fleet-node-unable", number, message)
        for number in self.judgement.failed.nodes:
            yield self._failed(number)
        yield from self._links()
        yield from self._undecided()
        yield from self._together_problem()
        for number in self.judgement.slow.nodes:
            yield self._slow(number)
        for pair in self.judgement.slow.links:
            one, other = self._named(pair)
            yield PairProblem(
                "GPD745", "fleet-link-slow", "warning", (one, other),
                f"{one} and {other} are slow only with each other: {self._speed(self._between(pair))}.",
                f"check the cables and switches between {one} and {other}",
            )  # fmt: skip

    def not_judged(self) -> Iterator[str]:
        """What could not be tested."""
        trials = self._trials
        for rank in trials.missing:
            yield f"rank {rank} did not answer: it did not start, or cannot reach rank 0"
        for number, part in sorted(self._out.items()):
            if part.status == "busy":
                yield f"{self._names[number]} is in use: {self._detail(part)}"
            elif part.status == "silent":
                yield f"{self._names[number]} stopped answering"
        if not trials.trial.backend:
            yield "this torch has no backend for collectives: neither NCCL nor Gloo"
        elif len(trials.units) < 2:
            yield f"there is nothing to pair: only {len(trials.units)} of the {trials.between} is here"
        elif not self._out and trials.out:
            yield f"no node could take part: {self._detail(next(iter(trials.out.values())))}"
        elif not trials.met:
            yield "no two nodes could be paired"

    def _failed(self, number: int) -> PairProblem:
        own = self._met(number)
        wrong = [met for met in own if met.part.status == "wrong"]
        bad = [met for met in own if met.part.status != "right"]
        name = self._names[number]
        how = f"in {len(bad)} of {len(own)} pairings ({self._detail(_worst_of(bad))})"
        if len(wrong) == len(bad):
            return self._of_node("GPD742", "fleet-node-wrong-data", number, f"{name} computed wrong data {how}.")
        return self._of_node("GPD741", "fleet-node-fails", number, f"{name} failed {how}.")

    def _slow(self, number: int) -> PairProblem:
        right = [met for met in self._met(number) if met.part.status == "right"]
        message = f"{self._names[number]} is slow with its partners: {self._speed(right)}."
        return self._of_node("GPD743", "fleet-node-slow", number, message, "warning")

    def _of_node(self, id: str, slug: str, number: int, message: str, severity: str = "error") -> PairProblem:
        name = self._names[number]
        fix = f"start jobs without it (--exclude={name}), then run `gpudoctor check` on it"
        if self._trials.between == "gpus":
            fix = "run `gpudoctor smoke --level full` on that node, and start jobs without this GPU"
        return PairProblem(id, slug, "error" if severity == "error" else "warning", (name,), message, fix)

    def _links(self) -> Iterator[PairProblem]:
        for pair in self.judgement.failed.links:
            one, other = self._named(pair)
            met = self._between(pair)
            bad = [each for each in met if each.part.status != "right"]
            tries = f" in {len(bad)} of {len(met)} tries" if len(met) > 1 else ""
            yield PairProblem(
                "GPD744", "fleet-link-fails", "error", (one, other),
                f"{one} and {other} fail only with each other{tries} ({self._detail(_worst_of(bad))}).",
                f"check the cables, switches and firewalls between {one} and {other}; no job should get both",
            )  # fmt: skip

    def _undecided(self) -> Iterator[PairProblem]:
        """Pairings that went wrong and accuse nobody, as one problem of each kind."""
        for pairs, severity in (
            (self.judgement.failed.undecided, "error"),
            (self.judgement.slow.undecided, "warning"),
        ):
            if not pairs:
                continue
            names = tuple(self._names[node] for node in sorted({node for pair in pairs for node in pair}))
            met = [each for each in self._trials.met if each.nodes in pairs and each.part.status != "right"]
            what = f"failed together ({self._detail(_worst_of(met))})" if severity == "error" else "are slow together"
            yield PairProblem(
                "GPD746", "fleet-pair-undecided", "error" if severity == "error" else "warning", names,
                f"{_listed(names)} {what}. {self._why_undecided(pairs, names)}",
                self._what_would_decide(pairs, names),
            )  # fmt: skip

    def _why_undecided(self, pairs: Sequence[Pair], names: Sequence[str]) -> str:
        if len(self._trials.units) - len(self._out) == 2:
            return "With two nodes it cannot be told which one is faulty."
        if self.judgement.usual_seconds is None:
            return "No pairing went right, so the cause is probably common to all nodes."
        return "It cannot be told which of them is faulty."

    def _what_would_decide(self, pairs: Sequence[Pair], names: Sequence[str]) -> str:
        if self.judgement.usual_seconds is None and len(names) > 2:
            return "check the network interface (NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME), the firewall and --timeout"
        if self._trials.complete:
            return "run the test again together with nodes that are known to be good"
        return "run the test again with --links, so that each node meets all others"

    def _together_problem(self) -> Iterator[PairProblem]:
        part = self._trials.together
        if part is None or part.status == "right":
            return
        if part.own:
            name = next(unit.name for unit in self._trials.units if part.rank in unit.ranks)
            message = f"{name} failed when all nodes were to compute together: {self._detail(part)}."
        else:
            message = f"All nodes together failed, though no pair of them did: {self._detail(part)}."
        fix = "look at the limits of the nodes (open files, memlock) and at NCCL_DEBUG=INFO of a run with all nodes"
        names = tuple(self._names[node] for node in self._trials.gang)
        yield PairProblem("GPD747", "fleet-together-fails", "error", names, message, fix)

    # --- words ---

    def _state(self, number: int) -> NodeState:
        if number in self._trials.out:
            status = self._trials.out[number].status
            return status if status in ("busy", "silent") else "unable"
        if number in self.judgement.failed.nodes:
            wrong = all(met.part.status in ("wrong", "right") for met in self._met(number))
            return "wrong" if wrong else "failed"
        if number in self.judgement.slow.nodes:
            return "slow"
        open_pairs = (*self.judgement.failed.undecided, *self.judgement.slow.undecided)
        return "undecided" if any(number in pair for pair in open_pairs) else "ok"

    def _met(self, number: int) -> list[Met]:
        return [met for met in self._trials.met if number in met.nodes]

    def _between(self, pair: Pair) -> list[Met]:
        return [met for met in self._trials.met if met.nodes == pair]

    def _named(self, pair: Pair) -> tuple[str, str]:
        return self._names[pair[0]], self._names[pair[1]]

    def _speed(self, met: Sequence[Met]) -> str:
        slow = self.bandwidth(median(each.part.seconds for each in met))
        return f"{slow:g} GB/s, usual are {self.bandwidth(self.judgement.usual_seconds):g} GB/s"

    def _detail(self, part: Part) -> str:
        """What happened, with the GPU where a node has several."""
        unit = next((unit for unit in self._trials.units if part.rank in unit.ranks), None)
        if not part.detail or unit is None or len(unit.ranks) == 1:
            return part.detail
        return f"{part.detail}, {rank_name(self._trials.hellos[part.rank])} of {unit.name}"


def _worst_of(met: Sequence[Met]) -> Part:
    return worst([each.part for each in met])


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    if len(names) > 8:
        return f"{', '.join(names[:8])} and {len(names) - 8} others"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
