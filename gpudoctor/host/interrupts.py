"""Postpones Ctrl-C, SIGTERM and SIGHUP to a point where nothing is half done.

A signal's exception may come between any two steps: between a child's start and the record of it, or in the middle of
cleaning up. Here the signal only makes a pipe readable, which waiting code checks.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """A signal arrived: clean up and end. Never leaves `deferred`."""


class Interruptions:
    """The signals that arrived; `fileno` becomes readable with the first."""

    def __init__(self) -> None:
        self._readable, self._writable = os.pipe()
        os.set_blocking(self._writable, False)
        self.number: int | None = None

    def fileno(self) -> int:
        return self._readable

    def check(self) -> None:
        """Raise Interrupted if a signal arrived."""
        if self.number is not None:
            raise Interrupted

    def came(self, number: int, _: FrameType | None = None) -> None:
        """The signals' handler."""
        if self.number is None:
            self.number = number
        with suppress(OSError):
            os.write(self._writable, b"!")

    def close(self) -> None:
        os.close(self._readable)
        os.close(self._writable)


@contextmanager
def deferred() -> Iterator[Interruptions]:
    """Postpone signals; at the end they take their usual effect (KeyboardInterrupt, for example).

    Ignored signals stay ignored; outside the main thread nothing is postponed.
    """
    interruptions = Interruptions()
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in _NUMBERS:
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                before[number] = signal.signal(number, interruptions.came)
    try:
        with suppress(Interrupted):
            yield interruptions
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        interruptions.close()
        if interruptions.number is not None:
            signal.raise_signal(interruptions.number)
            # A signal's default action does not end process 1 of a container.
            raise SystemExit(128 + interruptions.number)
