"""A fleet's report as Markdown. Every text of a node stands in a code span."""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.fleet.names import folded
from gpudoctor.fleet.operators import ready_lines
from gpudoctor.fleet.records import FleetReport
from gpudoctor.render.fleet.summary import by_weight, differences, everyone, headline, problems, silent, title_of
from gpudoctor.render.lines import printable
from gpudoctor.render.markdown import code
from gpudoctor.render.steps import step_lines, telling_steps


def text_of(report: FleetReport) -> str:
    """The page."""
    return printable("\n".join(_lines(report)).rstrip("\n") + "\n")


def _lines(report: FleetReport) -> Iterator[str]:
    yield from (f"## {headline(report)}", "")
    if found := problems(report):
        yield from ("| problem | nodes | |", "|---|---|---|")
        for one in found:
            nodes = code(everyone(one.nodes, report))
            yield f"| {one.severity} {one.id} {one.slug} | {nodes} | {code(one.message)} |"
        yield ""
    if odd := differences(report):
        yield from ("### Different from most nodes", "", "| nodes | fact | value | most nodes |", "|---|---|---|---|")
        for row in odd:
            fact = code(title_of(row.fact))
            yield f"| {code(folded(row.nodes))} | {fact} | {code(row.value)} | {code(row.norm)} |"
        yield ""
    if unknown := silent(report):
        yield from ("### Not known", "", *(f"- {code(node.name)}: {code(node.why)}" for node in unknown), "")
    if report.undecided:
        yield from ("### No majority", "")
        for split in report.undecided:
            told = "; ".join(f"{code(value)}: {code(folded(names))}" for value, names in split.values.items())
            yield f"- {code(title_of(split.fact))}: {told}"
        yield ""
    yield from _plans(report)
    if lines := tuple(ready_lines(report)):
        yield from ("### To take nodes out of use", "")
        for who, line in lines:
            yield from (f"{code(who)}:", "", "```", line, "```", "")


def _plans(report: FleetReport) -> Iterator[str]:
    """One plan for each group of equal nodes."""
    for group in by_weight(report.groups):
        if group.fixes:
            yield from (f"### Plan for {code(folded(group.nodes))}", "")
            for fix in group.fixes:
                steps = [line for step in telling_steps(fix) for line in step_lines(step)]
                yield from (f"- {code(fix.title)}", *(f"  - {code(line)}" for line in steps))
            yield ""
