"""How a machine will be judged after a fix, before anything is changed. Pure.

A fix is applied to the record by the effects of its remedies, and the same checks judge the record again. So a fix
that does not clear its problem, or that breaks something, is known before it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct

from gpudoctor.finding import (
    SEVERITIES,
    AnyRemedy,
    Finding,
    Fix,
    Manual,
    ReinstallPackage,
    RemovePackage,
    ReplacePackage,
    ReplaceTorch,
)
from gpudoctor.machine import Machine, Torch
from gpudoctor.matrix.versions import package_matches
from gpudoctor.planner.effects import Horizon, effect
from gpudoctor.situation import Situation

Judge = Callable[[Machine], Iterable[Finding]]
"""The checks, with what a person selected and ignored."""

Key = tuple[str, str, str]
PACKAGE_REMEDIES = (ReplacePackage, ReinstallPackage, RemovePackage)

TRIED = ".trial"
"""How evidence of a problem that an import showed ends: "torch.trial", "jax.trial"."""


def key_of(finding: Finding) -> Key:
    """The problem and what it is about. Subjects name versions, which a fix changes; a known issue counts by its
    text."""
    device = f"{finding.device.vendor} {finding.device.index} {finding.device.bdf}" if finding.device else ""
    about = finding.message if finding.slug == "known-issue" else finding.subject.partition(" ")[0]
    return finding.id, device, about


class Outlook(Struct, frozen=True):
    """A machine, now or after fixes, and what is wrong with it then."""

    machine: Machine
    problems: tuple[Finding, ...]
    """Errors and warnings, and notes that are wanted; first cause first."""
    trusted: frozenset[Key] = frozenset()
    """Problems whose fix cannot be foreseen: a person does it, or only the real thing tells."""
    horizon: Horizon = ""
    """What foresight ended at on the way here."""
    notes: tuple[Finding, ...] = ()
    """What is only noted then."""

    def has(self, finding: Finding) -> bool:
        """Whether the problem is there, at least as severe."""
        key, severity = key_of(finding), _place(finding)
        return any(key_of(one) == key and _place(one) <= severity for one in self.problems)


def _place(finding: Finding) -> int:
    return SEVERITIES.index(finding.severity)


class Foresight:
    """Looks ahead from one machine."""

    def __init__(
        self, situation: Situation, judge: Judge, findings: Iterable[Finding], also: Iterable[str] = ()
    ) -> None:
        """`findings` are those of the machine as it is; `also` are ids of notes that count as problems."""
        self._situation = situation
        self._judge = judge
        self._also = frozenset(also)
        problems, notes = self._sorted(findings)
        self._seen = frozenset(map(key_of, problems))
        self.now = Outlook(situation.machine, problems, notes=notes)
        self.judged = 0
        """How often the checks ran again."""

    @property
    def peer_torch(self) -> Torch | None:
        """The torch of equal machines beside this one."""
        return self._situation.peer_torch

    def outlook_after(self, outlook: Outlook, finding: Finding, fix: Fix) -> Outlook:
        """What is left after one fix for a problem."""
        machine, horizon, blind = outlook.machine, outlook.horizon, not fix.remedies
        for remedy in fix.remedies:
            done = effect(remedy, self._situation.on(machine))
            machine, horizon, blind = done.machine, horizon or done.horizon, blind or done.blind
        # What was only seen (a kernel that failed, an error that was printed) is seen again only by trying: it does
        # not stand for itself once its cause is gone.
        trusted = outlook.trusted
        if blind or _was_seen(finding):
            trusted |= {key_of(finding), *(key_of(one) for one in outlook.problems if _is_effect(one, finding))}
        problems, notes = outlook.problems, outlook.notes
        if machine != outlook.machine:
            self.judged += 1
            problems, notes = self._sorted(self._judge(machine))
        problems = tuple(
            one
            for one in problems
            if key_of(one) not in trusted
            and not (_was_seen(one) and (key_of(one) == key_of(finding) or key_of(one) not in self._seen))
        )
        told = set(map(key_of, problems))
        failing = (one for one in outlook.problems if key_of(one) not in told | trusted)
        problems += tuple(one for one in failing if _still_fails(one, finding, fix))
        return Outlook(machine, problems, trusted, horizon, notes)

    def _sorted(self, findings: Iterable[Finding]) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
        """Problems, and what is only noted."""
        problems: list[Finding] = []
        notes: list[Finding] = []
        for one in findings:
            (problems if one.severity != "note" or one.id in self._also else notes).append(one)
        return tuple(problems), tuple(notes)


def _was_seen(finding: Finding) -> bool:
    return bool(finding.possible_causes) or finding.layer == "smoke"


def _still_fails(failed: Finding, finding: Finding, fix: Fix) -> bool:
    """Whether an import that was tried and failed is expected to fail after a fix for another problem. Only trying it
    would tell, so the record does not."""
    if not any(one.fact.endswith(TRIED) for one in failed.evidence) or key_of(failed) == key_of(finding):
        return False
    own = failed.fixes[0].remedies if failed.fixes else ()
    if any(isinstance(one, Manual) and one.elsewhere for one in own):
        return True
    if _is_effect(failed, finding) or finding.slug in failed.possible_causes:
        return False
    changed = {one.name for one in fix.remedies if isinstance(one, PACKAGE_REMEDIES) and not _only_adds(one, own)}
    changed |= {"torch" for one in fix.remedies if isinstance(one, ReplaceTorch)}
    written_again = {one.name for one in own if isinstance(one, PACKAGE_REMEDIES)}
    return changed.isdisjoint({failed.subject.partition(" ")[0], failed.framework, *written_again})


def _only_adds(remedy: AnyRemedy, own: Iterable[AnyRemedy]) -> bool:
    """Whether it brings an extra for a package that is to be written again in the same release: its files stay."""
    if not isinstance(remedy, ReplacePackage) or not remedy.extra:
        return False
    again = (one for one in own if isinstance(one, ReinstallPackage) and one.name == remedy.name)
    return any(package_matches(remedy.specifier, one.version) for one in again)


def _is_effect(finding: Finding, cause: Finding) -> bool:
    return finding.slug in cause.supersedes or cause.id in finding.caused_by
