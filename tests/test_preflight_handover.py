"""What the command gets from `gpudoctor preflight`: all that gpudoctor got, also at level driver, with children."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.environments import write_venv
from tests.test_preflight_driver import RULES
from tests.test_probe_driver_child import pytestmark, stubs

__all__ = ["pytestmark", "stubs"]

ROOT = Path(__file__).parents[1]
PREFLIGHT = [sys.executable, "-m", "gpudoctor", "preflight", "-q", "--level", "driver", *RULES]

# Becomes its arguments, having changed all of a process that a program that takes over keeps.
ODD = """
import ctypes, os, resource, signal, sys
libc = ctypes.CDLL(None)
os.umask(0o137)
os.nice(3)
os.chdir("/usr")
resource.setrlimit(resource.RLIMIT_NOFILE, (200, 300))
resource.setrlimit(resource.RLIMIT_CORE, (0, 4096))
resource.setrlimit(resource.RLIMIT_RTTIME, (10**9, 10**10))
libc.prctl(1, int(signal.SIGUSR2), 0, 0, 0)
libc.prctl(36, 1, 0, 0, 0)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGWINCH})
for number in (signal.SIGINT, signal.SIGCHLD, signal.SIGUSR2, signal.SIGCONT):
    signal.signal(number, signal.SIG_IGN)
with open("/proc/self/oom_score_adj", "w") as score:
    score.write("77")
os.dup2(os.open("/etc/passwd", os.O_RDONLY), 19)
os.set_inheritable(19, True)
with open("/proc/self/environ", "rb") as file:  # as it came: this Python sets LC_CTYPE for itself, too
    environ = dict(line.split(b"=", 1) for line in file.read().split(b"\\0")[:-1])
os.execve(sys.argv[1], sys.argv[1:], environ)
"""
# As bare as can be: with -I Python takes no variable for itself. What it changes at its start is left out.
STATE = """
import ctypes, os, resource, sys
libc, number = ctypes.CDLL(None), ctypes.c_int()
def asked(option):
    libc.prctl(option, ctypes.byref(number), 0, 0, 0)
    return number.value
told = dict(line.split(":\\t") for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
python = 1 << 12 | 1 << 24 | 1 << 1
state = {
    "umask": os.umask(0), "nice": os.nice(0), "cwd": os.getcwd(), "death": asked(2), "subreaper": asked(37),
    "dumpable": libc.prctl(3, 0, 0, 0, 0), "blocked": told["SigBlk"], "ignored": int(told["SigIgn"], 16) & ~python,
    "caught": int(told["SigCgt"], 16) & ~python, "oom": open("/proc/self/oom_score_adj").read(),
    "limits": open("/proc/self/limits").read(), "capabilities": [told[name] for name in told if name[:3] == "Cap"],
    "privileges": told.get("NoNewPrivs"),
    "environ": sorted(open("/proc/self/environ", "rb").read().split(b"\\0")),
    "open": sorted(f"{name} {os.readlink('/proc/self/fd/' + name)}".partition(" pipe:")[0]
                   for name in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + name)),
    "children": open("/proc/thread-self/children").read(),
}
os.write(1, repr(state).encode())
"""

OPEN = """
import os
for number in range(3):
    try:
        os.fstat(number)
        os.write(9, b"%d " % number)
    except OSError:
        pass
"""


@pytest.fixture
def python(tmp_path: Path) -> str:
    write_venv(tmp_path / "venv")
    return str(tmp_path / "venv")


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"GPUDOCTOR_SKIP": "1"},
        *({"LC_CTYPE": value} for value in ("C", "POSIX", "", "C.UTF-8", "de_DE")),
        {"LANG": "C", "LC_ALL": ""},
        {"LC_ALL": "C", "LC_CTYPE": "C"},
    ],
    ids=str,
)
def test_the_process_is_what_it_was(python: str, stubs: Path, variables: dict[str, str]) -> None:
    """Through preflight, which has had children, and without it."""
    own = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": str(stubs), "PYTHONPATH": str(ROOT)}
    own |= {"ODD-NAME.x": "\udcff\udcfe", "EMPTY": "", **variables}
    show = [sys.executable, "-I", "-S", "-c", STATE]
    states = []
    for words in ([*PREFLIGHT, "--python", python, "--", *show], show):
        odd = [sys.executable, "-I", "-S", "-c", ODD, *words]
        done = subprocess.run(odd, check=False, capture_output=True, env=own, stdin=subprocess.DEVNULL, timeout=60)
        assert done.returncode == 0, done.stderr
        states.append(eval(done.stdout))
    through, without = states
    assert through == without
    assert b"ODD-NAME.x=\xff\xfe" in through["environ"]
    assert "19 /etc/passwd" in through["open"]


@pytest.mark.parametrize("closed", ["", "<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"])
def test_streams_are_closed_or_open_as_they_were(python: str, stubs: Path, closed: str) -> None:
    words = [*PREFLIGHT, "--python", python, "--", sys.executable, "-I", "-S", "-c", OPEN]
    done = run(f"{shlex.join(words)} 9>&1 {closed}", stubs)
    missing = {name for sign, name in (("<", "0"), (" >", "1"), ("2>", "2")) if f"{sign}&-" in f" {closed}"}
    assert set(done.stdout.split()) == {"0", "1", "2"} - missing, done.stderr


def test_where_streams_are_closed_no_pipe_gets_their_number() -> None:
    program = """
