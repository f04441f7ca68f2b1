"""Which value most nodes have, and which nodes are odd; pure.

A value is the norm if more than half of at least three nodes have it. Of two nodes that differ, and of nodes without
such a majority, nobody is accused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from msgspec import Struct

LEAST = 3


class Norm(Struct, frozen=True):
    """What most nodes have; `odd` are the others with their values."""

    value: str
    odd: Mapping[str, str]


class Split(Struct, frozen=True):
    """No value has a majority: the nodes by value."""

    values: Mapping[str, tuple[str, ...]]

    @property
    def is_total(self) -> bool:
        """Whether each of several nodes has a value of its own."""
        return len(self.values) >= LEAST and all(len(nodes) == 1 for nodes in self.values.values())


def majority(values: Mapping[str, str]) -> str | None:
    """The value that most nodes have, by their names; None if too few nodes agree."""
    value, count = Counter(values.values()).most_common(1)[0]
    return value if len(values) >= LEAST and 2 * count > len(values) else None


def norm_of(values: Mapping[str, str]) -> Norm | Split | None:
    """What comes of the values of nodes, by their names; None if all agree."""
    by_value: dict[str, list[str]] = {}
    for name, value in values.items():
        by_value.setdefault(value, []).append(name)
    if len(by_value) < 2:
        return None
    if best := majority(values):
        return golden_norm(values, best)
    return Split({value: tuple(names) for value, names in by_value.items()})


def golden_norm(values: Mapping[str, str], wanted: str) -> Norm | None:
    """The norm where one node is known to be good: its value counts."""
    odd = {name: value for name, value in values.items() if value != wanted}
    return Norm(wanted, odd) if odd else None
