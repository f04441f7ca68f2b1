"""The journal of fixes: one folder per run. Each event is written before it happens, so no run is ever lost.

HOME/runs/ID/journal.jsonl    the run as it began (first line), then one mark per line
             before, after    the recorded trees
             output.log       what the steps printed
             alive            touched while steps run
HOME/locks/                   one file for each environment

Only this account may own these files; gpudoctor does not trust others. A journal that cannot be read is reported,
and does not hide the others.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.fix.errors import RepairError, path_of
from gpudoctor.fix.journal_rules import begun_problem, mark_problem
from gpudoctor.fix.open_folders import naming
from gpudoctor.fix.owned_folder import open_own_file, open_owned, read_own_file
from gpudoctor.fix.processes import is_alive
from gpudoctor.fix.run import STATES, Begun, Mark, MarkKind, Run, RunState
from gpudoctor.host.open_file import closing

JOURNAL_LIMIT = 64 << 20
"""Size limit of one journal in bytes; a long one has some hundred thousand."""

_JOURNAL = "journal.jsonl"


class Unreadable(Struct, frozen=True):
    """A run whose journal is not trusted, and why."""

    folder: str
    why: str
    prefix: str | None
    """The environment that it names; None where it does not even name one."""


class UnreadableError(RepairError):
    """A journal that gpudoctor did not write."""

    def __init__(self, why: str, prefix: str | None) -> None:
        super().__init__(why)
        self.prefix = prefix


class Listing(Struct, frozen=True):
    """All runs in the journal."""

    runs: tuple[Run, ...]
    """Newest last."""
    unreadable: tuple[Unreadable, ...]


# --- writing ---------------------------------------------------------------------------------------


def open_run(folder: str) -> AbstractContextManager[int]:
    """The folder of a run as a descriptor."""
    return closing(open_owned(folder, os.path.dirname(os.path.dirname(folder))))


def new_folder(home: str) -> str:
    """An empty folder for a run, named by its id. It is no run before `begin`."""
    top = os.path.realpath(home)
    name = time.strftime("%Y%m%d-%H%M%S-", time.gmtime()) + secrets.token_hex(3)
    try:
        with closing(open_owned(f"{top}/runs", top, make=True)) as descriptor:
            os.mkdir(name, 0o700, dir_fd=descriptor)
    except OSError as error:
        raise _not_writable(home, error) from error
    return f"{top}/runs/{name}"


def begin(folder: str, begun: Begun) -> Run:
    """Write the first line of a journal. It is on the disk before anything else happens."""
    try:
        write_whole(folder, _JOURNAL, msgspec.json.encode(begun) + b"\n")
        runs_folder = os.path.dirname(folder)
        with closing(open_owned(runs_folder, os.path.dirname(runs_folder))) as descriptor:
            os.fsync(descriptor)
    except OSError as error:
        raise _not_writable(folder, error) from error
    except UnicodeEncodeError as error:
        raise RepairError(f"{begun.prefix!a} is no valid UTF-8: rename that folder first.") from error
    return Run(folder=folder, begun=begun, marks=(), state="running")


def _not_writable(path: str, error: OSError) -> RepairError:
    return RepairError(
        f"The journal cannot be written ({path_of(error, path)}: {error.strerror}). Without it nothing could be "
        "undone, so nothing was changed. XDG_STATE_HOME names another place for it."
    )


def note(run: Run, mark: MarkKind, **facts: Any) -> Run:
    """Add a line to the journal. It is on the disk when this returns."""
    line = Mark(mark=mark, at=time.time(), **facts)
    with (
        open_run(run.folder) as folder,
        closing(open_own_file(folder, _JOURNAL, os.O_RDWR | os.O_APPEND)) as descriptor,
    ):
        size = os.fstat(descriptor).st_size
        torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        content = (b"\n" if torn else b"") + msgspec.json.encode(line) + b"\n"
        if os.write(descriptor, content) != len(content):
            raise OSError(28, "No space left on device", f"{run.folder}/{_JOURNAL}")
        os.fsync(descriptor)
    return run.with_mark(line)


def write_whole(run_folder: str, name: str, content: bytes) -> None:
    """Write a file of a run for this account alone, as a whole or not at all."""
    beside = f"{name}.new"
    with open_run(run_folder) as folder:
        with suppress(FileNotFoundError):
            os.unlink(beside, dir_fd=folder)
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)


# --- reading ---------------------------------------------------------------------------------------


def read_all(home: str) -> Listing:
    """All runs, and those that cannot be read. RepairError where others may write to the journal as a whole. A folder
    without a journal never changed anything and is left out."""
    top = os.path.realpath(home)
    found: list[Run] = []
    bad: list[Unreadable] = []
    for folder in _folders(top):
        try:
            run = read(folder)
        except UnreadableError as error:
            bad.append(Unreadable(folder, str(error), error.prefix))
        except RepairError as error:
            bad.append(Unreadable(folder, str(error), None))
        else:
            found += [run] if run else []
    return Listing(runs=tuple(sorted(found, key=lambda run: run.when)), unreadable=tuple(bad))


def runs(home: str) -> tuple[Run, ...]:
    """All runs that can be read, newest last."""
    return read_all(home).runs


def unfinished(home: str, prefix: str) -> Run | None:
    """The run that was cut off in this environment, or whose undo was."""
    return first_unfinished(runs(home), os.path.realpath(prefix) if prefix else "")


def first_unfinished(found: tuple[Run, ...], prefix: str) -> Run | None:
    """The first such run among `found`; `prefix` is without links."""
    return next((run for run in found if run.prefix == prefix and run.state in ("cut off", "undoing")), None)


def _folders(top: str) -> list[str]:
    try:
        if not _is_folder(top):
            return []
        with closing(open_owned(f"{top}/runs", top)) as descriptor, os.scandir(descriptor) as listing:
            names = sorted(found.name for found in listing if not found.is_file(follow_symlinks=False))
    except FileNotFoundError:
        return []
    except OSError as error:
        where = path_of(error, top)
        raise RepairError(f"The journal in {top} cannot be read ({where}: {error.strerror}).") from error
    return [f"{top}/runs/{name}" for name in names]


def _is_folder(path: str) -> bool:
    """OSError where this account may not look."""
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def read(folder: str) -> Run | None:
    """One run; None where there is no journal. RepairError where gpudoctor cannot have written it. A line that was
    only half written counts as never written."""
    try:
        with open_run(folder) as descriptor:
            content = read_own_file(descriptor, _JOURNAL, JOURNAL_LIMIT)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RepairError(f"{path_of(error, _JOURNAL)}: {error.strerror}") from error
    first, *others = content.split(b"\n")
    begun = _decode_begun(first, os.path.basename(folder))
    marks = tuple(mark for line in others if line and (mark := _decode_mark(line, begun)))
    run = Run(folder=folder, begun=begun, marks=marks, state="cut off")
    return replace(run, state=_state(run))


def _decode_begun(line: bytes, name: str) -> Begun:
    try:
        begun = msgspec.json.decode(line, type=Begun)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"its first line is not that of a fix ({error})", _claimed_prefix(line)) from error
    if problem := begun_problem(begun, name):
        raise UnreadableError(problem, begun.prefix)
    return begun


def _decode_mark(line: bytes, begun: Begun) -> Mark | None:
    try:
        mark = msgspec.json.decode(line, type=Mark)
    except msgspec.ValidationError as error:
        raise UnreadableError(f"it has a line that no fix writes ({error})", begun.prefix) from error
    except (ValueError, RecursionError):
        return None
    if problem := mark_problem(mark, begun):
        raise UnreadableError(problem, begun.prefix)
    return mark


class _ClaimedPrefix(Struct):
    prefix: str


def _claimed_prefix(line: bytes) -> str | None:
    """The environment that a first line names when the rest of that line is wrong."""
    try:
        return msgspec.json.decode(line, type=_ClaimedPrefix).prefix
    except (ValueError, RecursionError):
        return None


def _state(run: Run) -> RunState:
    last = next((mark.mark for mark in reversed(run.marks) if mark.mark != "judged"), "")
    if last in STATES:
        return STATES[last]
    taken_over = [mark for mark in run.marks if mark.mark in ("again", "undoing")]
    if taken_over and taken_over[-1].mark == "undoing":
        return "undoing"
    owner = taken_over[-1].process if taken_over else run.begun.owner
    return "running" if last != "interrupted" and owner and is_alive(owner) else "cut off"


# --- locks -----------------------------------------------------------------------------------------


@contextmanager
def locked(home: str, prefix: str) -> Iterator[None]:
    """Lock an environment for one gpudoctor at a time. RepairError names the process that holds it."""
    real = os.path.realpath(prefix) if prefix else ""
    top, name = os.path.realpath(home), hashlib.sha256(os.fsencode(real)).hexdigest()[:24]
    try:
        with closing(open_owned(f"{top}/locks", top, make=True)) as folder:
            with suppress(FileExistsError):
                os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder))
            with naming(os.fsencode(f"{top}/locks/{name}")):
                descriptor = open_own_file(folder, name, os.O_RDWR)
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
