"""Two faults on one machine: what sets each faulty machine apart from a healthy one, laid on the same healthy one.

pairs()     ((slug, slug), machine) of every two faults that go together
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

from msgspec import Struct
from msgspec.structs import fields, replace

from gpudoctor.machine import Distribution, Fact, Machine
from tests.support.faulty_machines import MACHINES
from tests.support.machines import amd_machine, nvidia_machine

BASES = (nvidia_machine(), amd_machine())


def pairs() -> Iterator[tuple[tuple[str, str], Machine]]:
    """Every two faults of machines with the same vendor's GPU, on one machine."""
    for base in BASES:
        kin = {slug: machine for slug, machine in MACHINES.items() if _vendor(machine) == _vendor(base)}
        for (one, first), (other, second) in combinations(kin.items(), 2):
            yield (one, other), _overlaid(base, first, second)


def _vendor(machine: Machine) -> set[str]:
    return {gpu.vendor for gpu in machine.gpus}


def _overlaid(base: Any, first: Any, second: Any) -> Any:
    """The base with what is different in both; where both differ in one value, the second's."""
    if first in (base, second):
        return second
    if second == base:
        return first
    if isinstance(base, Fact):
        values = (base.value, first.value, second.value)
        return second if None in values else replace(second, value=_overlaid(*values))
    if isinstance(base, Struct) and type(base) is type(first) is type(second):
        parts = {
            field.name: _overlaid(*(getattr(record, field.name) for record in (base, first, second)))
            for field in fields(type(base))
        }
        return replace(base, **parts)
    if isinstance(base, dict):
        return {**first, **second}
    if isinstance(base, tuple) and base and isinstance(base[0], Distribution):
        return _distributions(base, first, second)
    return second


def _distributions(
    base: tuple[Distribution, ...], first: tuple[Distribution, ...], second: tuple[Distribution, ...]
) -> tuple[Distribution, ...]:
    """All that either has installed; of a package that both have, the one that is not the base's."""
    found = {one.name: one for one in first}
    found.update((one.name, one) for one in second if one not in base or one.name not in found)
    return tuple(sorted(found.values(), key=lambda one: one.name))
