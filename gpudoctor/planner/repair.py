"""The plan of a fix: the steps for all problems together, what it leaves, and what the checks will find after it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.finding import (
    Finding,
    Fix,
    NotJudged,
    ReinstallPackage,
    ReplacePackage,
    ReplaceTorch,
    SetVariable,
    VariableRemedy,
    Verdict,
    unique_ids,
    verdict_of,
)
from gpudoctor.machine import Machine
from gpudoctor.planner.foresight import PACKAGE_REMEDIES, Foresight, Judge
from gpudoctor.planner.install_requests import compiled_for_another, pinning_another
from gpudoctor.planner.place import Place, is_variable, place
from gpudoctor.planner.plan import steps_for_all
from gpudoctor.planner.planned_steps import (
    Permissions,
    PlannedStep,
    changes_packages_by_hand,
    is_reboot,
    planned_steps,
)
from gpudoctor.planner.python_steps import standing_before
from gpudoctor.planner.search import Plan, Search, installs_a_driver
from gpudoctor.planner.tasks import tasks_of
from gpudoctor.situation import Situation
from gpudoctor.step import EnvStep, ManualStep, RunStep


class Predicted(Struct, frozen=True):
    """How the machine will be judged once the plan is done, as far as that can be foreseen."""

    verdict: Verdict = "ok"
    left: tuple[str, ...] = ()
    """Ids of the problems that are there then."""
    until: str = "end"
    """What foresight ends at: "end" of the plan, "step 2: a reboot", or "step 2: files", which could not be read
    before."""
    notes: tuple[str, ...] = ()
    """Ids of what is only noted then."""


class Repair(Struct, frozen=True):
    """Everything that `fix` shows, and which part of it runs."""

    steps: tuple[PlannedStep, ...] = ()
    after: str = ""
    left: tuple[str, ...] = ()
    """Problems that no fix clears without doing more harm, as sentences."""
    pinned: tuple[str, ...] = ()
    """Installed packages that need another torch than the new one: "pinning 1.0 (==2.13.0)"."""
    helpless: tuple[str, ...] = ()
    """Problems without a known fix."""
    predicted: Predicted = Predicted()

    @property
    def to_run(self) -> tuple[RunStep, ...]:
        """The steps that `fix` runs, in order."""
        return tuple(
            planned.step
            for planned in self.steps
            if planned.state == "will run" and isinstance(planned.step, RunStep)
        )


class NoSuchFixError(ValueError):
    """The requested problem or fix does not exist."""


def repair(
    findings: Sequence[Finding],
    situation: Situation,
    allowed: Permissions,
    judge: Judge,
    *,
    only: Iterable[str] = (),
    alternative: int = 1,
    also: Iterable[str] = (),
    questions: Iterable[NotJudged] = (),
    questions_on: Callable[[Machine], Iterable[NotJudged]] = lambda machine: (),
    unhelpful: Mapping[str, frozenset[tuple[str, ...]]] | None = None,
) -> Repair:
    """The plan for findings in their order: errors and warnings, or those whose id is in `only`.

    `judge` judges the machine as the plan leaves it. `also` are ids of notes that are wanted beside errors and
    warnings. `alternative` counts fixes from 1, of the first finding or of each in `only`. The plan names the
    `questions` that matter: while they are open, no problem found does not mean that there is none. `questions_on`
    tells those of the machine as the plan leaves it. `unhelpful` holds, by id, commands that were run for a problem
    in vain: no fix that runs only these is proposed again, unless `only` names the problem. Raises NoSuchFixError.
    """
    ids, noted = frozenset(only), frozenset(also)
    ids |= {id for one in findings if one.id in ids and not one.fixes for id in one.caused_by}
    chosen = _chosen(_to_fix(findings, ids, noted), bool(ids), alternative)
    here, tried = place(situation.machine), unhelpful or {}

    def in_vain(finding: Finding, fix: Fix) -> bool:
        if finding.id not in tried:
            return False
        steps = steps_for_all(fix.remedies, here, situation)
        commands = {_packages_named(step.argv) for step in steps if isinstance(step, RunStep)}
        return bool(commands) and commands <= set(map(_packages_named, tried[finding.id]))

    foresight = Foresight(situation, judge, findings, noted | ids)
    found = Search(foresight, only=ids, chosen=chosen, in_vain=in_vain).plan()
    steps = planned_steps(tasks_of(found.moves), here, situation, allowed)
    torch = next((r for move in found.moves for r in move.fix.remedies if isinstance(r, ReplaceTorch)), None)
    plan = Repair(
        steps=steps,
        left=tuple(_not_fixed(finding, in_vain) for finding in found.left if finding.fixes),
        pinned=_bound_to_the_old(found, situation, torch) if torch else (),
        helpless=tuple(dict.fromkeys(name_of(finding) for finding in found.left if not finding.fixes)),
        predicted=_prediction(found, steps, questions_on(found.outlook.machine)),
    )
    unanswered = tuple(dict.fromkeys(question.why for question in questions if question.matters))
    notes = (one for one in findings if one.severity == "note" and _may_be_offered(one.fixes[:1]))
    said = (*_after(plan, allowed, here), *_of_notes(() if plan.steps else notes), *_open(unanswered))
    return replace(plan, after=" ".join(said))


def _may_be_offered(fixes: Sequence[Fix]) -> bool:
    """Whether there is a fix that gpudoctor can plan. Another driver for a note would be too much."""
    return any(not fix.by_hand and not installs_a_driver(fix) for fix in fixes)


_ASKED_ABOUT = "torch-missing"
"""`fix` asks whether to install a framework, and names the option that does."""


def _of_notes(notes: Iterable[Finding]) -> Iterator[str]:
    """What may be had beyond what is needed."""
    for note in [note for note in notes if note.slug != _ASKED_ABOUT][:1]:
        yield f"A note has a fix: `gpudoctor fix --only {note.slug}` ({note.fixes[0].title})."


def _bound_to_the_old(found: Plan, situation: Situation, torch: ReplaceTorch) -> tuple[str, ...]:
    """Installed packages that stay and do not go with the torch that comes."""
    replaced = {r.name for move in found.moves for r in move.fix.remedies if isinstance(r, PACKAGE_REMEDIES)}
    bound = (*pinning_another(situation, torch.version), *compiled_for_another(situation, torch))
    return tuple(text for text in bound if text.partition(" ")[0] not in replaced)


def _packages_named(argv: tuple[str, ...]) -> tuple[str, ...]:
    """What a command installs, in whatever way; the command itself where it names no version."""
    return tuple(word for word in argv if "==" in word) or argv


def name_of(finding: Finding) -> str:
    """How a sentence names a problem."""
    return f"{finding.slug} [{finding.id}]"


def _to_fix(findings: Sequence[Finding], ids: frozenset[str], also: frozenset[str] = frozenset()) -> list[Finding]:
    """The findings to plan for: errors and warnings, or those that a person named, and the notes with the ids in
    `also`."""
    if ids:
        return [finding for finding in findings if finding.id in ids]
    return [finding for finding in findings if finding.severity != "note" or finding.id in also]


def _chosen(findings: Sequence[Finding], each: bool, alternative: int) -> dict[str, int]:
    """The number of the fix that a person chose, by the problem's id. Raises NoSuchFixError."""
    helped = [finding for finding in findings if finding.fixes]
    if alternative == 1:
        return {}
    if not helped:
        raise NoSuchFixError("there is nothing to fix, so there is no other fix to choose")
    asked = helped if each else helped[:1]
    for finding in asked:
        if not 1 <= alternative <= len(finding.fixes):
            count = f"{len(finding.fixes)} fix{'es' * (len(finding.fixes) > 1)}"
            raise NoSuchFixError(f"{name_of(finding)} has {count}: there is no number {alternative}")
    return {finding.id: alternative for finding in asked}


