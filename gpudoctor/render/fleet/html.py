"""A fleet as a page: what is wrong with whom, what fixes it, and nodes and facts as a heat table, odd ones first."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from gpudoctor.fleet.names import folded, natural
from gpudoctor.fleet.operators import ready_lines
from gpudoctor.fleet.records import FleetNode, FleetProblem, FleetReport, NodeGroup
from gpudoctor.plain_text import number_of
from gpudoctor.render.fleet.summary import headline, silent, title_of
from gpudoctor.render.html.markup import Markup, element, escaped, prose
from gpudoctor.render.html.page import copied, fix_element, page, section
from gpudoctor.render.lines import printable

_ALL_ROWS = 48
"""So many nodes have a row each; of more, those that are like the others share one."""
_RANKS = {"error": 0, "unknown": 1, "warning": 2, "note": 3, "ok": 4}
_MARKS = {"error": "✗", "unknown": "?", "warning": "!", "note": "·", "ok": "✓"}


def text_of(report: FleetReport) -> str:
    """The document."""
    title = headline(report)
    hurt = [group for group in report.groups if group.problems or group.fixes]
    ready = (part for who, line in ready_lines(report) for part in (element("p", who), copied(line)))
    return page(
        f"gpudoctor fleet: {title}",
        element(
            "header",
            element("h1", title),
            element("p", f"gpudoctor {report.gpudoctor}", class_="about"),
            class_=report.verdict if report.nodes else "neutral",
        ),
        section("Problems", *(_group(group) for group in hurt)),
        section("Not known", *_silent(report)),
        section("To take nodes out of use (gpudoctor runs none of this)", *ready),
        section("Nodes and facts", *_table(report)),
        section("Groups", _groups(report.groups)),
        style="fleet.css",
    )


def _silent(report: FleetReport) -> Iterator[Markup]:
    """Nodes that gave nothing, by reason."""
    reasons: dict[str, list[str]] = {}
    for node in silent(report):
        reasons.setdefault(node.why, []).append(node.name)
    for why, names in reasons.items():
        yield element("p", element("strong", folded(names)), f": {why}")


# --- problems and plans --------------------------------------------------------------------------------


def _group(group: NodeGroup) -> Markup:
    """Equal nodes with the same problems, and the plan that serves them all."""
    worst = min((problem.severity for problem in group.problems), key=_RANKS.__getitem__, default="note")
    return element(
        "article",
        element(
            "h3",
            element("span", f"{_MARKS[worst]} {number_of(len(group.nodes), 'node')}", class_="badge"),
            element("span", folded(group.nodes)),
            element("span", f"{group.gpus} x {group.gpu}" if group.gpus else "no GPU", class_="dim"),
        ),
        *(_problem(problem) for problem in group.problems),
        *(fix_element(fix, "Fix") for fix in group.fixes),
        class_=f"problem {worst}",
    )


def _problem(problem: FleetProblem) -> Markup:
    name = element("strong", f"{problem.slug} [{problem.id}] ")
    return element("p", name, prose(problem.message))


def _groups(groups: Sequence[NodeGroup]) -> Markup:
    head = element("tr", *(element("th", title, scope="col") for title in ("Group", "GPUs", "Nodes")))
    rows = (
        element(
            "tr",
            element("th", group.id, scope="row"),
            element(
                "td", " ".join(filter(None, (f"{group.gpus} x {group.gpu}" if group.gpus else "none", group.role)))
            ),
            element("td", f"{len(group.nodes)}: {folded(group.nodes)}"),
        )
        for group in groups
    )
    return element("table", element("thead", head), element("tbody", *rows), class_="groups") if groups else Markup()


# --- the heat table ------------------------------------------------------------------------------------


def _table(report: FleetReport) -> Iterator[Markup]:
    """A row for each node, a column for each fact in which somebody differs; what is like most is left blank."""
    facts = _facts(report)
    undecided = {
        one.fact: {node: value for value, nodes in one.values.items() for node in nodes} for one in report.undecided
    }
    columns = (*facts, *(fact for fact in undecided if fact not in facts))
    titles = ("Node", "Verdict", *map(title_of, columns))
    head = element("thead", element("tr", *(element("th", _breakable(title), scope="col") for title in titles)))
    norm = _norm_row(columns, facts)
    rows = [_row(nodes, columns, undecided) for nodes in _rows(report.nodes, undecided)]
    yield element(
        "p",
        "Blank: like most nodes of its kind; ?: nothing is known. Only facts in which a node differs have a column.",
    )
    table = element("table", head, element("tbody", norm, *rows))
    yield element("div", table, class_="heat", tabindex="0", role="region", aria_label="Nodes and facts")


def _breakable(text: str) -> Markup:
    """A name or value of a narrow cell: it may be broken after these signs, and not in the middle of a number."""
    pieces = re.findall(r"[^._,+:/]*[._,+:/]|[^._,+:/]+", printable(text))
    return Markup("<wbr>".join(map(escaped, pieces)))


def _facts(report: FleetReport) -> dict[str, Counter[str]]:
    """The facts in which a node is odd, worst first, and what is normal of each."""
    ranked: dict[str, int] = {}
    norms: dict[str, Counter[str]] = {}
    for node in report.nodes:
        for odd in node.odd:
            ranked[odd.fact] = min(ranked.get(odd.fact, _RANKS["ok"]), _RANKS[odd.severity])
            norms.setdefault(odd.fact, Counter())[odd.norm] += 1
    return {fact: norms[fact] for fact in sorted(ranked, key=lambda fact: (ranked[fact], fact))}


def _norm_row(columns: Sequence[str], norms: dict[str, Counter[str]]) -> Markup:
    """What most nodes have, where that is the same for every kind of node."""
    cells = []
    for fact in columns:
        found = tuple(norms.get(fact, ()))
        text = found[0] if len(found) == 1 else "differs by kind" if found else "no norm"
        cells.append(element("td", _breakable(text)))
    return element("tr", element("th", "most nodes", scope="row"), element("td"), *cells, class_="norm")


def _rows(nodes: Sequence[FleetNode], undecided: dict[str, dict[str, str]]) -> list[list[FleetNode]]:
    """Nodes in the order of what is wrong; in a large fleet those that are all alike share a row."""
    ordered = sorted(nodes, key=lambda node: (_RANKS[node.verdict], -len(node.odd), natural(node.name)))
    if len(nodes) <= _ALL_ROWS:
        return [[node] for node in ordered]
    rows: dict[object, list[FleetNode]] = {}
    for node in ordered:
        values = tuple(by_node.get(node.name, "") for by_node in undecided.values())
        rows.setdefault((node.verdict, node.group, node.odd, node.problems, node.why, values), []).append(node)
    return sorted(rows.values(), key=lambda row: (_RANKS[row[0].verdict], -len(row[0].odd), len(row)))


def _row(nodes: Sequence[FleetNode], columns: Sequence[str], undecided: dict[str, dict[str, str]]) -> Markup:
    first = nodes[0]
    odd = {one.fact: one for one in first.odd}
    name = folded(node.name for node in nodes)
    count = element("span", f" {len(nodes)} nodes", class_="dim") if len(nodes) > 1 else None
    said = " ".join(filter(None, (", ".join(dict.fromkeys(first.problems)), first.why)))
    cells: list[Markup] = []
    for fact in columns:
        if fact in odd:
            mark = Markup(f"{_MARKS[odd[fact].severity]}&nbsp;")
            cells.append(element("td", mark, _breakable(odd[fact].value), class_=f"odd {odd[fact].severity}"))
        else:
            told = undecided.get(fact, {}).get(first.name, "" if first.group else "?")
            cells.append(element("td", _breakable(told), class_="dim"))
    verdict = element("strong", f"{_MARKS[first.verdict]} {first.verdict} ")
    return element(
        "tr",
        element("th", _breakable(name), count, scope="row"),
        element("td", verdict, said, class_=f"verdict {first.verdict}"),
        *cells,
    )
