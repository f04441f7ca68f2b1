"""This process as a rank of the job, from its start to its exit code."""

from __future__ import annotations

import os
from collections.abc import Callable

from gpudoctor.fleet.pair.coordinator import Coordinator, PairOptions, Progress
from gpudoctor.fleet.pair.job_rank import JobRank
from gpudoctor.fleet.pair.member import Member
from gpudoctor.fleet.pair.rank import Rank
from gpudoctor.fleet.pair.trials import Trials
from gpudoctor.host.interrupts import deferred
from gpudoctor.host.supervision import supervising

_FAULT = 70
"""What the others end with if rank 0 fails before it knows better."""


def take_part(
    place: JobRank, interpreter: str, wanted: PairOptions, tell: Callable[[Trials], int], progress: Progress
) -> int:
    """Take part in the job; its exit code. Rank 0 leads it: `tell` prints what was measured and gives that code.
    Raises MemberError where this rank cannot go on."""
    code = _FAULT
    with deferred() as interruptions, supervising(None):
        member = Member(interpreter, os.environ, interruptions)
        try:
            rank = Rank(place, member)
            rank.introduce()
            code = rank.follow(wanted.seconds) if place.rank else _lead(Coordinator(rank, wanted, progress), tell)
        finally:
            member.end()
    return code


def _lead(lead: Coordinator, tell: Callable[[Trials], int]) -> int:
    code = _FAULT
    try:
        code = tell(lead.test())
    finally:
        lead.end(code)
    return code
