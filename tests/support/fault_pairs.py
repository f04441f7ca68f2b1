"""Two faults on one machine: what sets each faulty machine apart from a healthy one, laid on the same healthy one.

pairs(every)    ((slug, slug), machine) of two faults that go together: of all of them, or of every so manieth
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations, islice
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.machine import Distribution, Fact, Machine
from tests.support.faulty_machines import MACHINES
from tests.support.machines import amd_machine, nvidia_machine

BASES = (nvidia_machine(), amd_machine())


def pairs(every: int = 1) -> Iterator[tuple[tuple[str, str], Machine]]:
    """Two faults of machines with the same vendor's GPU, on one machine."""
    together = ((base, names) for base in BASES for names in combinations(filter(_kin_of(base), MACHINES), 2))
    for base, (one, other) in islice(together, 0, None, every):
        yield (one, other), _overlaid(base, MACHINES[one], MACHINES[other])


def _kin_of(base: Machine) -> Callable[[str], bool]:
    return lambda slug: _vendor(MACHINES[slug]) == _vendor(base)


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
            name: _overlaid(*(getattr(record, name) for record in (base, first, second)))
            for name in base.__struct_fields__
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
