"""Journals that somebody tampered with, and what the command line does with them, as root and as a user.

python -m tests.tampered_journals N [SEED] [--only KIND]    N of them, a table by kind; fails if anything was wrong
python -m tests.tampered_journals made FOLDER               two environments with a repair each, made by who runs it
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.journal_tampering import KINDS, NEEDS_ROOT, SUBFOLDERS, USER, WHOLE, Place

SECONDS = 30.0
_HERE = Path(__file__).parent.parent


# --- one trial ------------------------------------------------------------------------------------------


def picture(*folders: Path) -> dict[str, tuple[object, ...]]:
    """Everything below, with owner, mode, time and content."""
    seen: dict[str, tuple[object, ...]] = {}
    for path in (found for folder in folders for found in (folder, *folder.rglob("*"))):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        seen[str(path)] = (status.st_mode, status.st_uid, status.st_gid, content, path.is_dir() or status.st_mtime_ns)
    return seen


@contextmanager
def swapped(folder: Path, canary: Path) -> Iterator[None]:
    """Within, a folder is swapped for a link to the canary and back, as fast as can be."""
    stop = threading.Event()

    def swap() -> None:
        real = folder.with_name("real")
        while not stop.is_set():
            try:
                folder.rename(real)
                folder.symlink_to(canary)
                folder.unlink()
                real.rename(folder)
            except OSError:
                time.sleep(0)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


class Trial:
    """One tampered journal, and what the command line does with it."""

    def __init__(self, folder: Path, kind: str, *, account: int, rng: random.Random) -> None:
        self.place, self.kind, self.account, self.rng = Place(folder), kind, account, rng
        self.wrong: list[str] = []
        self.codes: list[int] = []

    def __str__(self) -> str:
        return f"{self.kind} as {'root' if self.account == 0 else 'a user'}: {'; '.join(self.wrong)}"

    def run(self) -> None:
        place = self.place
        place.folder.mkdir()
        os.chown(place.folder, self.account, self.account)
        self._python("-m", "tests.tampered_journals", "made", str(place.folder))
        name = place.run.name
        if self.rng.random() < 0.5:
            place.cut()
        KINDS[self.kind](place)
        self._own_again()
        guarded = [place.canary, *([place.home] if self.kind in NEEDS_ROOT & WHOLE else [])]
        before = picture(*guarded)
        commands = self.rng.choice((("--undo",), ("--continue",), ("--forget", name, "--force"), ("--undo",)))
        if self.kind == "swapped while undo runs":
            commands = ("--undo",)  # a step's own program follows the link, as any program does
        self._good_run_is_listed()
        if self.kind == "swapped while undo runs":
            with swapped(place.site / "mine", place.canary / "lib" / "mine"):
                self.gpudoctor("fix", *commands, "--yes", "--python", str(place.prefix))
        self.gpudoctor("fix", *commands, "--yes", "--python", str(place.prefix))
        self.gpudoctor("fix", "--undo", "--yes", "--python", str(place.prefix))
        after = picture(*guarded)
        if changed := sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path)):
            self.wrong.append(f"changed {changed[:3]}")
        if place.ran.exists():
            self.wrong.append("the forged command ran")
        files = (path.lstat() for path in place.prefix.rglob("*") if path.is_file())
        if any(status.st_mode & 0o6000 for status in files):
            self.wrong.append("a file runs as its owner")
        self._good_run_is_undone()

    def _own_again(self) -> None:
        """What this process wrote as root in a user's place is the user's."""
        for path in (found for found in self.place.folder.rglob("*") if self.account and found.lstat().st_uid == 0):
            os.chown(path, self.account, self.account, follow_symlinks=False)

    def _good_run_is_listed(self) -> None:
        done = self.gpudoctor("fix", "--history", "--format", "json")
        if self.kind in WHOLE:
            return
        listed = [run["prefix"] for run in json.loads(done.stdout or '{"runs": []}')["runs"]]
        if str(self.place.other) not in listed:
            self.wrong.append("the good run is not listed")

    def _good_run_is_undone(self) -> None:
        done = self.gpudoctor("fix", "--undo", "--yes", "--python", str(self.place.other))
        back = len(list(self.place.other.rglob("sub*/a.py")))
        if self.kind not in WHOLE and (done.returncode, back) != (0, SUBFOLDERS):
            told = done.stdout[-200:] + done.stderr[-200:]
            self.wrong.append(f"the good run is not undone: {done.returncode} {told}")

    def gpudoctor(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        begun = time.monotonic()
        level = () if {"--history", "--forget", "--undo"} & set(arguments) else ("--level", "static")
        done = self._python("-m", "gpudoctor", *arguments, *level)
        self.codes.append(done.returncode)
        if done.returncode not in (0, 1, 2, 3) or "Traceback" in done.stderr + done.stdout:
            self.wrong.append(f"{' '.join(arguments[:2])} ended with {done.returncode}: {done.stderr[-300:]}")
        if (took := time.monotonic() - begun) > SECONDS:
            self.wrong.append(f"{' '.join(arguments[:2])} took {took:.0f} s")
        return done

    def _python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        own = {"HOME": str(self.place.home), "PYTHONDONTWRITEBYTECODE": "1", "PATH": os.environ["PATH"]}
        if self.kind != "home of another account":
            own["XDG_STATE_HOME"] = str(self.place.state.parent)
        argv = [sys.executable, *arguments]
        other: dict[str, Any] = {}
        if self.account != os.geteuid():
            other = {"user": self.account, "group": self.account, "extra_groups": []}
        try:
            return subprocess.run(
                argv, env=own, cwd=_HERE, capture_output=True, timeout=SECONDS * 2, check=False,
                text=True, errors="replace", **other,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(argv, 124, "", "it did not end")


def tried(folder: Path, kind: str, *, account: int, seed: int) -> Trial:
    """Do one trial in a new folder, and remove that."""
    trial = Trial(folder, kind, account=account, rng=random.Random(seed))
    try:
        trial.run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return trial


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("count", type=int)
    parser.add_argument("seed", type=int, nargs="?", default=1)
    parser.add_argument("--only")
    chosen = parser.parse_args()
    root = os.geteuid() == 0
    names = [name for name in KINDS if (root or name not in NEEDS_ROOT) and chosen.only in (None, name)]
    accounts = (0, USER) if root else (os.geteuid(),)
    rng = random.Random(chosen.seed)
    rows: dict[str, list[Trial]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory(prefix="gpudoctor-tampered-") as folder:
        os.chmod(folder, 0o755)  # the user has to get in
        for number in range(chosen.count):
            name = names[number % len(names)]
            account = accounts[(number // len(names) + number) % len(accounts)]
            trial = tried(Path(folder, str(number)), name, account=account, seed=rng.randrange(1 << 30))
            rows[name].append(trial)
            if trial.wrong:
                print(f"WRONG {trial}", flush=True)
    for name, trials in ((name, trials) for name, trials in rows.items() if trials):
        codes = Counter(code for trial in trials for code in trial.codes)
        shown = ", ".join(f"{count} x {code}" for code, count in sorted(codes.items()))
        print(f"{name:30} {len(trials):4}  wrong {sum(bool(trial.wrong) for trial in trials):3}   exits {shown}")
    wrong = sum(bool(trial.wrong) for trials in rows.values() for trial in trials)
    print(f"{chosen.count} tampered journals, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["made"]:
        Place(Path(sys.argv[2])).make()
    else:
        sys.exit(main())
