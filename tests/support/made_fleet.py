"""A made-up fleet: each node is this machine, given another machine to tell of, and a way to misbehave.

An engine starts `program` on every node; it looks which node it is, and does what the test planted there.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

GPUDOCTOR = f"{shlex.quote(sys.executable)} -m gpudoctor"
MISBEHAVIOUR = {
    "good": 'exec {gpudoctor} "$@"',
    "differs": 'GPUDOCTOR_DRIVER=580.95.05 exec {gpudoctor} "$@"',
    "broken": 'GPUDOCTOR_TORCH=2.9.1+cpu exec {gpudoctor} "$@"',
    "crashes": "echo 'no such device' >&2; kill -SEGV $$",
    "hangs": "exec sleep 1000",
    "dies": "kill -9 $$",
    "rubbish": "head -c 300000 /dev/urandom; echo 'gpudoctor-node n1 1/1 bm9uc2Vuc2U='; exit 0",
    "silent": "exit 0",
    # The report of a good node in the name of another one.
    "lies": '{gpudoctor} "$@" | sed "s/gpudoctor-node [^ ]*/gpudoctor-node $other/"',
}
SCRIPT = """#!/bin/sh
here={here}
node=${{GPUDOCTOR_TEST_NODE:-${{SLURMD_NODENAME:-${{PMI_RANK:+n$PMI_RANK}}}}}}
node=${{node:-${{0##*program-}}}}
other=n0; [ "$node" = n0 ] && other=n1
export NODE_NAME="$node" GPUDOCTOR_GPU=H100 GPUDOCTOR_DRIVER=580.82.07 GPUDOCTOR_TORCH=2.9.1+cu128
export GPUDOCTOR_PYTHON_VERSION=3.12
case $(cat "$here/$node") in
{cases}
*) exit 9 ;;
esac
"""


class MadeFleet:
    """Nodes n0, n1 ... in a folder."""

    def __init__(self, folder: Path, *ways: str) -> None:
        """`ways`: how each node behaves, a key of MISBEHAVIOUR."""
        self.folder, self.nodes = folder, tuple(f"n{number}" for number in range(len(ways)))
        folder.mkdir(exist_ok=True)
        for node, way in zip(self.nodes, ways, strict=True):
            (folder / node).write_text(way)
        cases = "\n".join(f"{way}) {body.format(gpudoctor=GPUDOCTOR)} ;;" for way, body in MISBEHAVIOUR.items())
        self.program = folder / "program"
        self.program.write_text(SCRIPT.format(here=shlex.quote(str(folder)), cases=cases))
        self.program.chmod(0o755)
        for node in self.nodes:
            (folder / f"program-{node}").symlink_to(self.program)


def told(done: subprocess.CompletedProcess[str]) -> tuple[dict[str, str], dict[str, str], int]:
    """Of a fleet's JSON: the verdict of each node, why it is unknown, and the exit code."""
    assert done.stdout.startswith("{"), done.stdout + done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    nodes = report["nodes"]
    return (
        {node["name"]: node["verdict"] for node in nodes},
        {node["name"]: node["why"] for node in nodes if node["why"]},
        done.returncode,
    )
