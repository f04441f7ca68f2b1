"""Undoing the last fix of an environment."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from gpudoctor.cli.journal import readable_runs
from gpudoctor.cli.output import asked_for, print_json, print_text, teller
from gpudoctor.command_line.running import tell
from gpudoctor.exit_codes import of_failure
from gpudoctor.host import InputError, LiveHost
from gpudoctor.records import view_as
from gpudoctor.render.steps import command_line

if TYPE_CHECKING:
    from gpudoctor.command_line.arguments import ReportOptions
    from gpudoctor.command_line.machine_source import Sources
    from gpudoctor.fix.run import Run


def undo_last(sources: Sources, shown: ReportOptions, *, yes: bool, dry_run: bool) -> int:
    """Undo the last fix of the examined environment that is not undone yet."""
    from gpudoctor.fix.errors import RepairError, reason
    from gpudoctor.fix.undo import Undone, undo
    from gpudoctor.render.documents import Undo
    from gpudoctor.render.journal import undo_plan_lines, undone_lines

    prefix = _prefix(sources)
    places = (os.path.realpath(prefix), "") if prefix else ("",)
    open_runs = [run for run in readable_runs(places) if not run.is_over]
    run = next((run for run in reversed(open_runs) if run.prefix in places), None)
    if run is None:
        tell(_nothing(open_runs))
        return 0
    if shown.style == "text" and not shown.quiet:
        print_text(undo_plan_lines(run), shown)
    if dry_run:
        return 0
    of_it = ("--python", run.prefix) if run.prefix else ()
    if not asked_for("Undo it?", ("gpudoctor", "fix", "--undo", *of_it), shown, yes=yes):
        return 1
    try:
        told = undo(run, say=teller(shown))
    except (RepairError, OSError) as error:
        told = Undone(ok=False, problem=reason(error))
    if shown.style == "json":
        print_json(view_as(Undo, told, run=run.id), shown)
    else:
        print_text(undone_lines(told), shown)
    return 0 if told.ok else of_failure(told.interrupted)


def _nothing(elsewhere: list[Run]) -> str:
    """The line that says that there is nothing to undo here, and where there is something."""
    nothing = "Nothing to undo in this environment"
    if not elsewhere:
        return f"{nothing}: the journal has no fix of it."
    last = command_line((elsewhere[-1].prefix,))
    return f"{nothing}; the last fix was in {last}: add --python {last}"


def _prefix(sources: Sources) -> str:
    """The examined environment's folder; a fix that was cut off may have left it without what makes it an
    environment."""
    from gpudoctor.probes.python_environment import probe_environment
    from gpudoctor.probes.variables import probe_variables

    python = sources.examined.python
    if sources.examined.root is not None and python is None:
        raise click.UsageError("gpudoctor changes nothing below a root: --undo needs an environment (--python)")
    if sources.snapshot is not None:
        raise click.UsageError("gpudoctor changes nothing in a snapshot: --undo needs an environment (--python)")
    host = LiveHost(sources.variables)
    try:
        environment = probe_environment(host, python, probe_variables(host)).value
    except InputError:
        if python is None or not os.path.isdir(python):
            raise
        environment = None
    return environment.prefix if environment else python or ""
