"""What a pasted text says: single facts with their lines, before it is decided which of them hold."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from gpudoctor.intake.text.lines import Line
from gpudoctor.late_regex import late
from gpudoctor.machine import HsaApi, NvidiaApi, SmiGpu, Told
from gpudoctor.machine.pasted_text import OffTopic

_VENDOR_ONLY = late(r"(?i)\s*(?:nvidia|amd|radeon|geforce|nvidia geforce|amd radeon)(?: gpus?| cards?)?\.?\s*")
SILENT = "the text does not say"
"""Why a fact is unknown."""
By = Literal["tool", "program", "report", "list", "shell", "prose"]
"""Who says it: a driver's tool, a running program about itself, a report such as collect_env's, a list of packages, a
shell, a person."""


class Statement(Struct, frozen=True):
    """One statement of the text: `what` names the fact ("driver", "package numpy", "available")."""

    what: str
    value: str
    line: int
    by: By


class NamedGpu(Struct, frozen=True):
    """A GPU that the text names, and by what."""

    line: int
    by: By
    name: str = ""
    index: int | None = None
    arch: str = ""
    """ "sm_120", "gfx1031"."""
    pci_id: str = ""
    bdf: str = ""
    memory: int | None = None
    block: int = 0
    """Number of the listing that it stands in: GPUs of one listing are of one machine."""
    titled: bool = False
    """Named in the title of the text, which says what it is about."""

    @property
    def vendor_only(self) -> bool:
        """Whether it is no more than "Nvidia", which is what an issue form asks for."""
        return not (self.arch or self.pci_id or self.bdf) and _VENDOR_ONLY.fullmatch(self.name) is not None


class Facts(Struct):
    """All that was read of one text."""

    said: list[Statement] = field(default_factory=list)
    gpus: list[NamedGpu] = field(default_factory=list)
    errors: list[Line] = field(default_factory=list)
    """Lines of which the matrix knows the cause."""
    unexplained: list[Line] = field(default_factory=list)
    """The last exception that is about GPUs, where it knows none."""
    off_topic: OffTopic = ""
    about: str = ""
    """The one program or package with a build of its own for a GPU that the text is about."""
    names_torch: bool = False
    told: list[Told] = field(default_factory=list)
    log: list[Line] = field(default_factory=list)
    """Lines of a kernel log."""
    xids: list[Line] = field(default_factory=list)
    """The same for the numbers of errors that sentences name."""
    smi: tuple[NvidiaApi, int] | None = None
    hsa: tuple[HsaApi, int] | None = None
    amd_smi: tuple[tuple[SmiGpu, ...], int] | None = None
    reports: list[int] = field(default_factory=list)
    """Lines at which a report about a whole machine begins."""
    tables: list[int] = field(default_factory=list)
    """Lines at which a table of nvidia-smi begins, which tells of its own GPUs alone."""

    def say(self, what: str, value: str, line: int, by: By) -> None:
        if value := value.strip():
            self.said.append(Statement(what, value[:2000], line, by))

    def say_even_empty(self, what: str, value: str, line: int, by: By) -> None:
        """The same for a variable, whose empty value means something."""
        self.said.append(Statement(what, value.strip()[:2000], line, by))
