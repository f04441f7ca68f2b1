"""The Python that preflight judges: the one that the command will run, where words and files tell."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from gpudoctor.preflight.interpreter import interpreter_of
from tests.support.environments import write_conda, write_venv
from tests.support.in_process import chdir
from tests.test_preflight import PREFLIGHT

TO_PROJECT = {
    "by its name": "python train.py",
    "by its place": "{app}/bin/python train.py",
    "by a version": "python3.12 -m torch.distributed.run train.py",
    "with variables": "env -u NOTHING OMP_NUM_THREADS=1 python train.py",
    "behind wrappers": "nice -n 5 timeout 60 python train.py",
    "a script of pip": "torchrun train.py",
    "a script with a long first line": "accelerate launch train.py",
    "a script that looks for it": "serve --port 80",
    "a shell with one command": "sh -c 'exec python train.py'",
    "a shell with variables": "bash -ec 'A=b python train.py'",
    "a shell that passes words on": 'sh -c "$@" sh python train.py',
    "uv's project": "uv run --frozen python {work}/train.py",
    "uv's project by its folder": "uv run --project {work} train.py",
    "conda by prefix": "conda run -p {app} --no-capture-output python train.py",
    "another folder, and wrappers": "env -C {work} python train.py",
    "words of the command that look like variables": "env python train.py PATH=/nowhere",
    "words that env splits": "env -S 'A=b python -u' train.py",
    "a script whose first line env splits": "split train.py",
    "a place in the home folder": "sh -c '~/app/bin/python train.py'",
    "a requirement file of the command, and not uv's": "uv run --with numpy python own.py",
    "a member of a workspace": "uv run --project {work}/member train.py",
}
TO_CONDA = {
    "conda by name": "conda run -n gpu python train.py",
    "an option of the command that conda has, too": "conda run -n gpu torchrun -p 3",
    "another Python than the project's, by its place": "uv run {conda}/envs/gpu/bin/python train.py",
    "micromamba by name": "micromamba run --name=gpu python train.py",
}
OPEN = {
    "no Python": "true",
    "a script of a shell": "./start.sh",
    "several commands": "sh -c 'cd / && python train.py'",
    "a shell that activates": "sh -c '. other/bin/activate; python train.py'",
    "a login shell, whose profile sets PATH": "bash -lc 'python train.py'",
    "not there": "python9 train.py",
    "a script with its own requirements": "uv run {work}/own.py",
    "poetry in an active environment": "poetry run python train.py",
    "an environment that uv makes": "uv run --isolated python train.py",
    "one that uv makes, with more options": "uv run --with numpy --isolated python train.py",
    "a tool of uv": "uv tool run --from vllm vllm serve",
    "no PATH": "env -i python9 train.py",
    "a pipe, which nobody writes to": "./pipe",
    "a folder": "./",
}


@pytest.fixture
def places(tmp_path: Path) -> dict[str, Path]:
    """An environment `app` on PATH, one of conda, and an active one beside them."""
    work = tmp_path / "work"
    for name in ("app", "active"):
        write_venv(tmp_path / name, home="/nowhere")
    write_conda(tmp_path / "conda" / "envs" / "gpu")
    write_conda(tmp_path / "conda")
    work.mkdir()
    (work / "pyproject.toml").write_text("[tool.uv.workspace]\n")
    (work / "member").mkdir()
    (work / "member" / "pyproject.toml").write_text("")
    os.mkfifo(work / "pipe", 0o755)
    (work / ".venv").symlink_to(tmp_path / "app")
    folder = tmp_path / "app" / "bin"
    python = folder / "python"
    scripts = {
        "torchrun": f"#!{python}\n",
        "accelerate": f"#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''\n",
        "serve": "#!/usr/bin/env python3\n",
        "split": "#!/usr/bin/env -S A=b python3 -u\n",
        "uv": "#!/bin/sh\n",
        "micromamba": "#!/bin/sh\n",
        "poetry": "#!/bin/sh\n",
    }
    for name, text in scripts.items():
        (folder / name).write_text(text)
    (work / "start.sh").write_text("#!/bin/sh\nexec python train.py\n")
    (work / "own.py").write_text("# /// script\n# dependencies = ['torch']\n# ///\n")
    conda = tmp_path / "conda" / "bin" / "conda"
    conda.write_text("#!/bin/sh\n")
    (folder / "conda").symlink_to(conda)
    for script in (*folder.iterdir(), conda, work / "start.sh"):
        if not script.is_symlink():
            script.chmod(0o755)
    return {name: tmp_path / name for name in ("app", "active", "work", "conda")}


def variables(places: dict[str, Path]) -> dict[str, str]:
    return {
        "PATH": f"{places['app']}/bin:/usr/bin:/bin",
        "VIRTUAL_ENV": str(places["active"]),
        "MAMBA_ROOT_PREFIX": str(places["conda"]),
        "HOME": str(places["app"].parent),
    }


def judged(places: dict[str, Path], command: str, *options: str) -> str:
    """The prefix that the line on success names."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GPUDOCTOR_", "CONDA", "UV_"))}
    words = shlex.split(command.format(**places))
    done = subprocess.run(
        [*PREFLIGHT, "--select", "GPD401", *options, "--", *words],
        capture_output=True, text=True, check=False, timeout=60, cwd=places["work"],
        env={**kept, **variables(places)},
    )  # fmt: skip
    return done.stderr.split("Python in ")[1].split(" (")[0]


