"""The plan of a fix and what became of it: for a person, and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from gpudoctor.finding import Finding, Risk, SetVariable, unique_ids
from gpudoctor.machine import OVERRIDE
from gpudoctor.plain_text import number_of
from gpudoctor.planner.planned_steps import OF_ALL, PlannedStep
from gpudoctor.records import view_as
from gpudoctor.render.lines import Line, printable
from gpudoctor.render.next_command import NEXT, ON_THAT_MACHINE, next_line
from gpudoctor.render.steps import command_line, step_spans, undo_lines
from gpudoctor.step import ManualStep, RunStep, Step

if TYPE_CHECKING:
    from gpudoctor.fix.apply import ApplyResult
    from gpudoctor.planner.proof import Proof
    from gpudoctor.planner.repair import Repair
    from gpudoctor.render.documents import Result, SecondLook

_RISKS: dict[Risk, str] = {
    "safe": "none: nothing is replaced",
    "replaces": "packages of this environment are replaced",
    "root": "changes the system, as root",
    "reboot": "takes effect with a reboot",
}


def plan_data(plan: Repair) -> dict[str, Any]:
    """The plan as built-in types, in the order of the contract."""
    from gpudoctor.render.documents import IN_PLAN, Plan

    steps: Any = tuple(
        IN_PLAN[type(planned.step)](
            **msgspec.structs.asdict(planned.step), because=planned.because, state=planned.state
        )
        for planned in plan.steps
    )
    data: dict[str, Any] = msgspec.to_builtins(Plan(steps=steps, after=plan.after, predicted=plan.predicted))
    return data


class Around(Struct, frozen=True):
    """The context of a plan: where it applies, and what to type for the same place."""

    subject: str
    here: bool
    """Its commands are for this machine, and are printed exactly."""
    place: tuple[str, ...] = ()
    """The options that name this environment to `gpudoctor fix`."""
    next: tuple[str, ...] = ()
    """The command to type next; none where the plan is applied now."""
    on_that_machine: bool = False
    """Whether that is to be typed on the machine that the plan is for, not here."""


def _of_checks(plan: Repair) -> dict[str, str]:
    """The slug of every check, by its id: a plan may meet a problem that is not there yet."""
    from gpudoctor.suites import machine_checks

    return {check.id: check.slug for check in machine_checks()} if plan.steps else {}


def plan_lines(plan: Repair, findings: Sequence[Finding], around: Around) -> Iterator[Line]:
    """The plan for these problems."""
    names = {**_of_checks(plan), **{finding.id: finding.slug for finding in findings}}
    by_hand = all(isinstance(planned.step, ManualStep) for planned in plan.steps)
    if plan.steps:
        steps = number_of(len(plan.steps), "step")
        shown = ", by hand" if by_hand else "" if plan.to_run else " (shown only)"
        yield [(f"Plan: {steps}{shown}", "bold"), (f", {around.subject}", "")]
        yield []
    if plan.pinned:
        yield [("! These installed packages do not go with the torch that comes:", "bold yellow")]
        yield from ([("    ", ""), (package, "")] for package in plan.pinned)
        yield []
    risks = set[str]()
    for number, planned in enumerate(plan.steps, 1):
        said = by_hand or (planned.why_not == OF_ALL and not plan.to_run)  # by the first line and the last
        yield from _step(number, planned, names, around, "" if said else planned.why_not, risks)
        yield []
    if plan.steps:
        yield [(_foreseen(plan, names), "bold")]
    yield [(plan.after, "")]
    if around.next:
        yield next_line(around.next, ON_THAT_MACHINE if around.on_that_machine else NEXT)


def _foreseen(plan: Repair, names: dict[str, str]) -> str:
    """What the checks will find once the plan is done, as far as that can be foreseen."""
    predicted = plan.predicted
    left, noted = _names_and_ids(predicted.left, names), _names_and_ids(predicted.notes, names)
    then = f"{left} {'is' if len(predicted.left) == 1 else 'are'} left" if left else "no problem is left"
    if predicted.verdict == "unknown":
        then += ", but an important check cannot be completed"
    if plan.pinned:
        then += " but the packages named above"
    if noted:
        then += f"; {'a note stays' if len(predicted.notes) == 1 else 'notes stay'}: {noted}"
    if predicted.until == "end":
        return f"Foreseen: {then}."
    step, _, what = predicted.until.partition(": ")
    if what == "files":
        return f"Foreseen: {then}. What {step} writes can change that: it is checked then."
    if what == "a person":
        return f"If {step} helps, {then}."
    when = f"after the reboot of {step}" if what == "a reboot" else f"once {step} ({what}) is done"
    return f"Foreseen, {when}: {then}."


def _names_and_ids(ids: Iterable[str], names: dict[str, str]) -> str:
    return ", ".join(f"{names.get(id, '')} [{id}]".strip() for id in ids)


def _step(
    number: int, planned: PlannedStep, names: dict[str, str], around: Around, why_not: str, risks: set[str]
) -> Iterator[Line]:
    """A step; `risks` are those that were told before it, each once."""
    step = planned.step
    mark = [(f"   not run: {why_not}", "yellow")] if why_not else []
    because = ", ".join(f"{names.get(id, id)} [{id}]" for id in planned.because)
    yield [(f"{number}. ", "bold"), (because, "bold"), *mark]
    yield from ([("     ", ""), span] for span in step_spans(step, here=around.here))
    yield from _details(planned, around, risks)


def _details(planned: PlannedStep, around: Around, risks: set[str]) -> Iterator[Line]:
    step = planned.step
    if step.why:
        yield _detail("why", step.why)
    if planned.replaces:
        yield _detail("replaces", ", ".join(planned.replaces))
    if step.risk != "safe" or isinstance(step, RunStep):
        risk = _RISKS[step.risk] if planned.replaces or step.risk != "replaces" else _risk(step)
        if step.risk != "replaces" or risk not in risks:
            yield _detail("risk", risk)
        risks.add(risk)
    if not isinstance(step, RunStep):
        return
    if planned.state == "will run" and step.risk not in ("root", "reboot"):
        yield [(f"     {'undo':<9}", "dim"), (command_line(("gpudoctor", "fix", "--undo", *around.place)), "command")]
    else:
        for number, line in enumerate(undo_lines(step, here=around.here)):
            yield [(f"     {'undo' if number == 0 else '':<9}", "dim"), (line, "command")]


def _risk(step: Step) -> str:
    """The risk of a step that replaces no installed package."""
    override = any(OVERRIDE in word for word in (step.argv if isinstance(step, RunStep) else (str(step),)))
    return "the GPU runs code for another one: unsupported, results can be wrong" if override else _RISKS["replaces"]


def _detail(name: str, text: str) -> Line:
    return [(f"     {name:<9}", "dim"), (text, "")]


# --- what became of it ------------------------------------------------------------------------------------


def step_line(number: int, of: int, argv: Sequence[str]) -> str:
    """The head of a step that begins; it is number_of from 0."""
    return printable(f"[{number + 1}/{of}] {command_line(tuple(argv))}")


def outcome(applied: ApplyResult, proof: Proof | None, exit_code: int) -> Result:
    """How a run went, and what the second look at the machine found (ids); null where there was none."""
    from gpudoctor.render.documents import Result

    return Result(
        run=applied.run.id if applied.run else None,
        ok=applied.ok,
        failed_step=applied.failed,
        problem=applied.problem or (f"exit status {applied.rc}" if applied.rc else ""),
        proof=_second_look(proof) if proof else None,
        exit_code=exit_code,
    )


def _second_look(proof: Proof) -> SecondLook:
    from gpudoctor.render.documents import SecondLook

    found = {name: unique_ids(getattr(proof, name)) for name in ("repaired", "left", "new", "by_variables")}
    return view_as(SecondLook, proof, **found)


def outcome_lines(
    applied: ApplyResult, proof: Proof | None, place: tuple[str, ...], same: tuple[str, ...]
) -> Iterator[Line]:
    """How it stands now, what is fixed, what is left and what is new. `place`: options of the environment; `same`:
    those with which `check` judges the same machine again."""
    if not applied.ok:
        yield from _failure(applied)
    if proof is not None:
        yield []
        if applied.ok:
            yield [(_state(proof), "bold")]
        yield from _proof(proof)
    if applied.run is not None and not applied.interrupted and not applied.run.has("unchanged"):
        yield [("Undo: ", "dim"), (command_line(("gpudoctor", "fix", "--undo", *place)), "command")]
    command = ("gpudoctor", "fix", "--continue", *place) if applied.interrupted else ("gpudoctor", "check", *same)
    yield next_line(command)


def _failure(applied: ApplyResult) -> Iterator[Line]:
    if applied.failed is None:
        yield [("✗ not run  ", "bold red"), (applied.problem, "")]
        return
    ended = f"it ended with {applied.rc}" if applied.rc else applied.problem
    argv = applied.run.steps[applied.failed].argv if applied.run else ()
    yield [(f"✗ step {applied.failed + 1} failed: {ended}", "bold red")]
    yield [(f"    {command_line(argv)}", "command")]
    yield from ([(f"    {line}", "dim")] for line in applied.last_lines[-8:])
    if applied.run and applied.run.has("unchanged"):
        changed = ". Nothing was changed."
    else:
        changed = f"; steps 1 to {applied.failed} are done." if applied.failed else "; nothing else was changed."
    yield [(f"Stopped at step {applied.failed + 1}{changed}", "")]
    if applied.interrupted:
        yield [("`gpudoctor fix --continue` goes on, `gpudoctor fix --undo` undoes it.", "")]


def _proof(proof: Proof) -> Iterator[Line]:
    for finding in proof.repaired:
        yield [("✓ fixed        ", "bold green"), _name(finding)]
    for finding in proof.by_variables:
        yield [("· variable     ", "cyan"), _name(finding), (f"  {finding.message}", "")]
    for one in proof.ahead:
        first = f"export {one.name}={one.value}" if isinstance(one, SetVariable) else f"unset {one.name}"
        yield [("  ", ""), (f"`{first}` first: {one.why}.", "")]
    if proof.by_variables and not proof.ahead:
        text = '`eval "$(gpudoctor env)"` sets it in a shell, `gpudoctor preflight --set-env` for one command.'
        yield [("  ", ""), (text, "")]
    for finding in proof.left:
        yield [("✗ still there  ", "bold red"), _name(finding), (f"  {finding.message}", "")]
    for finding in proof.new:
        yield [("! new          ", "bold yellow"), _name(finding), (f"  {finding.message}", "")]
    if proof.unforeseen:
        text = f"The plan did not foresee {', '.join(proof.unforeseen)}: please report it with `gpudoctor snapshot`."
        yield [("  ", ""), (text, "yellow")]
    for why in proof.questions:
        yield [("? unchecked    ", "magenta"), (why, "")]


def _state(proof: Proof) -> str:
    """ "Fixed 1 problem; 1 problem left."."""
    fixed, left = len(proof.repaired), len(proof.left) + len(proof.new)
    parts = [f"Fixed {number_of(fixed, 'problem')}" if fixed or left else "Applied, and no problem is left"]
    if left:
        parts.append(f"{number_of(left, 'problem')} left")
    if proof.questions:
        parts.append("an important check could not be completed")
    return "; ".join(parts) + "."


def _name(finding: Finding) -> tuple[str, str]:
    return f"{finding.slug} [{finding.id}]", "bold"
