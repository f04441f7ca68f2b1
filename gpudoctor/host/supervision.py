"""Protects gpudoctor while it has children: they load strangers' code, and run as the same user.

It is a subreaper: a process below it that loses its parent becomes its own child, so that `process_tree` finds it. It
is not dumpable: nothing can trace it or read its memory and descriptors (`bound_child` also takes this right from
children of root). If it is stopped, it continues when its time is over: a kernel timer sends SIGCONT, so there is no
watching process that could be killed first. Process 1 of a container cannot be stopped from within.
"""

from __future__ import annotations

import ctypes
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from gpudoctor.host.own_limits import kept_as_they_are

_PR_GET_DUMPABLE, _PR_SET_DUMPABLE = 3, 4
_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37
_CLOCK_MONOTONIC = 1
_TICK = 0.05
_TIMERS = 12
"""They start one after the other, the last 100 seconds late, and then fire at every tick. Stopping gpudoctor again
and again discards a waiting SIGCONT, and its timer with it, but not the timers that have not started."""

_lock = threading.Lock()
_running = 0
_before = (0, 0)


@contextmanager
def supervising(seconds: float | None) -> Iterator[None]:
    """Allow children to run, for `seconds` in all: after that nobody can keep gpudoctor stopped (not with Ctrl-Z).
    Without a limit it goes on when whoever stopped it says so.

    Restores the state of this process afterwards, also for the program that takes over. Only the main thread
    changes signals.
    """
    with ExitStack() as stack:
        stack.enter_context(kept_as_they_are())
        stack.enter_context(_reaping_and_closed())
        if threading.current_thread() is threading.main_thread():
            stack.enter_context(_hearing_of_ends())
            if seconds is not None:
                stack.enter_context(_going_on(seconds))
        yield


@contextmanager
def _reaping_and_closed() -> Iterator[None]:
    """Several threads may be inside: the first one in changes this process, the last one out changes it back."""
    global _running, _before  # noqa: PLW0603 - what they speak of there is once in a process, too
    with _lock:
        if not _running:
            _before = _subreaper(), _prctl(_PR_GET_DUMPABLE)
            _prctl(_PR_SET_CHILD_SUBREAPER, 1)
            _prctl(_PR_SET_DUMPABLE, 0)
        _running += 1
    try:
        yield
    finally:
        with _lock:
            _running -= 1
            if not _running:
                _prctl(_PR_SET_CHILD_SUBREAPER, _before[0])
                if _before[1] == 1:  # no other value can be set again
                    _prctl(_PR_SET_DUMPABLE, 1)


def _prctl(option: int, value: object = 0) -> int:
    argument = ctypes.c_ulong(value) if isinstance(value, int) else value
    return int(_libc().prctl(option, argument, *(ctypes.c_ulong(0),) * 3))


def _subreaper() -> int:
    found = ctypes.c_int(0)
    _prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(found))
    return found.value


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)


@contextmanager
def _hearing_of_ends() -> Iterator[None]:
    """If SIGCHLD came ignored, the kernel collects children, and nobody learns how they ended."""
    if signal.getsignal(signal.SIGCHLD) is not signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)


class _SignalEvent(ctypes.Structure):
    """struct sigevent, in the length that Linux gives it."""

    _fields_ = [
        ("value", ctypes.c_void_p),
        ("signal", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("rest", ctypes.c_char * 48),
    ]


class _Times(ctypes.Structure):
    """struct itimerspec."""

    _fields_ = [(name, ctypes.c_long) for name in ("every", "every_ns", "first", "first_ns")]


@contextmanager
def _going_on(seconds: float) -> Iterator[None]:
    """After `seconds` send SIGCONT again and again. The signal needs a handler: Linux drops a timer whose signal is
    ignored. Without timers in the C library, this does nothing."""
    before = signal.getsignal(signal.SIGCONT)
    libc = _libc()
    if before is None or not hasattr(libc, "timer_create"):
        yield
        return
    timers: list[ctypes.c_void_p] = []
    event = _SignalEvent(None, signal.SIGCONT, 0)
    signal.signal(signal.SIGCONT, lambda *_: None)
    try:
        for number in range(_TIMERS):
            timer = ctypes.c_void_p()
            if libc.timer_create(_CLOCK_MONOTONIC, ctypes.byref(event), ctypes.byref(timer)):
                break
            timers.append(timer)
            first = divmod(int((seconds + _TICK * 2**number) * 1e9), 10**9)
            libc.timer_settime(timer, 0, ctypes.byref(_Times(0, int(_TICK * 1e9), *first)), None)
        yield
    finally:
        for timer in timers:
            libc.timer_delete(timer)
        signal.signal(signal.SIGCONT, before)
