"""Why a problem is likely and not certain: what its judgement was read from."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpudoctor.report import Report, ReportedFinding

_SYSTEM = ("1", "2", "3")
"""First digits of ids: driver, access, runtime."""


def certainty(finding: ReportedFinding, report: Report) -> str:
    """ "likely: read from a published list, not from the files"."""
    return f"{finding.confidence}: {_reason(finding, report)}"


def _reason(finding: ReportedFinding, report: Report) -> str:
    sources = [evidence.source for evidence in finding.evidence]
    lists = [source for source in sources if source.startswith("compat_matrix")]
    if report.subject.kind == "whatif":
        return "concluded from the description alone"
    if report.subject.kind == "text" and not lists:
        return "read from a text, not from the machine"
    if any("derived" in source for source in lists):
        return "read from the list of a similar build, not from the files"
    if lists:
        return "read from a published list, not from the files"
    if any(evidence.fact.startswith("kernel_log") for evidence in finding.evidence):
        return "read from the kernel log, which is of the past"
    if finding.refs:
        report_of = re.match(r"[\w.-]+/[\w.-]+#\d+", finding.refs[0])
        return f"known from {f'reports ({report_of[0]})' if report_of else 'documents'}, not seen here"
    if finding.id[3:4] in _SYSTEM and report.machine.level == "static":
        return "read from files, the driver was not asked"
    if any(evidence.value == "working folder" for evidence in finding.evidence):
        return "it depends on the folder that programs are started in"
    return "concluded from what was read (-v shows it), not seen to fail"
