"""The cheapest list of fixes after which nothing is wrong any more, found by looking ahead.

The first problem is taken, each of its fixes is tried on the record, and what is left is judged again. A fix that
does not clear its problem is left out; one that breaks something costs what repairs it. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.finding import (
    AddContainerFlags,
    AllowExecution,
    AnyRemedy,
    Finding,
    Fix,
    InstallDriver,
    InstallRocmDriver,
    Manual,
    PackageRemedy,
    Reboot,
    ReinstallPackage,
    RemovePackage,
    ReplacePackage,
    ReplaceTorch,
    SetVariable,
    UnsetVariable,
    VariableRemedy,
)
from gpudoctor.machine import OVERRIDE, Torch
from gpudoctor.planner.foresight import Foresight, Judge, Outlook, key_of
from gpudoctor.situation import Situation
from gpudoctor.situation.import_order import NO_USER_SITE

_MOST_JUDGED = 60
"""Judgements in one search: about half a second."""
_MOST_RANKED = 12
"""Judgements for all fixes of one report: about a tenth of a second."""
_MOST_FIXES = 24

INSIDE = PackageRemedy | AllowExecution | VariableRemedy
"""Remedies that change nothing but the environment."""
_DRIVERS = (InstallDriver, InstallRocmDriver)

# What a remedy costs a person.
_VARIABLE, _PACKAGE, _FRAMEWORK, _SYSTEM, _CONTAINER, _DRIVER, _REBOOT, _PERSON = 1, 10, 30, 100, 300, 400, 1000, 3000
_NEXT_FIX = 5_000
_LEAVES_PEERS = 2_000
_NO_GPU = 1_000_000
"""The cost of computing on the CPU: only an error that nothing else clears is worse."""
# What is left costs more than any fix.
_WARNING, _NEW_WARNING, _ERROR, _NEW_ERROR = 100_000, 150_000, 10_000_000, 20_000_000


class Move(Struct, frozen=True):
    """One fix of a plan: for which problem, and all that it clears."""

    finding: Finding
    fix: Fix
    clears: tuple[Finding, ...] = ()


class Plan(Struct, frozen=True):
    """Fixes in the order in which problems are met, and what is left after them."""

    moves: tuple[Move, ...]
    outlook: Outlook
    left: tuple[Finding, ...]
    """Problems that none of their fixes clears without doing more harm."""


class _Path(Struct, frozen=True):
    """A way through the search."""

    outlook: Outlook
    moves: tuple[Move, ...] = ()
    given_up: tuple[Finding, ...] = ()
    cost: float = 0


class Search:
    """One search. `only` has the ids of the problems to fix; what their fixes break is fixed, too. `chosen` has, by
    the id of a problem, the number of the fix that a person chose. `in_vain` says whether a fix did not help here
    before."""

    def __init__(
        self,
        foresight: Foresight,
        *,
        only: Iterable[str] = (),
        chosen: Mapping[str, int] | None = None,
        in_vain: Callable[[Finding, Fix], bool] = lambda finding, fix: False,
    ) -> None:
        self._foresight = foresight
        self._only = frozenset(only)
        self._chosen = dict(chosen or {})
        self._in_vain = in_vain
        self._at_first = frozenset(map(key_of, foresight.now.problems))
        self._best: _Path | None = None

    def plan(self) -> Plan:
        self._go(_Path(self._foresight.now))
        best = self._best or _Path(self._foresight.now)
        needed = self._needed(best)
        moves = _alone(needed)
        outlook = self._outlook(moves)
        tried = {key_of(move.finding) for move in moves}
        left = (one for one in self._goals(outlook) if key_of(one) not in tried and moves == needed)
        return Plan(tuple(self._with_clears(moves)), outlook, tuple(left))

    # --- the search ------------------------------------------------------------------------------------

    def _go(self, path: _Path) -> None:
        if self._best is not None and path.cost >= self._best.cost:
            return
        given_up = set(map(key_of, path.given_up))
        first = next((one for one in self._goals(path.outlook) if key_of(one) not in given_up), None)
        if first is None or len(path.moves) >= _MOST_FIXES:
            rest = () if first is None else self._goals(path.outlook)
            cost = path.cost + sum(map(self._leaving, rest))
            if self._best is None or cost < self._best.cost:
                self._best = _Path(path.outlook, path.moves, path.given_up, cost)
            return
        for fix, cost in self._fixes(first):
            if self._best is not None and self._foresight.judged >= _MOST_JUDGED:
                break
            after = self._foresight.outlook_after(path.outlook, first, fix)
            if after.has(first) or any(after.has(move.finding) for move in path.moves):  # what was cleared is back
                continue
            moves = (*path.moves, Move(first, fix))
            self._go(_Path(after, moves, path.given_up, path.cost + cost + self._breaking(first, fix)))
        self._go(_Path(path.outlook, path.moves, (*path.given_up, first), path.cost + self._leaving(first)))

    def _goals(self, outlook: Outlook) -> tuple[Finding, ...]:
        """The problems that the plan is for: those that a person named, and new ones. A person who chooses a fix
        accepts what follows from it."""
        if self._chosen:
            return tuple(
                one
                for one in outlook.problems
                if key_of(one) in self._at_first and (not self._only or one.id in self._only)
            )
        if not self._only:
            return outlook.problems
        return tuple(one for one in outlook.problems if one.id in self._only or key_of(one) not in self._at_first)

    def _fixes(self, finding: Finding) -> Iterator[tuple[Fix, float]]:
        """The fixes of a problem, cheapest first."""
        number = self._chosen.get(finding.id)
        fixes = list(zip(finding.fixes, costs(finding.fixes, self._foresight.peer_torch), strict=True))
        if number is not None and key_of(finding) in self._at_first:
            fixes = fixes[number - 1 : number]
        elif not self._only:
            fixes = [(fix, cost) for fix, cost in fixes if not self._in_vain(finding, fix)]
        yield from sorted(fixes, key=lambda one: one[1])

    def _leaving(self, finding: Finding) -> float:
        if key_of(finding) in self._at_first:
            return _ERROR if finding.severity == "error" else _WARNING
        return _NEW_ERROR if finding.severity == "error" else _NEW_WARNING

    def _breaking(self, finding: Finding, fix: Fix) -> float:
        """What it costs that an earlier fix breaks something which only a person can try to mend."""
        by_the_plan = finding.severity == "error" and key_of(finding) not in self._at_first
        return _NEW_WARNING if by_the_plan and fix.by_hand else 0

    # --- the plan --------------------------------------------------------------------------------------

    def _needed(self, best: _Path) -> tuple[Move, ...]:
        """The fixes without those that a later one makes needless, and without a torch that a later one replaces."""
        moves = best.moves
        if len(moves) < 2:
            return moves
        leaves = self._leaves(moves)
        for move in best.moves:
            without = tuple(other for other in moves if other is not move)
            if self._leaves(without) <= leaves:
                moves = without
        once = _without_replaced_builds(moves)
        return once if once != moves and self._leaves(once) <= leaves else moves

    def _leaves(self, moves: tuple[Move, ...]) -> float:
        return sum(map(self._leaving, self._goals(self._outlook(moves))))

    def _outlook(self, moves: tuple[Move, ...]) -> Outlook:
        outlook = self._foresight.now
        for move in moves:
            outlook = self._foresight.outlook_after(outlook, move.finding, move.fix)
        return outlook

    def _with_clears(self, moves: tuple[Move, ...]) -> Iterator[Move]:
        outlook = self._foresight.now
        for move in moves:
            after = self._foresight.outlook_after(outlook, move.finding, move.fix)
            gone = tuple(one for one in outlook.problems if not after.has(one))
            yield Move(move.finding, move.fix, gone or (move.finding,))
            outlook = after


def _without_replaced_builds(moves: tuple[Move, ...]) -> tuple[Move, ...]:
    """The moves with only the last of several builds of torch; their other remedies stay."""
    builds = [remedy for move in moves for remedy in move.fix.remedies if isinstance(remedy, ReplaceTorch)]
    replaced = [id(remedy) for remedy in builds[:-1]]
    kept = ((move, tuple(one for one in move.fix.remedies if id(one) not in replaced)) for move in moves)
    return tuple(replace(move, fix=replace(move.fix, remedies=remedies)) for move, remedies in kept if remedies)


def _alone(moves: tuple[Move, ...]) -> tuple[Move, ...]:
    """Only the step that leads to another system, if an error has such a fix: nothing that is changed here helps."""
    for move in moves:
        leads_away = any(isinstance(remedy, Manual) and remedy.elsewhere for remedy in move.fix.remedies)
        if leads_away and move.finding.severity == "error" and not move.finding.device:
            return (move,)
    return moves


def costs(fixes: Sequence[Fix], peer_torch: Torch | None = None) -> tuple[float, ...]:
    """What each fix of a problem costs a person. The problem's own order decides, but not between a driver and what
    stays inside the environment. Another torch than equal machines have costs more than a driver like theirs."""
    inside = [all(isinstance(remedy, INSIDE) for remedy in fix.remedies) for fix in fixes]
    driver = [any(map(_is_a_driver, fix.remedies)) for fix in fixes]
    found = []
    for place, fix in enumerate(fixes):
        apart = sum(driver[:place]) if inside[place] else sum(inside[:place]) if driver[place] else 0
        found.append(sum(_cost(remedy, peer_torch) for remedy in fix.remedies) + (place - apart) * _NEXT_FIX)
    return tuple(found)


def installs_a_driver(fix: Fix) -> bool:
    """Whether it changes the kernel driver of a vendor."""
    return any(isinstance(remedy, _DRIVERS) for remedy in fix.remedies)


def _is_a_driver(remedy: AnyRemedy) -> bool:
    """Whether it is a driver, or what a person does before a reboot (the driver of WSL is installed in Windows)."""
    return isinstance(remedy, _DRIVERS) or (isinstance(remedy, Manual) and remedy.risk == "reboot")


def _cost(remedy: AnyRemedy, peer_torch: Torch | None) -> float:
    if isinstance(remedy, VariableRemedy):
        # An override makes a GPU run code that was made for another one.
        return (
            _FRAMEWORK + _PACKAGE
            if remedy.name.startswith(OVERRIDE) and isinstance(remedy, SetVariable)
            else _VARIABLE
        )
    if isinstance(remedy, ReplaceTorch):
        leaves = peer_torch and not peer_torch.is_build(remedy.version, remedy.build)
        return _FRAMEWORK + (_NO_GPU if remedy.build == "cpu" else 0) + (_LEAVES_PEERS if leaves else 0)
    if isinstance(remedy, AllowExecution):
        return _PACKAGE
    if isinstance(remedy, (ReplacePackage, ReinstallPackage, RemovePackage)):
        return _FRAMEWORK if remedy.name == "torch" else _PACKAGE
    if isinstance(remedy, Manual):
        return _PERSON
    if isinstance(remedy, Reboot):
        return _REBOOT
    if isinstance(remedy, AddContainerFlags):
        return _CONTAINER
    return _DRIVER if isinstance(remedy, _DRIVERS) else _SYSTEM


def with_ranked_fixes(findings: Iterable[Finding], situation: Situation, judge: Judge) -> tuple[Finding, ...]:
    """The findings, each with its fixes in the order in which they are offered."""
    findings = tuple(findings)
    foresight = Foresight(situation, judge, findings)
    ranked = (
        replace(finding, fixes=_ranked(finding, foresight)) if finding.severity != "note" else finding
        for finding in findings
    )
    return _without_effects(tuple(ranked), foresight, situation)


def _without_effects(
    findings: tuple[Finding, ...], foresight: Foresight, situation: Situation
) -> tuple[Finding, ...]:
    """The findings, in their order: what goes with a variable of another one is its effect, and needs no fix of its
    own. Of a fix that installs something that cannot be told: it may repair both."""
    shown = list(findings)
    for cause in findings:
        if cause.severity == "note" or not cause.fixes or not _takes_back(cause.fixes[0], situation):
            continue
        if cause not in shown or foresight.judged >= _MOST_RANKED:
            continue
        after = foresight.outlook_after(foresight.now, cause, cause.fixes[0])
        for place in range(shown.index(cause) + 1, len(shown)):
            effect = shown[place]
            if effect.severity != "note" and effect.fixes and not after.has(effect):
                causes = tuple(dict.fromkeys((*effect.caused_by, cause.id)))
                shown[place] = replace(effect, fixes=(), caused_by=causes)
    return tuple(shown)


def _takes_back(fix: Fix, situation: Situation) -> bool:
    """Whether a fix only changes what variables say, or takes the user's own packages away."""
    return bool(fix.remedies) and all(
        isinstance(one, UnsetVariable)
        or (isinstance(one, SetVariable) and (one.name == NO_USER_SITE or situation.variable(one.name) is not None))
        for one in fix.remedies
    )


def _ranked(finding: Finding, foresight: Foresight) -> tuple[Fix, ...]:
    """The fixes of a problem: those that clear it and break nothing first, cheapest first among them; then those that
    clear it but need another fix after them. One that does not clear it is left out."""
    good: list[tuple[float, Fix]] = []
    for fix, cost in zip(finding.fixes, costs(finding.fixes, foresight.peer_torch), strict=True):
        if foresight.judged >= _MOST_RANKED:
            good.append((cost, fix))
            continue
        after = foresight.outlook_after(foresight.now, finding, fix)
        if after.has(finding):
            continue
        stays = _WARNING * any(key_of(one) == key_of(finding) for one in after.problems)
        breaks = sum(_breaks(one, foresight.now) for one in after.problems)
        good.append((cost + stays + breaks, fix))
    return tuple(fix for _, fix in sorted(good, key=lambda one: one[0]))


def _breaks(finding: Finding, before: Outlook) -> float:
    if before.has(finding):
        return 0
    return _NEW_ERROR if finding.severity == "error" else _NEW_WARNING
