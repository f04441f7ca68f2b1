"""Initialise libcuda and list its GPUs: {"cuda": answer} in the shape of gpudoctor.machine.NvidiaApi."""

from __future__ import annotations

import ctypes

from .channel import load, mapped, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

byref = ctypes.byref
SUCCESS = 0
DMA_BUF_SUPPORTED = 124


def ask_cuda() -> None:
    """Initialise libcuda as the examined process would: with its variables and load path."""
    cuda = load("cuda", "libcuda.so.1")
    if cuda is None:
        return
    say(doing="cuInit")
    status = cuda.cuInit(ctypes.c_uint(0))
    answer: dict[str, Any] = {
        "status": status,
        "message": cuda_message(cuda, status),
        "library": mapped("libcuda.so"),
    }
    version = ctypes.c_int()
    if hasattr(cuda, "cuDriverGetVersion") and cuda.cuDriverGetVersion(byref(version)) == SUCCESS and version.value:
        answer["cuda_version"] = cuda_version(version.value)
    say(cuda=answer)
    if status != SUCCESS:
        return
    say(doing="asking libcuda for its GPUs")
    count = ctypes.c_int()
    if cuda.cuDeviceGetCount(byref(count)) == SUCCESS:
        gpus = range(min(count.value, 256))
        answer["devices"] = [cuda_device(cuda, index) for index in gpus]
        say(cuda=answer)
        if hasattr(cuda, "cuDeviceCanAccessPeer"):
            say(doing="asking libcuda which GPUs reach each other")
            for index in gpus:
                answer["devices"][index]["peers"] = cuda_peers(cuda, index, gpus)
            say(cuda=answer)


def cuda_message(cuda: Any, status: int) -> str:
    """The library's name and text for an error."""
    if status == SUCCESS:
        return ""
    parts = []
    for name in ("cuGetErrorName", "cuGetErrorString"):
        text = ctypes.c_char_p()
        function = getattr(cuda, name, None)
        if function is not None and function(status, byref(text)) == SUCCESS and text.value:
            parts.append(text.value.decode("utf-8", "replace"))
    return ": ".join(parts)


def cuda_device(cuda: Any, index: int) -> dict[str, Any]:
    """One GPU as libcuda sees it; makes no context on it."""
    device = ctypes.c_int()
    found: dict[str, Any] = {"index": index}
    status = cuda.cuDeviceGet(byref(device), index)
    if status != SUCCESS:
        found["why"] = cuda_message(cuda, status)
        return found
    name = ctypes.create_string_buffer(256)
    if cuda.cuDeviceGetName(name, 256, device) == SUCCESS:
        found["name"] = name.value.decode("utf-8", "replace")
    address = ctypes.create_string_buffer(32)
    if cuda.cuDeviceGetPCIBusId(address, 32, device) == SUCCESS:
        found["bdf"] = address.value.decode("ascii", "replace").lower()
    major, minor = ctypes.c_int(), ctypes.c_int()
    if (
        cuda.cuDeviceGetAttribute(byref(major), 75, device) == SUCCESS
        and cuda.cuDeviceGetAttribute(byref(minor), 76, device) == SUCCESS
    ):
        found["capability"] = f"{major.value}.{minor.value}"
    dma_buf = ctypes.c_int()
    if cuda.cuDeviceGetAttribute(byref(dma_buf), DMA_BUF_SUPPORTED, device) == SUCCESS:
        found["dma_buf"] = dma_buf.value == 1
    memory = ctypes.c_size_t()
    if cuda.cuDeviceTotalMem_v2(byref(memory), device) == SUCCESS:
        found["memory"] = memory.value
    return found


def cuda_peers(cuda: Any, index: int, gpus: range) -> list[int]:
    """GPUs whose memory this one can reach directly."""
    reached = ctypes.c_int()
    return [
        other
        for other in gpus
        if other != index and cuda.cuDeviceCanAccessPeer(byref(reached), index, other) == SUCCESS and reached.value
    ]


def cuda_version(number: int) -> str:
    """13020 is "13.2"."""
    return f"{number // 1000}.{number % 1000 // 10}"
