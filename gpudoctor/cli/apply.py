"""Showing a plan, applying exactly what was shown, and checking the machine again."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from gpudoctor.cli.install import installable, is_missing
from gpudoctor.cli.output import place_of, print_json, print_text, teller
from gpudoctor.command_line.option_parser import words
from gpudoctor.command_line.options import REQUIRE
from gpudoctor.command_line.running import tell
from gpudoctor.exit_codes import of_failure
from gpudoctor.machine import Machine
from gpudoctor.step import ManualStep, Step

if TYPE_CHECKING:
    from gpudoctor.cli.examination import Diagnosis, Examination
    from gpudoctor.cli.fix_options import FixRequest
    from gpudoctor.command_line.arguments import ReportOptions
    from gpudoctor.fix.apply import ApplyResult
    from gpudoctor.fix.run import Run
    from gpudoctor.fix.scope import Target
    from gpudoctor.planner.proof import Proof
    from gpudoctor.planner.repair import Predicted, Repair

# --- before anything is run ---------------------------------------------------------------------------


def will_run(plan: Repair, request: FixRequest, shown: ReportOptions) -> bool:
    """Whether this call may run something: with --yes, or where there is somebody to ask."""
    if not plan.to_run or request.dry_run:
        return False
    return request.yes or (shown.style == "text" and sys.stdin.isatty() and sys.stdout.isatty())


def why_dry(shown: ReportOptions) -> str:
    """Why nothing was run although something could be."""
    if shown.style != "text":
        return "Nothing was changed: without --yes JSON is that of a dry run."
    return "Nothing was changed: there is no terminal to ask on. `gpudoctor fix --yes` applies the plan."


def ask_to_continue(plan: Repair) -> bool:
    """Ask. Just pressing Enter means no."""
    numbers = [str(at) for at, planned in enumerate(plan.steps, 1) if planned.state == "will run"]
    what = f"step {numbers[0]}" if len(numbers) == 1 else f"steps {', '.join(numbers)}"
    return click.confirm(f"Apply {what}?", default=False)


def show(
    plan: Repair,
    look: Diagnosis,
    shown: ReportOptions,
    examination: Examination,
    *,
    outcome_follows: bool,
    asks: bool,
    request: FixRequest,
) -> None:
    """Print the plan. As JSON it is printed only if no run follows: after a run it comes with the outcome. A person
    who is asked sees it even with -q."""
    from gpudoctor.render.lines import print_lines
    from gpudoctor.render.plan import Around, plan_data, plan_lines

    if shown.style == "json":
        if not outcome_follows:
            print_json(plan_data(plan), shown)
    elif asks or not shown.quiet:
        prefix = look.machine.examined.prefix
        where = f"{prefix} on " if prefix else ""
        around = Around(
            subject=f"{where}{examination.subject}",
            here=examination.here,
            place=place_of(look.machine),
            next=() if asks or outcome_follows else _next(plan, look, examination, request),
            on_that_machine=_is_for_another(plan, examination),
        )
        lines = plan_lines(plan, look.judgement.findings, around)
        print_lines(lines, sys.stdout, color=not shown.no_color, exact_commands=around.here)
        sys.stdout.flush()


def _next(plan: Repair, look: Diagnosis, examination: Examination, request: FixRequest) -> tuple[str, ...]:
    """What to type after a plan that is only shown."""
    if plan.to_run:
        return ("gpudoctor", "fix", *request.of_the_plan, *examination.same_target)
    if _is_for_another(plan, examination):
        return ("gpudoctor", "fix")
    if not plan.steps and not request.only:
        if installable(look.judgement.findings):
            return ("gpudoctor", "fix", "--install", "torch", *examination.same_target)
        missing = any(is_missing(one) for one in look.judgement.findings)
        if missing and look.judgement.verdict == "ok" and examination.sources.snapshot is None:
            return ("gpudoctor", "recommend", *examination.same_target)
    return ("gpudoctor", "check", *_same(look, examination))


def _is_for_another(plan: Repair, examination: Examination) -> bool:
    """Whether the plan can only be applied on the machine that is described: checking again here tells nothing. What
    a person does to the environment is done here."""
    own = (
        examination.here
        and not examination.sources.description.torch
        and all(_is_of_environment(planned.step) for planned in plan.steps)
    )
    return bool(plan.steps) and not plan.to_run and examination.is_described and not own


def _is_of_environment(step: Step) -> bool:
    return isinstance(step, ManualStep) and step.risk not in ("root", "reboot")


def _same(look: Diagnosis, examination: Examination) -> tuple[str, ...]:
    """The options with which `check` judges this machine and environment again."""
    described = not examination.sources.description.empty
    if described or not examination.here:
        return examination.same_target
    return (*place_of(look.machine), *words((REQUIRE,), {"require": examination.sources.require}))


# --- the run ----------------------------------------------------------------------------------------------


def run_and_check(examination: Examination, look: Diagnosis, plan: Repair, shown: ReportOptions) -> int:
    """Run the plan's steps, look again, and give the exit code."""
    from gpudoctor.command_line.interrupted_fixes import journal_home
    from gpudoctor.fix.apply import apply
    from gpudoctor.fix.indexes import check_indexes
    from gpudoctor.render.plan import plan_data

    because = {id for planned in plan.steps for id in planned.because}
    found = [one.id for one in look.judgement.findings if one.severity != "note" or one.id in because]
    kept = {**plan_data(plan), "findings": found}

    def run() -> ApplyResult:
        if (index := _default_index(look.machine)) is not None:
            check_indexes(plan.to_run, index)
        return apply(plan.to_run, _target(plan, look.machine), journal_home(), plan=kept, say=teller(shown))

    applied = _run_result(run)
    return _conclude(examination, look, applied, shown, plan_data(plan), plan.predicted)


