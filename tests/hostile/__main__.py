"""The sweep: mutated inputs over all readers, pasted texts, planted secrets over every command, tampered journals.

    python -m tests.hostile [N [SEED]] [--only inputs|texts|secrets|journals]

Prints a table for each, and ends with 1 if anything went wrong: a traceback or a fault of our own (70), an exit code
outside the contract, a run that a signal or a limit ended, more than a second of the processor or much memory for a
small input, a secret in anything that was written, a control character that reached a terminal, a process left over.
For texts also: anything of them that a terminal, a CI, a browser, Markdown or a shell takes for more than text.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from gpudoctor.render.formats import FORMATS
from tests.hostile.inputs import READERS, Case
from tests.hostile.planted import planted
from tests.hostile.running import Ended, run, warm_up

CODES = frozenset((0, 1, 2, 3, 121, 122, 123, 126, 127, 130))
"""Of gpudoctor, and a shell's: of a command that cannot be started, or that nobody confirms."""
CPU_SECONDS = 1.0
MEMORY = 700 << 20
SECRETS = 100
JOURNALS = 100

_ALWAYS = ("text", "markdown", "github")
"""Formats of every answer to a text; of the others one is chosen each time."""
_PLANNED = 10
"""Of every so many texts the fix is planned, too."""
_KEPT = 20
"""Inputs that went wrong and are kept to look at."""
_TOLD = 500
"""Texts after which is said how far the sweep has come."""

Wrong = tuple[str, str]
"""(reader, what is wrong)."""


def wrong_with(ended: Ended, allowed: frozenset[int] = CODES) -> list[str]:
    """What is wrong with a run, whatever it was about."""
    found = []
    if ended.code not in allowed:
        found.append(f"exit {ended.code}: {ended.err.strip()[-300:]}")
    if "Traceback (most recent call last)" in ended.said:
        found.append("a traceback")
    if ended.cpu > CPU_SECONDS:
        found.append(f"{ended.cpu:.1f} s of the processor")
    if ended.memory > MEMORY:
        found.append(f"{ended.memory >> 20} MiB of memory")
    if ended.left:
        found.append(f"{ended.left} processes left")
    if not all(char.isprintable() or char in "\n\t" for char in ended.said):
        found.append("a character that is not shown")
    return found


def _inputs(count: int, seed: int) -> tuple[Counter[str], list[Wrong], dict[str, float]]:
    """Runs of a process of its own."""
    warm_up()
    chance = random.Random(seed)
    runs: Counter[str] = Counter()
    slowest: dict[str, float] = defaultdict(float)
    wrong: list[Wrong] = []
    with tempfile.TemporaryDirectory() as folder:
        shares = [share for _, share in READERS]
        cases = []
        for number, (reader, _) in enumerate(READERS):
            place = Path(folder, str(number))
            place.mkdir()
            cases.append(reader(place, chance))
        for _ in range(count):
            case: Case = next(chance.choices(cases, shares)[0])
            ended = run(case.arguments, case.folder, case.variables)
            runs[case.reader] += 1
            slowest[case.reader] = max(slowest[case.reader], ended.cpu)
            for what in wrong_with(ended):
                kept = _kept(case, seed, runs.total()) if len(wrong) < _KEPT else ""
                wrong.append((case.reader, f"{what}  [{case.what}: {' '.join(case.arguments)[:160]!r}{kept}]"))
    return runs, wrong, dict(slowest)


def _kept(case: Case, seed: int, number: int) -> str:
    """A copy of what went wrong, to look at."""
    place = Path(tempfile.gettempdir(), f"hostile-{seed}-{number}")
    subprocess.run(["cp", "-a", "--sparse=always", str(case.folder), str(place)], check=False, capture_output=True)
    return f", kept in {place}"


def _secrets(count: int, seed: int) -> tuple[Counter[str], list[Wrong]]:
    warm_up()
    chance = random.Random(seed)
    runs: Counter[str] = Counter()
    wrong: list[Wrong] = []
    with tempfile.TemporaryDirectory() as folder:
        plants = planted(Path(folder), chance)
        for _ in range(count):
            plant = next(plants)
            for words in plant.runs:
                ended = run(words, plant.folder, plant.variables)
                runs[plant.kind] += 1
                if words[0] == "snapshot" and "--root" in words:
                    (plant.folder / "snapshot.json").write_text(ended.out)
                told = ended.said
                for report in plant.folder.glob("report.*"):
                    told += report.read_text()
                    report.unlink()
                if _leaks(told, plant.secret):
                    at = max(0, ended.said.find(plant.secret[:9]) - 60)
                    wrong.append((plant.kind, f"told by {' '.join(words)}: ...{ended.said[at : at + 120]!r}"))
                wrong += [(plant.kind, f"{what}  [{' '.join(words)}]") for what in wrong_with(ended)]
    return runs, wrong


