"""Restores a recorded tree, file by file, and loses nothing that anybody did since.

A run's changes are the difference between the tree before it and the tree as it left it. A path that is still as the
run left it gets its earlier content, or is removed if there was none. A path that somebody changed since is moved
aside first. A path that somebody added stays, unless its folder is removed: then it is moved aside too, so that no
half of a package can be imported. Running this again, also after an interruption, leads to the same result.
"""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack, suppress

from msgspec import Struct, field
from msgspec.structs import replace

from gpudoctor.fix.kept_files import BESIDE, KeptFiles, set_metadata, set_metadata_at, sync_file_system
from gpudoctor.fix.open_folders import OpenFolders, naming
from gpudoctor.fix.owned_folder import open_owned
from gpudoctor.fix.recorded_tree import Entry, Tree, entry_at, is_bytecode, same_file, scan, source_of, untouched
from gpudoctor.fix.scope import Scope

_AS_FOUND = b".gpudoctor-moving"


class PutBack(Struct):
    """What happened to each path."""

    restored: int = 0
    removed: int = 0
    aside: list[tuple[str, str]] = field(default_factory=list)
    """Changed since the run: the path, and where it lies now."""
    stays: list[str] = field(default_factory=list)
    """Changed since the run, and left as it is."""
    earlier: list[tuple[str, str]] = field(default_factory=list)
    """For a file that stays: the path, and where its content from before the run lies now."""
    lost: list[str] = field(default_factory=list)
    """Written in place by a step, so that the earlier content is gone."""


def put_back(scope: Scope, before: Tree, after: Tree, kept: KeptFiles, aside: str) -> PutBack:
    """Turn the tree from `after` back into `before`. `aside` is the folder for what was changed since. Raises OSError
    with the path where it cannot go on; calling it again continues."""
    now = scan(scope.everything, scope.without)
    with ExitStack() as opened:
        worker = _Worker(scope, before, after, now, kept, aside, opened)
        worker.clear_what_was_cut_off()
        worker.leave_new_environments_in_use()
        worker.clear()
        worker.fill()
        worker.set_folder_metadata()
        worker.sync()
        return worker.outcome


