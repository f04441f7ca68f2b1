"""The content of an environment's files, kept aside before anything is changed, and given back.

A file is kept as a clone where the file system can share content (btrfs, XFS); else a small or text file as a
copy, since tools may write into such files in place (.pth, conda's history), and a large one as a hard link,
which costs nothing until the environment's own link goes. Nothing is ever written into a file that is there:
its other links may be in the cache of uv or conda.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from gpudoctor.fix.recorded_tree import Entry, Tree, entry_of

COPIED_ALWAYS = 64 << 10
COPIED_AS_TEXT = 16 << 20
ROOM_LEFT = 64 << 20
"""Free space that saving leaves to others, bytes."""

_FICLONE = 0x40049409
_FOLDER = ".gpudoctor-undo"
_UNSUPPORTED = (errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL, errno.EXDEV, errno.ENOSYS, errno.EPERM, errno.ETXTBSY)


class NoRoomError(Exception):
    """The kept files do not fit: needs and has are bytes."""

    def __init__(self, folder: str, needs: int, has: int) -> None:
        super().__init__(folder)
        self.folder, self.needs, self.has = folder, needs, has


def choose_folder(run_folder: str, prefix: str, tree: Tree) -> str:
    """Where the files of `tree` can be kept by link: with the journal, beside the environment, or inside it.

    Where no link can be made at all it is the journal's folder, and everything is copied.
    """
    sample = min((entry for entry in tree.values() if entry.kind == "file"), key=lambda e: e.size, default=None)
    with_journal, run_id = f"{run_folder}/kept", os.path.basename(run_folder)
    places = [with_journal]
    if prefix:
        places += [f"{os.path.dirname(prefix)}/{_FOLDER}/{run_id}", f"{prefix}/{_FOLDER}/{run_id}"]
    for place in places:
        with suppress(OSError):
            _make(place)
            if sample is None or _can_link(sample.path, place):
                return place
        discard(place)
    return with_journal


def _make(place: str) -> None:
    folder = os.path.dirname(place)
    if os.path.basename(folder) == _FOLDER:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        # For the version control of a project that it may lie in.
        Path(folder, ".gitignore").write_text("*\n", encoding="ascii")
    os.makedirs(place, mode=0o700, exist_ok=True)


def _can_link(path: bytes, place: str) -> bool:
    trial = os.fsencode(f"{place}/trial")
    try:
        os.link(path, trial, follow_symlinks=False)
    except OSError:
        return False
    os.unlink(trial)
    return True


def discard(place: str) -> None:
    """Remove a folder of kept files, and what was made to hold it."""
    shutil.rmtree(place, ignore_errors=True)
    folder = os.path.dirname(place)
    if os.path.basename(folder) == _FOLDER:
        with suppress(OSError):
            if os.listdir(folder) == [".gitignore"]:
                os.unlink(f"{folder}/.gitignore")
            os.rmdir(folder)


def own_folders(prefix: str) -> tuple[bytes, ...]:
    """What is never part of the environment."""
    return (os.fsencode(f"{prefix}/{_FOLDER}"),) if prefix else ()


class KeptFiles:
    """The kept content of one run, a file a path, named by its number in the recorded tree."""

    def __init__(self, folder: str, numbers: dict[bytes, int] | None = None) -> None:
        self.folder = os.fsencode(folder)
        self.numbers = numbers or {}
        self._clones = True
        self._links = True

    @classmethod
    def of(cls, folder: str, tree: Tree) -> KeptFiles:
        """Those that were kept of a recorded tree."""
        return cls(folder, {path: number for number, path in enumerate(tree)})

    def place(self, path: bytes) -> bytes:
        """Where the content of a file is kept."""
        return b"%s/%d" % (self.folder, self.numbers[path])

    # --- keeping ---

    def keep(self, tree: Tree, progress: Callable[[int, int], None] = lambda done, of: None) -> Tree:
        """Keep every file of `tree`, and wait until it is on the disk.

        Returns the tree as it was kept. NoRoomError before anything is written if it cannot fit; OSError with the
        path for a file that can be neither read nor linked.
        """
        _make(os.fsdecode(self.folder))
        self.numbers = {path: number for number, path in enumerate(tree)}
        files = [entry for entry in tree.values() if entry.kind == "file"]
        self._look_for_room(files)
        kept = dict(tree)
        for done, entry in enumerate(files):
            if done % 500 == 0:
                progress(done, len(files))
            kept[entry.path] = self._keep(entry)
        sync_file_system(self.folder)
        progress(len(files), len(files))
        return kept

    def _look_for_room(self, files: Iterable[Entry]) -> None:
        linked = any(True for _ in self._trial(files))
        needs = ROOM_LEFT + sum(entry.size for entry in files if entry.size <= COPIED_ALWAYS or not linked)
        free = os.statvfs(self.folder)
        has = free.f_bavail * free.f_frsize
        if needs > has:
            raise NoRoomError(os.fsdecode(self.folder), needs, has)

    def _trial(self, files: Iterable[Entry]) -> Iterable[Entry]:
        sample = min(files, key=lambda entry: entry.size, default=None)
        if sample is not None and _can_link(sample.path, os.fsdecode(self.folder)):
            yield sample

    def _keep(self, entry: Entry) -> Entry:
        place = self.place(entry.path)
        with suppress(FileNotFoundError):
            os.unlink(place)
        if entry.size <= COPIED_ALWAYS:
            return self._copy(entry, place)
        if self._clones and self._clone(entry, place):
            return entry
        if self._links and not (entry.size <= COPIED_AS_TEXT and _is_text(entry.path)):
            with suppress(OSError):
                os.link(entry.path, place, follow_symlinks=False)
                # Linking changed its ctime.
                return entry_of(entry.path, os.lstat(entry.path))
        return self._copy(entry, place)

    def _copy(self, entry: Entry, place: bytes) -> Entry:
        try:
            source = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except PermissionError:
            # The owner may link what nobody may read.
            os.link(entry.path, place, follow_symlinks=False)
            return entry_of(entry.path, os.lstat(entry.path))
        try:
            _write(place, source)
            return entry_of(entry.path, os.fstat(source))
        finally:
            os.close(source)

    def _clone(self, entry: Entry, place: bytes) -> bool:
        try:
            _clone(entry.path, place)
        except OSError as error:
            with suppress(FileNotFoundError):
                os.unlink(place)
            # Of this file only, if it may not be read; of every file, if the file system cannot.
            self._clones = error.errno not in _UNSUPPORTED
            return False
        return True

    def drop(self, paths: Iterable[bytes]) -> None:
        """Let go of what is not needed."""
        for path in paths:
            with suppress(FileNotFoundError):
                os.unlink(self.place(path))

    # --- giving back ---

    def written_in_place(self, entry: Entry) -> bool:
        """Whether a tool wrote into the very file that is kept by link, so that its earlier content is gone."""
        try:
            status = os.lstat(self.place(entry.path))
        except OSError:
            return True
        linked = (status.st_dev, status.st_ino) == (entry.device, entry.inode)
        return linked and (status.st_size, status.st_mtime_ns) != (entry.size, entry.mtime)

    def holds(self, entry: Entry, path: bytes) -> bool:
        """Whether the file at `path` has the kept content of `entry`."""
        kept = self.place(entry.path)
        with suppress(OSError):
            if os.path.samestat(os.lstat(kept), os.lstat(path)):
                return True
            with open(kept, "rb", buffering=0) as one, open(path, "rb", buffering=0) as other:
                while block := one.read(1 << 20):
                    if block != other.read(len(block)):
                        return False
                return not other.read(1)
        return False

    def give_back(self, entry: Entry, beside: bytes) -> None:
        """Put the kept content to the path of `entry`, by way of `beside`, a path in the same folder."""
        kept = self.place(entry.path)
        with suppress(FileNotFoundError):
            os.unlink(beside)
        status = os.lstat(kept)
        linked = (status.st_dev, status.st_ino) == (entry.device, entry.inode)
        if not (linked and _linked(kept, beside)):
            try:
                _clone(kept, beside)
            except OSError:
                with suppress(FileNotFoundError):
                    os.unlink(beside)
                source = os.open(kept, os.O_RDONLY | os.O_NOFOLLOW)
                try:
                    _write(beside, source)
                finally:
                    os.close(source)
            settle(beside, entry)
        os.rename(beside, entry.path)
        # Renaming does nothing where both are links of one file.
        with suppress(FileNotFoundError):
            os.unlink(beside)
        if linked:
            settle(entry.path, entry)


def settle(path: bytes, entry: Entry) -> None:
    """Owner, mode and time as recorded, changed only where they differ."""
    status = os.lstat(path)
    if (status.st_uid, status.st_gid) != (entry.uid, entry.gid):
        with suppress(PermissionError):
            os.chown(path, entry.uid, entry.gid, follow_symlinks=False)
    if entry.kind != "link" and status.st_mode & 0o7777 != entry.mode:
        os.chmod(path, entry.mode)
    if status.st_mtime_ns != entry.mtime:
        os.utime(path, ns=(status.st_atime_ns, entry.mtime), follow_symlinks=False)


def _linked(source: bytes, place: bytes) -> bool:
    try:
        os.link(source, place, follow_symlinks=False)
    except OSError:
        return False
    return True


def _clone(source: bytes, place: bytes) -> None:
    with (
        open(os.open(source, os.O_RDONLY | os.O_NOFOLLOW), "rb", buffering=0) as original,
        open(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb", buffering=0) as clone,
    ):
        fcntl.ioctl(clone.fileno(), _FICLONE, original.fileno())


def _write(place: bytes, source: int) -> None:
    target = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        while block := os.read(source, 1 << 20):
            while block:
                block = block[os.write(target, block) :]
    finally:
        os.close(target)


def _is_text(path: bytes) -> bool:
    try:
        with open(path, "rb", buffering=0) as file:
            return b"\0" not in file.read(4096)
    except OSError:
        return False


def sync_file_system(folder: bytes) -> None:
    """Everything written to the file system of `folder` is on the disk when this returns."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(descriptor) != 0:
            os.sync()
    except AttributeError:
        os.sync()
    finally:
        os.close(descriptor)
