"""The fixes in the journal, what an undo would do and what it did: for a person, and as JSON."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gpudoctor.plain_text import utc
from gpudoctor.records import view_as
from gpudoctor.render.lines import Line
from gpudoctor.render.steps import command_line

if TYPE_CHECKING:
    from gpudoctor.fix.run import Run
    from gpudoctor.fix.undo import Undone
    from gpudoctor.render.documents import History

_STATES = {
    "done": "done",
    "failed": "a step failed",
    "unchanged": "a step failed, nothing was changed",
    "cut off": "cut off: --continue or --undo",
    "undoing": "its undo was cut off: --undo goes on",
    "running": "running",
    "undone": "undone",
}


def when(seconds: float) -> str:
    """A time of this place, to the minute."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def history(runs: Iterable[Run]) -> History:
    """All runs, the newest last."""
    from gpudoctor.render.documents import History, PackageChange, PastRun

    return History(
        runs=tuple(
            view_as(
                PastRun,
                run,
                at=utc(run.when),
                findings=tuple(run.because),
                steps=tuple(tuple(step.argv) for step in run.steps),
                packages=tuple(PackageChange(*change) for change in changes(run)),
            )
            for run in runs
        )
    )


def changes(run: Run) -> list[tuple[str, str | None, str | None]]:
    """(name, version before, version after) of each package that a run changed; nothing while that is not known."""
    after = {package.name: package.version for package in run.packages_after}
    if not after:
        return []
    before = {package.name: package.version for package in run.packages_before}
    names = sorted(before.keys() | after.keys())
    return [(name, before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)]


def history_lines(runs: tuple[Run, ...]) -> Iterator[Line]:
    """A few lines each, the newest last."""
    if not runs:
        yield [("No fix is in the journal.", "")]
        return
    yield [(f"{len(runs)} fix{'es' * (len(runs) > 1)} in the journal", "bold"), (", the newest last", "")]
    for run in runs:
        yield []
        yield [(f"{when(run.when)}  ", "dim"), (_STATES[run.state], "bold"), (f"  {run.prefix or 'the system'}", "")]
        yield from _of_run(run)
    last = next((run for run in reversed(runs) if not run.is_over), None)
    if last is not None:
        where = ("--python", last.prefix) if last.prefix else ()
        yield []
        yield [("Undo the last: ", "bold"), (command_line(("gpudoctor", "fix", "--undo", *where)), "command")]


def _of_run(run: Run) -> Iterator[Line]:
    if found := run.because:
        yield [("    for   ", "dim"), (", ".join(found), "")]
    for step in run.steps:
        yield [("    ran   ", "dim"), (command_line(step.argv), "command")]
    for name, had, has in changes(run):
        yield [("    now   ", "dim"), (f"{name} {has or 'gone'}", ""), (f"  (was {had or 'not there'})", "dim")]
    kept = run.kept_bytes
    yield [("    id    ", "dim"), (run.id, "dim"), (f"  keeps {size(kept)} for --undo" if kept else "", "dim")]


def undo_plan_lines(run: Run) -> Iterator[Line]:
    """What an undo of a run does, before it is asked for."""
    where = f"of {run.prefix}" if run.prefix else "of the system"
    yield [("The last fix ", ""), (where, "bold"), (f", {when(run.when)}:", "")]
    yield from _of_run(run)
    changed = changes(run)
    back = ", ".join(f"{name} {had}" for name, had, _ in changed if had)
    gone = ", ".join(name for name, had, _ in changed if not had)
    yield []
    if run.prefix:
        yield [("Undo restores every file of the environment as it was before", ""), (".", "")]
    if back:
        yield [(f"  restores     {back}", "")]
    if gone:
        yield [(f"  removes      {gone}", "")]
    for step in reversed(run.steps):
        if step.risk == "root":
            for argv in step.undo:
                yield [("  runs         ", ""), (command_line(argv), "command")]
            if not step.undo:
                yield [(f"  cannot undo  {command_line(step.argv)}", "yellow")]


def size(count: int) -> str:
    """Bytes for a person."""
    return f"{count / (1 << 30):.1f} GiB" if count >= 1 << 30 else f"{-(-count >> 20)} MiB"


def _room(count: int) -> str:
    return f"{size(count)} on disk" if count else "no room: nothing is kept that the environment does not hold"


def kept_lines(run: Run) -> Iterator[Line]:
    """What forgetting a run means, before it is asked for."""
    yield [
        ("The fix of ", ""),
        (run.prefix or "the system", "bold"),
        (f", {when(run.when)}, {_STATES[run.state]}:", ""),
    ]
    yield from _of_run(run)
    yield [(f"Forgetting it frees {_room(run.kept_bytes)}. It cannot be undone or continued after that.", "")]


def forgotten_lines(run: Run, freed: int) -> Iterator[Line]:
    """What to print once a run was forgotten."""
    yield [("✓ forgotten  ", "bold green"), (f"{run.id}: frees {_room(freed)}.", "")]


def undone_lines(told: Undone) -> Iterator[Line]:
    """What an undo did, and what it left."""
    if told.ok:
        counts = f"{told.restored} files are as before, {told.removed} that the fix added are gone."
        yield [("✓ undone  ", "bold green"), (counts, "")]
    else:
        yield [("✗ not undone  ", "bold red"), (told.problem, "")]
    for path, place in told.aside:
        yield [(f"  changed since: {path} now lies in {place}", "yellow")]
    for path in told.stays:
        yield [(f"  changed since, and left as it is: {path}", "yellow")]
    for path, place in told.earlier:
        yield [(f"  as it was before: {path} lies in {place}", "")]
    for path in told.lost:
        yield [(f"  cannot be restored, a step wrote into it: {path}", "bold yellow")]
