"""Runs `gpudoctor fleet pair` inside a real torchrun with faults planted, and prints whom it blames:

python -m tests.pair_trials     (GPUDOCTOR_TEST_PYTHON names a Python with torch; it takes half an hour)
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
FAULTY_RANKS = HERE / "support" / "faulty_ranks"
LIMIT = 15.0


class Run(NamedTuple):
    """What a run ended with."""

    code: int
    """Of torchrun, which makes 1 of every failure."""
    report: dict[str, Any]
    said: str

    @property
    def blamed(self) -> set[str]:
        """Such as "failed:3", "slow:1", "link:2-4", "undecided:0-1"."""
        ranks = {node["name"]: node["ranks"][0] for node in self.report["nodes"]}
        states = {f"{node['state']}:{node['ranks'][0]}" for node in self.report["nodes"]}
        found = {state for state in states if state.partition(":")[0] not in ("ok", "undecided")}
        for problem in self.report["problems"]:
            kind = {"GPD744": "link", "GPD745": "slow-link", "GPD746": "undecided"}.get(problem["id"])
            if kind:
                found.add(f"{kind}:{'-'.join(str(ranks[name]) for name in problem['nodes'])}")
        return found


def run(python: str, count: int, faults: str, *options: str, limit: float = LIMIT, nodes: int = 1) -> Run:
    """`count` ranks on each of `nodes` agents of torchrun."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GPUDOCTOR_")}
    environ.update(PAIR_FAULTS=faults, PYTHONPATH=str(FAULTY_RANKS), OMP_NUM_THREADS="1")
    command = [python, "-m", "torch.distributed.run", f"--nproc-per-node={count}", f"--nnodes={nodes}"]
    command += ["--standalone"] if nodes == 1 else ["--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{_port()}"]
    command += ["--no-python", sys.executable, "-m", "gpudoctor", "fleet", "pair", "--python", python]
    command += ["--format", "json", "--timeout", f"{limit:g}", *options]
    agents = [
        subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(nodes)
    ]
    done = [agent.communicate(timeout=600) for agent in agents]
    printed = "".join(out for out, _ in done)
    said = "".join(error for _, error in done)
    return Run(max(agent.returncode for agent in agents), json.loads(printed) if printed else {}, said)


def _port() -> int:
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def cases() -> Iterator[tuple[int, str, tuple[str, ...], set[str]]]:
    """Ranks, faults, options, and whom to blame."""
    yield 2, "", (), set()
    for kind in ("hang", "wrong", "crash"):
        yield 2, f"{kind}:1", (), {"undecided:0-1"}
    yield 2, "unable:1", (), {"unable:1"}
    state = {"hang": "failed", "crash": "failed", "raise": "failed"}
    for count in range(3, 10):
        yield count, "", (), set()
        bad = count // 2
        for kind in ("hang", "wrong", "slow", "crash", "unable"):
            yield count, f"{kind}:{bad}", (), {f"{state.get(kind, kind)}:{bad}"}
    for count in range(5, 10):
        yield count, f"hang:0 wrong:{count - 1}", (), {"failed:0", f"wrong:{count - 1}"}
        yield count, f"slow:1 crash:{count - 2}", (), {"slow:1", f"failed:{count - 2}"}
        yield count, f"hang:1 hang:{count - 2}", (), {"failed:1", f"failed:{count - 2}"}
    for count in range(4, 10):
        yield count, f"raise-link:1-{count - 1}", ("--links",), {f"link:1-{count - 1}"}
    for count in (5, 7, 8):
        yield count, "slow-link:0-2", ("--links",), {"slow-link:0-2"}


def main() -> int:
    """A line for each case; how many went otherwise than expected."""
    python = os.environ["GPUDOCTOR_TEST_PYTHON"]
    others = innocent = number = 0
    for number, (count, faults, options, expected) in enumerate(cases(), 1):
        start = time.monotonic()
        ended = run(python, count, faults, *options)
        blamed = ended.blamed if ended.report else {"no report"}
        guilty = {part for fault in faults.split() for part in fault.partition(":")[2].split("-")}
        innocent += sum(
            one.partition(":")[2] not in guilty for one in blamed if "link" not in one and "undecided" not in one
        )
        others += blamed != expected
        mark = "" if blamed == expected else f"   expected {' '.join(sorted(expected)) or 'nobody'}"
        seconds = time.monotonic() - start
        words = (str(number), str(count), " ".join(options) or "--rounds 3", faults or "none")
        print(" | ".join((*words, " ".join(sorted(blamed)) or "nobody", f"{seconds:.0f} s")) + mark, flush=True)
    print(f"{number} runs, {others} otherwise than expected, {innocent} innocent nodes blamed")
    return 1 if others else 0


if __name__ == "__main__":
    sys.exit(main())
