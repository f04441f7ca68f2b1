"""What became of a trial: of each rank's part, of the two ends of a lane, of a pair of nodes."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Struct

Status = Literal["right", "wrong", "failed", "unable", "busy", "silent"]
"""`unable`: it failed by itself, before it met anybody; `busy`: so it did because others use the GPU; `silent`: its
process gave no answer at all."""

_OWN: tuple[Status, ...] = ("silent", "unable", "busy")
"""What is known of a rank without its partners."""
_WORST: tuple[Status, ...] = (*_OWN, "failed", "wrong", "right")
LOOK_SECONDS = 120.0
"""Eight GPUs without persistence mode take their time to start."""
_PHASES = {"meeting": "while the group was set up", "computing": "in the all-reduce"}
_WORDS_LIMIT = 300


class Part(Struct, frozen=True):
    """What one rank's part in a trial came to."""

    rank: int
    status: Status
    seconds: float = 0.0
    """Median of the collectives."""
    quick: float = 0.0
    """Their lower quartile."""
    detail: str = ""

    @property
    def own(self) -> bool:
        """Whether this is known of the rank without its partners."""
        return self.status in _OWN


def part_of(rank: int, answer: dict[str, Any] | None, limit: float) -> Part:
    """What a rank's answer says."""
    if answer is None:
        return Part(rank, "silent", detail="its process gave no answer")
    if answer["ended"] == "done":
        if answer["wrong"]:
            return Part(rank, "wrong", detail=f"{answer['wrong']} of {answer['compared']} values are wrong")
        return Part(rank, "right", answer["seconds"], answer["quick"])
    how = _ending(answer, limit)
    phase = answer.get("phase")
    if phase is None:
        return Part(rank, "busy" if answer.get("memory") else "unable", detail=how)
    return Part(rank, "failed", detail=f"{how}, {_PHASES[phase]}")


def look_failure(seen: dict[str, Any]) -> str:
    """Why a rank could not even look what it has; "" if it could."""
    return "" if seen.get("ended") == "done" else _ending(seen, LOOK_SECONDS)


def worst(parts: Sequence[Part]) -> Part:
    """The worst of several; of equal ones the slowest, else the first."""
    return min(parts, key=lambda part: (_WORST.index(part.status), -part.seconds))


def _ending(answer: dict[str, Any], limit: float) -> str:
    ended = str(answer.get("ended"))
    if ended == "raised":
        return _telling_part(str(answer["reason"]))[:_WORDS_LIMIT]
    if ended == "late":
        return f"no end within {limit:g} s"
    words = str(answer.get("words") or "").rpartition("\n")[2][:_WORDS_LIMIT]
    try:
        how = f"ended by {signal.Signals(-int(ended)).name}"
    except ValueError:
        how = f"ended with status {ended}"
    return f"{how} ({words})" if words else how


def _telling_part(error: str) -> str:
    """An error of torch without its place in the source and without Gloo's advice; for NCCL only the last line."""
    kind, _, text = error.partition(": ")
    text = re.sub(r"\[(enforce fail at )?/?[\w/.-]+\.(cc|cpp|h):\d+\] ?", "", text)
    text = text.partition(" This is typically caused by")[0].rpartition("Last error: ")[2]
    return f"{kind}: {text.rstrip('. ')}" if text else error
