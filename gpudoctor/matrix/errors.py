"""Questions about error texts: which cause prints them, and which causes keep a GPU from computing at all."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import cached_property
from typing import Literal

from msgspec import Struct

from gpudoctor.matrix.rows import ErrorPattern, Tables

Vendor = Literal["nvidia", "amd"]
_TEXT, _LINE = 1 << 16, 2000
"""Only this much of a text is read, at its end, where the last messages are; and of a line, at its beginning."""
_WHOLE = 1 << 20
"""Where all messages are asked for, this much, at the beginning."""
_NAMES_AMD = re.compile(
    r"HIP|hip[A-Z]|[Rr][Oo][Cc][Mm]|ROCk|ROCR|roc(?:BLAS|blas)|gfx[0-9]|HSA_|amdgpu|MIOpen|RCCL|Radeon|/dev/kfd"
)
_NAMES_NVIDIA = re.compile(r"N[Vv][Ii][Dd][Ii][Aa]|nvidia|NVRM|NVML|GeForce|sm_[0-9]|cu(?:DNN|BLAS|dnn|blas|Init)")


class Message(Struct, frozen=True):
    """A known error message in a text, and what it means."""

    row: ErrorPattern
    line: str
    number: int
    """Of the line, from 1."""


class ErrorQuestions:
    """Questions that the table of error texts answers."""

    tables: Tables

    def cause_of(self, text: str, vendor: Vendor | None) -> ErrorPattern | None:
        """The first row that matches a line of the text; without a vendor only rows that are for any."""
        return self._first(text, ("any", vendor))

    def cause_seen(self, text: str, vendor: Vendor | None) -> ErrorPattern | None:
        """As `cause_of`, for a message that a person saw: where the GPU's vendor is unknown, the text may name it."""
        return self._first(text, ("any", vendor) if vendor else _vendors(text))

    def messages_in(self, text: str) -> tuple[Message, ...]:
        """Every known message of a text once, in the order of the text. A line that does not say whose GPU it is
        about may mean one thing on each vendor's."""
        text = text[:_WHOLE]
        lines = [line[:_LINE] for line in text.splitlines()]
        vendors = _vendors(text)
        first: dict[tuple[int, str], ErrorPattern] = {}
        for row, number in self._matches(text, lines, vendors):
            for vendor in ("nvidia", "amd") if row.vendor == "any" else (row.vendor,):
                first.setdefault((number, vendor), row)
        messages: dict[str, Message] = {}
        for (number, vendor), row in sorted(first.items(), key=lambda item: item[0][0]):
            if vendor in (_vendors(lines[number]) if len(vendors) > 2 else vendors):
                messages.setdefault(row.id, Message(row, lines[number].strip(), number + 1))
        return tuple(messages.values())

    @cached_property
    def stopping_causes(self) -> frozenset[str]:
        """Slugs of the causes that stop all computing on a GPU."""
        rows = [row for row in self.tables.error_patterns if row.stops]
        return frozenset(slug for row in rows for slug in (row.slug, *row.also))

    def _first(self, text: str, vendors: Collection[str | None]) -> ErrorPattern | None:
        text = text[-_TEXT:]
        lines = [line[:_LINE] for line in text.splitlines()]
        return next((row for row, _ in self._matches(text, lines, vendors)), None)

    def _matches(
        self, text: str, lines: list[str], vendors: Collection[str | None]
    ) -> Iterator[tuple[ErrorPattern, int]]:
        """Rows and the lines that they match, row by row."""
        for row in self.tables.error_patterns:
            needles = [needle for needle in row.needles if needle in text] if row.vendor in vendors else ()
            if not needles:
                continue
            pattern = re.compile(row.pattern)
            for number, line in enumerate(lines):
                if any(needle in line for needle in needles) and pattern.search(line):
                    yield row, number


def _vendors(text: str) -> tuple[str, ...]:
    """Vendors whose messages a text may hold. torch for ROCm says "CUDA", so that word names nobody."""
    amd, nvidia = _NAMES_AMD.search(text), _NAMES_NVIDIA.search(text)
    if bool(amd) == bool(nvidia):
        return ("any", "nvidia", "amd")
    return ("any", "amd") if amd else ("any", "nvidia")
