"""Keeps the content of an environment's files before a fix changes them, and puts it back.

Where the file system can share content (btrfs, XFS), a file is kept as a clone. Elsewhere small and text files are
copied, since tools may write into them in place (.pth, conda's history). Large files are kept as hard links, which
cost nothing until the environment's own link goes. All work is done by names in open folders, so that no link leads
elsewhere. Nothing is ever written into an existing file: its other links may be in the cache of uv or conda.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

from gpudoctor.fix.account import belongs_to_another
from gpudoctor.fix.errors import RepairError
from gpudoctor.fix.open_folders import OpenFolders, listable, naming, regular
from gpudoctor.fix.owned_folder import open_owned, remove
from gpudoctor.fix.recorded_tree import KINDS, Entry, Tree, entry_at, entry_of
from gpudoctor.fix.run import UNDO_FOLDER, kept_places, open_kept
from gpudoctor.host.open_file import closing

COPIED_ALWAYS = 64 << 10
COPIED_AS_TEXT = 16 << 20
ROOM_LEFT = 64 << 20
"""Free space in bytes that keeping files leaves to others."""

BESIDE = b".gpudoctor-putting-back"
"""The name of a file in its folder until it is complete."""

_FICLONE = 0x40049409
_SET_ID = stat.S_ISUID | stat.S_ISGID
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_UNSUPPORTED = (errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL, errno.EXDEV, errno.ENOSYS, errno.EPERM, errno.ETXTBSY)


class NoRoomError(Exception):
    """The kept files do not fit; `needs` and `has` are bytes."""

    def __init__(self, folder: str, needs: int, has: int) -> None:
        super().__init__(folder)
        self.folder, self.needs, self.has = folder, needs, has


def choose_folder(run_folder: str, prefix: str, tree: Tree) -> str:
    """Where the files of `tree` can be kept by link: with the journal, beside the environment, or inside it. Where no
    link can be made, it is the journal's folder, and everything is copied."""
    sample = _sample(tree.values())
    with_journal, *around = kept_places(run_folder, prefix)
    for place in (with_journal, *filter(_is_no_others, around)):
        with suppress(OSError, RepairError), open_kept(place, make=True) as folder, OpenFolders() as folders:
            _hide_from_version_control(place)
            if sample is None or _can_link(folders, sample.path, folder):
                return place
        discard(place)
    return with_journal


def _is_no_others(place: str) -> bool:
    """Root leaves nothing in another account's folder."""
    return os.geteuid() != 0 or not belongs_to_another(os.path.dirname(os.path.dirname(place)))


def _hide_from_version_control(place: str) -> None:
    holder = os.path.dirname(place)
    if os.path.basename(holder) != UNDO_FOLDER:
        return
    with closing(open_owned(holder, holder, parents=False)) as folder, suppress(FileExistsError):
        descriptor = os.open(".gitignore", _NEW, 0o600, dir_fd=folder)
        os.write(descriptor, b"*\n")
        os.close(descriptor)


def _sample(entries: Iterable[Entry]) -> Entry | None:
    return min((entry for entry in entries if entry.kind == "file"), key=lambda entry: entry.size, default=None)


def _can_link(folders: OpenFolders, path: bytes, kept: int) -> bool:
    try:
        folder, name = folders.of(path)
        os.link(name, b"trial", src_dir_fd=folder, dst_dir_fd=kept, follow_symlinks=False)
    except OSError:
        return False
    os.unlink(b"trial", dir_fd=kept)
    return True


def discard(place: str) -> None:
    """Remove a folder of kept files or of a run, and the folders that were made to hold it."""
    holder, name = os.path.split(place)
    with suppress(OSError, RepairError):
        with closing(open_owned(holder, holder, parents=False)) as folder:
            remove(folder, name)
            if os.path.basename(holder) != UNDO_FOLDER:
                return
            if os.listdir(folder) == [".gitignore"]:
                os.unlink(".gitignore", dir_fd=folder)
        with OpenFolders() as folders:
            above, name_of_holder = folders.of(os.fsencode(holder))
            os.rmdir(name_of_holder, dir_fd=above)


def own_folders(prefix: str) -> tuple[bytes, ...]:
    """gpudoctor's folders, which are never part of the environment."""
    return (os.fsencode(f"{prefix}/{UNDO_FOLDER}"),) if prefix else ()


@contextmanager
def kept_files(place: str, tree: Tree) -> Iterator[KeptFiles]:
    """The kept files of `tree` in a folder; it may hold none yet."""
    with open_kept(place, make=True) as folder:
        yield KeptFiles(place, folder, tree)


