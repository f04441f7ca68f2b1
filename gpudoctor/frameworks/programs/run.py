"""The child: loads the program of one framework, computes on its devices, and compares with a reference.

Started by gpudoctor.smoke.other_frameworks as `run.py PROGRAM DEVICE...`. It prints one JSON object a line, after a
mark, because frameworks print what they like.
"""

import importlib.util
import json
import math
import random
import sys
import time
from typing import Any, Dict, Iterator, List, Tuple

MARK = "gpudoctor> "
SIZE = 64
CHANNELS, KERNELS, IMAGE, WINDOW = 3, 4, 12, 3
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
    tell({"event": "devices", "devices": devices})
    tasks = {"matmul": ("product", matrices()), "convolution": ("convolution", images())}
    chosen = [name for name in devices if name in wanted] if wanted else devices
    for name in chosen:
        for kernel, (function, (inputs, reference)) in tasks.items():
            if hasattr(program, function):
                compute(kernel, getattr(program, function), inputs, name, reference)


def matrices() -> Tuple[Any, List[float]]:
    """Two matrices, and their product."""
    numbers = random.Random(20)
    a, b = (grid(numbers, SIZE, SIZE) for _ in range(2))
    return (a, b), [sum(x * y for x, y in zip(row, column)) for row in a for column in zip(*b)]


def images() -> Tuple[Any, List[float]]:
    """An image of some channels and kernels for it, and what they make of it, without padding."""
    numbers = random.Random(21)
    image = [grid(numbers, IMAGE, IMAGE) for _ in range(CHANNELS)]
    kernels = [[grid(numbers, WINDOW, WINDOW) for _ in range(CHANNELS)] for _ in range(KERNELS)]
    places = range(IMAGE - WINDOW + 1)
    window = [(c, y, x) for c in range(CHANNELS) for y in range(WINDOW) for x in range(WINDOW)]
    return (image, kernels), [
        sum(kernel[c][dy][dx] * image[c][y + dy][x + dx] for c, dy, dx in window)
        for kernel in kernels
        for y in places
        for x in places
    ]


def grid(numbers: random.Random, height: int, width: int) -> List[List[float]]:
    """Numbers between -1 and 1 in rows."""
    return [[numbers.uniform(-1, 1) for _ in range(width)] for _ in range(height)]


def flat(values: Any) -> Iterator[float]:
    """The numbers of nested lists, in order."""
    for value in values if isinstance(values, list) else [values]:
        if isinstance(value, list):
            yield from flat(value)
        else:
            yield value


def compute(kernel: str, function: Any, inputs: Any, device: str, reference: List[float]) -> None:
    """Compute on one device, and tell how far the result is from the reference."""
    about: Dict[str, Any] = {"kernel": kernel, "device": device}
    tell({"event": "begins", **about})
    try:
        function(*inputs, device)  # the first call compiles
        start = time.perf_counter()
        result, where = function(*inputs, device)
        took = (time.perf_counter() - start) * 1000
    except Exception as error:
        tell({"event": "failed", **about, "message": f"{type(error).__name__}: {error}"[:4000]})
        return
    found = list(flat(result))
    deviations = [abs(x - y) if math.isfinite(x) else math.inf for x, y in zip(found, reference)]
    deviation = max(deviations) / max(map(abs, reference)) if len(found) == len(reference) else math.inf
    tell({"event": "computed", **about, "where": where, "error": deviation, "ms": took})


def tell(message: Any) -> None:
    """One line for gpudoctor."""
    sys.stdout.write(f"\n{MARK}{json.dumps(message)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
