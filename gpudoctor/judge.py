"""Running the checks over a machine, putting their findings in order, and giving the verdict (design §3)."""

from __future__ import annotations

import importlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.check import Case, Check
from gpudoctor.finding import Finding, NotJudged
from gpudoctor.host import InputError
from gpudoctor.symptoms import answered, settled, with_causes, without_fallbacks

if TYPE_CHECKING:
    from gpudoctor.dockerfile.case import ImageCase
    from gpudoctor.machine import Machine
    from gpudoctor.matrix.questions import Matrix
    from gpudoctor.requirement import Requirement

Verdict = Literal["ok", "warning", "error", "unknown"]
FailOn = Literal["error", "warning", "never"]

_SEVERITIES = ("error", "warning", "note")
_IMAGE_MODULES = ("checks", "driver_checks", "index_checks", "torch_checks", "described_checks", "compose_checks")

_REQUIREMENT = "requirement-not-met"

_MOST_OF_A_KIND, _LONGEST = 50, 5000
"""Of the problems of a recipe: of one kind, and the characters of each of its texts."""

_OWN_FAULTS = ("GPD901", "GPD902")
"""A check, a probe that crashed."""


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
    checks: tuple[Check, ...] = ()
    """Those that ran."""


def all_checks() -> tuple[Check, ...]:
    """Every check of `checks/`, by id."""
    return _checks_of(_modules())


def concerned(case: Case) -> tuple[Check, ...]:
    """The checks whose subject this machine has, by id: the others could say nothing."""
    needs: Mapping[str, Callable[[Case], bool]] = importlib.import_module("gpudoctor.checks").NEEDS
    return _checks_of(tuple(name for name in _modules() if name not in needs or needs[name](case)))


@cache
def _modules() -> tuple[str, ...]:
    folder = importlib.import_module("gpudoctor.checks").__path__[0]
    names = (name.removesuffix(".py") for name in os.listdir(folder) if name.endswith(".py"))
    return tuple(sorted(name for name in names if name != "__init__"))


@cache
def _checks_of(names: tuple[str, ...]) -> tuple[Check, ...]:
    """A module's attributes that are a Check are its checks."""
    modules = [importlib.import_module(f"gpudoctor.checks.{name}") for name in names]
    found = {value for module in modules for value in vars(module).values() if isinstance(value, Check)}
    return tuple(sorted(found, key=lambda check: (check.id, check.slug)))


@cache
def image_checks() -> tuple[Check, ...]:
    """Every check of Dockerfiles and compose files, by id; a judgement of a machine never imports them."""
    modules = [importlib.import_module(f"gpudoctor.dockerfile.{name}") for name in _IMAGE_MODULES]
    found = {value for module in modules for value in vars(module).values() if isinstance(value, Check)}
    return tuple(sorted(found, key=lambda check: check.id))


def judge(
    machine: Machine,
    matrix: Matrix,
    *,
    select: Iterable[str] = (),
    project_select: Iterable[str] = (),
    ignore: Mapping[str, str] | None = None,
    project_ignore: Mapping[str, str] | None = None,
    open_questions: Iterable[NotJudged] = (),
    required: Iterable[Requirement] = (),
) -> Judgement:
    """Run the checks.

    `select` and the keys of `ignore` are ids, slugs or prefixes of ids ("GPD4"); `ignore` maps each to a
    reason. `project_select` and `project_ignore`, from a project's files, do the same, but take back no firm
    requirement, and what the selection leaves out is told.
    `open_questions` are what the probes already could not answer; `required` is what a job asks of the machine: it is
    judged whatever is selected. Raises InputError for a selection that names no check.
    """
    required = tuple(required)
    left_to = () if select else tuple(project_select)
    select = tuple(select) or left_to
    case = Case(machine, matrix, required)
    ignored_ids = {**_project_ids(project_ignore or {}, required), **_ids(ignore or {})}
    # What is not reported may be the cause of what is.
    suite = concerned(case)
    chosen = _chosen((*select, _REQUIREMENT) if select and required else select, suite)
    reported = {check.id for check in chosen} | set(_OWN_FAULTS)
    found, questions = without_fallbacks(*_findings(suite, case))
    findings = [finding for finding in with_causes(found) if finding.id in reported]
    questions = [question for question in questions if question.id in reported]
    # What is ignored explains nothing: a requirement that it leaves unmet stands for itself.
    ignored = [finding for finding in findings if finding.id in ignored_ids]
    findings = settled((finding for finding in findings if finding.id not in ignored_ids), case)
    questions = answered([*open_questions, *questions], case)
    judgement = _judgement([*findings, *ignored], questions, ignored_ids, chosen)
    if not left_to:
        return judgement
    rest = Ignored(id=f"all but {', '.join(left_to)}", why="the project's files select no other checks")
    return replace(judgement, ignored=(*judgement.ignored, rest))