class KeptFiles:
    """The kept content of one run, in an open folder. Each file is named by its number in the recorded tree."""

    def __init__(self, place: str, folder: int, tree: Tree) -> None:
        self.place, self.folder, self.tree = place, folder, tree
        self._numbers = {path: number for number, path in enumerate(tree)}
        self._clones = True
        self._links = True

    def name(self, path: bytes) -> bytes:
        """The name under which the content of a file is kept."""
        return b"%d" % self._numbers[path]

    def has(self, path: bytes) -> bool:
        """Whether the content of a file is kept."""
        try:
            os.stat(self.name(path), dir_fd=self.folder, follow_symlinks=False)
        except OSError:
            return False
        return True

    # --- keeping ---

    def keep(self, progress: Callable[[int, int], None] = lambda done, of: None) -> Tree:
        """Keep every file of the tree, and wait until it is on the disk.

        Returns the tree as it was kept. Raises NoRoomError before anything is written if the files cannot fit, and
        OSError with the path for a file that can be neither read nor linked.
        """
        files = [entry for entry in self.tree.values() if entry.kind == "file"]
        kept = dict(self.tree)
        with OpenFolders() as folders:
            self._look_for_room(folders, files)
            for done, entry in enumerate(files):
                if done % 500 == 0:
                    progress(done, len(files))
                with naming(entry.path):
                    kept[entry.path] = self._keep(folders, entry)
        sync_file_system(self.folder)
        progress(len(files), len(files))
        return kept

    def _look_for_room(self, folders: OpenFolders, files: Iterable[Entry]) -> None:
        sample = _sample(files)
        linked = sample is not None and _can_link(folders, sample.path, self.folder)
        needs = ROOM_LEFT + sum(entry.size for entry in files if entry.size <= COPIED_ALWAYS or not linked)
        free = os.statvfs(self.folder)
        has = free.f_bavail * free.f_frsize
        if needs > has:
            raise NoRoomError(self.place, needs, has)

    def _keep(self, folders: OpenFolders, entry: Entry) -> Entry:
        folder, name = folders.of(entry.path)
        place = self.name(entry.path)
        with suppress(FileNotFoundError):
            os.unlink(place, dir_fd=self.folder)
        if entry.mode & _SET_ID:
            # Set-id bits: only the very same file gets them again, and no file gets them from a record.
            with suppress(OSError):
                return self._link(folders, entry, place)
        if entry.size > COPIED_ALWAYS:
            if self._clones and self._clone(folder, name, place):
                return entry
            if self._links and not (entry.size <= COPIED_AS_TEXT and _is_text(folder, name)):
                with suppress(OSError):
                    return self._link(folders, entry, place)
        return self._copy(folders, entry, place)

    def _link(self, folders: OpenFolders, entry: Entry, place: bytes) -> Entry:
        folder, name = folders.of(entry.path)
        os.link(name, place, src_dir_fd=folder, dst_dir_fd=self.folder, follow_symlinks=False)
        # Linking changed its ctime.
        return entry_at(folders, entry.path)

    def _copy(self, folders: OpenFolders, entry: Entry, place: bytes) -> Entry:
        folder, name = folders.of(entry.path)
        try:
            opened = regular(folder, name)
        except PermissionError:
            # The owner may link a file that nobody may read.
            return self._link(folders, entry, place)
        with closing(opened) as source:
            with closing(os.open(place, _NEW, 0o600, dir_fd=self.folder)) as target:
                _write(target, source)
            return entry_of(entry.path, os.fstat(source), folder, name)

    def _clone(self, folder: int, name: bytes, place: bytes) -> bool:
        try:
            with (
                closing(regular(folder, name)) as source,
                closing(os.open(place, _NEW, 0o600, dir_fd=self.folder)) as target,
            ):
                fcntl.ioctl(target, _FICLONE, source)
        except OSError as error:
            with suppress(FileNotFoundError):
                os.unlink(place, dir_fd=self.folder)
            # A file that may not be read fails alone. Where the file system cannot clone, no other file is tried.
            self._clones = error.errno not in _UNSUPPORTED
            return False
        return True

    def drop(self, paths: Iterable[bytes]) -> None:
        """Delete the kept content of these files."""
        for path in paths:
            with suppress(FileNotFoundError):
                os.unlink(self.name(path), dir_fd=self.folder)

    # --- putting back ---

    def written_in_place(self, entry: Entry) -> bool:
        """Whether a tool wrote into the very file that is kept by link, so that its earlier content is gone."""
        try:
            status = self._status(entry)
        except OSError:
            return True
        return _is_it(status, entry) and (status.st_size, status.st_mtime_ns) != (entry.size, entry.mtime)

    def holds(self, entry: Entry, folder: int, name: bytes) -> bool:
        """Whether the file of that name has the kept content of `entry`."""
        with suppress(OSError):
            if os.path.samestat(self._status(entry), os.stat(name, dir_fd=folder, follow_symlinks=False)):
                return True
            with (
                open(regular(self.folder, self.name(entry.path)), "rb", buffering=0) as one,
                open(regular(folder, name), "rb", buffering=0) as other,
            ):
                while block := one.read(1 << 20):
                    if block != other.read(len(block)):
                        return False
                return not other.read(1)
        return False

    def copy_to(self, entry: Entry, folder: int, name: bytes) -> None:
        """Write the kept content to a new file."""
        self._new_file(entry, folder, name, metadata=False)

    def restore(self, entry: Entry, folder: int, name: bytes) -> None:
        """Put the kept content back at the path of `entry`: complete under another name first, then renamed."""
        kept = self.name(entry.path)
        with suppress(FileNotFoundError):
            os.unlink(BESIDE, dir_fd=folder)
        linked = _is_it(self._status(entry), entry)
        if linked:
            set_metadata_at(self.folder, kept, entry)
        if not (linked and self._link_to(kept, folder)):
            self._new_file(entry, folder, BESIDE, metadata=True)
        os.rename(BESIDE, name, src_dir_fd=folder, dst_dir_fd=folder)
        # Renaming does nothing where both are links of one file.
        with suppress(FileNotFoundError):
            os.unlink(BESIDE, dir_fd=folder)

    def _status(self, entry: Entry) -> os.stat_result:
        return os.stat(self.name(entry.path), dir_fd=self.folder, follow_symlinks=False)

    def _link_to(self, kept: bytes, folder: int) -> bool:
        try:
            os.link(kept, BESIDE, src_dir_fd=self.folder, dst_dir_fd=folder, follow_symlinks=False)
        except OSError:
            return False
        return True

    def _new_file(self, entry: Entry, folder: int, name: bytes, *, metadata: bool) -> None:
        with (
            closing(regular(self.folder, self.name(entry.path))) as source,
            closing(os.open(name, _NEW, 0o600, dir_fd=folder)) as target,
        ):
            try:
                fcntl.ioctl(target, _FICLONE, source)
            except OSError:
                _write(target, source)
            if metadata:
                set_metadata(target, entry)


