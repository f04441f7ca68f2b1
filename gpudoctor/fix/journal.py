"""The journal of repairs: one folder a run, written ahead of what it announces, so that no run is ever lost.

HOME/runs/ID/journal.jsonl    what was begun (first line), then one mark a line
             before, after    the recorded trees
             output.log       what the steps printed
             alive            touched while steps run
HOME/locks/                   one file for each environment
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.fix.steps import RunStep

RunState = Literal["running", "cut off", "done", "failed", "unchanged", "undoing", "undone"]

MarkKind = Literal[
    "saved",  # the environment is recorded and its files are kept; nothing was changed before this
    "started",  # a step is about to run
    "process",  # as which process
    "ended",  # a step ended, with rc
    "recorded",  # the environment as the run left it is recorded
    "interrupted",
    "done",
    "failed",
    "unchanged",  # it failed, and nothing is left of what it did
    "again",  # the run is continued: all is put back and the steps begin anew
    "undoing",
    "restored",  # the files are as before
    "reverted",  # the undo commands of a step have run
    "undone",
]
_STATES: dict[str, RunState] = {
    "done": "done",
    "failed": "failed",
    "unchanged": "unchanged",
    "undone": "undone",
}


class RepairError(Exception):
    """Why a repair or its undo cannot go on: what happened, where, and what to do."""


class Process(Struct, frozen=True, omit_defaults=True):
    """A process that cannot be mistaken for a later one of the same number."""

    pid: int
    start: int
    """Clock ticks from boot to its start."""
    boot: str


class Package(Struct, frozen=True, omit_defaults=True):
    """An installed distribution, and what brought it."""

    name: str
    version: str
    installer: str = ""
    url: str = ""
    """Where it came from if not from an index (PEP 610), without credentials."""


class Mark(Struct, frozen=True, omit_defaults=True):
    """One line of the journal: something that is about to happen, or has happened."""

    mark: MarkKind
    at: float
    step: int = -1
    rc: int = 0
    process: Process | None = None
    """The step's process, or the gpudoctor that took over."""
    packages: tuple[Package, ...] = ()
    """Those installed afterwards, in `recorded`."""
    note: str = ""


class Begun(Struct, frozen=True):
    """The first line of a journal."""

    id: str
    at: float
    prefix: str
    steps: tuple[RunStep, ...]
    roots: tuple[str, ...]
    files: tuple[str, ...]
    made: tuple[str, ...]
    without: tuple[str, ...]
    kept: str
    """Folder of the kept files."""
    owner: Process
    packages: tuple[Package, ...] = ()
    plan: Any = None


class Run(Struct, frozen=True):
    """One repair, as its journal tells it."""

    folder: str
    """Of the journal; HOME/runs/ID."""
    begun: Begun
    marks: tuple[Mark, ...]
    state: RunState

    @property
    def home(self) -> str:
        return os.path.dirname(os.path.dirname(self.folder))

    @property
    def id(self) -> str:
        return self.begun.id

    @property
    def when(self) -> float:
        """Seconds since 1970."""
        return self.begun.at

    @property
    def prefix(self) -> str:
        return self.begun.prefix

    @property
    def plan(self) -> Any:
        """What `apply` was given to keep."""
        return self.begun.plan

    @property
    def steps(self) -> tuple[RunStep, ...]:
        return self.begun.steps

    @property
    def packages_before(self) -> tuple[Package, ...]:
        return self.begun.packages

    @property
    def packages_after(self) -> tuple[Package, ...]:
        """As the run left them; empty while that is not recorded."""
        return next((mark.packages for mark in reversed(self.marks) if mark.mark == "recorded"), ())

    @property
    def kept_bytes(self) -> int:
        """What the kept files take that nothing else takes already."""
        total = 0
        with suppress(OSError), os.scandir(self.begun.kept) as listing:
            for found in listing:
                status = found.stat(follow_symlinks=False)
                total += status.st_blocks * 512 if status.st_nlink == 1 else 0
        return total

    def has(self, *kinds: MarkKind) -> bool:
        """Whether such a mark was made since the steps last began."""
        return any(mark.mark in kinds for mark in self.since_begin)

    @property
    def is_over(self) -> bool:
        """Whether there is nothing to take back."""
        return self.state in ("unchanged", "undone")

    @property
    def is_saved(self) -> bool:
        """Whether anything can have been changed: all is kept before."""
        return any(mark.mark == "saved" for mark in self.marks)

    @property
    def since_begin(self) -> tuple[Mark, ...]:
        """The marks since the steps last began: a run that is continued begins anew."""
        last = max((n for n, mark in enumerate(self.marks) if mark.mark == "again"), default=-1)
        return self.marks[last + 1 :]

    def with_mark(self, mark: Mark) -> Run:
        return replace(self, marks=(*self.marks, mark))


# --- writing ---------------------------------------------------------------------------------------


