"""Faults of GPUs and their drivers in the kernel log of this boot, found with the matrix's patterns."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpudoctor.host import Host
from gpudoctor.line_search import lines_with
from gpudoctor.machine import Fact, KernelLog, LogFault, absent, denied, known, unknown
from gpudoctor.matrix.rows.issues import LogPattern
from gpudoctor.probes.log_lines import Entry, this_boot
from gpudoctor.probes.pci_address import find_address, normal_address

# The first messages of the boot, and the one file of the system's logging that keeps the rest.
_FILES = (("/var/log/dmesg",), ("/var/log/kern.log", "/var/log/messages", "/var/log/syslog"))
_MIXED = ("/var/log/messages", "/var/log/syslog")
"""Files in which other programs write too."""
_TAIL = 1 << 20
_LINE = 500
"""How much of its line a fault keeps."""
_MOST_OF_A_KIND = 10
"""How many to keep from the beginning, and how many from the end."""


def probe_kernel_log(host: Host, patterns: Sequence[LogPattern]) -> Fact[KernelLog]:
    """Faults of this boot. Repetitions keep their first and last line."""
    entries = kernel_messages(host, [pattern.needle for pattern in patterns])
    if entries.value is None:
        return entries.unanswered()
    log = KernelLog(faults=_faults(entries.value, patterns), source=entries.source)
    return known(log, entries.source)


def kernel_messages(host: Host, needles: Sequence[str]) -> Fact[tuple[Entry, ...]]:
    """This boot's messages, from the running kernel's buffer, else from the files. Of the buffer only the records
    that hold one of `needles`."""
    buffer = host.kernel_messages()
    if buffer.value is not None:
        written = buffer.value.decode("utf-8", "replace")
        return known(this_boot(_records_with(written, needles), records=True), buffer.source)
    entries: tuple[Entry, ...] = ()
    read, failures = [], [buffer] if host.live else []
    for files in _FILES:
        for path in files:
            tail = _tail(host, path)
            if tail.value is None:
                failures.append(tail)
                continue
            written = tail.value.decode("utf-8", "replace")
            entries += this_boot(written, kernel_only=path in _MIXED, uptime=_uptime(host), started=_boot_time(host))
            read.append(path)
            break
    if read:
        return known(entries, ", ".join(read))
    refused = next((found for found in failures if found.state == "denied"), None)
    if refused is not None:
        return denied(refused.source, refused.why)
    unread = next((found for found in failures if not found.absent), None)
    return absent("/dev/kmsg", "no log") if unread is None else unknown(unread.why, unread.source)


def log_of_text(text: str, patterns: Sequence[LogPattern], source: str) -> KernelLog:
    """The faults in a log that somebody kept, in any of its usual forms."""
    return KernelLog(faults=_faults(this_boot(text), patterns), source=source)


def _tail(host: Host, path: str) -> Fact[bytes]:
    """The end of a log; a log that was last written before this boot does not count."""
    found = host.stat(path)
    if found.value is None:
        return found.unanswered()
    started = _boot_time(host)
    if started is not None and found.value.modified < started - 60:
        return absent(path, "not written since the machine was started")
    offset = max(0, found.value.size - _TAIL)
    content = host.data(path, _TAIL, offset)
    if content.value is None or not offset:
        return content
    return known(content.value.partition(b"\n")[2], path)


def _uptime(host: Host) -> float | None:
    """Seconds since boot; None for a recording, whose log and clocks may be of different moments."""
    match = re.match(r"\d+(\.\d+)?", host.text("/proc/uptime", 256).value or "") if host.live else None
    return float(match[0]) if match else None


def _boot_time(host: Host) -> int | None:
    """When the running system was started, in seconds since 1970."""
    if not host.live:
        return None
    match = re.search(r"^btime (\d+)", host.text("/proc/stat").value or "", re.MULTILINE)
    return int(match[1]) if match else None


# --- matching ----------------------------------------------------------------------------------------


def _records_with(written: str, needles: Sequence[str]) -> str:
    """The records of /dev/kmsg that hold one of `needles`: a healthy machine has few or none to parse. Where a
    pattern needs a space, there may be an escaped line break."""
    lines = written.split("\n")
    return "\n".join(lines[number] for number in lines_with({"\\x", *needles}, written))


def _faults(entries: Sequence[Entry], patterns: Sequence[LogPattern]) -> tuple[LogFault, ...]:
    texts = [entry.text if "\n" not in entry.text else "\n".join(entry.forms()) for entry in entries]
    whole = "\n".join(texts)
    compiled = [
        (pattern.id, pattern.needle, re.compile(pattern.pattern)) for pattern in patterns if pattern.needle in whole
    ]
    kept: dict[str, dict[tuple[str | int | None, ...], list[tuple[int, LogFault]]]] = {}
    for place, (entry, text) in enumerate(zip(entries, texts, strict=True)):
        for kind, needle, regex in compiled:
            match = _match(entry, regex) if needle in text else None
            if match is not None:
                fault, detail = _fault(entry, kind, match)
                same = kept.setdefault(kind, {}).setdefault((fault.bdf, fault.xid, detail), [])
                same[1:] = [(place, fault)]
    kinds = ([pair for same in groups.values() for pair in same] for groups in kept.values())
    found = sorted((pair for kind in kinds for pair in _ends(kind)), key=lambda pair: pair[0])
    return tuple(fault for _, fault in found)


def _ends(found: list[tuple[int, LogFault]]) -> list[tuple[int, LogFault]]:
    """Keep the ends, so that a flood of one kind does not push out the others."""
    ordered = sorted(found, key=lambda pair: pair[0])
    return ordered if len(ordered) <= 2 * _MOST_OF_A_KIND else ordered[:_MOST_OF_A_KIND] + ordered[-_MOST_OF_A_KIND:]


def _match(entry: Entry, regex: re.Pattern[str]) -> re.Match[str] | None:
    """A message of several lines is tried as one, then line by line."""
    return next(filter(None, (regex.search(form) for form in entry.forms())), None)


def _fault(entry: Entry, kind: str, match: re.Match[str]) -> tuple[LogFault, str]:
    """The fault, and what distinguishes it from another of its kind on the same GPU."""
    groups = match.groupdict()
    bdf, xid = groups.get("bdf"), groups.get("xid")
    fault = LogFault(
        kind=kind,
        line=entry.joined[:_LINE],
        bdf=(normal_address(bdf) if bdf else None) or find_address(entry.joined),
        xid=int(xid) if xid and re.fullmatch(r"\d{1,9}", xid) else None,
        seconds=entry.seconds,
    )
    return fault, "" if fault.xid is not None else (groups.get("detail") or "")
