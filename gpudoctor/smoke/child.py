"""One child in the examined interpreter: its start, its messages, its last output, and its end."""

from __future__ import annotations

import os
import posixpath
import re
import secrets
import signal
import subprocess
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

from gpudoctor.frameworks.torch.kernels.channel import GarbledError, Message, Reader, send
from gpudoctor.frameworks.torch.kernels.serve import CHANNEL_GONE, FILES_LIMIT
from gpudoctor.host.bound_child import BoundChild, serving, signal_name
from gpudoctor.host.interrupts import Interruptions
from gpudoctor.host.process_tree import kill
from gpudoctor.smoke.shared_memory import SharedMemory

_BOOTSTRAP = serving(
    "gpudoctor_smoke", 'int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5] == "count", sys.argv[6]'
)

_CACHES = (
    "XDG_CACHE_HOME", "CUDA_CACHE_PATH", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TORCH_HOME",
    "TORCH_EXTENSIONS_DIR", "MIOPEN_USER_DB_PATH", "MIOPEN_CUSTOM_CACHE_DIR", "AMD_COMGR_CACHE_DIR",
    "MPLCONFIGDIR", "NUMBA_CACHE_DIR", "TMPDIR",
)  # fmt: skip
_POLL_SECONDS = 0.25
_TAIL_LIMIT = 1 << 14
_STACK_OF_TORCH = r"frame #\d+: |Exception raised from .{1,300} \(most recent call first\)"
"""Lines that torch's C++ prints below its message, dozens of them."""
_SAID_LIMIT = 2000
_TRACE_SECONDS = 1.0
"""How long a hanging child may take to write where it is."""
_SILENCE_SECONDS = 2.0
"""Without a beat for this long, something holds the GIL, so that no other Python thread can run."""
_CLOSED_SECONDS = 1.0
_TRACKER_SECONDS = 0.5
_END_SECONDS = 10.0
"""A process with contexts on eight GPUs needs seconds to end."""


class Lost(Exception):  # noqa: N818 - what became of a child, not an error of this program
    """The child is no longer usable: it ended, gave no answer in time, was stopped, or wrote an invalid message."""

    def __init__(
        self,
        how: Literal["ended", "silent", "stopped", "garbled"],
        status: int | None,
        said: str,
        place: str,
        gil: bool,
        files: tuple[str, ...] = (),
    ) -> None:
        super().__init__(how)
        self.how = how
        self.status = status
        """Exit status; negative: the signal that ended or stopped it."""
        self.said = said
        """The last lines that it printed."""
        self.place = place
        """Where its Python was: "relu in functional.py line 12, called from matmul in basics.py line 9"."""
        self.gil = gil
        """Whether it held the GIL while it gave no answer."""
        self.files = files
        """The files of the Python lines where it was, innermost first."""

    @property
    def signal(self) -> str:
        """SIGSEGV ..., or empty."""
        return "" if self.status is None or self.status >= 0 else signal_name(-self.status)

    @property
    def last_line(self) -> str:
        return self.said.rpartition("\n")[2]

    def sentence(self, seconds: float) -> str:
        """What happened, for a person; `seconds` was the time limit."""
        if self.how == "silent":
            held = "; it waits in native code and holds the GIL" if self.gil else ""
            text = f"no answer within {seconds:g} s{held}"
        elif self.how == "stopped":
            text = f"the process was stopped ({self.signal})"
        elif self.how == "garbled":
            text = "the process wrote into gpudoctor's channel, or closed it"
        elif self.signal == "SIGKILL":
            text = "the process was killed (SIGKILL), as Linux does where memory runs out"
        elif self.status == CHANNEL_GONE:
            text = "the process could not write into gpudoctor's channel any more"
        else:
            text = f"the process ended with {self.signal or f'status {self.status}'}"
        return f"{text}, at {self.place}" if self.place else text


def _in_english(environ: Mapping[str, str]) -> dict[str, str]:
    """Locale variables with which messages are English, and files are read in the user's encoding: a .pth file may
    name a folder with an umlaut."""
    encoding = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG", "")
    return {"LC_ALL": "", "LC_CTYPE": encoding, "LC_MESSAGES": "C", "LANGUAGE": ""}


