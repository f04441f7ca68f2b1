"""`gpudoctor preflight` as a container starts it: exit codes, streams, files, signals, the next program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.environments import write_torch, write_venv
from tests.support.in_process import gpudoctor

PREFLIGHT = [sys.executable, "-m", "gpudoctor", "preflight", "--level", "static"]
NEVER_MET = ["--require", "gpu>=4096"]


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """An environment without torch: on any machine, with GPUs or not, nothing is wrong with it."""
    write_venv(tmp_path / "venv")
    return tmp_path / "venv"


PLAIN = ("--ignore", "GPD1", "--ignore", "GPD2")


def start(
    python: Path, *words: str, cwd: Path | None = None, options: Sequence[str] = PLAIN, **variables: str
) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GPUDOCTOR_")}
    return subprocess.run(
        [*PREFLIGHT, "--python", str(python), *options, *words],
        capture_output=True, text=True, check=False, timeout=120, cwd=cwd or python, env={**kept, **variables},
    )  # fmt: skip


def here(python: Path, *words: str, options: Sequence[str] = PLAIN) -> subprocess.CompletedProcess[str]:
    """The same where no command is started: then it needs no process of its own."""
    return gpudoctor(*PREFLIGHT[3:], "--python", str(python), *options, *words, cwd=python)


def test_the_command_takes_over_with_its_own_number_status_and_streams(python: Path):
    process = subprocess.Popen(
        [*PREFLIGHT, "-q", "--python", str(python), "--select", "GPD4", "--", "sh", "-c", "echo $$; exit 7"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=python,
    )  # fmt: skip
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err) == (7, f"{process.pid}\n", "")


def test_success_is_one_line_on_stderr_and_none_when_quiet(python: Path):
    passed = start(python, "--", "true")
    assert (passed.returncode, passed.stdout, len(passed.stderr.splitlines())) == (0, "", 1)
    assert start(python, "-q", "--", "true").stderr == ""


def test_a_refusal_starts_nothing_and_tells_cause_and_way_out(python: Path):
    refused = start(python, "--require", "torch>=2.6", "--", "echo", "started")
    assert (refused.returncode, refused.stdout) == (121, "")
    assert "torch-missing [GPD401]" in refused.stderr
    assert "Fix: " in refused.stderr


@pytest.mark.parametrize("command", [True, False])
@pytest.mark.parametrize(
    ("words", "plain", "refusal"),
    [
        (["--require", "torch>=2.6"], 1, 121),
        (["--require", "torch>="], 2, 122),
        (["--no-such-option"], 2, 122),
        (["--wait", "soon"], 2, 122),
        (["--level", "full"], 2, 122),
        (["--python", "/no/such/place"], 2, 122),
        (["--matrix", "/no/such/file"], 2, 122),
        (["--select", "no-such-check"], 2, 122),
        (["--report-file", "/no/such/folder/file"], 2, 122),
        (["--ready-file", "/no/such/folder/file"], 2, 122),
        (["--require", "torch>=2.6", "--report-file", "/no/such/folder/file"], 1, 121),
        (["--require", "torch>=2.6", "--fail-on", "never"], 0, 0),
    ],
)
def test_exit_codes(python: Path, words: list[str], plain: int, refusal: int, command: bool):
    run = here if refusal or not command else start
    done = run(python, *words, *(["--", "true"] if command else []))
    assert done.returncode == (refusal if command else plain)
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('require = "torch>=2"', "torch-missing"),
        ('require = ["torch>=2"]\nignore = ["torch-missing", "GPD910"]\n', ""),
        ('require = ["torch>=2"]\nignore = ["torch-missing"]\n', "requirement-not-met"),
        ('require = "torch>=2"\nfail-on = "never"', ""),
        ('require = "torch>="', "no value for torch"),
        ("require = 5", "$.require"),
        ("requires = []", "requires"),
        ('level = "deep"', "$.level"),
        ("wait = -1", "$.wait"),
        ("require = [", "no valid TOML"),
        ("\udcff", "no valid TOML"),
    ],
)
def test_what_a_project_says_holds_or_is_refused_with_its_place(python: Path, content: str, told: str):
    (python / "gpudoctor.toml").write_bytes(content.encode("utf-8", "surrogateescape"))
    own = PLAIN if "ignore" not in content else ("--select", "GPD4")  # --ignore would stand in its place
    done = (here if told else start)(python, "--", "true", options=own)
    refused = 121 if told in ("torch-missing", "requirement-not-met") else 122
    assert done.returncode == (refused if told else 0)
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_settings_may_stand_in_pyproject_and_every_source_of_requirements_counts(python: Path):
    (python / "pyproject.toml").write_text('[tool.gpudoctor]\nrequire = ["shm>=1"]\n')
    assert start(python, "--require", "shm>=1KiB", "--", "true").returncode == 0
    several = {"GPUDOCTOR_REQUIRE": "shm>=1;torch>=2"}
    assert start(python, "--require", "shm>=1KiB", "--", "true", **several).returncode == 121
    (python / "pyproject.toml").write_text('[tool.gpudoctor]\nrequire = ["torch>=2"]\n')
    assert start(python, "--require", "shm>=1KiB", "--", "true").returncode == 121
    (python / "pyproject.toml").write_text("tool = 5 # gpudoctor")
    assert start(python, "--", "true").returncode == 122
    (python / "pyproject.toml").write_text("[broken, and none of our business")
    assert start(python, "--", "true").returncode == 0


def test_check_judges_what_is_required_too(python: Path):
    command = [sys.executable, "-m", "gpudoctor", "check", "--level", "static", "--select", "GPD4"]
    command += ["--python", str(python)]
    (python / "gpudoctor.toml").write_text("require = 'shm>=1'")
    assert subprocess.run(command, capture_output=True, check=False, cwd=python).returncode == 0
    done = subprocess.run(
        [*command, "--require", "torch>=2"], capture_output=True, text=True, check=False, cwd=python
    )
    assert done.returncode == 1
    assert "Problem  torch-missing" in done.stdout


def test_the_ready_file_is_there_only_after_a_pass(python: Path):
    ready = python / "ready"
    ready.write_text("from an earlier start")
    assert start(python, "--ready-file", str(ready), *NEVER_MET, "--", "true").returncode == 121
    assert not ready.exists()
    assert start(python, "--ready-file", str(ready), "--", "test", "-s", str(ready)).returncode == 0
    assert sorted(path.name for path in python.iterdir() if path.name.startswith("ready")) == ["ready"]


def test_the_report_is_written_whether_it_passes_or_not(python: Path):
    report = python / "report"
    for words, code in (([], 0), (["--require", "torch>=2"], 121)):
        report.unlink(missing_ok=True)
        assert start(python, "--report-file", str(report), *words, "--", "true").returncode == code
        assert ("torch-missing" in report.read_text()) is bool(words)


def test_skipping_judges_nothing_and_says_so(python: Path):
    done = start(python, "--require", "torch>=", "--", "echo", "started", GPUDOCTOR_SKIP="1")
    assert (done.returncode, done.stdout) == (0, "started\n")
    assert "GPUDOCTOR_SKIP" in done.stderr
    assert start(python, "--require", "torch>=2", "--", "true", GPUDOCTOR_SKIP="0").returncode == 121


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_waiting_at_once(python: Path, number: signal.Signals):
    words = ["--python", str(python), *NEVER_MET, "--wait", "600", "--", "true"]
    process = subprocess.Popen([*PREFLIGHT, *words], stderr=subprocess.PIPE, text=True, cwd=python)
    while not _sleeps(process.pid):
        time.sleep(0.05)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (128 + number, "")


def _sleeps(pid: int) -> bool:
    """Whether it handles SIGTERM by now and waits for its clock: it was given a handler before the first look."""
    caught = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigCgt"))
    handles = int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1
    place = Path(f"/proc/{pid}/wchan").read_text()
    # Python 3.10 sleeps in select(2).
    return bool(handles) and any(name in place for name in ("nanosleep", "hrtimer_", "select", "poll_schedule"))


@pytest.mark.parametrize(
    ("command", "status"),
    [("no-such-program", 127), ("/etc/passwd", 126), ("/", 126), ("/etc/passwd/x", 127)],
)
def test_a_command_that_cannot_be_started_has_the_shell_s_status(python: Path, command: str, status: int):
    done = start(python, "-q", "--", command)
    assert done.returncode == status
    assert done.stderr.startswith(f"gpudoctor: {command}: cannot be started: ")


def test_a_script_that_names_no_interpreter_is_not_started(python: Path):
    """As the kernel and a container engine have it; a shell would take it for its own."""
    script = python / "script"
    script.write_text("echo started\n")
    script.chmod(0o755)
    done = start(python, "-q", "--", str(script))
    assert (done.returncode, done.stdout) == (126, "")
    assert "#!" in done.stderr


def test_what_the_command_gets_is_what_preflight_got(python: Path):
    """Variables (none set by Python for its own locale), bytes that are no text, signals that Python ignores."""
    own = {"PATH": os.environ["PATH"], "ODD-NAME.x": "\udcff", "HOME": "/"}
    command = [*PREFLIGHT, "-q", "--python", str(python), "--select", "GPD4", "--"]
    done = subprocess.run([*command, "cat", "/proc/self/environ"], capture_output=True, check=False, env=own)
    assert sorted(done.stdout.split(b"\0")[:-1]) == sorted(os.fsencode(f"{k}={v}") for k, v in own.items())
    done = subprocess.run([*command, "printf", "%s|", b"\xfe", ""], capture_output=True, check=False, env=own)
    assert done.stdout == b"\xfe||"
    done = subprocess.run([*command, "sh", "-c", "grep SigIgn /proc/self/status"], capture_output=True, check=False)
    assert int(done.stdout.split()[1], 16) >> (signal.SIGPIPE - 1) & 1 == 0


@pytest.mark.parametrize("closing", [">&-", "2>&-", ">&- 2>&- <&-", "2>/dev/full"])
@pytest.mark.parametrize(("words", "status"), [("", 5), ("--require torch\\>=2", 121), ("--bogus", 122)])
def test_closed_streams_change_nothing(python: Path, closing: str, words: str, status: int):
    line = f"{' '.join(PREFLIGHT)} --python {python} --select GPD4 {words} -- sh -c 'exit 5' {closing}"
    assert subprocess.run(["sh", "-c", line], check=False, stdout=subprocess.DEVNULL, cwd=python).returncode == status


def test_a_working_folder_that_is_gone(python: Path, tmp_path: Path):
    line = f"cd {tmp_path}/gone && rmdir {tmp_path}/gone && exec {' '.join(PREFLIGHT)} --python {python} -q "
    (tmp_path / "gone").mkdir()
    done = subprocess.run(["sh", "-c", line + "--select GPD4 -- true"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_smoke_kernels_run_before_the_command_where_that_is_asked_for(tmp_path: Path):
    """A torch that does not even import: only level quick starts it."""
    version, home = f"{sys.version_info[0]}.{sys.version_info[1]}", os.path.dirname(os.path.realpath(sys.executable))
    site = write_venv(tmp_path / "venv", version, home=home)
    interpreter = tmp_path / "venv/bin/python"
    interpreter.unlink(missing_ok=True)
    interpreter.symlink_to(os.path.realpath(sys.executable))
    (write_torch(site, "2.9.1+cpu", cuda=None, python=version) / "__init__.py").write_text(
        "raise OSError('no torch')"
    )
    words = ("--select", "torch-import-fails", "--select", "GPD5", "--", "true")
    assert start(tmp_path / "venv", *words).returncode == 0
    refused = start(tmp_path / "venv", "--level", "quick", *words)
    assert refused.returncode in (121, 123), refused.stderr
