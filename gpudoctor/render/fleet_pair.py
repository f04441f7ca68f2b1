"""What `fleet pair` found, as text."""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.fleet.pair.report import PairReport
from gpudoctor.plain_text import number_of
from gpudoctor.render.layout import Line

_STYLES = {"error": "bold red", "warning": "bold yellow", "note": "dim"}
_STATES = {
    "failed": "fails",
    "wrong": "wrong data",
    "unable": "cannot take part",
    "busy": "in use",
    "silent": "no answer",
    "undecided": "not decided",
}


def pair_lines(report: PairReport, *, verbose: bool = False) -> Iterator[Line]:
    """How it stands, the problems, what was measured, and the option that leaves faulty nodes out."""
    yield [(_headline(report), "bold")]
    for problem in report.problems:
        yield []
        yield [(f"  {problem.severity:<8}", _STYLES[problem.severity]), (f"{problem.id} {problem.message}", "")]
        yield [("  fix     ", "dim"), (problem.fix, "")]
    for question in report.not_judged:
        yield []
        yield [("  unknown ", "bold"), (f"Could not test: {question}.", "")]
    if report.pairings:
        yield []
        yield from _bandwidth_lines(report)
    if verbose:
        yield from _pairings(report)
    if report.exclude and report.between == "nodes":
        yield []
        yield [("Start jobs without them: ", ""), (f"--exclude={','.join(report.exclude)}", "command")]


def _headline(report: PairReport) -> str:
    errors = sum(problem.severity == "error" for problem in report.problems)
    warnings = len(report.problems) - errors
    counts = ((errors, "problem"), (warnings, "warning"))
    what = ", ".join(number_of(number, noun) for number, noun in counts if number)
    if not what:
        what = "No fault found" if report.verdict == "ok" else "The nodes could not be tested"
    backend = f" over {report.backend}" if report.backend else ""
    one = "node" if report.between == "nodes" else "GPU"
    nodes = number_of(len(report.nodes), one) if report.nodes else "No node"
    return f"{what}. {nodes}{backend}, torch {report.torch}"


def _bandwidth_lines(report: PairReport) -> Iterator[Line]:
    usual = f", usually {report.usual_gb_per_s:g} GB/s" if report.usual_gb_per_s else ""
    right = sum(pairing.status == "right" for pairing in report.pairings)
    yield [("  pairs    ", "dim"), (f"{right} of {len(report.pairings)} right in {report.rounds} rounds{usual}", "")]
    for node in report.nodes:
        if node.state != "ok":
            rate = f", {node.gb_per_s:g} GB/s" if node.gb_per_s else ""
            state = _STATES.get(node.state, node.state)
            yield [(f"    {node.name}: ", ""), (f"{state}, {node.right} of {node.pairings} pairings right{rate}", "")]
    if (together := report.together) is not None:
        speed = f", {together.gb_per_s:g} GB/s" if together.gb_per_s else ""
        size = f"{together.nodes} {report.between}" + (
            f", {together.ranks} ranks" if report.between == "nodes" else ""
        )
        how = "right" if together.status == "right" else f"{together.status}: {together.detail}"
        yield [("  together ", "dim"), (f"{size}: {how}{speed}", "")]
    if not report.links_judged and not report.problems:
        yield [("  links    ", "dim"), ("not every pair has met; --links tests each link", "")]


def _pairings(report: PairReport) -> Iterator[Line]:
    yield []
    for pairing in report.pairings:
        rate = f"{pairing.gb_per_s:g} GB/s" if pairing.gb_per_s else pairing.detail
        head = f"  round {pairing.round}: {' and '.join(pairing.nodes)}: "
        yield [(head, ""), (f"{pairing.status} {rate}", "")]