class Child:
    """A running child; call `end`. Raises OSError if the interpreter cannot be started."""

    def __init__(
        self,
        interpreter: str,
        environ: Mapping[str, str],
        folder: Path,
        kernels: Path,
        interruptions: Interruptions,
        *,
        count: bool = False,
        module: str = "torch",
    ) -> None:
        """The child imports `module`, and may write into `folder`; with `count` it counts torch's devices then."""
        self._trace = folder / f"trace-{secrets.token_hex(4)}"
        self._kernels = kernels
        self._shared_memory = SharedMemory()
        self._reader = Reader()
        self._pending: deque[Message] = deque()
        self._tails = {"stdout": b"", "stderr": b""}
        self._garbled = self._closed = self._ready = False
        self._beat = time.monotonic()
        self._start(interpreter, environ, folder, interruptions, "count" if count else "", module)

    def _start(
        self, interpreter: str, environ: Mapping[str, str], folder: Path, interruptions: Interruptions, *words: str
    ) -> None:
        cwd, caches = folder / f"cwd-{secrets.token_hex(4)}", folder / "caches"
        cwd.mkdir()
        caches.mkdir(exist_ok=True)
        commands, self._commands = os.pipe()
        self._events, events = os.pipe()
        arguments = (self._kernels, commands, events, self._trace, *words)
        own = {"PYTHONDONTWRITEBYTECODE": "1", **_in_english(environ)}
        try:
            self._child = BoundChild(
                _BOOTSTRAP,
                [str(argument) for argument in arguments],
                self._hear,
                interruptions,
                interpreter=(interpreter,),
                channels={"events": self._events},
                env={**environ, **dict.fromkeys(_CACHES, str(caches)), **own},
                cwd=str(cwd),
                pass_fds=(commands, events),
            )
        except (OSError, ValueError, subprocess.SubprocessError):
            for descriptor in (self._commands, self._events):
                os.close(descriptor)
            raise
        finally:
            for descriptor in (commands, events):
                os.close(descriptor)

    def send(self, message: Message) -> None:
        """Send the child a message. `receive` notices if it is gone."""
        with suppress(OSError):
            send(self._commands, message)

    @property
    def said(self) -> str:
        """The last lines that it printed."""
        self._drain()
        return self._last_words()

    def forget_words(self) -> None:
        """Forget the output so far: it belongs to an earlier step."""
        self._tails = dict.fromkeys(self._tails, b"")

    def receive(self, seconds: float) -> Message:
        """The next message other than a beat. Raises Lost, also if there is none within `seconds`."""
        deadline = time.monotonic() + seconds
        closed_since: float | None = None
        while True:
            ended = self._child.has_ended
            seconds = min(_POLL_SECONDS, max(0.0, deadline - time.monotonic()))
            self._child.listen(0.0 if ended or self._pending else seconds)
            if self._pending:
                return self._pending.popleft()
            now = time.monotonic()
            if ended:
                raise self.lost("ended")
            if self._garbled:
                raise self.lost("garbled")
            if self._closed:
                closed_since = closed_since or now
                if now - closed_since > _CLOSED_SECONDS:
                    raise self.lost("garbled")
                time.sleep(0.005)
            if self._stop_signal() is not None:
                raise self.lost("stopped")
            if now >= deadline:
                raise self.lost("silent")

    def _hear(self, name: str, data: bytes) -> None:
        if name != "events":
            self._tails[name] = (self._tails[name] + data)[-_TAIL_LIMIT:]
        elif data:
            self._take(data)
        else:
            self._closed = True

    def _take(self, data: bytes) -> None:
        self._beat = time.monotonic()
        self._ready = True
        if self._shared_memory.grown:
            self._shared_memory.note(self._numbers())
        try:
            for message in self._reader.feed(data) if not self._garbled else ():
                if message.get("event") != "beat":
                    self._pending.append(message)
        except GarbledError:
            self._garbled = True

    def _numbers(self) -> list[int]:
        """The child and every descendant."""
        return [self._child.process.pid, *self._child.descendants()]

    def _stop_signal(self) -> int | None:
        with suppress(ChildProcessError):
            state = os.waitid(os.P_PID, self._child.process.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT)
            return None if state is None else state.si_status
        return None

    def lost(self, how: Literal["ended", "silent", "stopped", "garbled"]) -> Lost:
        """What happened to the child; one that hangs is asked where it is."""
        gil = how == "silent" and self._ready and time.monotonic() - self._beat > _SILENCE_SECONDS
        status: int | None = None
        if how == "silent" and self._ready:
            self._ask_place()
        elif how == "stopped":
            status = -(self._stop_signal() or signal.SIGSTOP)
        elif how == "ended":
            self._drain()
            self._child.process.wait()
            status = self._child.process.returncode
        return Lost(how, status, self._last_words(), self._place(), gil, self._files())

    def _ask_place(self) -> None:
        """The signal's handler is in C: it answers even while the GIL is held."""
        with suppress(ProcessLookupError):
            os.kill(self._child.process.pid, signal.SIGUSR1)
        deadline = time.monotonic() + _TRACE_SECONDS
        while time.monotonic() < deadline and not self._child.has_ended and not self._place():
            time.sleep(0.01)
        self._drain()

    def _drain(self) -> None:
        """Read the last output; a process that the child left running may print for ever."""
        for _ in range(64):
            if not self._child.listen(0.0):
                return

    def _last_words(self) -> str:
        """The last lines with content, from the error output, else from the standard output."""
        for name in ("stderr", "stdout"):
            text = self._tails[name].decode("utf-8", "replace")
            lines = [line.strip() for line in text.splitlines() if re.search(r"\w", line)]
            lines = [line for line in lines if not re.match(_STACK_OF_TORCH, line)] or lines
            if lines:
                return "\n".join(lines[-10:])[-_SAID_LIMIT:]
        return ""

    def _place(self) -> str:
        """The innermost Python line of the thread that a signal hit, and the kernel's own line."""
        frames = self._frames()
        own = [frame for frame in frames if frame[0].startswith(f"{self._kernels}/")][:1]
        places = [f"{name} in {posixpath.basename(path)} line {line}" for path, line, name in frames[:1] + own]
        return ", called from ".join(dict.fromkeys(places))

    def _files(self) -> tuple[str, ...]:
        """The files of these lines, without the kernels'."""
        files = (path for path, _, _ in self._frames())
        others = (path for path in files if not path.startswith((f"{self._kernels}/", "<")))
        return tuple(dict.fromkeys(others))[:FILES_LIMIT]

    def _frames(self) -> list[tuple[str, str, str]]:
        """Path, line and function of each frame that faulthandler wrote, innermost first."""
        with suppress(OSError), open(self._trace, encoding="utf-8", errors="replace") as trace:
            block = re.split(
                r"^(?:Current thread .*|Stack) \(most recent call first\):$", trace.read(1 << 16), flags=re.M
            )
            return re.findall(r'File "([^"]*)", line (\d+) in (\S+)', block[-1]) if len(block) > 1 else []
        return []

    def end(self, patient: bool = False) -> bool:
        """End it with all that it started, and remove its shared memory. False: it cannot be ended. With `patient`, a
        child that has nothing more to do ends by itself."""
        os.close(self._commands)
        self._shared_memory.note(self._numbers())
        deadline = time.monotonic() + (1.0 if patient else 0.0)
        while time.monotonic() < deadline and not self._child.has_ended:
            time.sleep(0.002)
        if not self._child.has_ended:
            kill(self._child.process.pid)
            with suppress(subprocess.TimeoutExpired):
                self._child.process.wait(_END_SECONDS)
        self._await_trackers()
        ended = self._child.end()
        os.close(self._events)
        self._shared_memory.remove()
        return ended

    def _await_trackers(self) -> None:
        """Python's resource trackers clean up after their users, and end by themselves when those are gone."""
        patience = time.monotonic() + _TRACKER_SECONDS
        while time.monotonic() < patience:
            left = list(self._child.descendants())
            trackers = [number for number in left if _is_tracker(number)]
            for number in left:
                if number not in trackers:
                    kill(number)
            if not trackers:
                return
            time.sleep(0.01)


def _is_tracker(number: int) -> bool:
    with suppress(OSError), open(f"/proc/{number}/cmdline", "rb") as line:
        return b"resource_tracker" in line.read()
    return False
