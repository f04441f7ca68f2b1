"""The runs that the journal keeps: those that were cut off, the list of all, and giving one up."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from gpudoctor.cli.telling import asked_for, colored, print_json

if TYPE_CHECKING:
    from gpudoctor.diagnosis.arguments import Shown
    from gpudoctor.fix.journal import Run
    from gpudoctor.machine import Machine


def journal_home() -> str:
    """Where the journal is kept (design: $XDG_STATE_HOME, else ~/.local/state)."""
    state = os.environ.get("XDG_STATE_HOME", "")
    base = state if os.path.isabs(state) else os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(base, "gpudoctor")


def cut_off(machine: Machine) -> Run | None:
    """The run of this environment, or of the system, that was cut off."""
    from gpudoctor.fix.journal import unfinished

    environment = machine.environment.value
    prefix = environment.prefix if environment else ""
    home = journal_home()
    return (unfinished(home, prefix) if prefix else None) or unfinished(home, "")


def tell_cut_off(run: Run) -> None:
    """That a run was cut off, and what can be done about it."""
    from gpudoctor.render.journal import when

    what = "undo of a repair" if run.state == "undoing" else "repair"
    ways = "--undo goes on with it" if run.state == "undoing" else "--continue or --undo"
    click.echo(
        f"A {what} of this environment was cut off ({run.id}, {when(run.when)}): "
        f"`gpudoctor fix` {ways}, before anything else is changed.",
        err=True,
    )


def history(shown: Shown) -> int:
    """List all runs, newest last."""
    from gpudoctor.fix.journal import runs
    from gpudoctor.render.journal import history_data, print_history

    found = runs(journal_home())
    if shown.style == "json":
        print_json(history_data(found), shown)
    else:
        print_history(found, sys.stdout, color=colored(shown))
    return 0


def forget(name: str, shown: Shown, *, yes: bool, dry_run: bool, force: bool) -> int:
    """Give up what is kept of the run with this id, and the run's place in the list."""
    from gpudoctor.fix.journal import RepairError, runs
    from gpudoctor.fix.undo import forget as give_up
    from gpudoctor.host import InputError
    from gpudoctor.render.journal import forgotten_data, print_forgotten, print_kept

    run = next((run for run in runs(journal_home()) if run.id == name), None)
    if run is None:
        raise InputError(f"--forget {name}: no repair of this id is in the journal (`gpudoctor fix --history`)")
    if shown.style == "text" and not shown.quiet:
        print_kept(run, sys.stdout, color=colored(shown))
        sys.stdout.flush()
    if dry_run or not asked_for("Forget it?", "fix --forget RUN", shown, yes=yes):
        return 0
    try:
        freed = give_up(run, half_changed=force)
    except RepairError as error:
        click.echo(f"Nothing was forgotten: {error}", err=True)
        return 1
    if shown.style == "json":
        print_json(forgotten_data(run, freed), shown)
    else:
        print_forgotten(run, freed, sys.stdout, color=colored(shown))
    return 0
