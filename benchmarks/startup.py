"""The cost of a static check, as ratios to a bare Python start, in one run (budget: 7), and of pasted texts.

    python benchmarks/startup.py [--python VENV] [--runs 15]

Each command alternates with `python -c pass`, so that a slow or drifting machine affects both. The ratios are those
of the median user + system times, and of the median wall times.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

_MESSAGE = "CUDA error: no kernel image is available for execution on the device. RTX 5090, torch 2.5.1+cu124\n"
_LOG = "".join(
    f"[{n // 7:5}.{n * 37 % 10**6:06}] usb {n % 9}-{n % 5}: new device number {n}, product {n * n:x}\n"
    for n in range(17_000)
)
"""A megabyte."""


def spent(command: Sequence[str]) -> tuple[float, float]:
    """Processor seconds and wall seconds of one run; its output is discarded."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def compare(name: str, command: Sequence[str], runs: int) -> None:
    bare = [sys.executable, "-c", "pass"]
    spent(command)
    pairs = [(spent(command), spent(bare)) for _ in range(runs)]
    cpu, wall = (
        statistics.median(pair[0][kind] for pair in pairs) / statistics.median(pair[1][kind] for pair in pairs)
        for kind in (0, 1)
    )
    milliseconds = statistics.median(pair[0][1] for pair in pairs) * 1000
    print(f"{name:<44} {milliseconds:7.1f} ms   cpu {cpu:5.1f} x   wall {wall:5.1f} x   bare Python start")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", help="examined environment; a CUDA wheel in it gives the full price")
    parser.add_argument("--runs", type=int, default=15)
    options = parser.parse_args()
    examined = ["--python", options.python] if options.python else []
    doctor = [os.path.join(os.path.dirname(sys.executable), "gpudoctor")]
    compare("gpudoctor --version", [*doctor, "--version"], options.runs)
    compare("gpudoctor check --level static", [*doctor, "check", "--level", "static", *examined], options.runs)
    preflight = [*doctor, "preflight", "--level", "static", *examined, "--", "true"]
    compare("gpudoctor preflight --level static -- true", preflight, options.runs)
    static_json = [*doctor, "check", "--level", "static", "--format", "json", *examined]
    compare("gpudoctor check --level static --format json", static_json, options.runs)
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("one message", _MESSAGE), ("1 MB of a log", _LOG + _MESSAGE)):
            file = Path(folder, "pasted.txt")
            file.write_text(text)
            compare(f"gpudoctor check --from, {name}", [*doctor, "check", "--from", str(file)], options.runs)
    if options.python:
        python = os.path.join(options.python, "bin", "python")
        compare(
            "python -m torch.utils.collect_env", [python, "-m", "torch.utils.collect_env"], max(3, options.runs // 5)
        )


if __name__ == "__main__":
    main()
