"""Pasted texts in tests: the machine that one tells of, and what is judged of it by the real matrix."""

from __future__ import annotations

from gpudoctor.engine import Judgement
from gpudoctor.finding import Finding
from gpudoctor.intake.text.reading import read_text
from gpudoctor.machine import Machine
from tests.support.check_cases import matrix
from tests.support.judging import judged


def machine(text: str) -> Machine:
    return read_text(text.encode(), matrix())


def judgement(text: str) -> Judgement:
    return judged(machine(text))


def problems(text: str) -> list[str]:
    """Slugs of errors and warnings, in order."""
    return [finding.slug for finding in judgement(text).findings if finding.severity != "note"]


def first(text: str) -> Finding:
    return judgement(text).findings[0]


def advice(text: str) -> str:
    """The fixes of the first problem, in words."""
    return " ".join(str(fix) for fix in first(text).fixes)
