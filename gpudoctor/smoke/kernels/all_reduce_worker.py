"""One worker of the all-reduce, started by torchrun: all_reduce_worker.py FOLDER BACKEND SEED DEVICE...

The seed and the rank give every worker's numbers, so each worker can compute the sum itself: whole numbers that
float32 adds without rounding. A worker writes its state and results to FOLDER/rank-N.json, its output to
FOLDER/rank-N.log.
"""

from __future__ import annotations

import ctypes
import faulthandler
import importlib
import json
import os
import random
import sys
import time
from typing import Any

# As a script it finds its own folder first, where modules may have the same names as others.
sys.path[:] = [place for place in sys.path if os.path.realpath(place) != os.path.dirname(os.path.realpath(__file__))]

PATTERN = 4099
"""Length of the random pattern that is repeated; a prime, so that no block boundary coincides with it."""
ELEMENTS = {"nccl": 16 << 20, "gloo": 1 << 20}
REPEATS = 5


def pattern(seed: int, rank: int) -> list[int]:
    """A worker's numbers: whole, between -1000 and 1000."""
    chosen = random.Random(seed * 1000 + rank)
    return [chosen.randint(-1000, 1000) for _ in range(PATTERN)]


def expected_pattern(seed: int, workers: int) -> list[int]:
    """The sum over all workers, computed without torch."""
    return [sum(column) for column in zip(*(pattern(seed, rank) for rank in range(workers)))]


class Diary:
    """Records the worker's progress in a file that is complete at any time."""

    def __init__(self, folder: str, rank: int) -> None:
        self._path = os.path.join(folder, f"rank-{rank}.json")
        self.stage = ""

    def write(self, stage: str, **content: Any) -> None:
        """Replace the recorded progress."""
        self.stage = stage
        with open(self._path + ".new", "w") as file:
            json.dump({"stage": stage, **content}, file)
        os.replace(self._path + ".new", self._path)


def main(folder: str, backend: str, seed: int, devices: list[str]) -> None:
    """Reduce over all workers; record how many elements are wrong, and the speed."""
    ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG: no worker outlives torchrun
    faulthandler.enable(all_threads=False)
    rank = int(os.environ["RANK"])
    with open(os.path.join(folder, f"rank-{rank}.log"), "wb") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    diary = Diary(folder, rank)
    try:
        diary.write("import torch")
        torch = importlib.import_module("torch")
        dist = importlib.import_module("torch.distributed")
        device = devices[rank]
        if backend == "nccl":
            torch.cuda.set_device(device)
        diary.write("join the others")
        dist.init_process_group(backend)
        diary.write("reduce")
        result = reduce(torch, dist, device, ELEMENTS[backend], seed, rank)
        diary.write("done", result=result)
        dist.destroy_process_group()
    except BaseException as error:
        text = " ".join(str(error).split())[:1500]
        diary.write(diary.stage, error=f"{type(error).__name__}: {text}")
        raise


def reduce(torch: Any, dist: Any, device: str, elements: int, seed: int, rank: int) -> dict[str, float]:
    """{"wrong": elements that differ, "gb_per_s": bytes of the tensor by the time of its best reduction}."""
    repeats = elements // PATTERN
    own = torch.tensor(pattern(seed, rank), dtype=torch.float32).repeat(repeats).to(device)
    sums = expected_pattern(seed, dist.get_world_size())
    expected = torch.tensor(sums, dtype=torch.float32).repeat(repeats).to(device)
    wrong, best = 0, float("inf")
    for _ in range(REPEATS):
        total = own.clone()
        _wait(torch, device)
        start = time.perf_counter()
        dist.all_reduce(total)
        _wait(torch, device)
        best = min(best, time.perf_counter() - start)
        wrong = max(wrong, int((total != expected).sum()))  # NaN differs from everything
    return {"wrong": wrong, "elements": own.numel(), "gb_per_s": own.numel() * 4 / best / 1e9}


def _wait(torch: Any, device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:])
