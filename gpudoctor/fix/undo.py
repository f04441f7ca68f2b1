"""Undoes a run: restores the files, then runs the undo commands of its system steps."""

from __future__ import annotations

import os
from collections.abc import Callable

from gpudoctor.fix import recording
from gpudoctor.fix.apply import Event, aside_of, drop, end_strays, not_running, run_recorded
from gpudoctor.fix.errors import RepairError
from gpudoctor.fix.journal import locked, note, runs
from gpudoctor.fix.kept_files import discard, kept_files
from gpudoctor.fix.processes import process
from gpudoctor.fix.recorded_packages import name_of, records
from gpudoctor.fix.recorded_tree import Tree, scan
from gpudoctor.fix.restore import PutBack, put_back
from gpudoctor.fix.run import Run
from gpudoctor.fix.scope import check_recorded, recorded_scope
from gpudoctor.host.interrupts import Interrupted, interruptible
from gpudoctor.privacy import without_secrets
from gpudoctor.records import view_as


class Undone(PutBack):
    """The result of an undo."""

    ok: bool = True
    interrupted: int = 0
    """The signal that interrupted it."""
    problem: str = ""


def undo(run: Run, *, say: Callable[[Event], None]) -> Undone:
    """Undo a run, also one that failed or was cut off, or whose undo was cut off. A second undo does nothing. Raises
    RepairError where it cannot begin; nothing was changed then."""
    with locked(run.home, run.prefix):
        run = _check_undoable(run)
        if run.is_over:
            return Undone()
        check_recorded(run)
        end_strays(run)
        if not run.is_saved:
            discard(run.kept_folder)
            note(run, "undone")
            return Undone()
        result = PutBack()
        try:
            with interruptible():
                if not run.has("restored"):
                    run, result = _put_back(run)
                run, problem = _revert_system_steps(run, say)
        except Interrupted as by:
            return view_as(
                Undone, result, ok=False, interrupted=by.number, problem="Interrupted: undo it again to go on."
            )
        except OSError as error:
            path = os.fsdecode(error.filename or b"")
            return view_as(Undone, result, ok=False, problem=f"{path}: {error.strerror}. Undo it again to go on.")
        if problem:
            return view_as(Undone, result, ok=False, problem=problem)
        discard(run.kept_folder)
        note(run, "undone")
        return view_as(Undone, result)


def forget(run: Run, *, half_changed: bool = False) -> int:
    """Delete the kept files of a run, which can then be neither continued nor undone. Returns the bytes freed.
    RepairError for a run that was cut off in an environment that still exists, unless it may stay `half_changed`."""
    with locked(run.home, run.prefix):
        run = not_running(run)
        cut_off = run.state in ("cut off", "undoing") and run.is_saved
        if cut_off and not half_changed and (not run.prefix or os.path.isdir(run.prefix)):
            place = run.prefix or "this system"
            raise RepairError(
                f"Fix {run.id} was cut off, and only its kept files can restore {place}: "
                "run `gpudoctor fix --continue` or `--undo` first; --force leaves it half changed."
            )
        freed = run.kept_bytes
        drop(run)
        return freed


def _check_undoable(run: Run) -> Run:
    """The run as its journal says now. RepairError where it cannot be undone."""
    found = not_running(run)
    if not found.is_over:
        later = [other for other in runs(run.home) if other.when > run.when and other.prefix == run.prefix]
        if blocking := [other.id for other in later if not other.is_over]:
            raise RepairError(f"Undo later fixes of this environment first: {', '.join(blocking)}.")
    return found


def _put_back(run: Run) -> tuple[Run, PutBack]:
    scope = recorded_scope(run)
    if run.has("recorded") and run.prefix and not os.path.isdir(run.prefix):
        raise RepairError(
            f"{run.prefix} is gone: there is nothing to undo. "
            f"`gpudoctor fix --forget {run.id}` deletes its kept files."
        )
    earlier = recording.tree_before(run)
    run, later = recording.tree_after(run)
    if gone := recording.missing(run, earlier, later):
        raise RepairError(f"{len(gone)} kept files are gone from {run.kept_folder}: this fix cannot be undone.")
    if again := _later_changes(earlier, later, scan(scope.everything, scope.without)):
        raise RepairError(
            f"Installed again since the fix: {', '.join(again)}. An undo would mix two installations: uninstall "
            "these first."
        )
    run = note(run, "undoing", process=process(os.getpid()))
    with kept_files(run.kept_folder, earlier) as kept:
        result = put_back(scope, earlier, later, kept, aside_of(run))
    return note(run, "restored"), result


def _later_changes(earlier: Tree, later: Tree, now: Tree) -> list[str]:
    """Packages that the run changed and that somebody changed again since."""
    had, left, have = set(records(earlier)), set(records(later)), set(records(now))
    by_run = {name_of(record) for record in had ^ left}
    return sorted({name_of(record) for record in have - had - left} & by_run)


def _revert_system_steps(run: Run, say: Callable[[Event], None]) -> tuple[Run, str]:
    """Run the undo commands of system steps that had begun, last step first. Returns what went wrong."""
    begun = {mark.step for mark in run.marks if mark.mark == "started"}
    reverted = {mark.step for mark in run.marks if mark.mark == "reverted"}
    for number in sorted(begun - reverted, reverse=True):
        step = run.steps[number]
        if step.risk != "root":
            continue
        for argv in step.undo:
            rc = run_recorded(run, number, argv, say, keep_children=True).rc
            if rc != 0:
                command = without_secrets(" ".join(argv))
                return run, f"The files are as before, but this failed ({rc}): {command}"
        run = note(run, "reverted", step=number)
    return run, ""
