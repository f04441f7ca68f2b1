"""Signals that end gpudoctor while it has children: the children end too, and their remains are removed."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Ended(BaseException):
    """A signal asked gpudoctor to end; this is no error, so nothing catches it on the way out."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Make SIGINT, SIGTERM and SIGHUP unwind the stack instead of killing the process.

    Later signals then have no effect until that is done. An ignored signal (nohup, a background job) stays ignored.
    """
    before = {number: signal.getsignal(number) for number in _ENDING}
    heard = [number for number, handler in before.items() if handler not in (signal.SIG_IGN, None)]

    def end(number: int, frame: FrameType | None) -> NoReturn:
        for other in heard:
            signal.signal(other, signal.SIG_IGN)
        raise Ended(number)

    for number in heard:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in heard:
            signal.signal(number, before[number])
