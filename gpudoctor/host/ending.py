"""Signals that end gpudoctor while it has children: they end too, and what they left is removed."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Ended(BaseException):
    """A signal asked gpudoctor to end; no fault, so nothing catches it on the way out."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Within it SIGINT, SIGTERM and SIGHUP unwind the stack instead of cutting it off; further ones then change
    nothing until that is done. One that is ignored (nohup, a job in the background) stays ignored."""
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