def _not_fixed(finding: Finding, in_vain: Callable[[Finding, Fix], bool]) -> str:
    if any(in_vain(finding, fix) for fix in finding.fixes):
        return (
            f"{name_of(finding)}: its fix was applied here and did not help, so it is not proposed again "
            f"(`gpudoctor fix --history`; `--only {finding.slug}` proposes it all the same)."
        )
    return f"{name_of(finding)} is not fixed in this run: each of its fixes would break something else."


def _prediction(found: Plan, steps: Sequence[PlannedStep], questions: Iterable[NotJudged]) -> Predicted:
    left, notes = found.outlook.problems, found.outlook.notes
    return Predicted(verdict_of(left, questions), unique_ids(left), _until(found, steps), unique_ids(notes))


_HORIZONS = {"reboot": "a reboot", "person": "a person", "container": "another container", "system": "a person"}


def _until(found: Plan, steps: Sequence[PlannedStep]) -> str:
    """The last step that a person does, or a reboot: what is foreseen holds once it is done."""
    if found.outlook.horizon in ("", "files") and any(changes_packages_by_hand(one.step) for one in steps):
        last = max(number for number, one in enumerate(steps, 1) if isinstance(one.step, ManualStep))
        return f"step {last}: a person"
    if not found.outlook.horizon:
        return "end"
    if found.outlook.horizon == "files":
        return f"step {len(steps)}: files"
    for number, planned in reversed([*enumerate(steps, 1)]):
        if planned.step.risk == "reboot" or is_reboot(planned.step):
            return f"step {number}: a reboot"
        if not isinstance(planned.step, (RunStep, EnvStep)):
            return f"step {number}: {_HORIZONS[found.outlook.horizon]}"
    return "end"


