"""The cost of a preflight from its start to the command's, as ratios to a bare Python start (budget: 6).

    python benchmarks/preflight.py [--python VENV] [--runs 15]

Run it with the Python of an installed wheel: a checkout reads its matrix from YAML. Nothing refuses here, so every
run ends in the command, also on a machine without a GPU. Level driver asks the driver, if there is one.
"""

from __future__ import annotations

import argparse
import os
import sys

from startup import compare


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", help="examined environment; a CUDA wheel in it gives the full price")
    parser.add_argument("--runs", type=int, default=15)
    options = parser.parse_args()
    doctor = os.path.join(os.path.dirname(sys.executable), "gpudoctor")
    examined = ["--python", options.python] if options.python else []
    for level in ("static", "driver"):
        command = [doctor, "preflight", "-q", "--level", level, "--fail-on", "never", *examined, "--", "/bin/true"]
        compare(f"gpudoctor preflight --level {level} -- true", command, options.runs)


if __name__ == "__main__":
    main()
