"""ssh: ClusterShell's clush, with whatever worker its options choose (ssh, rsh, exec ...)."""

from __future__ import annotations

import shlex

from gpudoctor.fleet.engines.launcher import answers_of
from gpudoctor.fleet.engines.order import Answer, Order, as_typed
from gpudoctor.host import InputError

OWN_PYTHON = False


def preview(order: Order) -> str:
    """The clush."""
    return as_typed(_clush(order))


def run(order: Order) -> tuple[Answer, ...]:
    """Ask every node; clush names the node of each line."""
    names = {node: node for node in order.nodes}
    return answers_of(_clush(order), order, r"^([A-Za-z0-9][A-Za-z0-9._-]*): ?", names)


def _clush(order: Order) -> tuple[str, ...]:
    if not order.nodes:
        raise InputError("--on ssh: name the nodes with --nodes")
    # A remote shell reads the command: it is quoted, and no node's name is in it.
    command = shlex.join(order.on_node())
    return ("clush", "--nostdin", "-w", ",".join(order.nodes), *order.arguments, command)
