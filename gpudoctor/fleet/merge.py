"""The merge: nodes become groups, norms and the report; pure but for reading the documents."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from functools import cache, cached_property
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gpudoctor.exit_codes import FailOn, exit_code
from gpudoctor.finding import SEVERITIES, Layer, Severity, Verdict
from gpudoctor.fleet.documents import Document, FoundThere
from gpudoctor.fleet.judged_nodes import Node, Reader
from gpudoctor.fleet.names import natural, short, stem
from gpudoctor.fleet.norms import LEAST, Norm, Split, golden_norm, majority, norm_of
from gpudoctor.fleet.readers import ComparedFact
from gpudoctor.fleet.records import FleetNode, FleetProblem, FleetReport, NodeGroup, Odd, Undecided
from gpudoctor.host import InputError
from gpudoctor.suites import machine_checks

if TYPE_CHECKING:
    from gpudoctor.matrix.questions import Matrix

_WORST: tuple[Verdict, ...] = ("ok", "warning", "unknown", "error")
_VENDORS = ("nvidia", "amd")
"""Facts of one vendor's stack, by how their names begin: of the other's nodes they say nothing."""
_BY_NAME = ("variable.", "package.")
NOTHING_CAME = "nothing came from it"


def merge(
    documents: Iterable[Document],
    matrix: Matrix,
    *,
    expected: Iterable[str] = (),
    golden: Document | None = None,
    fail_on: FailOn = "error",
    roles: Mapping[str, str] | None = None,
) -> FleetReport:
    """The report of these documents. `expected` names nodes that must be there; `golden` is a node that is known to
    be good; `roles` gives nodes their roles, where their documents name none."""
    reader = Reader(matrix)
    given = roles or {}
    nodes = _by_unique_name(
        _read(reader, replace(document, role=document.role or _role(document.name, given))) for document in documents
    )
    nodes = dict(sorted(nodes.items(), key=lambda item: natural(item[0])))
    missing = _missing(expected, nodes)
    good = reader.node(golden) if golden else None
    if good and nodes and good.model not in {node.model for node in nodes.values() if node.facts}:
        raise InputError(f"{good.name}: no node has its GPUs ({good.facts.get('gpus', 'unknown')})")
    comparison = Comparison(list(nodes.values()), reader, good)
    told = {node.name: _worse(node, comparison.odd.get(node.name, ())) for node in nodes.values()}
    groups = _groups(reader.with_fixes_for(node, comparison.peer_torch.get(node.name, "")) for node in nodes.values())
    place = {name: group.id for group in groups for name in group.nodes}
    rows = [
        FleetNode(
            name=node.name,
            verdict=told[node.name],
            exit_code=exit_code(told[node.name], fail_on),
            group=place.get(node.name, ""),
            problems=tuple(dict.fromkeys(one.id for one in node.problems)),
            odd=tuple(comparison.odd.get(node.name, ())),
            why=node.why,
        )
        for node in nodes.values()
    ]
    rows += [FleetNode(name, "unknown", exit_code("unknown", fail_on), "", why=NOTHING_CAME) for name in missing]
    verdict: Verdict = max((row.verdict for row in rows), key=_WORST.index, default="unknown")
    if comparison.splits:
        verdict = _at_least(verdict, "warning")
    return FleetReport(
        verdict=verdict,
        exit_code=exit_code(verdict, fail_on),
        nodes=tuple(sorted(rows, key=lambda row: natural(row.name))),
        groups=groups,
        missing=missing,
        undecided=comparison.undecided,
    )


def _role(name: str, given: Mapping[str, str]) -> str:
    """The role of a node, which may be given with or without its domain."""
    return given.get(name) or given.get(short(name), "")


def _missing(expected: Iterable[str], nodes: Iterable[str]) -> tuple[str, ...]:
    """The expected names of which there is no node; a domain that one of the two lacks makes no difference."""
    full = frozenset(nodes)
    met = full.union(map(short, full))
    return tuple(name for name in dict.fromkeys(expected) if name not in met and short(name) not in full)


def _read(reader: Reader, document: Document) -> Node:
    """The node of a document. A fault of gpudoctor makes this one unknown, and stops none of the others."""
    try:
        return reader.node(document)
    except Exception as fault:
        return Node(document.name, document.role, why=f"a fault of gpudoctor, not of the node: {fault!r}")


def _by_unique_name(found: Iterable[Node]) -> dict[str, Node]:
    """The nodes by name. Where two documents have one name, either may be the true one: the second gets a row of its
    own."""
    nodes: dict[str, Node] = {}
    met: Counter[str] = Counter()
    for node in found:
        met[node.name] += 1
        if node.name not in nodes:
            nodes[node.name] = node
            continue
        number = max(met[node.name], 2)
        while f"{node.name} ({number})" in nodes:
            number += 1
        why = f"another document names {node.name}, too"
        name = f"{node.name} ({number})"
        nodes[name] = replace(node, name=name, verdict=_at_least(node.verdict, "unknown"), why=node.why or why)
    return nodes


def _at_least(verdict: Verdict, least: Verdict) -> Verdict:
    return max(verdict, least, key=_WORST.index)


def _worse(node: Node, odd: Iterable[Odd]) -> Verdict:
    """The node's verdict, with what differs."""
    verdict = node.verdict
    for one in odd:
        if one.severity != "note":
            verdict = _at_least(verdict, "error" if one.severity == "error" else "warning")
    return verdict


