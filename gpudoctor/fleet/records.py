"""The report of a fleet, which also makes up its JSON."""

from __future__ import annotations

from msgspec import Struct

from gpudoctor import __version__
from gpudoctor.finding import Severity, Verdict
from gpudoctor.step import PlannedFix


class Odd(Struct, frozen=True):
    """A fact of a node that differs from the norm: the value of most nodes that it is compared with."""

    fact: str
    value: str
    norm: str
    severity: Severity
    """The severity of the problem that it causes there; a warning if it only differs."""
    others: int = 0
    """How many of the nodes that it is compared with have the norm."""


class FleetNode(Struct, frozen=True):
    """One node. `why` says what is unknown about it: that it gave nothing, or what was wrong with its document."""

    name: str
    verdict: Verdict
    exit_code: int
    group: str
    problems: tuple[str, ...] = ()
    """Ids of its errors and warnings."""
    odd: tuple[Odd, ...] = ()
    why: str = ""


class FleetProblem(Struct, frozen=True):
    """What is wrong with the nodes of a group."""

    id: str
    slug: str
    severity: Severity
    message: str
    """As the first of these nodes has it."""


class NodeGroup(Struct, frozen=True):
    """Nodes with the same GPUs and the same problems: one plan serves them all."""

    id: str
    gpu: str
    gpus: int
    nodes: tuple[str, ...]
    fixes: tuple[PlannedFix, ...] = ()
    """The first fix of each problem."""
    platform: str = ""
    role: str = ""
    problems: tuple[FleetProblem, ...] = ()


class Undecided(Struct, frozen=True):
    """A fact in which nodes differ, without one value that most of them have: nobody is accused."""

    fact: str
    values: dict[str, tuple[str, ...]]
    """Names of the nodes, by value."""


class FleetReport(Struct, frozen=True, kw_only=True):
    """What `fleet report --format json` prints."""

    schema: int = 1
    gpudoctor: str = __version__
    verdict: Verdict
    exit_code: int
    nodes: tuple[FleetNode, ...]
    groups: tuple[NodeGroup, ...]
    missing: tuple[str, ...]
    """Expected nodes of which there is no document."""
    undecided: tuple[Undecided, ...]