import os
from gpudoctor.command_line.running import open_streams
os.closerange(0, 3)
open_streams()
assert min(os.pipe()) > 2
os._exit(33)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False, cwd=ROOT, timeout=60).returncode == 33


def run(line: str, stubs: Path) -> subprocess.CompletedProcess[str]:
    """A line of shell that does not become its last command; the signals of its own are those of a fresh start."""
    return subprocess.run(
        ["sh", "-c", f"{line}\nexit $?"], check=False, capture_output=True, text=True, timeout=60, cwd=ROOT,
        env={**os.environ, "LD_LIBRARY_PATH": str(stubs)},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("trap", "ignored"),
    [
        ("", set()),
        ("trap '' PIPE;", {signal.SIGPIPE}),
        ("trap '' XFSZ;", {signal.SIGXFSZ}),
        ("trap '' PIPE XFSZ;", {signal.SIGPIPE, signal.SIGXFSZ}),
    ],
)
def test_signals_that_python_ignores_are_ignored_where_the_shell_ignored_them(
    python: str, stubs: Path, trap: str, ignored: set[signal.Signals]
) -> None:
    done = run(f"{trap} {shlex.join([*PREFLIGHT, '--python', python])} -- grep SigIgn /proc/self/status", stubs)
    mask = int(done.stdout.split()[1], 16)
    assert {number for number in (signal.SIGPIPE, signal.SIGXFSZ) if mask >> (number - 1) & 1} == ignored


def test_a_parent_that_ignores_sigpipe_for_itself_hands_nothing_on(python: str) -> None:
    """As Python does, and every run time that gives its children the default."""
    assert signal.getsignal(signal.SIGPIPE) is signal.SIG_IGN
    words = [*PREFLIGHT, "--python", python, "--", "grep", "SigIgn", "/proc/self/status"]
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert int(done.stdout.split()[1], 16) >> (signal.SIGPIPE - 1) & 1 == 0


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["--"], 127),
        (["--", ""], 127),
        (["--", "", "x"], 127),
        ([""], 127),
        (["--", "no-such-program"], 127),
        (["--", "a-folder"], 127),
        (["--", "./a-folder"], 126),
        (["--", "plain"], 126),
        (["--", "both"], 0),
        (["-qv", "--"], 127),
        ([], 0),
        (["--require", "gpu>=4096", "--"], 121),
        (["--bogus", "--"], 122),
        (["--bogus"], 2),
    ],
    ids=str,
)
def test_a_command_that_is_missing_or_cannot_be_started(python: str, tmp_path: Path, words: list[str], status: int):
    """As a shell finds it on PATH: the first file that can be run, no folder, no place that may not be looked at."""
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    (second / "a-folder").mkdir()
    (second / "plain").write_text("#!/bin/sh\n")
    (first / "both").write_text("#!/bin/sh\nexit 1\n")
    (second / "both").write_text("#!/bin/sh\nexit 0\n")
    (second / "both").chmod(0o755)
    path = f"{tmp_path / 'gone'}:{python}/pyvenv.cfg:{first}:{second}:{os.environ['PATH']}"
    command = [sys.executable, "-m", "gpudoctor", "preflight", "--level", "static", *RULES, "--python", python]
    done = subprocess.run(
        [*command, *words], check=False, capture_output=True, text=True, timeout=60, cwd=second,
        env={**os.environ, "PATH": path},
    )  # fmt: skip
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    if status in (126, 127):
        assert "cannot be started: " in done.stderr.splitlines()[-1]
