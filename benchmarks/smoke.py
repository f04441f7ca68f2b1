"""The cost of the smoke kernels, as ratios to `python -c "import torch"` in the same environment, in one run.

    python benchmarks/smoke.py --python VENV [--runs 5]

Each command alternates with the bare import, so that a slow or drifting machine affects both. The ratio is that of
the median wall times.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any


def seconds(command: Sequence[str]) -> float:
    """Wall seconds of one run; its output is discarded."""
    started = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return time.perf_counter() - started


def compare(name: str, command: Sequence[str], bare: Sequence[str], runs: int) -> None:
    seconds(command)
    pairs = [(seconds(command), seconds(bare)) for _ in range(runs)]
    ours, theirs = (statistics.median(pair[place] for pair in pairs) for place in (0, 1))
    print(f"{name:<52} {ours * 1000:8.0f} ms {ours / theirs:6.2f} x  import torch ({theirs * 1000:.0f} ms)")


def report(command: Sequence[str]) -> dict[str, Any]:
    done = subprocess.run([*command, "--format", "json"], capture_output=True, text=True, check=False)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True, help="environment with a torch")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    python = os.path.join(options.python, "bin", "python")
    bare = [python, "-c", "import torch"]
    doctor = [os.path.join(os.path.dirname(sys.executable), "gpudoctor")]
    smoke = [*doctor, "smoke", "--python", options.python]
    compare("python -c pass", [python, "-c", "pass"], bare, options.runs)
    compare(
        "gpudoctor check --level driver (no import)",
        [*doctor, "check", "--level", "driver", "--python", options.python],
        bare,
        options.runs,
    )
    first = json.loads(
        subprocess.run(
            [*doctor, "smoke", "--list", "--format", "json"], capture_output=True, text=True, check=True
        ).stdout
    )
    one = first["kernels"][0]["name"]
    compare(f"gpudoctor smoke --kernel {one}", [*smoke, "--kernel", one], bare, options.runs)
    compare("gpudoctor smoke (level quick)", smoke, bare, options.runs)
    whole = report(smoke)
    trial = whole["machine"]["environment"]["value"]["torch"]["value"]["trial"]["value"]
    kernels = sum(kernel["ms"] or 0.0 for kernel in whole["smoke"]["kernels"])
    rest = whole["timings_ms"]["smoke"] - trial["seconds"] * 1000 - kernels
    imported = f"import {trial['seconds'] * 1000:.0f} ms"
    print(f"within one quick run: {imported}, {len(whole['smoke']['kernels'])} kernels {kernels:.0f} ms,")
    print(f"  child start, listing, channel and end {rest:.0f} ms")


if __name__ == "__main__":
    main()
