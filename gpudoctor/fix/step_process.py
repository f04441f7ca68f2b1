"""One step of a fix as a process: never through a shell, never left running, its output passed on line by line."""

from __future__ import annotations

import os
import re
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from msgspec import Struct

from gpudoctor.fix.errors import RepairError
from gpudoctor.fix.journal import open_run
from gpudoctor.fix.open_folders import regular
from gpudoctor.fix.owned_folder import account_home, belongs_to_another
from gpudoctor.fix.processes import Process, is_alive, process
from gpudoctor.host.bound_child import bound
from gpudoctor.privacy import without_secrets

LAST_LINES = 20
LOG_LIMIT = 4 << 20
"""How many bytes of output are kept of a run."""

ALIVE_SECONDS = 1.0
"""Seconds between two signs of life of a running step."""

_ENDING_SECONDS = 5.0
_LINE_LIMIT = 4000

# Waits until the journal records this process, then becomes the step, which stays bound to gpudoctor.
_LAUNCH = """
go, *argv = sys.argv[1:]
if os.read(int(go), 1) != b"g":
    os._exit(125)
os.close(int(go))
for number in (signal.SIGPIPE, signal.SIGXFSZ):
    signal.signal(number, signal.SIG_DFL)
try:
    os.execvp(argv[0], argv)
except OSError as error:
    print(f"{argv[0]}: {error.strerror}", flush=True)
    os._exit(127)
"""

# These would make pip install or look elsewhere than in the environment that is fixed and recorded.
_ELSEWHERE = (
    "PYTHONPATH",
    "PYTHONHOME",
    "PIP_TARGET",
    "PIP_PREFIX",
    "PIP_ROOT",
    "PIP_USER",
    "UV_TARGET",
    "UV_PREFIX",
)
# Folders in which the tools keep downloads and settings.
_STORES = (
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_BIN_HOME",
    "XDG_RUNTIME_DIR",
    "PIP_CACHE_DIR",
    "UV_CACHE_DIR",
    "UV_TOOL_DIR",
    "UV_PYTHON_INSTALL_DIR",
    "POETRY_CACHE_DIR",
    "PIXI_HOME",
    "CONDA_PKGS_DIRS",
    "TMPDIR",
)
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
    with open_run(folder) as opened:
        child, known = _started(argv, env, cwd, opened, started)
        try:
            last = _follow(child, opened, line)
            rc = child.wait()
        except BaseException:
            _end(child)
            end_session(known)
            raise
        finally:
            if child.stdout:
                child.stdout.close()
    if not keep_children:
        end_session(known)
    return StepResult(rc=rc, last_lines=last)


def _started(
    argv: Sequence[str], env: Mapping[str, str], cwd: str | None, folder: int, started: Callable[[Process], None]
) -> tuple[subprocess.Popen[bytes], Process]:
    waiting, go = os.pipe()
    try:
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", *bound(_LAUNCH, str(waiting), *argv, may_trace=True)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env=environment(env),
            pass_fds=(waiting,),
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        os.close(go)
        raise RepairError(f"{argv[0]} cannot be started: {error}") from error
    finally:
        os.close(waiting)
    known = process(child.pid)
    try:
        touch(folder)
        started(known)
        os.write(go, b"g")
    except BaseException:
        _end(child)
        end_session(known)
        raise
    finally:
        os.close(go)
    return child, known


def touch(folder: int) -> None:
    """Record in the folder of a run that it is alive. A change long after this was made by somebody else."""
    with suppress(OSError):
        descriptor = regular(folder, b"alive", os.O_WRONLY | os.O_CREAT)
        os.utime(descriptor)
        os.close(descriptor)


def _follow(child: subprocess.Popen[bytes], folder: int, line: Callable[[str], None]) -> tuple[str, ...]:
    """Pass on and keep the output until the child has ended."""
    assert child.stdout is not None
    last: deque[str] = deque(maxlen=LAST_LINES)
    pending = b""
    closing = 0.0
    log = _log(folder)
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(child.stdout, selectors.EVENT_READ)
            while True:
                ready = selector.select(ALIVE_SECONDS if not closing else 0.2)
                touch(folder)
                if not ready and child.poll() is not None:
                    if closing:
                        break  # a process that it left behind holds its output open
                    closing = time.monotonic()
                if not ready:
                    continue
                block = os.read(child.stdout.fileno(), 1 << 16)
                *whole, pending = re.split(rb"[\r\n]+", pending + block)
                if not block or len(pending) > _LINE_LIMIT:
                    whole, pending = [*whole, pending], b""
                for raw in whole:
                    _tell(raw, last, log, line)
                if not block:
                    break
    finally:
        os.close(log)
    return tuple(last)


def _log(folder: int) -> int:
    try:
        return regular(folder, b"output.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    except OSError as error:
        raise RepairError(f"The output of the step cannot be kept (output.log: {error.strerror}).") from error


def _tell(raw: bytes, last: deque[str], log: int, line: Callable[[str], None]) -> None:
    text = without_secrets(raw.decode("utf-8", "replace")[:_LINE_LIMIT])
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    text = "".join(char if char.isprintable() or char == "\t" else "?" for char in text).rstrip()
    if not text:
        return
    last.append(text)
    with suppress(OSError):  # a full disk ends the step soon enough, with its own message
        if os.fstat(log).st_size < LOG_LIMIT:
            os.write(log, f"{text}\n".encode())
    line(text)


def _end(child: subprocess.Popen[bytes]) -> None:
    """Let it end by itself first: pip puts back what it was about to replace."""
    for number, seconds in ((signal.SIGINT, _ENDING_SECONDS), (signal.SIGKILL, _ENDING_SECONDS)):
        with suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        with suppress(subprocess.TimeoutExpired):
            child.wait(seconds)
            return


def end_session(known: Process) -> None:
    """End a step and everything it started, also after gpudoctor itself was killed. The step's number is its
    session's: no other process gets it while one of the session lives."""
    for _ in range(100):
        members = _members(known)
        if not members:
            return
        for number in members:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(number, signal.SIGKILL)
        time.sleep(0.02)
    raise RepairError(f"Process {known.pid} of an earlier step cannot be ended: end it, then try again.")


def _members(known: Process) -> list[int]:
    if known.pid == os.getsid(0):
        return []  # a step has a session of its own
    try:
        leader = process(known.pid)
    except OSError:
        leader = None
    if leader is not None and leader != known:
        return []
    try:
        if leader is None and process(os.getpid()).boot != known.boot:
            return []
        numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []
    return [number for number in numbers if _session(number) == known.pid and _is_running(number)]


def _session(number: int) -> int:
    try:
        return os.getsid(number)
    except OSError:
        return -1


def _is_running(number: int) -> bool:
    try:
        return is_alive(process(number))
    except OSError:
        return False
