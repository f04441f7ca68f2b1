"""Kernels that measure: memory, copies to the host, matrix products. A rate counts only for a right result."""

from __future__ import annotations

import time
from functools import partial
from typing import Any, Callable

from .compare import Verdict, tolerance
from .kernel import Outcome, Run, kernel
from .low_precision import eight_bit_form, eight_bit_product
from .precision import gpu_may_lack, in_tf32, needs_bfloat16, strict
from .reference import product

GIB = 1 << 30
CPU_BYTES = 128 << 20
PINNED_BYTES = 256 << 20
LARGEST_ON_GPU, LARGEST_ON_CPU = 8192, 2048


def free_memory(run: Run) -> int:
    """Free bytes on the device; on the CPU a fixed amount that any machine has."""
    return int(run.torch.cuda.mem_get_info(run.device)[0]) if run.on_gpu else 4 * CPU_BYTES


def best_seconds(run: Run, work: Callable[[], Any], budget: float, most: int = 50) -> float:
    """Seconds of the fastest of several runs of `work`, repeated until `budget` seconds are over."""
    run.synchronize()
    end, best = time.perf_counter() + budget, float("inf")
    for _ in range(most):
        best = min(best, _seconds(run, work))
        if time.perf_counter() > end:
            break
    return best


def _seconds(run: Run, work: Callable[[], Any]) -> float:
    if not run.on_gpu:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start
    events = [run.torch.cuda.Event(enable_timing=True) for _ in range(2)]
    with run.torch.cuda.device(run.device):
        events[0].record()
        work()
        events[1].record()
    events[1].synchronize()
    return float(events[0].elapsed_time(events[1])) / 1000


# --- memory ---------------------------------------------------------------------------------------


@kernel("memory-rate", "full", seconds=60)
def memory_rate(run: Run) -> Outcome:
    """Copying within the device's memory; GB/s counts both the bytes read and the bytes written."""
    source = _random_words(run, min(GIB, free_memory(run) // 4), run.device)
    target = run.torch.zeros_like(source)
    seconds = best_seconds(run, lambda: target.copy_(source), budget=2.0)
    return _check_copy(run, target, source, {"gb_per_s": 2 * source.numel() * 4 / seconds / 1e9})


@kernel("host-copy-rate", "full", seconds=60)
def host_copy_rate(run: Run) -> Outcome:
    """Copying between pinned memory of the host and the GPU, each way."""
    run.needs_gpu("the CPU's memory is the host's memory")
    size = min(PINNED_BYTES, free_memory(run) // 4)
    host = _random_words(run, size, "cpu").pin_memory()
    back = run.torch.zeros_like(host).pin_memory()
    gpu = run.torch.zeros_like(host, device=run.device)
    there = best_seconds(run, lambda: gpu.copy_(host, non_blocking=True), budget=2.0)
    again = best_seconds(run, lambda: back.copy_(gpu, non_blocking=True), budget=2.0)
    run.synchronize()
    moved = host.numel() * 4 / 1e9
    return _check_copy(run, back, host, {"to_gpu_gb_per_s": moved / there, "from_gpu_gb_per_s": moved / again})


def _random_words(run: Run, size: int, device: str) -> Any:
    generator = run.torch.Generator(device=device).manual_seed(run.seed)
    words = run.torch.empty(size // 4, dtype=run.torch.int32, device=device)
    return words.random_(-(2**31), 2**31 - 1, generator=generator)


def _check_copy(run: Run, target: Any, source: Any, measures: dict[str, float]) -> Outcome:
    wrong = int((target != source).sum())
    detail = (
        f"{wrong} of {source.numel()} words differ from the source" if wrong else f"{source.numel() * 4 >> 20} MiB"
    )
    return Outcome(wrong / source.numel(), 0.0, detail, measures)


# --- matrix products ------------------------------------------------------------------------------


@kernel("matmul-rate", "full", dtypes=("bfloat16", "float16", "float32"), seconds=60)
def matmul_rate(run: Run) -> Outcome:
    """Products of the largest square matrices that are quick; TFLOPS of the fastest."""
    if in_tf32(run):
        run.skip("NVIDIA_TF32_OVERRIDE=1 turns float32 into TF32")
    needs_bfloat16(run)
    return _rate(run, run.dtype, run.torch.matmul)


@kernel("matmul-fp8-rate", "full", seconds=60)
def matmul_fp8_rate(run: Run) -> Outcome:
    """The same with 8-bit floats."""
    run.needs_gpu("a CPU multiplies 8-bit floats one by one")
    form = eight_bit_form(run)
    scales = {name: run.torch.ones((), device=run.device) for name in ("scale_a", "scale_b")}
    return _rate(run, form, lambda a, b: eight_bit_product(run.torch, a, b, scales))


def _rate(run: Run, form: Any, multiply: Callable[[Any, Any], Any]) -> Outcome:
    with strict(run), gpu_may_lack(run):
        size = _size(run, form, multiply)
        a, b = _factors(run, form, size)
        got = multiply(a, b)
        seconds = best_seconds(run, partial(multiply, a, b), budget=1.5)
    verdict = Verdict(run)
    rows, columns = slice(size // 2, size // 2 + 2), slice(size // 3, size // 3 + 64)
    want = product(run.torch, a[rows].cpu(), b[:, columns].cpu())
    bound = tolerance(run, size, dtype=got.dtype, rounding=2)  # sums of 8-bit products have some 14 bits on Hopper
    verdict.close("product", got[rows, columns], want, bound)
    return verdict.outcome(f"{size}x{size}", {"tflops": 2 * size**3 / seconds / 1e12})


def _factors(run: Run, form: Any, size: int) -> tuple[Any, Any]:
    """Random matrices; the second by columns, as 8-bit products need it."""
    generator = run.torch.Generator(device=run.device).manual_seed(run.seed)
    a, b = (run.torch.randn(size, size, device=run.device, generator=generator) for _ in range(2))
    return a.to(form), b.to(form).t()


def _size(run: Run, form: Any, multiply: Callable[[Any, Any], Any]) -> int:
    """The largest power of two whose product takes no more than 50 ms and a quarter of the free memory."""
    size, largest = 256, LARGEST_ON_GPU if run.on_gpu else LARGEST_ON_CPU
    while size < largest and 4 * (2 * size) ** 2 * 4 < free_memory(run) // 4:
        a, b = _factors(run, form, size)
        # Twice the size is eight times the work.
        if 8 * best_seconds(run, partial(multiply, a, b), budget=0.05, most=3) > 0.05:
            break
        size *= 2
    return size
