"""MPI: mpiexec of MPICH (and its kin) or of Open MPI, with one process on each node.

Inside a job of mpiexec there is no way back but its output: the first process of each node prints the report in
lines, which `gpudoctor fleet check --on stdin` reads.
"""

from __future__ import annotations

import os
from functools import cache

from gpudoctor.fleet.engines.launcher import answers_of
from gpudoctor.fleet.engines.order import Answer, Order, as_typed, nodes_of_job
from gpudoctor.fleet.node import lines_of_check
from gpudoctor.host.child import run_limited

OWN_PYTHON = True
_HINT = "--on mpi: name the nodes with --nodes, or run it inside a Slurm job"
_LOCAL_RANK = ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_LOCAL_RANK")
_RANK = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK")


def preview(order: Order) -> str:
    """The mpiexec."""
    return as_typed(_mpiexec(order, nodes_of_job(order, _HINT)))


def run(order: Order) -> tuple[Answer, ...] | None:
    """Start mpiexec; inside one, check this node."""
    if any(name in os.environ for name in _RANK):
        if next((os.environ[name] for name in _LOCAL_RANK if name in os.environ), "0") == "0":
            for line in lines_of_check(order.check, order.node_seconds, os.environ):
                print(line, flush=True)
        return None
    nodes = nodes_of_job(order, _HINT)
    label = r"\[\d+,(\d+)\]<\w+>: ?" if _open_mpi() else r"\[(\d+)\] ?"
    names = {str(rank): node for rank, node in enumerate(nodes)}
    return answers_of(_mpiexec(order, nodes), order.asking(nodes), label, names)


def _mpiexec(order: Order, nodes: tuple[str, ...]) -> tuple[str, ...]:
    names = ",".join(nodes)
    mpich = ("-hosts", names, "-ppn", "1", "-prepend-rank", "-disable-auto-cleanup")
    open_mpi = ("--host", names, "--map-by", "ppr:1:node", "--tag-output")
    place = open_mpi if _open_mpi() else mpich
    return ("mpiexec", "-n", str(len(nodes)), *place, *order.arguments, *order.on_node())


@cache
def _open_mpi() -> bool:
    """Whether it is Open MPI, which has other options than MPICH and Intel MPI."""
    said = run_limited(("mpiexec", "--version"), 10).value
    return said is not None and any(name in said.stdout for name in ("Open MPI", "OpenRTE", "PRRTE"))
