"""`gpudoctor fix` and `gpudoctor env` on recorded and described machines: shown, never run; contracts; bad input."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

from gpudoctor.cli import gpudoctor
from gpudoctor.fix.journal import note
from tests.support.environments import write_torch, write_venv
from tests.support.hosts import Host
from tests.support.shell_scripts import check_syntax, commands
from tests.test_fix_undo import Place

CONTRACT = {
    "type": "object",
    "required": ["schema", "steps", "after", "predicted"],
    "additionalProperties": False,
    "properties": {
        "schema": {"const": 1},
        "after": {"type": "string"},
        "predicted": {
            "required": ["verdict", "left", "until", "notes"],
            "additionalProperties": False,
            "properties": {
                "verdict": {"enum": ["ok", "warning", "error", "unknown"]},
                "left": {"type": "array", "items": {"pattern": "^GPD[0-9]{3}$"}},
                "notes": {"type": "array", "items": {"pattern": "^GPD[0-9]{3}$"}},
                "until": {"pattern": "^(end|step [0-9]+: (a reboot|a person|another container))$"},
            },
        },
        "steps": {
            "type": "array",
            "items": {
                "oneOf": [
                    {
                        "required": ["kind", "argv", "cwd", "env", "why", "risk", "undo", "because", "state"],
                        "properties": {
                            "kind": {"const": "run"},
                            "argv": {"type": "array", "items": {"type": "string"}, "minItems": 1},
                            "cwd": {"type": ["string", "null"]},
                            "env": {"type": "object"},
                            "undo": {"type": "array", "items": {"type": "array", "items": {"type": "string"}}},
                        },
                    },
                    {
                        "required": ["kind", "name", "value", "why", "risk", "because", "state"],
                        "properties": {"kind": {"const": "env"}},
                    },
                    {
                        "required": ["kind", "text", "why", "risk", "because", "state"],
                        "properties": {"kind": {"const": "manual"}},
                    },
                ],
                "properties": {
                    "risk": {"enum": ["safe", "replaces", "root", "reboot"]},
                    "state": {"enum": ["will run", "shown only"]},
                    "because": {"type": "array", "minItems": 1, "items": {"pattern": "^GPD[0-9]{3}$"}},
                },
            },
        },
    },
}


def invoke(*arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr."""
    result = CliRunner().invoke(gpudoctor, list(arguments), standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.return_value, result.stdout, result.stderr


def planned(*arguments: str) -> dict[str, Any]:
    _, out, _ = invoke("fix", "--format", "json", *arguments)
    data: dict[str, Any] = json.loads(out)
    jsonschema.validate(data, CONTRACT)
    return data


def tree(folder: Path) -> dict[str, bytes | str]:
    return {
        str(path): os.readlink(path) if path.is_symlink() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


@pytest.fixture(autouse=True)
def own_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def broken(tmp_path: Path) -> Host:
    """An RTX 5090 with a torch that has no code for it."""
    host = Host(tmp_path / "root").ubuntu().nvidia_gpu("2b85").nvidia_driver("570.133.07").torch("2.6.0+cu124")
    host.run()
    return host


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    """A live venv with a CPU torch; its interpreter is there, and does nothing."""
    write_torch(write_venv(tmp_path / "venv"), "2.9.1+cpu", None)
    interpreter = tmp_path / "venv/bin/python3.12"
    interpreter.unlink()
    interpreter.write_text("#!/bin/true\n")
    interpreter.chmod(0o755)
    return tmp_path / "venv"


DESCRIBED = ("--gpu", "RTX 4070", "--driver", "580.95.05")


# --- what is shown --------------------------------------------------------------------------------------------


def test_a_recorded_machine_gets_its_repair_shown_and_never_run(broken: Host, own_journal: Path):
    before = tree(broken.root)
    for asked in ((), ("--yes",), ("--dry-run",)):
        code, out, _ = invoke("fix", "--root", str(broken.root), *asked)
        assert code == 1
        assert "torch==2.7.0+cu128" in out
        assert " ".join(out.split()).count("not run") == 1, "one reason for all steps, said once"
        assert "shown, not run" in " ".join(out.split())
    assert tree(broken.root) == before
    assert not own_journal.exists()


def test_a_snapshot_gets_its_repair_shown(broken: Host, tmp_path: Path):
    report = broken.check()
    (tmp_path / "machine.json").write_text(json.dumps(report))
    data = planned("--from", str(tmp_path / "machine.json"), "--yes")
    assert {step["state"] for step in data["steps"]} == {"shown only"}


def test_the_plan_as_json_is_the_first_fix_of_the_report(broken: Host):
    first = broken.check()["findings"][0]
    data = planned("--root", str(broken.root))
    steps = [{k: v for k, v in step.items() if k not in ("because", "state")} for step in data["steps"]]
    assert steps[: len(first["fixes"][0]["steps"])] == first["fixes"][0]["steps"]
    assert data["steps"][0]["because"][0] == first["id"]


def test_a_local_environment_is_repaired_for_a_described_machine(venv: Path):
    data = planned(*DESCRIBED, "--python", str(venv), "--dry-run")
    assert data["steps"][0]["state"] == "will run"
    assert data["steps"][0]["argv"][0].startswith(str(venv))


def test_a_described_torch_or_python_is_not_repaired(venv: Path):
    for described in (("--torch", "2.6.0+cpu"), ("--python-version", "3.11")):
        data = planned(*DESCRIBED, "--python", str(venv), *described)
        assert {step["state"] for step in data["steps"]} == {"shown only"}


def test_a_plan_that_ends_where_an_important_check_stays_open_promises_nothing():
    gpu = ("--gpu", "RTX 3050 Laptop GPU", "--driver", "595.58.03", "--python-version", "3.13")
    hidden = (*gpu, "--torch", "2.13.0+cu129", "--env", "CUDA_VISIBLE_DEVICES=", "--dry-run")
    assert planned(*hidden)["predicted"] == {"verdict": "unknown", "left": [], "until": "end", "notes": []}
    _, out, _ = invoke("fix", *hidden)
    assert "no problem is left, but an important check cannot be completed" in " ".join(out.split())


def test_an_environment_beside_a_root_may_be_repaired_and_one_inside_it_not(broken: Host, venv: Path):
    root = ("--root", str(broken.root), "--python")
    assert planned(*root, str(venv), "--dry-run")["steps"][0]["state"] == "will run"
    inside = write_venv(broken.root / "home" / "venv", home="/usr/bin")
    write_torch(inside, "2.9.1+cpu", None)
    data = planned(*root, str(broken.root / "home" / "venv"))
    assert {step["state"] for step in data["steps"]} == {"shown only"}


def test_a_healthy_machine_has_nothing_to_repair(tmp_path: Path):
    host = Host(tmp_path / "root").ubuntu().nvidia_gpu("2684").nvidia_driver("580.95.05").torch("2.9.1+cu128")
    host.run()
    code, out, _ = invoke("fix", "--root", str(host.root), "--yes")
    assert (code, "Nothing to fix." in out) == (0, True)


def test_steps_for_root_are_shown_with_what_comes_after(tmp_path: Path):
    host = Host(tmp_path / "root").ubuntu().nvidia_gpu("2b85").nvidia_driver("535.104.05").torch("2.7.0+cu128")
    host.run()
    data = planned("--root", str(host.root))
    roots = [step for step in data["steps"] if step["risk"] in ("root", "reboot")]
    assert all(step["state"] == "shown only" for step in roots)
    code, out, _ = invoke("fix", "--root", str(host.root))
    assert code == 1
    assert all(" ".join(step["argv"]) in out for step in data["steps"] if step["kind"] == "run")


def test_without_a_terminal_nothing_is_run_and_it_says_so(venv: Path):
    before = tree(venv)
    code, out, err = invoke("fix", *DESCRIBED, "--python", str(venv))
    assert (code, "pip install" in out, "--yes" in err) == (1, True, True)
    assert tree(venv) == before


def test_json_without_yes_is_a_dry_run(venv: Path):
    before = tree(venv)
    planned(*DESCRIBED, "--python", str(venv))
    assert tree(venv) == before


# --- scripts and variables --------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["sh", "dash", "bash"])
def test_the_script_is_one_that_a_shell_reads(broken: Host, tmp_path: Path, shell: str):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    code, out, _ = invoke("fix", "--root", str(broken.root), "--shell")
    assert code == 1
    assert out.startswith("#!/bin/sh\n")
    assert "torch==2.7.0+cu128" in out
    check_syntax(out, tmp_path / "repair.sh", shell)


def gfx1031(tmp_path: Path, **environ: str) -> Host:
    host = Host(tmp_path / "root").ubuntu()
    host.amd_gpu("73df", "gfx1031").torch("2.9.1+rocm6.4").environ(**environ)
    host.run()
    return host


def test_the_variable_of_an_rx_6000_is_printed_for_a_shell(tmp_path: Path):
    host = gfx1031(tmp_path)
    code, out, err = invoke("env", "--root", str(host.root))
    assert (code, out) == (0, "export HSA_OVERRIDE_GFX_VERSION=10.3.0;\n")
    assert "gfx1031" in err
    _, fish, _ = invoke("env", "--root", str(host.root), "--shell", "fish")
    assert fish == "set -gx HSA_OVERRIDE_GFX_VERSION '10.3.0';\n"
    _, data, _ = invoke("env", "--root", str(host.root), "--shell", "json")
    assert json.loads(data) == {"schema": 1, "set": {"HSA_OVERRIDE_GFX_VERSION": "10.3.0"}, "unset": []}
    gone = subprocess.run(
        ["sh", "-c", f'eval "{out}"; echo "$HSA_OVERRIDE_GFX_VERSION"'], capture_output=True, text=True, check=True
    )
    assert gone.stdout == "10.3.0\n"


def test_with_the_variable_nothing_more_is_printed(tmp_path: Path):
    host = gfx1031(tmp_path, HSA_OVERRIDE_GFX_VERSION="10.3.0")
    assert invoke("env", "--root", str(host.root))[1] == ""


def test_each_way_out_of_an_rx_6000_can_be_taken(tmp_path: Path):
    host = gfx1031(tmp_path)
    first = host.check()["findings"][0]
    for number, fix in enumerate(first["fixes"], 1):
        data = planned("--root", str(host.root), "--only", first["slug"], "--alternative", str(number))
        kinds = [step["kind"] for step in data["steps"]]
        assert sorted(kinds) == sorted(step["kind"] for step in fix["steps"])
    _, _, message = failed("fix", "--root", str(host.root), "--alternative", str(len(first["fixes"]) + 1))
    assert f"has {len(first['fixes'])} fixes" in message


# --- bad input, hostile input -----------------------------------------------------------------------------------


def failed(*arguments: str) -> tuple[int, str, str]:
    """Run through the program's own handling of errors."""
    import contextlib
    import io

    from gpudoctor.cli import run

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(arguments)
    assert "Traceback" not in err.getvalue()
    return code, out.getvalue(), err.getvalue()


@pytest.mark.parametrize(
    "arguments",
    [
        ("--only", "no-such-finding"),
        ("--alternative", "0"),
        ("--alternative", "99"),
        ("--undo", "--history"),
        ("--undo", "--only", "GPD402"),
        ("--yes", "--dry-run"),
        ("--yes", "--shell"),
        ("--system",),
        ("--undo",),
        ("--forget", "no-such-run"),
        ("--force",),
        ("--forget", "no-such-run", "--history"),
    ],
)
def test_bad_input_is_one_line_and_2(broken: Host, arguments: tuple[str, ...]):
    code, out, err = failed("fix", "--root", str(broken.root), *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)


def test_what_is_named_and_not_found_leaves_nothing_to_do(broken: Host):
    code, out, _ = invoke("fix", "--root", str(broken.root), "--only", "nouveau-conflict", "--yes")
    assert code == 1
    assert "Nothing to fix." in out


def test_nothing_can_be_taken_back_or_continued_before_the_first_repair(venv: Path):
    code, _, err = invoke("fix", "--undo", "--yes", "--python", str(venv))
    assert (code, "Nothing to undo in this environment" in err) == (0, True)
    code, _, err = invoke("fix", "--continue", *DESCRIBED, "--python", str(venv))
    assert "nothing to continue" in err
    assert invoke("fix", "--history")[1] == "No fix is in the journal.\n"
    assert json.loads(invoke("fix", "--history", "--format", "json")[1]) == {"schema": 1, "runs": []}


def test_what_is_kept_of_a_repair_is_given_up_when_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    place = Place(tmp_path)
    place.home = str(tmp_path / "state" / "gpudoctor")
    run = place.replace_torch()
    (listed,) = json.loads(invoke("fix", "--history", "--format", "json")[1])["runs"]
    assert (listed["id"], listed["kept_bytes"]) == (run.id, run.kept_bytes)
    code, out, err = invoke("fix", "--forget", run.id)
    assert (code, "keeps 1 MiB" in out, "no terminal to ask on" in err) == (0, True, True)
    assert "Forgetting it frees 1 MiB on disk. " in out
    invoke("fix", "--forget", run.id, "--dry-run")
    assert os.path.exists(run.begun.kept)

    note(run, "interrupted", step=0)
    code, _, err = invoke("fix", "--forget", run.id, "--yes")
    assert (code, "--force leaves it half changed" in err) == (1, True)
    assert os.path.exists(run.begun.kept)
    code, out, _ = invoke("fix", "--forget", run.id, "--yes", "--force", "--format", "json")
    assert (code, json.loads(out)["freed_bytes"]) == (0, listed["kept_bytes"])
    assert invoke("fix", "--history")[1] == "No fix is in the journal.\n"
    assert not os.path.exists(run.begun.kept)


HOSTILE = ["a'; touch pwned; '", "$(touch pwned)", "-rf", "a\x1b]0;pwned\x07", "a\u202eb"]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_names_of_a_recorded_machine_reach_neither_shell_nor_terminal(tmp_path: Path, hostile: str):
    host = Host(tmp_path / "root").ubuntu().nvidia_gpu("2b85").nvidia_driver("570.133.07")
    host.file("/etc/os-release", f'ID=ubuntu\nVERSION_ID="{hostile}"\nPRETTY_NAME="{hostile}"\n')
    prefix = f"/opt/{hostile}"
    write_torch(write_venv(host.path(prefix)), "2.6.0+cu124", "12.4")
    host.environ(VIRTUAL_ENV=prefix)
    host.run()
    _, text, _ = invoke("fix", "--root", str(host.root))
    _, script, _ = invoke("fix", "--root", str(host.root), "--shell")
    for shown in (text, script):
        assert not {"\x1b", "\x07", "\u202e"} & set(shown)
    for step in planned("--root", str(host.root))["steps"]:
        assert not step.get("argv", [""])[0].startswith("-")
    check_syntax(script, tmp_path / "repair.sh")
    argvs = [step["argv"] for step in planned("--root", str(host.root))["steps"] if step["kind"] == "run"]
    assert commands(script) == [argv for argv in argvs if "".join(argv).isprintable()]


def test_a_step_behind_another_torch_does_not_bring_the_old_one_back(tmp_path: Path) -> None:
    host = Host(tmp_path / "root").ubuntu().nvidia_gpu("2b85").nvidia_driver("580.95.05").torch("2.6.0+cu124")
    host.package("tensorflow", "2.15.0").run()
    said = CliRunner().invoke(gpudoctor, ["fix", "--dry-run", "--root", str(host.root), "--format", "json"]).stdout
    commands = [step["argv"] for step in json.loads(said)["steps"]]
    first = next(at for at, argv in enumerate(commands) if "torch==2.7.0+cu128" in argv)
    later = next(at for at, argv in enumerate(commands) if "tensorflow[and-cuda]==2.15.0" in argv)
    assert first < later
    assert "torch==2.6.0+cu124" not in commands[later]


def test_a_release_that_a_step_only_holds_in_place_is_not_called_replaced(tmp_path: Path) -> None:
    host = Host(tmp_path / "root").ubuntu().nvidia_gpu("2684").nvidia_driver("580.95.05").torch("2.6.0+cu124")
    host.package("tensorflow", "2.15.0").run()
    said = CliRunner().invoke(gpudoctor, ["fix", "--dry-run", "--root", str(host.root)]).stdout
    assert "torch==2.6.0+cu124" in said
    assert "replaces tensorflow 2.15.0\n" in said
