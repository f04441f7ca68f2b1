"""Questions about error texts: which cause prints them, and which causes keep a GPU from computing at all."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from gpudoctor.late_regex import late
from gpudoctor.line_search import Words, lines_with
from gpudoctor.matrix.rows.issues import ErrorPattern, LogPattern, ToldCircumstance, XidMeaning

if TYPE_CHECKING:
    from gpudoctor.matrix.rows import Tables

Vendor = Literal["nvidia", "amd"]
_TEXT, _LINE = 1 << 16, 2000
"""Only this much of a text is read, at its end, where the last messages are; and of a line, at its beginning."""
_NO_CAUSE = ("smoke-crash", "harmless")
"""Slugs of rows whose text names no cause by itself."""
_WHOLE = 1 << 20
"""Where all messages are asked for, this much, at the beginning."""
_LONG = 1 << 14
"""From this length on it is quicker to collect the words of a text than to look for a thousand signs."""
_FEWEST, _MOST = 8, 3
"""Characters that a part of a message needs, and messages that it may be part of."""
_CUDA = re.compile(r"CUDA|\bCU(?:BLAS|DNN|FFT|SPARSE|SOLVER)_")
"""torch for ROCm says so, too, but rarely."""
_NOT_OF_NONE = r"(?![^\n:]{0,60}:\s{0,3}(?:N/A|None\b|Could not collect|not found))"
"""collect_env lists what it looked for and did not find, too."""
_NAMES_AMD = (
    r"(?:HIP|hip[A-Z]|[Rr][Oo][Cc][Mm]|ROCk|ROCR|roc(?:BLAS|blas)|rock-dkms|gfx[0-9]|HSA_|amdgpu|MIOpen|RCCL|Radeon|/dev/kfd)"
    + _NOT_OF_NONE
)
_NAMES_NVIDIA = (
    r"(?:N[Vv][Ii][Dd][Ii][Aa]|nvidia|NVRM|NVML|GeForce|sm_[0-9]|cu(?:DNN|BLAS|dnn|blas|Init)"
    r"|\+cu\d{2,3}\b|CUDA used to build PyTorch: \d)" + _NOT_OF_NONE
)
_TYPED, _NEAR = late(r"\berrors?\b", re.I), 40
"""What stands at most so many letters before a message that a person typed in small letters; else such words are a
sentence of their own."""
_OWN_WORDS = late(
    r"(?i).{8,300}?[a-z0-9)'\"`.!](?P<own>,? (?:-+ )?(?:because|since|after|when|whenever|but|although|even though"
    r"|as soon as|unless|until|while)\b"
    r"(?=.*\b(?:i|i'm|i've|my|we|our|works?|worked|reboot(?:ed)?|restarted)\b).{8,400}"
    r"|(?<=[.!?]) (?:i|i'm|i've|my|we|our)\b.{8,400})"
)


class Message(Struct, frozen=True):
    """What is known of a line: an error of a program, a line of the kernel log, a circumstance told by a person."""

    row: ErrorPattern | LogPattern | ToldCircumstance
    line: str
    number: int
    """The number of the line, from 1."""
    xid: XidMeaning | None = None
    """What the number of an Xid means."""

    @property
    def id(self) -> str:
        """The id of its row in the matrix."""
        return self.row.id

    @property
    def meaning(self) -> str:
        """What the message means, in one sentence."""
        return f"Xid {self.xid.xid}: {self.xid.meaning}" if self.xid else self.row.meaning

    @property
    def causes(self) -> tuple[str, ...]:
        """Slugs, likeliest first. None: the message is harmless, or about the program."""
        if isinstance(self.row, LogPattern):
            return tuple(slug for slug in (self.xid.slug if self.xid else self.row.slug,) if slug)
        others = self.row.also if isinstance(self.row, ErrorPattern) else ()
        return tuple(slug for slug in (self.row.slug, *others) if slug not in _NO_CAUSE)

    @property
    def vendor(self) -> str:
        """The vendor whose GPUs print it, or any."""
        return self.row.vendor if isinstance(self.row, ErrorPattern) else "any"

    @property
    def names_cause(self) -> bool:
        """Whether the message tells by itself what is wrong; a heading such as numba's does not."""
        return self.row.slug not in _NO_CAUSE or (isinstance(self.row, ErrorPattern) and bool(self.row.explains))

    @property
    def ask(self) -> str:
        """The question or command that decides between the causes."""
        return "" if isinstance(self.row, LogPattern) else self.row.ask

    @property
    def help(self) -> str:
        """What helps most often."""
        return self.row.workaround


