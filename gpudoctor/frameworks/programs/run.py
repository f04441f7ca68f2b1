"""The child: loads the program of one framework, multiplies matrices on its devices, and compares with a reference.

Started by gpudoctor.smoke.other_frameworks as `run.py PROGRAM DEVICE...`. It prints one JSON object a line, after a
mark, because frameworks print what they like.
"""

import importlib.util
import json
import math
import random
import sys
import time
from typing import Any, List

MARK = "gpudoctor> "
SIZE = 64
TOLERANCE = 0.002
"""For float32 with TF32 allowed: ten bits of mantissa, products of values below 1 that are summed 64 times, relative
to the largest result."""


def main(path: str, wanted: List[str]) -> None:
    """Compute on the wanted devices; on all of them if none is named."""
    spec = importlib.util.spec_from_file_location("gpudoctor_program", path)
    assert spec is not None and spec.loader is not None
    program: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    devices = program.devices()
    tell({"event": "devices", "devices": devices, "version": program.version()})
    numbers = random.Random(20)
    a, b = ([[numbers.uniform(-1, 1) for _ in range(SIZE)] for _ in range(SIZE)] for _ in range(2))
    reference = [[sum(x * y for x, y in zip(row, column)) for column in zip(*b)] for row in a]
    chosen = [name for name in devices if name in wanted] if wanted else devices
    for name in chosen:
        compute(program, a, b, name, reference)


def compute(
    program: Any, a: List[List[float]], b: List[List[float]], name: str, reference: List[List[float]]
) -> None:
    """Multiply on one device, and tell how far the result is from the reference."""
    tell({"event": "begins", "device": name})
    try:
        program.product(a, b, name)  # the first call compiles
        start = time.perf_counter()
        result, where = program.product(a, b, name)
        took = (time.perf_counter() - start) * 1000
    except Exception as error:
        tell({"event": "failed", "device": name, "message": f"{type(error).__name__}: {error}"[:4000]})
        return
    largest = max(abs(value) for row in reference for value in row)
    pairs = [(x, y) for row, right in zip(result, reference) for x, y in zip(row, right)]
    deviations = [abs(x - y) if math.isfinite(x) else math.inf for x, y in pairs]
    whole = len(result) == SIZE and len(pairs) == SIZE * SIZE
    deviation = max(deviations) / largest if whole else math.inf
    tell({"event": "computed", "device": name, "where": where, "error": deviation, "ms": took})


def tell(message: Any) -> None:
    """One line for gpudoctor."""
    sys.stdout.write(f"\n{MARK}{json.dumps(message)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
