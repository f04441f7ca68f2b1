"""The soak: the same work again and again; every result must equal the first one to the bit.

A GPU that is too hot, badly powered or worn sometimes gives a wrong bit, or slows down. A single run of a kernel
seldom shows that.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any, Callable, Iterator

from .kernel import Outcome, Run, kernel
from .rates import GIB, free_memory

ROUND_SECONDS = 0.5
CHECKS_AT_LEAST = 2
SLOWER = 0.1
"""A drop of the rate that is worth mentioning."""


@kernel("soak", "full", seconds=120)
def soak(run: Run) -> Outcome:
    """Matrix products, convolutions and copies for as long as asked; every round gives the same bits."""
    if run.minutes <= 0:
        run.skip("it runs only for a given time: --minutes N")
    with _repeatable(run):
        tasks = {"product": _products(run), "convolution": _convolutions(run), "copy": _copies(run)}
        first = {name: task().clone() for name, task in tasks.items()}
        repeats = {name: _repeats(run, task) for name, task in tasks.items()}
        return _rounds(run, tasks, first, repeats)


def _rounds(run: Run, tasks: dict[str, Callable[[], Any]], first: dict[str, Any], repeats: dict[str, int]) -> Outcome:
    """Work until the time is over, or a result differs."""
    start = time.monotonic()
    rounds, rates = 0, []
    while rounds < CHECKS_AT_LEAST or time.monotonic() - start < run.minutes * 60:
        began = time.monotonic()
        for name, task in tasks.items():
            for _ in range(repeats[name]):
                result = task()
            different = _different(run.torch, result, first[name])
            if different:
                after = f"after {time.monotonic() - start:.0f} s, in round {rounds + 1}"
                detail = f"{name}: {different} of {result.numel()} elements differ from the first result, {after}"
                return Outcome(float(different), 0.0, detail, {"rounds": rounds + 1})
        rounds += 1
        rates.append(1 / (time.monotonic() - began))
    return Outcome(0.0, 0.0, _summary(rounds, rates, time.monotonic() - start), {"rounds": rounds, **_drop(rates)})


def _drop(rates: list[float]) -> dict[str, float]:
    """How much slower the last tenth of the rounds is than the fastest tenth."""
    count = max(1, len(rates) // 10)
    best = sum(sorted(rates)[-count:]) / count
    return {"slower": max(0.0, 1 - sum(rates[-count:]) / count / best)}


def _summary(rounds: int, rates: list[float], seconds: float) -> str:
    slower = _drop(rates)["slower"]
    drop = f"; {slower:.0%} slower at the end than at its best" if slower > SLOWER else ""
    return f"{rounds} rounds in {seconds:.0f} s, every result the same{drop}"


def _different(torch: Any, result: Any, first: Any) -> int:
    """Number of elements whose bits differ; a NaN equals the same NaN."""
    words = {1: torch.int8, 2: torch.int16, 4: torch.int32}[first.element_size()]
    return int((result.view(words) != first.view(words)).sum())


def _repeats(run: Run, task: Callable[[], Any]) -> int:
    """How often a task fits into a third of a round."""
    run.synchronize()
    start = time.monotonic()
    task()
    run.synchronize()
    return max(1, int(ROUND_SECONDS / 3 / max(time.monotonic() - start, 1e-4)))


# --- the work -------------------------------------------------------------------------------------


def _products(run: Run) -> Callable[[], Any]:
    size = 4096 if run.on_gpu and free_memory(run) > 2 * GIB else 512
    a, b = _random(run, size, size), _random(run, size, size)
    return lambda: run.torch.matmul(a, b)


def _convolutions(run: Run) -> Callable[[], Any]:
    batch = 16 if run.on_gpu else 1
    x, weight = _random(run, batch, 64, 56, 56), _random(run, 64, 64, 3, 3)
    return lambda: run.torch.nn.functional.conv2d(x, weight, padding=1)


def _copies(run: Run) -> Callable[[], Any]:
    """A copy through as much memory as there is to spare, there and back."""
    size = min(4 * GIB, free_memory(run) // 8) // 4
    words = run.torch.empty(size, dtype=run.torch.int32, device=run.device)
    words.random_(-(2**31), 2**31 - 1)
    other = run.torch.empty_like(words)

    def forth_and_back() -> Any:
        other.copy_(words)
        return words.copy_(other)

    return forth_and_back


def _random(run: Run, *shape: int) -> Any:
    """Half precision on a GPU, which its matrix units are made for."""
    dtype = run.torch.float16 if run.on_gpu else run.torch.float32
    return run.torch.randn(*shape, device=run.device).to(dtype)


@contextlib.contextmanager
def _repeatable(run: Run) -> Iterator[None]:
    """Use only algorithms that give the same bits each time. Restores the settings afterwards."""
    torch = run.torch
    # torch and cuBLAS read it: without it, older ones choose between workspaces.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    cudnn = torch.backends.cudnn
    before = torch.are_deterministic_algorithms_enabled(), cudnn.deterministic, cudnn.benchmark
    torch.manual_seed(run.seed)
    torch.use_deterministic_algorithms(True)
    cudnn.deterministic, cudnn.benchmark = True, False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0])
        cudnn.deterministic, cudnn.benchmark = before[1:]
