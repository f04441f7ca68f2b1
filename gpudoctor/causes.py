"""What was seen to fail, set against what the facts say of the machine.

A failure that was seen joins the finding of its cause; where kernels ran and computed right, what says that nothing
can run there is refuted.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from gpudoctor.finding import (
    ABSENCE,
    KERNEL,
    SEEN,
    SEVERITIES,
    Confidence,
    Device,
    Evidence,
    Finding,
    Layer,
    NotJudged,
)
from gpudoctor.situation import Situation

_ALTERNATIVES = 2
"""Causes that are told beside the likeliest one."""
_OWN: tuple[Layer, ...] = ("smoke", "gpudoctor")
"""Questions about the smoke kernels, and about gpudoctor itself: no kernel answers them."""


def drop_fallbacks(
    findings: Iterable[Finding], questions: Iterable[NotJudged]
) -> tuple[list[Finding], list[NotJudged]]:
    """What was said only for want of a deeper cause goes where one was found."""
    found = list(findings)
    sure = [finding for finding in found if not finding.fallback]
    left = [finding for finding in found if finding.fallback and not _is_explained(finding, sure)]
    # Of two fallbacks one may still supersede the other by name.
    kept = [one for one in left if not any(_supersedes(other, one) or _tells_more(other, one) for other in left)]
    problems = {finding.slug for finding in kept if finding.severity != "note"}
    sure = [finding for finding in sure if finding.severity != "note" or finding.slug not in problems]
    asked = [one for one in questions if not (one.fallback and _is_explained(one, sure))]
    amiss = any(finding.severity != "note" for finding in (*sure, *kept))
    return [*sure, *kept], [one for one in asked if not (one.if_well and amiss)]


def name_absence_causes(findings: Iterable[Finding]) -> list[Finding]:
    """Symptoms that GPUs are missing, with the slugs of all that takes GPUs away here."""
    found = list(findings)
    causes = tuple(dict.fromkeys(("no-gpu", "no-driver", *(one.slug for one in found if _takes_away(one)))))
    return [
        replace(finding, possible_causes=causes) if ABSENCE in finding.possible_causes else finding
        for finding in found
    ]


def _is_explained(fallback: Finding | NotJudged, findings: list[Finding]) -> bool:
    others = [finding for finding in findings if finding.id != fallback.id]
    if any(_takes_away(other) or _supersedes(other, fallback) for other in others):
        return True
    if not isinstance(fallback, Finding):
        return False
    named = any(one.slug == fallback.slug and _weighs_as(one, fallback) for one in findings)
    return (named and not fallback.devices) or (fallback.severity == "note" and _are_named(fallback.devices, others))


def _are_named(devices: tuple[Device, ...], findings: list[Finding]) -> bool:
    """Whether each of these GPUs has a finding about its driver or about the access to it."""
    named = {device for finding in findings if finding.layer in ("driver", "access") for device in finding.devices}
    return bool(devices) and named.issuperset(devices)


def _takes_away(finding: Finding) -> bool:
    """Whether it keeps GPUs from being used, whatever is installed. A symptom is no cause, whatever its name."""
    return finding.severity == "error" and finding.layer in ("driver", "access") and not finding.possible_causes


def _supersedes(finding: Finding, fallback: Finding | NotJudged) -> bool:
    deeper = fallback.slug in finding.supersedes and fallback.slug != finding.slug
    return deeper and finding.layer in ("driver", "access", "runtime")


def _tells_more(finding: Finding, other: Finding) -> bool:
    """Whether it names the GPU that has the fault of the other one."""
    return finding.slug == other.slug and bool(finding.devices) and not other.devices


def join_symptoms(findings: Iterable[Finding], situation: Situation) -> list[Finding]:
    """The findings with symptoms joined to their causes, and with what the kernels refuted as notes."""
    found = list(findings)
    causes = [finding for finding in found if not finding.possible_causes]
    # A symptom whose text names its cause stands for that cause where nothing else does, and explains the others.
    symptoms = [finding for finding in found if finding.possible_causes]

    def place_in_order(symptom: Finding) -> tuple[bool, bool, bool]:
        narrowed = any(_narrows(other, symptom) for other in symptoms)
        return not _names_cause(symptom), symptom.confidence == "possible", narrowed

    for symptom in sorted(symptoms, key=place_in_order):
        place = _cause_of(symptom, causes)
        if place is None:
            causes.append(symptom)
        else:
            causes[place] = _with_symptom(causes[place], symptom)
    told = [_unless_refuted(finding, situation) for finding in (*causes, *_alternatives(causes))]
    if situation.machine.pasted is None:
        return told
    from gpudoctor.situation.pasted_text import as_the_text_allows

    return [as_the_text_allows(finding, situation) for finding in told]


def _alternatives(findings: list[Finding]) -> list[Finding]:
    """The next likely causes of what was seen, where nothing decides which one it is."""
    named = {finding.slug for finding in findings}
    notes: dict[str, Finding] = {}
    for finding in findings:
        others = [slug for slug in finding.possible_causes if slug != finding.slug][:_ALTERNATIVES]
        for slug in others if finding.ranked else ():
            text = f"It may also be {slug} (`gpudoctor explain {slug}`)."
            note = Finding(severity="note", message=text, subject=finding.subject, confidence="possible")
            if slug not in named:
                notes.setdefault(slug, replace(note, id=finding.id, slug=slug, layer=finding.layer))
    return list(notes.values())


def name_causes(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Findings that are in their order, each with the ids of those before it that it is an effect of."""
    causes: list[Finding] = []
    named: list[Finding] = []
    for finding in findings:
        ids = (cause.id for cause in causes if finding.slug in cause.supersedes and _explains(cause, finding))
        named.append(replace(finding, caused_by=tuple(id for id in dict.fromkeys(ids) if id != finding.id)))
        if finding.supersedes:
            causes.append(finding)
    return tuple(named)


