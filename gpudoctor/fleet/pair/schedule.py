"""Who meets whom: rounds in which every node has another partner, and rounds that look again."""

from __future__ import annotations

from collections.abc import Iterable

Pair = tuple[int, int]
Round = tuple[Pair, ...]


def rounds_of(count: int) -> tuple[Round, ...]:
    """All rounds of `count` nodes, by the circle method: each pair meets in exactly one. One node rests in each round
    if `count` is odd."""
    if count < 2:
        return ()
    seats = count + count % 2
    turning = seats - 1
    return tuple(
        tuple(
            (min(pair), max(pair))
            for pair in [(number, turning), *_opposite(number, turning)]
            if max(pair) < count  # the last seat is empty where `count` is odd
        )
        for number in range(turning)
    )


def _opposite(number: int, turning: int) -> Iterable[Pair]:
    for step in range(1, (turning + 1) // 2):
        yield (number + step) % turning, (number - step) % turning


def round_of(pairs: Iterable[Pair]) -> Round:
    """A round with as many of these pairs as can meet at the same time, the first ones first."""
    chosen: list[Pair] = []
    busy: set[int] = set()
    for pair in pairs:
        if busy.isdisjoint(pair):
            chosen.append(pair)
            busy.update(pair)
    return tuple(chosen)
