"""Machines that are broken, hostile or garbage: one file of a whole machine spoiled at a time, in many ways.

Nothing may end the run, nothing that cannot be read may turn a fault into "ok", and no text of a machine may become
an option or shell code in a repair. The order of what is spoiled is fixed by a seed.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

from gpudoctor.cli import gpudoctor, run
from tests.hostile.spoiling import MACHINES, SPOIL, TEXTS, fifo, folder, garbage, huge, loop, no_code
from tests.support.hosts import Host

SEED = 20261121
CODES = {"ok": 0, "warning": 0, "error": 1, "unknown": 3}


def spoiled(machine: str, root: Path) -> Iterator[str]:
    """Every file of the machine, each spoiled in one way; the machine is whole again before the next."""
    host = Host(root)
    MACHINES[machine](host)
    host.file("/gpudoctor-host.json", json.dumps(host.json))
    whole = root.with_name("whole")
    shutil.copytree(root, whole, symlinks=True)
    places = sorted(p.relative_to(root) for p in root.rglob("*") if p.is_file() and p.name != "gpudoctor-host.json")
    chance = random.Random(f"{SEED} {machine}")
    chance.shuffle(places)
    for place, spoil in zip(places, cycle(chance.sample(SPOIL, len(SPOIL))), strict=False):
        spoil(root / place, chance)
        yield f"{spoil.__name__} {place}"
        touched = Path(*place.parts[:-1][:3])
        shutil.rmtree(root / touched)
        shutil.copytree(whole / touched, root / touched, symlinks=True)


@pytest.fixture(scope="module")
def schema() -> jsonschema.protocols.Validator:
    printed = CliRunner().invoke(gpudoctor, ["schema"], standalone_mode=False).stdout
    wanted: dict[str, Any] = json.loads(printed)
    return jsonschema.validators.validator_for(wanted)(wanted)


@pytest.mark.parametrize("machine", MACHINES)
def test_a_spoiled_file_costs_a_fact_and_never_the_run(
    machine: str, tmp_path: Path, schema: jsonschema.protocols.Validator
) -> None:
    for what in spoiled(machine, tmp_path / "root"):
        result = CliRunner().invoke(
            gpudoctor, ["check", "--root", str(tmp_path / "root"), "--format", "json"], standalone_mode=False
        )
        assert result.exception is None, what
        report = json.loads(result.stdout)
        assert list(schema.iter_errors(report)) == [], what
        assert report["exit_code"] == result.return_value == CODES[report["verdict"]], what
        # What was read before is still wrong: spoiling one file repairs nothing.
        assert report["verdict"] in ("error", "unknown"), what
        _no_fault_of_our_own(report, what)
        _commands_are_harmless(report, what)


def _no_fault_of_our_own(report: dict[str, Any], what: str) -> None:
    crashed = [f["message"] for f in report["findings"] if f["id"] in ("GPD901", "GPD902")]
    crashed += [q["why"] for q in report["not_judged"] if "crashed" in q["why"]]
    assert crashed == [], what
    assert all(f["fixes"] for f in report["findings"] if f["severity"] == "error"), what


def _commands_are_harmless(report: dict[str, Any], what: str) -> None:
    steps = [step for f in report["findings"] for fix in f["fixes"] for step in fix["steps"]]
    for step in steps:
        words = [
            *step.get("argv", ()),
            *(word for line in step.get("undo", ()) for word in line),
            step.get("value", ""),
        ]
        for bad in ("$(", "`", "; ", "&&", "\n", "\x1b", "passwd", "--pre"):
            assert not any(bad in word for word in words), (what, words)
        assert not step.get("argv", ["x"])[0].startswith("-"), what


@pytest.mark.parametrize("machine", MACHINES)
def test_the_text_of_a_spoiled_machine_holds_no_control_characters(machine: str, tmp_path: Path) -> None:
    host = Host(tmp_path)
    MACHINES[machine](host)
    evil = "\x1b[2J\x1b]0;title\x07\u202e[bold red]x[/]\r"
    host.file("/etc/os-release", f'ID="{evil}"\nPRETTY_NAME="{evil}"\n')
    host.file("/proc/driver/nvidia/version", f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {evil}  x\n")
    host.environ(CUDA_VISIBLE_DEVICES=evil, HSA_OVERRIDE_GFX_VERSION=evil, PYTHONPATH=f"/{evil}")
    text = host.run("-v").stdout
    assert not any(c in text for c in "\x1b\x07\u202e\r")


# --- what people hand over ----------------------------------------------------------------------------

SNAPSHOTS = {
    "nothing": b"",
    "no JSON": b"\xff\xfe\0",
    "deep": b"[" * 100_000,
    "a list": b"[]",
    "a known fact without a value": b'{"schema":1,"machine":{"environment":{"state":"known"}}}',
    "an unknown vendor": b'{"schema":1,"machine":{"gpus":[{"vendor":"intel","name":"x"}]}}',
    "half a character": b'{"schema":1,"machine":{"variables":{"A":"\\ud800"}}}',
    "an endless number": b'{"schema":1,"machine":{"system":{"memory":{"state":"known","value":1e999}}}}',
}


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_a_snapshot_that_is_none_is_one_line_and_2(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s.json").write_bytes(SNAPSHOTS[name])
    assert run(["check", "--from", str(tmp_path / "s.json")]) == 2
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)


HOST_FILES = {
    "nothing": b"",
    "a list": b"[]",
    "deep": b'{"environ":' + b"[" * 100_000,
    "a mode that is no number": b'{"nodes": {"/dev/kfd": {"mode": "rw-"}}}',
    "an answer that no system gives": b'{"nodes": {"/dev/kfd": {"open": "EWHAT"}}}',
    "a number for a variable": b'{"environ": {"A": 5}}',
}


@pytest.mark.parametrize("name", HOST_FILES)
def test_a_host_file_that_is_none_is_one_line_and_2(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gpudoctor-host.json").write_bytes(HOST_FILES[name])
    assert run(["check", "--root", str(tmp_path)]) == 2
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)


@pytest.mark.parametrize("option", ["--from", "--python", "--root", "--matrix"])
@pytest.mark.parametrize("kind", ["fifo", "loop", "folder", "huge", "nothing", "garbage"])
def test_odd_places_are_one_line_and_2(
    option: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "odd\nplace"
    if kind != "nothing":
        place.touch()
        {"fifo": fifo, "loop": loop, "folder": folder, "huge": huge, "garbage": garbage}[kind](
            place, random.Random(SEED)
        )
    if (option, kind) == ("--root", "folder"):
        return
    if (option, kind) == ("--from", "garbage"):
        assert run(["check", option, str(place)]) == 3  # a text that tells nothing
        return
    assert run(["check", option, str(place)]) == 2
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)


@pytest.mark.parametrize("text", TEXTS)
def test_variables_and_nodes_of_any_text_are_judged(text: str, tmp_path: Path) -> None:
    host = Host(tmp_path)
    no_code(host)
    host.amd_gpu("744c", 110000)
    names = (
        "CUDA_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
        "HSA_OVERRIDE_GFX_VERSION",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
    )
    host.environ(**dict.fromkeys((*names, "PYTHONPATH", "HOME", "PYTHONUSERBASE", "SLURM_JOB_GPUS"), text))
    host.json["nodes"][text] = {"open": "EPERM"}
    host.json["commands"] = {"nvidia-smi": {"stdout": f"| NVIDIA-SMI {text}\nGPU {text}: {text} (UUID: {text})\n"}}
    report = host.check("--env", f"PATH={text}")
    _no_fault_of_our_own(report, text)
    _commands_are_harmless(report, text)
    assert report["verdict"] == "error"
