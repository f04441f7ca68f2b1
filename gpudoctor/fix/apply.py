"""Applies the steps of a fix: records first, journals each step ahead, stops at the first step that fails."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.fix import recording
from gpudoctor.fix.account import belongs_to_another
from gpudoctor.fix.errors import RepairError
from gpudoctor.fix.journal import begin, locked, new_folder, note, read, unfinished
from gpudoctor.fix.kept_files import choose_folder, discard, kept_files, own_folders
from gpudoctor.fix.processes import Process, end_session, process
from gpudoctor.fix.recorded_packages import behind_links, packages
from gpudoctor.fix.recorded_tree import Tree, scan
from gpudoctor.fix.restore import put_back
from gpudoctor.fix.run import Begun, Mark, Run
from gpudoctor.fix.scope import Target, check_owner, check_recorded, recorded_scope, scope_of, venv_made
from gpudoctor.fix.step_process import StepResult, program_missing, run_step
from gpudoctor.host.interrupts import Interrupted, interruptible
from gpudoctor.privacy import without_secrets
from gpudoctor.step import RunStep


class Saving(Struct, frozen=True):
    """How many files are kept so far, and of how many."""

    done: int
    of: int


class StepStarts(Struct, frozen=True):
    number: int
    """The number of the step, from 0."""
    of: int
    argv: tuple[str, ...]
    """Without passwords."""


class Line(Struct, frozen=True):
    """A line that a step prints, without passwords and control characters."""

    text: str


Event = Saving | StepStarts | Line
Say = Callable[[Event], None]


class ApplyResult(Struct, frozen=True):
    """How a run ended."""

    ok: bool
    run: Run | None
    """None where nothing was changed and nothing was kept."""
    failed: int | None = None
    """Number, from 0, of the step that failed or was running when the run was interrupted."""
    rc: int | None = None
    last_lines: tuple[str, ...] = ()
    interrupted: int = 0
    """The signal that interrupted it."""
    problem: str = ""


def apply(steps: Sequence[RunStep], target: Target, journal_home: str, *, plan: Any, say: Say) -> ApplyResult:
    """Run `steps` in order, so that all of them can be undone. The journal keeps `plan` as it is: anything that JSON
    can hold. Raises RepairError when the run cannot begin; nothing was changed then."""
    placed_steps = tuple(replace(step, cwd=_folder_of(step)) for step in steps)
    scope = scope_of(target, placed_steps)
    _look_for_programs(placed_steps)
    prefix = os.path.realpath(target.prefix) if target.prefix else ""
    if prefix and not os.access(prefix, os.W_OK):
        raise RepairError(f"{prefix} is not writable for this user, so nothing in it can be fixed.")
    check_owner(prefix, scope)
    with locked(journal_home, prefix):
        if earlier := unfinished(journal_home, prefix):
            raise RepairError(f"Fix {earlier.id} of this environment was cut off: continue it or undo it first.")
        without = (*scope.without, *own_folders(prefix))
        tree = _scan(scope.everything, without)
        if linked := behind_links(tree, scope.everything):
            raise RepairError(
                f"{linked[0]} is a link to a folder outside of the environment. Changes behind it could not be "
                "undone, so nothing was changed: replace the link by the folder itself."
            )
        folder = new_folder(journal_home)
        kept_folder = choose_folder(folder, prefix, tree)
        begun = Begun(
            id=os.path.basename(folder),
            at=time.time(),
            prefix=prefix,
            steps=placed_steps,
            roots=_as_texts(scope.roots),
            files=_as_texts(scope.files),
            made=_as_texts(scope.made),
            without=_as_texts(without),
            kept=kept_folder,
            owner=process(os.getpid()),
            packages=packages(tree),
            plan=plan,
        )
        try:
            run = begin(folder, begun)
        except RepairError:
            discard(kept_folder)
            discard(folder)
            raise
        return _save_and_run(run, tree, say)


def resume(run: Run, *, say: Say) -> ApplyResult:
    """Continue a run that was cut off: put back what it changed, then begin its steps again.

    A step that was cut off halfway cannot be trusted to go on from there; from the recorded state it can.
    System steps that ended well are not run again.
    """
    with locked(run.home, run.prefix):
        run = _check_cut_off(run)
        check_recorded(run)
        end_strays(run)
        if not run.is_saved:
            scope = recorded_scope(run)
            return _save_and_run(run, _scan(scope.everything, scope.without), say)
        run, later = recording.tree_after(run)
        if _successful_steps(run.since_begin) == set(range(len(run.steps))):
            return _close(run, None)
        earlier = recording.tree_before(run)
        if gone := recording.missing(run, earlier, later):
            raise RepairError(
                f"{len(gone)} kept files are gone from {run.kept_folder}: this fix cannot be continued."
            )
        with kept_files(run.kept_folder, earlier) as kept:
            put_back(recorded_scope(run), earlier, later, kept, aside_of(run))
        ended = {number for number in _successful_steps(run.marks) if run.steps[number].risk == "root"}
        run = note(run, "again", process=process(os.getpid()))
        recording.forget_after(run)
        for number in sorted(ended):
            run = note(run, "ended", step=number, rc=0)
        return _run_steps(run, say)


def aside_of(run: Run) -> str:
    """The folder for files that somebody changed since the run. It lies beside the kept files: mostly on the
    environment's file system, and it outlives them."""
    folder = os.path.dirname(run.kept_folder)
    return f"{run.home if folder == run.folder else folder}/changed-since-{run.id}"


def end_strays(run: Run) -> None:
    """End the steps of a killed gpudoctor that still run."""
    for mark in run.marks:
        if mark.mark == "process" and mark.process:
            end_session(mark.process)


