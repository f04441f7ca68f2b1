"""What a text that somebody pasted says of itself, beside the facts of the machine."""

from __future__ import annotations

from typing import Literal

from gpudoctor.machine.facts import Record, Vendor

WORKS_NOW = "works-now"
"""The circumstance of a text that says that all works by now; the matrix has no row of it."""
PROGRAM_ERROR = "program-error"
"""That of an error that is the program's own."""

OffTopic = Literal["", "no error", "nothing"]
"""Of a text with an error: what in it is about a GPU."""


class Told(Record, frozen=True):
    """A circumstance that a person told of a fault."""

    circumstance: str
    """Id of its row in the matrix."""
    text: str
    line: int
    complains: bool = False
    """Whether the same sentence says that a GPU is not used, or lost."""


DOCKER_DESKTOP = "docker-desktop-of-linux"
"""Circumstance: a virtual machine without the GPU runs the containers."""
DOCKER_DESKTOP_OF_WINDOWS = "docker-desktop-of-windows"
"""Circumstance: Docker brings NVIDIA's toolkit itself."""


class PastedText(Record, frozen=True):
    """A text that the machine was read from, and what it leaves open."""

    unsaid: tuple[str, ...] = ()
    """What a judgement needs and the text does not say: "GPU", "driver", "torch"."""
    contradictions: tuple[str, ...] = ()
    machines: tuple[str, ...] = ()
    """If it tells of several machines: each in a few words, the judged one first."""
    unread: tuple[str, ...] = ()
    """What it names and nobody could make sense of: an unknown GPU, an impossible version."""
    foreign: Literal["", "windows", "macos"] = ""
    """The system it is from, if that is not Linux."""
    works: str = ""
    """The line that shows that a GPU was used."""
    started: str = ""
    """The line of the kernel log, of a tool or a person that says that a kernel driver has started a GPU."""
    gpus_given: bool = False
    """The command that started the container gives it the device nodes of GPUs."""
    complaint: str = ""
    """The line that says that a GPU is not found or not used, beside messages that are all harmless."""
    container_command: str = ""
    """The command that started the container and gives it no GPU: "docker run --rm IMAGE"."""
    error_lines: tuple[int, ...] = ()
    """Line of each of `Machine.errors`."""
    wants_cpu: bool = False
    """The CPU is what the person wants to use, or all that there is."""
    off_topic: OffTopic = ""
    vendor: Vendor | None = None
    """Whose GPUs it is about, where it names none."""
    about: str = ""
    """The one program or package with a build of its own for a GPU that it is about, as the matrix names it."""
    names_torch: bool = False
    told: tuple[Told, ...] = ()

    def tells(self, circumstance: str) -> Told | None:
        """Where it tells a circumstance."""
        return next((one for one in self.told if one.circumstance == circumstance), None)
