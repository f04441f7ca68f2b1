"""`fleet pair` as it is started: by torchrun, with a real torch and Gloo; and the processes that it runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

import jsonschema
import pytest

from gpudoctor.fleet.pair.child.fork import run_in_fork
from tests.pair_trials import run
from tests.schemas import FOLDER

PYTHON = os.environ.get("GPUDOCTOR_TEST_PYTHON", "")
real_torch = pytest.mark.skipif(not PYTHON, reason="GPUDOCTOR_TEST_PYTHON names no Python with torch")


def pair(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GPUDOCTOR_")}
    command = [sys.executable, "-m", "gpudoctor", "fleet", "pair", *words]
    return subprocess.run(
        command, env={**kept, **variables}, capture_output=True, text=True, timeout=300, check=False
    )


RANK_0 = {
    "RANK": "0",
    "WORLD_SIZE": "2",
    "LOCAL_RANK": "0",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "1",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
}


# --- a real job ---


@real_torch
def test_two_faulty_ranks_of_five_are_found_and_nobody_else() -> None:
    ended = run(PYTHON, 5, "crash:1 wrong:4", limit=120)
    assert ended.report, ended.said
    assert ended.blamed == {"failed:1", "wrong:4"}
    assert (ended.report["exit_code"], ended.code) == (1, 1)
    details = {node["ranks"][0]: node["detail"] for node in ended.report["nodes"]}
    assert "SIGSEGV" in details[1] or "in the all-reduce" in details[1]
    assert "values are wrong" in details[4]
    assert ended.report["together"]["status"] == "right"
    jsonschema.validate(ended.report, json.loads((FOLDER / "fleet-pair.json").read_text()))


@real_torch
def test_two_healthy_nodes_of_two_ranks_each() -> None:
    ended = run(PYTHON, 2, "", limit=120, nodes=2)
    assert ended.report, ended.said
    assert (ended.code, ended.report["verdict"], ended.report["between"]) == (0, "ok", "nodes")
    assert sorted(rank for node in ended.report["nodes"] for rank in node["ranks"]) == [0, 1, 2, 3]
    assert [pairing["status"] for pairing in ended.report["pairings"]] == ["right"]
    assert ended.report["together"]["ranks"] == 4


# --- what keeps it from running ---


def test_outside_of_torchrun_it_says_how_to_start_it() -> None:
    done = pair(RANK="")
    assert (done.returncode, done.stdout) == (2, "")
    assert "torchrun" in done.stderr and done.stderr.count("\n") == 1


def test_a_job_of_one_rank_tests_nothing() -> None:
    done = pair(**{**RANK_0, "WORLD_SIZE": "1"})
    assert (done.returncode, done.stdout) == (3, "")
    assert "nobody to pair it with" in done.stderr


def test_a_python_without_torch_tests_nothing() -> None:
    done = pair("--python", sys.executable, **RANK_0)
    assert (done.returncode, done.stdout) == (3, "")
    assert "rank 0" in done.stderr and "torch" in done.stderr and done.stderr.count("\n") == 1


# --- the fork that a trial runs in ---


def forked(work: Any, seconds: float = 60.0) -> dict[str, Any]:
    return run_in_fork(work, {}, seconds)


def test_a_fork_tells_what_it_did() -> None:
    def work(tell: Any, task: Any) -> None:
        tell(phase="computing")
        os.write(2, b"a line\n")

    answer = forked(work)
    assert (answer["ended"], answer["phase"], answer["words"]) == ("done", "computing", "a line")


def test_a_fork_that_raises_is_an_answer() -> None:
    def work(tell: Any, task: Any) -> None:
        raise RuntimeError("CUDA error: out of memory")

    answer = forked(work)
    assert (answer["ended"], answer["reason"]) == ("raised", "RuntimeError: CUDA error: out of memory")
    assert answer["memory"]


def test_a_fork_that_crashes_is_an_answer() -> None:
    def work(tell: Any, task: Any) -> None:
        tell(phase="meeting")
        os.kill(os.getpid(), signal.SIGKILL)

    assert forked(work)["ended"] == str(-signal.SIGKILL)


def test_a_fork_that_hangs_is_ended() -> None:
    def work(tell: Any, task: Any) -> None:
        tell(phase="computing", number=os.getpid())
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(3600)

    answer = forked(work, 1.0)
    assert (answer["ended"], answer["phase"]) == ("late", "computing")
    with pytest.raises(ProcessLookupError):
        os.kill(answer["number"], 0)
