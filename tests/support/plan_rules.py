"""What holds of every plan, checked by carrying it out on the record.

outcome(machine)      what comes of the machine's plan, and the rules that the plan breaks
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpudoctor.finding import (
    AnyRemedy,
    BlockModule,
    Finding,
    ReinstallPackage,
    RemovePackage,
    ReplacePackage,
    ReplaceTorch,
    SetVariable,
    UnblockModule,
    UnsetVariable,
)
from gpudoctor.machine import Machine
from gpudoctor.planner.foresight import Foresight, key_of
from gpudoctor.planner.search import Move, Plan, Search
from gpudoctor.planner.tasks import tasks_of
from gpudoctor.situation import Situation
from tests.support.check_cases import matrix
from tests.support.judging import found_without_foresight


def outcome(machine: Machine) -> tuple[str, list[str]]:
    """What comes of a machine's plan in a few words, and what is wrong with the plan."""
    foresight = Foresight(Situation(machine, matrix()), found_without_foresight, found_without_foresight(machine))
    plan = Search(foresight).plan()
    faults = [
        *_undone([task.remedy for task in tasks_of(plan.moves)]),
        *_needless(foresight, plan),
        *_brought(foresight, plan),
    ]
    errors = [one for one in plan.outlook.problems if one.severity == "error"]
    if errors:
        without = all(not one.fixes for one in errors)
        return "an error is left that has no fix" if without else "an error is left", faults
    if any(one.blind for one in _moves_with_effects(foresight, plan)):
        return "a person's step ends foresight", faults
    return ("a warning is left" if plan.outlook.problems else "nothing is left"), faults


class _Step:
    def __init__(self, move: Move, blind: bool) -> None:
        self.move, self.blind = move, blind


def _moves_with_effects(foresight: Foresight, plan: Plan) -> Iterator[_Step]:
    outlook = foresight.now
    for move in plan.moves:
        after = foresight.outlook_after(outlook, move.finding, move.fix)
        yield _Step(move, after.trusted != outlook.trusted)
        outlook = after


def _undone(remedies: Sequence[AnyRemedy]) -> Iterator[str]:
    """Two remedies of which one undoes the other."""
    for place, one in enumerate(remedies):
        for other in remedies[place + 1 :]:
            if _is_contrary(one, other):
                yield f"{one} and {other}"


def _is_contrary(one: AnyRemedy, other: AnyRemedy) -> bool:
    if isinstance(one, (SetVariable, UnsetVariable)) and isinstance(other, (SetVariable, UnsetVariable)):
        return one.name == other.name
    if isinstance(one, ReplaceTorch) and isinstance(other, (ReplaceTorch, ReinstallPackage, RemovePackage)):
        return isinstance(other, ReplaceTorch) or other.name == "torch"
    if isinstance(one, ReinstallPackage) and isinstance(other, ReplacePackage) and one.name == other.name:
        return other.specifier != f"=={one.version}"  # its files again, then what its extras bring
    if isinstance(one, (ReplacePackage, ReinstallPackage)) and isinstance(other, (ReplacePackage, RemovePackage)):
        return one.name == other.name
    if isinstance(one, (BlockModule, UnblockModule)) and isinstance(other, (BlockModule, UnblockModule)):
        return one.module == other.module and type(one) is not type(other)
    return False


def _needless(foresight: Foresight, plan: Plan) -> Iterator[str]:
    """A fix without which no more is left."""
    left = _weights(plan.outlook.problems)
    for move in plan.moves:
        outlook = foresight.now
        for other in plan.moves:
            if other is not move:
                outlook = foresight.outlook_after(outlook, other.finding, other.fix)
        if _weights(outlook.problems) <= left:
            yield f"needless: {move.fix.title} (for {move.finding.slug})"


def _weights(problems: Sequence[Finding]) -> tuple[int, int]:
    return sum(one.severity == "error" for one in problems), len(problems)


def _brought(foresight: Foresight, plan: Plan) -> Iterator[str]:
    """A problem that the plan itself brings."""
    before = {key_of(one) for one in foresight.now.problems}
    outlook = foresight.now
    for move in plan.moves:
        outlook = foresight.outlook_after(outlook, move.finding, move.fix)
        if outlook.horizon in ("", "person"):
            before |= set() if outlook.horizon == "" else set(map(key_of, outlook.problems))
        else:
            before |= set(map(key_of, outlook.problems))
    for one in plan.outlook.problems:
        if key_of(one) not in before:
            yield f"brings {one.slug}: {one.message}"
