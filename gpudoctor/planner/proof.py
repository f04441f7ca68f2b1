"""What a fix achieved: compares the problems before with those found by a second check."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from gpudoctor.finding import Finding, NotJudged, VariableRemedy, Verdict
from gpudoctor.planner.foresight import key_of

if TYPE_CHECKING:
    from gpudoctor.planner.repair import Predicted


class Proof(Struct, frozen=True):
    """Errors and warnings of both checks, grouped by what became of them."""

    repaired: tuple[Finding, ...]
    left: tuple[Finding, ...]
    new: tuple[Finding, ...]
    by_variables: tuple[Finding, ...]
    """Remaining problems that only need a variable, which no fix writes into a start-up file."""
    questions: tuple[str, ...]
    """Questions about a usable GPU that the second check could not answer."""
    verdict: Verdict
    unforeseen: tuple[str, ...] = ()
    """Ids of problems that are left or new, and that the plan did not predict."""
    ahead: tuple[VariableRemedy, ...] = ()
    """Variables that let the packages of the environment through, which others stand before."""


def proof(
    before: Sequence[Finding],
    after: Sequence[Finding],
    under_variables: Sequence[Finding],
    questions: Iterable[NotJudged],
    verdict: Verdict,
    predicted: Predicted | None = None,
) -> Proof:
    """Compare two judgements of one machine, and the second with what was predicted to the end of the plan.
    `under_variables` is the second one for a process that has the variables which are needed here."""
    unanswered = {question.id: question.why for question in questions if question.matters}
    old, new = _weighty(before), _weighty(after)
    still = {key_of(finding) for finding in _weighty(under_variables)}
    had, has = ({key_of(finding) for finding in findings} for findings in (old, new))
    lasting = tuple(finding for finding in new if key_of(finding) in still)
    return Proof(
        repaired=tuple(finding for finding in old if key_of(finding) not in has and finding.id not in unanswered),
        left=tuple(finding for finding in lasting if key_of(finding) in had),
        new=tuple(finding for finding in lasting if key_of(finding) not in had),
        by_variables=tuple(finding for finding in new if key_of(finding) not in still),
        questions=tuple(unanswered.values()),
        verdict=verdict,
        unforeseen=_unforeseen(lasting, predicted),
    )


def _unforeseen(lasting: Iterable[Finding], predicted: Predicted | None) -> tuple[str, ...]:
    if predicted is None or predicted.until != "end":
        return ()
    return tuple(dict.fromkeys(finding.id for finding in lasting if finding.id not in predicted.left))


def _weighty(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(finding for finding in findings if finding.severity != "note")
