"""Running checks over what they judge, putting their findings in order, and giving the verdict.

The checks are a parameter: machines, recipes of images and plugins are judged by one engine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.causes import drop_fallbacks, join_symptoms, name_absence_causes, name_causes, settle_questions
from gpudoctor.check import Check, Need
from gpudoctor.finding import SEVERITIES, Finding, NotJudged, Verdict, can_be_foreseen, verdict_of
from gpudoctor.host import InputError
from gpudoctor.plain_text import enumeration
from gpudoctor.situation import Situation

if TYPE_CHECKING:
    from gpudoctor.machine import Machine, Torch
    from gpudoctor.matrix.questions import Matrix
    from gpudoctor.requirement import Requirement

J = TypeVar("J")

_REQUIREMENT = "requirement-not-met"

_MOST_OF_A_KIND, _LONGEST = 50, 5000
"""The most problems of one kind in a recipe, and the most characters in each of their texts."""

_OWN_FAULTS = ("GPD901", "GPD902")
"""A check, a probe that crashed."""


Checks = Callable[[], Iterable[Check[J]]]


class Suite(Generic[J]):
    """The checks that judge one kind of subject, by id."""

    def __init__(
        self,
        checks: Iterable[Check[J]],
        others: Callable[[], Iterable[Check[Any]]] = tuple[Check[Any], ...],
        late: Iterable[tuple[Need[J], Checks[J]]] = (),
    ) -> None:
        """`others` are the checks of other subjects: to name one of them is no mistake. `late` are checks that are
        imported where a subject has what all of them need."""
        self._checks = tuple(checks)
        self._others = others
        self._late = tuple(late)

    def __iter__(self) -> Iterator[Check[J]]:
        return iter(_by_id((*self._checks, *(check for _, checks in self._late for check in checks()))))

    def concerned(self, subject: J) -> tuple[Check[J], ...]:
        """The checks whose needs this machine meets; the others would find nothing."""
        late = (check for need, checks in self._late if _holds(need, subject) for check in checks())
        return _by_id(check for check in (*self._checks, *late) if _holds(check.needs, subject))

    def chosen(self, names: Iterable[str]) -> tuple[Check[J], ...]:
        """Those that ids, slugs or prefixes of ids name. Raises InputError for a name of no check."""
        wanted = {check for name in names for check in self.named(name)}
        return tuple(check for check in self if check in wanted)

    def named(self, name: str) -> tuple[Check[Any], ...]:
        """The checks that an id, a slug or a prefix of an id names. Raises InputError where it names none."""
        upper = f"GPD{name}" if name.isascii() and name.isdigit() else name.upper()

        def among(checks: Iterable[Check[Any]]) -> tuple[Check[Any], ...]:
            return tuple(check for check in checks if check.slug == name or _begins(check.id, upper))

        found = among(self) or among(self._others())
        if not found and upper not in ("GPD9", *_OWN_FAULTS):
            import difflib

            known = [text for check in (*self, *self._others()) for text in (check.slug, check.id)]
            near = difflib.get_close_matches(name, known, n=3)
            hint = f": did you mean {' or '.join(near)}?" if near else ""
            raise InputError(f"no check has the id, slug or prefix {name!r}{hint} (`gpudoctor list` shows them all)")
        return found


def _begins(id: str, prefix: str) -> bool:
    """ "GPD4" begins GPD402; its letters must be whole."""
    return id.startswith(prefix) and prefix.startswith(id.rstrip("0123456789"))


def _by_id(checks: Iterable[Check[J]]) -> tuple[Check[J], ...]:
    return tuple(sorted(checks, key=lambda check: (check.id, check.slug)))


def _holds(need: Need[J], subject: J) -> bool:
    try:
        return need(subject)
    except Exception:  # what is wrong with it shows when the check runs
        return True


class Ignored(Struct, frozen=True):
    """A finding that a person chose to ignore, and why."""

    id: str
    why: str


class Judgement(Struct, frozen=True):
    """What the checks found, first cause first."""

    verdict: Verdict
    findings: tuple[Finding, ...]
    ignored: tuple[Ignored, ...]
    not_judged: tuple[NotJudged, ...]
    checks: tuple[Check[Any], ...] = ()
    """The checks that ran."""


def judge(
    machine: Machine,
    matrix: Matrix,
    suite: Suite[Situation],
    *,
    select: Iterable[str] = (),
    project_select: Iterable[str] = (),
    ignore: Mapping[str, str] | None = None,
    project_ignore: Mapping[str, str] | None = None,
    open_questions: Iterable[NotJudged] = (),
    required: Iterable[Requirement] = (),
    peer_torch: Torch | None = None,
    foresee: bool = True,
) -> Judgement:
    """Run the checks over a machine.

    `select` and the keys of `ignore` are ids, slugs or prefixes of ids ("GPD4"); `ignore` maps each to a
    reason. `project_select` and `project_ignore`, from a project's files, do the same, but take back no firm
    requirement, and what the selection leaves out is told.
    `open_questions` are what the probes already could not answer; `required` is what a job asks of the machine: it is
    judged whatever is selected. `peer_torch` is the torch that works on equal machines. With `foresee`, each fix is
    tried on the record: those that clear their problem and break nothing come first, those that do not clear it are
    left out. Raises InputError for a selection that names no check.
    """
    situation, open_questions = Situation(machine, matrix, tuple(required), peer_torch), tuple(open_questions)
    left_to = () if select else tuple(project_select)
    select = tuple(select) or left_to

    def judged(situation: Situation) -> Judgement:
        return _judge(situation, suite, select, ignore or {}, project_ignore or {}, open_questions)

    judgement = judged(situation)
    if foresee and can_be_foreseen(judgement.findings):
        from gpudoctor.planner.search import with_ranked_fixes  # a healthy machine needs no plan

        ranked = with_ranked_fixes(judgement.findings, situation, lambda other: judged(situation.on(other)).findings)
        judgement = replace(judgement, findings=ranked)
    if not left_to:
        return judgement
    rest = Ignored(id=f"all but {', '.join(left_to)}", why="the project's files select no other checks")
    return replace(judgement, ignored=(*judgement.ignored, rest))


def _judge(
    situation: Situation,
    suite: Suite[Situation],
    select: tuple[str, ...],
    ignore: Mapping[str, str],
    project_ignore: Mapping[str, str],
    open_questions: tuple[NotJudged, ...],
) -> Judgement:
    required = situation.required
    ignored_ids = {**_project_ids(project_ignore, suite, required), **_ids(ignore, suite)}
    # What is not reported may be the cause of what is.
    running = suite.concerned(situation)
    wanted = (*select, _REQUIREMENT) if select and required else select
    chosen = suite.chosen(wanted) if wanted else running
    found, questions = drop_fallbacks(*_findings(running, situation, suite))
    findings = name_absence_causes(found)
    if wanted:
        reported = {check.id for check in chosen} | set(_OWN_FAULTS)
        findings = [finding for finding in findings if finding.id in reported]
        questions = [question for question in questions if question.id in reported]
    # What is ignored explains nothing: a requirement that it leaves unmet stands for itself.
    ignored = [finding for finding in findings if finding.id in ignored_ids]
    counting = (finding for finding in findings if finding.id not in ignored_ids)
    own = {(check.id, check.slug) for check in running}  # all other checks need not be imported to know a name
    findings = [
        finding if (finding.id, finding.slug) in own else _under_its_own_name(finding, suite)
        for finding in join_symptoms(counting, situation)
    ]
    questions = settle_questions([*open_questions, *questions], situation)
    return _judgement([*findings, *ignored], questions, ignored_ids, chosen)


def judge_recipe(
    recipe: J,
    suite: Suite[J],
    also: Iterable[Finding] = (),
    *,
    select: Iterable[str] = (),
    ignore: Mapping[str, str] | None = None,
) -> Judgement:
    """Run the checks of images over a recipe. `also` was found on machines that such images are described to run on;
    of these, too, only what was selected counts. Raises InputError for a selection that names no check."""
    ids = {check.id for name in select for check in suite.named(name)}
    chosen = suite.chosen(select) if ids else tuple(suite)
    ignored_ids = _ids(ignore or {}, suite)
    findings, questions = _findings(chosen, recipe, suite)
    others = [finding for finding in also if finding.id in ids or not ids]
    return _judgement(readable([*findings, *others]), questions, ignored_ids, chosen)


def readable(findings: Iterable[Finding]) -> list[Finding]:
    """At most as many problems of one kind as a person reads, the worst first; one more finding counts the rest."""
    kinds: dict[str, list[Finding]] = {}
    for finding in sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity)):
        kinds.setdefault(finding.id, []).append(_cut(finding))
    return [finding for found in kinds.values() for finding in (*found[:_MOST_OF_A_KIND], *_rest(found))]


def _rest(found: list[Finding]) -> Iterable[Finding]:
    if not (rest := found[_MOST_OF_A_KIND:]):
        return ()
    places = enumeration([finding.subject for finding in rest], _MOST_OF_A_KIND)
    message = f"{len(rest):,} more problems of this kind are not listed one by one."
    return (replace(rest[0], message=message, saw=places[:_LONGEST], fixes=(), evidence=()),)


def _cut(finding: Finding) -> Finding:
    """The finding with its texts cut to a length that people read."""
    evidence = tuple(replace(one, value=one.value[:_LONGEST]) for one in finding.evidence)
    message, saw, want = (text[:_LONGEST] for text in (finding.message, finding.saw, finding.want))
    return replace(finding, message=message, saw=saw, want=want, evidence=evidence)


def _ids(ignore: Mapping[str, str], suite: Suite[Any]) -> dict[str, str]:
    """What is ignored, by id: also the faults of gpudoctor itself, which no check finds."""
    ids = {check.id: why for name, why in ignore.items() for check in suite.named(name)}
    own = {id: why for name, why in ignore.items() for id in _OWN_FAULTS if id.startswith(name.upper())}
    return ids | own


def _project_ids(ignore: Mapping[str, str], suite: Suite[Any], required: Iterable[Requirement]) -> dict[str, str]:
    """What a project's files ignore, by id."""
    kept = [check.id for check in suite.named(_REQUIREMENT)] if any(one.firm for one in required) else []
    return {id: why for id, why in _ids(ignore, suite).items() if id not in kept}


