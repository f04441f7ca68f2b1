"""Special memory: pinned, on several streams, and of more than 2^31 elements."""

from __future__ import annotations

from typing import Any

from .compare import Verdict, poison, tolerance
from .kernel import Outcome, Run, kernel
from .precision import strict
from .reference import Inputs, product

_BEYOND = (1 << 31) + 4099
"""More elements than a signed 32-bit index can name."""


@kernel("pinned-memory-and-streams", "standard")
def pinned_memory_and_streams(run: Run) -> Outcome:
    """Copies from pinned memory during computation, ordered by events between two streams."""
    run.needs_gpu("pinned memory and streams belong to GPUs")
    torch, inputs, verdict = run.torch, Inputs(run), Verdict(run)
    parts = [inputs.integers(-1000, 1000, 262_147, dtype=torch.int32) for _ in range(4)]
    results = [torch.full((262_147,), -1, dtype=torch.int32).pin_memory() for _ in parts]
    poison(run, (262_147,), dtype=torch.int32)
    with torch.cuda.device(run.device):
        copying, computing = torch.cuda.Stream(), torch.cuda.Stream()
        for part, result in zip(parts, results):
            with torch.cuda.stream(copying):
                there = part.pin_memory().to(run.device, non_blocking=True)
                arrived = torch.cuda.Event()
                arrived.record()
            with torch.cuda.stream(computing):
                computing.wait_event(arrived)
                # The allocator must not reuse this memory before the second stream has read it.
                there.record_stream(computing)
                result.copy_(there * 3 + 1, non_blocking=True)
        computing.synchronize()
    for at, (part, result) in enumerate(zip(parts, results)):
        verdict.exact(f"copy {at}", result, part * 3 + 1)
    return verdict.outcome()


@kernel("large-indexing", "standard", dtypes=("uint8", "float16"), seconds=60.0)
def large_indexing(run: Run) -> Outcome:
    """Tensors of more than 2^31 elements are written, read, copied, summed and multiplied beyond that point."""
    return _products(run) if run.dtype_name == "float16" else _bytes(run)


def _bytes(run: Run) -> Outcome:
    """Write, read, copy and count single bytes: 2 GiB and a copy."""
    torch, inputs, verdict = run.torch, Inputs(run), Verdict(run)
    _needs(run, 2 * _BEYOND)
    places = [2**31 - 1, 2**31, 2**31 + 1, _BEYOND - 1]
    places += (inputs.integers(0, 4000, 5).unique() + 2**31 + 7).tolist()
    marks = inputs.integers(1, 200, len(places), dtype=torch.uint8)
    large = torch.zeros(_BEYOND, dtype=torch.uint8, device=run.device)
    index = torch.tensor(places, device=run.device)
    large[index] = marks.to(run.device)
    verdict.exact("read by index", large[index], marks.tolist())
    for place, mark in zip(places[:4], marks[:4].tolist()):
        verdict.exact(f"read at {place}", large[place : place + 1], [mark])
    # An index cut to 32 bits would have written here.
    verdict.exact("the first bytes", large[:5000].amax(), 0)
    copied = torch.empty_like(large)
    copied.copy_(large)
    verdict.exact("copy, read by index", copied[index], marks.tolist())
    del large
    verdict.exact("bytes that are not zero", torch.count_nonzero(copied), len(places))
    copied.clamp_(max=1)
    verdict.exact("bytes after an operation on each", copied[index], [1] * len(places))
    return verdict.outcome()


def _products(run: Run) -> Outcome:
    """Multiply a matrix of more than 2^31 elements: 4 GiB."""
    run.needs_gpu("a product of 2^31 elements takes a CPU too long")
    torch, inputs, verdict = run.torch, Inputs(run), Verdict(run)
    width, columns = 512, 8
    rows = _BEYOND // width + 1
    _needs(run, 2 * rows * (width + columns))
    with strict(run):
        tall = torch.zeros((rows, width), dtype=run.dtype, device=run.device)
        head, tail, b = inputs.normal(67, width), inputs.normal(67, width), inputs.normal(width, columns)
        tall[:67], tall[-67:] = head.to(run.device), tail.to(run.device)
        poison(run, (rows, columns))
        got = torch.matmul(tall, b.to(run.device))
        verdict.close("last rows of a product", got[-67:], product(torch, tail, b), tolerance(run, width))
        verdict.close("first rows of a product", got[:67], product(torch, head, b), tolerance(run, width))
        verdict.exact("rows between", torch.count_nonzero(got[67:-67]), 0)
    return verdict.outcome()


def _needs(run: Run, amount: int) -> None:
    """Skip if this is more than half of the free memory: on a CPU, more than a quarter."""
    if run.on_gpu:
        free: Any = run.torch.cuda.mem_get_info(run.device)[0]
        limit = int(free) // 2
    else:
        limit = _available() // 4
    if amount > limit:
        run.skip(f"too little memory: this takes {amount / 2**30:.1f} GiB, and {limit / 2**30:.1f} GiB may be used")


def _available() -> int:
    """Bytes that the kernel reports as available, 0 if it does not."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return 0
