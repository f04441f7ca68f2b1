"""Taking the last repair of an environment back."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from gpudoctor.cli.kept_runs import kept_runs
from gpudoctor.cli.telling import asked_for, colored, print_json, teller
from gpudoctor.command_line.running import tell

if TYPE_CHECKING:
    from gpudoctor.cli.examination import Sources
    from gpudoctor.command_line.arguments import Shown
    from gpudoctor.fix.journal import Run


def undo_last(sources: Sources, shown: Shown, *, yes: bool, dry_run: bool) -> int:
    """Take back the last run of the examined environment that is not taken back yet."""
    from gpudoctor.fix.errors import RepairError, reason
    from gpudoctor.fix.undo import Undone, undo
    from gpudoctor.render.journal import print_undo_plan, print_undone, undone_data

    run = _last(_prefix(sources))
    if run is None:
        tell("Nothing is to be taken back: no repair of this environment is in the journal.")
        return 0
    if shown.style == "text" and not shown.quiet:
        print_undo_plan(run, sys.stdout, color=colored(shown))
        sys.stdout.flush()
    if dry_run or not asked_for("Take it back?", "fix --undo", shown, yes=yes):
        return 0
    try:
        told = undo(run, say=teller(shown))
    except (RepairError, OSError) as error:
        told = Undone(ok=False, problem=reason(error))
    if shown.style == "json":
        print_json(undone_data(run, told), shown)
    else:
        print_undone(run, told, sys.stdout, color=colored(shown))
    return 0 if told.ok else 128 + told.interrupted if told.interrupted else 1


def _last(prefix: str) -> Run | None:
    places = (os.path.realpath(prefix), "") if prefix else ("",)
    found = [run for run in kept_runs(places) if run.prefix in places and not run.is_over]
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