def _findings(running: Iterable[Check[J]], subject: J, suite: Suite[J]) -> tuple[list[Finding], list[NotJudged]]:
    findings: list[Finding] = []
    questions: list[NotJudged] = []
    for check in running:
        found, unanswered = _run(check, subject)
        findings.extend(_under_its_cause(finding, check, suite) for finding in found)
        questions.extend(unanswered)
    return findings, questions


def _judgement(
    findings: list[Finding],
    questions: list[NotJudged],
    ignored_ids: Mapping[str, str],
    chosen: tuple[Check[Any], ...],
) -> Judgement:
    kept = [finding for finding in findings if finding.id not in ignored_ids]
    left = tuple(dict.fromkeys(question for question in questions if question.id not in ignored_ids))
    seen = sorted({finding.id for finding in findings} & ignored_ids.keys())
    return Judgement(
        verdict=verdict_of(kept, left),
        findings=name_causes(in_order(kept)),
        ignored=tuple(Ignored(id=id, why=ignored_ids[id]) for id in seen),
        not_judged=left,
        checks=chosen,
    )


def ignore_rules(texts: Iterable[str]) -> dict[str, str]:
    """`ID|SLUG|PREFIX[=REASON]` rules as a mapping to the reason."""
    parts = (text.partition("=") for text in texts)
    return {name.strip(): why.strip() for name, _, why in parts}


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """By severity; within it a cause before what it explains, a guess last, then from the metal up (by id)."""
    findings = tuple(findings)
    ordered: list[Finding] = []
    for severity in SEVERITIES:
        waiting = sorted((f for f in findings if f.severity == severity), key=_place)
        blocked = Counter(slug for finding in waiting for slug in _effects(finding))
        while waiting:
            free = (n for n, f in enumerate(waiting) if not blocked[f.slug] and not _may_come_of(f, waiting))
            first = next(free, 0)
            ordered.append(waiting.pop(first))
            blocked.subtract(_effects(ordered[-1]))
    return tuple(ordered)


