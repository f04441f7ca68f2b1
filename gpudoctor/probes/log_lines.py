"""Lines of a kernel log in all its usual forms: /dev/kmsg, dmesg, syslog, the journal."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

_LINE_LIMIT = 2000
_CONTINUED = 10
"""Most further lines of one message."""
_BACKWARDS = 5.0
"""The clock of one boot does not run back; the log's lines are in order except for moments."""

_SECONDS = r"\[\s*(?P<seconds>\d{1,10}\.\d{1,9})\](?:\s*\[\s*[TC]\d+\])?\s?"
_LEVEL = r"<\d{1,3}>|[a-z]+\s*:[a-z]+\s*:\s"
_WALL = (
    r"\[(?:[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}|[A-Z][a-z]{2} ?\d{1,2} \d\d:\d\d"
    r"|\s{0,8}\+\d{1,8}\.\d{1,9})\]\s?"
)
"""Stamps of `dmesg -T`, and of `dmesg -H`: a minute, then the seconds since the line before."""
_ISO = r"(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:(?P<mark>[.,])\d+)?(?P<zone>Z|[+-]\d\d:?\d\d)?\s"
# The month as the locale writes it: "May", "mar", "11月".
_SYSLOG = r"[^\W_][\w.]{1,8}\s+\d{1,2}\s\d\d:\d\d:\d\d(?:\.\d+)?\s"
_PROGRAM = r"(?P<host>[\w.-]+)\s(?P<program>[\w./@-]+(?:\[\d+\])?):\s"
_BOOT = r"(?i)-- (?:Boot [0-9a-f]{32}|Reboot) --|--- reboot ---"
_ESCAPE = r"\\x([0-9a-f]{2})"


class Entry(Struct):
    """One message. `text` has a line break where it has several lines."""

    text: str
    seconds: float | None = None
    """Since boot."""
    clock: str | None = None
    """Wall clock, if written in ISO form, with its zone."""

    @property
    def joined(self) -> str:
        """The lines as one, without the prefix that a driver repeats on each of them."""
        if "\n" not in self.text:
            return self.text
        head, *rest = self.text.split("\n")
        prefix = head.partition(" ")[0]
        parts = [part.strip().removeprefix(prefix).strip() if prefix.endswith(":") else part.strip() for part in rest]
        return " ".join([head.strip(), *filter(None, parts)])

    def forms(self) -> tuple[str, ...]:
        return (self.text,) if "\n" not in self.text else (self.joined, *self.text.split("\n"))


def this_boot(
    text: str,
    *,
    records: bool = False,
    kernel_only: bool = False,
    uptime: float | None = None,
    started: int | None = None,
) -> tuple[Entry, ...]:
    """The messages of the last boot in a log, oldest first.

    `records`: in the form of /dev/kmsg. `kernel_only`: lines of other programs are between them. If only the end of a
    log was read, `uptime` and `started` (seconds since 1970) tell what an earlier boot wrote.
    """
    entries: list[Entry] = []
    clock: float | None = None
    for entry in _records(text) if records else _lines(text, kernel_only):
        if entry is None or _begins(entry, clock):
            entries.clear()
            clock = None
        if entry is not None:
            entries.append(entry)
            clock = clock if entry.seconds is None else entry.seconds
    return tuple(entry for entry in entries if not _older(entry, uptime, started))


def seconds_of(line: str) -> float | None:
    """The seconds since boot that dmesg writes before a message."""
    stamp = re.match(_SECONDS, line)
    return float(stamp["seconds"]) if stamp else None


def _begins(entry: Entry, clock: float | None) -> bool:
    """Whether a boot begins with that message; `clock` is the time of the previous one."""
    if entry.text.startswith("Linux version ") and (entry.seconds or 0.0) < 1.0:
        return True
    return entry.seconds is not None and clock is not None and entry.seconds < clock - _BACKWARDS


