"""The entrypoint in real containers: what it refuses, and that what it lets through is as if nothing stood before it.

The long table of cases is `python -m tests.container_table`; starts with random faults are `tests.container_faults`.
"""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.container_table import failures, run
from tests.support.container_cases import CASES, Case, answering, no_host_driver, nvidia
from tests.support.containers import Engine, unavailable

pytestmark = pytest.mark.skipif(bool(unavailable()), reason=unavailable() or "containers can be run")

BARE = (
    "--read-only",
    "--read-only-tmpfs=false",
    "--user",
    "1234:5678",
    "--env",
    "TMPDIR=/nowhere",
    "--unsetenv",
    "HOME",
)
"""No writable folder, no name for the user, no home."""

SHORT = (
    "NVIDIA: started without --gpus",
    "NVIDIA: no uvm node",
    "AMD: in the wrong group",
    "NVIDIA: the cgroup was revoked",
    "libcuda baked into the image",
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    yield Engine(tmp_path_factory.mktemp("engine"))


@pytest.mark.parametrize("case", [case for case in CASES if case.name in SHORT], ids=lambda case: case.name)
def test_a_bad_node_is_refused_with_its_cause(engine: Engine, case: Case, tmp_path: Path) -> None:
    assert failures(case, *run(engine, case, tmp_path)) == []


def test_the_command_is_process_1_and_its_status_and_streams_are_its_own(engine: Engine, tmp_path: Path) -> None:
    program = "echo out; echo $$; echo err >&2; exit 7"
    ended = engine.gpudoctor(nvidia(tmp_path), "preflight", "-q", "--level", "static", "--", "sh", "-c", program)
    assert (ended.returncode, ended.stdout, ended.stderr) == (7, "out\n1\n", "err\n")


def test_the_command_gets_the_signal_that_stops_a_container(engine: Engine, tmp_path: Path) -> None:
    program = "trap 'echo stopped; exit 9' TERM; echo ready; while :; do sleep 0.05; done"
    argv = engine.command(nvidia(tmp_path), "preflight", "-q", "--level", "static", "--", "sh", "-c", program)
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        running.send_signal(signal.SIGTERM)  # podman hands it on to process 1
        assert running.stdout.readline() == "stopped\n"
        assert running.wait(60) == 9


def test_nothing_but_the_node_is_needed(engine: Engine, tmp_path: Path) -> None:
    words = ("preflight", "-q", "--level", "static", "--require", "gpu>=1", "--", "id", "-u")
    ended = engine.gpudoctor(nvidia(tmp_path), *words, options=BARE)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "1234\n", "")


def test_the_driver_is_asked_where_nothing_can_be_written(engine: Engine, tmp_path: Path) -> None:
    words = ("preflight", "--ignore", "GPD103=the stub says so", "--", "echo", "started")
    node = answering(tmp_path)
    ended = engine.gpudoctor(node, *words, options=BARE)
    assert (ended.returncode, ended.stdout) == (0, "started\n")
    ended = engine.gpudoctor(node, *words, options=BARE, environ={"STUB_NVML": "18", "STUB_CUDA": "803"})
    assert (ended.returncode, ended.stdout) == (121, "")
    assert "driver-lib-mismatch" in ended.stderr


def test_a_usage_error_and_a_question_left_open_have_their_own_codes(engine: Engine, tmp_path: Path) -> None:
    node = nvidia(tmp_path)
    ended = engine.gpudoctor(node, "preflight", "--require", "gpus>=1", "--", "echo", "started")
    assert (ended.returncode, ended.stdout) == (122, "")
    # At level driver the libraries must answer; these are files of a few bytes.
    ended = engine.gpudoctor(node, "preflight", "--", "echo", "started")
    assert (ended.returncode, ended.stdout) == (123, "")


def test_the_report_of_a_refusal_goes_to_its_file_alone(engine: Engine, tmp_path: Path) -> None:
    log = tmp_path / "termination-log"
    log.touch()
    log.chmod(0o666)
    words = ("preflight", "--format", "json", "--report-file", "/dev/termination-log", "--", "echo", "started")
    options = ("-v", f"{log}:/dev/termination-log", "--read-only", "--user", "1234")
    ended = engine.gpudoctor(no_host_driver(tmp_path / "node"), *words, gpu=False, options=options)
    assert (ended.returncode, ended.stdout) == (121, "")
    report = json.loads(log.read_text())
    assert (report["verdict"], report["findings"][0]["slug"]) == ("error", "no-driver")