def _may_come_of(finding: Finding, others: Iterable[Finding]) -> bool:
    """Whether another message tells a cause that it leaves open; two that leave each other open are equal."""
    return any(
        other.slug in finding.possible_causes
        and finding.slug not in (other.slug, *other.possible_causes)
        and any(item.fact == "error" for item in other.evidence)
        for other in others
    )


def _effects(finding: Finding) -> tuple[str, ...]:
    return tuple(slug for slug in finding.supersedes if slug != finding.slug)


def _place(finding: Finding) -> tuple[bool, str, int]:
    device = finding.device
    return (
        finding.confidence == "possible",
        finding.id,
        -1 if device is None or device.index is None else device.index,
    )


def _run(check: Check[J], subject: J) -> tuple[tuple[Finding, ...], tuple[NotJudged, ...]]:
    try:
        return check.run(subject)
    except Exception as error:  # a check that crashes is one line of the report, the rest goes on
        what = f"{type(error).__name__}: {error}"
        own = check.id.startswith("GPD")
        crash = Finding(
            id="GPD901",
            slug="check-crashed",
            severity="warning",
            subject=f"{'gpudoctor' if own else 'the plugin'}'s check {check.id}",
            message=f"The check {check.id} ({check.slug}) crashed and judged nothing. This is a fault of "
            f"{'gpudoctor' if own else 'its plugin'}.",
            saw=what,
            want="a judgement",
        )
        return (crash,), (NotJudged(id=check.id, why=f"the check crashed: {what}", matters=True),)


def _under_its_cause(finding: Finding, check: Check[J], suite: Suite[J]) -> Finding:
    """A finding that names another cause than its check's, as if that cause's own check had found it."""
    return finding if finding.slug == check.slug else _under_its_own_name(finding, suite)


def _under_its_own_name(finding: Finding, suite: Suite[Any]) -> Finding:
    """The finding with the id of the check that has its slug, if one has."""
    other = next((other for other in suite if other.slug == finding.slug), None)
    if other is None or other.id == finding.id:
        return finding
    return replace(finding, id=other.id, layer=other.layer, framework=other.framework)
