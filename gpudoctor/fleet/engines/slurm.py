"""Slurm: one srun with one task on each node, inside a job or with a short job of its own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence

from gpudoctor.fleet.engines.order import Answer, Order, as_typed, nodes_of_job
from gpudoctor.fleet.engines.printed import answers_of
from gpudoctor.host.child import run_limited

OWN_PYTHON = True
_HINT = "--on slurm: name the nodes with --nodes, or run it inside a job (salloc, sbatch)"
_DOWN = ("down", "drain", "fail", "maint", "not_responding", "power", "reboot", "unknown")


def preview(order: Order) -> str:
    """The srun, without the nodes that Slurm gives to nobody."""
    out = _out_of_use(order)
    return as_typed(_srun(order, [node for node in nodes_of_job(order, _HINT) if node not in out]))


def run(order: Order) -> tuple[Answer, ...]:
    """Ask the nodes that Slurm hands out; of the others it says why not. A node that a prolog drains takes the whole
    job with it: the rest is asked again."""
    out = _out_of_use(order)
    waiting = list(nodes_of_job(order, _HINT))
    answers = [Answer(node=node, failure=out[node]) for node in waiting if node in out]
    while waiting := [node for node in waiting if node not in out]:
        came = answers_of(_srun(order, waiting), order.asking(waiting), r"^ *(\d+): ?")
        out = _out_of_use(order)
        drained = [node for node in waiting if node in out]
        answered = any(answer.document for answer in came)
        if answered or not drained or order.left < order.seconds / 3:
            return (*answers, *came)
        answers += [Answer(node=node, failure=out[node]) for node in drained]
    return tuple(answers)


def _srun(order: Order, nodes: Sequence[str]) -> tuple[str, ...]:
    inside = "SLURM_JOB_ID" in os.environ
    minutes = int(order.seconds // 60) + 2
    return (
        *("srun", f"--nodelist={','.join(nodes)}", f"--nodes={len(nodes)}", f"--ntasks={len(nodes)}"),
        *("--ntasks-per-node=1", "--kill-on-bad-exit=0", "--wait=0", "--label", "--input=none"),
        *(("--overlap",) if inside else (f"--immediate={int(order.seconds)}", f"--time={minutes}")),
        *("--job-name=gpudoctor", *order.arguments, *order.on_node()),
    )


def _out_of_use(order: Order) -> dict[str, str]:
    """The nodes that Slurm gives to nobody, with the reason that it has."""
    if "SLURM_JOB_ID" in os.environ or shutil.which("sinfo") is None:
        return {}
    said = run_limited(("sinfo", "--Node", "--noheader", "--format=%N|%T|%E"), min(10.0, order.left or 1.0)).value
    rows = [line.split("|", 2) for line in said.stdout.splitlines()] if said else []
    return {
        row[0]: f"Slurm gives it to nobody: {row[1]}, {row[2]}"
        for row in rows
        if (len(row) == 3 and any(state in row[1] for state in _DOWN)) or "*" in row[1:2]
    }