def variables_for(findings: Sequence[Finding], *, only: Iterable[str] = ()) -> tuple[VariableRemedy, ...]:
    """Variables that a process needs here, and those that it must not have. For each problem, the first fix that
    needs only environment variables; the first problem takes precedence."""
    found: dict[str, VariableRemedy] = {}
    for finding in _to_fix(findings, frozenset(only)):
        for fix in finding.fixes:
            settings = [remedy for remedy in fix.remedies if isinstance(remedy, VariableRemedy)]
            if settings and len(settings) == len(fix.remedies):
                for remedy in settings:
                    if is_variable(remedy.name, remedy.value if isinstance(remedy, SetVariable) else ""):
                        found.setdefault(remedy.name, remedy)
                break
    return tuple(found.values())


def letting_through(findings: Iterable[Finding], situation: Situation) -> tuple[VariableRemedy, ...]:
    """Variables that keep Python from what stands before the packages which fixes install into the environment."""
    here, found = place(situation.machine), dict[str, VariableRemedy]()
    for finding in _to_fix(tuple(findings), frozenset()):
        for fix in finding.fixes[:1]:
            names = (one.name for one in fix.remedies if isinstance(one, ReplacePackage | ReinstallPackage))
            if (remedy := standing_before(here, situation, names)) is not None:
                found.setdefault(remedy.name, remedy)
    return tuple(found.values())


def _after(plan: Repair, allowed: Permissions, here: Place) -> Iterable[str]:
    """What comes after the plan, in sentences."""
    helpless = [f"No fix is known for {', '.join(plan.helpless)}."] if plan.helpless else []
    if not plan.steps:
        return (*(helpless or (() if plan.left else ("Nothing to fix.",))), *plan.left)
    shown = [planned for planned in plan.steps if planned.state == "shown only"]
    said: list[str] = []
    if plan.to_run:
        said.append("Then gpudoctor checks again.")
    elif allowed.why_not and any(isinstance(planned.step, RunStep) for planned in shown):
        said.append(allowed.why_not)
    said += _by_a_person(plan, shown, allowed, here)
    if any(isinstance(planned.step, EnvStep) for planned in shown):
        said.append(
            'To set the variables, run `eval "$(gpudoctor env)"` in a shell, or `gpudoctor preflight --set-env -- '
            "COMMAND` for one command; no start-up file is changed."
        )
    return (*said, *helpless, *plan.left)


def _open(unanswered: tuple[str, ...]) -> Iterable[str]:
    if unanswered:
        yield f"An important check could not be completed: {'; '.join(unanswered)}."


def _by_a_person(plan: Repair, shown: Sequence[PlannedStep], allowed: Permissions, here: Place) -> Iterable[str]:
    risks = {planned.step.risk for planned in shown}
    as_root = any(isinstance(planned.step, RunStep) and planned.step.risk == "root" for planned in shown)
    if as_root and allowed.system_why_not == Permissions().system_why_not and not allowed.system:
        yield "Run the steps for root with `sudo gpudoctor fix --system`, or run them yourself."
    if "reboot" in risks:
        yield "After the reboot run `gpudoctor check`, which plans the remaining steps."
    elif as_root or any(isinstance(planned.step, ManualStep) for planned in shown):
        yield (
            "Do the steps that are only shown, then check again."
            if plan.to_run or len(plan.steps) > 1
            else "Do this, then check again."
        )
    if here.tool == "managed" and allowed.packages:
        yield "Then check the new environment with `gpudoctor check --python .venv-gpu`."
