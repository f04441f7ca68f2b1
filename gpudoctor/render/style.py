"""How a report is given: its options. Colours are in lines.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field

from gpudoctor.render.lines import Line

if TYPE_CHECKING:
    from gpudoctor.matrix.rows import GpuRates


class ReportStyle(Struct, frozen=True):
    """How a report is to be given. All but `private` is for people: text and pages."""

    private: bool = False
    verbose: bool = False
    quiet: bool = False
    color: bool = False
    about: Literal["machine", "kernels", "image"] = "machine"
    """The subject: a machine, only what smoke kernels did there, or an image."""
    table: tuple[Line, ...] = ()
    """What smoke kernels did, or what an image is built from."""
    rates: Mapping[str, GpuRates] = field(default_factory=dict)
    """What the GPUs that computed reach on paper, by torch's device name."""
    again: tuple[str, ...] = ()
    """Options that name the same machine and environment to `fix` and other commands."""
    require: tuple[str, ...] = ()
    """What was required on the command line, as `check` takes it."""
    note: str = ""
    """What a person should know of the environment that is examined."""
    best: tuple[str, str] | None = None
    """The best torch build and the command that installs it, where there is none."""


PLAIN = ReportStyle()