def settle_questions(questions: Iterable[NotJudged], situation: Situation) -> list[NotJudged]:
    """Open questions: none matters any more where every usable GPU computed right."""
    right = (
        situation.machine.smoke is not None
        and bool(situation.usable)
        and all(map(situation.computed, situation.usable))
    )
    return [replace(q, matters=False) if right and q.layer not in _OWN else q for q in questions]


def _cause_of(symptom: Finding, causes: list[Finding]) -> int | None:
    for slug in symptom.possible_causes:
        for place, cause in enumerate(causes):
            if cause.slug == slug and _explains(cause, symptom):
                return place
    return None


def _explains(cause: Finding, symptom: Finding) -> bool:
    """A note explains no error, unless the symptom's own text names it."""
    apart = cause.devices and symptom.devices and not set(cause.devices) & set(symptom.devices)
    return not apart and (_weighs_as(cause, symptom) or cause.slug == symptom.slug)


def _weighs_as(cause: Finding, effect: Finding) -> bool:
    return cause.severity != "note" or effect.severity == "note"


def _names_cause(symptom: Finding) -> bool:
    return symptom.slug in symptom.possible_causes


def _narrows(symptom: Finding, other: Finding) -> bool:
    """Whether one text names what the other one only may mean, and not the reverse."""
    return symptom.slug in other.possible_causes[1:] and other.slug not in symptom.possible_causes


def _with_symptom(cause: Finding, symptom: Finding) -> Finding:
    """The cause with the symptom as its evidence: proved, if the symptom's text names it."""
    proved = _names_cause(symptom) and symptom.confidence == "certain"
    seen = symptom.saw.removesuffix(".")
    known = symptom.saw in (cause.saw, cause.message) or seen in cause.message.partition(SEEN)[2]
    told = f"{cause.message.removesuffix('.')}; " if SEEN in cause.message else f"{cause.message} {SEEN} "
    confidence: Confidence = "certain" if proved else cause.confidence
    return replace(
        cause,
        severity=min(cause.severity, symptom.severity, key=SEVERITIES.index),
        message=cause.message if known else f"{told}{seen}.",
        confidence=confidence,
        evidence=(*cause.evidence, *(item for item in symptom.evidence if item not in cause.evidence)),
        fixes=cause.fixes or symptom.fixes,
        supersedes=tuple(dict.fromkeys((*cause.supersedes, *symptom.supersedes))),
    )


def _unless_refuted(finding: Finding, situation: Situation) -> Finding:
    """What keeps a GPU from computing, and did not. If it was only inferred, nothing has to be repaired; a library
    that refused is a fault of whatever asks that one, as NVML's is of nvidia-smi."""
    if finding.severity != "error" or not _is_answered(finding, situation):
        return finding
    if finding.slug not in situation.matrix.errors.stopping_causes:
        return finding
    gpus = [gpu for gpu in situation.usable if not finding.devices or Device.of(gpu) in finding.devices]
    if not gpus or not all(map(situation.computed, gpus)):
        return finding
    names = ", ".join(name for name, gpu in situation.behind.items() if gpu in gpus)
    inferred = finding.confidence != "certain"
    refuted = " Smoke kernels ran on it all the same and computed right"
    return replace(
        finding,
        severity="note" if inferred else "warning",
        message=f"{finding.message}{refuted}{': nothing has to be done.' if inferred else '.'}",
        evidence=(*finding.evidence, Evidence("smoke", f"every kernel passed on {names}", "smoke kernels")),
        fixes=() if inferred else finding.fixes,
    )


def _is_answered(finding: Finding, situation: Situation) -> bool:
    """Whether the kernels that ran would show it: those of one framework need no other one, and no package beside.
    What one of them showed, the others do not refute."""
    smoke = situation.machine.smoke
    shown = any(item.source == KERNEL for item in finding.evidence)
    return (
        smoke is not None
        and not shown
        and finding.layer != "packages"
        and finding.framework in (None, smoke.framework)
    )
