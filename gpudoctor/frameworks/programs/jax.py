"""JAX."""

import importlib
from typing import Any, List, Tuple

jax: Any = importlib.import_module("jax")  # this file has the same name
numpy: Any = importlib.import_module("numpy")

Rows = List[List[float]]
Image = List[Rows]


def devices() -> List[str]:
    """Where it can compute, GPUs first."""
    found = {_name(device): device for device in jax.devices()}
    return [*(name for name in found if name != "cpu"), "cpu"]


def product(a: Rows, b: Rows, device: str) -> Tuple[Rows, str]:
    """The product, and where it was computed."""
    return _result(jax.numpy.matmul(_on(device, a), _on(device, b), precision="highest"))


def convolution(image: Image, kernels: List[Image], device: str) -> Tuple[List[Image], str]:
    """The convolution, and where it was computed."""
    left, right = _on(device, [image]), _on(device, kernels)
    return _result(jax.lax.conv_general_dilated(left, right, (1, 1), "VALID", precision="highest"))


def _on(device: str, values: Any) -> Any:
    there = next(one for one in (*jax.devices(), *jax.devices("cpu")) if _name(one) == device)
    return jax.device_put(numpy.array(values, dtype="float32"), there)


def _result(array: Any) -> Tuple[Any, str]:
    whole = array.block_until_ready()
    return numpy.asarray(whole).tolist(), ",".join(sorted(map(_name, whole.devices())))


def _name(device: Any) -> str:
    return "cpu" if device.platform == "cpu" else f"gpu:{device.id}"
