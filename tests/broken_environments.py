"""Real environments, each broken in a way of its own: what Python does in them, and what gpudoctor says.

    python -m tests.broken_environments [--base KIND=ENV] [--work DIR] [--only REGEX] [--repair [--uv]] [--format ...]

Bases (cpu, cuda-new, rocm, jax-12 ...) that are not given are installed below the work folder from the configured
package index, and kept for the next run. Copies share their files with the base: the work folder must lie on the
file system of the given bases. Some ways of breaking need root. Exit code 1 if a broken environment was called OK or
a healthy one raised an alarm.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support.broken_environments import (
    controls,
    frameworks,
    healthy_frameworks,
    imports_beside_torch,
    owners,
    requirements,
    shadowing,
    unanswered,
)
from tests.support.broken_environments.bases import BASES, made
from tests.support.broken_environments.entries import Entry
from tests.support.broken_environments.environment import Environment, UnavailableError
from tests.support.broken_environments.measuring import Diagnosis, Ran, foreseen, gpudoctor, outcome, reality, said

CATALOGUES = (
    requirements.CATALOGUE,
    owners.CATALOGUE,
    unanswered.CATALOGUE,
    unanswered.INTERRUPTED,
    shadowing.CATALOGUE,
    shadowing.LATE,
    controls.CATALOGUE,
    frameworks.CATALOGUE,
    healthy_frameworks.CATALOGUE,
    imports_beside_torch.CATALOGUE,
)
ENTRIES: tuple[Entry, ...] = tuple(entry for catalogue in CATALOGUES for entry in catalogue.entries)

Row = dict[str, object]
Contents = dict[Path, str]


class Measurement:
    """The entries, one after the other, each in a fresh copy."""

    def __init__(self, bases: dict[str, Path], work: Path, level: str, *, repair: bool, uv: bool = False) -> None:
        self.bases, self.work, self.level, self.repair, self.uv = bases, work, level, repair, uv
        self.before = cache(self._before)

    def base(self, kind: str) -> Path:
        return made(kind, self.work, self.bases)

    def copy(self, kind: str) -> Environment:
        return Environment(self.base(kind), self.work / "copy", self.work)

    def _before(self, kind: str, gpu: bool, level: str) -> Diagnosis:
        """What gpudoctor says of a base that nobody touched."""
        base = Entry("base", "control", kind, lambda environment: None, gpu=gpu, level=level)
        return said(gpudoctor("check", base, self.copy(kind), self.level))

    def row(self, entry: Entry) -> Row:
        row: Row = {"name": entry.name, "class": entry.rule, "base": entry.kind, "causes": sorted(entry.causes)}
        static = "static" if entry.level == "static" else ""
        before = (
            self.before(entry.kind, entry.gpu, static) if entry.rule == "control" else Diagnosis(0, "", (), (), 0)
        )
        environment = self.copy(entry.kind)
        try:
            entry.breaks(environment)
        except UnavailableError as error:
            return {**row, "outcome": "not tried", "why": str(error)}
        python = reality(entry, environment)
        answer = said(gpudoctor("check", entry, environment, self.level))
        row |= {
            "python": python,
            "first": answer.first,
            "exit": answer.code,
            "outcome": outcome(entry, answer, before),
            "expected": python.startswith("works") == (entry.control or not entry.visible),
            "problems": [
                {"id": id, "slug": slug, "severity": grade, "text": text} for id, slug, grade, text in answer.problems
            ],
            "unanswered": list(answer.unanswered),
            "fix": answer.fix,
            "seconds": round(answer.seconds, 1),
        }
        if self.repair and entry.repair:
            if self.uv:
                environment.belong_to_uv()
            broken = environment.contents()
            fixed = gpudoctor("fix --yes", entry, environment, self.level)
            row["foreseen"] = foreseen(fixed)
            row["repair"], row["undo"] = self.repaired(entry, environment, fixed, broken)
        return row

    def repaired(self, entry: Entry, environment: Environment, fixed: Ran, broken: Contents) -> tuple[str, str]:
        """What `gpudoctor fix` made of it, as the real interpreter and a second check see it; and whether a second
        `fix` is idle and `--undo` brings every byte back."""
        python, after = reality(entry, environment), said(gpudoctor("check", entry, environment, self.level))
        if python != "works" or after.code != 0:
            return f"not (fix {fixed.code}, check {after.code} {after.first}, Python {python})", "not tried"
        repaired = environment.contents()
        again = gpudoctor("fix --yes", entry, environment, self.level)
        if again.code != 0 or environment.contents() != repaired:
            return "repaired", f"not tried: a second fix was not idle (exit {again.code})"
        gpudoctor("fix --undo --yes", entry, environment, described=False)
        back = environment.contents()
        differing = sorted(str(path) for path in broken.keys() | back.keys() if broken.get(path) != back.get(path))
        return "repaired", f"not exact: {len(differing)} files, {differing[:3]}" if differing else "exact"

    def rows(self, entries: list[Entry]) -> Iterator[Row]:
        for entry in entries:
            yield self.row(entry)
            shutil.rmtree(self.work / "copy", ignore_errors=True)


def line(row: Row) -> str:
    head = f"{row['outcome']!s:<16}{row['class']!s:<28}{row['base']!s:<10}{row['name']}"
    if row["outcome"] == "not tried":
        return f"{head}\n{'':16}{row['why']}"
    doubt = "" if row["expected"] else "   NOT AS EXPECTED"
    repair = f"\n{'':16}repair: {row['repair']}; undo: {row['undo']}" if "repair" in row else ""
    repair += f"; foreseen: {row['foreseen']}" if repair else ""
    wanted = ", ".join(map(str, row["causes"])) or "nothing new"  # type: ignore[call-overload]
    return (
        f"{head}\n{'':16}first: {row['first']} (exit {row['exit']}, {row['seconds']} s); acceptable: {wanted}"
        f"\n{'':16}fix: {row['fix'] or 'none'}"
        f"\n{'':16}Python {row['python']}{doubt}{repair}"
    )


def sums(rows: list[Row]) -> dict[str, object]:
    controls = ("control", "healthy")
    broken = [row for row in rows if row["class"] not in controls]
    healthy = [row for row in rows if row["class"] in controls]
    return {
        "broken": dict(Counter(str(row["outcome"]) for row in broken)),
        "controls": dict(Counter(str(row["outcome"]) for row in healthy)),
        "repairs": dict(Counter(str(row["repair"]).split(" ")[0] for row in rows if "repair" in row)),
        "foreseen": dict(Counter(str(row["foreseen"]).split(":")[0] for row in rows if "foreseen" in row)),
        "undone": dict(Counter(str(row["undo"]).split(":")[0] for row in rows if "undo" in row)),
        "not as expected": [row["name"] for row in rows if row.get("expected") is False],
    }


def base_option(value: str) -> tuple[str, Path]:
    kind, _, path = value.partition("=")
    if kind not in BASES or not Path(path, "bin", "python").exists():
        raise argparse.ArgumentTypeError(f"{value}: expected KIND=ENV, KIND one of {', '.join(BASES)}, ENV a venv")
    return kind, Path(path).resolve()


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.broken_environments", description=__doc__.split("\n")[0])
    parser.add_argument("--base", metavar="KIND=ENV", type=base_option, action="append", default=[])
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir(), "gpudoctor-broken-environments"))
    parser.add_argument("--only", metavar="REGEX", default="", help="entries whose class and name match")
    parser.add_argument("--level", default="", help="the level of gpudoctor for all entries")
    parser.add_argument("--repair", action="store_true", help="apply `gpudoctor fix` where packages repair it")
    parser.add_argument("--uv", action="store_true", help="repair environments that uv made: they have no pip")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    chosen = parser.parse_args(words)
    entries = [entry for entry in ENTRIES if re.search(chosen.only, f"{entry.rule} {entry.kind} {entry.name}")]
    work = chosen.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    rows = []
    measurement = Measurement(dict(chosen.base), work, chosen.level, repair=chosen.repair, uv=chosen.uv)
    for row in measurement.rows(entries):
        rows.append(row)
        print(line(row), file=sys.stdout if chosen.format == "text" else sys.stderr, flush=True)
    total = sums(rows)
    if chosen.format == "json":
        print(json.dumps({"rows": rows, "sums": total}, indent=1))
    else:
        print("".join(f"{name}: {value}\n" for name, value in total.items()), end="")
    return int(any(row["outcome"] in ("CALLED OK", "FALSE ALARM") for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
