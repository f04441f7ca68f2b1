"""What srun does to a whole step, as Slurm 22.05 printed it; a real one does it only now and then."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.made_fleet import MadeFleet, told

# n2 ended with more unread output than a socket holds: srun lost it, and killed the tasks of n0 and n1.
SRUN = """#!/bin/sh
case "$*" in
*--nodelist=n0,n1,n2*)
    echo "srun: error: step_launch_notify_io_failure: aborting, io error with slurmstepd on node 2" >&2
    echo "0: slurmstepd-n0: error: *** STEP 2.0 ON n0 CANCELLED AT 2026-11-24T13:08:33 ***"
    echo "srun: error: n1: task 1: Killed" >&2
    exit 137 ;;
*--nodelist=n0,n1*)
    for task in 0 1; do
        GPUDOCTOR_TEST_NODE=n$task {program} fleet node -- --level static | sed "s/^/$task: /"
    done ;;
esac
"""


def test_one_node_whose_output_srun_loses_hides_no_other(tmp_path: Path) -> None:
    fleet = MadeFleet(tmp_path / "fleet", "good", "good", "rubbish")
    srun = tmp_path / "srun"
    srun.write_text(SRUN.format(program=fleet.program))
    srun.chmod(0o755)
    environ = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    words = ("--on", "slurm", "--nodes", "n[0-2]", "--program", str(fleet.program), "--format", "json")
    command = [sys.executable, "-m", "gpudoctor", "fleet", "check", *words]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=100)
    verdicts, why, code = told(done)
    assert (verdicts, code) == ({"n0": "ok", "n1": "ok", "n2": "unknown"}, 3), why
    assert "srun ended with exit code 137" in why["n2"]
