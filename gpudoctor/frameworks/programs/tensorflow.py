"""TensorFlow."""

import importlib
import re
from typing import Any, List, Tuple

tensorflow: Any = importlib.import_module("tensorflow")  # this file has the same name

Rows = List[List[float]]


def version() -> str:
    """Of the framework."""
    return str(tensorflow.__version__)


def devices() -> List[str]:
    """Where it can compute, GPUs first."""
    gpus = tensorflow.config.list_physical_devices("GPU")
    for gpu in gpus:
        tensorflow.config.experimental.set_memory_growth(gpu, True)
    return [*(f"gpu:{number}" for number in range(len(gpus))), "cpu"]


def product(a: Rows, b: Rows, device: str) -> Tuple[Rows, str]:
    """The product, and where it was computed."""
    with tensorflow.device(f"/{device.upper() if device != 'cpu' else 'CPU:0'}"):
        left, right = (tensorflow.constant(rows, dtype=tensorflow.float32) for rows in (a, b))
        result = tensorflow.matmul(left, right)
    found = re.search(r"(GPU|CPU):(\d+)$", result.device)
    where = "cpu" if not found or found[1] == "CPU" else f"gpu:{found[2]}"
    return result.numpy().tolist(), where