# --- what differs ----------------------------------------------------------------------------------


class Comparison:
    """The facts of all nodes side by side."""

    def __init__(self, nodes: list[Node], reader: Reader, golden: Node | None) -> None:
        self.nodes = [node for node in nodes if node.facts]
        self.reader = reader
        self.golden = golden
        self.odd: dict[str, list[Odd]] = defaultdict(list)
        self._undecided: dict[str, dict[str, tuple[str, ...]]] = {}
        self._kin = _kin_by_name(self.nodes)
        self._by_name = {node.name: node for node in self.nodes}
        for _, fact in sorted(reader.facts.items()):
            for key, members in sorted(self._values_by_set(fact).items()):
                self._compare(fact, members, self._golden_value(fact, key))

    @property
    def undecided(self) -> tuple[Undecided, ...]:
        return tuple(Undecided(fact, values) for fact, values in self._undecided.items())

    @property
    def splits(self) -> bool:
        """Whether nodes with GPUs differ in something of weight, though it cannot be told which of them is odd."""
        return any(
            self.reader.facts[fact].severity != "note"
            and any(self._by_name[name].model for names in values.values() for name in names)
            for fact, values in self._undecided.items()
        )

    def _values_by_set(self, fact: ComparedFact) -> dict[tuple[str, ...], dict[str, str]]:
        """The nodes' values, for each set of nodes that should agree."""
        sets: dict[tuple[str, ...], dict[str, str]] = defaultdict(dict)
        for node in self.nodes:
            value = node.facts.get(fact.name) or _absent(fact.name, node)
            if value is None:
                continue
            kin = self._kin_of(node)
            if fact.name.startswith(_VENDORS) and not fact.name.startswith(kin.vendor or "no GPU"):
                continue
            key = (node.role, *_kind(fact, node.platform, kin))
            sets[key][node.name] = value
        return sets

    def _golden_value(self, fact: ComparedFact, key: tuple[str, ...]) -> str | None:
        """The value of the good node, for nodes of its kind in any role; None for other nodes."""
        good = self.golden
        if good is None or _kind(fact, good.platform, good) != key[1:]:
            return None
        return good.facts.get(fact.name) or _absent(fact.name, good)

    def _compare(self, fact: ComparedFact, values: dict[str, str], wanted: str | None) -> None:
        """A kind of GPU whose nodes agree among themselves has its own norm; the other nodes have that of all."""
        if wanted is not None:
            if by_the_good := golden_norm(values, wanted):
                self._accuse(fact, values, by_the_good)
            return
        kinds: dict[str, dict[str, str]] = defaultdict(dict)
        for node, value in values.items():
            kinds[self._kin_of(self._by_name[node]).model][node] = value
        rest: dict[str, str] = {}
        for alike in kinds.values():
            if majority(alike) is None:
                rest |= alike
            elif isinstance(norm := norm_of(alike), Norm):
                self._accuse(fact, alike, norm)
        found = norm_of(values)
        if isinstance(found, Norm):
            odd = {node: value for node, value in found.odd.items() if node in rest}
            self._accuse(fact, values, replace(found, odd=odd))
        elif isinstance(found, Split) and norm_of(rest) is not None:
            split = Split({value: tuple(one for one in rest if rest[one] == value) for value in rest.values()})
            if not (fact.own and split.is_total):
                undecided = self._undecided.setdefault(fact.name, {})
                for value, names in split.values.items():
                    undecided[value] = (*undecided.get(value, ()), *sorted(names, key=natural))

    def _kin_of(self, node: Node) -> Node:
        """The node, or one of the kind that it was before it lost its GPUs."""
        return node if node.model else self._kin.get((node.role, stem(node.name)), node)

    def _accuse(self, fact: ComparedFact, values: dict[str, str], norm: Norm) -> None:
        usual, others = self._usual(node for node in values if node not in norm.odd)
        for node, value in norm.odd.items():
            self.odd[node].append(Odd(fact.name, value, norm.value, self._severity(fact, node, usual), others))

    @cached_property
    def peer_torch(self) -> dict[str, str]:
        """The torch that each node should have: that of the good node, else the one that most nodes of its kind have,
        if most of these work."""
        found: dict[str, str] = {}
        fact = self.reader.facts.get("torch.version")
        if fact is None:
            return found
        for key, values in self._values_by_set(fact).items():
            good, most = self._golden_value(fact, key), majority(values)
            alike = [self._by_name[name] for name, value in values.items() if value == most]
            works = [node for node in alike if node.verdict in ("ok", "warning")]
            if wanted := good or (most if 2 * len(works) > len(alike) else None):
                found |= dict.fromkeys(values, wanted)
        return found

    def _usual(self, names: Iterable[str]) -> tuple[set[str], int]:
        """The problems that most of these nodes have, and how many nodes they are."""
        nodes = [self._by_name[name] for name in names]
        counts = Counter(id for node in nodes for id in {one.id for one in node.problems})
        return {id for id, count in counts.items() if 2 * count > len(nodes)}, len(nodes)

    def _severity(self, fact: ComparedFact, node: str, usual: set[str]) -> Severity:
        """The severity of the worst problem that the fact may cause and that most nodes with the norm do not have."""
        problems = self._by_name[node].problems
        brought = [one.severity for one in problems if one.id not in usual and _may_bring(fact, one)]
        return min((*brought, fact.severity), key=SEVERITIES.index)


