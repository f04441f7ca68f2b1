"""`gpudoctor fix`: the plan for what `check` finds here."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from gpudoctor import __version__
from gpudoctor.cli.command import command
from gpudoctor.cli.fix_options import FixRequest, check_modes, fix_options
from gpudoctor.cli.options import option, repair_options, sources_options
from gpudoctor.command_line.arguments import ReportOptions
from gpudoctor.command_line.interrupted_fixes import tell_cut_off
from gpudoctor.command_line.options import REQUIRE
from gpudoctor.command_line.options import snapshot_file as snapshot_option
from gpudoctor.command_line.running import tell
from gpudoctor.host.linux import require_linux

if TYPE_CHECKING:
    from gpudoctor.cli.examination import Examination
    from gpudoctor.command_line.machine_source import Sources
    from gpudoctor.planner.repair import Repair


@command()
@fix_options
@sources_options(option(snapshot_option("Show the plan for the machine of a snapshot.")), option(REQUIRE))
@repair_options
def fix(request: FixRequest, sources: Sources, shown: ReportOptions) -> int:
    """Show a plan that fixes what `check` finds, apply it if you agree, and check again.

    Packages change in the examined environment only (--python, else the active one); `fix --undo` restores it.
    Steps for root are shown; --system runs them. With --gpu, --driver ... the local environment is fixed for that
    machine. The plan for a snapshot or a root is shown, never applied. The exit code is that of `check`: before a
    dry run, after a fix.

    \b
    Examples:
      gpudoctor fix --dry-run          show the plan, change nothing
      gpudoctor fix                    show the plan, ask, apply it
      gpudoctor fix --install torch    install the best PyTorch build
      gpudoctor fix --undo             undo the last fix of this environment
    """
    check_modes(request)
    if sources.snapshot is None:
        require_linux()
    from gpudoctor.cli import journal, undo
    from gpudoctor.cli.examination import Examination

    if request.history:
        return journal.history(shown)
    if request.forget is not None:
        return journal.forget(request.forget, shown, yes=request.yes, dry_run=request.dry_run, force=request.force)
    if request.undo:
        return undo.undo_last(sources, shown, yes=request.yes, dry_run=request.dry_run)
    examination = Examination(sources, shown)
    return _repair(examination, request, shown)


def _repair(examination: Examination, request: FixRequest, shown: ReportOptions) -> int:
    from gpudoctor.cli import apply, install, journal

    look = examination.look()
    recorded = examination.sources.snapshot is not None  # nothing of that machine was ever fixed from here
    cut_off = None if recorded and not request.resume else journal.unfinished_run(look.machine, needed=request.resume)
    if request.resume:
        return apply.go_on(examination, look, cut_off, shown)
    plan = examination.plan(
        look,
        only=request.only,
        alternative=request.alternative,
        system=request.system,
        also=install.note_to_fix(request, look.machine, look.judgement.findings, shown),
    )
    if request.script:
        _print_script(plan, examination)
        return look.exit_code
    runs = apply.will_run(plan, request, shown)
    if cut_off is not None:
        tell_cut_off(cut_off)
        if not request.dry_run:
            return 1  # nothing is begun on top of half a change
    asks = runs and not request.yes
    apply.show(plan, look, shown, examination, outcome_follows=runs, asks=asks, request=request)
    if not plan.to_run or request.dry_run:
        return look.exit_code
    if not runs:
        tell(apply.why_dry(shown))
        return look.exit_code
    if asks and not apply.ask_to_continue(plan):
        tell("Nothing was changed.")
        return look.exit_code
    return apply.run_and_check(examination, look, plan, shown)


def _print_script(plan: Repair, examination: Examination) -> None:
    from gpudoctor.planner.script import shell_script

    sys.stdout.write(shell_script(plan, version=__version__, subject=examination.subject))
