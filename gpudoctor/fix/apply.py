"""Running the steps of a repair: recorded first, journalled ahead, stopped at the first that fails."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.fix import recording
from gpudoctor.fix.errors import RepairError
from gpudoctor.fix.installed import behind_links, packages
from gpudoctor.fix.journal import begin, locked, new_folder, note, read, unfinished
from gpudoctor.fix.kept_files import choose_folder, discard, kept_files, own_folders
from gpudoctor.fix.owned_folder import belongs_to_another
from gpudoctor.fix.processes import Process, process
from gpudoctor.fix.put_back import put_back
from gpudoctor.fix.recorded_tree import Tree, scan
from gpudoctor.fix.run import Begun, Run
from gpudoctor.fix.scope import Target, check_owner, check_recorded, recorded_scope, scope_of, venv_made
from gpudoctor.fix.step_process import end_session, program_missing, run_step
from gpudoctor.host.interrupts import Interrupted, interruptible
from gpudoctor.privacy import without_secrets
from gpudoctor.step import RunStep

__all__ = [
    "Applied",
    "Event",
    "Line",
    "RepairError",
    "Saving",
    "StepEnded",
    "StepStarts",
    "Target",
    "apply",
    "resume",
]


class Saving(Struct, frozen=True):
    """Files kept so far, of how many."""

    done: int
    of: int


class StepStarts(Struct, frozen=True):
    number: int
    """From 0."""
    of: int
    argv: tuple[str, ...]
    """Without passwords."""
    why: str


class Line(Struct, frozen=True):
    """A line that a step prints, without passwords and control characters."""

    text: str


class StepEnded(Struct, frozen=True):
    number: int
    rc: int
    seconds: float


Event = Saving | StepStarts | Line | StepEnded
Say = Callable[[Event], None]


class Applied(Struct, frozen=True):
    """How a run went."""

    ok: bool
    run: Run | None
    """None where nothing was changed and nothing was kept."""
    failed: int | None = None
    """Number of the step that failed, or was being run when the run was interrupted; from 0."""
    rc: int | None = None
    last_lines: tuple[str, ...] = ()
    interrupted: int = 0
    """The signal that interrupted it."""
    problem: str = ""


def apply(steps: Sequence[RunStep], target: Target, journal_home: str, *, plan: Any, say: Say) -> Applied:
    """Run `steps` in order, so that all of it can be taken back.

    `plan` is kept in the journal as it is: anything that JSON can hold. RepairError where it cannot begin;
    nothing was changed then.
    """
    settled = tuple(replace(step, cwd=_folder_of(step)) for step in steps)
    scope = scope_of(target, settled)
    _look_for_programs(settled)
    prefix = os.path.realpath(target.prefix) if target.prefix else ""
    if prefix and not os.access(prefix, os.W_OK):
        raise RepairError(f"{prefix} cannot be written by this user, so nothing in it can be repaired.")
    check_owner(prefix, scope)
    with locked(journal_home, prefix):
        if earlier := unfinished(journal_home, prefix):
            raise RepairError(
                f"The repair {earlier.id} of this environment was cut off: continue it or take it back first."
            )
        without = (*scope.without, *own_folders(prefix))
        tree = _scanned(scope.everything, without)
        if linked := behind_links(tree, scope.everything):
            raise RepairError(
                f"{linked[0]} is a link to a folder outside of the environment: what a step changes there could not "
                "be taken back. Nothing was changed: put the folder itself in the place of the link."
            )
        folder = new_folder(journal_home)
        kept = choose_folder(folder, prefix, tree)
        begun = Begun(
            id=os.path.basename(folder),
            at=time.time(),
            prefix=prefix,
            steps=settled,
            roots=_texts(scope.roots),
            files=_texts(scope.files),
            made=_texts(scope.made),
            without=_texts(without),
            kept=kept,
            owner=process(os.getpid()),
            packages=packages(tree),
            plan=plan,
        )
        try:
            run = begin(folder, begun)
        except RepairError:
            discard(kept)
            discard(folder)
            raise
        return _save_and_run(run, tree, say)


def resume(run: Run, *, say: Say) -> Applied:
    """Continue a run that was cut off: what it changed is put back, then its steps begin anew.

    Steps in the middle of a change cannot be trusted to go on from there; from the recorded state they can.
    System steps that had ended well are not run again.
    """
    with locked(run.home, run.prefix):
        run = _cut_off(run)
        check_recorded(run)
        end_strays(run)
        if not run.is_saved:
            scope = recorded_scope(run)
            return _save_and_run(run, _scanned(scope.everything, scope.without), say)
        run, later = recording.after(run)
        if _all_steps_ended(run):
            return _close(run, None)
        earlier = recording.before(run)
        if gone := recording.missing(run, earlier, later):
            raise RepairError(f"Kept files are gone from {run.kept} ({len(gone)}): this run cannot be continued.")
        with kept_files(run.kept, earlier) as kept:
            put_back(recorded_scope(run), earlier, later, kept, aside_of(run))
        ended = _system_steps_done(run)
        run = note(run, "again", process=process(os.getpid()))
        recording.forget_after(run)
        for number in sorted(ended):
            run = note(run, "ended", step=number, rc=0)
        return _run_steps(run, say)


def aside_of(run: Run) -> str:
    """Where is put what somebody changed since: beside the kept files, whose file system is the environment's if
    that can be, and where it outlives them."""
    folder = os.path.dirname(run.kept)
    return f"{run.home if folder == run.folder else folder}/changed-since-{run.id}"


def end_strays(run: Run) -> None:
    """Make sure that no step of a killed gpudoctor goes on."""
    for mark in run.marks:
        if mark.mark == "process" and mark.process:
            end_session(mark.process)


# --- the steps -------------------------------------------------------------------------------------


def _save_and_run(run: Run, tree: Tree, say: Say) -> Applied:
    with interruptible():
        try:
            run = recording.save(run, tree, lambda done, of: say(Saving(done=done, of=of)))
        except Interrupted as by:
            drop(run)
            return Applied(ok=False, run=None, interrupted=by.number, problem="Interrupted: nothing was changed.")
        except BaseException:
            drop(run)
            raise
    return _run_steps(run, say)


def drop(run: Run) -> None:
    """Forget a run with all that was kept for it."""
    discard(run.kept)
    discard(run.folder)


def _run_steps(run: Run, say: Say) -> Applied:
    done = {mark.step for mark in run.since_begin if mark.mark == "ended" and mark.rc == 0}
    for number, step in enumerate(run.steps):
        if number in done:
            continue
        with interruptible():
            try:
                run = note(run, "started", step=number)
                run, rc, last = _run_one(run, number, step, say)
            except Interrupted as by:
                return _interrupted(run, number, by.number)
            except RepairError as error:
                return _finish(run, Applied(ok=False, run=run, failed=number, problem=str(error)))
            except BaseException:
                _interrupted(run, number)
                raise
        if rc != 0:
            return _finish(run, Applied(ok=False, run=run, failed=number, rc=rc, last_lines=last))
    return _finish(run, None)


def _run_one(run: Run, number: int, step: RunStep, say: Say) -> tuple[Run, int, tuple[str, ...]]:
    shown = tuple(without_secrets(part) for part in step.argv)
    say(StepStarts(number=number, of=len(run.steps), argv=shown, why=step.why))
    begun = time.monotonic()

    def started(known: Process) -> None:
        note(run, "process", step=number, process=known)

    result = run_step(
        step.argv,
        env=step.env,
        cwd=step.cwd,
        folder=run.folder,
        started=started,
        line=lambda text: say(Line(text=text)),
        keep_children=step.risk == "root",
    )
    run = note(_again(run), "ended", step=number, rc=result.rc)
    say(StepEnded(number=number, rc=result.rc, seconds=time.monotonic() - begun))
    return run, result.rc, result.last_lines


def _finish(run: Run, failure: Applied | None) -> Applied:
    """Record the environment as it is now, and let go of what did not change."""
    return _close(recording.record_after(_again(run)), failure)


def _close(run: Run, failure: Applied | None) -> Applied:
    changed = recording.keep_only_changed(run) or _touched_the_system(run)
    if failure is None:
        return Applied(ok=True, run=note(run, "done"))
    run = note(run, "failed", step=failure.failed if failure.failed is not None else -1)
    if not changed:
        discard(run.kept)
        run = note(run, "unchanged")
    return replace(failure, run=run)


def _interrupted(run: Run, number: int, by: int = 0) -> Applied:
    """The step has ended. All that was kept stays, since the run may be continued."""
    run = recording.record_after(_again(run))
    run = note(run, "interrupted", step=number)
    return Applied(
        ok=False,
        run=replace(run, state="cut off"),
        failed=number,
        interrupted=by,
        problem="Interrupted: it can be continued or taken back.",
    )


def _touched_the_system(run: Run) -> bool:
    """Whether a step for root began: what it did is not recorded."""
    return any(mark.mark == "started" and run.steps[mark.step].risk == "root" for mark in run.marks)


def _system_steps_done(run: Run) -> set[int]:
    ended = {mark.step for mark in run.marks if mark.mark == "ended" and mark.rc == 0}
    return {number for number in ended if run.steps[number].risk == "root"}


def _all_steps_ended(run: Run) -> bool:
    ended = {mark.step for mark in run.since_begin if mark.mark == "ended" and mark.rc == 0}
    return ended == set(range(len(run.steps)))


# --- before anything -------------------------------------------------------------------------------


def _folder_of(step: RunStep) -> str:
    """Where a step runs. Python imports from there, so root does not stay in another account's folder; a new venv is
    made nowhere else."""
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


def _scanned(roots: Sequence[bytes], without: Sequence[bytes]) -> Tree:
    try:
        return scan(roots, without)
    except OSError as error:
        path = os.fsdecode(error.filename or b"")
        raise RepairError(
            f"{path} cannot be read ({error.strerror}), so it could not be taken back: nothing was changed."
        ) from error


def _texts(paths: Sequence[bytes]) -> tuple[str, ...]:
    return tuple(os.fsdecode(path) for path in paths)


def _cut_off(run: Run) -> Run:
    """The run as its journal says now, under the lock."""
    run = _again(run)
    if run.state == "running":
        raise RepairError(f"The repair {run.id} is still being run.")
    if run.state != "cut off":
        raise RepairError(f"The repair {run.id} was not cut off: it is {run.state}.")
    return run


def _again(run: Run) -> Run:
    found = read(run.folder)
    if found is None:
        raise RepairError(f"The journal of {run.id} is gone from {run.folder}.")
    return found