def go_on(examination: Examination, look: Diagnosis, cut_off: Run | None, shown: ReportOptions) -> int:
    """Continue the fix that was cut off, and look again."""
    from gpudoctor.fix.apply import resume

    if cut_off is None:
        tell("No fix of this environment was cut off: there is nothing to continue.")
        return look.exit_code
    if cut_off.state == "undoing":
        tell("The undo was cut off: `gpudoctor fix --undo` goes on with it.")
        return 1
    applied = _run_result(lambda: resume(cut_off, say=teller(shown)))
    kept = cut_off.plan if isinstance(cut_off.plan, dict) else {}
    plan = {key: value for key, value in kept.items() if key in ("schema", "steps", "after", "predicted")}
    return _conclude(examination, look, applied, shown, plan)


def _run_result(run: Callable[[], ApplyResult]) -> ApplyResult:
    """A run that could not begin is one that failed: nothing was changed then."""
    from gpudoctor.fix.apply import ApplyResult
    from gpudoctor.fix.errors import RepairError, reason

    try:
        return run()
    except (RepairError, OSError) as error:
        return ApplyResult(ok=False, run=None, problem=reason(error))


def _conclude(
    examination: Examination,
    before: Diagnosis,
    applied: ApplyResult,
    shown: ReportOptions,
    plan: dict[str, Any],
    predicted: Predicted | None = None,
) -> int:
    from gpudoctor.render.plan import outcome, outcome_lines

    if applied.interrupted or applied.run is None:
        proof, exit_code = None, of_failure(applied.interrupted)
    else:
        proof, code = _prove(examination, before, predicted if applied.ok else None)
        _note_what_is_left(applied.run, proof)
        exit_code = code if applied.ok else 1
    if shown.style == "json":
        print_json({**plan, "result": outcome(applied, proof, exit_code)}, shown)
    else:
        place, same = place_of(before.machine), _same(before, examination)
        print_text(outcome_lines(applied, proof, place, same), shown)
    return exit_code


def _prove(examination: Examination, before: Diagnosis, predicted: Predicted | None) -> tuple[Proof, int]:
    """The second look: are the problems gone, and is there a new one?"""
    from gpudoctor.planner.proof import proof
    from gpudoctor.planner.repair import letting_through, variables_for
    from gpudoctor.situation import Situation

    after = examination.look()
    judged = after.judgement
    found = judged.findings
    ahead = letting_through(found, Situation(after.machine, examination.matrix, examination.required))
    variables = (*variables_for(found), *ahead)
    helped = examination.look_under(variables).judgement.findings if variables else found
    compared = proof(before.judgement.findings, found, helped, judged.not_judged, judged.verdict, predicted=predicted)
    return replace(compared, ahead=ahead), after.exit_code


def _note_what_is_left(run: Run, proof: Proof) -> None:
    """Keep in the journal which problems the run did not fix, so that the next plan does not propose it again."""
    from gpudoctor.fix.errors import RepairError
    from gpudoctor.fix.journal import note

    left = {finding.id for finding in proof.left}
    with suppress(RepairError, OSError):  # the run is over: at worst it is proposed once more
        note(run, "judged", note=" ".join(id for id in run.because if id in left))


def _default_index(machine: Machine) -> str | None:
    """The index of packages that name none; None where they come from elsewhere, too, or through a proxy."""
    from gpudoctor.frameworks.package_spec import PACKAGE_INDEX
    from gpudoctor.situation.installer import settings

    configured = settings(machine.examined)
    if configured.proxy or configured.find_links or configured.no_index:
        return None
    return configured.index_url or PACKAGE_INDEX


def _target(plan: Repair, machine: Machine) -> Target:
    """What the steps of a plan can change."""
    from gpudoctor.fix.scope import PROJECT_FILES, Target

    if all(step.risk in ("root", "reboot") for step in plan.to_run):
        return Target(prefix="", python="")
    projects = dict.fromkeys(step.cwd for step in plan.to_run if step.cwd)
    files = tuple(os.path.join(project, name) for project in projects for name in PROJECT_FILES)
    return Target(prefix=machine.examined.prefix, python=machine.examined.interpreter, files=files)
