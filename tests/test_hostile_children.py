"""A driver's library that turns on gpudoctor: nothing stays of it, nothing is traced, no limit is passed.

In each of: as it is started here (root with all rights, or a user), a user without rights, process 1 of a container.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from gpudoctor.host.child import run_limited
from gpudoctor.host.supervision import supervising
from tests.support.hostile_libraries import build
from tests.support.smoke_children import left_of, processes_with

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler to build the libraries with")

ROOT = Path(__file__).parents[1]
ASKS = """
import ctypes, os, sys
from pathlib import Path
from gpudoctor.probes.nvidia_answers import ask_nvidia
from tests.support.stubbed_driver import StubbedHost
before = ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)
host = StubbedHost(Path(sys.argv[1]), STUB_HOSTILE=sys.argv[2], STUB_NOTES=sys.argv[3])
cuda = ask_nvidia(host, 1.0)[1]
assert ctypes.CDLL(None).prctl(3, 0, 0, 0, 0) == before
try:
    os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    left = "children are left"
except ChildProcessError:
    left = "alone"
print("answers" if cuda.value else cuda.why, left, sep="; ")
"""
"""Asks the driver as gpudoctor does; tells what libcuda answered, and whether a child was left to whoever is next."""

NO_ANSWER = ("cuInit: gave no answer within 1 s",)
ANSWERS = ("answers",)
ATTACKS = {
    "daemon": ANSWERS,
    "daemons in a chain": ANSWERS,
    "daemon of one that dies": ("cuInit: crashed (SIGABRT)",),
    "fork chain": ANSWERS,
    "fork bomb": ANSWERS,
    "deaf": NO_ANSWER,
    "trace": NO_ANSWER,
    "stop": NO_ANSWER,
    "stop and answer": ANSWERS,
    "stop again and again": NO_ANSWER,
    "stop without a pause": (*NO_ANSWER, "cuInit: crashed (SIGKILL)"),  # by the limit of what it may compute
}
AS_PROCESS_1 = {**ATTACKS, "stop everybody": NO_ANSWER, "kill": NO_ANSWER}
SETTINGS = {
    "as it is": (),
    "user": ("setpriv", "--reuid=1234", "--regid=1234", "--clear-groups"),
    "process 1": ("unshare", "--pid", "--fork", "--mount-proc"),
}


@pytest.fixture(scope="module")
def libraries() -> Iterator[Path]:
    """In a folder that every user may read, which those of pytest are not."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield build(Path(folder))


@cache
def unavailable(setting: str, libraries: Path) -> str:
    """Why this cannot be tried here, or ""."""
    if not SETTINGS[setting]:
        return ""
    if os.geteuid() != 0:
        return "only root starts programs as another user or as process 1"
    probe = ["sh", "-c", '"$0" -c "import gpudoctor, msgspec, tests" && test -r "$1"']
    tried = [*SETTINGS[setting], *probe, sys.executable, str(libraries / "libcuda.so.1")]
    done = subprocess.run(tried, check=False, capture_output=True, cwd=ROOT)
    return "" if done.returncode == 0 else f"not possible here: {done.stderr.decode()[-200:]}"


@pytest.mark.parametrize(
    ("setting", "attack"),
    [(setting, attack) for setting in SETTINGS for attack in (AS_PROCESS_1 if setting == "process 1" else ATTACKS)],
)
def test_a_hostile_library_is_ended_with_all_it_started(libraries: Path, setting: str, attack: str) -> None:
    if why := unavailable(setting, libraries):
        pytest.skip(why)
    notes = libraries / f"notes of {attack}, {setting}"
    notes.write_text("")
    notes.chmod(0o666)
    command = [*SETTINGS[setting], sys.executable, "-c", ASKS, str(libraries), attack, str(notes)]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=60, cwd=ROOT, stdin=subprocess.DEVNULL
    )
    assert done.stdout in [f"{said}; alone\n" for said in AS_PROCESS_1[attack]], done.stderr
    assert processes_with(str(notes)) == []
    if attack == "trace":
        refused = ("Operation not permitted", "Permission denied")
        assert all(line.endswith(refused) for line in notes.read_text().splitlines()), notes.read_text()


def test_a_gpudoctor_that_is_killed_starts_nothing_and_its_child_ends(libraries: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", ASKS, str(libraries), "kill", str(tmp_path)]
    done = subprocess.run(command, check=False, capture_output=True, timeout=60, cwd=ROOT)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, b"")
    assert left_of(str(tmp_path)) == []


# --- strangers, and what this process was before ---

STRANGERS = """
import os, subprocess, sys, time
from gpudoctor.host import process_tree
from gpudoctor.host.child import run_limited
if "no marks" in sys.argv:
    process_tree._marked = lambda number: int("a kernel without them")
if "daemon" in sys.argv:  # another program's child, from before, starts a daemon that loses its parent meanwhile
    command = "sleep 0.2; (setsid sleep 600 </dev/null >/dev/null 2>&1 &) ; exec sleep 600"
else:
    command = "exec sleep 600"
stranger = subprocess.Popen(["sh", "-c", command])
found = run_limited(["sh", "-c", "(setsid sleep 601 </dev/null >/dev/null 2>&1 &) ; sleep 0.6; echo done"], 20)
assert found.value.stdout == "done\\n", found
assert stranger.poll() is None
children = open(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read().split()
names = sorted(open(f"/proc/{number}/cmdline").read().replace("\\0", " ").strip() for number in children)
for number in children:
    os.kill(int(number), 9)
print(names)
"""


@pytest.mark.parametrize(("case", "left"), [("", 1), ("no marks", 1), ("daemon", 2)])
def test_other_children_and_the_daemons_that_they_start_are_let_alone(case: str, left: int) -> None:
    command = [sys.executable, "-c", STRANGERS, case]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert done.stdout == f"{['sleep 600'] * left}\n"


def test_without_the_kernel_s_list_of_children_they_are_found_by_their_parent() -> None:
    from gpudoctor.host.process_tree import _children, _children_by_parent

    with subprocess.Popen(["sleep", "60"]) as process:
        assert process.pid in _children(os.getpid())
        assert sorted(_children_by_parent(os.getpid())) == sorted(_children(os.getpid()))
        process.kill()


@pytest.fixture
def ignored() -> Iterator[None]:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGCHLD, before)


@pytest.mark.usefixtures("ignored")
def test_where_ends_of_children_are_ignored_a_status_is_known_all_the_same() -> None:
    found = run_limited(["sh", "-c", "exit 3"], 20)
    assert found.value is not None and found.value.rc == 3
    assert signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN


def test_what_this_process_was_it_is_again_afterwards() -> None:
    import ctypes

    def state() -> tuple[int, int, object]:
        libc, subreaper = ctypes.CDLL(None), ctypes.c_int()
        libc.prctl(37, ctypes.byref(subreaper), 0, 0, 0)
        return libc.prctl(3, 0, 0, 0, 0), subreaper.value, signal.getsignal(signal.SIGCONT)

    before = state()
    with supervising(20):
        assert state()[:2] == (0, 1)
        with supervising(20):
            pass
        assert state()[:2] == (0, 1), "the outer one still runs"
    assert state() == before


def test_a_child_may_not_trace_others() -> None:
    found = run_limited(["grep", "Cap", "/proc/self/status"], 20).value
    assert found is not None
    sets = dict(line.split(":\t") for line in found.stdout.splitlines())
    assert not any(int(sets[name], 16) >> 19 & 1 for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"))
