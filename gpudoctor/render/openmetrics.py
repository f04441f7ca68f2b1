"""A report in the OpenMetrics text format: one node's verdict and problems, for the textfile collector of
node_exporter and its kin. The names are those of a fleet's metrics; whoever collects them adds the node.

Only gauges: node_exporter reads the older Prometheus format, which refuses a file with types that it does not know.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from gpudoctor.render.fleet.openmetrics import VERDICTS, head, label

if TYPE_CHECKING:
    from gpudoctor.check import Check
    from gpudoctor.report import Report


def openmetrics(report: Report, checks: Sequence[Check[Any]]) -> str:
    """The metrics, with their end mark."""
    return "\n".join((*_lines(report), "# EOF", ""))


def _lines(report: Report) -> Iterator[str]:
    yield from head("gpudoctor_node_verdict", "What gpudoctor says of the node.")
    for verdict in VERDICTS:
        yield f'gpudoctor_node_verdict{{verdict="{verdict}"}} {int(report.verdict == verdict)}'
    yield from head("gpudoctor_node_problem", "How often a node has a problem.")
    counts: dict[str, int] = {}
    for finding in report.findings:
        if finding.severity != "note":
            labels = f'id="{label(finding.id)}",slug="{label(finding.slug)}",severity="{finding.severity}"'
            counts[labels] = counts.get(labels, 0) + 1
    yield from (f"gpudoctor_node_problem{{{labels}}} {count}" for labels, count in counts.items())
    yield from head("gpudoctor_node_ignored", "1 for what a person chose to ignore.")
    for ignored in report.ignored:
        yield f'gpudoctor_node_ignored{{id="{label(ignored.id)}",why="{label(ignored.why)}"}} 1'
    yield from head("gpudoctor_node_checked_timestamp_seconds", "When the node was checked.")
    created = datetime.fromisoformat(report.created.replace("Z", "+00:00"))
    yield f"gpudoctor_node_checked_timestamp_seconds {created.timestamp():.0f}"