def _kind(fact: ComparedFact, platform: str, node: Node) -> tuple[str, ...]:
    """What nodes that should agree in a fact have in common, beside their role."""
    return (platform, node.model) if fact.within == "model" else (node.vendor,)


def _may_bring(fact: ComparedFact, problem: FoundThere) -> bool:
    """Whether a problem is of a layer that a fact decides about. A variable or a package must be named in it."""
    if _layers().get(problem.id) not in fact.layers:
        return False
    return not fact.name.startswith(_BY_NAME) or fact.title in f"{problem.message} {problem.fixes}"


def _absent(fact: str, node: Node) -> str | None:
    """What a node has of a package or a variable that it does not name; None: unknown."""
    if fact.startswith("variable."):
        return "not set"
    return "not installed" if fact.startswith("package.") and node.lists_packages else None


def _kin_by_name(nodes: Iterable[Node]) -> dict[tuple[str, str], Node]:
    """An example of the most common kind of node, by role and stem of the name: a node that lost all its GPUs is of
    their kind."""
    models: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    examples: dict[tuple[str, str, str], Node] = {}
    for node in nodes:
        models[(node.role, stem(node.name))][node.model] += 1
        examples.setdefault((node.role, stem(node.name), node.model), node)
    return {
        key: examples[(key[0], key[1], model)]
        for key, counts in models.items()
        for model, count in counts.most_common(1)
        if model and 2 * count > counts.total() >= LEAST
    }


@cache
def _layers() -> dict[str, Layer]:
    """The layer of each check, by its id."""
    return {check.id: check.layer for check in machine_checks()}


# --- groups ----------------------------------------------------------------------------------------


def _groups(nodes: Iterable[Node]) -> tuple[NodeGroup, ...]:
    """Nodes with equal GPUs and equal problems, the largest group first."""
    members: dict[tuple[object, ...], list[Node]] = defaultdict(list)
    for node in nodes:
        if node.facts:
            key = (node.model, node.count, node.platform, node.role, _wrong(node))
            members[key].append(node)
    ordered = sorted(members.values(), key=lambda group: (-len(group), natural(group[0].name)))
    return tuple(_group(f"g{number}", group) for number, group in enumerate(ordered, 1))


def _wrong(node: Node) -> tuple[object, ...]:
    """What is wrong, and what would fix it: two nodes with one problem may need different steps."""
    return tuple((one.id, one.severity, repr(one.fixes[:1])) for one in node.problems)


def _group(id: str, members: list[Node]) -> NodeGroup:
    first = members[0]
    problems = {(one.id, one.message): one for one in first.problems}.values()
    return NodeGroup(
        id=id,
        gpu=first.model,
        gpus=first.count,
        nodes=tuple(sorted((node.name for node in members), key=natural)),
        fixes=tuple({repr(one.fixes[0]): one.fixes[0] for one in first.problems if one.fixes}.values()),
        platform=first.platform,
        role=first.role,
        problems=tuple(FleetProblem(one.id, one.slug, one.severity, one.message) for one in problems),
    )
