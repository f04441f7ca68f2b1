"""CuPy, which computes on GPUs alone."""

import importlib
from typing import Any, List, Tuple

cupy: Any = importlib.import_module("cupy")  # this file has the same name

Rows = List[List[float]]


def devices() -> List[str]:
    """Where it can compute, GPUs first."""
    return [f"gpu:{number}" for number in range(cupy.cuda.runtime.getDeviceCount())]


def product(a: Rows, b: Rows, device: str) -> Tuple[Rows, str]:
    """The product, and where it was computed."""
    with cupy.cuda.Device(int(device.partition(":")[2])):
        result = cupy.array(a, dtype="float32") @ cupy.array(b, dtype="float32")
        return cupy.asnumpy(result).tolist(), f"gpu:{result.device.id}"
