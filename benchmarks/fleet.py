"""How the time and the memory of `fleet report` grow with the number of nodes.

    python -m benchmarks.fleet [COUNT ...]

Snapshots of a made-up fleet are written to a folder and merged in a child; times are ratios to `python -c pass`.
"""

from __future__ import annotations

import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from gpudoctor.intake.snapshot import Snapshot
from tests.support.fleets import fleet


def timed(*command: str) -> float:
    """Seconds of wall time."""
    began = time.perf_counter()
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def main(counts: list[int]) -> int:
    """Print a row for each count."""
    start = min(timed(sys.executable, "-c", "pass") for _ in range(5))
    print("| nodes | x `python -c pass` | seconds | MiB at most |")
    print("|---|---|---|---|")
    for count in counts:
        with tempfile.TemporaryDirectory() as name:
            for node, machine in fleet(random.Random(count), count).machines.items():
                Path(name, f"{node}.json").write_bytes(msgspec.json.encode(Snapshot(machine=machine)))
            seconds = timed(sys.executable, "-m", "gpudoctor", "fleet", "report", name)
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
        print(f"| {count} | {seconds / start:.0f} | {seconds:.1f} | {peak} |")
    return 0


if __name__ == "__main__":
    sys.exit(main([int(word) for word in sys.argv[1:]] or [100, 1000, 10_000]))
