"""Lines that an operator pastes: they take bad nodes out of use. Shown, never run."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator

from gpudoctor.fleet.names import folded, natural
from gpudoctor.fleet.records import FleetReport
from gpudoctor.spelling import is_name


def out_of_use(report: FleetReport) -> tuple[str, ...]:
    """Names of the nodes that no job should get: those with an error, and those of which nothing is known."""
    bad = (node.name for node in report.nodes if node.verdict in ("error", "unknown"))
    return tuple(sorted(bad, key=natural))


def ready_lines(report: FleetReport) -> Iterator[tuple[str, str]]:
    """For whom a line is, and the line. A name that is none of a host is left out."""
    names = tuple(filter(is_name, out_of_use(report)))
    if not names:
        return
    together = folded(names)
    yield "sbatch, srun", f"--exclude={together}"
    yield (
        "Slurm",
        f"scontrol update nodename={shlex.quote(together)} state=drain reason={shlex.quote(_reason(report))}",
    )
    yield "Kubernetes", f"kubectl cordon {shlex.join(names)}"
    yield f"Ray on {together}", "ray start --labels gpudoctor=bad"


def _reason(report: FleetReport) -> str:
    wrong: Iterable[str] = dict.fromkeys(
        problem.slug for group in report.groups for problem in group.problems if problem.severity == "error"
    )
    return f"gpudoctor: {', '.join(list(wrong)[:3]) or 'odd or silent'}"
