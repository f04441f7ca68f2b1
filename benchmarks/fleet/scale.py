"""How the time and the memory of `fleet report` grow with the number of nodes.

Snapshots of a made-up fleet are written to a folder and merged in a child; times are ratios to `python -c pass`.
"""

from __future__ import annotations

import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from gpudoctor.intake.snapshot import Snapshot
from tests.support.fleets import fleet


def table(counts: Iterable[int]) -> None:
    """Print a row for each count."""
    start = min(_timed(sys.executable, "-c", "pass")[0] for _ in range(5))
    print("| nodes | x `python -c pass` | seconds | of the processor | MiB at most |")
    print("|---|---|---|---|---|")
    for count in counts:
        with tempfile.TemporaryDirectory() as name:
            source = random.Random(count)
            for node, machine in fleet(source, count).with_noise(source).machines.items():
                Path(name, f"{node}.json").write_bytes(msgspec.json.encode(Snapshot(machine=machine)))
            seconds, processor = _timed(sys.executable, "-m", "gpudoctor", "fleet", "report", name)
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
        print(f"| {count} | {seconds / start:.0f} | {seconds:.1f} | {processor:.1f} | {peak} |", flush=True)


def _timed(*command: str) -> tuple[float, float]:
    """Seconds of wall time, and of processor time."""
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - began, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
