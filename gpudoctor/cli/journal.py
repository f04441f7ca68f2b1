"""The fixes in the journal: those that were cut off, the list of all, and forgetting one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from gpudoctor.cli.output import asked_for, print_json, print_text
from gpudoctor.command_line.interrupted_fixes import journal_home
from gpudoctor.command_line.running import tell
from gpudoctor.host import InputError
from gpudoctor.machine import Machine

if TYPE_CHECKING:
    from gpudoctor.command_line.arguments import ReportOptions
    from gpudoctor.fix.run import Run


def readable_runs(places: tuple[str, ...] = ()) -> tuple[Run, ...]:
    """All runs that can be read, newest last. The user is told which ones cannot, and whether they may be fixes of
    `places`. InputError where the journal is not this account's.
    """
    from gpudoctor.fix.errors import RepairError
    from gpudoctor.fix.journal import read_all

    try:
        home = journal_home()
        found = read_all(home)
    except RepairError as error:
        raise InputError(str(error)) from None
    _tell_other_home(home)
    for bad in found.unreadable:
        of_here = bad.prefix is None or bad.prefix in places
        perhaps = " It may be a fix of this environment." if places and of_here else ""
        tell(f"Left out {bad.folder}: {bad.why.rstrip('.')}.{perhaps} Move that folder away to be rid of this line.")
    return found.runs


def unhelpful(machine: Machine) -> dict[str, frozenset[tuple[str, ...]]]:
    """The commands that a fix ran without success, by the id of the problem. They count only while the packages of
    the environment are those that the fix left."""
    from gpudoctor.fix.errors import RepairError
    from gpudoctor.fix.journal import runs as readable

    prefix = machine.examined.prefix
    if not prefix:
        return {}
    try:
        runs = readable(journal_home())
    except RepairError:
        return {}
    there = {(one.name, one.version) for one in machine.packages}
    found: dict[str, frozenset[tuple[str, ...]]] = {}
    for run in runs:
        of_here = run.state == "done" and run.prefix == os.path.realpath(prefix)
        if of_here and there == {(one.name, one.version) for one in run.packages_after}:
            for id, commands in run.unhelpful.items():
                found[id] = found.get(id, frozenset()) | commands
    return found


def _tell_other_home(journal: str) -> None:
    """Under sudo the journal is root's, though HOME is still that of a person."""
    from gpudoctor.fix.account import account_home, me

    home, named = account_home(), os.environ.get("HOME", "")
    if os.path.isabs(named) and home != named and journal.startswith(f"{home}/"):
        tell(f"HOME ({named}) is not the home of {me()}: the journal is in {journal}.")


def unfinished_run(machine: Machine, *, needed: bool) -> Run | None:
    """The run of this environment, or of the system, that was cut off. Where it is not `needed`, a journal that
    belongs to another account is only reported: a plan can be shown without it."""
    from gpudoctor.fix.journal import first_unfinished

    prefix = machine.examined.prefix
    places = (os.path.realpath(prefix), "") if prefix else ("",)
    try:
        found = readable_runs(places)
    except InputError as error:
        if needed:
            raise
        tell(str(error))
        return None
    return next(filter(None, (first_unfinished(found, place) for place in places)), None)


def history(shown: ReportOptions) -> int:
    """List all runs, newest last."""
    from gpudoctor.render import journal

    found = readable_runs()
    if shown.style == "json":
        print_json(journal.history(found), shown)
    else:
        print_text(journal.history_lines(found), shown)
    return 0


def forget(name: str, shown: ReportOptions, *, yes: bool, dry_run: bool, force: bool) -> int:
    """Delete what is kept to undo the run with this id, and the run's place in the list."""
    from gpudoctor.fix.errors import RepairError, reason
    from gpudoctor.fix.undo import forget as forget_run
    from gpudoctor.render.documents import Forgotten
    from gpudoctor.render.journal import forgotten_lines, kept_lines

    run = next((run for run in readable_runs() if run.id == name), None)
    if run is None:
        raise InputError(f"--forget {name}: the journal has no fix of this id (`gpudoctor fix --history`)")
    if shown.style == "text" and not shown.quiet:
        print_text(kept_lines(run), shown)
    if dry_run or not asked_for("Forget it?", ("gpudoctor", "fix", "--forget", name), shown, yes=yes):
        return 0
    try:
        freed = forget_run(run, half_changed=force)
    except (RepairError, OSError) as error:
        tell(f"Nothing was forgotten: {reason(error)}")
        return 1
    if shown.style == "json":
        print_json(Forgotten(run=run.id, freed_bytes=freed), shown)
    else:
        print_text(forgotten_lines(run, freed), shown)
    return 0
