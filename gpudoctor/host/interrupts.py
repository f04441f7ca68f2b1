"""Signals that ask gpudoctor to end: SIGINT (Ctrl-C), SIGTERM and SIGHUP.

Either they raise Interrupted (`interruptible`), or they wait for a point where nothing is half done (`deferred`): an
exception may come between any two steps, also between a child's start and the record of it is there. In both cases
one that is ignored (nohup, a job in the background) stays ignored, and outside the main thread nothing is changed.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found] # `signal` makes enumerations, a hundredth of a check
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from gpudoctor.exit_codes import of_signal

_ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class Interrupted(SystemExit):
    """A signal asked for the end: clean up and end, with the status that a shell gives such an end."""

    def __init__(self, number: int) -> None:
        self.number, self.exit_code = number, of_signal(number)
        super().__init__(self.exit_code)


@contextmanager
def interruptible() -> Iterator[None]:
    """Within, the first signal raises Interrupted. Further ones change nothing: what cleans up has its time."""
    came = False

    def interrupt(number: int, _: FrameType | None) -> None:
        nonlocal came
        if not came:
            came = True
            raise Interrupted(number)

    with _handling(interrupt):
        yield


class Interruptions:
    """The signals that arrived; `fileno` becomes readable with the first."""

    def __init__(self) -> None:
        self._readable, self._writable = os.pipe()
        os.set_blocking(self._writable, False)
        self.number: int | None = None

    def fileno(self) -> int:
        return self._readable

    def check(self) -> None:
        if self.number is not None:
            raise Interrupted(self.number)

    def note(self, number: int, _: FrameType | None = None) -> None:
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
    """Within, signals are noted; at the end they take their usual effect (KeyboardInterrupt, for example)."""
    interruptions = Interruptions()
    try:
        with _handling(interruptions.note), suppress(Interrupted):
            yield interruptions
    finally:
        interruptions.close()
        if interruptions.number is not None:
            signal.raise_signal(interruptions.number)
            # A signal's default action does not end process 1 of a container.
            raise Interrupted(interruptions.number)


@contextmanager
def _handling(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    before = {}
    try:
        with suppress(ValueError):  # not the main thread
            for number in _ENDING:
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    before[number] = signal.signal(number, handler)
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
