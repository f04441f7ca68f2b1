"""`gpudoctor preflight` in front of launchers: torchrun, accelerate, Ray Train, systemd, dev containers."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gpudoctor.command_line.arguments import LINE as CHECK
from gpudoctor.command_line.option_parser import read
from gpudoctor.preflight.arguments import LINE as PREFLIGHT
from gpudoctor.requirement import parse

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
PYTHON = os.environ.get("GPUDOCTOR_TEST_PYTHON", "")

# What a rank gets: its variables, and the number of the launcher's process.
RANK = """
import json, os, signal, sys, time
random = ("TORCHELASTIC_RUN_ID", "MASTER_PORT", "TORCHELASTIC_ERROR_FILE", "TORCHELASTIC_USE_AGENT_STORE")
environ = {name: value for name, value in os.environ.items() if name not in random}
out = os.environ["OUT"]
rank = os.environ["RANK"]
def ended(number, _):
    open(f"{out}/{rank}.{signal.Signals(number).name}", "w").close()
    sys.exit(0)
if sys.argv[1] == "wait":
    signal.signal(signal.SIGTERM, ended)
with open(f"{out}/{rank}.tmp", "w") as file:
    json.dump({"launcher": os.getppid(), "environ": environ, "argv": sys.argv[1:]}, file)
os.rename(f"{out}/{rank}.tmp", f"{out}/{rank}.json")
if sys.argv[1] == "wait":
    time.sleep(120)
for other in range(int(os.environ.get("WORLD_SIZE", 1))):  # the first that fails takes the others with it
    while not os.path.exists(f"{out}/{other}.json"):
        time.sleep(0.05)
sys.exit(int(sys.argv[1]))
"""


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder for PATH with the launchers, and a gpudoctor that checks nothing but what is required."""
    if not PYTHON:
        pytest.skip("GPUDOCTOR_TEST_PYTHON names no Python with torch")
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, words in {
        "torchrun": f"{PYTHON} -m torch.distributed.run",
        "accelerate": f"{PYTHON} -m accelerate.commands.accelerate_cli",
        "gpudoctor": f"{sys.executable} -m gpudoctor",
    }.items():
        (folder / name).write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        (folder / name).chmod(0o755)
    (tmp_path / "rank.py").write_text(RANK)
    return folder


def started(programs: Path, words: list[str], out: Path, **variables: str) -> subprocess.Popen[str]:
    out.mkdir()
    clean = {key: text for key, text in os.environ.items() if not key.startswith("GPUDOCTOR_")}
    environ = {**clean, "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "OUT": str(out)}
    environ |= {"GPUDOCTOR_SELECT": "GPD910", "GPUDOCTOR_LEVEL": "static", "ODD": "a  b\t'c'", **variables}
    return subprocess.Popen(words, env=environ, cwd=programs.parent, stderr=subprocess.PIPE, text=True)


def ranks(process: subprocess.Popen[str], out: Path, count: int) -> list[dict[str, Any]]:
    """What the ranks wrote, once all did."""
    files = [out / f"{rank}.json" for rank in range(count)]
    while not all(file.exists() for file in files):
        assert process.poll() is None, process.stderr and process.stderr.read()
        time.sleep(0.1)
    return [json.loads(file.read_text()) for file in files]


TORCHRUN = ["torchrun", "--standalone", "--nproc-per-node=2", "rank.py"]


def test_torchrun_and_its_ranks_get_what_they_get_without_preflight(programs: Path) -> None:
    found = []
    for name, before in (("plain", []), ("checked", ["gpudoctor", "preflight", "-q", "--require", "shm>=0", "--"])):
        out = programs.parent / name
        process = started(programs, [*before, *TORCHRUN, "7", "two words", ""], out)
        one, two = ranks(process, out, 2)
        process.communicate(timeout=120)
        assert {one["launcher"], two["launcher"]} == {process.pid}, "preflight became torchrun"
        for rank in (one, two):
            rank["environ"].pop("OUT")
            del rank["launcher"]
        found.append((process.returncode, one, two))
    assert found[0] == found[1]
    assert found[0][0] != 0 and found[0][1]["argv"] == ["7", "two words", ""]


def test_a_signal_to_preflight_reaches_every_rank(programs: Path) -> None:
    out = programs.parent / "out"
    script = EXAMPLES / "launchers" / "torchrun.sh"
    asked = {"GPUDOCTOR_REQUIRE": "shm>=0", "NPROC_PER_NODE": "2"}
    process = started(programs, [str(script), "--standalone", "rank.py", "wait"], out, **asked)
    ranks(process, out, 2)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=90)
    assert {path.name for path in out.glob("*.SIGTERM")} == {"0.SIGTERM", "1.SIGTERM"}, said
    assert process.returncode != 0


