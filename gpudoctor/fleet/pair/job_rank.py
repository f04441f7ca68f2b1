"""Which rank of which job this process is, as torchrun says it in variables."""

from __future__ import annotations

import platform
from collections.abc import Mapping

from msgspec import Struct

from gpudoctor.host import InputError

_NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
_HOW = "torchrun --nnodes N --nproc-per-node M ... -m gpudoctor fleet pair"
_NODE_NAMES = ("SLURMD_NODENAME", "NODE_NAME")


class JobRank(Struct, frozen=True):
    """A rank of a job."""

    rank: int
    size: int
    local_rank: int
    agent: str
    """Which of torchrun's agents started it: one runs on each node."""
    host: str
    port: int
    serves: bool
    """Whether the job's store has to live with this rank: torchrun brings one by default."""
    attempt: str
    """How often torchrun has started the ranks anew: the store keeps what earlier ones wrote."""
    name: str
    """The name of the node, as the scheduler or the system calls it."""


def job_rank(environ: Mapping[str, str]) -> JobRank:
    """Raises InputError where this is no rank of a job."""
    missing = [name for name in _NAMES if not environ.get(name)]
    if missing:
        raise InputError(f"{missing[0]} is not set: run this on every node inside torchrun: {_HOW}")
    numbers = {}
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_PORT"):
        if not environ[name].isdecimal():
            raise InputError(f"{name}={environ[name]}: not a number; torchrun sets it: {_HOW}")
        numbers[name] = int(environ[name])
    if numbers["RANK"] >= numbers["WORLD_SIZE"]:
        raise InputError(f"RANK={numbers['RANK']} does not belong to WORLD_SIZE={numbers['WORLD_SIZE']}")
    return JobRank(
        rank=numbers["RANK"],
        size=numbers["WORLD_SIZE"],
        local_rank=numbers["LOCAL_RANK"],
        agent=environ.get("GROUP_RANK", ""),
        host=environ["MASTER_ADDR"],
        port=numbers["MASTER_PORT"],
        serves=numbers["RANK"] == 0 and environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True",
        attempt=environ.get("TORCHELASTIC_RESTART_COUNT", "0"),
        name=next(filter(None, map(environ.get, _NODE_NAMES)), None) or platform.node(),
    )