def _older(entry: Entry, uptime: float | None, started: int | None) -> bool:
    if entry.seconds is not None:
        return uptime is not None and entry.seconds > uptime + 60
    if entry.clock is None or started is None:
        return False
    from datetime import datetime, timezone

    try:
        when = datetime.fromisoformat(entry.clock)
    except ValueError:
        return False
    if when.tzinfo is None:
        when = when.replace(tzinfo=timezone.utc)
        return when.timestamp() < started - 14 * 3600
    return when.timestamp() < started - 60


# --- forms -------------------------------------------------------------------------------------------


def _records(text: str) -> Iterator[Entry]:
    """ "6,339,5140900,-;NVRM: ..." in microseconds; lines that begin with a space belong to the record above."""
    for line in text.split("\n"):
        if line.startswith(" "):
            continue
        head, found, message = line.partition(";")
        fields = head.split(",")
        if found and len(fields) >= 3 and _is_number(fields[2]):
            if "\\x" in message:
                message = re.sub(_ESCAPE, lambda match: chr(int(match[1], 16)), message)
            yield Entry(text=message[:_LINE_LIMIT].rstrip(), seconds=int(fields[2]) / 1e6)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18


def _lines(text: str, kernel_only: bool) -> Iterator[Entry | None]:
    """None marks the border between two boots. A line without a stamp continues the one above."""
    if re.match(r"\d+,\d+,\d+,[^;\n]{1,40};", text):
        yield from _records(text)
        return
    current: Entry | None = None
    open_lines = 0
    for raw in text.split("\n"):
        line = raw[:_LINE_LIMIT].rstrip()
        border = re.match(_BOOT, line) is not None
        stamped, kernel, entry = _without_stamp(line)
        if current is not None and open_lines and line and not stamped and not border:
            current.text += "\n" + line.strip()
            open_lines -= 1
            continue
        if current is not None and _goes_on(current.text, entry.text):
            current.text += "\n" + entry.text
            continue
        if current is not None:
            yield current
        current, open_lines = None, 0
        if border:
            yield None
        elif entry.text and (kernel or not kernel_only):
            current, open_lines = entry, _CONTINUED if stamped else 0
    if current is not None:
        yield current


def _goes_on(said: str, line: str) -> bool:
    """Whether a line ends the sentence that NVIDIA's driver began about a GPU, though it looks like a message."""
    return said.startswith("NVRM: The NVIDIA ") and not said.endswith(".") and line.startswith("NVRM: ")


def _without_stamp(line: str) -> tuple[bool, bool, Entry]:
    """Whether the line had a stamp, whether the kernel wrote it, and its content."""
    entry = Entry(text=line)
    rest, stamped, kernel = line, False, True
    while level := re.match(_LEVEL, rest):
        rest, stamped = rest[level.end() :], True
    if iso := re.match(_ISO, rest):
        rest, stamped = rest[iso.end() :], True
        entry.clock = iso["time"].replace(" ", "T") + _zone(iso["zone"])
        if iso["mark"] != ",":  # dmesg writes a comma; the others name the machine and the program
            rest, kernel = _without_program(rest)
    elif syslog := re.match(_SYSLOG, rest):
        stamped = True
        rest, kernel = _without_program(rest[syslog.end() :])
    elif wall := re.match(_WALL, rest):
        rest, stamped = rest[wall.end() :], True
    if bracket := re.match(_SECONDS, rest):
        rest, stamped = rest[bracket.end() :], True
        entry.seconds = float(bracket["seconds"])
        program = re.match(_PROGRAM, rest)
        if program and program["program"] == "kernel":
            rest = rest[program.end() :]
    entry.text = rest.strip()
    return stamped, kernel, entry


def _without_program(text: str) -> tuple[str, bool]:
    match = re.match(_PROGRAM, text)
    return (text, True) if match is None else (text[match.end() :], match["program"] == "kernel")


def _zone(text: str | None) -> str:
    if not text or text == "Z":
        return "+00:00" if text else ""
    return text if ":" in text else f"{text[:3]}:{text[3:]}"
