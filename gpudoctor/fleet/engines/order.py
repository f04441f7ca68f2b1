"""What an engine is asked for, and what it brings back."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from gpudoctor.fleet.names import expanded
from gpudoctor.host import InputError
from gpudoctor.safe_arguments import is_name

FOR_ENGINE = 0.25
"""The share of the time that an engine needs: to start a process on every node, and to bring answers back."""


class Order(Struct, frozen=True, kw_only=True):
    """One run of `gpudoctor fleet check`."""

    nodes: tuple[str, ...] = ()
    """The nodes to ask; () for those that the engine knows."""
    seconds: float = 60.0
    level: str = "driver"
    options: tuple[str, ...] = ()
    """Further options of `gpudoctor check`."""
    program: tuple[str, ...] = ("gpudoctor",)
    """How gpudoctor is started on a node."""
    arguments: tuple[str, ...] = ()
    """Options of the engine's own program."""
    image: str = ""
    resources: tuple[str, ...] = ()
    """The resources of a container: "nvidia.com/gpu=8"."""
    selectors: tuple[str, ...] = ()
    """Labels of Kubernetes nodes: "pool=train"."""
    began: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> float:
        """Seconds until the answers must be here."""
        return max(0.0, self.began + self.seconds - time.monotonic())

    @property
    def check(self) -> tuple[str, ...]:
        """The options of `gpudoctor check` on a node."""
        return ("--level", self.level, *self.options)

    @property
    def node_seconds(self) -> float:
        """How long a node may take."""
        return self.seconds * (1 - FOR_ENGINE)

    def on_node(self) -> tuple[str, ...]:
        """The command that checks a node and prints its report in lines."""
        return (*self.program, "fleet", "node", "--timeout", f"{self.node_seconds:g}", "--", *self.check)

    def asking(self, nodes: Sequence[str]) -> Order:
        """The same for some of its nodes."""
        return replace(self, nodes=tuple(nodes))


class Answer(Struct, frozen=True, kw_only=True):
    """What came from one node."""

    node: str = ""
    """Its name, from the engine; "" where only the answer itself names it."""
    claimed: str = ""
    """The name that the answer gives."""
    document: bytes | None = None
    failure: str = ""
    """Why there is no document."""


def as_typed(argv: Sequence[str]) -> str:
    """A command as a person would type it."""
    return shlex.join(argv) + "\n"


def node_names(text: str) -> tuple[str, ...]:
    """The nodes of an expression such as gpu[01-64]. They reach command lines, manifests and file names: a name has
    letters, digits, dots, hyphens and underscores, and begins with a letter or a digit. Raises InputError."""
    names = expanded(text)
    for name in names:
        if not is_name(name):
            raise InputError(f"--nodes {name[:60]!r}: a node's name has only letters, digits, '.', '_' and '-'")
    return names


def nodes_of_job(order: Order, hint: str) -> tuple[str, ...]:
    """The nodes that were asked for, else those of the Slurm job that this runs in. Raises InputError with `hint`."""
    listed = os.environ.get("SLURM_JOB_NODELIST", "")
    if not order.nodes and not listed:
        raise InputError(hint)
    return order.nodes or node_names(listed)