class ErrorQuestions:
    """Questions that the table of error texts answers."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    def cause_of(self, text: str, vendor: Vendor | None) -> ErrorPattern | None:
        """The first row that matches a line of the text; without a vendor only rows that are for any."""
        return self._first(text, ("any", vendor))

    def cause_seen(self, text: str, vendor: Vendor | None) -> ErrorPattern | None:
        """As `cause_of`, for a message that a person saw: where the GPU's vendor is unknown, the text may name it."""
        vendors = ("any", vendor) if vendor else _vendors(text)
        if len(vendors) > 2 and _CUDA.search(text) and (row := self._first(text, ("any", "nvidia"), seen=True)):
            return row
        return self._first(text, vendors, seen=True)

    def messages_in(self, text: str) -> tuple[Message, ...]:
        """Every known message of a text once, in the order of the text. A line that does not say whose GPU it is
        about may mean one thing on each vendor's."""
        text = text[:_WHOLE]
        lines = [line[:_LINE] for line in text.splitlines()]
        vendors = _vendors(text)
        first: dict[tuple[int, str], ErrorPattern] = {}
        for row, number in self._matches(text, lines, vendors, seen=True):
            for vendor in ("nvidia", "amd") if row.vendor == "any" else (row.vendor,):
                first.setdefault((number, vendor), row)
        messages: dict[str, Message] = {}

        def place(found: tuple[tuple[int, str], ErrorPattern]) -> tuple[int, bool]:
            number, vendor = found[0]
            return number, vendor == "amd" and _CUDA.search(lines[number]) is not None

        for (number, vendor), row in sorted(first.items(), key=place):
            if vendor in (_vendors(lines[number]) if len(vendors) > 2 else vendors):
                messages.setdefault(row.id, Message(row, lines[number].strip(), number + 1))
        return tuple(messages.values())

    def log_messages_in(self, text: str) -> tuple[Message, ...]:
        """Every known line of a kernel log once, in the order of the text."""
        text = text[:_WHOLE]
        patterns = [(row, re.compile(row.pattern)) for row in self.tables.log_patterns if row.needle in text]
        xids = {str(row.xid): row for row in self.tables.xids}
        messages: dict[tuple[str, str | None], Message] = {}
        for number, line in enumerate(text.splitlines(), 1):
            for row, pattern in patterns:
                if row.needle in line and (found := pattern.search(line[:_LINE])):
                    xid = found.groupdict().get("xid")
                    messages.setdefault(
                        (row.id, xid), Message(row, line[:_LINE].strip(), number, xids.get(xid or ""))
                    )
                    break
        return tuple(messages.values())

    def messages_named(self, name: str) -> tuple[Message, ...]:
        """The messages of a row's id or of a cause that no check looks for."""
        rows = [row for row in self.tables.error_patterns if name in (row.id, row.slug)]
        return tuple(Message(row, row.example.splitlines()[0], 1) for row in rows)

    def messages_like(self, text: str) -> tuple[Message, ...]:
        """The messages that a few whole words are part of, whatever their case and quotes, which a shell takes away;
        first the one of which they are most, and harmless ones last. None where the words fit many."""
        words = _plain(text)
        if not _FEWEST <= len(words) <= _LINE:
            return ()
        whole = re.compile(rf"(?<!\w){re.escape(words)}(?!\w)")
        rows = [row for row in self.tables.error_patterns if whole.search(_plain(row.example))]
        rows.sort(key=lambda row: (row.severity == "note", len(row.example)))
        return tuple(Message(row, text.strip(), 1) for row in rows) if len(rows) <= _MOST else ()

    def workaround_of(self, cause: str) -> str:
        """What helps against a cause, as the first message that names it says; "" where none does."""
        rows = (row for row in self.tables.error_patterns if row.slug == cause and row.workaround)
        return next((row.workaround for row in rows), "")

    @cached_property
    def stopping_causes(self) -> frozenset[str]:
        """Slugs of the causes that stop all computing on a GPU."""
        rows = [row for row in self.tables.error_patterns if row.stops]
        return frozenset(slug for row in rows for slug in row.causes)

    def _first(self, text: str, vendors: Collection[str | None], *, seen: bool = False) -> ErrorPattern | None:
        text = text[-_TEXT:]
        lines = [line[:_LINE] for line in text.splitlines()]
        return next((row for row, _ in self._matches(text, lines, vendors, seen=seen)), None)

    def _matches(
        self, text: str, lines: list[str], vendors: Collection[str | None], *, seen: bool
    ) -> Iterator[tuple[ErrorPattern, int]]:
        """Rows and the lines that they match, row by row; `seen`: a person saw the text, and may have typed a message
        in small letters."""
        if not lines:  # a row without needles would be looked for in a first line
            return
        text = "\n".join(text.splitlines())
        rows = [row for row in self.tables.error_patterns if row.vendor in vendors and not (seen and row.of_import)]
        written = self._as_written(rows, text, lines)
        if first := next(written, None):
            yield first
            yield from written
        elif seen and len(text) <= _LONG:
            yield from self._as_written(rows, text.lower(), lines, re.I)

    @staticmethod
    def _as_written(
        rows: list[ErrorPattern], text: str, lines: list[str], flags: int = 0
    ) -> Iterator[tuple[ErrorPattern, int]]:
        may_hold = Words(text).may_hold if len(text) > _LONG else text.__contains__
        for row in rows:
            needles = map(str.lower, row.needles) if flags else row.needles
            if numbers := tuple(lines_with(filter(may_hold, needles), text)):
                if row.unless and re.search(row.unless, text, flags):
                    continue
                pattern = re.compile(row.pattern, flags)
                found = _is_typed if flags else re.Pattern.search
                yield from ((row, number) for number in numbers if found(pattern, lines[number]))


def _is_typed(pattern: re.Pattern[str], line: str) -> bool:
    """Whether a line holds a message behind the word that says that it is one."""
    word = _TYPED.search(line)
    message = pattern.search(line, word.end()) if word else None
    return word is not None and message is not None and message.start() - word.end() <= _NEAR


def _plain(text: str) -> str:
    return " ".join(re.sub("[\"'`]", "", text.lower()).split())


def _vendors(text: str) -> tuple[str, ...]:
    """Vendors whose messages a text may hold. torch for ROCm says "CUDA", so that word names nobody."""
    vendor = vendor_named(text)
    return ("any", vendor) if vendor else ("any", "nvidia", "amd")


def vendor_named(text: str) -> Vendor | None:
    """The one vendor whose words a text has; None: of both, or of none."""
    amd, nvidia = re.search(_NAMES_AMD, text), re.search(_NAMES_NVIDIA, text)
    if bool(amd) == bool(nvidia):
        return None
    return "amd" if amd else "nvidia"


def own_words_behind(message: str) -> str:
    """What a person goes on with behind a message in the same line: "because I started it without ..."."""
    found = _OWN_WORDS.match(message)
    return found["own"].lstrip(", -") if found else ""
