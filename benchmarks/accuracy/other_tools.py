"""What other tools answer, on the cases that they can be given at all; a section of `docs/accuracy.md`.

    python -m benchmarks.accuracy.other_tools --base cpu=ENV --work DIR --uv UV --torchruntime PYTHON

Real environments (`tests.broken_environments`) are put to `pip check` and `uv pip check`. Machines of which a report
names the GPU and the build that helped are put to torchruntime: it reads `lspci -nn`, so a made one answers that.
ENV is a healthy environment of that kind; PYTHON an interpreter that has torchruntime.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.accuracy.figures import share
from benchmarks.accuracy.page import with_section
from gpudoctor.isa import cuda_runs, gfx_runs
from gpudoctor.matrix.gpu_models import Identity
from gpudoctor.matrix.versions import figures
from tests.broken_environments import ENTRIES
from tests.cases import fresh
from tests.support.broken_environments.entries import Entry
from tests.support.broken_environments.environment import Environment, UnavailableError
from tests.support.broken_environments.measuring import gpudoctor
from tests.support.check_cases import matrix

_ASK = (
    "from torchruntime.device_db import get_gpus; from torchruntime.platform_detection import get_torch_platform; "
    "print('BUILD', get_torch_platform(get_gpus()))"
)
_NO_CASES = {
    "env-doctor": "describes no machine: it reads nvidia-smi and the packages of the Python that it is installed in",
    "cuda-doctor": "reads this machine and its own Python's torch; its engine takes a record, which was not made",
    "gpu-doctor": "describes no machine: it imports the torch of the Python that it is installed in, names no cause",
}

Asks = Callable[[Entry, Environment], int | None]
"""Puts an environment to a tool; the tool's exit code."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--base", metavar="KIND=ENV", action="append", default=[])
    parser.add_argument("--only", metavar="REGEX", default="", help="environments broken in these ways only")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--uv", default="uv")
    parser.add_argument("--torchruntime", metavar="PYTHON")
    parser.add_argument("--page", type=Path, help="put the section into this page")
    options = parser.parse_args()
    rows: list[str] = []
    bases = {kind: Path(env) for kind, _, env in (base.partition("=") for base in options.base)}
    entries = [entry for entry in ENTRIES if entry.kind in bases and re.search(options.only, entry.rule)]
    if entries:
        tools: dict[str, Asks] = {
            "`gpudoctor check`, warnings too": lambda entry, one: (
                gpudoctor("check --fail-on warning", entry, one).code
            ),
            "`pip check`": lambda _, one: _code([str(one.python), "-m", "pip", "check"], one),
            "`uv pip check`": lambda _, one: _code([options.uv, "pip", "check", "--python", str(one.prefix)], one),
        }
        rows += _environments(entries, bases, options.work, tools)
    if options.torchruntime:
        rows += _builds(options.torchruntime)
    total = len(ENTRIES) + len(fresh.read())
    rows += [f"| {name} | 0 of {total} cases | {why} | |" for name, why in _NO_CASES.items()]
    section = "\n".join([
        "| tool | cases that it can be given | faults found, or the build that helped | false alarms |",
        "|---|---|---|---|",
        *rows,
    ])  # fmt: skip
    print(section)
    if options.page:
        options.page.write_text(with_section(options.page.read_text(), section))


def _environments(
    entries: list[Entry],
    bases: dict[str, Path],
    work: Path,
    tools: dict[str, Asks],
) -> Iterator[str]:
    """How many broken environments each tool calls broken, and how many healthy ones."""
    answers: dict[str, list[tuple[bool, bool]]] = {name: [] for name in tools}
    for number, entry in enumerate(entries, 1):
        environment = Environment(bases[entry.kind], work / "copy", work)
        try:
            entry.breaks(environment)
        except UnavailableError:
            continue
        for name, ask in tools.items():
            answers[name].append((bool(entry.causes), ask(entry, environment) != 0))
        print(f"{number} of {len(entries)}: {entry.name}: {[given[-1][1] for given in answers.values()]}", flush=True)
        shutil.rmtree(work / "copy", ignore_errors=True)
    for name, given in answers.items():
        broken = [alarm for fault, alarm in given if fault]
        healthy = [alarm for fault, alarm in given if not fault]
        kinds = ", ".join(sorted({re.sub(r"^\d ", "", entry.rule) for entry in entries}))
        yield (
            f"| {name} | {len(given)} of {len(ENTRIES)} environments ({kinds}) | {share(sum(broken), len(broken))} "
            f"| {share(sum(healthy), len(healthy))} |"
        )


def _code(command: list[str], environment: Environment) -> int | None:
    """Its exit code; None if it does not start or end: a broken Python may hang."""
    try:
        return subprocess.run(
            command, env=environment.environ(), cwd=environment.folder, capture_output=True, check=False, timeout=60
        ).returncode
    except (subprocess.TimeoutExpired, OSError):
        return None


def _builds(python: str) -> Iterator[str]:
    """On how many machines the build that a tool chooses has code for the GPU, or is one that helped."""
    asked, right, ours = 0, 0, 0
    cases = {name: case for name, case in fresh.read().items() if case.fix and case.fix.kind == "build"}
    for name, case in cases.items():
        gpus = _gpus(case)
        if not gpus or case.fix is None:
            continue
        build = _torchruntime(python, [gpu.pci_id or "" for gpu in gpus])
        good = _has_code(build, gpus[0].arch)
        if good is None:
            good = any(re.search(pattern, build) for pattern in case.fix.holds)
        asked, right = asked + 1, right + good
        ours += fresh.scored(name, case, fuller=False).score == "right"
        print(f"{name}: {gpus[0].pci_id}: torchruntime {build}: {good}; helped: {case.fix.holds}", flush=True)
    told = f"{asked} of {len(cases)} machines that a build helped, by PCI id"
    yield f"| `gpudoctor whatif`, the cause too | {told} | {share(ours, asked)} | |"
    yield f"| torchruntime, any build with code for the GPU | {told} | {share(right, asked)} | |"


def _gpus(case: fresh.Case) -> list[Identity]:
    names = [value for option, value in pairwise(shlex.split(case.whatif)) if option == "--gpu"]
    found = [next(iter(matrix().gpus.gpus_by_name(name)), None) for name in names]
    return [gpu for gpu in found if gpu and gpu.pci_id and not gpu.jetson]


def _has_code(build: str, arch: str) -> bool | None:
    """Whether the newest torch of this build has code for a GPU; None: nothing is known of it."""
    rows = [row for row in matrix().torch.builds("linux-x86_64") if row.build == build and row.archs]
    newest = max(rows, key=lambda row: figures(row.version), default=None)
    if newest is None:
        return None
    archs = newest.archs or ()
    runs = gfx_runs(arch, archs) if arch.startswith("gfx") else cuda_runs(arch, archs, newest.ptx or ())
    return runs.runs == "yes"


def _torchruntime(python: str, ids: list[str]) -> str:
    listing = "\n".join(
        f"0{n}:00.0 VGA compatible controller [0300]: [{one}] (rev a1)" for n, one in enumerate(ids, 1)
    )
    with TemporaryDirectory() as folder:
        fake = Path(folder, "lspci")
        fake.write_text(f"#!/bin/sh\ncat <<'END'\n{listing}\nEND\n")
        fake.chmod(0o755)
        paths = f"{folder}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            [python, "-c", _ASK], env={**os.environ, "PATH": paths}, capture_output=True, text=True, check=False
        )
    return done.stdout.partition("BUILD ")[2].strip() or (done.stderr.strip().splitlines() or ["nothing"])[-1]


if __name__ == "__main__":
    main()
