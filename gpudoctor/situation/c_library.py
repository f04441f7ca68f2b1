"""The machine's C library, compared with the one that a program or a wheel was built for."""

from __future__ import annotations

from gpudoctor.matrix.versions import at_least
from gpudoctor.situation import Situation

MUSL = "musl"


def c_library(situation: Situation) -> str | None:
    """ "glibc 2.31" or "musl", as read, else from the distribution's release; None: unknown."""
    system = situation.machine.system
    if system.libc.value or system.os.value is None:
        return system.libc.value
    return situation.matrix.images.libc_of(system.os.value)


def too_old_for(libc: str | None, glibc: str | None) -> bool:
    """Whether a C library certainly cannot load what is built for that glibc."""
    if libc is None or libc == MUSL:
        return libc == MUSL
    return glibc is not None and not at_least(libc.removeprefix("glibc "), glibc)