def judge_images(
    case: ImageCase,
    also: Iterable[Finding] = (),
    *,
    select: Iterable[str] = (),
    ignore: Mapping[str, str] | None = None,
) -> Judgement:
    """Run the checks of Dockerfiles. `also` was found on machines that such images are described to run on; of these,
    too, only what was selected counts. Raises InputError for a selection that names no check."""
    wanted = {check for name in select for check in named(name)}
    ids = {check.id for check in wanted}
    chosen = tuple(check for check in image_checks() if check in wanted or not wanted)
    ignored_ids = _ids(ignore or {})
    findings, questions = _findings(chosen, case)
    others = [finding for finding in also if finding.id in ids or not wanted]
    return _judgement(readable([*findings, *others]), questions, ignored_ids, chosen)


def readable(findings: Iterable[Finding]) -> list[Finding]:
    """No more problems of one kind than a person reads, the worst of them, and the rest told in one."""
    kinds: dict[str, list[Finding]] = {}
    for finding in sorted(findings, key=lambda finding: _SEVERITIES.index(finding.severity)):
        kinds.setdefault(finding.id, []).append(_cut(finding))
    return [finding for found in kinds.values() for finding in (*found[:_MOST_OF_A_KIND], *_rest(found))]


def _rest(found: list[Finding]) -> Iterable[Finding]:
    if not (rest := found[_MOST_OF_A_KIND:]):
        return ()
    places = ", ".join(finding.subject for finding in rest[:_MOST_OF_A_KIND])
    message = f"{len(rest):,} more problems of this kind are not listed one by one."
    return (replace(rest[0], message=message, saw=places[:_LONGEST], ways_out=(), evidence=()),)


def _cut(finding: Finding) -> Finding:
    """The same, its texts cut where nobody would read on."""
    evidence = tuple(replace(one, value=one.value[:_LONGEST]) for one in finding.evidence)
    message, saw, want = (text[:_LONGEST] for text in (finding.message, finding.saw, finding.want))
    return replace(finding, message=message, saw=saw, want=want, evidence=evidence)


def _ids(ignore: Mapping[str, str]) -> dict[str, str]:
    """What is ignored, by id: also the faults of gpudoctor itself, which no check finds."""
    ids = {check.id: why for name, why in ignore.items() for check in named(name)}
    own = {id: why for name, why in ignore.items() for id in _OWN_FAULTS if id.startswith(name.upper())}
    return ids | own


def _project_ids(ignore: Mapping[str, str], required: Iterable[Requirement]) -> dict[str, str]:
    """What a project's files ignore, by id."""
    kept = [check.id for check in named(_REQUIREMENT)] if any(one.firm for one in required) else []
    return {id: why for id, why in _ids(ignore).items() if id not in kept}


def _findings(chosen: tuple[Check, ...], case: Any) -> tuple[list[Finding], list[NotJudged]]:
    findings: list[Finding] = []
    questions: list[NotJudged] = []
    for check in chosen:
        found, unanswered = _run(check, case)
        findings.extend(_under_its_cause(finding, check) for finding in found)
        questions.extend(unanswered)
    return findings, questions


def _judgement(
    findings: list[Finding], questions: list[NotJudged], ignored_ids: Mapping[str, str], chosen: tuple[Check, ...]
) -> Judgement:
    kept = [finding for finding in findings if finding.id not in ignored_ids]
    left = tuple(dict.fromkeys(question for question in questions if question.id not in ignored_ids))
    seen = sorted({finding.id for finding in findings} & ignored_ids.keys())
    return Judgement(
        verdict=_verdict(kept, left),
        findings=in_order(kept),
        ignored=tuple(Ignored(id=id, why=ignored_ids[id]) for id in seen),
        not_judged=left,
        checks=chosen,
    )


