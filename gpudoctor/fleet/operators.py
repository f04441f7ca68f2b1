"""Lines that an operator pastes: they take bad nodes out of use. Shown, never run."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from gpudoctor.finding import Verdict
from gpudoctor.fleet.names import folded, natural
from gpudoctor.fleet.records import FleetReport, NodeGroup
from gpudoctor.plain_text import enumeration
from gpudoctor.safe_arguments import is_name

_OF_THE_REQUEST = frozenset(("job-without-gpu", "container-no-gpu"))
"""Problems of how a job or container was started: another one works on the same node."""


def ready_lines(report: FleetReport) -> Iterator[tuple[str, str]]:
    """Pairs of a program and a line for it. Jobs exclude nodes with an error and nodes without a document; only a
    node with an error is taken out of use, because a lost document is no fault of the node."""
    reasons = _by_reason(report, _names(report, "error"))
    names = tuple(sorted((name for nodes in reasons.values() for name in nodes), key=natural))
    if without := tuple(sorted((*names, *_names(report, "unknown")), key=natural)):
        yield "sbatch, srun", f"--exclude={folded(without)}"
    if not names:
        return
    together = folded(names)
    for reason, nodes in reasons.items():
        nodename = shlex.quote(folded(nodes))
        yield "Slurm", f"scontrol update nodename={nodename} state=drain reason={shlex.quote(reason)}"
    yield "Kubernetes", f"kubectl cordon {shlex.join(names)}"
    yield f"Ray on {together}", "ray start --labels gpudoctor=bad"


def without_gpus(report: FleetReport) -> tuple[str, ...]:
    """Nodes whose only fault is that they have no GPU, and that are named like none that has: perhaps they need none,
    as the head of a Ray cluster does."""
    groups = _groups(report)
    found = (
        node.name
        for node in report.nodes
        if node.name in groups
        and not groups[node.name].gpu
        and {problem.slug for problem in groups[node.name].problems} == {"no-gpu"}
        and not any(odd.fact == "gpus" for odd in node.odd)
    )
    return tuple(sorted(found, key=natural))


def _groups(report: FleetReport) -> dict[str, NodeGroup]:
    return {node: group for group in report.groups for node in group.nodes}


def _names(report: FleetReport, verdict: Verdict) -> tuple[str, ...]:
    """The names of the nodes with this verdict. What cannot be the name of a host is left out."""
    found = (node.name for node in report.nodes if node.verdict == verdict)
    return tuple(sorted(filter(is_name, found), key=natural))


def _by_reason(report: FleetReport, names: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """These nodes by what is wrong with them: each group of nodes has its own problems. A node with which nothing is
    wrong but the request, or that it has no GPU, is left out."""
    found: dict[str, tuple[str, ...]] = {}
    needless = without_gpus(report)
    groups = _groups(report)
    for name in names:
        problems = groups[name].problems if name in groups else ()
        wrong = dict.fromkeys(problem.slug for problem in problems if problem.severity == "error")
        if name in needless or (wrong and _OF_THE_REQUEST.issuperset(wrong)):
            continue
        reason = f"gpudoctor: {enumeration(list(wrong), 3) or 'differs from the others'}"
        found[reason] = (*found.get(reason, ()), name)
    return found
