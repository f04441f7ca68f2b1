"""How long it takes to read a library's GPU code, as a ratio to a bare Python start.

    python benchmarks/scan.py LIBRARY...

Each library is read in a fresh interpreter that imports only the readers, warm (its pages in the cache). If
cuobjdump is on PATH, it lists the same file for comparison.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROUNDS = 5
READ = """
import json, resource, sys, time
sys.path.insert(0, sys.argv[2])
from gpudoctor.codeobjects.library import read_code
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
started = time.perf_counter()
with open(sys.argv[1], "rb") as handle:
    code = read_code(handle)
took = time.perf_counter() - started
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
row = {"archs": [*code.sass, *code.ptx, *code.gfx], "containers": code.containers, "why": code.reason}
print(json.dumps({"took": took, "grown_kib": grown, **row}))
"""


def best(run: Callable[[], float]) -> float:
    return min(run() for _ in range(ROUNDS))


def seconds(*argv: str) -> float:
    started = time.perf_counter()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - started


def main(libraries: list[str]) -> None:
    root = str(Path(__file__).parents[1])
    bare = best(lambda: seconds(sys.executable, "-c", "pass"))
    print(f"python -c pass: {bare * 1e3:.1f} ms")
    for library in libraries:
        argv = (sys.executable, "-c", READ, library, root)
        whole = best(lambda argv=argv: seconds(*argv))  # type: ignore[misc]
        outputs = [subprocess.run(argv, check=True, capture_output=True, text=True).stdout for _ in range(ROUNDS)]
        rows = [json.loads(output) for output in outputs]
        took, row = min(row["took"] for row in rows), rows[0]
        size = Path(library).stat().st_size / 1e6
        print(f"\n{library}: {size:.0f} MB, {row['containers']} containers: {row['why'] or ' '.join(row['archs'])}")
        print(f"  reading it          {took * 1e3:8.1f} ms = {took / bare:5.2f} x; memory +{row['grown_kib']} KiB")
        print(f"  the whole process   {whole * 1e3:8.1f} ms = {whole / bare:5.2f} x")
        cuobjdump = shutil.which("cuobjdump")
        if cuobjdump is not None and any(arch.startswith("sm_") for arch in row["archs"]):
            other = seconds(cuobjdump, "--list-elf", library)
            print(f"  cuobjdump --list-elf{other * 1e3:8.0f} ms = {other / took:5.0f} x as long as reading it here")


if __name__ == "__main__":
    main(sys.argv[1:])
