"""Every child of gpudoctor: its start, and its output until it has ended.

It begins in Python, bound to end with gpudoctor and without the right to trace it. `process_tree` ends it with all
that it started.
"""

from __future__ import annotations

import math
import os
import select
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpudoctor.host.interrupts import Interruptions
from gpudoctor.host.process_tree import ProcessTree

BARE_PYTHON = (sys.executable, "-I", "-S", "-B")
CLOSING_SECONDS = 0.2
"""How long output may stay open after the child itself has ended (a daemon it left behind holds it)."""


def signal_name(number: int) -> str:
    """SIGSEGV ..., of the signal that ended a child."""
    import signal

    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


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
BECOME = """
for number in (signal.SIGPIPE, signal.SIGXFSZ):
    signal.signal(number, signal.SIG_DFL)
try:
    os.execvp(sys.argv[1], sys.argv[1:])
except OSError as error:
    print(f"{sys.argv[1]}: {error.strerror}", file=sys.stderr, flush=True)
    os._exit(127)
"""
"""A child's program: another program that is not Python, with its arguments."""
_SERVE = """
import importlib.util
folder = sys.argv[1]
if sys.path[0] == "":
    del sys.path[0]
spec = importlib.util.spec_from_file_location(
    "{name}", folder + "/__init__.py", submodule_search_locations=[folder])
package = importlib.util.module_from_spec(spec)
sys.modules["{name}"] = package
spec.loader.exec_module(package)
from {name} import serve
serve.main({arguments})
"""


def serving(name: str, arguments: str) -> str:
    """A child's program: loads the folder in its first argument as a package of that name, and starts its `serve`.
    No folder of ours gets onto sys.path. `arguments` is Python."""
    return _SERVE.format(name=name, arguments=arguments)


def bound(program: str, *arguments: str, may_trace: bool = False) -> tuple[str, ...]:
    """The arguments after the interpreter (3.8 and newer): `program`, bound to this process, with its `arguments`.

    With `may_trace` it keeps all its rights: it does what a person asked for, and may leave services behind.
    The kernel kills the child when the *thread* that started it ends: this thread must stay until it is collected.
    A child whose gpudoctor ended before it was bound sees another parent's number.
    """
    begin = (_BIND if may_trace else _BIND + _DISARM).format(**_NUMBERS)
    return ("-c", begin + program, str(os.getpid()), *arguments)


class BoundChild(ProcessTree):
    """A running child whose output is read; call `end`. Start it while signals are `deferred`."""

    def __init__(
        self,
        program: str,
        arguments: Sequence[str],
        heard: Callable[[str, bytes], None],
        interruptions: Interruptions,
        *,
        interpreter: Sequence[str] = BARE_PYTHON,
        channels: Mapping[str, int] | None = None,
        cpu_seconds: float = 0.0,
        may_trace: bool = False,
        **options: Any,
    ) -> None:
        """Start `program` (see `bound`) with these options of Popen. `heard` gets the data of "stdout", "stderr" and
        `channels`, which are descriptors to read; b"" when one is closed. Raises what Popen raises."""
        command = (*interpreter, *bound(program, *arguments, may_trace=may_trace))
        super().__init__(command, cpu_seconds=cpu_seconds, **options)
        self._heard, self._interruptions = heard, interruptions
        self._printed = {
            stream.fileno(): name
            for name, stream in (("stdout", self.process.stdout), ("stderr", self.process.stderr))
            if stream is not None
        }
        self._channels = {descriptor: name for name, descriptor in (channels or {}).items()}

    def listen(self, seconds: float) -> bool:
        """Pass on the data that arrives within `seconds`: printed text before channels, since it was printed first.
        Returns whether something arrived. Raises Interrupted."""
        poll = select.poll()
        for descriptor in (self._interruptions.fileno(), *self._printed, *self._channels):
            poll.register(descriptor, select.POLLIN)
        ready = {descriptor for descriptor, _ in poll.poll(math.ceil(seconds * 1000))}
        self._interruptions.check()
        for names in (self._printed, self._channels):
            for descriptor in ready & names.keys():
                data = os.read(descriptor, 1 << 16)
                self._heard(names[descriptor] if data else names.pop(descriptor), data)
        return bool(ready)

    def follow(self, seconds: float) -> bool:
        """Read its output until it has ended; False if it has not after `seconds`. Raises Interrupted."""
        deadline = time.monotonic() + seconds
        ended: float | None = None
        while True:
            now = time.monotonic()
            if ended is None and self.has_ended:
                ended = now
            if ended is not None and (not self._printed or now - ended > CLOSING_SECONDS):
                return True
            if ended is None and now >= deadline:
                return False
            self.listen(min(0.05 if self._printed else 0.002, max(0.0, deadline - now)))
