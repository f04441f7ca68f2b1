"""Records an environment twice: before the first step, with its files kept, and as the run left it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress

from msgspec.structs import replace

from gpudoctor.fix.errors import RepairError, path_of
from gpudoctor.fix.journal import note, open_run, write_whole
from gpudoctor.fix.kept_files import NoRoomError, kept_files
from gpudoctor.fix.owned_folder import read_own_file
from gpudoctor.fix.recorded_packages import packages
from gpudoctor.fix.recorded_tree import Tree, decoded, encoded, is_bytecode, same_file, scan, untouched
from gpudoctor.fix.run import Run
from gpudoctor.fix.scope import recorded_scope

TREE_LIMIT = 256 << 20
"""Size limit of a recorded tree in bytes; an environment of a million files has some 200 million."""

_BEFORE, _AFTER = "before", "after"

_SINCE = 3_000_000_000
"""Nanoseconds after the last sign of life; the run did not make later changes, because its steps end with it."""


def save(run: Run, tree: Tree, progress: Callable[[int, int], None]) -> Run:
    """Keep the files of `tree`, then record it. RepairError where this fails; nothing was changed then."""
    try:
        with kept_files(run.kept_folder, tree) as kept:
            tree = kept.keep(progress)
        write_whole(run.folder, _BEFORE, encoded(tree))
    except NoRoomError as error:
        raise RepairError(
            f"Keeping the present files needs {_size(error.needs)} in {error.folder}, which has {_size(error.has)} "
            "free. Nothing was changed: make room, then try again."
        ) from error
    except OSError as error:
        raise RepairError(
            f"{path_of(error)} cannot be kept ({error.strerror}), so it could not be restored: nothing was changed."
        ) from error
    return note(run, "saved")


def tree_before(run: Run) -> Tree:
    """The tree before the run."""
    return _read(run, _BEFORE)


def record_after(run: Run) -> Run:
    """Record the environment as the run leaves it."""
    scope = recorded_scope(run)
    tree = scan(scope.everything, scope.without)
    write_whole(run.folder, _AFTER, encoded(tree))
    return note(run, "recorded", packages=packages(tree))


def tree_after(run: Run) -> tuple[Run, Tree]:
    """The tree as the run left it. For a run that was cut off, times of change decide, and the result is recorded. A
    change long after the last sign of life counts as somebody else's."""
    if run.has("recorded"):
        return run, _read(run, _AFTER)
    scope = recorded_scope(run)
    earlier, tree = tree_before(run), scan(scope.everything, scope.without)
    last = _last_sign_of_life(run)
    for path, entry in list(tree.items()):
        had = earlier.get(path)
        if entry.kind == "folder" or entry.ctime <= last + _SINCE or same_file(entry, had):
            continue
        if had is None:
            del tree[path]
        else:
            tree[path] = replace(entry, inode=0)
    write_whole(run.folder, _AFTER, encoded(tree))
    return note(run, "recorded", packages=packages(tree)), tree


def forget_after(run: Run) -> None:
    """Remove the record of how the run left the environment, before the steps begin again."""
    with open_run(run.folder) as folder, suppress(FileNotFoundError):
        os.unlink(_AFTER, dir_fd=folder)


def keep_only_changed(run: Run) -> bool:
    """Delete the kept files that the run did not change. Returns whether it changed anything."""
    earlier = tree_before(run)
    later = _read(run, _AFTER)
    unchanged = {path for path in earlier.keys() | later.keys() if untouched(earlier.get(path), later.get(path))}
    with kept_files(run.kept_folder, earlier) as kept:
        kept.drop(path for path, entry in earlier.items() if path in unchanged and entry.kind == "file")
    return any(not is_bytecode(path) for path in (earlier.keys() | later.keys()) - unchanged)


def missing(run: Run, earlier: Tree, later: Tree) -> list[bytes]:
    """Files that the run changed and whose kept content is gone."""
    changed = [
        path for path, entry in earlier.items() if entry.kind == "file" and not untouched(entry, later.get(path))
    ]
    with kept_files(run.kept_folder, earlier) as kept:
        return [path for path in changed if not kept.has(path)]


def _last_sign_of_life(run: Run) -> int:
    signs = [int(mark.at * 1e9) for mark in run.since_begin] or [int(run.when * 1e9)]
    with suppress(OSError), open_run(run.folder) as folder:
        signs.append(os.stat("alive", dir_fd=folder, follow_symlinks=False).st_mtime_ns)
    return max(signs)


def _read(run: Run, name: str) -> Tree:
    scope = recorded_scope(run)
    try:
        with open_run(run.folder) as folder:
            return decoded(read_own_file(folder, name, TREE_LIMIT), frozenset(scope.everything))
    except (OSError, ValueError, RepairError) as error:
        raise RepairError(
            f"{run.folder}/{name} cannot be read ({error}): this fix can be neither continued nor undone."
        ) from error


def _size(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB" if count >= 1 << 30 else f"{max(1, count >> 20)} MiB"
