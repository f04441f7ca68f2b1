"""Facts: a value with its source, or the reason why there is none."""

# Annotations are no strings here: T would not be found where a record is imported from.

from typing import Any, Generic, Literal, TypeVar

from msgspec import Struct

T = TypeVar("T")

Vendor = Literal["nvidia", "amd"]
PLATFORMS: dict[Vendor, str] = {"nvidia": "CUDA", "amd": "ROCm"}
"""What programs compute with on the GPUs of each vendor."""
FactState = Literal["known", "absent", "denied", "unknown"]
ASSUMED = "assumed"
"""The source of what a description or a text leaves open."""
DESCRIBED = "description"
"""The source of what a description says."""


class Record(Struct, frozen=True, omit_defaults=True):
    """Base of all parts of the Machine: frozen, compared by value, written without defaults."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        # Where a record is imported from: schemas and pickles name it, and msgspec looks up its annotations there.
        cls.__module__ = "gpudoctor.machine"


class Fact(Record, Generic[T], frozen=True):
    """One value, or the reason why there is none; `source` is the file or command it was read from.

    `absent`: the thing is known not to exist. `denied`: it exists and may not be read. `unknown`: nothing is known
    (no such tree in a recording, a time limit, garbage).
    """

    value: T | None = None
    state: FactState = "unknown"
    source: str = ""
    why: str = ""

    def __post_init__(self) -> None:
        if self.value is None and self.state == "known":
            raise ValueError("a fact that is known has a value")

    @property
    def known(self) -> bool:
        return self.state == "known"

    @property
    def absent(self) -> bool:
        return self.state == "absent"

    @property
    def undecided(self) -> bool:
        """Neither a value nor a known absence."""
        return self.state in ("denied", "unknown")

    def unanswered(self, source: str = "") -> "Fact[Any]":
        """Why there is no value here, as the answer to a question that builds on this one."""
        return Fact(state=self.state, source=source or self.source, why=self.why)


def known(value: T, source: str) -> Fact[T]:
    """A fact that was read from `source`."""
    return Fact(value=value, state="known", source=source)


def absent(source: str, why: str = "") -> Fact[Any]:
    """Something that does not exist, as `source` shows."""
    return Fact(state="absent", source=source, why=why)


def denied(source: str, why: str = "permission denied") -> Fact[Any]:
    """Something that exists and may not be read."""
    return Fact(state="denied", source=source, why=why)


def unknown(why: str, source: str = "") -> Fact[Any]:
    """Something that could not be found out, and why."""
    return Fact(state="unknown", source=source, why=why)
