"""JAX."""

import importlib
from typing import Any, List, Tuple

jax: Any = importlib.import_module("jax")  # this file has the same name
numpy: Any = importlib.import_module("numpy")

Rows = List[List[float]]


def version() -> str:
    """Of the framework."""
    return str(jax.__version__)


def devices() -> List[str]:
    """Where it can compute, GPUs first."""
    found = {_name(device): device for device in jax.devices()}
    return [*(name for name in found if name != "cpu"), "cpu"]


def product(a: Rows, b: Rows, device: str) -> Tuple[Rows, str]:
    """The product, and where it was computed."""
    there = next(one for one in (*jax.devices(), *jax.devices("cpu")) if _name(one) == device)
    left, right = (jax.device_put(numpy.array(rows, dtype="float32"), there) for rows in (a, b))
    result = jax.numpy.matmul(left, right, precision="highest").block_until_ready()
    return numpy.asarray(result).tolist(), ",".join(sorted(map(_name, result.devices())))


def _name(device: Any) -> str:
    return "cpu" if device.platform == "cpu" else f"gpu:{device.id}"
