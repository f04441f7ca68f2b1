"""Made-up fleets of 8 to 512 nodes with one to five oddities each: what is found, and who is accused wrongly."""

from __future__ import annotations

import random
from collections import Counter

from msgspec.structs import replace

from gpudoctor.fleet.merge import merge
from gpudoctor.fleet.records import FleetReport
from gpudoctor.machine import known
from gpudoctor.matrix.load import load_matrix
from tests.support.fleet_nodes import KINDS
from tests.support.fleets import Fleet, fleet

SIZES = (8, 16, 32, 64, 128, 256, 512)


def table(number: int) -> None:
    """Print a row for each size, and for fleets of which all nodes are equal, and all different."""
    print("| nodes | fleets | oddities | found | accused wrongly | undecided facts |")
    print("|---|---|---|---|---|---|")
    matrix = load_matrix()
    rows = {size: Counter[str]() for size in SIZES}
    for seed in range(number):
        source = random.Random(1000 + seed)
        size = SIZES[seed % len(SIZES)]
        made = fleet(source, size).with_noise(source)
        rows[size] += _counted(made, merge(made.documents(), matrix))
    for size, counts in rows.items():
        _row(str(size), counts)
    source = random.Random(1)
    for kind, machine in KINDS.items():
        equal = Fleet(dict.fromkeys(map("n{}".format, range(16)), machine)).with_noise(source)
        _row(f"16 equal, {kind}", _counted(equal, merge(equal.documents(), matrix)))
    for fact in ("kernel", "torch"):
        different = _all_different(fact)
        _row(f"16, another {fact} each", _counted(different, merge(different.documents(), matrix)))


def _all_different(fact: str) -> Fleet:
    """Sixteen nodes of which each has another value."""
    machine = KINDS["h100"]
    environment = machine.environment.value
    assert environment and environment.torch.value
    torch = environment.torch.value
    made = {}
    for number in range(16):
        if fact == "kernel":
            system = replace(machine.system, kernel=known(f"6.8.0-{number}-generic", "made up"))
            made[f"n{number}"] = replace(machine, system=system)
            continue
        frameworks = replace(environment.frameworks, torch=known(replace(torch, version=f"2.{number}.0+cu128"), ""))
        own = replace(environment, frameworks=frameworks)
        made[f"n{number}"] = replace(machine, environment=replace(machine.environment, value=own))
    return Fleet(made)


def _counted(made: Fleet, report: FleetReport) -> Counter[str]:
    accused = {(node.name, odd.fact) for node in report.nodes for odd in node.odd}
    return Counter(
        fleets=1,
        oddities=len(made.odd),
        found=len(made.odd & accused),
        wrongly=len(accused - made.odd),
        undecided=len(report.undecided),
    )


def _row(name: str, counts: Counter[str]) -> None:
    columns = ("fleets", "oddities", "found", "wrongly", "undecided")
    print(f"| {name} | {' | '.join(str(counts[column]) for column in columns)} |", flush=True)
