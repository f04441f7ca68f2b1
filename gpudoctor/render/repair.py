"""The plan of a repair, what became of it, and the journal: for a person, and as JSON (design §3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from gpudoctor.render.lines import Line, print_lines, printable
from gpudoctor.render.steps import command_line, step_lines
from gpudoctor.step import ManualStep, RunStep

if TYPE_CHECKING:
    from gpudoctor.finding import Finding, Risk
    from gpudoctor.fix.apply import Applied
    from gpudoctor.planner.proof import Proof
    from gpudoctor.planner.repair import PlannedStep, Repair
    from gpudoctor.render.documents import SecondLook

_RISKS: dict[Risk, str] = {
    "safe": "none: nothing is replaced",
    "replaces": "packages of this environment are replaced",
    "root": "changes the system, as root",
    "reboot": "takes effect with a reboot",
}


def repair_data(plan: Repair) -> dict[str, Any]:
    """As built-in types, in the order of the contract."""
    import msgspec

    from gpudoctor.render.documents import IN_PLAN, Plan

    steps: Any = tuple(
        IN_PLAN[type(planned.step)](
            **msgspec.structs.asdict(planned.step), because=planned.because, state=planned.state
        )
        for planned in plan.steps
    )
    data: dict[str, Any] = msgspec.to_builtins(Plan(steps=steps, after=plan.after))
    return data


def print_repair(
    plan: Repair, findings: Sequence[Finding], subject: str, out: TextIO, *, color: bool, here: bool
) -> None:
    """Print the plan for these findings. `here`: its commands are for this machine, and are printed exactly."""
    print_lines(_plan(plan, findings, subject), out, color=color, exact_commands=here)


def _plan(plan: Repair, findings: Sequence[Finding], subject: str) -> Iterator[Line]:
    names = {finding.id: finding.slug for finding in findings}
    if plan.steps:
        yield [("Repair of ", "bold"), (subject, "bold")]
        yield []
    if plan.pinned:
        yield [("! These installed packages want another torch than the one that comes: ", "bold yellow")]
        yield from ([(f"    {package}", "")] for package in plan.pinned)
        yield []
    for number, planned in enumerate(plan.steps, 1):
        yield from _step(number, planned, names)
        yield []
    yield [(plan.after, "")]


def _step(number: int, planned: PlannedStep, names: dict[str, str]) -> Iterator[Line]:
    step = planned.step
    mark = [(f"   not run: {planned.why_not}", "yellow")] if planned.why_not else []
    because = ", ".join(f"{names.get(id, id)} [{id}]" for id in planned.because)
    yield [(f"{number}. ", "bold"), (because, "bold"), *mark]
    style = "" if isinstance(step, ManualStep) else "command"
    yield from ([(f"     {line}", style)] for line in step_lines(step))
    yield from _details(planned)


def _details(planned: PlannedStep) -> Iterator[Line]:
    step = planned.step
    if step.why:
        yield _detail("why", step.why)
    if planned.replaces:
        yield _detail("replaces", ", ".join(planned.replaces))
    if step.risk != "safe" or isinstance(step, RunStep):
        yield _detail("risk", _RISKS[step.risk])
    if not isinstance(step, RunStep):
        return
    if planned.state == "will run" and step.risk not in ("root", "reboot"):
        yield _detail("undo", "gpudoctor fix --undo")
    elif step.undo:
        for number, argv in enumerate(step.undo):
            as_root = "sudo " if step.risk == "root" and planned.why_not else ""
            yield [(f"     {'undo' if number == 0 else '':<9}", "dim"), (as_root + command_line(argv), "command")]


def _detail(name: str, text: str) -> Line:
    return [(f"     {name:<9}", "dim"), (text, "")]


# --- what became of it ------------------------------------------------------------------------------------


def step_line(number: int, of: int, argv: Sequence[str]) -> str:
    """The head of a step that begins; it is counted from 0."""
    return printable(f"[{number + 1}/{of}] {command_line(tuple(argv))}")


def outcome_data(applied: Applied, proof: Proof | None, exit_code: int) -> dict[str, Any]:
    """How a run went, and what the second look at the machine found (ids); null where there was none."""
    import msgspec

    from gpudoctor.render.documents import Result

    result = Result(
        run=applied.run.id if applied.run else None,
        ok=applied.ok,
        failed_step=applied.failed,
        problem=applied.problem or (f"exit status {applied.rc}" if applied.rc else ""),
        proof=_second_look(proof) if proof else None,
        exit_code=exit_code,
    )
    data: dict[str, Any] = msgspec.to_builtins(result)
    return data


def _second_look(proof: Proof) -> SecondLook:
    from gpudoctor.render.documents import SecondLook

    return SecondLook(
        repaired=_ids(proof.repaired),
        left=_ids(proof.left),
        new=_ids(proof.new),
        by_variables=_ids(proof.by_variables),
        verdict=proof.verdict,
    )


def _ids(findings: Iterable[Finding]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(finding.id for finding in findings))


def print_outcome(applied: Applied, proof: Proof | None, out: TextIO, *, color: bool) -> None:
    """Print whether the steps ran, what is repaired, what is left and what is new."""
    print_lines(_outcome(applied, proof), out, color=color)


def _outcome(applied: Applied, proof: Proof | None) -> Iterator[Line]:
    if not applied.ok:
        yield from _failure(applied)
    if proof is not None:
        yield []
        yield from _proof(proof)
    if applied.run is not None and not applied.interrupted and not applied.run.has("unchanged"):
        yield [("`gpudoctor fix --undo` takes this repair back.", "dim")]


def _failure(applied: Applied) -> Iterator[Line]:
    if applied.failed is None:
        yield [("✗ not run  ", "bold red"), (applied.problem, "")]
        return
    ended = f"it ended with {applied.rc}" if applied.rc else applied.problem
    argv = applied.run.steps[applied.failed].argv if applied.run else ()
    yield [(f"✗ step {applied.failed + 1} failed: {ended}", "bold red")]
    yield [(f"    {command_line(argv)}", "command")]
    yield from ([(f"    {line}", "dim")] for line in applied.last_lines[-8:])
    done = f"Steps 1 to {applied.failed} were run" if applied.failed else "No step before it was run"
    changed = " Nothing was changed." if applied.run and applied.run.has("unchanged") else ""
    yield [(f"{done}, none after it.{changed}", "")]
    if applied.interrupted:
        yield [("`gpudoctor fix --continue` goes on, `gpudoctor fix --undo` takes it back.", "")]


def _proof(proof: Proof) -> Iterator[Line]:
    for finding in proof.repaired:
        yield [("✓ repaired     ", "bold green"), _name(finding)]
    for finding in proof.by_variables:
        yield [("· variable     ", "cyan"), _name(finding), (f"  {finding.message}", "")]
    if proof.by_variables:
        text = '  is set by `eval "$(gpudoctor env)"` in a shell, by `gpudoctor preflight --set-env` for a command.'
        yield [(text, "")]
    for finding in proof.left:
        yield [("✗ still there  ", "bold red"), _name(finding), (f"  {finding.message}", "")]
    for finding in proof.new:
        yield [("! new          ", "bold yellow"), _name(finding), (f"  {finding.message}", "")]
    for why in proof.questions:
        yield [("? not judged   ", "magenta"), (why, "")]
    yield [("Verdict after it: ", "bold"), (proof.verdict.upper(), "bold")]


def _name(finding: Finding) -> tuple[str, str]:
    return f"{finding.slug} [{finding.id}]", "bold"
