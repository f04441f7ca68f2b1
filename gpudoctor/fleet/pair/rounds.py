"""Which round comes next: those of the schedule, more of them while no node can be named, and further looks."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from gpudoctor.fleet.pair.blame import Meeting, doubtful, judge
from gpudoctor.fleet.pair.schedule import Round, round_of, rounds_of

FURTHER = 3
"""At most so many times the rounds that were wanted, while something went wrong and no node is to blame for it."""
FURTHER_IF_SLOW = 2
"""The longer one looks at busy machines, the more of them seem slow."""
AGAIN = 2
"""At most so many times the rounds that were wanted, pairs meet again."""
HOPELESS = 3
"""A convicted node that failed with so many partners and did well with none meets no further one."""


class Course:
    """The course of a test of `count` nodes over `rounds` rounds of the schedule."""

    def __init__(self, count: int, rounds: int) -> None:
        self._schedule = rounds_of(count)
        self._wanted = min(rounds, len(self._schedule))
        self._done = self._repeats = 0

    @property
    def rounds(self) -> int:
        """How many rounds of the schedule are done."""
        return self._done

    @property
    def is_complete(self) -> bool:
        """Whether every pair has met, so that a link would have been noticed."""
        return self._done == len(self._schedule)

    def next(self, meetings: Sequence[Meeting], out: Collection[int]) -> Round:
        """The pairs that meet next, given how earlier ones did and which nodes cannot take part; () at the end."""
        while self._goes_on(meetings, out):
            self._done += 1
            left_out = {*out, *_hopeless(meetings, out)}
            if pairs := tuple(pair for pair in self._schedule[self._done - 1] if left_out.isdisjoint(pair)):
                return pairs
        pairs = round_of(doubtful(meetings, out)) if _any_right(meetings) else ()
        if pairs and self._repeats < AGAIN * self._wanted:
            self._repeats += 1
            return pairs
        return ()

    def _goes_on(self, meetings: Sequence[Meeting], out: Collection[int]) -> bool:
        """Whether the schedule goes on: as far as wanted, and further while that may tell who is to blame. As long as
        not all have met, a link that fails may be a node that fails now and then."""
        if self._done < self._wanted:
            return True
        if self.is_complete or not _any_right(meetings):
            return False
        judgement = judge(meetings, out)
        if judgement.failed.undecided or judgement.failed.links:
            return self._done < FURTHER * self._wanted
        return bool(judgement.slow.undecided) and self._done < FURTHER_IF_SLOW * self._wanted


def _any_right(meetings: Sequence[Meeting]) -> bool:
    return any(meeting.right for meeting in meetings)


def _hopeless(meetings: Sequence[Meeting], out: Collection[int]) -> set[int]:
    found = set()
    for node in judge(meetings, out).failed.nodes:
        own = [meeting for meeting in meetings if node in meeting.nodes]
        if len({meeting.nodes for meeting in own}) >= HOPELESS and not _any_right(own):
            found.add(node)
    return found