class _Worker:
    def __init__(
        self, scope: Scope, before: Tree, after: Tree, now: Tree, kept: KeptFiles, aside: str, opened: ExitStack
    ) -> None:
        self.scope, self.before, self.after, self.now, self.kept = scope, before, after, now, kept
        self.folders = opened.enter_context(OpenFolders())
        self.opened = opened
        self.aside = os.fsencode(aside)
        self._aside_folders: OpenFolders | None = None
        paths = before.keys() | after.keys()
        self.changed = {path for path in paths if not untouched(before.get(path), after.get(path))}
        self.outcome = PutBack()

    def clear_what_was_cut_off(self) -> None:
        """Remove files that an interrupted undo left half written."""
        for path in [path for path in self.now if path.endswith(b"/" + BESIDE)]:
            entry = self.now.pop(path)
            if entry.kind != "folder":
                self._unlink(path)

    def leave_new_environments_in_use(self) -> None:
        """Keep a venv whole that the run made and somebody works in."""
        for root in self.scope.made:
            below = [path for path in self.now if path == root or path.startswith(root + b"/")]
            if root in self.before or all(self._is_as_left(path) or is_bytecode(path) for path in below):
                continue
            self.outcome.stays.append(os.fsdecode(root))
            for path in below:
                del self.now[path]
            self.changed = {path for path in self.changed if path != root and not path.startswith(root + b"/")}

    def clear(self) -> None:
        """Remove what was not there before, the content of a folder before the folder."""
        for path in reversed(self._paths_to_remove()):
            if self.now[path].kind == "folder":
                try:
                    self._remove_folder(path)
                except OSError:
                    self.outcome.stays.append(os.fsdecode(path))
                    continue
            elif self._may_go(path):
                self._unlink(path)
                self.outcome.removed += 1
            elif path in self.scope.files:
                self.outcome.stays.append(os.fsdecode(path))
                continue
            else:
                self._move_aside(path)
            del self.now[path]

    def fill(self) -> None:
        """Restore what the run changed or removed, a folder before its content."""
        for path, entry in self.before.items():
            if path not in self.changed or self._is_back(path, entry):
                continue
            if entry.kind == "folder":
                self._make_folder(path)
            elif path in self.scope.files and path in self.now and not self._may_go(path):
                self._lay_beside(path, entry)
            elif entry.kind == "file" and self.kept.written_in_place(entry):
                self.outcome.lost.append(os.fsdecode(path))
            elif entry.kind != "other":
                self._restore(path, entry)

    def set_folder_metadata(self) -> None:
        """Restore the times of folders in which the run changed something, and the modes that it changed."""
        held = {_parent(path) for path in self.changed}
        for path in reversed(list(self.before)):
            entry, there = self.before[path], self.now.get(path)
            if entry.kind != "folder" or there is None or there.kind != "folder":
                continue
            if path not in self.changed and path not in held:
                continue
            folder = self.folders.at(path)
            with naming(path):
                set_metadata(folder, entry if path in self.changed else replace(there, mtime=entry.mtime))

    def sync(self) -> None:
        """Write everything to the disk."""
        for folder in {_parent(path) for path in self.scope.everything}:
            with suppress(FileNotFoundError, NotADirectoryError):
                sync_file_system(self.folders.at(folder))

    # --- one path ---

    def _paths_to_remove(self) -> list[bytes]:
        """Paths that are there now, and were not there before or were something else."""
        going: dict[bytes, bool] = {}
        for path, there in self.now.items():
            entry = self.before.get(path)
            in_going = going.get(_parent(path), False)
            mine = path in self.changed and (entry is None or entry.kind != there.kind)
            stale = entry is None and is_bytecode(path) and source_of(path) in self.changed
            if mine or in_going or stale:
                going[path] = there.kind == "folder"
        return list(going)

    def _is_as_left(self, path: bytes) -> bool:
        return same_file(self.now.get(path), self.after.get(path))

    def _may_go(self, path: bytes) -> bool:
        """Whether it can be removed: it is as the run left it, or Python wrote it."""
        return self._is_as_left(path) or is_bytecode(path)

    def _is_back(self, path: bytes, entry: Entry) -> bool:
        there = self.now.get(path)
        if there is None or there.kind != entry.kind:
            return False
        if entry.kind == "link":
            return there.target == entry.target
        if entry.kind != "file":
            return entry.kind == "folder" and there.mode == entry.mode
        same = (there.mode, there.size, there.mtime) == (entry.mode, entry.size, entry.mtime)
        return same and self.kept.holds(entry, *self.folders.of(path))

    def _restore(self, path: bytes, entry: Entry) -> None:
        self._make_folder(_parent(path))
        if path in self.now and not self._may_go(path):
            self._move_aside(path)
        folder, name = self.folders.of(path)
        with naming(path):
            if entry.kind == "link":
                self._restore_link(entry, folder, name)
            else:
                self.kept.restore(entry, folder, name)
        self.now[path] = entry
        self.outcome.restored += 1

    def _restore_link(self, entry: Entry, folder: int, name: bytes) -> None:
        with suppress(FileNotFoundError):
            os.unlink(BESIDE, dir_fd=folder)
        os.symlink(entry.target, BESIDE, dir_fd=folder)
        set_metadata_at(folder, BESIDE, entry)
        os.rename(BESIDE, name, src_dir_fd=folder, dst_dir_fd=folder)

    def _make_folder(self, path: bytes) -> None:
        """Make the folder itself, never what a link in its place leads to."""
        there = self.now.get(path)
        if there is not None and there.kind == "folder":
            return
        if path not in self.before:
            # Above everything that is recorded.
            self.folders.at(path, make=0o777)
            return
        self._make_folder(_parent(path))
        if there is not None:
            self._move_aside(path)
        folder, name = self.folders.of(path)
        with naming(path):
            os.mkdir(name, dir_fd=folder)
        self.folders.forget(path)
        self.now[path] = entry_at(self.folders, path)
        self.outcome.restored += 1

    def _remove_folder(self, path: bytes) -> None:
        folder, name = self.folders.of(path)
        os.rmdir(name, dir_fd=folder)
        self.folders.forget(path)

    def _unlink(self, path: bytes) -> None:
        folder, name = self.folders.of(path)
        with naming(path):
            os.unlink(name, dir_fd=folder)

    # --- aside ---

    def _place_aside(self, path: bytes) -> tuple[int, bytes]:
        """Where a path is moved aside to: under its whole path, in a folder of this account alone."""
        if self._aside_folders is None:
            aside = os.fsdecode(self.aside)
            root = open_owned(aside, os.path.dirname(aside), make=True, parents=False)
            self._aside_folders = self.opened.enter_context(OpenFolders(root))
        parent, _, name = path.rpartition(b"/")
        return self._aside_folders.at(parent, make=0o700), name

    def _lay_beside(self, path: bytes, entry: Entry) -> None:
        folder, name = self._place_aside(path + b".before")
        with naming(path):
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
            self.kept.copy_to(entry, folder, name)
        self.outcome.stays.append(os.fsdecode(path))
        self.outcome.earlier.append((os.fsdecode(path), os.fsdecode(self.aside + path + b".before")))

    def _move_aside(self, path: bytes) -> None:
        place, number = path, 0
        while _exists(*self._place_aside(place)):
            number += 1
            place = path + b".%d" % number
        (folder, name), (aside, new_name) = self.folders.of(path), self._place_aside(place)
        with naming(path):
            try:
                os.rename(name, new_name, src_dir_fd=folder, dst_dir_fd=aside)
            except OSError:
                # Another file system: it gets its own name only when it is complete.
                half = new_name + _AS_FOUND
                with suppress(FileNotFoundError):
                    os.unlink(half, dir_fd=aside)
                shutil.copy2(_path_in(folder, name), _path_in(aside, half), follow_symlinks=False)
                os.rename(half, new_name, src_dir_fd=aside, dst_dir_fd=aside)
                os.unlink(name, dir_fd=folder)
        self.folders.forget(path)
        self.outcome.aside.append((os.fsdecode(path), os.fsdecode(self.aside + place)))


def _exists(folder: int, name: bytes) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _path_in(folder: int, name: bytes) -> bytes:
    """A path into an open folder, for functions that take only paths."""
    return b"/proc/self/fd/%d/%s" % (folder, name)


def _parent(path: bytes) -> bytes:
    return path.rpartition(b"/")[0]
