"""torchrun: the first rank of each node checks it, the job's own store carries the reports, rank 0 tells.

torchrun has to be started on every node by whoever starts the training: this runs inside it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from gpudoctor.fleet import store
from gpudoctor.fleet.engines.order import Answer, Order, as_typed
from gpudoctor.fleet.frames import Frames
from gpudoctor.fleet.launch import by_line, launch
from gpudoctor.fleet.node import lines_of_check
from gpudoctor.host import InputError

OWN_PYTHON = True
_KEEP = Path(store.__file__).with_name("keep.py")
_JOB = ("MASTER_ADDR", "MASTER_PORT", "RANK", "LOCAL_RANK", "GROUP_RANK")


def preview(order: Order) -> str:
    """The command for every node; a person fills in what only the job knows."""
    place = ("--nnodes", "N", "--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-endpoint", "HOST:29500")
    behind = ("--", *order.options) if order.options else ()
    options = ("--level", order.level, "--timeout", f"{order.seconds:g}", *behind)
    check = ("-m", "gpudoctor", "fleet", "check", "--on", "torchrun")
    command = ("torchrun", *place, *order.arguments, *check, *options)
    return f"# on every node:\n{as_typed(command)}"


def run(order: Order) -> tuple[Answer, ...] | None:
    """Check this node; rank 0 then waits for the others."""
    environ = os.environ
    missing = [name for name in _JOB if not environ.get(name)]
    if missing:
        raise InputError(f"{missing[0]} is not set; start it inside torchrun: {preview(order).splitlines()[1]}")
    if environ["LOCAL_RANK"] != "0":
        return None
    own = lines_of_check(order.check, order.node_seconds, environ)
    if environ["RANK"] == "0":
        return (*_answers(own), *_others(order, environ))
    with tempfile.TemporaryDirectory(prefix="gpudoctor-") as folder:
        file = Path(folder, "lines")
        file.write_text("\n".join(own), encoding="ascii")
        launch(_keep("put", order, environ, environ["GROUP_RANK"], str(file)), order.left, _unheard, environ)
    return None


def _answers(lines: Iterable[str]) -> list[Answer]:
    frames = Frames()
    for line in lines:
        frames.line(line)
    return frames.answers({})


def _others(order: Order, environ: Mapping[str, str]) -> Iterator[Answer]:
    count = int(environ.get("GROUP_WORLD_SIZE", "1"))
    if count == 1:
        return
    frames = Frames(r"^(\d+): ")
    launch(_keep("get", order, environ, str(count)), order.left, by_line(frames.line), environ)
    yield from frames.answers({})
    for rank in range(1, count):
        if str(rank) not in frames.answered:
            yield Answer(node=f"group rank {rank}", failure=f"no answer within {order.seconds:g} s")


def _unheard(stream: str, data: bytes) -> None:
    """What the child prints is not of interest: a missing report is one."""


def _keep(action: str, order: Order, environ: Mapping[str, str], *rest: str) -> tuple[str, ...]:
    # torchrun brings the store by default; else it lives with rank 0, for as long as that reads it.
    serves = "1" if environ["RANK"] == "0" and environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True" else "0"
    attempt = environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    place = (environ["MASTER_ADDR"], environ["MASTER_PORT"], serves, attempt, f"{order.left:g}")
    return (sys.executable, str(_KEEP), action, *place, *rest)