def ignore_rules(texts: Iterable[str]) -> dict[str, str]:
    """`ID|SLUG|PREFIX[=REASON]` rules as a mapping to the reason."""
    parts = (text.partition("=") for text in texts)
    return {name.strip(): why.strip() for name, _, why in parts}


def exit_code(verdict: Verdict, fail_on: FailOn) -> int:
    """The exit code of design §3."""
    if verdict == "warning":
        return 1 if fail_on == "warning" else 0
    return 0 if fail_on == "never" else {"ok": 0, "error": 1, "unknown": 3}[verdict]


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """By severity; within it a cause before what it explains, then from the metal up (by id)."""
    findings = tuple(findings)
    ordered: list[Finding] = []
    for severity in _SEVERITIES:
        waiting = sorted((f for f in findings if f.severity == severity), key=_place)
        blocked = Counter(slug for finding in waiting for slug in _superseded(finding))
        while waiting:
            first = next((number for number, f in enumerate(waiting) if not blocked[f.slug]), 0)
            ordered.append(waiting.pop(first))
            blocked.subtract(_superseded(ordered[-1]))
    return tuple(ordered)


def _superseded(finding: Finding) -> tuple[str, ...]:
    return tuple(slug for slug in finding.supersedes if slug != finding.slug)


def _place(finding: Finding) -> tuple[str, int]:
    device = finding.device
    return finding.id, -1 if device is None or device.index is None else device.index


def _verdict(findings: Iterable[Finding], questions: Iterable[NotJudged]) -> Verdict:
    severities = {finding.severity for finding in findings}
    if "error" in severities:
        return "error"
    if any(question.matters for question in questions):
        return "unknown"
    return "warning" if "warning" in severities else "ok"


def _run(check: Check, case: Any) -> tuple[tuple[Finding, ...], tuple[NotJudged, ...]]:
    try:
        return check.run(case)
    except Exception as error:  # a check that crashes is one line of the report, the rest goes on
        what = f"{type(error).__name__}: {error}"
        crash = Finding(
            id="GPD901",
            slug="check-crashed",
            severity="warning",
            subject=f"gpudoctor's check {check.id}",
            message=f"The check {check.id} ({check.slug}) crashed and judged nothing. This is a fault of gpudoctor.",
            saw=what,
            want="a judgement",
        )
        return (crash,), (NotJudged(id=check.id, why=f"the check crashed: {what}", matters=True),)


def _under_its_cause(finding: Finding, check: Check) -> Finding:
    """A finding that names another cause than its check's: with the id and layer of the check that judges that."""
    if finding.slug == check.slug:
        return finding
    other = next((other for other in all_checks() if other.slug == finding.slug), None)
    return finding if other is None else replace(finding, id=other.id, layer=other.layer)


def _chosen(names: tuple[str, ...], suite: tuple[Check, ...]) -> tuple[Check, ...]:
    if not names:
        return suite
    wanted = {check for name in names for check in named(name)}
    return tuple(check for check in all_checks() if check in wanted)


def named(name: str) -> tuple[Check, ...]:
    """The checks that an id, a slug or a prefix of an id names."""
    upper = name.upper()

    def among(checks: tuple[Check, ...]) -> tuple[Check, ...]:
        by_id = upper.startswith("GPD")
        return tuple(check for check in checks if check.slug == name or (by_id and check.id.startswith(upper)))

    found = among(all_checks()) or among(image_checks())
    if not found and upper not in ("GPD9", *_OWN_FAULTS):
        import difflib

        checks = (*all_checks(), *image_checks())
        known = [check.slug for check in checks] + [check.id for check in checks]
        near = difflib.get_close_matches(name, known, n=3)
        hint = f"; near it: {', '.join(near)}" if near else ""
        raise InputError(f"no check has the id, slug or prefix {name!r}{hint} (`gpudoctor list` shows them all)")
    return found
