"""Ray: one task on each node, pinned there; gpudoctor runs below it with the node's own environment."""

from __future__ import annotations

import importlib
import sys
from contextlib import redirect_stdout
from typing import Any

from gpudoctor.fleet.engines.order import Answer, Order, as_typed
from gpudoctor.fleet.frames import Frames
from gpudoctor.host import InputError

OWN_PYTHON = True
_GONE_AS_PLANNED = (1, 4)
"""Ray's reasons of death: ended as expected, and taken back by the autoscaler because it was idle."""


def preview(order: Order) -> str:
    """The command of each task. Ray has no command line for it."""
    command = as_typed(order.on_node())
    return f"# a Ray task on each node, with NodeAffinitySchedulingStrategy(ID, soft=False):\n{command}"


def run(order: Order) -> tuple[Answer, ...]:
    """Ask every living node of the cluster that RAY_ADDRESS, or the running one, is."""
    try:
        ray = importlib.import_module("ray")
    except ImportError:
        raise InputError("--on ray needs Ray: pip install 'gpudoctor-cli[ray]'") from None
    try:
        ray.init(
            address=order.arguments[0] if order.arguments else "auto", log_to_driver=False, logging_level="ERROR"
        )
    except Exception as error:  # many kinds, none of which Ray documents
        raise InputError(f"--on ray: no cluster: {error}") from None
    try:
        with redirect_stdout(sys.stderr):  # Ray prints there when it loses a node; ours holds the report alone
            return _ask(ray, order)
    finally:
        ray.shutdown()


def _ask(ray: Any, order: Order) -> tuple[Answer, ...]:
    affinity = importlib.import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
    living, answers = _nodes(ray, order)
    task = ray.remote(num_cpus=0, max_retries=0)(_task())
    pinned = {
        task.options(scheduling_strategy=affinity(id, soft=False)).remote(order.on_node(), order.left): node
        for node, id in living.items()
    }
    done, waiting = ray.wait(list(pinned), num_returns=len(pinned), timeout=order.left) if pinned else ([], [])
    for reference in waiting:
        ray.cancel(reference, force=True)
        answers.append(Answer(node=pinned[reference], failure=f"no answer within {order.seconds:g} s"))
    for reference in done:
        answers.append(_answer(ray, reference, pinned[reference]))
    return tuple(answers)


def _answer(ray: Any, reference: Any, node: str) -> Answer:
    try:
        printed, code = ray.get(reference)
    except Exception as error:
        why = next((line for line in reversed(str(error).splitlines()) if line.strip()), "")
        return Answer(node=node, failure=f"the task failed: {type(error).__name__}: {why.strip()[:300]}")
    frames = Frames()
    for line in printed.splitlines():
        frames.line(line)
    found = frames.answers({"": node})
    if len(found) == 1:
        return found[0]
    return Answer(node=node, failure=f"gpudoctor ended with exit code {code} and sent {len(found) or 'no'} reports")


def _nodes(ray: Any, order: Order) -> tuple[dict[str, str], list[Answer]]:
    """The living nodes with their ids, and answers for those that are dead."""
    rows = sorted(ray.nodes(), key=lambda row: not row["Alive"])
    names = [_name(row) for row in rows]
    living: dict[str, str] = {}
    dead: dict[str, Answer] = {}
    for row, name in zip(rows, names, strict=True):
        alike = sum(other == name and each["Alive"] for other, each in zip(names, rows, strict=True))
        node = f"{name}-{row['NodeID'][:8]}" if alike > 1 else name
        if order.nodes and node not in order.nodes:
            continue
        if row["Alive"]:
            living[node] = row["NodeID"]
        elif node not in living and (order.nodes or row.get("DeathReason") not in _GONE_AS_PLANNED):
            why = row.get("DeathReasonMessage") or "no reason is known"
            dead[node] = Answer(node=node, failure=f"Ray lost the node: {why.splitlines()[0][:300]}")
    missing = [node for node in order.nodes if node not in living and node not in dead]
    return living, [*dead.values(), *(Answer(node=node, failure="Ray knows no such node") for node in missing)]


def _name(row: dict[str, Any]) -> str:
    own = str(row.get("NodeName") or "")
    return own if own and own != row["NodeManagerAddress"] else str(row["NodeManagerHostname"])


def _task() -> Any:
    """The function of the task. It is defined here so that Ray sends it as it is: a worker may lack gpudoctor."""

    def run(argv: tuple[str, ...], seconds: float) -> tuple[str, int]:
        import os
        import subprocess

        # Ray hides all GPUs from a task that asks for none. Its parent, the node's raylet, has what the node has.
        environ = dict(os.environ)
        try:
            with open(f"/proc/{os.getppid()}/environ", "rb") as file:
                rows = (row.partition(b"=") for row in file.read().split(b"\0") if b"=" in row)
                environ = {os.fsdecode(name): os.fsdecode(value) for name, _, value in rows}
        except OSError:
            pass
        done = subprocess.run(argv, env=environ, stdout=subprocess.PIPE, text=True, check=False, timeout=seconds)
        return done.stdout, done.returncode

    return run