def _texts(count: int, seed: int) -> tuple[Counter[str], list[Wrong], dict[str, float]]:
    """Hostile texts and large ones, read in this process: every form of the answer is looked at."""
    from tests.hostile.answers import answer, wrong_with_answer
    from tests.hostile.pasted import hostile_text, large_texts

    chance = random.Random(seed)
    runs: Counter[str] = Counter()
    slowest: dict[str, float] = defaultdict(float)
    wrong: list[Wrong] = []
    hostile = ((f"{seed}, {number}", hostile_text(chance)) for number in range(count))
    for kind, texts in (("hostile", hostile), ("1 MB", large_texts(chance))):
        for name, content in texts:
            runs[kind] += 1
            if runs.total() % _TOLD == 0:
                print(f"texts of seed {seed}: {runs.total()} read, {len(wrong)} wrong", file=sys.stderr, flush=True)
            try:
                rest = chance.choice(FORMATS)
                given = answer(content, {*_ALWAYS, rest}, planned=runs[kind] % _PLANNED == 0)
                found = list(wrong_with_answer(given))
                slowest[kind] = max(slowest[kind], given.seconds)
                if given.seconds > CPU_SECONDS:
                    found.append(f"{given.seconds:.1f} s to read it")
            except Exception as error:  # this is what is looked for
                found = [f"{type(error).__name__}: {error}"]
            if found and len(wrong) < _KEPT:
                Path(tempfile.gettempdir(), f"hostile-text-{seed}-{kind}-{runs[kind]}").write_bytes(content)
            wrong += [(kind, f"{what}  [{name}]") for what in found]
    return runs, wrong, dict(slowest)


def _leaks(text: str, secret: str) -> bool:
    """Half of a secret is one."""
    return any(secret[at : at + 9] in text for at in range(len(secret) - 8))


def _tell(title: str, runs: Counter[str], wrong: Sequence[Wrong], slowest: dict[str, float] | None = None) -> None:
    print(f"\n{title}")
    for kind, count in sorted(runs.items()):
        slow = f"  slowest {slowest[kind]:.2f} s" if slowest else ""
        print(f"  {kind:<20}{count:>7} runs{sum(what[0] == kind for what in wrong):>5} wrong{slow}")
    for kind, what in wrong[:40]:
        print(f"    {kind}: {what}")


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile")
    parser.add_argument("count", nargs="?", type=int, default=10_000)
    parser.add_argument("seed", nargs="?", type=int, default=1)
    parser.add_argument("--only", choices=("inputs", "texts", "secrets", "journals"))
    parser.add_argument("--jobs", type=int, default=2)
    chosen = parser.parse_args(words)
    bad = 0
    with ProcessPoolExecutor(chosen.jobs) as pool:
        for name, title, sweep in (("inputs", "Mutated inputs", _inputs), ("texts", "Pasted texts", _texts)):
            if chosen.only not in (None, name):
                continue
            parts = [pool.submit(sweep, chosen.count // chosen.jobs, chosen.seed + n) for n in range(chosen.jobs)]
            runs: Counter[str] = Counter()
            slowest: dict[str, float] = defaultdict(float)
            wrong: list[Wrong] = []
            for part in parts:
                more, faults, slow = part.result()
                runs += more
                wrong += faults
                slowest |= {kind: max(slowest[kind], seconds) for kind, seconds in slow.items()}
            _tell(title, runs, wrong, slowest)
            bad += len(wrong)
        if chosen.only in (None, "secrets"):
            parts2 = [pool.submit(_secrets, SECRETS // chosen.jobs, chosen.seed + n) for n in range(chosen.jobs)]
            runs, wrong = Counter(), []
            for part2 in parts2:
                more, faults = part2.result()
                runs += more
                wrong += faults
            _tell(f"{SECRETS} planted secrets", runs, wrong)
            bad += len(wrong)
    if chosen.only in (None, "journals"):
        print(f"\n{JOURNALS} tampered journals", flush=True)
        command = [sys.executable, "-m", "tests.tampered_journals", str(JOURNALS), str(chosen.seed)]
        bad += subprocess.run(command, check=False).returncode
    print(f"\n{bad} wrong" if bad else "\nNothing went wrong.")
    return int(bad > 0)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
