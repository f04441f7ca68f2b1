"""TensorFlow."""

import importlib
import re
from typing import Any, List, Tuple

tensorflow: Any = importlib.import_module("tensorflow")  # this file has the same name

Rows = List[List[float]]
Image = List[Rows]


def devices() -> List[str]:
    """Where it can compute, GPUs first."""
    gpus = tensorflow.config.list_physical_devices("GPU")
    for gpu in gpus:
        tensorflow.config.experimental.set_memory_growth(gpu, True)
    return [*(f"gpu:{number}" for number in range(len(gpus))), "cpu"]


def product(a: Rows, b: Rows, device: str) -> Tuple[Rows, str]:
    """The product, and where it was computed."""
    with _on(device):
        left, right = (tensorflow.constant(rows, dtype=tensorflow.float32) for rows in (a, b))
        result = tensorflow.matmul(left, right)
    return result.numpy().tolist(), _where(result)


def convolution(image: Image, kernels: List[Image], device: str) -> Tuple[Image, str]:
    """The convolution, and where it was computed. Channels are last here: the CPU has no other form."""
    with _on(device):
        left = tensorflow.transpose(tensorflow.constant([image], dtype=tensorflow.float32), (0, 2, 3, 1))
        right = tensorflow.transpose(tensorflow.constant(kernels, dtype=tensorflow.float32), (2, 3, 1, 0))
        result = tensorflow.nn.conv2d(left, right, 1, "VALID")
    return result.numpy().transpose(0, 3, 1, 2).tolist(), _where(result)


def _on(device: str) -> Any:
    return tensorflow.device(f"/{device.upper() if device != 'cpu' else 'CPU:0'}")


def _where(result: Any) -> str:
    found = re.search(r"(GPU|CPU):(\d+)$", result.device)
    return "cpu" if not found or found[1] == "CPU" else f"gpu:{found[2]}"
