"""Puts a node's lines into the store of a torchrun job, or prints those of all nodes: `keep.py put|get ...`."""

import datetime
import sys
import time


def main(action, host, port, serves, attempt, seconds, *rest):
    """put RANK FILE: store it; get COUNT: print the lines of each other node behind "RANK: " as they come."""
    from torch.distributed import PrefixStore, TCPStore

    end = time.monotonic() + float(seconds)
    limit = datetime.timedelta(seconds=float(seconds))
    store = TCPStore(host, int(port), None, serves == "1", limit, wait_for_workers=False)
    store = PrefixStore("gpudoctor/" + attempt, store)
    if action == "put":
        with open(rest[1], encoding="ascii") as file:
            store.set(rest[0], file.read())
        return
    waiting = [str(rank) for rank in range(1, int(rest[0]))]
    while waiting and time.monotonic() < end:
        ready = [rank for rank in waiting if store.check([rank])]
        for rank in ready:
            for line in store.get(rank).decode("ascii").splitlines():
                print(rank + ": " + line)
            waiting.remove(rank)
        sys.stdout.flush()
        time.sleep(0.0 if ready else 0.2)


main(*sys.argv[1:])
