"""Children in Python that end with the gpudoctor that started them, however that one ends: by SIGKILL, too."""

from __future__ import annotations

import os

_BIND = """
import os, signal, sys
try:
    import ctypes
    ctypes.CDLL(None).prctl({set_death_signal}, int(signal.SIGKILL), 0, 0, 0)
except Exception:
    pass
if os.getppid() != int(sys.argv.pop(1)):
    os._exit(1)
"""
_PR_SET_PDEATHSIG = 1


def bound(program: str, *arguments: str) -> tuple[str, ...]:
    """What follows the interpreter (3.8 and newer): `program`, bound to this process, sys.argv[1:] as `arguments`.

    The kernel kills the child when the *thread* ends that started it: that one has to stay until it is collected.
    A child whose gpudoctor ended before it was bound sees another parent's number.
    """
    return ("-c", _BIND.format(set_death_signal=_PR_SET_PDEATHSIG) + program, str(os.getpid()), *arguments)
