"""What `fleet pair` found, as it is printed as JSON."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from gpudoctor.finding import Severity, Verdict
from gpudoctor.fleet.pair.nodes import Between
from gpudoctor.fleet.pair.outcome import Status

NodeState = Literal["ok", "failed", "wrong", "slow", "unable", "busy", "silent", "undecided"]


class PairedNode(Struct, frozen=True):
    """A node (or a GPU, where GPUs are paired), and how it did."""

    name: str
    ranks: tuple[int, ...]
    gpu: str | None
    state: NodeState
    pairings: int
    """How many pairings it had, and how many of these went right."""
    right: int
    gb_per_s: float | None
    """Bus bandwidth of its median pairing that went right."""
    detail: str
    """What happened in the worst of its pairings, with the GPU."""


class Pairing(Struct, frozen=True):
    """How two nodes did together, in a round. Its result is that of the worst of its ranks."""

    round: int
    nodes: tuple[str, str]
    status: Status
    gb_per_s: float | None
    """Bus bandwidth as nccl-tests computes it, of the slowest of its ranks."""
    seconds: float | None
    """Of one all-reduce."""
    detail: str


class Together(Struct, frozen=True):
    """How all nodes that are not to blame did in one group."""

    nodes: int
    ranks: int
    status: Status
    gb_per_s: float | None
    seconds: float | None
    detail: str


class PairProblem(Struct, frozen=True):
    """What a person should know."""

    id: str
    slug: str
    severity: Severity
    nodes: tuple[str, ...]
    message: str
    fix: str


class PairReport(Struct, frozen=True, kw_only=True):
    """What `fleet pair` prints, by rank 0."""

    schema: int = 1
    gpudoctor: str
    created: str
    verdict: Verdict
    exit_code: int
    torch: str
    backend: str
    """nccl, rccl or gloo; empty: none was found."""
    between: Between
    bytes: int
    """Of each all-reduce."""
    rounds: int
    """Of the schedule, without second looks."""
    links_judged: bool
    """Whether every pair has met, so that each link was tested."""
    usual_gb_per_s: float | None
    """Of the lower quartile of the times of all pairings that went right."""
    problems: tuple[PairProblem, ...] = ()
    nodes: tuple[PairedNode, ...] = ()
    pairings: tuple[Pairing, ...] = ()
    together: Together | None = None
    exclude: tuple[str, ...] = ()
    """Names of the nodes that a job should not get."""
    not_judged: tuple[str, ...] = ()
    """What could not be tested, and why."""
