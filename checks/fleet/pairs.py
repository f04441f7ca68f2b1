"""Nodes that computed in pairs, and then all together."""

from __future__ import annotations

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import Finding, Fix, NotJudged, Severity, by_hand
from gpudoctor.fleet.pair.blame import Blame
from gpudoctor.fleet.pair.result import PairResult, in_words
from gpudoctor.fleet.pair.schedule import Pair

_MUCH_LESS = 4
"""Healthy nodes reach more than half of what their links carry."""


@check("GPD740", "fleet-node-unable", "fleet")
def node_unable(result: PairResult) -> Verdicts:
    """A node fails before it meets any other.

    ## Why it matters
    A job that gets this node fails with it.

    ## How it is judged
    Before a rank joins a group, torch starts its GPU and fills memory there. If that fails, crashes or does not end
    in time, the node is faulty whatever others do. A GPU that others use, or whose memory is full, is not judged. If
    all nodes fail, the cause is none of theirs.

    ## Fix safety
    Nothing is changed. `gpudoctor check` on the node tells why.
    """
    for number, part in result.out.items():
        if part.status == "unable":
            yield _of_node(result, number, f"failed before it met any other node: {result.detail(part)}")


@check("GPD741", "fleet-node-fails", "fleet")
def node_fails(result: PairResult) -> Verdicts:
    """A node hangs, crashes or fails together with others that do well.

    ## Why it matters
    One such node stops a whole job, usually after a long time limit and with an error of another node.

    ## How it is judged
    The node went wrong with most of its partners, and at least three of them did better without it (two, if it met
    all and went wrong with each); or three failed with it that did well with all others. Which of its GPUs went wrong
    is named.

    ## Fix safety
    Nothing is changed. `--exclude` leaves the node out of a Slurm job.
    """
    for number in result.judgement.failed.nodes:
        if not result.computes_wrong(number):
            yield _failed(result, number, "failed")


@check("GPD742", "fleet-node-wrong-data", "fleet")
def node_computes_wrong(result: PairResult) -> Verdicts:
    """The sums that a node computes together with others are wrong.

    ## Why it matters
    Nothing stops: the job goes on with wrong gradients.

    ## How it is judged
    Every word of every sum is compared with the known result. The node is convicted as one that fails: by partners
    that did better without it.

    ## Fix safety
    Nothing is changed. `gpudoctor smoke --level full` on the node tells whether its GPU computes wrong by itself.
    """
    for number in result.judgement.failed.nodes:
        if result.computes_wrong(number):
            yield _failed(result, number, "computed wrong data")


@check("GPD743", "fleet-node-slow", "fleet")
def node_slow(result: PairResult) -> Verdicts:
    """A node is slow together with others that are not.

    ## Why it matters
    A collective is as slow as its slowest rank, so the whole job is.

    ## How it is judged
    Three quarters of the collectives take more than twice as long as is usual: the lower quartile of all pairings
    that went right. Slow pairings are tried three times. No fixed figure is used.

    ## Fix safety
    Nothing is changed. Throttled clocks, a narrow PCIe link and a network over the wrong interface are usual causes.
    """
    for number in result.judgement.slow.nodes:
        right = [met for met in result.met(number) if met.part.status == "right"]
        yield _of_node(result, number, f"is slow with its partners: {result.speed(right)}", "warning")


@check("GPD744", "fleet-link-fails", "fleet")
def link_fails(result: PairResult) -> Verdicts:
    """Two nodes fail only with each other.

    ## Why it matters
    A job that gets both fails, and no test of single nodes shows why.

    ## How it is judged
    All tries of this pair failed, while both nodes did well with most others. Only `--links` lets all nodes meet.

    ## Fix safety
    Nothing is changed. A switch, a cable, a firewall or an address that both have may be the cause.
    """
    for pair in result.judgement.failed.links:
        bad = [met for met in result.between(pair) if met.part.status != "right"]
        yield _of_link(result, pair, f"fail only with each other ({result.worst_detail(bad)})", "error")


@check("GPD745", "fleet-link-slow", "fleet")
def link_slow(result: PairResult) -> Verdicts:
    """Two nodes are slow only with each other.

    ## Why it matters
    A job that gets both is as slow as this link.

    ## How it is judged
    As for a slow node, while both are not slow with most others. Nodes in different parts of a network that is not
    built for all to speak at once may be slow with each other without a fault.

    ## Fix safety
    Nothing is changed.
    """
    for pair in result.judgement.slow.links:
        slow = f"are slow only with each other: {result.speed(result.between(pair))}"
        yield _of_link(result, pair, slow, "warning")


@check("GPD746", "fleet-pair-undecided", "fleet")
def undecided(result: PairResult) -> Verdicts:
    """Nodes fail or are slow together, and it cannot be told which is faulty.

    ## Why it matters
    Something is wrong, but to leave out either node would be a guess.

    ## How it is judged
    The pairings that went wrong accuse both their nodes alike. That is always so with two nodes, when everything
    fails, and when a pair fails in one try and not in the next.

    ## Fix safety
    Nothing is changed. More rounds, or nodes that are known to be good, tell the nodes apart.
    """
    yield from _undecided(result, result.judgement.failed, "error")
    yield from _undecided(result, result.judgement.slow, "warning")


