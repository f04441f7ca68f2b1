"""One step of a fix as a process: never through a shell, never left running, its output passed on line by line."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from msgspec import Struct

from gpudoctor.fix.account import account_home, belongs_to_another
from gpudoctor.fix.errors import RepairError
from gpudoctor.fix.journal import open_run
from gpudoctor.fix.open_folders import regular
from gpudoctor.fix.processes import Process, cannot_be_ended, end_session, process
from gpudoctor.host.bound_child import BECOME, BoundChild
from gpudoctor.host.interrupts import Interruptions, deferred
from gpudoctor.host.supervision import supervising
from gpudoctor.privacy import without_secrets

LAST_LINES = 20
LOG_LIMIT = 4 << 20
"""How many bytes of output are kept of a run."""

ALIVE_SECONDS = 1.0
"""Seconds between two signs of life of a running step."""

_ENDING_SECONDS = 5.0
_LINE_LIMIT = 4000

# Waits until the journal records this process, then becomes the step, which stays bound to gpudoctor.
_LAUNCH = (
    """
go = int(sys.argv.pop(1))
if os.read(go, 1) != b"g":
    os._exit(125)
os.close(go)
"""
    + BECOME
)

# These would make pip and uv install elsewhere than in the environment that is fixed and recorded, or from elsewhere
# than the index that a step names.
_ELSEWHERE = (
    "PYTHONPATH", "PYTHONHOME", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER", "PIP_PYTHON",
    "UV_TORCH_BACKEND", "UV_TARGET", "UV_PREFIX",
)  # fmt: skip
# Folders in which the tools keep downloads and settings.
_STORES = (
    "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_BIN_HOME", "XDG_RUNTIME_DIR",
    "PIP_CACHE_DIR", "UV_CACHE_DIR", "UV_TOOL_DIR", "UV_PYTHON_INSTALL_DIR", "POETRY_CACHE_DIR", "PIXI_HOME",
    "CONDA_PKGS_DIRS", "TMPDIR",
)  # fmt: skip
_QUIET = {
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    "PIP_USER": "0",
    "PYTHONNOUSERSITE": "1",
    "UV_NO_PROGRESS": "1",
}


class StepResult(Struct, frozen=True):
    """How a step ended; a negative rc is the signal that ended it."""

    rc: int
    last_lines: tuple[str, ...]


def environment(own: Mapping[str, str]) -> dict[str, str]:
    """Variables of a step: the person's, without those that lead elsewhere, and the step's `own`."""
    kept = {
        name: value for name, value in os.environ.items() if name not in _ELSEWHERE and not _is_others(name, value)
    }
    home = account_home()
    return {**kept, **({"HOME": home} if home else {}), **_QUIET, **own}


def _is_others(name: str, value: str) -> bool:
    """Whether root would leave its files in another account's folder. Others may share one on purpose."""
    return os.geteuid() == 0 and name in _STORES and os.path.isabs(value) and belongs_to_another(value)


def program_missing(argv: Sequence[str], own: Mapping[str, str], cwd: str | None) -> str:
    """Why a step's program cannot be started; "" if it can."""
    name = argv[0]
    place = os.path.join(cwd or os.getcwd(), name) if "/" in name else name
    if shutil.which(place, path=environment(own).get("PATH")) is None:
        return f"{name} is not installed" if "/" not in name else f"{name} cannot be run"
    return f"there is no folder {cwd}" if cwd and not os.path.isdir(cwd) else ""


def run_step(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str | None,
    folder: str,
    started: Callable[[Process], None],
    line: Callable[[str], None],
    keep_children: bool = False,
) -> StepResult:
    """Run a step to its end. If this is interrupted, end it with everything that it started.

    `started` gets the process before it becomes the step, `line` every line that it prints. `folder` is the run's,
    for its log and its sign of life. `keep_children` leaves services running that the step started.
    """
    with open_run(folder) as opened, _Output(opened, line) as output, deferred() as by, supervising(None):
        child, go = _waiting(argv, env, cwd, output, by)
        known = process(child.process.pid)
        try:
            touch(opened)
            started(known)
            by.check()
            os.write(go, b"g")
            while not child.follow(ALIVE_SECONDS):
                touch(opened)
            touch(opened)
        except BaseException:
            _ask_to_end(child)
            end_session(known)
            raise
        finally:
            os.close(go)
            gone = child.let_go() if keep_children else child.end()
        if not gone:
            raise cannot_be_ended(known)
        return StepResult(rc=child.process.returncode, last_lines=tuple(output.last))


def _waiting(
    argv: Sequence[str], env: Mapping[str, str], cwd: str | None, output: _Output, interruptions: Interruptions
) -> tuple[BoundChild, int]:
    """A child that becomes the step when "g" is written to the descriptor beside it."""
    waiting, go = os.pipe()
    try:
        child = BoundChild(
            _LAUNCH,
            (str(waiting), *argv),
            output.hear,
            interruptions,
            may_trace=True,
            env=environment(env),
            cwd=cwd,
            pass_fds=(waiting,),
            stderr=subprocess.STDOUT,
        )
    except (OSError, ValueError) as error:
        os.close(go)
        raise RepairError(f"{argv[0]} cannot be started: {error}") from error
    finally:
        os.close(waiting)
    return child, go


def _ask_to_end(child: BoundChild) -> None:
    """Let it end by itself first: pip puts back what it was about to replace."""
    with suppress(ProcessLookupError):
        os.killpg(child.process.pid, signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        child.process.wait(_ENDING_SECONDS)


def touch(folder: int) -> None:
    """Record in the folder of a run that it is alive. A change long after this was made by somebody else."""
    with suppress(OSError):
        descriptor = regular(folder, b"alive", os.O_WRONLY | os.O_CREAT)
        os.utime(descriptor)
        os.close(descriptor)


class _Output:
    """The lines that a step prints: passed on, and kept in the run's log."""

    def __init__(self, folder: int, line: Callable[[str], None]) -> None:
        """`folder` is the run's. RepairError if nothing can be kept in it."""
        try:
            self._log = regular(folder, b"output.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        except OSError as error:
            raise RepairError(f"The output of the step cannot be kept (output.log: {error.strerror}).") from error
        self._line, self._pending = line, b""
        self.last: deque[str] = deque(maxlen=LAST_LINES)

    def __enter__(self) -> _Output:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._log)

    def hear(self, _: str, data: bytes) -> None:
        """Pass on every complete line, and at the end the rest."""
        *whole, self._pending = re.split(rb"[\r\n]+", self._pending + data)
        if not data or len(self._pending) > _LINE_LIMIT:
            whole, self._pending = [*whole, self._pending], b""
        for raw in whole:
            self._tell(raw)

    def _tell(self, raw: bytes) -> None:
        text = without_secrets(raw.decode("utf-8", "replace")[:_LINE_LIMIT])
        text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
        text = "".join(char if char.isprintable() or char == "\t" else "?" for char in text).rstrip()
        if not text:
            return
        self.last.append(text)
        with suppress(OSError):  # a full disk ends the step soon enough, with its own message
            if os.fstat(self._log).st_size < LOG_LIMIT:
                os.write(self._log, f"{text}\n".encode())
        self._line(text)
