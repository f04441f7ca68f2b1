"""The system's clock: what it counts, who keeps it in time, and how far off it may be."""

from __future__ import annotations

import re

from msgspec import Struct

from gpudoctor.host import Host
from gpudoctor.machine import Clock, Fact, known, unknown

_SOURCE = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
_SERVICES = (
    ("systemd-timesyncd", ("/run/systemd/timesync/synchronized", "/run/systemd/timesync")),
    ("chronyd", ("/run/chrony/chronyd.pid", "/run/chronyd.pid", "/run/chrony")),
    ("ntpd", ("/run/ntpd.pid", "/run/ntpd/ntpd.pid")),
)
_SYNCHRONIZED = "/run/systemd/timesync/synchronized"
_UNSYNCHRONIZED = 0x40
_WORST = 16_000_000
"""The kernel's bound of the error stops growing here: 16 seconds."""


class _Kernel(Struct, frozen=True):
    synchronized: bool
    error: int


def probe_clock_source(host: Host) -> Fact[str]:
    """The kernel's clock source."""
    text = host.text(_SOURCE, 64)
    if text.value is not None and not re.fullmatch(r"[\w-]{1,40}", text.value):
        return unknown("no name of a clock source is in it", _SOURCE)
    return text


def probe_clock(host: Host) -> Fact[Clock]:
    """The time service that runs here, and what the kernel says of the error; a container sees no service."""
    service = next((name for name, paths in _SERVICES if any(host.exists(path) for path in paths)), "")
    kernel = _kernel() if host.live else None
    if kernel is not None:
        error = kernel.error if kernel.error < _WORST else None
        return known(Clock(service=service, synchronized=kernel.synchronized, error=error), "adjtimex")
    if service:
        synchronized = True if host.exists(_SYNCHRONIZED) else None
        return known(Clock(service=service, synchronized=synchronized), "/run")
    return unknown("no file of a time service is here", "/run")


def _kernel() -> _Kernel | None:
    """adjtimex(2), which reads and changes nothing here; None where a container may not ask."""
    import ctypes

    timex = (ctypes.c_long * 26)()  # at least as long as the kernel's struct; `modes`, its first field, stays 0
    try:
        answer = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex))
    except (OSError, AttributeError):
        return None
    if answer < 0:
        return None
    status = timex[5] & 0xFFFF_FFFF
    return _Kernel(synchronized=not status & _UNSYNCHRONIZED, error=timex[3])
