"""Ways to tamper with a journal, each with its name."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from gpudoctor.fix.apply import apply
from gpudoctor.fix.recorded_tree import Entry, decoded
from gpudoctor.fix.scope import Target
from gpudoctor.step import RunStep
from tests.support.environments import write_torch, write_venv

SUBFOLDERS = 6

USER = 61234
"""An account that no machine has."""

_REPLACE = """
import shutil
from pathlib import Path
shutil.rmtree("mine", ignore_errors=True)
for name in ("a.py", "deep/b.py"):
    Path("mine", name).parent.mkdir(parents=True, exist_ok=True)
    Path("mine", name).write_text("new")
"""


class Place:
    """A folder with two environments that were repaired, one of whose journals is going to be tampered with."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.prefix, self.other = folder, folder / "env", folder / "other"
        self.canary, self.ran = folder / "canary", folder / "ran"
        self.home = folder / "home"
        self._run: Path | None = None
        self.state = self.home / ".local" / "state" / "gpudoctor"

    def make(self) -> None:
        for path in (self.canary / "lib" / "mine", self.home):
            path.mkdir(parents=True)
        for name in ("a.py", "pyproject.toml", "lib/mine/a.py", "lib/mine/b.py"):
            (self.canary / name).write_text("never to be touched")
        for prefix in (self.other, self.prefix):
            site = write_venv(prefix)
            write_torch(site, "2.9.1+cpu", None)
            for number in range(SUBFOLDERS):
                (site / "mine" / f"sub{number}").mkdir(parents=True)
                (site / "mine" / f"sub{number}" / "a.py").write_text("old")
            step = RunStep(argv=(sys.executable, "-I", "-c", _REPLACE), cwd=str(site), risk="replaces")
            apply([step], Target(str(prefix), ""), str(self.state), plan=None, say=lambda event: None)

    @property
    def site(self) -> Path:
        return next(self.prefix.glob("lib/python*/site-packages"))

    @property
    def run(self) -> Path:
        """The folder of the run that is tampered with."""
        if self._run is None:
            self._run = max((self.state / "runs").iterdir(), key=lambda path: json.loads(_first(path))["at"])
        return self._run

    def begun(self, **facts: Any) -> None:
        """Write other facts into the first line, and a command that must never run."""
        begun = json.loads(_first(self.run))
        evil = {"kind": "run", "argv": ["true"], "risk": "root", "undo": [["touch", str(self.ran)]]}
        begun["steps"] = [evil, *begun["steps"]]
        self.first_line(json.dumps({**begun, **facts}) + '\n{"mark":"started","at":1,"step":0}')

    def first_line(self, line: str) -> None:
        _, _, marks = (self.run / "journal.jsonl").read_bytes().partition(b"\n")
        (self.run / "journal.jsonl").write_bytes(line.encode("utf-8", "surrogateescape") + b"\n" + marks)

    def mark(self, line: str) -> None:
        with open(self.run / "journal.jsonl", "a") as file:
            file.write(line + "\n")

    def cut(self) -> None:
        """As if the run had been killed in its step."""
        path = self.run / "journal.jsonl"
        lines = path.read_text().splitlines()
        path.write_text("\n".join(line for line in lines if '"ended"' not in line and '"done"' not in line) + "\n")

    def tree(self, name: str, change: Callable[[Entry], dict[str, Any]]) -> None:
        """Change the entries of a recorded tree."""
        known = [msgspec.to_builtins(entry, builtin_types=(bytes,)) for entry in self.entries(name)]
        fields = Entry.__struct_fields__
        changed = [
            [change(entry).get(field, value) for field, value in zip(fields, values, strict=True)]
            for entry, values in zip(self.entries(name), known, strict=True)
        ]
        (self.run / name).write_bytes(msgspec.msgpack.encode(changed))

    def entries(self, name: str) -> list[Entry]:
        roots = [os.fsencode(root) for root in json.loads(_first(self.run))["roots"]]
        return list(decoded((self.run / name).read_bytes(), roots).values())


def _first(run: Path) -> bytes:
    return (run / "journal.jsonl").read_bytes().partition(b"\n")[0]


# --- kinds of tampering ------------------------------------------------------------------------------------

Tamper = Callable[[Place], None]
KINDS: dict[str, Tamper] = {}
NEEDS_ROOT = {"state of another account", "home of another account", "run of another account", "journal of another"}
WHOLE = {"state of another account", "home of another account", "state that all may write", "runs behind a link"}
"""Nothing of the journal is believed."""


def kind(name: str) -> Callable[[Tamper], Tamper]:
    def keep(tamper: Tamper) -> Tamper:
        KINDS[name] = tamper
        return tamper

    return keep


def _give(path: Path) -> None:
    """To an account that is neither who runs this nor the user."""
    for found in (path, *path.rglob("*")):
        os.chown(found, USER + 1, USER + 1, follow_symlinks=False)


