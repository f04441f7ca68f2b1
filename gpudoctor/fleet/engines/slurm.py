"""Slurm: one srun with one task on each node, inside a job or with a short job of its own."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence

from gpudoctor.fleet.engines.launcher import answers_of
from gpudoctor.fleet.engines.order import Answer, Order, as_typed, nodes_of_job
from gpudoctor.host.child import run_limited

OWN_PYTHON = True
_HINT = "--on slurm: name the nodes with --nodes, or run it inside a job (salloc, sbatch)"
_KILLED = re.compile(r"(srun|\d+: slurmstepd-\S+): error: (.*: Killed$|.*STEP \S+ ON \S+ CANCELLED )")
_DOWN = ("down", "drain", "fail", "maint", "not_responding", "power", "reboot", "unknown")


def preview(order: Order) -> str:
    """The srun, without the nodes that Slurm gives to nobody."""
    out = _out_of_use(order)
    return as_typed(_srun(order, [node for node in nodes_of_job(order, _HINT) if node not in out]))


def run(order: Order) -> tuple[Answer, ...]:
    """Ask the nodes that Slurm hands out; of the others it says why not. One node can take the whole job with it: a
    prolog drains it, or srun loses what it prints and kills the step. The rest is asked again."""
    out = _out_of_use(order)
    waiting = list(nodes_of_job(order, _HINT))
    answers = [Answer(node=node, failure=out[node]) for node in waiting if node in out]
    while waiting := [node for node in waiting if node not in out]:
        came = answers_of(_srun(order, waiting), order.asking(waiting), r"^ *(\d+): ?")
        out = _out_of_use(order)
        again = _nodes_in_tow(came, waiting, out)
        if not 0 < len(again) < len(waiting) or order.left < order.seconds / 3:
            return (*answers, *came)
        answers += [
            Answer(node=each.node, failure=out[each.node]) if each.node in out else each
            for each in came
            if each.node not in again
        ]
        waiting = again
    return tuple(answers)


def _nodes_in_tow(came: Sequence[Answer], waiting: Sequence[str], out: Mapping[str, str]) -> list[str]:
    """Nodes without an answer that another node without an answer took along."""
    mute = [each for each in came if not each.document]
    killed = {each.node for each in mute if _KILLED.match(each.failure)}
    with_all = len(mute) == len(came) and any(node in out for node in waiting)
    if len(killed) == len(mute) and not with_all:
        return []
    return [node for node in waiting if node not in out and (with_all or node in killed)]


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
