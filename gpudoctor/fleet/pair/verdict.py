"""Makes a report of what was measured: problems that checks find, a row for each node, the verdict."""

from __future__ import annotations

import time
from collections.abc import Iterable
from statistics import median
from typing import TYPE_CHECKING

from gpudoctor import __version__
from gpudoctor.check import Check
from gpudoctor.engine import in_order
from gpudoctor.exit_codes import FailOn, exit_code
from gpudoctor.finding import Finding, verdict_of
from gpudoctor.fleet.pair.outcome import Part
from gpudoctor.fleet.pair.report import NodeState, PairedNode, Pairing, PairProblem, PairReport, Together
from gpudoctor.fleet.pair.result import PairResult
from gpudoctor.fleet.pair.trials import Met, Trials
from gpudoctor.plain_text import utc

if TYPE_CHECKING:
    from gpudoctor.matrix.questions import Matrix


def report_of(
    trials: Trials, checks: Iterable[Check[PairResult]], fail_on: FailOn = "error", matrix: Matrix | None = None
) -> PairReport:
    """What rank 0 prints. `matrix` has what links between GPUs carry."""
    result = PairResult(trials, matrix)
    ran = [check.run(result) for check in checks]
    findings = in_order(finding for found, _ in ran for finding in found)
    not_judged = [question for _, questions in ran for question in questions]
    verdict = verdict_of(findings, not_judged)
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
        usual_gb_per_s=result.bandwidth(result.judgement.usual_seconds),
        problems=tuple(map(_problem, findings)),
        nodes=tuple(_node(result, number) for number in range(len(trials.units))),
        pairings=tuple(_pairing(result, met) for met in trials.met),
        together=_together(result, trials.together) if trials.together else None,
        exclude=_faulty_nodes(result),
        not_judged=tuple(question.why for question in not_judged),
    )


def _problem(finding: Finding) -> PairProblem:
    return PairProblem(
        finding.id, finding.slug, finding.severity, finding.nodes, finding.message, finding.fixes[0].title
    )


def _node(result: PairResult, number: int) -> PairedNode:
    own = result.met(number)
    right = [met.part.seconds for met in own if met.part.status == "right"]
    state = _state(result, number)
    unit = result.trials.units[number]
    detail = ""
    if number in result.trials.out:
        detail = result.detail(result.trials.out[number])
    elif state != "ok":
        detail = result.worst_detail(result.evidence(number) or own, number)
    return PairedNode(
        name=unit.name,
        ranks=unit.ranks,
        gpu=next((result.trials.hellos[rank].get("gpu") for rank in unit.ranks), None),
        state=state,
        pairings=len(own),
        right=len(right),
        gb_per_s=result.bandwidth(median(right)) if right else None,
        detail=detail,
    )


def _state(result: PairResult, number: int) -> NodeState:
    if number in result.trials.out:
        status = result.trials.out[number].status
        return status if status in ("busy", "silent") else "unable"
    judgement = result.judgement
    if number in judgement.failed.nodes:
        return "wrong" if result.computes_wrong(number) else "failed"
    if number in judgement.slow.nodes:
        return "slow"
    open_pairs = (*judgement.failed.undecided, *judgement.slow.undecided)
    return "undecided" if any(number in pair for pair in open_pairs) else "ok"


def _pairing(result: PairResult, met: Met) -> Pairing:
    part = met.part
    right = part.status == "right"
    return Pairing(
        round=met.round,
        nodes=result.names_of(met.nodes),
        status=part.status,
        gb_per_s=result.bandwidth(part.seconds) if right else None,
        seconds=part.seconds if right else None,
        detail=result.detail(part),
    )


def _together(result: PairResult, part: Part) -> Together:
    ranks = sum(len(result.trials.units[node].ranks) for node in result.trials.gang)
    right = part.status == "right"
    return Together(
        nodes=len(result.gang),
        ranks=ranks,
        status=part.status,
        gb_per_s=result.bandwidth(part.seconds, ranks) if right else None,
        seconds=part.seconds if right else None,
        detail=result.detail(part),
    )


def _faulty_nodes(result: PairResult) -> tuple[str, ...]:
    """A node in use is no fault of it: another job has it."""
    out = {number for number, part in result.out.items() if part.status != "busy"}
    return tuple(result.names[number] for number in sorted(out | result.judgement.convicted))
