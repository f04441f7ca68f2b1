"""Kernels between GPUs: copies from each to each, and an all-reduce with the library that training uses."""

from __future__ import annotations

import os
import time
from typing import Any

from .kernel import Outcome, Run, kernel
from .torchrun import Launch, launch, starts

COPY_BYTES = 128 << 20
COPIES = 4
WITHOUT_PEERS = {"NCCL_P2P_DISABLE": "1"}


def gpus_of_one_kind(run: Run) -> list[str]:
    """The GPUs of the most frequent kind that torch sees; skips if there are no two."""
    cuda = run.torch.cuda
    kinds: dict[str, list[str]] = {}
    for index in range(cuda.device_count()):
        kinds.setdefault(cuda.get_device_name(index), []).append(f"cuda:{index}")
    gpus = max(kinds.values(), key=len, default=[])
    if len(gpus) < 2:
        run.skip("there are no two GPUs of one kind")
    return gpus


# --- copies ---------------------------------------------------------------------------------------


@kernel("peer-copy", "full", seconds=120, gpus=2)
def peer_copy(run: Run) -> Outcome:
    """Copies between every two GPUs, each way, and their speed."""
    run.needs_gpu("copies between GPUs need GPUs")
    devices = gpus_of_one_kind(run)
    cuda = run.torch.cuda
    free = min(cuda.mem_get_info(device)[0] for device in devices)
    generator = run.torch.Generator().manual_seed(run.seed)
    elements = min(COPY_BYTES, free // 16) // 4
    # The same data on all GPUs, rotated by the GPU's number: what another GPU left cannot pass for what was sent.
    host = run.torch.randint(-(2**31), 2**31 - 1, (elements,), generator=generator, dtype=run.torch.int32)
    sources = {device: host.roll(place).to(device) for place, device in enumerate(devices)}
    measures, wrong, indirect = {}, {}, []
    for source in devices:
        for target in devices:
            if source != target:
                pair = f"{_index(source)}>{_index(target)}"
                expected = host.roll(devices.index(source)).to(target)
                share, measures[pair] = _copy(run.torch, sources[source], target, expected)
                if share:
                    wrong[pair] = share
                if not cuda.can_device_access_peer(_index(target), _index(source)):
                    indirect.append(pair)
    details = [f"the copy differs from what was sent: {', '.join(wrong)}"] if wrong else []
    if indirect:
        details.append(
            f"through the host, not directly: {'all' if len(indirect) == len(measures) else ', '.join(indirect)}"
        )
    return Outcome(max(wrong.values(), default=0.0), 0.0, "; ".join(details), measures)


def _copy(torch: Any, source: Any, target: str, expected: Any) -> tuple[float, float]:
    """Share of elements that arrive wrong, and GB/s."""
    arrived = torch.full_like(expected, 0x55555555)
    wrong, best = 0, float("inf")
    for _ in range(COPIES):
        arrived.fill_(0x55555555)
        _wait(torch, source.device, target)
        start = time.perf_counter()
        arrived.copy_(source)
        _wait(torch, source.device, target)
        best = min(best, time.perf_counter() - start)
        wrong = max(wrong, int((arrived != expected).sum()))
    return wrong / expected.numel(), expected.numel() * 4 / best / 1e9


def _wait(torch: Any, *devices: Any) -> None:
    for device in devices:
        torch.cuda.synchronize(device)


def _index(device: str) -> int:
    return int(device.partition(":")[2])


# --- all-reduce -----------------------------------------------------------------------------------


@kernel("all-reduce", "full", seconds=300, gpus=2)
def all_reduce(run: Run) -> Outcome:
    """A sum over all GPUs with NCCL or RCCL, started by torchrun; on the CPU over two processes with gloo."""
    distributed = getattr(run.torch, "distributed", None)
    if distributed is None or not distributed.is_available():
        run.skip("this torch was built without torch.distributed")
    if not starts():
        run.skip(f"torchrun of torch {run.torch.__version__} does not start under this Python")
    if not run.on_gpu:
        return judge(_reduce(run, "gloo", ["cpu", "cpu"], run.seconds * 0.8, {}), "gloo")
    devices = gpus_of_one_kind(run)
    if not distributed.is_nccl_available():
        run.skip("this torch was built without NCCL or RCCL")
    run.torch.cuda.empty_cache()
    seconds = run.seconds * 0.4
    first = _reduce(run, "nccl", devices, seconds, {})
    if right(first) or "NCCL_P2P_DISABLE" in os.environ or not reached_the_library(first):
        return judge(first, "NCCL")
    return judge_both(first, _reduce(run, "nccl", devices, seconds, WITHOUT_PEERS))


def _reduce(run: Run, backend: str, devices: list[str], seconds: float, variables: dict[str, str]) -> Launch:
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "all_reduce_worker.py")
    return launch(script, [backend, str(run.seed), *devices], len(devices), seconds, variables)


def right(launched: Launch) -> bool:
    """Whether all workers finished with the right sum."""
    return launched.done and not any(worker.result["wrong"] for worker in launched.workers)


def reached_the_library(launched: Launch) -> bool:
    """Whether a worker reached the all-reduce: an earlier failure has nothing to do with the GPUs."""
    return any(worker.stage in ("reduce", "done") for worker in launched.workers)


def judge_both(first: Launch, without_peers: Launch) -> Outcome:
    """The verdict if an all-reduce failed and was tried again without peer-to-peer transfers."""
    if not right(without_peers):
        return judge(first, "NCCL")
    if first.done:
        outcome = judge(first, "NCCL")
        return outcome._replace(detail=outcome.detail + "; it is right with NCCL_P2P_DISABLE=1")
    how = "hangs" if first.timed_out else "fails"
    raise RuntimeError(
        f"all-reduce {how} with peer-to-peer transfers and works with NCCL_P2P_DISABLE=1: {failure(first)}"
    )


def judge(launched: Launch, library: str) -> Outcome:
    """The verdict about one run. Raises RuntimeError if a worker did not finish."""
    if not launched.done:
        raise RuntimeError(f"all-reduce over {len(launched.workers)} processes with {library}: {failure(launched)}")
    wrong = sum(int(worker.result["wrong"]) for worker in launched.workers)
    elements = sum(int(worker.result["elements"]) for worker in launched.workers)
    rate = min(worker.result["gb_per_s"] for worker in launched.workers)
    sums = f"{wrong} of {elements} sums are wrong; " if wrong else ""
    detail = f"{sums}{library} over {len(launched.workers)} processes"
    return Outcome(wrong / elements, 0.0, detail, {"gb_per_s": rate})


def failure(launched: Launch) -> str:
    """Which worker failed, and its message."""
    failed = [worker for worker in launched.workers if worker.error]
    if failed:
        return "; ".join(f"rank {worker.rank} {worker.error}" for worker in failed[:2])
    late = [worker for worker in launched.workers if worker.stage != "done"]
    if launched.timed_out:
        stage = {"start": "starting", "import torch": "importing torch", "join the others": "joining the others"}
        doing = stage.get(late[0].stage, "in the all-reduce") if late else "ending"
        ranks = ", ".join(str(worker.rank) for worker in late[:8])
        return f"after {launched.seconds:.0f} s rank {ranks} was still {doing}"
    return launched.last_words or "torchrun ended without a message"
