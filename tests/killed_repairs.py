"""Repairs and undos that are killed at random times, and what is found afterwards.

python -m tests.killed_repairs [--kills N] [--seed N] [--tool pip|uv] [--of apply,resume,undo]
                                                               a table; fails if anything was lost
python -m tests.killed_repairs apply|resume|undo FOLDER TOOL   the program that is killed
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gpudoctor.fix.apply import apply, resume
from gpudoctor.fix.errors import RepairError
from gpudoctor.fix.journal import locked, read, runs
from gpudoctor.fix.scope import Target
from gpudoctor.fix.undo import undo
from gpudoctor.step import RunStep
from tests.support.made_environments import (
    Picture,
    differences,
    make_venv,
    package,
    picture,
    pip_install,
    uv_install,
    write_wheel,
)


def run(what: str, folder: Path, tool: str) -> None:
    """What a killed gpudoctor was doing."""
    prefix, wheels, home = folder / "env", folder / "wheels", str(folder / "state")
    python = prefix / "bin" / "python"
    print("begins", flush=True)
    if what == "apply":
        install = uv_install if tool == "uv" else pip_install
        wanted = (("torchlike==2.0",), ("other",), ("--reinstall-package", "other", "other"))
        steps = [RunStep(argv=install(python, wheels, *names)) for names in wanted[: 3 if tool == "uv" else 2]]
        apply(steps, Target(prefix=str(prefix), python=str(python)), home, plan=None, say=lambda event: None)
    elif what == "resume":
        resume(runs(home)[-1], say=lambda event: None)
    else:
        undo(runs(home)[-1], say=lambda event: None)


class Killing:
    """A venv, its picture before and after the repair, and a folder to work in."""

    def __init__(self, folder: Path, modules: int = 150, tool: str = "pip") -> None:
        self.folder, self.prefix, self.tool = folder, folder / "env", tool
        for version in ("1.0", "2.0"):
            write_wheel(folder / "wheels", "torchlike", version, package("torchlike", version, modules))
        write_wheel(folder / "wheels", "other", "1.0", package("other", "1.0", modules=4))
        make_venv(self.prefix, folder / "wheels", "torchlike==1.0")
        shutil.copytree(self.prefix, folder / "pristine", symlinks=True)
        self.before = contents(self.prefix)
        self.seconds: dict[str, float] = {}
        self.whole("apply")
        self.repaired = contents(self.prefix)
        self.whole("undo")
        assert differences(self.before, contents(self.prefix)) == {}

    def start(self, what: str) -> subprocess.Popen[bytes]:
        """The program that does it, from the moment where it begins to."""
        command = [sys.executable, "-m", "tests.killed_repairs", what, str(self.folder), self.tool]
        here = Path(__file__).parent.parent
        child = subprocess.Popen(command, start_new_session=True, cwd=here, stdout=subprocess.PIPE)
        assert child.stdout is not None and child.stdout.readline() == b"begins\n"
        return child

    def whole(self, what: str) -> None:
        """Do it, and see how long it takes."""
        child = self.start(what)
        begun = time.monotonic()
        assert child.wait() == 0
        self.seconds[what] = time.monotonic() - begun
        if what == "apply":
            self.seconds["resume"] = self.seconds["apply"]

    def kill(self, what: str, part: float) -> bool:
        """Kill it after that part of its usual time. Returns whether it was still running."""
        child = self.start(what)
        try:
            child.wait(self.seconds[what] * part)
        except subprocess.TimeoutExpired:
            self._end(child)
            return True
        return False

    def cut_off(self) -> None:
        """A repair that was killed in its first step."""
        child = self.start("apply")
        while not any(run.has("process") for run in runs(str(self.folder / "state"))):
            assert child.poll() is None
            time.sleep(0.01)
        self._end(child)

    def _end(self, child: subprocess.Popen[bytes]) -> None:
        """Kill it, and wait until the environment can be locked: what it was about to start has the lock, too, until
        it has started or ended."""
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        deadline = time.monotonic() + 30
        while True:
            try:
                with locked(str(self.folder / "state"), str(self.prefix)):
                    return
            except RepairError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.01)

    def fresh(self) -> None:
        shutil.rmtree(self.folder / "state", ignore_errors=True)
        shutil.rmtree(self.prefix)
        shutil.copytree(self.folder / "pristine", self.prefix, symlinks=True)

    def found(self) -> str:
        """The state of the run and its last mark; "no run" if nothing was begun."""
        all_runs = runs(str(self.folder / "state"))
        if not all_runs:
            return "no run"
        last = all_runs[-1].marks[-1] if all_runs[-1].marks else None
        where = f"{last.mark} {last.step if last.step >= 0 else ''}".strip() if last else "saving"
        return f"{all_runs[-1].state}: {where}"

    def one(self, what: str, part: float, fix: str) -> tuple[str, str]:
        """Kill `what` ("apply", "resume", "undo") and go on by `way` ("undo", "resume"). Returns what was found and
        lost."""
        self.fresh()
        if what == "undo":
            self.whole("apply")
        elif what == "resume":
            self.cut_off()
        self.kill(what, part)
        found = self.found()
        wanted = self.before if what == "undo" or fix == "undo" else self.repaired
        if found == "no run":
            return found, str(differences(self.before, contents(self.prefix)) or "")
        current = runs(str(self.folder / "state"))[-1]
        if fix == "resume" and current.state == "cut off":
            resume(current, say=lambda event: None)
        elif what == "undo" or fix == "undo":
            undo(current, say=lambda event: None)
        lost = differences(wanted, contents(self.prefix))
        after = read(current.folder)
        ended = after is not None and after.state in ("done", "undone")
        return found, str(lost or "") if ended else f"left as {after and after.state}"


def contents(prefix: Path) -> Picture:
    """Without times and bytecode: what pip writes twice differs in these."""
    seen = picture(prefix)
    return {
        path: (what[0], *what[3:]) if what[0] == "file" else what[:2]
        for path, what in seen.items()
        if "__pycache__" not in path
    }


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tool", choices=("pip", "uv"), default="pip")
    parser.add_argument("--of", default="apply,undo")
    chosen = parser.parse_args()
    rng = random.Random(chosen.seed)
    lost_any = False
    with tempfile.TemporaryDirectory() as folder:
        killing = Killing(Path(folder), tool=chosen.tool)
        print("usual seconds:", {name: round(value, 2) for name, value in killing.seconds.items()})
        for what in chosen.of.split(","):
            fixes = ("undo",) if what == "undo" else ("undo", "resume")
            for number in range(chosen.kills):
                part, fix = rng.uniform(0.02, 1.02), fixes[number % len(fixes)]
                found, lost = killing.one(what, part, fix)
                lost_any |= bool(lost)
                print(f"{what:6} {part:4.0%}  {found:32} {fix:7} {'LOST ' + lost[:300] if lost else 'nothing lost'}")
                sys.stdout.flush()
    return 1 if lost_any else 0


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] in ("apply", "resume", "undo"):
        run(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
    else:
        sys.exit(main())
