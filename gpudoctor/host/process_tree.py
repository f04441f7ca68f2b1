"""A child with everything that it starts: found and ended, whatever it did to escape.

A process can leave its session and group, and drop variables and descriptors, but not its parent. While a child runs,
gpudoctor is a subreaper (`supervision`): a process that loses its parent becomes gpudoctor's child.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

END_SECONDS = 5.0
"""How long a tree may take to end: one that forks for ever is chased this long."""
_PAUSE = 0.001

_marks: set[int] = set()
"""Marks of the trees that are alive."""


class ProcessTree:
    """A running child and its descendants; call `end`. `process` is the child."""

    def __init__(self, argv: Sequence[str], *, cpu_seconds: float = 0.0, **options: Any) -> None:
        """Start `argv` without input, its output in pipes, in a session of its own. `cpu_seconds` limits the
        computing time of each of its processes; `options` are further ones of Popen. Raises what Popen raises."""
        self._strangers = set(_children(os.getpid()))
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(list(argv), start_new_session=True, **{**streams, **options})
        self._mark = _own_limit()
        with suppress(OSError, ValueError):
            self._mark = _marked(self.process.pid)
        for number in self.descendants():  # on a busy machine it was faster than this process
            with suppress(OSError, ValueError):
                _narrow(number, resource.RLIMIT_RTTIME, self._mark)
        _marks.add(self._mark)
        if cpu_seconds:
            with suppress(OSError, ValueError):
                _narrow(self.process.pid, resource.RLIMIT_CPU, int(cpu_seconds) + 1)

    @property
    def has_ended(self) -> bool:
        """Whether the child has ended. It is not collected yet, so that no other process can get its number."""
        try:
            return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True

    def descendants(self) -> Iterator[int]:
        """Every process that the child started, and theirs, the newest orphans first, as they are found."""
        waiting = [self.process.pid]
        for orphan in self._orphans():
            yield orphan
            waiting.append(orphan)
        while waiting:
            below = _children(waiting.pop())
            yield from below
            waiting += below

    def end(self, seconds: float = END_SECONDS) -> bool:
        """Kill and collect it with all its descendants. False if that took more than `seconds`: a process waits in
        the kernel, or forks faster than it can be stopped."""
        deadline = time.monotonic() + seconds
        kill_group(self.process.pid)
        try:
            collected = self.let_go(seconds)
            return self._end_descendants(deadline) and collected
        finally:
            _marks.discard(self._mark)

    def let_go(self, seconds: float = END_SECONDS) -> bool:
        """Collect the child once it has ended; what it started goes on, and keeps its mark. False as for `end`."""
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        return self.process.returncode is not None

    def _end_descendants(self, deadline: float) -> bool:
        """Stop them until no new one appears: a stopped process starts no other. Then kill them."""
        stopped: set[int] = set()
        patience = deadline - (deadline - time.monotonic()) / 2
        while not self._is_alone():
            new = False
            for number in self.descendants():
                if number not in stopped:
                    _signal_group(number, signal.SIGSTOP)
                    stopped.add(number)
                    new = not _collect(number) or new
            now = time.monotonic()
            if new and now < patience:
                continue
            for number in stopped:
                kill(number)
                _collect(number)
            stopped.clear()
            if now > deadline:
                return False
            time.sleep(_PAUSE)
        return True

    def _is_alone(self) -> bool:
        """Whether no descendant is left. It looks twice, because a listing may miss a process while another one
        ends."""
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:  # no child at all
            return True
        return not any(next(self.descendants(), None) for _ in range(2))

    def _orphans(self) -> Iterator[int]:
        """New children of gpudoctor that carry no other tree's mark."""
        theirs = (_marks | {_own_limit()}) - {self._mark}
        for number in reversed(_children(os.getpid())):
            if number not in self._strangers and number != self.process.pid and _limit(number) not in theirs:
                yield number


def kill_group(number: int) -> None:
    """SIGKILL to a process group, if it still exists."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(number, signal.SIGKILL)


def kill(number: int, with_signal: int = signal.SIGKILL) -> None:
    """A signal to one process, if it still exists."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(number, with_signal)


def _collect(number: int) -> bool:
    """Collect a child that has ended, if it is one."""
    try:
        return os.waitpid(number, os.WNOHANG)[0] == number
    except ChildProcessError:
        return False


def _signal_group(number: int, with_signal: int) -> None:
    """Signal the whole group of a descendant at once, so that no new member escapes. No other process is in it."""
    with suppress(ProcessLookupError, PermissionError):
        group = os.getpgid(number)
        if group != os.getpgrp():
            os.killpg(group, with_signal)
    kill(number, with_signal)


# --- what /proc tells ---


def _children(number: int) -> list[int]:
    """Children of a process, of all its threads, including those that have ended."""
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{number}/task"):
            with open(f"/proc/{number}/task/{task}/children", "rb") as file:
                found += map(int, file.read().split())
    except (ProcessLookupError, PermissionError):
        pass
    except OSError:
        if not os.path.exists("/proc/thread-self/children"):
            return _children_by_parent(number)
    return found


def _children_by_parent(number: int) -> list[int]:
    """The same for kernels that were built without that file."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
            if int(file.read().rpartition(b")")[2].split()[1]) == number:
                found.append(int(name))
    return found


# --- the mark of a tree ---
# Meanwhile a stranger (a daemon that a container's script started) may lose its parent, and also become the child of
# a subreaper or process 1. So each tree has a limit of its own, of no other effect, which is inherited and can only
# be lowered. If it cannot be set, every new orphan counts as the tree's.


def _marked(number: int) -> int:
    """Give a process its mark before it starts anything of its own."""
    own = _own_limit()
    top = 1 << 62 if own == resource.RLIM_INFINITY else own
    mark = top - 1 - int.from_bytes(os.urandom(6), "big") % max(1, top // 8)
    _narrow(number, resource.RLIMIT_RTTIME, mark)
    return mark


def _narrow(number: int, which: int, limit: int) -> None:
    """Lower both limits of a process, if they are higher."""
    wide = resource.RLIM_INFINITY
    soft, hard = (limit if old == wide else min(old, limit) for old in resource.prlimit(number, which))
    resource.prlimit(number, which, (soft, hard))


def _own_limit() -> int:
    return resource.getrlimit(resource.RLIMIT_RTTIME)[1]


def _limit(number: int) -> int | None:
    with suppress(OSError, ValueError, IndexError), open(f"/proc/{number}/limits", "rb") as file:
        hard = file.read().partition(b"Max realtime timeout")[2].split()[1]
        return resource.RLIM_INFINITY if hard == b"unlimited" else int(hard)
    return None
