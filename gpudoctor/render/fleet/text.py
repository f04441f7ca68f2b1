"""A fleet's report for a person: what is wrong and where, who is odd, who is silent, and what to do."""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.fleet.names import folded
from gpudoctor.fleet.operators import ready_lines, without_gpus
from gpudoctor.fleet.records import FleetReport
from gpudoctor.render.fleet.summary import (
    by_weight,
    differences,
    everyone,
    headline,
    others_of,
    problems,
    silent,
    title_of,
)
from gpudoctor.render.lines import MARKS, Line
from gpudoctor.render.next_command import next_line
from gpudoctor.render.steps import fix_lines

_STYLES = {"ok": "bold green", "warning": "bold yellow", "error": "bold red", "unknown": "bold magenta"}
_LONG = 70
_MOST_VALUES = 8


def fleet_lines(report: FleetReport, *, verbose: bool) -> Iterator[Line]:
    """What a person reads of it."""
    yield [(headline(report), _STYLES[report.verdict])]
    yield [(f"gpudoctor {report.gpudoctor}", "dim")]
    yield from _machines(report)
    for problem in problems(report):
        mark, style = MARKS[problem.severity]
        yield []
        yield [
            (mark, style),
            (problem.slug, "bold"),
            (f" [{problem.id}]  ", "dim"),
            (everyone(problem.nodes, report), ""),
        ]
        yield [("    ", ""), (problem.message, "")]
    yield from _differences(report, verbose)
    for node in silent(report):
        yield []
        yield [("? ", "magenta"), (f"{node.name}: {node.why}", "")]
    if needless := without_gpus(report):
        yield []
        hint = f"no GPU. If none is needed there, --roles FILE with {needless[0]}=cpu says so."
        yield [("· ", "dim"), (f"{folded(needless)}: ", "bold"), (hint, "")]
    yield from _facts_without_majority(report)
    yield from _plans(report)
    if lines := tuple(ready_lines(report)):
        yield []
        yield [("To take these nodes out of use (gpudoctor runs none of this)", "bold")]
        for who, line in lines:
            yield [(f"  {who:<14} ", "dim"), (line, "command")]
    yield from _next(report)


def _next(report: FleetReport) -> Iterator[Line]:
    """What to type on the nodes that have a plan, the worst first; else what explains the first problem, what checks
    the nodes that only differ, or what proves that equal ones compute together."""
    plans = [group for group in by_weight(report.groups) if group.fixes]
    if plans:
        yield []
        yield next_line(("gpudoctor", "fix"), f"Next, on {_short(folded(plans[0].nodes))}: ")
    elif found := problems(report):
        yield []
        yield next_line(("gpudoctor", "explain", found[0].id))
    elif odd := tuple(node.name for node in report.nodes if node.verdict in ("error", "warning")):
        yield []
        yield next_line(("gpudoctor", "check"), f"Next, on {_short(folded(odd))}: ")
    elif report.verdict == "ok" and len(nodes := _most_alike(report)) > 1:
        yield []
        yield [("`gpudoctor fleet pair` proves that they compute together, and names a node that does not.", "")]
        yield next_line(_pair_command(nodes), f"Next, on each of {_short(folded(nodes))}: ")


def _most_alike(report: FleetReport) -> list[str]:
    """The nodes with the GPU that most of them have: those of another vendor could not compute with them."""
    alike: dict[str, list[str]] = {}
    for group in report.groups:
        if group.gpu:
            alike.setdefault(group.gpu, []).extend(group.nodes)
    return max(alike.values(), key=len, default=[])


def _pair_command(nodes: list[str]) -> tuple[str, ...]:
    """What starts `fleet pair` on nodes; the first of them is where they meet."""
    meeting = ("--rdzv-backend", "c10d", "--rdzv-endpoint", f"{min(nodes)}:29500")
    everywhere = ("--nnodes", str(len(nodes)), "--nproc-per-node", "gpu")
    return ("torchrun", *everywhere, *meeting, "-m", "gpudoctor", "fleet", "pair")


def _machines(report: FleetReport) -> Iterator[Line]:
    """How many nodes of which kind there are."""
    kinds: dict[tuple[str, int, str, str], list[str]] = {}
    for group in report.groups:
        kinds.setdefault((group.gpu, group.gpus, group.platform, group.role), []).extend(group.nodes)
    if kinds:
        yield []
    for (gpu, count, platform, role), nodes in sorted(kinds.items(), key=lambda item: -len(item[1])):
        what = f"{count} x {gpu}" if gpu else "no GPU"
        details = ", ".join(filter(None, (what, platform, role)))
        number = f"{len(nodes):>5} node{'s' * (len(nodes) != 1)}"
        yield [(f"  {number:<11}  ", "dim"), (details, ""), (f"  {_short(folded(nodes))}", "dim")]


def _differences(report: FleetReport, verbose: bool) -> Iterator[Line]:
    """Who differs from most nodes, and in what."""
    found = differences(report)
    shown = [one for one in found if verbose or one.severity != "note"]
    if shown:
        yield []
        yield [("Different from most nodes", "bold")]
    for one in shown:
        mark, style = MARKS[one.severity]
        yield [
            (f"  {mark.split()[0]} ", style),
            (folded(one.nodes), "bold"),
            (f"  {title_of(one.fact)} {_short(one.value)}; {others_of(one)}: {_short(one.norm)}", ""),
        ]
    if left := len(found) - len(shown):
        yield [(f"  · {left} more difference{'s' * (left != 1)} of little weight: -v shows them", "dim")]


def _facts_without_majority(report: FleetReport) -> Iterator[Line]:
    """Facts without a majority."""
    if report.undecided:
        yield []
        yield [("Nodes differ, and no value has a majority", "bold")]
    for one in report.undecided:
        ordered = sorted(one.values.items(), key=lambda item: -len(item[1]))
        told = "; ".join(f"{_short(value)}: {_short(folded(names))}" for value, names in ordered[:_MOST_VALUES])
        more = len(ordered) - _MOST_VALUES
        yield [("  ", ""), (f"{title_of(one.fact)}  ", "bold"), (told + (f"; {more} more values" * (more > 0)), "")]


def _plans(report: FleetReport) -> Iterator[Line]:
    """One plan for each group of equal nodes."""
    for group in by_weight(report.groups):
        if group.fixes:
            yield []
            yield [("Plan for ", "bold"), (_short(folded(group.nodes)), "bold")]
            for fix in group.fixes:
                yield from fix_lines(fix, "Fix")


def _short(text: str) -> str:
    return text if len(text) <= _LONG else f"{text[: _LONG - 20]} ... {text[-15:]}"
