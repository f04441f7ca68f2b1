"""Starts in a row with random faults injected: never a wrong pass, never over the time limit.

    GPUDOCTOR_TEST_IMAGE=IMAGE python -m tests.container_faults [STARTS [SEED]]

Each start draws a node (NVIDIA with a driver that answers, or AMD with a runtime that does), up to two faults, a
user and a kind of file system. A start must end with CMD's status where no fault was drawn, and with 121 or 123 where
one was.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.container_cases import LIB, RENDER, amd_answering, answering
from tests.support.containers import Engine, Node, unavailable

LIMIT = 40.0
"""Seconds: the driver's 20 and nvidia-smi's 15, and the engine's own start."""

PASSED = 42
USERS = ("0:0", "1234:5678", "65534:65534", "2147483646:2147483646", "0:1234")
SYSTEMS: tuple[tuple[str, ...], ...] = (
    (),
    ("--read-only",),
    ("--read-only", "--read-only-tmpfs=false", "--env", "TMPDIR=/nowhere", "--unsetenv", "HOME"),
    ("--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
    ("--env", "LANG=C", "--env", "PYTHONUTF8=0", "--env", "PYTHONPATH="),
)

Start = dict[str, Any]
"""What a fault may change: "node", "environ", "root" (whether file modes of root alone let this user in)."""
Fault = Callable[[Start, random.Random], bool]
"""Injects itself; whether it must be refused."""


def missing_node(start: Start, dice: random.Random) -> bool:
    nodes = start["node"].json["nodes"]
    if nodes:
        nodes.pop(dice.choice(sorted(nodes)))
    return True


def refused_node(start: Start, dice: random.Random) -> bool:
    node: Node = start["node"]
    if node.json["nodes"]:
        node.cgroup_refuses(dice.choice(sorted(node.json["nodes"])))
    return True


def closed_nodes(start: Start, dice: random.Random) -> bool:
    for said in start["node"].json["nodes"].values():
        said.update(mode="0600", gid=0)
    return not start["root"]


def no_libraries(start: Start, dice: random.Random) -> bool:
    if start["amd"]:
        return False
    start["node"].without_libraries()
    return True


def garbage_library(start: Start, dice: random.Random) -> bool:
    path = start["node"].path(f"{LIB}/libcuda.so.580.95.05")
    if not path.exists():
        return False
    path.write_bytes(path.read_bytes()[: dice.choice((0, 4, 64, 1000))] + dice.randbytes(dice.choice((0, 64))))
    return True


def driver_error(start: Start, dice: random.Random) -> bool:
    code = dice.choice((3, 100, 101, 214, 304, 802, 803, 804, 999))
    start["environ"].update(STUB_NVML=dice.choice(("0", "9", "12", "15", "18", "999")), STUB_CUDA=str(code))
    start["environ"]["STUB_HSA"] = dice.choice(("0x1000", "0x1008", "0x1009", "0x1016"))
    return True


def crash(start: Start, dice: random.Random) -> bool:
    start["environ"].update(STUB_CUDA="abort", STUB_HSA="crash")
    return True


def hang(start: Start, dice: random.Random) -> bool:
    hanging = dice.choice(("STUB_NVML", "STUB_CUDA"))
    start["environ"].update({hanging: "hang", "STUB_HSA": "hang"})
    return start["amd"] or hanging == "STUB_CUDA"  # without NVML, CUDA is asked alone


def nvml_noise(start: Start, dice: random.Random) -> bool:
    start["environ"]["STUB_NVML"] = dice.choice(("noise", "crash"))
    return False


def hung_tool(start: Start, dice: random.Random) -> bool:
    for name in ("nvidia-smi", "rocminfo", "rocm-smi", "lspci"):
        start["node"].in_image(f"/usr/bin/{name}", b"#!/bin/sh\ntrap '' TERM INT HUP\nsleep 1000\n")
        start["node"].path(f"/image/usr/bin/{name}").chmod(0o755)
    return False


def runtime_variable(start: Start, dice: random.Random) -> bool:
    start["environ"]["NVIDIA_VISIBLE_DEVICES"] = dice.choice(("void", "none", "all", "", "0", "GPU-0"))
    return False


FAULTS: tuple[tuple[Fault, int], ...] = (
    (missing_node, 4), (refused_node, 4), (closed_nodes, 3), (no_libraries, 2), (garbage_library, 3),
    (driver_error, 5), (crash, 2), (hang, 1), (nvml_noise, 3), (hung_tool, 3), (runtime_variable, 3),
)  # fmt: skip


def draw(folder: Path, dice: random.Random) -> tuple[Start, tuple[str, ...], bool]:
    """A start, the options of `podman run`, and whether it must be refused."""
    of_amd = dice.random() < 0.3
    user, system = dice.choice(USERS), dice.choice(SYSTEMS)
    start: Start = {"node": (amd_answering if of_amd else answering)(folder), "environ": {}, "amd": of_amd}
    start["root"] = user.startswith("0:")  # the nodes' owner: needs no capability
    options = ["--user", user, *system]
    if of_amd:
        options += ["--group-add", str(RENDER)]
    chosen = dice.choices(
        [fault for fault, _ in FAULTS], [weight for _, weight in FAULTS], k=dice.choice((0, 1, 1, 2))
    )
    verdicts = [fault(start, dice) for fault in dict.fromkeys(chosen)]
    start["names"] = [fault.__name__ for fault in dict.fromkeys(chosen)]
    return start, tuple(options), any(verdicts)


def main(words: list[str]) -> int:
    if why := unavailable():
        print(why, file=sys.stderr)
        return 2
    starts, seed = int(words[0]) if words else 200, int(words[1]) if len(words) > 1 else 1
    dice, table, slowest, wrong = random.Random(seed), Counter[tuple[str, int]](), Counter[str](), 0
    with tempfile.TemporaryDirectory() as folder:
        engine = Engine(Path(folder))
        for number in range(starts):
            start, options, bad = draw(Path(folder) / str(number), dice)
            level = ("preflight", "--level", "driver", "--require", "gpu>=1")
            command = (*level, "--ignore", "GPD103=the stub says so", "--", "sh", "-c", f"exit {PASSED}")
            began = time.monotonic()
            ended = engine.gpudoctor(start["node"], *command, options=options, environ=start["environ"])
            took = time.monotonic() - began
            right = ended.returncode in ((121, 123) if bad else (PASSED,)) and took < LIMIT
            name = f"{'AMD' if start['amd'] else 'NVIDIA'} {' + '.join(sorted(start['names'])) or 'no fault'}"
            table[name, ended.returncode] += 1
            slowest[name] = max(slowest[name], int(took * 10))
            wrong += not right
            if not right:
                print(
                    f"WRONG start {number}: {name} {options} {start['environ']} -> {ended.returncode}, {took:.1f} s"
                )
                print(ended.stderr, flush=True)
    print(f"{'starts':>6} {'exit':>5} {'slowest':>8}")
    for (name, code), count in sorted(table.items()):
        print(f"{count:>6} {code:>5} {slowest[name] / 10:>6.1f} s  {name}")
    print(f"{starts} starts, seed {seed}: {wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
