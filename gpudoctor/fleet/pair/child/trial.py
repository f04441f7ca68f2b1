"""What a fork does: look what torch has here, or take part in the collectives of one group.

Only the collectives are timed. Each works on new data, and its result is compared word for word.
"""

from __future__ import annotations

import datetime
import time
from importlib import import_module
from typing import Any, Callable, Dict

Message = Dict[str, Any]
Tell = Callable[..., None]

WARM_UP = 2
FEWEST, MOST = 3, 20
SECONDS = 2.0
"""How long the timed collectives should take in all."""
PATTERN = 251
"""Values repeat after so many words, a prime: a block in the wrong place shows."""


def store_at(host: str, port: int, prefix: str, seconds: float, serves: bool = False) -> Any:
    """The job's store, below a prefix."""
    dist = import_module("torch.distributed")
    limit = datetime.timedelta(seconds=seconds)
    return dist.PrefixStore(prefix, dist.TCPStore(host, port, None, serves, timeout=limit, wait_for_workers=False))


def look(tell: Tell, task: Message) -> None:
    """Tell what torch has here."""
    torch, dist = import_module("torch"), import_module("torch.distributed")
    tell(
        nccl=bool(dist.is_nccl_available()),
        gloo=bool(getattr(dist, "is_gloo_available", lambda: True)()),
        rocm=bool(getattr(torch.version, "hip", None)),
        gpus=int(torch.cuda.device_count()),
    )
    if torch.cuda.device_count():
        tell(gpu=str(torch.cuda.get_device_name(_number(torch, task))))


def collective(tell: Tell, task: Message) -> None:
    """Sum over a group of `size` ranks as number `rank`: `task` has its store, the backend, bytes and limit."""
    torch, dist = import_module("torch"), import_module("torch.distributed")
    device = torch.device("cpu")
    if task["backend"] == "nccl":
        if not torch.cuda.device_count():
            raise RuntimeError("torch sees no GPU here")
        device = torch.device("cuda", _number(torch, task))
        torch.cuda.set_device(device)
    data = _Data(torch, task["bytes"] // 4, device, task["rank"], task["size"])
    data.fill(0)
    _synchronize(torch, device)
    tell(phase="meeting")
    store = store_at(task["host"], task["port"], task["prefix"], task["seconds"])
    limit = datetime.timedelta(seconds=task["seconds"])
    dist.init_process_group(task["backend"], store=store, rank=task["rank"], world_size=task["size"], timeout=limit)
    tell(phase="computing")
    times: list[float] = []
    wrong = 0
    count = WARM_UP
    step = 0
    while step < count:
        data.fill(step)
        _synchronize(torch, device)
        start = time.perf_counter()
        dist.all_reduce(data.words)
        _synchronize(torch, device)
        times.append(time.perf_counter() - start)
        wrong += data.wrong(step)
        step += 1
        if step == WARM_UP:
            count += _agreed_count(store, task["rank"], times[-1])
    timed = sorted(times[WARM_UP:])
    measured = {"seconds": timed[len(timed) // 2], "quick": timed[len(timed) // 4]}
    tell(ended="done", wrong=wrong, compared=step * len(data.words), **measured)
    _leave_together(store, task)


class _Data:
    """Words whose sum over all ranks is known: whole numbers that float32 holds exactly."""

    def __init__(self, torch: Any, count: int, device: Any, rank: int, size: int) -> None:
        self._base = (torch.arange(count, device=device) % PATTERN).to(torch.float32)
        self._rank, self._size = rank, size
        self.words = torch.empty_like(self._base)

    def fill(self, step: int) -> None:
        """This rank's part of a step."""
        self.words.copy_(self._base).add_(float(self._rank % PATTERN + step))

    def wrong(self, step: int) -> int:
        """How many words of the sum are wrong."""
        added = sum(rank % PATTERN + step for rank in range(self._size))
        return int((self.words != self._base * float(self._size) + float(added)).sum())


def _number(torch: Any, task: Message) -> int:
    """The GPU of this rank: a launcher may show each rank only its own."""
    return int(task["local_rank"] % torch.cuda.device_count())


def _synchronize(torch: Any, device: Any) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _agreed_count(store: Any, rank: int, seconds: float) -> int:
    """The number of timed collectives. The first rank decides it, because all must run equally many."""
    if rank == 0:
        store.set("count", str(max(FEWEST, min(MOST, int(SECONDS / max(seconds, 1e-6))))))
    return int(store.get("count"))


def _leave_together(store: Any, task: Message) -> None:
    """Leave the group together: a rank that leaves first could break what its partners still wait for. Everything is
    measured by then, so a failure means nothing."""
    try:
        if store.add("left", 1) == task["size"]:
            store.set("all left", "")
        store.wait(["all left"], datetime.timedelta(seconds=10))
    except RuntimeError:
        pass