def test_a_bad_node_starts_no_rank(programs: Path) -> None:
    out = programs.parent / "out"
    words = [str(EXAMPLES / "launchers" / "torchrun.sh"), "--standalone", "rank.py", "0"]
    process = started(programs, words, out, GPUDOCTOR_REQUIRE="gpu>=9999; same-model")
    _, said = process.communicate(timeout=60)
    assert (process.returncode, list(out.iterdir())) == (121, [])
    assert said.startswith("gpudoctor: torchrun was not started (exit 121).")


def test_accelerate_launch_is_started_as_it_is(programs: Path) -> None:
    if subprocess.run([PYTHON, "-c", "import accelerate"], capture_output=True, check=False).returncode:
        pytest.skip("accelerate is not installed beside that torch")
    out = programs.parent / "out"
    script = str(EXAMPLES / "launchers" / "accelerate.sh")
    words = [script, "--cpu", "--num_processes=1", "--num_machines=1", "--mixed_precision=no", "rank.py", "5"]
    process = started(programs, words, out, GPUDOCTOR_REQUIRE="shm>=0", RANK="0")
    (rank,) = ranks(process, out, 1)
    process.communicate(timeout=120)
    assert rank["launcher"] == process.pid
    assert rank["environ"]["ODD"] == "a  b\t'c'"
    assert process.returncode != 0


# --- Ray Train -------------------------------------------------------------------------------------------------


def first_step() -> Any:
    """`refuse_bad_gpu` of the example."""
    spec = importlib.util.spec_from_file_location("ray_train", EXAMPLES / "launchers" / "ray_train.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.refuse_bad_gpu


def test_a_ray_worker_on_a_bad_node_raises_the_cause() -> None:
    with pytest.raises(RuntimeError, match=r"requirement-not-met \[GPD910\]: shm>=8999TiB is required.*Fix: "):
        first_step()("shm>=8999TiB")


def test_a_ray_worker_on_a_good_node_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # as Ray sets it for a worker that asks for no GPU
    refuse_bad_gpu = first_step()
    assert refuse_bad_gpu("shm>=0") is None
    with pytest.raises(RuntimeError, match="requirement-not-met"):
        refuse_bad_gpu("shm>=8999TiB")


# --- systemd and dev containers --------------------------------------------------------------------------------

UNIT = EXAMPLES / "systemd" / "train.service"


def test_the_unit_is_one_of_systemd(tmp_path: Path) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    copy = tmp_path / UNIT.name
    text = UNIT.read_text().replace("/opt/train/bin/gpudoctor", "/bin/true")
    copy.write_text(text.replace("User=train", "User=root"))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, timeout=60, check=False
    )
    told = [line for line in done.stderr.splitlines() if UNIT.name in line]
    assert (done.returncode, told) == (0, []), done.stderr


def test_the_unit_restarts_for_a_driver_that_is_late_and_for_nothing_that_stays() -> None:
    from gpudoctor.exit_codes import REFUSALS

    text = UNIT.read_text()
    (line,) = re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)
    words = shlex.split(line)
    given = read(PREFLIGHT, words[2:], {})
    assert given is not None and given["command"][0].endswith("/python") and float(given["wait"]) > 0
    (codes,) = re.findall(r"^RestartPreventExitStatus=(.*)$", text, re.MULTILINE)
    assert {int(code) for code in codes.split()} == {REFUSALS[1], REFUSALS[2]}


def test_what_the_launchers_ask_is_understood() -> None:
    for script in (EXAMPLES / "launchers").glob("*.sh"):
        text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", script.read_text())
        (line,) = re.findall(r"^exec gpudoctor preflight (.*)$", text, re.MULTILINE)
        given = read(PREFLIGHT, shlex.split(line), {})
        assert given is not None and given["command"][0] == script.stem
        (asked,) = re.findall(r'^export GPUDOCTOR_REQUIRE="(.*)"$', text, re.MULTILINE)
        for requirement in asked.split(";"):
            parse(requirement.strip())


def test_the_dev_container_checks_its_own_environment() -> None:
    container = json.loads((EXAMPLES / "devcontainer" / "devcontainer.json").read_text())
    program, command, *words = shlex.split(container["postAttachCommand"])
    given = read(CHECK, words, {})
    assert (Path(program).name, command) == ("gpudoctor", "check")
    assert given is not None and given["python"] in container["postCreateCommand"]
    assert "gpudoctor-cli" in container["onCreateCommand"]
