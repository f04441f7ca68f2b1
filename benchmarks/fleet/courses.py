"""Simulated pair tests: whom `fleet pair` blames over many courses with planted faults, without computing anything.

The real thing, with torch: `python -m tests.pair_trials`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping

from msgspec import Struct

from gpudoctor.fleet.pair.blame import Judgement, Meeting, judge
from gpudoctor.fleet.pair.rounds import Course
from gpudoctor.fleet.pair.schedule import Pair

COLLECTIVES = 20


class Planted(Struct, frozen=True):
    """What is wrong in one course; `failing` are nodes with the share of their pairings that fail."""

    nodes: int
    rounds: int | None = 3
    """None: all."""
    failing: Mapping[int, float] = {}
    slow: tuple[int, ...] = ()
    links: tuple[Pair, ...] = ()
    slow_links: tuple[Pair, ...] = ()
    noise: float = 0.2
    """How far times spread (sigma of their logarithm)."""
    spikes: float = 0.02
    """How many collectives of all take many times as long, because the machine is busy."""

    @property
    def guilty(self) -> frozenset[int]:
        return frozenset((*self.failing, *self.slow))


def simulate(planted: Planted, source: random.Random) -> Judgement:
    """One course, and whom it blames."""
    rounds = planted.nodes if planted.rounds is None else planted.rounds
    course = Course(planted.nodes, rounds)
    met: list[Meeting] = []
    while pairs := course.next(met, ()):
        met += [_meeting(planted, pair, source) for pair in pairs]
    return judge(met)


def _meeting(planted: Planted, pair: Pair, source: random.Random) -> Meeting:
    failed = any(source.random() < planted.failing.get(node, 0.0) for node in pair)
    slow = pair in planted.slow_links or not set(pair).isdisjoint(planted.slow)
    usual = (4.0 if slow else 1.0) * source.lognormvariate(0, planted.noise)
    times = sorted(
        usual
        * source.lognormvariate(0, 2 * planted.noise)
        * (source.uniform(2, 8) if source.random() < planted.spikes else 1.0)
        for _ in range(COLLECTIVES)
    )
    right = not failed and pair not in planted.links
    return Meeting(pair, right, times[COLLECTIVES // 2], times[COLLECTIVES // 4])


# --- what is planted -----------------------------------------------------------------------------------

_Plant = Callable[[random.Random], Planted]


def _nodes(source: random.Random, least: int, most: int = 40) -> tuple[int, list[int]]:
    """How many nodes, and all of them in any order."""
    count = source.randint(least, most)
    return count, source.sample(range(count), count)


def _failing(number: int, share: float, least: int) -> _Plant:
    def plant(source: random.Random) -> Planted:
        count, order = _nodes(source, least)
        return Planted(count, failing=dict.fromkeys(order[:number], share))

    return plant


def _third(source: random.Random) -> Planted:
    count, order = _nodes(source, 6, 60)
    return Planted(count, failing=dict.fromkeys(order[: source.randint(1, count // 3)], 1.0))


def _slow(number: int, least: int) -> _Plant:
    def plant(source: random.Random) -> Planted:
        count, order = _nodes(source, least)
        return Planted(count, slow=tuple(order[:number]))

    return plant


def _both(source: random.Random) -> Planted:
    count, (one, other, *_) = _nodes(source, 5)
    return Planted(count, failing={one: 1.0}, slow=(other,))


def _link(field: str, failing: bool = False) -> _Plant:
    def plant(source: random.Random) -> Planted:
        count, (one, other, third, *_) = _nodes(source, 6, 16)
        links = ((min(one, other), max(one, other)),)
        return Planted(count, None, failing={third: 1.0} if failing else {}, **{field: links})  # type: ignore[arg-type]

    return plant


def _busy(rounds: int | None, most: int) -> _Plant:
    return lambda source: Planted(source.randint(2, most), rounds, noise=0.5, spikes=0.1)


PLANTED: dict[str, _Plant] = {
    "nothing": lambda source: Planted(source.randint(2, 40)),
    "nothing, busy machines": _busy(3, 40),
    "nothing, busy machines, all links": _busy(None, 16),
    "a node fails": _failing(1, 1.0, 3),
    "two nodes fail": _failing(2, 1.0, 5),
    "up to a third of the nodes fail": _third,
    "a node fails in nine of ten pairings": _failing(1, 0.9, 4),
    "a node fails in seven of ten pairings": _failing(1, 0.7, 4),
    "a node fails in half of its pairings": _failing(1, 0.5, 4),
    "a node fails in a fifth of its pairings": _failing(1, 0.2, 4),
    "two nodes fail in seven of ten pairings": _failing(2, 0.7, 5),
    "two nodes fail in half of their pairings": _failing(2, 0.5, 5),
    "three nodes fail in half of their pairings": _failing(3, 0.5, 8),
    "a node is slow": _slow(1, 3),
    "two nodes are slow": _slow(2, 5),
    "a node fails, another is slow": _both,
    "a link fails": _link("links"),
    "a link is slow": _link("slow_links"),
    "a link and a node fail": _link("links", failing=True),
}


def counts(plant: _Plant, number: int, source: random.Random) -> Counter[str]:
    """What came of so many courses."""
    found: Counter[str] = Counter()
    for _ in range(number):
        planted = plant(source)
        judgement = simulate(planted, source)
        links = {*judgement.failed.links, *judgement.slow.links}
        bad_links = {*planted.links, *planted.slow_links}
        undecided = {*judgement.failed.undecided, *judgement.slow.undecided}
        found["guilty"] += len(planted.guilty) + len(bad_links)
        found["found"] += len(judgement.convicted & planted.guilty) + len(links & bad_links)
        found["innocent"] += len(judgement.convicted - planted.guilty)
        found["innocent links"] += sum(planted.guilty.isdisjoint(link) for link in links - bad_links)
        found["links of a guilty node"] += sum(not planted.guilty.isdisjoint(link) for link in links)
        found["undecided"] += bool(undecided)
        told = judgement.convicted or links or undecided
        found["silent"] += bool(planted.guilty or bad_links) and not told
    return found


def table(number: int) -> None:
    """Print a row for each kind of fault."""
    columns = ("guilty", "found", "innocent", "innocent links", "links of a guilty node", "undecided", "silent")
    print(f"| planted ({number} courses each) | {' | '.join(columns)} |")
    print(f"|---|{'---|' * len(columns)}")
    for name, plant in PLANTED.items():
        found = counts(plant, number, random.Random(name))
        print(f"| {name} | {' | '.join(str(found[column]) for column in columns)} |", flush=True)