@kind("state of another account")
def _(place: Place) -> None:
    place.begun()
    _give(place.state)


@kind("home of another account")
def _(place: Place) -> None:
    place.begun()
    _give(place.home)


@kind("run of another account")
def _(place: Place) -> None:
    place.begun()
    _give(place.run)


@kind("journal of another")
def _(place: Place) -> None:
    place.begun()
    _give(place.run / "journal.jsonl")


@kind("state that all may write")
def _(place: Place) -> None:
    place.begun()
    place.state.chmod(0o777)


@kind("run that all may write")
def _(place: Place) -> None:
    place.begun()
    place.run.chmod(0o770)


@kind("journal that all may write")
def _(place: Place) -> None:
    place.begun()
    (place.run / "journal.jsonl").chmod(0o666)


@kind("runs behind a link")
def _(place: Place) -> None:
    place.begun()
    (place.state / "runs").rename(place.folder / "runs")
    (place.state / "runs").symlink_to(place.folder / "runs")


def _behind_a_link(path: Path) -> None:
    path.rename(path.with_name("moved"))
    path.symlink_to(path.with_name("moved"))


@kind("run behind a link")
def _(place: Place) -> None:
    place.begun()
    run = place.run
    run.rename(place.folder / "moved")
    run.symlink_to(place.folder / "moved")


@kind("journal behind a link")
def _(place: Place) -> None:
    place.begun()
    _behind_a_link(place.run / "journal.jsonl")


def _fifo(name: str) -> Tamper:
    def tamper(place: Place) -> None:
        run = place.run
        (run / name).unlink(missing_ok=True)
        os.mkfifo(run / name)

    return tamper


for _name in ("journal.jsonl", "before", "after", "output.log", "alive"):
    KINDS[f"FIFO as {_name}"] = _fifo(_name)


@kind("FIFO as lock")
def _(place: Place) -> None:
    name = hashlib.sha256(os.fsencode(place.prefix)).hexdigest()[:24]
    (place.state / "locks" / name).unlink()
    os.mkfifo(place.state / "locks" / name)


def _facts(of: Callable[[Place], dict[str, Any]]) -> Tamper:
    return lambda place: place.begun(**of(place))


FACTS: dict[str, Callable[[Place], dict[str, Any]]] = {
    "root elsewhere": lambda place: {"roots": [str(place.canary)]},
    "root with ..": lambda place: {"roots": [f"{place.prefix}/../canary"]},
    "root of a like name": lambda place: {"roots": [f"{place.prefix}2", str(place.canary / "lib")]},
    "root /": lambda place: {"roots": ["/"]},
    "file elsewhere": lambda place: {"files": [str(place.canary / "a.py")]},
    "project elsewhere": lambda place: {"files": [str(place.canary / "pyproject.toml")]},
    "made elsewhere": lambda place: {"made": [str(place.canary)]},
    "left out elsewhere": lambda place: {"without": [str(place.prefix / "lib")]},
    "kept elsewhere": lambda place: {"kept": str(place.canary)},
    "kept with ..": lambda place: {"kept": f"{place.state}/runs/x/../../../../../canary"},
    "prefix elsewhere": lambda place: {"prefix": str(place.canary)},
    "prefix with NUL": lambda place: {"prefix": f"{place.prefix}\0"},
    "root with NUL": lambda place: {"roots": [f"{place.prefix}\0/x"]},
    "relative root": lambda place: {"roots": ["canary"]},
    "other id": lambda place: {"id": "20200101-000000-abcdef"},
    "id with ..": lambda place: {"id": "../../canary"},
    "time 1e300": lambda place: {"at": 1e300},
    "time below 0": lambda place: {"at": -1e18},
    "time NaN": lambda place: {"at": float("nan")},
    "time of 400 digits": lambda place: {"at": 10**400},
    "time as text": lambda place: {"at": "now"},
    "unknown kind of step": lambda place: {"steps": [{"kind": "shell", "argv": ["touch", str(place.ran)]}]},
    "step without a command": lambda place: {"steps": [{"kind": "run", "argv": []}]},
    "step in a folder with ..": lambda place: {"steps": [{"kind": "run", "argv": ["true"], "cwd": "/tmp/.."}]},
    "variable without a name": lambda place: {"steps": [{"kind": "run", "argv": ["true"], "env": {"": "x"}}]},
    "plan of other types": lambda place: {"plan": {"steps": [3, None]}},
    "plan of another shape": lambda place: {"plan": {"steps": {"because": "x"}}},
    "deep plan": lambda place: {"plan": json.loads("[" * 500 + "]" * 500)},
    "process 0": lambda place: {"owner": {"pid": 0, "start": 0, "boot": ""}},
}
KINDS |= {name: _facts(of) for name, of in FACTS.items()}