def new_folder(home: str) -> str:
    """An empty folder for a run, named by its id. Nothing is a run before `begin`."""
    name = time.strftime("%Y%m%d-%H%M%S-", time.gmtime()) + secrets.token_hex(3)
    try:
        Path(home).mkdir(mode=0o700, parents=True, exist_ok=True)
        Path(home, "runs").mkdir(mode=0o700, exist_ok=True)
        Path(home, "runs", name).mkdir(mode=0o700)
    except OSError as error:
        raise _not_writable(home, error) from error
    return f"{home}/runs/{name}"


def begin(folder: str, begun: Begun) -> Run:
    """The first line of a journal, on the disk before anything else happens."""
    try:
        write_whole(Path(folder, "journal.jsonl"), msgspec.json.encode(begun) + b"\n")
        for path in Path(folder).parents[:2]:
            _sync_folder(path)
    except OSError as error:
        raise _not_writable(folder, error) from error
    except UnicodeEncodeError as error:
        raise RepairError(f"{begun.prefix!a} is no valid UTF-8: rename that folder first.") from error
    return Run(folder=folder, begun=begun, marks=(), state="running")


def _not_writable(path: str, error: OSError) -> RepairError:
    return RepairError(
        f"The journal cannot be written ({error.filename or path}: {error.strerror}), and without it nothing could "
        "be taken back: nothing was changed. XDG_STATE_HOME names another place for it."
    )


def note(run: Run, mark: MarkKind, **facts: Any) -> Run:
    """Add a line to the journal. It is on the disk when this returns."""
    line = Mark(mark=mark, at=time.time(), **facts)
    path = Path(run.folder) / "journal.jsonl"
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND)
    try:
        size = os.fstat(descriptor).st_size
        torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        content = (b"\n" if torn else b"") + msgspec.json.encode(line) + b"\n"
        if os.write(descriptor, content) != len(content):
            raise OSError(28, "No space left on device", str(path))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return run.with_mark(line)


def write_whole(path: Path, content: bytes) -> None:
    """A file that is there as a whole or not at all, for the person alone."""
    beside = path.with_name(f"{path.name}.new")
    beside.unlink(missing_ok=True)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.rename(path)
    _sync_folder(path.parent)


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# --- reading ---------------------------------------------------------------------------------------


def runs(home: str) -> tuple[Run, ...]:
    """All runs, newest last. A folder without a whole first line never changed anything and is left out."""
    try:
        names = sorted(os.listdir(f"{home}/runs"))
    except OSError:
        return ()
    found = (read(f"{home}/runs/{name}") for name in names)
    return tuple(sorted((run for run in found if run), key=lambda run: run.when))


def unfinished(home: str, prefix: str) -> Run | None:
    """The run that was cut off in this environment, in itself or in its undo."""
    real = os.path.realpath(prefix) if prefix else ""
    left = (run for run in runs(home) if run.prefix == real and run.state in ("cut off", "undoing"))
    return next(left, None)


def read(folder: str) -> Run | None:
    """One run. A last line that was cut off in the writing counts as never written."""
    try:
        lines = Path(folder, "journal.jsonl").read_bytes().split(b"\n")
        begun = msgspec.json.decode(lines[0], type=Begun)
    except (OSError, msgspec.DecodeError):
        return None
    marks = []
    for line in lines[1:]:
        with suppress(msgspec.DecodeError):
            marks.append(msgspec.json.decode(line, type=Mark))
    run = Run(folder=folder, begun=begun, marks=tuple(marks), state="cut off")
    return replace(run, state=_state(run))


def _state(run: Run) -> RunState:
    last = run.marks[-1].mark if run.marks else ""
    if last in _STATES:
        return _STATES[last]
    taken_over = [mark for mark in run.marks if mark.mark in ("again", "undoing")]
    if taken_over and taken_over[-1].mark == "undoing":
        return "undoing"
    owner = taken_over[-1].process if taken_over else run.begun.owner
    return "running" if last != "interrupted" and owner and is_alive(owner) else "cut off"


# --- processes and locks ---------------------------------------------------------------------------


def process(pid: int) -> Process:
    """The process that has this number now. OSError where there is none."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    return Process(pid=pid, start=int(fields[19]), boot=_boot())


def is_alive(known: Process) -> bool:
    """Whether it still runs; a zombie does not."""
    try:
        state = Path(f"/proc/{known.pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2]
        return process(known.pid) == known and state.split()[0] not in "ZX"
    except OSError:
        return False


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


@contextmanager
def locked(home: str, prefix: str) -> Iterator[None]:
    """Only one gpudoctor changes an environment at a time. RepairError says which one does already."""
    real = os.path.realpath(prefix) if prefix else ""
    folder = Path(home) / "locks"
    try:
        Path(home).mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        path = folder / hashlib.sha256(os.fsencode(real)).hexdigest()[:24]
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise _not_writable(home, error) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            who = os.pread(descriptor, 100, 0).decode("ascii", "replace").strip() or "unknown"
            raise RepairError(
                f"Another gpudoctor is at work in {real or 'this system'} (process {who}): wait until it has ended."
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
        yield
    finally:
        os.close(descriptor)
