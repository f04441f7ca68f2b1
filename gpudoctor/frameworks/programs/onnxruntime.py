"""ONNX Runtime. The model is written here, byte by byte: the package onnx need not be installed."""

import importlib
from typing import Any, Dict, List, Tuple

onnxruntime: Any = importlib.import_module("onnxruntime")  # this file has the same name
numpy: Any = importlib.import_module("numpy")

Rows = List[List[float]]
Image = List[Rows]

PROVIDERS = {
    "gpu:0": ("CUDAExecutionProvider", "ROCMExecutionProvider", "MIGraphXExecutionProvider"),
    "cpu": ("CPUExecutionProvider",),
}
FLOAT = 1


def devices() -> List[str]:
    """Where it can compute, GPUs first."""
    return [name for name in PROVIDERS if _provider(name)]


def product(a: Rows, b: Rows, device: str) -> Tuple[Rows, str]:
    """The product, and where it was computed."""
    return _computed("MatMul", a, b, (len(a), len(b[0])), device)


def convolution(image: Image, kernels: List[Image], device: str) -> Tuple[List[Image], str]:
    """The convolution, and where it was computed."""
    side = len(image[0]) - len(kernels[0][0]) + 1
    return _computed("Conv", [image], kernels, (1, len(kernels), side, side), device)


def _computed(operator: str, a: Any, b: Any, shape: Tuple[int, ...], device: str) -> Tuple[Any, str]:
    left, right = (numpy.array(values, dtype="float32") for values in (a, b))
    model = _model(operator, {"a": left.shape, "b": right.shape, "c": shape})
    provider = _provider(device)
    # A provider that cannot be loaded is left out with a line on the error output.
    session = onnxruntime.InferenceSession(
        model, providers=[provider, "CPUExecutionProvider"][: 2 if device != "cpu" else 1]
    )
    where = device if provider in session.get_providers() else "cpu"
    return session.run(["c"], {"a": left, "b": right})[0].tolist(), where


def _provider(device: str) -> Any:
    there = onnxruntime.get_available_providers()
    return next((name for name in PROVIDERS[device] if name in there), None)


# --- a model as protocol buffers: a field is its number and kind, then its length and bytes, or a number ------------


def _model(operator: str, shapes: Dict[str, Tuple[int, ...]]) -> bytes:
    values = {name: _text(1, name) + _bytes(2, _bytes(1, _tensor(shape))) for name, shape in shapes.items()}
    node = _text(1, "a") + _text(1, "b") + _text(2, "c") + _text(4, operator)
    graph = _bytes(1, node) + _text(2, "graph")
    graph += _bytes(11, values["a"]) + _bytes(11, values["b"]) + _bytes(12, values["c"])
    return _number(1, 7) + _bytes(7, graph) + _bytes(8, _text(1, "") + _number(2, 13))


def _tensor(shape: Tuple[int, ...]) -> bytes:
    return _number(1, FLOAT) + _bytes(2, b"".join(_bytes(1, _number(1, size)) for size in shape))


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode())


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _varint(value: int) -> bytes:
    encoded = b""
    while value > 127:
        encoded += bytes([value & 127 | 128])
        value >>= 7
    return encoded + bytes([value])