@check("GPD747", "fleet-together-fails", "fleet")
def together_fails(result: PairResult) -> Verdicts:
    """All nodes together fail, though no pair of them does.

    ## Why it matters
    The job that needs them all fails.

    ## How it is judged
    All nodes that are not to blame for anything compute once in one group, after the pairs.

    ## Fix safety
    Nothing is changed. Limits of open files and locked memory, and switches that sum in the network, only matter with
    many nodes.
    """
    part = result.together
    if part is None or part.status == "right":
        return
    yield Finding(
        severity="error",
        message=f"All nodes together failed, though no pair of them did: {result.detail(part)}.",
        nodes=result.gang,
        fixes=(_by_hand("look at the limits of the nodes (open files, memlock), and at a run with NCCL_DEBUG=INFO"),),
    )


@check("GPD749", "fleet-all-slow", "fleet")
def all_slow(result: PairResult) -> Verdicts:
    """All pairings are far slower than the links allow.

    ## Why it matters
    Every job on these nodes spends most of its time on communication. No comparison among the nodes shows it.

    ## How it is judged
    The usual bandwidth is less than a quarter of what the links carry. Between nodes that is each rank's share in the
    active RDMA ports of its node, as the kernel states their rates; between the GPUs of one machine it is the rate of
    their NVLinks in the matrix. Where neither is known, nothing is said; nor with Gloo.

    ## Fix safety
    Nothing is changed. Often NCCL uses Ethernet instead of InfiniBand, or memory instead of NVLink; a run with
    NCCL_DEBUG=INFO says which.
    """
    usual, capacity = result.bandwidth(result.judgement.usual_seconds), result.capacity
    if usual is None or capacity is None or usual >= capacity.gb_per_s / _MUCH_LESS:
        return
    yield Finding(
        severity="warning",
        message=f"The usual pairing reaches {usual:g} GB/s; {capacity.of} give each rank {capacity.gb_per_s:g} GB/s.",
        fixes=(_by_hand("look which network a run with NCCL_DEBUG=INFO names (NET/IB or NET/Socket, P2P or SHM)"),),
    )


@check("GPD748", "fleet-pair-incomplete", "fleet")
def incomplete(result: PairResult) -> Verdicts:
    """Some or all nodes could not be tested.

    ## Why it matters
    Nothing is known of what was not tested.

    ## How it is judged
    A rank did not answer, its GPU is in use, there is nobody to pair it with, or torch cannot compute with others.

    ## Fix safety
    Nothing is changed.
    """
    for rank in result.missing:
        yield NotJudged(f"rank {rank} did not answer: it did not start, or cannot reach rank 0", matters=True)
    for number, part in result.out.items():
        if part.status == "busy":
            yield NotJudged(f"{result.names[number]} is in use: {result.detail(part)}", matters=True)
        elif part.status == "silent":
            yield NotJudged(f"{result.names[number]} stopped answering", matters=True)
    if result.untested:
        yield NotJudged(result.untested, matters=True)


# --- findings ---


def _of_node(result: PairResult, number: int, what: str, severity: Severity = "error") -> Finding:
    name = result.names[number]
    text = f"start jobs without it (--exclude={name}), and run `gpudoctor check` there"
    if result.between_gpus:
        text = "start jobs without this GPU, and run `gpudoctor smoke --level full` there"
    return Finding(severity=severity, message=f"{name} {what}.", nodes=(name,), fixes=(_by_hand(text),))


def _failed(result: PairResult, number: int, how: str) -> Finding:
    own = result.evidence(number)
    bad = [met for met in own if met.part.status != "right"]
    return _of_node(
        result, number, f"{how} in {len(bad)} of {len(own)} pairings ({result.worst_detail(bad, number)})"
    )


def _undecided(result: PairResult, blame: Blame, severity: Severity) -> Verdicts:
    if not blame.undecided:
        return
    names = tuple(result.names[node] for node in sorted({node for pair in blame.undecided for node in pair}))
    what = "are slow together"
    if severity == "error":
        bad = [met for pair in blame.undecided for met in result.between(pair) if met.part.status != "right"]
        what = f"failed together ({result.worst_detail(bad)})"
    yield Finding(
        severity=severity,
        message=f"{in_words(names)} {what}. {_why_undecided(result)}",
        nodes=names,
        fixes=(_by_hand(_what_decides(result, len(names))),),
    )


def _why_undecided(result: PairResult) -> str:
    if result.counted == 2:
        return "With two nodes it cannot be told which one is faulty."
    if result.judgement.usual_seconds is None:
        return "No pairing went right, so the cause is probably common to all nodes."
    return "It cannot be told which of them is faulty."


def _what_decides(result: PairResult, count: int) -> str:
    if result.judgement.usual_seconds is None and count > 2:
        return "check the network interface (NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME), the firewall and --timeout"
    if result.complete:
        return "test again together with nodes that are known to be good"
    return "test again with --links, so that each node meets all others"


def _of_link(result: PairResult, pair: Pair, what: str, severity: Severity) -> Finding:
    one, other = result.names_of(pair)
    check_it = _by_hand(f"check the cables, switches and firewalls between {one} and {other}; give no job both")
    return Finding(severity, f"{one} and {other} {what}.", nodes=(one, other), fixes=(check_it,))


def _by_hand(text: str) -> Fix:
    return by_hand(text, text)
