"""What a fix achieved: compares the problems before with those found by a second check."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.finding import Finding, NotJudged, SetVariable, UnsetVariable, Verdict
from gpudoctor.machine import Machine


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


def proof(
    before: Sequence[Finding],
    after: Sequence[Finding],
    under_variables: Sequence[Finding],
    questions: Iterable[NotJudged],
    verdict: Verdict,
) -> Proof:
    """Compare two judgements of one machine.

    `under_variables` is the second one for a process that has the variables of `gpudoctor env`.
    """
    unanswered = {question.id: question.why for question in questions if question.matters}
    old, new = _weighty(before), _weighty(after)
    still = {_key(finding) for finding in _weighty(under_variables)}
    had, has = ({_key(finding) for finding in findings} for findings in (old, new))
    lasting = tuple(finding for finding in new if _key(finding) in still)
    return Proof(
        repaired=tuple(finding for finding in old if _key(finding) not in has and finding.id not in unanswered),
        left=tuple(finding for finding in lasting if _key(finding) in had),
        new=tuple(finding for finding in lasting if _key(finding) not in had),
        by_variables=tuple(finding for finding in new if _key(finding) not in still),
        questions=tuple(unanswered.values()),
        verdict=verdict,
    )


def with_variables(machine: Machine, variables: Iterable[SetVariable | UnsetVariable]) -> Machine:
    """The machine as a process with these variables finds it."""
    environ = dict(machine.variables)
    for variable in variables:
        if isinstance(variable, SetVariable):
            environ[variable.name] = variable.value
        else:
            environ.pop(variable.name, None)
    return replace(machine, variables=environ)


def _weighty(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(finding for finding in findings if finding.severity != "note")


def _key(finding: Finding) -> tuple[str, str, str]:
    """The problem and its GPU. Subjects name versions, which a fix changes; a known issue counts by its text."""
    device = f"{finding.device.vendor} {finding.device.index} {finding.device.bdf}" if finding.device else ""
    return finding.id, device, finding.message if finding.slug == "known-issue" else ""