@kind("very deep plan")
def _(place: Place) -> None:
    line = _first(place.run).decode().replace('"plan":null', '"plan":' + "[" * 200_000 + "]" * 200_000)
    place.first_line(line)


MARKS = {
    "unknown mark": '{"mark":"believed","at":1}',
    "mark of no step": '{"mark":"started","at":1,"step":7}',
    "mark of step -9": '{"mark":"ended","at":1,"step":-9}',
    "mark at 1e300": '{"mark":"done","at":1e300}',
    "mark of 5000 digits": '{"mark":"done","at":1,"rc":' + "9" * 5000 + "}",
    "mark that is a list": "[1]",
}


def _marks(line: str) -> Tamper:
    def tamper(place: Place) -> None:
        place.begun()
        place.mark(line)

    return tamper


KINDS |= {name: _marks(line) for name, line in MARKS.items()}


@kind("cut line")
def _(place: Place) -> None:
    path = place.run / "journal.jsonl"
    path.write_bytes(path.read_bytes()[: -random.Random(4).randrange(5, 300)])


@kind("cut first line")
def _(place: Place) -> None:
    path = place.run / "journal.jsonl"
    path.write_bytes(_first(place.run)[:-40])


@kind("empty journal")
def _(place: Place) -> None:
    (place.run / "journal.jsonl").write_bytes(b"")


@kind("garbage as journal")
def _(place: Place) -> None:
    (place.run / "journal.jsonl").write_bytes(random.Random(1).randbytes(100_000))


@kind("garbage after the first line")
def _(place: Place) -> None:
    path = place.run / "journal.jsonl"
    path.write_bytes(_first(place.run) + b"\n" + random.Random(2).randbytes(10_000))


@kind("garbage as trees")
def _(place: Place) -> None:
    for name in ("before", "after"):
        (place.run / name).write_bytes(random.Random(3).randbytes(10_000))


def _huge(name: str) -> Tamper:
    def tamper(place: Place) -> None:
        os.truncate(place.run / name, 8 << 30)

    return tamper


for _name in ("journal.jsonl", "before", "after"):
    KINDS[f"huge {_name}"] = _huge(_name)


def _in_tree(change: Callable[[Place, Entry], dict[str, Any]]) -> Tamper:
    def tamper(place: Place) -> None:
        for name in ("before", "after"):
            place.tree(name, lambda entry: change(place, entry) if entry.kind == "file" else {})

    return tamper


TREES: dict[str, Callable[[Place, Entry], dict[str, Any]]] = {
    "tree elsewhere": lambda place, entry: {
        "path": os.fsencode(place.canary / os.path.basename(os.fsdecode(entry.path)))
    },
    "tree with ..": lambda place, entry: {"path": os.fsencode(place.prefix) + b"/lib/../../canary/a.py"},
    "tree with NUL": lambda place, entry: {"path": entry.path + b"\0"},
    "tree of one path": lambda place, entry: {"path": os.fsencode(place.prefix / "bin" / "x")},
    "owner -1": lambda place, entry: {"uid": -1},
    "owner beyond all": lambda place, entry: {"uid": 1 << 40},
    "mode beyond all": lambda place, entry: {"mode": 0o170777},
    "time beyond all": lambda place, entry: {"mtime": (1 << 64) - 1},
    "size below 0": lambda place, entry: {"size": -5},
}
KINDS |= {name: _in_tree(change) for name, change in TREES.items()}


@kind("setuid from the record")
def _(place: Place) -> None:
    place.tree("before", lambda entry: {"mode": 0o6755} if entry.kind == "file" and b"/mine/" in entry.path else {})


@kind("a file given for a link")
def _(place: Place) -> None:
    place.tree(
        "before", lambda entry: {"kind": "link", "target": os.fsencode(place.canary)} if entry.size == 3 else {}
    )


@kind("kept behind a link")
def _(place: Place) -> None:
    shutil.rmtree(place.run / "kept")
    (place.run / "kept").symlink_to(place.canary)


@kind("kept files are links")
def _(place: Place) -> None:
    for path in (place.run / "kept").iterdir():
        path.unlink()
        path.symlink_to(place.canary / "a.py")


@kind("kept is gone")
def _(place: Place) -> None:
    shutil.rmtree(place.run / "kept")


def _swap(path: Callable[[Place], Path], to: str) -> Tamper:
    def tamper(place: Place) -> None:
        shutil.rmtree(path(place))
        path(place).symlink_to(place.canary / to)

    return tamper


KINDS["package behind a link"] = _swap(lambda place: place.site / "mine", "lib/mine")
KINDS["library behind a link"] = _swap(lambda place: place.prefix / "lib", "lib")
KINDS["environment behind a link"] = _swap(lambda place: place.prefix, "")
KINDS["swapped while undo runs"] = lambda place: None
