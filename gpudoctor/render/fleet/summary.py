"""What a fleet's report says in short, for every form of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from gpudoctor.finding import SEVERITIES, Severity
from gpudoctor.fleet.names import folded, natural
from gpudoctor.fleet.records import FleetNode, FleetReport, NodeGroup
from gpudoctor.plain_text import number_of


class Difference(Struct, frozen=True):
    """Nodes that have one value where most have another."""

    fact: str
    value: str
    norm: str
    severity: Severity
    others: int
    nodes: tuple[str, ...]


class Problem(Struct, frozen=True):
    """Nodes that have one problem."""

    id: str
    slug: str
    severity: Severity
    message: str
    nodes: tuple[str, ...]


def by_weight(groups: Iterable[NodeGroup]) -> list[NodeGroup]:
    """The groups, those with an error first."""
    return sorted(groups, key=lambda group: all(one.severity != "error" for one in group.problems))


def title_of(fact: str) -> str:
    """What people call a fact: "NVIDIA driver", "NCCL_DEBUG"."""
    from gpudoctor.fleet.facts import FACTS

    named = {one.name: one.title for one in FACTS}
    kind, _, name = fact.partition(".")
    return named.get(fact) or (f"MTU of {name}" if kind == "mtu" else name or fact)


def others_of(odd: Difference) -> str:
    """Who has the norm; if no node has it, it is that of the good node that was given."""
    return number_of(odd.others, "other") if odd.others else "the good node"


def differences(report: FleetReport) -> tuple[Difference, ...]:
    """What is odd, the worst first, each with all nodes that have it."""
    found: dict[tuple[str, str, str, Severity, int], list[str]] = {}
    for node in report.nodes:
        for odd in node.odd:
            found.setdefault((odd.fact, odd.value, odd.norm, odd.severity, odd.others), []).append(node.name)
    rows = [Difference(*key, tuple(names)) for key, names in found.items()]
    return tuple(sorted(rows, key=lambda row: (SEVERITIES.index(row.severity), row.fact, len(row.nodes))))


def problems(report: FleetReport) -> tuple[Problem, ...]:
    """What is wrong with nodes by their own checks, the worst first."""
    found: dict[tuple[str, str, Severity], list[NodeGroup]] = {}
    message: dict[tuple[str, str, Severity], str] = {}
    for group in report.groups:
        for one in group.problems:
            key = (one.id, one.slug, one.severity)
            found.setdefault(key, []).append(group)
            message.setdefault(key, one.message)
    rows = [
        Problem(*key, message[key], tuple(sorted({n for g in groups for n in g.nodes}, key=natural)))
        for key, groups in found.items()
    ]
    return tuple(sorted(rows, key=lambda row: (SEVERITIES.index(row.severity), -len(row.nodes), row.id)))


def silent(report: FleetReport) -> tuple[FleetNode, ...]:
    """Nodes of which nothing is known, or not enough."""
    return tuple(node for node in report.nodes if node.why)


def headline(report: FleetReport) -> str:
    """How the fleet stands, in one sentence."""
    total = len(report.nodes)
    if not total:
        return "No node: there is nothing to compare."
    bad = sum(node.verdict == "error" for node in report.nodes)
    unknown = sum(node.verdict == "unknown" for node in report.nodes)
    differing = sum(node.verdict == "warning" for node in report.nodes)
    parts = list(_parts(bad, unknown, differing))
    many = number_of(total, "node")
    if parts:
        return f"{' · '.join(parts)} (of {many})"
    return f"No problem found on {many}{', but they differ' * bool(report.undecided)}"


def _parts(bad: int, unknown: int, differing: int) -> Iterator[str]:
    counts = ((bad, "with a problem"), (unknown, "unknown"), (differing, "with a warning"))
    for place, (number, what) in enumerate((number, what) for number, what in counts if number):
        yield f"{number if place else number_of(number, 'node')} {what}"


def everyone(names: tuple[str, ...], report: FleetReport) -> str:
    """The names folded; all nodes of a larger fleet are "all nodes"."""
    known = [node.name for node in report.nodes if node.group]
    return "all nodes" if len(known) > 1 and len(names) == len(known) else folded(names)
