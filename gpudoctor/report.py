"""The report: the JSON contract as records, and how a judgement becomes one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field

from gpudoctor import __version__
from gpudoctor.engine import Ignored, Judgement
from gpudoctor.exit_codes import FailOn, exit_code
from gpudoctor.finding import Confidence, Device, Evidence, Finding, Severity, Verdict
from gpudoctor.machine import Machine, SmokeStatus, SubjectKind
from gpudoctor.machine import Smoke as SmokeRun
from gpudoctor.plain_text import utc
from gpudoctor.records import view_as
from gpudoctor.situation import Situation
from gpudoctor.step import PlannedFix

if TYPE_CHECKING:
    from gpudoctor.matrix.questions import Matrix

SCHEMA = 1


class Subject(Struct, frozen=True):
    """What was examined: this machine, a root, a snapshot, a description."""

    kind: SubjectKind
    label: str

    @property
    def here(self) -> bool:
        """Whether it is the machine that the reader sits at, and not one that is only described."""
        return self.kind == "machine"

    @property
    def name(self) -> str:
        """How a sentence names it."""
        return "this machine" if self.here else self.label


class ReportedFinding(Struct, frozen=True):
    """A finding with the steps of its fixes, best first."""

    id: str
    slug: str
    severity: Severity
    confidence: Confidence
    subject: str
    device: Device | None
    devices: tuple[Device, ...]
    """Every GPU concerned."""
    framework: str | None
    caused_by: tuple[str, ...]
    """Ids of the findings that it is an effect of."""
    message: str
    saw: str
    want: str
    evidence: tuple[Evidence, ...]
    fixes: tuple[PlannedFix, ...]
    refs: tuple[str, ...]


class ReportedQuestion(Struct, frozen=True):
    """A question that was not answered, and whether it decides about a usable GPU."""

    id: str
    why: str
    matters: bool


class SmokeKernel(Struct, frozen=True):
    """What one smoke kernel did on one device with one dtype. `ms` is milliseconds; `error` and `tolerance` are in
    the same measure; null: not measured, or (an error with status wrong) no number at all."""

    name: str
    device: str
    dtype: str
    status: SmokeStatus
    ms: float | None
    error: float | None
    tolerance: float | None
    detail: str


class Smoke(Struct, frozen=True):
    """Results of the smoke kernels; `level` is the one that was asked for."""

    level: Literal["quick", "standard", "full"]
    kernels: tuple[SmokeKernel, ...]


class Report(Struct, frozen=True, kw_only=True):
    """What `gpudoctor.diagnose` returns and `check --format json` prints."""

    schema: int = SCHEMA
    gpudoctor: str = __version__
    matrix: str
    subject: Subject
    created: str = field(default_factory=lambda: utc(time.time()))
    verdict: Verdict
    exit_code: int
    machine: Machine
    findings: tuple[ReportedFinding, ...]
    ignored: tuple[Ignored, ...]
    not_judged: tuple[ReportedQuestion, ...]
    smoke: Smoke | None = None
    timings_ms: dict[str, float] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether GPU work can start here: the verdict is "ok" or "warning"."""
        return self.verdict in ("ok", "warning")

    @property
    def open_questions(self) -> tuple[ReportedQuestion, ...]:
        """What could not be judged and decides about a usable GPU."""
        return tuple(question for question in self.not_judged if question.matters)


def make_report(
    machine: Machine,
    matrix: Matrix,
    judgement: Judgement,
    *,
    subject: Subject,
    fail_on: FailOn = "error",
    timings_ms: dict[str, float] | None = None,
) -> Report:
    """The report of a judgement, with the steps that repair each finding here."""
    situation = Situation(machine, matrix)
    return Report(
        matrix=matrix.tables.version,
        subject=subject,
        verdict=judgement.verdict,
        exit_code=exit_code(judgement.verdict, fail_on),
        machine=machine,
        findings=tuple(_report_finding(finding, situation) for finding in judgement.findings),
        ignored=judgement.ignored,
        not_judged=tuple(ReportedQuestion(one.id, one.why, one.matters) for one in judgement.not_judged),
        smoke=_smoke(machine.smoke) if machine.smoke else None,
        timings_ms=timings_ms or {},
    )


def _report_finding(finding: Finding, situation: Situation) -> ReportedFinding:
    fixes: tuple[PlannedFix, ...] = ()
    if finding.fixes:
        from gpudoctor.planner.plan import fixes_for  # a healthy machine needs no plan

        fixes = fixes_for(finding, situation)
    return view_as(ReportedFinding, finding, fixes=fixes)


def _smoke(run: SmokeRun) -> Smoke:
    """The results as the contract has them; signals, measures and last words stay in the machine."""
    kernels = (view_as(SmokeKernel, kernel, detail=kernel.detail or kernel.message) for kernel in run.kernels)
    return Smoke(run.level, tuple(kernels))
