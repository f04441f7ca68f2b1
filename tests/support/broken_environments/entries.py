"""What an entry of the catalogue is: a way to break an environment, and what must be said of it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from tests.support.broken_environments.environment import Environment

Breaks = Callable[[Environment], None]

TORCH = """
import torch
image = torch.randn(1, 3, 8, 8, requires_grad=True)
torch.nn.functional.conv2d(image, torch.randn(4, 3, 3, 3)).sum().backward()
assert torch.equal(torch.eye(3) @ torch.ones(3, 3), torch.ones(3, 3))
if torch.version.cuda:
    torch.backends.cudnn.version()
"""
"""Imports torch and computes on the CPU; with CUDA builds cuDNN is opened and compares its versions."""

COMPILE = """
import torch
compiled = torch.compile(lambda x: (x @ x).sin().sum(), backend="aot_eager_decomp_partition")
compiled(torch.ones(4, 4, requires_grad=True)).backward()
"""
"""torch.compile up to the partitioner, which needs sympy, mpmath and networkx."""


NOT_TORCH = r"^(?!.*install torch\b)"
"""A fix that leaves torch alone: nothing is wrong with it."""


def imports(*modules: str) -> str:
    return "import " + ", ".join(modules)


@dataclass(frozen=True)
class Entry:
    name: str
    rule: str
    """The class of faults; "control": gpudoctor says no more than of the base; "healthy": nothing at all."""
    kind: str
    """The base that is broken."""
    breaks: Breaks
    causes: frozenset[str] = frozenset()
    """Acceptable slugs of the first problem; none for a control."""
    names: str = ""
    """What the problem must name, as a regular expression."""
    fix: str = ""
    """What the first fix must say, as a regular expression."""
    warning: bool = False
    """A warning is enough: the import of torch works, and something beside it does not."""
    proof: str = TORCH
    """A program that fails in this environment, and works where it is healthy."""
    level: str = ""
    """Empty: quick for CPU builds, gpudoctor's own default for a described GPU."""
    gpu: bool = True
    """Whether a GPU is described to gpudoctor."""
    machine: tuple[str, ...] = ()
    """The described GPU, in place of the base's."""
    visible: bool = True
    """Whether the proof fails on a machine without such a GPU."""
    repair: bool = False
    """Whether steps of packages in this environment repair it."""
    limit: float = 90
    """Seconds after which the proof is said to hang."""

    @property
    def control(self) -> bool:
        return self.rule in ("control", "healthy")


@dataclass
class Catalogue:
    """The entries of a module."""

    rule: str
    entries: list[Entry] = field(default_factory=list)

    def add(
        self, name: str, kind: str, causes: Collection[str], breaks: Breaks, *, names: str = "", **more: object
    ) -> None:
        entry = Entry(name, self.rule, kind, breaks, frozenset(causes), names, **more)  # type: ignore[arg-type]
        self.entries.append(entry)

    def entry(self, name: str, kind: str, causes: Collection[str] = (), **more: object) -> Callable[[Breaks], Breaks]:
        """Add the decorated function as the entry of that name."""

        def added(breaks: Breaks) -> Breaks:
            self.add(name, kind, causes, breaks, **more)  # type: ignore[arg-type]
            return breaks

        return added