def prefix_of(places: dict[str, Path], command: str) -> Path | None:
    """The environment of the interpreter that the command runs; None where nothing tells."""
    with chdir(places["work"]):
        found = interpreter_of(shlex.split(command.format(**places)), variables(places))
    return Path(found).parent.parent if found else None


def test_what_the_command_runs_is_judged_and_else_the_active_environment(places: dict[str, Path]):
    assert Path(judged(places, TO_PROJECT["by its name"])).resolve() == places["app"]
    assert judged(places, TO_CONDA["conda by name"]) == str(places["conda"] / "envs" / "gpu")
    assert judged(places, OPEN["a script of a shell"]) == str(places["active"])


@pytest.mark.parametrize("name", TO_PROJECT)
def test_the_interpreter_of_the_command_is_found(places: dict[str, Path], name: str):
    found = prefix_of(places, TO_PROJECT[name])
    assert found is not None and found.resolve() == places["app"]


@pytest.mark.parametrize("name", TO_CONDA)
def test_the_environment_that_conda_runs_in_is_found(places: dict[str, Path], name: str):
    assert prefix_of(places, TO_CONDA[name]) == places["conda"] / "envs" / "gpu"


@pytest.mark.parametrize("name", OPEN)
def test_where_nothing_tells_no_interpreter_is_named(places: dict[str, Path], name: str):
    found = prefix_of(places, OPEN[name])
    assert found in (None, places["active"])


@pytest.mark.parametrize("command", ["env -i python3 train.py", "sudo python3 train.py"])
def test_behind_what_takes_path_away_the_systems_own_python_is_judged(places: dict[str, Path], command: str):
    sudo = places["app"] / "bin" / "sudo"
    sudo.write_text("#!/bin/sh\n")
    sudo.chmod(0o755)
    found = interpreter_of(command.split(), {"PATH": f"{places['app']}/bin:/usr/bin:/bin"})
    assert found is None or not found.startswith(str(places["app"]))


def test_without_a_project_uv_runs_in_the_nearest_environment(
    places: dict[str, Path], monkeypatch: pytest.MonkeyPatch
):
    (places["work"] / "pyproject.toml").unlink()
    monkeypatch.chdir(places["work"])
    found = interpreter_of(["uv", "run", "train.py"], {"PATH": f"{places['app']}/bin"})
    assert found is not None
    assert Path(found).parent.parent.resolve() == places["app"]


def test_an_option_overrides_what_the_command_says(places: dict[str, Path]):
    assert judged(places, "python train.py", "--python", str(places["conda"])) == str(places["conda"])


def test_a_refusal_names_the_interpreter_in_the_command_that_shows_more(places: dict[str, Path]):
    done = subprocess.run(
        [*PREFLIGHT, "--require", "torch>=2", "--", str(places["app"] / "bin/python"), "train.py"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 121
    assert f"--python {places['app']}/bin/python" in done.stderr.replace("\n", " ").replace("  ", "")


def test_a_broken_environment_on_path_refuses_nothing_by_itself(places: dict[str, Path]):
    shutil.rmtree(places["app"] / "lib")
    (places["app"] / "pyvenv.cfg").unlink()
    assert judged(places, "python train.py") == str(places["active"])
