"""Puts a node's lines into the store of a torchrun job, or prints those of all nodes: `keep.py put|get ...`."""

import datetime
import importlib
import sys
import time
from typing import Any


def put(store: Any, rank: str, path: str) -> None:
    """Store the lines of the file."""
    with open(path, encoding="ascii") as file:
        store.set(rank, file.read())


def get(store: Any, count: int, seconds: float) -> None:
    """Print the lines of each other node behind "RANK: ", as they come."""
    end = time.monotonic() + seconds
    waiting = [str(rank) for rank in range(1, count)]
    while waiting and time.monotonic() < end:
        ready = [rank for rank in waiting if store.check([rank])]
        for rank in ready:
            for line in store.get(rank).decode("ascii").splitlines():
                print(rank + ": " + line)
            waiting.remove(rank)
        sys.stdout.flush()
        time.sleep(0.0 if ready else 0.2)


def main(action: str, host: str, port: str, serves: str, attempt: str, seconds: str, *rest: str) -> None:
    """put RANK FILE, or get COUNT."""
    distributed = importlib.import_module("torch.distributed")
    limit = datetime.timedelta(seconds=float(seconds))
    store = distributed.TCPStore(host, int(port), None, serves == "1", limit, wait_for_workers=False)
    store = distributed.PrefixStore("gpudoctor/" + attempt, store)
    if action == "put":
        put(store, *rest)
    else:
        get(store, int(rest[0]), float(seconds))


main(*sys.argv[1:])