def _is_it(status: os.stat_result, entry: Entry) -> bool:
    return (status.st_dev, status.st_ino) == (entry.device, entry.inode)


def set_metadata_at(folder: int, name: bytes, entry: Entry) -> None:
    """`set_metadata` for a file in an open folder."""
    with closing(os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)) as descriptor:
        if KINDS.get(stat.S_IFMT(os.fstat(descriptor).st_mode)) != entry.kind:
            raise OSError(errno.ESTALE, "it was replaced meanwhile", name)
        set_metadata(descriptor, entry)


def set_metadata(descriptor: int, entry: Entry) -> None:
    """Set owner, mode and time as recorded, only where they differ. A file without set-id bits does not get them
    back: a record alone gives nobody rights."""
    status, itself = os.fstat(descriptor), f"/proc/self/fd/{descriptor}"
    granted = stat.S_IMODE(status.st_mode) & _SET_ID if entry.kind == "file" else _SET_ID
    mode = entry.mode & (0o1777 | granted)
    if (status.st_uid, status.st_gid) != (entry.uid, entry.gid):
        with suppress(PermissionError):
            os.chown(itself, entry.uid, entry.gid)
    if entry.kind != "link" and stat.S_IMODE(os.fstat(descriptor).st_mode) != mode:
        os.chmod(itself, mode)
    if status.st_mtime_ns != entry.mtime:
        os.utime(itself, ns=(status.st_atime_ns, entry.mtime))


def _write(target: int, source: int) -> None:
    while block := os.read(source, 1 << 20):
        while block:
            block = block[os.write(target, block) :]


def _is_text(folder: int, name: bytes) -> bool:
    try:
        opened = regular(folder, name)
    except OSError:
        return False
    with closing(opened) as descriptor:
        return b"\0" not in os.read(descriptor, 4096)


def sync_file_system(folder: int) -> None:
    """When this returns, everything written to the file system of an open folder is on the disk."""
    with closing(listable(folder)) as descriptor:
        try:
            failed = ctypes.CDLL(None, use_errno=True).syncfs(descriptor) != 0
        except AttributeError:
            failed = True
        if failed:
            os.sync()
