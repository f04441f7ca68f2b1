"""Runs probes one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from gpudoctor.finding import NotJudged
from gpudoctor.host import InputError

T = TypeVar("T")


class Probing:
    """Runs probes one after the other: a crash costs that probe's facts, never the run."""

    def __init__(self) -> None:
        self.open_questions: list[NotJudged] = []
        self.timings_ms: dict[str, float] = {}

    def __call__(self, name: str, probe: Callable[[], T], otherwise: T) -> T:
        started = time.perf_counter()
        try:
            return probe()
        except InputError:
            raise
        except Exception as error:  # a probe's fault must not end the run
            why = f"the {name} probe crashed ({type(error).__name__}: {error}); this is a fault of gpudoctor"
            self.open_questions.append(NotJudged(id="GPD902", why=why, matters=True))
            return otherwise
        finally:
            self.timings_ms[name] = round((time.perf_counter() - started) * 1000, 1)
