"""Signals that ask for an end: raised at once or put off, the first one only, and never where they are ignored."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from types import FrameType

import pytest

from gpudoctor.host.interrupts import Interrupted, deferred, interruptible

NUMBERS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


def survive(_: int, __: FrameType | None) -> None:
    """As process 1 does, which no signal ends by itself."""


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = [signal.signal(number, survive) for number in NUMBERS]
    yield
    left = [signal.signal(number, handler) for number, handler in zip(NUMBERS, before, strict=True)]
    assert left == [survive] * 3, "every handler is as before"


@pytest.mark.parametrize("number", NUMBERS)
def test_the_first_signal_is_raised_and_the_next_ones_leave_time_to_clean_up(number: signal.Signals) -> None:
    cleaned = False
    with pytest.raises(Interrupted) as raised, interruptible():
        try:
            signal.raise_signal(number)
        finally:
            for other in NUMBERS:
                signal.raise_signal(other)
            cleaned = True
    assert cleaned
    assert (raised.value.number, raised.value.exit_code, raised.value.code) == (number, 128 + number, 128 + number)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_that_is_put_off_ends_what_it_came_to_at_its_next_look(number: signal.Signals) -> None:
    reached = []
    with pytest.raises(Interrupted) as raised, interruptible(), deferred() as interruptions:
        signal.raise_signal(number)
        reached.append("nothing is half done")
        interruptions.check()
        reached.append("never")
    assert (raised.value.number, reached) == (number, ["nothing is half done"])


def test_a_signal_that_is_put_off_and_that_nobody_takes_ends_process_1_all_the_same() -> None:
    with pytest.raises(Interrupted) as raised, deferred():
        signal.raise_signal(signal.SIGTERM)
    assert raised.value.exit_code == 143


@pytest.mark.parametrize("within", [interruptible, deferred])
def test_an_ignored_signal_stays_ignored(within: Callable[[], AbstractContextManager[object]]) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with within():
        signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    signal.signal(signal.SIGHUP, survive)


@pytest.mark.parametrize("within", [interruptible, deferred])
def test_outside_the_main_thread_nothing_is_changed(within: Callable[[], AbstractContextManager[object]]) -> None:
    seen: list[object] = []

    def run() -> None:
        with within():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [survive]
