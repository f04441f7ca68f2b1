"""Who is to blame for pairings that went wrong: a node, a link, or nobody who can be named.

A pairing that went wrong accuses both its nodes. What tells them apart is how each did with everybody else: a node
whose fault is its own goes wrong with all, and its partners go right with others. So a node is convicted by
*witnesses*: partners that did better without it than it did without them. A node that only met faulty ones has none,
since a faulty partner did no better with anybody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from msgspec import Struct

from gpudoctor.fleet.pair.schedule import Pair

WITNESSES = 3
"""One pairing that went wrong may be the fault of a link, and two those of two other nodes that fail now and then."""
SLOW = 2.0
"""A pairing is slow if three quarters of its collectives take this many times as long as is usual."""

LOOKS = 3
"""So often a pair may meet that seems slow: a busy machine is slow by chance, and never quick."""


class Meeting(Struct, frozen=True):
    """How a pair of nodes did, once."""

    nodes: Pair
    right: bool
    """All collectives ended, and all data was right."""
    seconds: float = 0.0
    """Median of its collectives."""
    quick: float = 0.0
    """The lower quartile of its collectives: a busy machine delays some, a slow one all."""


class Blame(Struct, frozen=True):
    """What pairings say about one kind of fault."""

    nodes: tuple[int, ...] = ()
    """The nodes and pairs to blame, the worst first."""
    links: tuple[Pair, ...] = ()
    """Went wrong although both nodes did well with others."""
    undecided: tuple[Pair, ...] = ()
    """Pairs that went wrong, where either of the two may be to blame."""


class Judgement(Struct, frozen=True):
    """What all pairings say: about those that failed, then about the slow ones among the others."""

    failed: Blame
    slow: Blame
    usual_seconds: float | None
    """The lower quartile of the pairings that went right; None if none did."""

    @property
    def convicted(self) -> frozenset[int]:
        return frozenset((*self.failed.nodes, *self.slow.nodes))


def judge(meetings: Iterable[Meeting], out: Iterable[int] = ()) -> Judgement:
    """Judge pairings. Those with a node of `out`, which is known to be faulty without them, count for nobody."""
    known = frozenset(out)
    counted = [meeting for meeting in meetings if known.isdisjoint(meeting.nodes)]
    failed = _steady(blame(_failures(counted), now_and_then=True), counted)
    gone = frozenset(failed.nodes)
    steady = _always_right(meeting for meeting in counted if gone.isdisjoint(meeting.nodes))
    usual = lower_quartile([meeting.seconds for meeting in steady.values()])
    slow = blame({pair: _is_slow(meeting, usual) for pair, meeting in steady.items()})
    return Judgement(failed, slow, usual)


def doubtful(meetings: Sequence[Meeting], out: Iterable[int] = ()) -> tuple[Pair, ...]:
    """Pairs that should meet again, those first that met least: what went wrong only once may have been chance."""
    judgement = judge(meetings, out)
    settled = frozenset(out) | frozenset(judgement.failed.nodes)
    wrong = {pair for pair, failed in _failures(meetings).items() if failed}
    usual = judgement.usual_seconds
    slow = {pair for pair, meeting in _always_right(meetings).items() if _is_slow(meeting, usual)}
    met = [meeting.nodes for meeting in meetings]
    left = [pair for pair in wrong | slow if settled.isdisjoint(pair)]
    again = [pair for pair in left if met.count(pair) < (LOOKS if pair in slow else 2)]
    return tuple(sorted(again, key=lambda pair: (met.count(pair), pair)))


def lower_quartile(values: Sequence[float]) -> float | None:
    """The largest of the smallest quarter; None without values."""
    return sorted(values)[max(1, len(values) // 4) - 1] if values else None


def blame(wrong: Mapping[Pair, bool], *, now_and_then: bool = False) -> Blame:
    """Whom pairings accuse; `wrong` says of each pair that met whether it went wrong. `now_and_then`: a node may be
    to blame that went right with most; a busy machine may seem slow now and then, but never seems to fail."""
    left = dict(wrong)
    convicted: list[int] = []
    while (worst := _worst(left, now_and_then)) is not None:
        convicted.append(worst)
        left = {pair: went for pair, went in left.items() if worst not in pair}
    record = _Record(left)
    open_pairs = [pair for pair, went in sorted(left.items()) if went]
    links = tuple(pair for pair in open_pairs if all(record.well_without(*ends) for ends in (pair, pair[::-1])))
    return Blame(tuple(convicted), links, tuple(pair for pair in open_pairs if pair not in links))


def _failures(meetings: Iterable[Meeting]) -> dict[Pair, bool]:
    """A pair that failed once of several times failed."""
    failed: dict[Pair, bool] = {}
    for meeting in meetings:
        failed[meeting.nodes] = failed.get(meeting.nodes, False) or not meeting.right
    return failed


def _steady(blamed: Blame, meetings: Iterable[Meeting]) -> Blame:
    """A pair that also went right is no faulty link: which of the three it was cannot be told."""
    right = {meeting.nodes for meeting in meetings if meeting.right}
    links = tuple(pair for pair in blamed.links if pair not in right)
    return Blame(blamed.nodes, links, tuple(sorted({*blamed.undecided, *blamed.links} - {*links})))


def _always_right(meetings: Iterable[Meeting]) -> dict[Pair, Meeting]:
    """The quickest meeting of each pair that never went wrong: chance only ever makes it slower."""
    best: dict[Pair, Meeting] = {}
    wrong: set[Pair] = set()
    for meeting in meetings:
        if not meeting.right:
            wrong.add(meeting.nodes)
        elif meeting.nodes not in best or meeting.quick < best[meeting.nodes].quick:
            best[meeting.nodes] = meeting
    return {pair: meeting for pair, meeting in best.items() if pair not in wrong}


def _is_slow(meeting: Meeting, usual: float | None) -> bool:
    return usual is not None and meeting.quick > SLOW * usual


def _worst(wrong: Mapping[Pair, bool], now_and_then: bool) -> int | None:
    """The node with the largest share of wrong pairings, if it is to be convicted."""
    record = _Record(wrong)
    candidates = [node for node in record.nodes if record.is_guilty(node, now_and_then)]
    return max(candidates, key=lambda node: (record.share(node), record.bad(node), -node), default=None)


class _Record:
    """How each node did with each of its partners."""

    def __init__(self, wrong: Mapping[Pair, bool]) -> None:
        self._partners: dict[int, dict[int, bool]] = {}
        for (one, other), went in wrong.items():
            self._partners.setdefault(one, {})[other] = went
            self._partners.setdefault(other, {})[one] = went
        self._bad = {node: sum(partners.values()) for node, partners in self._partners.items()}

    @property
    def nodes(self) -> Iterable[int]:
        return self._partners

    def bad(self, node: int) -> int:
        """The number of partners with which this node failed."""
        return self._bad[node]

    def share(self, node: int, without: int | None = None) -> Fraction | None:
        """The part of its partners with which it went wrong, `without` one of them; None if it had no other."""
        partners = self._partners[node]
        bad, count = self._bad[node], len(partners)
        if without is not None:
            bad, count = bad - partners[without], count - 1
        return Fraction(bad, count) if count else None

    def well_without(self, node: int, partner: int) -> bool:
        """Whether it went right with most of its other partners."""
        share = self.share(node, partner)
        return share is not None and share < Fraction(1, 2)

    def is_guilty(self, node: int, now_and_then: bool) -> bool:
        """Whether enough partners bear witness against it. Where it met all and went wrong with each, two do."""
        partners = self._partners[node]
        accusers = [partner for partner, wrong in partners.items() if wrong]
        met_all = len(accusers) == len(partners) == len(self._partners) - 1
        most = 2 * len(accusers) > len(partners)
        if not (most or now_and_then):
            return False
        witnesses = sum(self._witness(partner, node, most) for partner in accusers)
        return witnesses >= (2 if met_all else WITNESSES)

    def _witness(self, partner: int, node: int, most: bool) -> bool:
        """Whether this partner bears witness against the node: it does better without the node. If the node did not
        go wrong with `most`, the partner must do well with all others."""
        theirs, own = self.share(partner, node), self.share(node, partner)
        if theirs is None or own is None:
            return False
        return theirs < own if most else theirs == 0
