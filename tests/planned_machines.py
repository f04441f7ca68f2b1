"""Plans the machines of the tests, one after the other, and counts what comes of the plans.

python -m tests.planned_machines [FOLDER OF RECORDINGS]

Machines: every faulty host, real case and description; with a folder, each text recorded there, together with
torch builds of every age and kind. Exit code 1 if a plan breaks a rule.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from gpudoctor.host import InputError
from gpudoctor.intake.described import described_machine
from gpudoctor.intake.description import Description
from gpudoctor.intake.text.reading import read_text
from gpudoctor.machine import Machine
from tests import test_cases, test_described_machines, test_hosts_amd, test_hosts_faulty
from tests.support.check_cases import matrix
from tests.support.hosts import Host
from tests.support.plan_rules import outcome

_BUILDS = ("1.13.1+cu117", "2.5.1+cu121", "2.9.1+cu128", "2.13.0+cu130", "2.9.1+rocm6.4", "2.9.1+cpu")
_MOST = 300_000


def _of(report: dict[str, Any]) -> Machine:
    return msgspec.convert(report["machine"], Machine)


def hosts(folder: Path) -> Iterator[tuple[str, Machine]]:
    """Machines laid out as files below a root."""
    rows = {**test_hosts_faulty.FAULTS, **{name: row[-1] for name, row in test_hosts_amd.FAULTY.items()}}
    for name, row in rows.items():
        build = row[-1] if isinstance(row, tuple) else row
        yield f"host {name}", _of(build(Host(folder / f"host-{len(list(folder.iterdir()))}")).check())


def cases(folder: Path) -> Iterator[tuple[str, Machine]]:
    """Real reports."""
    for name in test_cases.JUDGED:
        own = folder / f"case-{name}"
        own.mkdir()
        yield f"case {name}", _of(test_cases.judged(name, own))


def descriptions() -> Iterator[tuple[str, Machine]]:
    """Machines that a command line describes."""
    for text in test_described_machines.MACHINES:
        yield f"whatif {text}", _of(test_described_machines.whatif(text))


def recordings(folder: Path) -> Iterator[tuple[str, Machine]]:
    """What vendors' tools and kernels printed, with a torch."""
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.stat().st_size > _MOST:
            continue
        try:
            machine = read_text(path.read_bytes(), matrix())
        except InputError:
            continue
        if machine.gpus:
            for build in _BUILDS:
                yield (
                    f"{path.relative_to(folder)} {build}",
                    described_machine(machine, Description(torch=build), matrix()),
                )


def main(words: list[str]) -> int:
    """Print the counts and every plan that breaks a rule; 1 where there is one."""
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        sources = [hosts(Path(name)), cases(Path(name)), descriptions(), *(recordings(Path(word)) for word in words)]
        for label, machine in (one for source in sources for one in source):
            what, faults = outcome(machine)
            counts[what] += 1
            for fault in faults:
                counts["breaks a rule"] += 1
                print(f"{label}: {fault}", flush=True)
            if what == "an error is left":
                print(f"{label}: {what}", flush=True)
    for what, count in counts.most_common():
        print(f"{count:6} {what}")
    return 1 if counts["breaks a rule"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
