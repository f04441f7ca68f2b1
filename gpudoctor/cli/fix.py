"""`gpudoctor fix` and `gpudoctor env`: the repair that the findings of `check` need here."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from gpudoctor.cli.options import (
    Examined,
    Shown,
    description_options,
    gathered,
    machine_options,
    matrix_option,
    repair_options,
    variable_option,
)
from gpudoctor.intake.description import Description

if TYPE_CHECKING:
    from gpudoctor.cli.examination import Examination
    from gpudoctor.fix.repair import Repair


class Asked(Struct, frozen=True):
    """What `fix` is to do, and of what."""

    dry_run: bool
    yes: bool
    only: tuple[str, ...]
    alternative: int
    system: bool
    script: bool
    undo: bool
    resume: bool
    history: bool


_repair_options = gathered(
    "asked",
    Asked,
    click.option("--dry-run", is_flag=True, help="Show the repair and change nothing."),
    click.option("-y", "--yes", is_flag=True, help="Do not ask. Without it and without a terminal nothing is run."),
    click.option("--only", multiple=True, metavar="ID|SLUG", help="Repair only this finding; a note, too."),
    click.option(
        "--alternative",
        type=click.IntRange(1),
        default=1,
        metavar="N",
        help="Take the Nth way out: of the first finding, or of those that --only names.",
    ),
    click.option("--system", is_flag=True, help="Also run steps for root; gpudoctor must be root."),
    click.option("--shell", "script", is_flag=True, help="Print the repair as a shell script and change nothing."),
    click.option("--undo", is_flag=True, help="Take the last repair of this environment back."),
    click.option("--continue", "resume", is_flag=True, help="Continue a repair that was cut off."),
    click.option("--history", is_flag=True, help="List the repairs that were made."),
)


@click.command()
@_repair_options
@machine_options
@variable_option
@click.option(
    "--from",
    "snapshot_file",
    type=click.Path(),
    metavar="FILE",
    help="Show the repair for the machine of a snapshot.",
)
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
    _check_modes(asked)
    from gpudoctor.cli import taking_back
    from gpudoctor.cli.examination import Examination, Sources

    sources = Sources(examined, variables, snapshot_file, description, overlays)
    if asked.history:
        return taking_back.history(shown)
    if asked.undo:
        return taking_back.undo_last(sources, shown, yes=asked.yes, dry_run=asked.dry_run)
    examination = Examination(sources, shown)
    return _repair(examination, asked, shown)


def _check_modes(asked: Asked) -> None:
    """Refuse what does not go together. Raises click.UsageError."""
    modes = {"--undo": asked.undo, "--continue": asked.resume, "--history": asked.history, "--shell": asked.script}
    given = [name for name, wanted in modes.items() if wanted]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} do not go together")
    if given and (asked.only or asked.alternative != 1) and not asked.script:
        raise click.UsageError(f"--only and --alternative choose a repair; {given[0]} makes none")
    if asked.yes and (asked.dry_run or asked.script):
        raise click.UsageError(f"--yes does not go with {'--dry-run' if asked.dry_run else '--shell'}")


def _repair(examination: Examination, asked: Asked, shown: Shown) -> int:
    from gpudoctor.cli import repairing, taking_back

    look = examination.look()
    cut_off = taking_back.cut_off(look.machine)
    if asked.resume:
        return repairing.go_on(examination, look, cut_off, shown)
    plan = examination.plan(look, only=asked.only, alternative=asked.alternative, system=asked.system)
    if asked.script:
        _print_script(plan, examination)
        return look.exit_code
    runs = repairing.will_run(plan, asked, shown)
    if cut_off is not None:
        taking_back.tell(cut_off)
        if runs:
            return 1  # nothing is begun on top of half a change
    asks = runs and not asked.yes
    repairing.show(plan, look, shown, examination, outcome_follows=runs, asks=asks)
    if not plan.to_run or asked.dry_run:
        return look.exit_code
    if not runs:
        click.echo(repairing.why_dry(shown), err=True)
        return look.exit_code
    if asks and not repairing.confirmed(plan):
        click.echo("Nothing was changed.", err=True)
        return look.exit_code
    return repairing.run_and_prove(examination, look, plan, shown)


def _print_script(plan: Repair, examination: Examination) -> None:
    from gpudoctor import __version__
    from gpudoctor.fix.script import shell_script

    sys.stdout.write(shell_script(plan, version=__version__, subject=examination.subject))


@click.command()
@click.option(
    "--shell",
    type=click.Choice(("sh", "fish", "json")),
    default="sh",
    envvar="GPUDOCTOR_SHELL",
    show_default=True,
    help="For whom the lines are.",
)
@click.option("--only", multiple=True, metavar="ID|SLUG", help="Only what this finding needs.")
@machine_options
@variable_option
@description_options
@matrix_option
def env(
    shell: str,
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
    from gpudoctor.fix.repair import variables_for
    from gpudoctor.fix.script import variable_data, variable_lines
    from gpudoctor.plain_text import without_controls

    examined = replace(examined, level=examined.level or "static")
    sources = Sources(examined, variables, None, description, overlays)
    look = Examination(sources, _SILENT).look()
    wanted = variables_for(look.judgement.findings, only=ids_of(only))
    if shell == "json":
        from gpudoctor.render.public import to_json

        sys.stdout.write(to_json(variable_data(wanted)))
        return 0
    for variable in wanted:
        if variable.why:
            click.echo(f"# {variable.name}: {without_controls(variable.why)}", err=True)
    sys.stdout.write(variable_lines(wanted, shell))
    return 0


_SILENT = Shown(
    style="json",
    fail_on="error",
    select=(),
    ignore=(),
    report_file=None,
    private=False,
    quiet=True,
    verbose=False,
    no_color=True,
)
