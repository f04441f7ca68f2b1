"""What the journal knows: runs that were cut off, the list of all, and the undo of the last."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from gpudoctor.cli.examination import Sources
    from gpudoctor.cli.options import Shown
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


def tell(run: Run) -> None:
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
    from gpudoctor.cli.repairing import colored, print_json
    from gpudoctor.fix.journal import runs
    from gpudoctor.render.journal import history_data, print_history

    found = runs(journal_home())
    if shown.style == "json":
        print_json(history_data(found), shown)
    else:
        print_history(found, sys.stdout, color=colored(shown))
    return 0


def undo_last(sources: Sources, shown: Shown, *, yes: bool, dry_run: bool) -> int:
    """Take back the last run of the examined environment that is not taken back yet."""
    from gpudoctor.cli.repairing import colored, print_json, teller
    from gpudoctor.fix.apply import RepairError
    from gpudoctor.fix.undo import Undone, undo
    from gpudoctor.render.journal import print_undo_plan, print_undone, undone_data

    run = _last(_prefix(sources))
    if run is None:
        click.echo("Nothing is to be taken back: no repair of this environment is in the journal.", err=True)
        return 0
    if shown.style == "text" and not shown.quiet:
        print_undo_plan(run, sys.stdout, color=colored(shown))
        sys.stdout.flush()
    if dry_run:
        return 0
    if not yes:
        if shown.style != "text" or not (sys.stdin.isatty() and sys.stdout.isatty()):
            click.echo("Nothing was changed: there is nobody to ask. `gpudoctor fix --undo --yes` does it.", err=True)
            return 0
        if not click.confirm("Take it back?", default=False):
            click.echo("Nothing was changed.", err=True)
            return 0
    try:
        told = undo(run, say=teller(shown))
    except RepairError as error:
        told = Undone(ok=False, problem=str(error))
    if shown.style == "json":
        print_json(undone_data(run, told), shown)
    else:
        print_undone(run, told, sys.stdout, color=colored(shown))
    return 0 if told.ok else 130 if told.interrupted else 1


def _last(prefix: str) -> Run | None:
    from gpudoctor.fix.journal import runs

    places = {os.path.realpath(prefix) if prefix else "", ""}
    found = [run for run in runs(journal_home()) if run.prefix in places and run.state != "undone"]
    return found[-1] if found else None


def _prefix(sources: Sources) -> str:
    """The examined environment's folder; a repair may have left it in a state in which it is none."""
    from gpudoctor.host import InputError, LiveHost
    from gpudoctor.probes.python_environment import probe_environment
    from gpudoctor.probes.variables import probe_variables

    python = sources.examined.python
    if sources.examined.root is not None and python is None:
        raise click.UsageError("what lies below a root was never changed: --undo is for an environment (--python)")
    if sources.snapshot is not None:
        raise click.UsageError("a snapshot was never changed: --undo is for an environment (--python)")
    host = LiveHost(sources.variables)
    try:
        environment = probe_environment(host, python, probe_variables(host)).value
    except InputError:
        if python is None or not os.path.isdir(python):
            raise
        environment = None
    return environment.prefix if environment else python or ""