# --- the steps -------------------------------------------------------------------------------------


def _save_and_run(run: Run, tree: Tree, say: Say) -> ApplyResult:
    with interruptible():
        try:
            run = recording.save(run, tree, lambda done, of: say(Saving(done=done, of=of)))
        except Interrupted as by:
            drop(run)
            return ApplyResult(ok=False, run=None, interrupted=by.number, problem="Interrupted: nothing was changed.")
        except BaseException:
            drop(run)
            raise
    return _run_steps(run, say)


def drop(run: Run) -> None:
    """Delete a run and all that was kept for it."""
    discard(run.kept_folder)
    discard(run.folder)


def _run_steps(run: Run, say: Say) -> ApplyResult:
    done = _successful_steps(run.since_begin)
    for number, step in enumerate(run.steps):
        if number in done:
            continue
        with interruptible():
            try:
                run = note(run, "started", step=number)
                result = run_recorded(run, number, step.argv, say, keep_children=step.risk == "root")
                run = note(reread(run), "ended", step=number, rc=result.rc)
            except Interrupted as by:
                return _record_interruption(run, number, by.number)
            except RepairError as error:
                return _finish(run, ApplyResult(ok=False, run=run, failed=number, problem=str(error)))
            except BaseException:
                _record_interruption(run, number)
                raise
        if result.rc != 0:
            failure = ApplyResult(ok=False, run=run, failed=number, rc=result.rc, last_lines=result.last_lines)
            return _finish(run, failure)
    return _finish(run, None)


def run_recorded(run: Run, number: int, argv: Sequence[str], say: Say, *, keep_children: bool) -> StepResult:
    """Run a command of a step, whose process the journal knows before it begins."""
    say(StepStarts(number=number, of=len(run.steps), argv=tuple(map(without_secrets, argv))))

    def started(known: Process) -> None:
        note(run, "process", step=number, process=known)

    step = run.steps[number]
    return run_step(
        argv,
        env=step.env,
        cwd=step.cwd,
        folder=run.folder,
        started=started,
        line=lambda text: say(Line(text=text)),
        keep_children=keep_children,
    )


def _finish(run: Run, failure: ApplyResult | None) -> ApplyResult:
    """Record the environment as it is now, and drop kept files that did not change."""
    return _close(recording.record_after(reread(run)), failure)


def _close(run: Run, failure: ApplyResult | None) -> ApplyResult:
    changed = recording.keep_only_changed(run) or _touched_the_system(run)
    if failure is None:
        return ApplyResult(ok=True, run=note(run, "done"))
    run = note(run, "failed", step=failure.failed if failure.failed is not None else -1)
    if not changed:
        discard(run.kept_folder)
        run = note(run, "unchanged")
    return replace(failure, run=run)


def _record_interruption(run: Run, number: int, by: int = 0) -> ApplyResult:
    """The step has ended. Everything kept stays, since the run may be continued."""
    run = recording.record_after(reread(run))
    run = note(run, "interrupted", step=number)
    return ApplyResult(
        ok=False,
        run=replace(run, state="cut off"),
        failed=number,
        interrupted=by,
        problem="Interrupted: the fix can be continued or undone.",
    )


def _touched_the_system(run: Run) -> bool:
    """Whether a step for root began: what it did is not recorded."""
    return any(mark.mark == "started" and run.steps[mark.step].risk == "root" for mark in run.marks)


def _successful_steps(marks: Iterable[Mark]) -> set[int]:
    """The numbers of the steps that ended well."""
    return {mark.step for mark in marks if mark.mark == "ended" and mark.rc == 0}


# --- before the run --------------------------------------------------------------------------------


def _folder_of(step: RunStep) -> str:
    """The folder in which a step runs. Python imports from it, so root does not stay in another account's folder. A
    new venv is made only there."""
    here = os.path.abspath(step.cwd or os.curdir)
    elsewhere = os.geteuid() == 0 and not step.cwd and belongs_to_another(here) and not venv_made(step)
    return "/" if elsewhere else here


def _look_for_programs(steps: Sequence[RunStep]) -> None:
    made: list[str] = []
    for step in steps:
        program = os.path.join(step.cwd or "", step.argv[0])
        expected = "/" in step.argv[0] and any(os.path.abspath(program).startswith(f"{venv}/") for venv in made)
        if not expected and (problem := program_missing(step.argv, step.env, step.cwd)):
            raise RepairError(f"{problem}: nothing was changed.")
        if folder := venv_made(step):
            made.append(folder)


def _scan(roots: Sequence[bytes], without: Sequence[bytes]) -> Tree:
    try:
        return scan(roots, without)
    except OSError as error:
        path = os.fsdecode(error.filename or b"")
        raise RepairError(
            f"{path} cannot be read ({error.strerror}), so it could not be restored: nothing was changed."
        ) from error


def _as_texts(paths: Sequence[bytes]) -> tuple[str, ...]:
    return tuple(os.fsdecode(path) for path in paths)


def _check_cut_off(run: Run) -> Run:
    run = not_running(run)
    if run.state != "cut off":
        raise RepairError(f"Fix {run.id} was not cut off: it is {run.state}.")
    return run


def not_running(run: Run) -> Run:
    """The run as its journal says now, read under the lock. RepairError while it is running."""
    run = reread(run)
    if run.state == "running":
        raise RepairError(f"Fix {run.id} is still running.")
    return run


def reread(run: Run) -> Run:
    """The run as its journal says now."""
    found = read(run.folder)
    if found is None:
        raise RepairError(f"The journal of fix {run.id} is gone from {run.folder}.")
    return found
