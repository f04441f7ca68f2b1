"""A torch whose ranks have faults, for the process that holds torch in `gpudoctor fleet pair`.

Python imports this by itself from PYTHONPATH. PAIR_FAULTS names the faults: "hang:3 slow:1 wrong-link:2-4".
"""

import os
import signal
import sys
import time

_SLOW_SECONDS = float(os.environ.get("PAIR_SLOW_SECONDS", "0.25"))


def _plant(faults, own):
    import torch
    import torch.distributed as dist

    init, compute = dist.init_process_group, dist.all_reduce
    group = []

    def begin(backend, store, rank, world_size, **options):
        store.set(f"number {rank}", str(own))
        init(backend, store=store, rank=rank, world_size=world_size, **options)
        group[:] = sorted(int(store.get(f"number {other}")) for other in range(world_size))

    def faulty(words):
        kinds = {kind for kind, ranks in faults if ranks == [own]}
        kinds |= {kind.partition("-")[0] for kind, ranks in faults if len(ranks) == 2 and ranks == group}
        if "hang" in kinds:
            time.sleep(3600)
        if "crash" in kinds:
            os.kill(os.getpid(), signal.SIGSEGV)
        if "raise" in kinds:
            raise RuntimeError("the network is down")
        if "slow" in kinds:
            time.sleep(_SLOW_SECONDS)
        if "wrong" in kinds:
            words[7] += 1
        compute(words)

    def unable(*_, **__):
        raise RuntimeError("the driver is gone")

    dist.init_process_group, dist.all_reduce = begin, faulty
    if ("unable", [own]) in faults:
        torch.arange = unable


def _faults():
    for fault in os.environ["PAIR_FAULTS"].split():
        kind, _, ranks = fault.partition(":")
        yield kind, sorted(map(int, ranks.split("-")))


if os.environ.get("PAIR_FAULTS") and any("gpudoctor_pair" in word for word in sys.orig_argv):
    _plant(list(_faults()), int(os.environ["RANK"]))
