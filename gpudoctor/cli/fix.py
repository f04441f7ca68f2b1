"""`gpudoctor fix` and `gpudoctor env`: the repair that the findings of `check` need here."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from gpudoctor.cli.fix_options import Asked, check_modes, fix_options
from gpudoctor.cli.options import (
    description_options,
    machine_options,
    matrix_option,
    option,
    repair_options,
    variable_option,
)
from gpudoctor.command_line.arguments import Examined, Shown
from gpudoctor.command_line.options import snapshot_file as snapshot_option
from gpudoctor.command_line.reading import Option
from gpudoctor.command_line.running import tell
from gpudoctor.intake.description import Description

if TYPE_CHECKING:
    from gpudoctor.cli.examination import Examination
    from gpudoctor.planner.repair import Repair


@click.command()
@fix_options
@machine_options
@variable_option
@option(snapshot_option("Show the repair for the machine of a snapshot."))
@description_options
@matrix_option
@repair_options
def fix(
    asked: Asked,
    examined: Examined,
    variables: dict[str, str],
    snapshot_file: str | None,
    description: Description,
    overlays: tuple[str, ...],
    shown: Shown,
) -> int:
    """Show the repair of what `check` finds, run it if you say so, and prove it by a second look.

    Packages are changed in the examined environment only (--python, else the active one), and `fix --undo` takes
    every run back. Steps for root are shown; --system runs them. Described facts (--gpu, --driver ...) stand in the
    place of this machine's: the local environment is then repaired for that machine. A snapshot or a root alone gets
    its repair shown, never run. The exit code is that of `check`: before a dry run, after a repair.
    """
    check_modes(asked)
    from gpudoctor.cli import kept_runs, taking_back
    from gpudoctor.cli.examination import Examination, Sources

    sources = Sources(examined, variables, snapshot_file, description, overlays)
    if asked.history:
        return kept_runs.history(shown)
    if asked.forget is not None:
        return kept_runs.forget(asked.forget, shown, yes=asked.yes, dry_run=asked.dry_run, force=asked.force)
    if asked.undo:
        return taking_back.undo_last(sources, shown, yes=asked.yes, dry_run=asked.dry_run)
    examination = Examination(sources, shown)
    return _repair(examination, asked, shown)


def _repair(examination: Examination, asked: Asked, shown: Shown) -> int:
    from gpudoctor.cli import kept_runs, repairing

    look = examination.look()
    cut_off = kept_runs.cut_off(look.machine, needed=asked.resume)
    if asked.resume:
        return repairing.go_on(examination, look, cut_off, shown)
    plan = examination.plan(look, only=asked.only, alternative=asked.alternative, system=asked.system)
    if asked.script:
        _print_script(plan, examination)
        return look.exit_code
    runs = repairing.will_run(plan, asked, shown)
    if cut_off is not None:
        kept_runs.tell_cut_off(cut_off)
        if runs:
            return 1  # nothing is begun on top of half a change
    asks = runs and not asked.yes
    repairing.show(plan, look, shown, examination, outcome_follows=runs, asks=asks)
    if not plan.to_run or asked.dry_run:
        return look.exit_code
    if not runs:
        tell(repairing.why_dry(shown))
        return look.exit_code
    if asks and not repairing.confirmed(plan):
        tell("Nothing was changed.")
        return look.exit_code
    return repairing.run_and_prove(examination, look, plan, shown)


def _print_script(plan: Repair, examination: Examination) -> None:
    from gpudoctor import __version__
    from gpudoctor.planner.script import shell_script

    sys.stdout.write(shell_script(plan, version=__version__, subject=examination.subject))


_SHELL = Option(
    ("--shell",), "shell", "For whom the lines are. [default: sh]",
    choices=("sh", "fish", "json"), variable="GPUDOCTOR_SHELL",
)  # fmt: skip


@click.command()
@option(_SHELL)
@click.option("--only", multiple=True, metavar="ID|SLUG", help="Only what this finding needs.")
@machine_options
@variable_option
@description_options
@matrix_option
def env(
    shell: str | None,
    only: tuple[str, ...],
    examined: Examined,
    variables: dict[str, str],
    description: Description,
    overlays: tuple[str, ...],
) -> int:
    """Print the shell lines that set what this machine and this environment need: eval "$(gpudoctor env)".

    Of each error and warning of `check` the first way out that variables alone make. Nothing is written into a
    start-up file. Without --level, files only are looked at. Why each is set is told on stderr.
    """
    from msgspec.structs import replace

    from gpudoctor.cli.examination import Examination, Sources, ids_of
    from gpudoctor.planner.repair import variables_for
    from gpudoctor.planner.script import variable_data, variable_lines

    examined = replace(examined, level=examined.level or "static")
    sources = Sources(examined, variables, None, description, overlays)
    look = Examination(sources, Shown(style="json", quiet=True)).look()
    wanted = variables_for(look.judgement.findings, only=ids_of(only))
    if shell == "json":
        from gpudoctor.render.public import to_json

        sys.stdout.write(to_json(variable_data(wanted)))
        return 0
    for variable in wanted:
        if variable.why:
            tell(f"# {variable.name}: {variable.why}")
    sys.stdout.write(variable_lines(wanted, shell or "sh"))
    return 0
