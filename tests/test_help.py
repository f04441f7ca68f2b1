"""Help, names that are nearly right, completion, the version, the matrix as a table."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from gpudoctor.cli import COMMANDS, gpudoctor
from gpudoctor.command_line import arguments
from gpudoctor.preflight.arguments import LINE as PREFLIGHT
from tests.support.environments import write_torch, write_venv
from tests.test_cli import gpudoctor as program


def test_no_help_is_cut_off():
    listed = program("--help").stdout
    assert "..." not in listed[listed.index("Commands:") :]
    assert max(map(len, listed.splitlines())) <= 80
    for name in COMMANDS:
        _check_help(gpudoctor.get_command(click.Context(gpudoctor), name), name)


def _check_help(command: click.Command | None, *path: str) -> None:
    text = program(*path, "--help").stdout
    assert text.startswith("Usage: gpudoctor"), path
    assert [line for line in text.splitlines() if len(line) > 80] == [], path
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            _check_help(command.get_command(click.Context(command), name), *path, name)


def test_the_options_stand_in_groups():
    text = program("check", "--help").stdout
    headings = re.findall(r"^(\S.*):$", text, re.MULTILINE)
    assert headings == ["Options", "What is checked", "A described machine", "What counts", "Output"]
    described = text[text.index("A described machine:") : text.index("What counts:")]
    assert "--gpu" in described and "--format" not in described


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (("chek",), "check"),
        (("recomend",), "recommend"),
        (("matrix", "shwo"), "show"),
        (("explain", "torch-no-arch-for-gp"), "torch-no-arch-for-gpu"),
        (("matrix", "show", "nvidia_gpu"), "nvidia_gpus"),
        (("whatif", "--gpu", "RTX 5091"), "5090"),
    ],
)
def test_a_name_that_is_nearly_right_is_answered_with_the_near_one(typed: tuple[str, ...], meant: str):
    done = program(*typed)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert re.search(rf"[Dd]id you mean .*{meant}", done.stderr)


def test_the_number_of_a_check_is_enough():
    assert program("explain", "402").stdout == program("explain", "GPD402").stdout
    assert program("check", "--level", "static", "--select", "402").returncode == 0


def test_the_version_names_the_matrix():
    version = json.loads(program("matrix", "show", "--format", "json").stdout)["version"]
    assert program("--version").stdout.split()[-1] == version


def test_the_matrix_is_a_table_for_people_and_json_for_programs():
    *text, following = program("matrix", "show", "nvidia_gpus", "RTX 5090").stdout.splitlines()
    assert following.startswith("Next: ")
    assert text[0].split() == ["pci", "chip", "name", "listed_from"]
    data = json.loads(program("matrix", "show", "nvidia_gpus", "RTX 5090", "--format", "json").stdout)
    assert data["rows"][0]["pci"] == text[1].split()[0]
    assert len(data["rows"]) == len(text) - 1


def test_every_table_of_the_matrix_is_shown_to_people():
    tables = json.loads(program("matrix", "show", "--format", "json").stdout)["tables"]
    for table, rows in tables.items():
        *text, following = program("matrix", "show", table).stdout.splitlines()
        assert following.startswith("Next: "), table
        assert len(text) == rows + 1, table
        assert not any("('" in line or "{'" in line for line in text), table


def test_every_shared_option_has_a_variable_of_its_name():
    for option in (*arguments.LINE.options, *PREFLIGHT.options):
        name = max(option.names, key=len).removeprefix("--").replace("-", "_").upper()
        own = {"--require": "GPUDOCTOR_REQUIRE" in option.help}
        assert own.get(option.names[-1]) or option.variable == f"GPUDOCTOR_{name}", option.names


def test_a_described_gpu_may_stand_in_a_variable():
    told = program("whatif", "--torch", "2.6.0+cu124", GPUDOCTOR_GPU="RTX 5090; RTX 4090").stdout
    assert "RTX 5090" in told and "RTX 4090" in told


def completed(*words: str) -> list[str]:
    variables = {
        "_GPUDOCTOR_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": f"{len(words) - 1}",
    }
    return [line.partition(",")[2] for line in program(**variables).stdout.splitlines()]


def test_commands_options_ids_slugs_and_gpus_complete():
    assert completed("gpudoctor", "reco") == ["recommend"]
    assert "--python" in completed("gpudoctor", "check", "--py")
    assert completed("gpudoctor", "explain", "GPD402") == ["GPD402"]
    assert "torch-no-arch-for-gpu" in completed("gpudoctor", "check", "--select", "torch-no")
    assert "RTX-5090" in completed("gpudoctor", "whatif", "--gpu", "RTX-50")
    assert program("whatif", "--gpu", "RTX-5090", "--torch", "2.9.1+cu128").returncode == 0


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_of_a_shell_is_one_that_it_reads(shell: str, tmp_path: Path):
    lines = program("completion", shell).stdout
    assert "_GPUDOCTOR_COMPLETE" in lines
    if shutil.which(shell) is None:
        return
    (tmp_path / "lines").write_text(lines)
    assert subprocess.run([shell, "-n", str(tmp_path / "lines")], check=False).returncode == 0


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_a_slug():
    folder = os.path.dirname(sys.executable)
    script = (
        f'PATH={folder}:$PATH; eval "$(gpudoctor completion bash)"; COMP_CWORD=2; '
        "COMP_WORDS=(gpudoctor explain torch-no-arch-for); _gpudoctor_completion gpudoctor; echo ${COMPREPLY[@]}"
    )
    if not os.path.exists(f"{folder}/gpudoctor"):
        pytest.skip("no installed gpudoctor beside this Python")
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout.split() == ["torch-no-arch-for-gpu"]


def test_an_undo_names_the_environment_of_the_last_fix(tmp_path: Path):
    from tests.test_fix_undo import Place

    (tmp_path / "fixed").mkdir()
    place = Place(tmp_path / "fixed")
    place.home = str(tmp_path / "state" / "gpudoctor")
    run = place.replace_torch()
    write_torch(write_venv(tmp_path / "venv"), "2.9.1+cpu", None)
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}
    told = program("fix", "--undo", "--python", str(tmp_path / "venv"), **state).stderr
    assert f"the last fix was in {run.prefix}: add --python {run.prefix}" in told
    history = program("fix", "--history", **state).stdout.splitlines()
    assert history[-1] == f"Undo the last: gpudoctor fix --undo --python {run.prefix}"


def test_an_override_is_not_called_safe():
    report = json.loads(
        program("whatif", "--gpu", "RX 6700 XT", "--torch", "2.9.1+rocm6.4", "--format", "json").stdout
    )
    steps = [step for fix in report["findings"][0]["fixes"] for step in fix["steps"] if step["kind"] == "env"]
    assert [(step["name"], step["risk"]) for step in steps] == [("HSA_OVERRIDE_GFX_VERSION", "replaces")]


def test_every_command_is_one_of_ours():
    context = click.Context(gpudoctor)
    assert all(gpudoctor.get_command(context, name) is not None for name in gpudoctor.list_commands(context))


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        (("undo",), "`gpudoctor fix --undo`"),
        (("whatif", "--gpu", "RTX", "4090"), '--gpu "RTX 4090"'),
        (("recommend", "jax"), "--framework"),
        (("whatif", "--gpu", "1060"), "GTX 1060 6GB"),
        (("whatif", "--gpu", "GTX 1O60"), "GTX 1060"),
    ],
)
def test_what_people_type_is_answered_with_what_they_mean(typed: tuple[str, ...], hint: str):
    done = program(*typed)
    assert done.returncode == 2 and hint in done.stderr


def test_help_is_a_command_too():
    assert program("help").stdout == program("--help").stdout
    assert program("help", "fix").stdout == program("fix", "--help").stdout


def test_a_variable_is_explained_by_the_problems_that_name_it():
    done = program("explain", "HSA_OVERRIDE_GFX_VERSION")
    assert done.returncode == 0 and "hsa-override-wrong" in done.stdout
