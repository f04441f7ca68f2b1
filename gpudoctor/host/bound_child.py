"""How every child of gpudoctor starts: in Python, bound to end with gpudoctor, and without the right to trace it."""

from __future__ import annotations

import os
from collections.abc import Sequence

# Both also run in the examined interpreter: Python 3.8. A C library may lack one of these calls.
_BIND = """
import os, signal, sys
try:
    import ctypes
    libc = ctypes.CDLL(None)
    libc.prctl({set_death_signal}, int(signal.SIGKILL), 0, 0, 0)
except Exception:
    pass
if os.getppid() != int(sys.argv.pop(1)):
    os._exit(1)
"""
_DISARM = """
try:
    if libc.prctl({drop_from_bounds}, {trace}, 0, 0, 0) and os.geteuid() == 0:
        libc.prctl({set_no_new_privileges}, 1, 0, 0, 0)
    header, sets = (ctypes.c_uint32 * 2)({capability_version}, 0), (ctypes.c_uint32 * 6)()
    if libc.capget(header, sets) == 0:
        for index in range(3):
            sets[index] &= ~(1 << {trace})
        libc.capset(header, sets)
except Exception:
    pass
"""
_NUMBERS = {
    "set_death_signal": 1,
    "drop_from_bounds": 24,
    # Only for a root that may not narrow its bounds: for others it would disarm nvidia-modprobe, which is setuid.
    "set_no_new_privileges": 38,
    "trace": 19,
    "capability_version": "0x20080522",
}

# Python ignores both signals; without this, so would the command.
_BECOME = """
for number in (signal.SIGPIPE, signal.SIGXFSZ):
    signal.signal(number, signal.SIG_DFL)
try:
    os.execvp(sys.argv[1], sys.argv[1:])
except OSError as error:
    sys.exit(f"{sys.argv[1]}: {error.strerror}")
"""


def bound(program: str, *arguments: str, may_trace: bool = False) -> tuple[str, ...]:
    """The arguments after the interpreter (3.8 and newer): `program`, bound to this process, with its `arguments`.

    With `may_trace` it keeps all its rights: it does what a person asked for, and may leave services behind.
    The kernel kills the child when the *thread* that started it ends: this thread must stay until it is collected.
    A child whose gpudoctor ended before it was bound sees another parent's number.
    """
    begin = (_BIND if may_trace else _BIND + _DISARM).format(**_NUMBERS)
    return ("-c", begin + program, str(os.getpid()), *arguments)


def bound_command(argv: Sequence[str]) -> tuple[str, ...]:
    """The same for a program that is not Python."""
    return bound(_BECOME, *argv)
