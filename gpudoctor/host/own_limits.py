"""Settings of gpudoctor, and so of the command that takes over, that children of the same user can change."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

_LIMITS = tuple(sorted({value for name, value in vars(resource).items() if name.startswith("RLIMIT_")}))
_FILES = ("oom_score_adj", "coredump_filter", "timerslack_ns")


@contextmanager
def kept_as_they_are() -> Iterator[None]:
    """Restore limits, niceness, processors and the like afterwards, as far as this user may."""
    settings = [*map(_limit, _LIMITS), _niceness(), _processors(), _scheduler(), *map(_file, _FILES)]
    before = [_read(get) for get, _ in settings]
    try:
        yield
    finally:
        for (get, put), was in zip(settings, before, strict=True):
            if was is not None and _read(get) != was:
                with suppress(OSError, ValueError):
                    put(was)


Setting = tuple[Callable[[], Any], Callable[[Any], Any]]
"""How a setting is read, and how it is set."""


def _read(get: Callable[[], Any]) -> Any:
    with suppress(OSError, ValueError):
        return get()
    return None


def _limit(which: int) -> Setting:
    return lambda: resource.getrlimit(which), lambda value: resource.setrlimit(which, value)


def _niceness() -> Setting:
    return lambda: os.getpriority(os.PRIO_PROCESS, 0), lambda value: os.setpriority(os.PRIO_PROCESS, 0, value)


def _processors() -> Setting:
    return lambda: os.sched_getaffinity(0), lambda value: os.sched_setaffinity(0, value)


def _scheduler() -> Setting:
    return (
        lambda: (os.sched_getscheduler(0), os.sched_getparam(0).sched_priority),
        lambda value: os.sched_setscheduler(0, value[0], os.sched_param(value[1])),
    )


def _file(name: str) -> Setting:
    path = f"/proc/self/{name}"

    def get() -> str:
        with open(path, encoding="ascii") as file:
            return file.read().strip()

    def put(value: str) -> None:
        # A mask is shown without the sign that it is read with.
        with open(path, "w", encoding="ascii") as file:
            file.write(f"0x{value}" if name == "coredump_filter" else value)

    return get, put
