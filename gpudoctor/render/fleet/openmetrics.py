"""A fleet's report in the OpenMetrics text format: numbers by node, for Prometheus and its kin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpudoctor.finding import Verdict
from gpudoctor.render.lines import printable

if TYPE_CHECKING:
    from gpudoctor.fleet.records import FleetReport

VERDICTS: tuple[Verdict, ...] = ("ok", "warning", "error", "unknown")


def text_of(report: FleetReport) -> str:
    """The metrics, with their end mark."""
    return "\n".join((*_lines(report), "# EOF", ""))


def _lines(report: FleetReport) -> Iterator[str]:
    yield from head("gpudoctor_node_verdict", "What gpudoctor says of the node.")
    for node in report.nodes:
        for verdict in VERDICTS:
            labels = f'node="{label(node.name)}",verdict="{verdict}"'
            yield f"gpudoctor_node_verdict{{{labels}}} {int(node.verdict == verdict)}"
    yield from head("gpudoctor_node_problem", "1 for each problem of a node.")
    slugs = {one.id: one.slug for group in report.groups for one in group.problems}
    severities = {(group.id, one.id): one.severity for group in report.groups for one in group.problems}
    for node in report.nodes:
        for id in node.problems:
            severity = severities.get((node.group, id), "error")
            labels = f'node="{label(node.name)}",id="{label(id)}",slug="{label(slugs[id])}",severity="{severity}"'
            yield f"gpudoctor_node_problem{{{labels}}} 1"
    yield from head("gpudoctor_node_odd", "1 for each fact in which a node differs from most nodes.")
    for node in report.nodes:
        for odd in node.odd:
            labels = f'node="{label(node.name)}",fact="{label(odd.fact)}",severity="{odd.severity}"'
            yield f"gpudoctor_node_odd{{{labels}}} 1"
    yield from head("gpudoctor_nodes", "Nodes by verdict.")
    counts = Counter(node.verdict for node in report.nodes)
    yield from (f'gpudoctor_nodes{{verdict="{verdict}"}} {counts[verdict]}' for verdict in VERDICTS)


def head(name: str, help: str) -> Iterator[str]:
    """The lines before the values of a metric."""
    yield f"# TYPE {name} gauge"
    yield f"# HELP {name} {help}"


def label(text: str) -> str:
    """A value as it stands between the quotes of a label."""
    return printable(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
