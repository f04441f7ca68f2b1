"""Questions about error texts: which cause prints them, and which causes keep a GPU from computing at all."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Literal

from gpudoctor.matrix.rows import ErrorPattern, Tables

_TEXT, _LINE = 1 << 16, 2000
"""Only this much of a text is read, at its end, where the last messages are; and of a line, at its beginning."""


class ErrorQuestions:
    """Questions that the table of error texts answers."""

    tables: Tables

    def cause_of(self, text: str, vendor: Literal["nvidia", "amd"] | None) -> ErrorPattern | None:
        """The first row that matches a line of the text; without a vendor only rows that are for any."""
        text = text[-_TEXT:]
        lines = [line[:_LINE] for line in text.splitlines()]
        for row in self.tables.error_patterns:
            if row.vendor not in ("any", vendor) or row.needle not in text:
                continue
            pattern = re.compile(row.pattern)
            if any(pattern.search(line) for line in lines if row.needle in line):
                return row
        return None

    @cached_property
    def stopping_causes(self) -> frozenset[str]:
        """Slugs of the causes that stop all computing on a GPU."""
        rows = [row for row in self.tables.error_patterns if row.stops]
        return frozenset(slug for row in rows for slug in (row.slug, *row.also))
