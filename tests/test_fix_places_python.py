"""The steps of a repair carried out by real pip, uv and poetry, against indexes of made-up wheels on loopback."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpudoctor.finding import AnyRemedy, Finding, Fix, RemovePackage, ReplacePackage, ReplaceTorch
from gpudoctor.host import LiveHost
from gpudoctor.machine import Machine
from gpudoctor.matrix.load import load_matrix
from gpudoctor.planner.plan import fixes_for
from gpudoctor.probes.python_environment import probe_environment
from gpudoctor.situation import Situation
from gpudoctor.step import ManualStep, RunStep, Step
from tests.support.machines import change, nvidia_machine
from tests.support.made_environments import make_venv_with_pip
from tests.support.torch_indexes import only_these

MATRIX = load_matrix()
POETRY = os.environ.get("GPUDOCTOR_TEST_POETRY") or shutil.which("poetry")
needs_uv = pytest.mark.skipif(shutil.which("uv") is None, reason="needs uv")


class Patient:
    """A folder with an environment in .venv, and the commands that are run there."""

    def __init__(self, folder: Path, base: str) -> None:
        self.folder, self.base = folder, base
        self.prefix = folder / ".venv"
        self.python = str(self.prefix / "bin" / "python")
        self.environ = only_these(base, folder / "cache")

    def run(self, *argv: str, cwd: str | None = None, env: dict[str, str] | None = None) -> str:
        environ = {**self.environ, **(env or {})}
        streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        done = subprocess.run(argv, cwd=cwd or self.folder, env=environ, check=False, **streams)
        assert done.returncode == 0, f"{' '.join(argv)}\n{done.stdout}"
        return done.stdout

    def pip(self, index: str, *wanted: str) -> str:
        return self.run(self.python, "-m", "pip", "install", "--index-url", f"{self.base}/{index}", *wanted)

    def packages(self) -> dict[str, str]:
        places = sorted((self.prefix / "lib").glob("python*/site-packages"))
        names = [path.name.removesuffix(".dist-info") for path in places[0].glob("*.dist-info")]
        return {name.rpartition("-")[0]: name.rpartition("-")[2] for name in names}

    def site(self, path: str) -> Path:
        (place,) = (self.prefix / "lib").glob("python*/site-packages")
        return place / path

    def machine(self) -> Machine:
        found = probe_environment(LiveHost(), str(self.prefix), {"VIRTUAL_ENV": str(self.prefix)})
        return change(nvidia_machine(), environment=found)

    def steps(self, *remedies: AnyRemedy) -> tuple[Step, ...]:
        finding = Finding(severity="error", message="m", fixes=(Fix(title="t", remedies=remedies),))
        return fixes_for(finding, Situation(self.machine(), MATRIX))[0].steps

    def repair(self, version: str, build: str, *, origin: str = "download.pytorch.org") -> tuple[Step, ...]:
        index = "" if origin == "pypi" else f"{self.base}/{build}"
        return self.apply(ReplaceTorch(version=version, build=build, origin=origin, index_url=index))

    def apply(self, *remedies: AnyRemedy) -> tuple[Step, ...]:
        steps = self.steps(*remedies)
        for step in steps:
            if isinstance(step, RunStep):
                self.run(*step.argv, cwd=step.cwd, env=step.env)
        return steps


@pytest.fixture
def pip_venv(tmp_path: Path, base: str) -> Patient:
    patient = Patient(tmp_path, base)
    make_venv_with_pip(patient.prefix)
    return patient


@pytest.fixture
def uv_venv(tmp_path: Path, base: str) -> Patient:
    patient = Patient(tmp_path, base)
    patient.run("uv", "venv", "--python", sys.executable, str(patient.prefix))
    return patient


# --- pip and uv in a venv ---------------------------------------------------------------------------


def test_another_build_of_the_same_version_replaces_torch_and_nothing_else(pip_venv: Patient) -> None:
    pip_venv.pip("cpu", "torch==2.13.0+cpu")
    pip_venv.pip("pypi", "numpy==1.5")
    assert "already satisfied" in pip_venv.pip("pypi", "torch==2.13.0")  # a plain version changes nothing
    pip_venv.repair("2.13.0", "cu130", origin="pypi")
    found = pip_venv.packages()
    assert (found["torch"], found["numpy"]) == ("2.13.0", "1.5")
    assert found["nvidia_cudnn_cu13"] == "9.2"


def test_the_local_part_is_enough_where_the_index_names_it(pip_venv: Patient) -> None:
    pip_venv.pip("pypi", "torch==2.13.0", "numpy==1.5")
    pip_venv.repair("2.13.0", "cu128")
    assert pip_venv.packages()["torch"] == "2.13.0+cu128"
    assert pip_venv.packages()["numpy"] == "1.5"


def test_the_triton_of_the_old_vendor_leaves_nothing_behind(pip_venv: Patient) -> None:
    pip_venv.pip("rocm6.4", "torch==2.13.0+rocm6.4")
    pip_venv.repair("2.13.0", "cu128")
    assert "pytorch_triton_rocm" not in pip_venv.packages()
    assert sorted(path.name for path in pip_venv.site("triton").glob("*.py")) == ["__init__.py", "only_cuda.py"]
    assert "cuda" in pip_venv.site("triton/__init__.py").read_text()


def test_libraries_of_another_cuda_in_the_same_folder_make_way(pip_venv: Patient) -> None:
    pip_venv.pip("cu128", "torch==2.13.0+cu128")
    steps = pip_venv.repair("2.13.0", "cu130")
    assert "nvidia_cudnn_cu12" not in pip_venv.packages()
    assert pip_venv.site("nvidia/cudnn/lib/libcudnn.so.9").read_text() == "of CUDA 13"
    first = steps[0]
    assert isinstance(first, RunStep)
    assert first.undo[0][-1] == "nvidia-cudnn-cu12==9.1"


def test_without_them_nothing_is_taken_out(pip_venv: Patient) -> None:
    pip_venv.pip("cpu", "torch==2.13.0+cpu")
    assert len(pip_venv.repair("2.13.0", "cu130")) == 1


@needs_uv
def test_uv_replaces_the_build_and_leaves_the_rest(uv_venv: Patient) -> None:
    index = f"{uv_venv.base}/rocm6.4"
    uv_venv.run("uv", "pip", "install", "--python", uv_venv.python, "--default-index", index, "torch")
    uv_venv.run("uv", "pip", "install", "--python", uv_venv.python, "numpy==1.5")
    uv_venv.repair("2.13.0", "cu130")
    found = uv_venv.packages()
    assert (found["torch"], found["numpy"]) == ("2.13.0+cu130", "1.5")
    assert "pytorch_triton_rocm" not in found


@needs_uv
def test_uv_replaces_a_build_of_the_same_version_of_the_package_index(uv_venv: Patient) -> None:
    index = f"{uv_venv.base}/cpu"
    uv_venv.run("uv", "pip", "install", "--python", uv_venv.python, "--default-index", index, "torch")
    uv_venv.run("uv", "pip", "install", "--python", uv_venv.python, "numpy==1.5")
    uv_venv.repair("2.13.0", "cu130", origin="pypi")
    found = uv_venv.packages()
    assert (found["torch"], found["numpy"]) == ("2.13.0", "1.5")


# --- projects ---------------------------------------------------------------------------------------

PROJECT = """[project]
name = "mine"
version = "0"
requires-python = ">=3.10"
dependencies = [{dependencies}]
{more}
"""


def uv_project(tmp_path: Path, base: str, dependencies: str, more: str = "", *sync: str) -> Patient:
    patient = Patient(tmp_path, base)
    (tmp_path / "pyproject.toml").write_text(PROJECT.format(dependencies=dependencies, more=more))
    patient.run("uv", "sync", "--python", sys.executable, *sync)
    return patient


def locked(patient: Patient, name: str) -> str:
    text = (patient.folder / "uv.lock").read_text()
    return text.partition(f'name = "{name}"\nversion = "')[2].partition('"')[0]


@needs_uv
@pytest.mark.parametrize(
    ("dependencies", "more", "sync"),
    [
        ('"torch==2.12.0"', "", ()),
        ('"accelerate"', "", ()),  # torch comes with it only
        ("", '[dependency-groups]\ngpu = ["torch==2.12.0"]', ("--group", "gpu")),
        ("", '[project.optional-dependencies]\ngpu = ["torch==2.12.0"]', ("--extra", "gpu")),
    ],
)
def test_a_uv_project_keeps_its_repair(
    tmp_path: Path, base: str, dependencies: str, more: str, sync: tuple[str, ...]
) -> None:
    project = uv_project(tmp_path, base, dependencies, more, *sync)
    project.repair("2.13.0", "cu128")
    assert project.packages()["torch"] == "2.13.0+cu128"
    project.run("uv", "sync", *sync)
    assert project.packages()["torch"] == "2.13.0+cu128"
    # The index has an old numpy, too, and is not asked for it.
    assert (project.packages()["numpy"], locked(project, "numpy")) == ("2.0", "2.0")


@needs_uv
def test_another_index_that_the_project_was_bound_to_gives_way(tmp_path: Path, base: str) -> None:
    bound = f"""[tool.uv.sources]
torch = [
    {{ index = "old", marker = "sys_platform == 'linux'" }},
]
[[tool.uv.index]]
name = "old"
url = "{base}/cpu"
explicit = true
"""
    project = uv_project(tmp_path, base, '"torch==2.13.0"', bound)
    assert project.packages()["torch"] == "2.13.0+cpu"
    project.repair("2.13.0", "cu128")
    project.repair("2.12.0", "cu128")  # the index is there already
    assert project.packages()["torch"] == "2.12.0+cu128"
    assert (project.folder / "pyproject.toml").read_text().count("explicit = true") == 2


@needs_uv
def test_a_project_gets_the_index_of_a_build_that_the_package_index_has_too(tmp_path: Path, base: str) -> None:
    project = uv_project(tmp_path, base, '"torch==2.12.0"')
    own = ReplaceTorch(version="2.9.1", build="cu128", origin="pypi")
    add = next(step for step in project.steps(own) if isinstance(step, RunStep) and "add" in step.argv)
    assert add.argv[3] == "--index"
    assert add.argv[-1] == "torch==2.9.1+cu128"


@needs_uv
def test_a_project_that_asks_in_several_places_is_left_to_a_person(tmp_path: Path, base: str) -> None:
    extras = '[project.optional-dependencies]\ncpu = ["torch==2.12.0"]\ngpu = ["torch>=2.12"]'
    project = uv_project(tmp_path, base, "", extras, "--extra", "cpu")
    steps = project.steps(ReplaceTorch("2.13.0", "cu128", "download.pytorch.org", f"{base}/cu128"))
    assert all(isinstance(step, ManualStep) for step in steps)
    assert isinstance(steps[0], ManualStep)
    assert "--optional cpu, --optional gpu" in steps[0].text


def poetry_project(tmp_path: Path, base: str, dependencies: str) -> Patient:
    assert POETRY is not None
    project = Patient(tmp_path, base)
    project.environ |= {
        "POETRY_VIRTUALENVS_IN_PROJECT": "true",
        "POETRY_CACHE_DIR": str(tmp_path / "cache"),
        "PATH": f"{Path(POETRY).parent}:{os.environ['PATH']}",
    }
    source = f'[[tool.poetry.source]]\nname = "main"\nurl = "{base}/pypi/"\npriority = "primary"'
    text = PROJECT.format(dependencies=dependencies, more=f"[tool.poetry]\npackage-mode = false\n{source}")
    number = ".".join(map(str, sys.version_info[:2]))
    (tmp_path / "pyproject.toml").write_text(text.replace(">=3.10", f"=={number}.*"))
    project.run(POETRY, "env", "use", sys.executable)
    project.run(POETRY, "install")
    return project


needs_poetry = pytest.mark.skipif(POETRY is None, reason="needs poetry (or its path in GPUDOCTOR_TEST_POETRY)")
projects = pytest.mark.parametrize(
    ("made", "sync"),
    [
        pytest.param(uv_project, ("uv", "sync"), marks=needs_uv),
        pytest.param(poetry_project, (POETRY or "", "sync"), marks=needs_poetry),
    ],
)


@needs_poetry
def test_a_poetry_project_keeps_its_repair(tmp_path: Path, base: str) -> None:
    project = poetry_project(tmp_path, base, '"torch==2.12.0"')
    project.repair("2.13.0", "cu128")
    project.run(POETRY or "", "install")
    assert (project.packages()["torch"], project.packages()["numpy"]) == ("2.13.0+cu128", "2.0")


@projects
def test_an_extra_takes_the_place_of_another_with_what_it_brought(
    tmp_path: Path, base: str, made: Callable[..., Patient], sync: tuple[str, ...]
) -> None:
    project = made(tmp_path, base, '"jax[cuda13]==0.12.0"')
    assert "jax_cuda13_plugin" in project.packages()
    gone = RemovePackage("jax-cuda13-plugin", indirect=True)
    project.apply(gone, ReplacePackage("jax", "==0.12.0", extra="cuda12"))
    for _ in range(2):
        plugins = {name for name in project.packages() if "plugin" in name}
        assert plugins == {"jax_cuda12_plugin"}
        project.run(*sync)


@projects
def test_what_a_project_names_is_removed_from_it(
    tmp_path: Path, base: str, made: Callable[..., Patient], sync: tuple[str, ...]
) -> None:
    project = made(tmp_path, base, '"accelerate==1.0", "triton==3.7"')
    project.apply(RemovePackage("accelerate"))
    assert "accelerate" not in project.packages()
    assert "accelerate" not in (tmp_path / "pyproject.toml").read_text()
    project.run(*sync)
    assert "accelerate" not in project.packages()


@needs_uv
def test_what_came_with_another_package_is_left_to_a_person(tmp_path: Path, base: str) -> None:
    project = uv_project(tmp_path, base, '"accelerate==1.0"')
    (step,) = project.steps(RemovePackage("triton"))
    assert isinstance(step, ManualStep) and "uv remove" not in step.text


# --- what lies beside an environment ----------------------------------------------------------------


def told(patient: Patient, base: str) -> str:
    steps = patient.steps(ReplaceTorch("2.13.0", "cu128", "download.pytorch.org", f"{base}/cu128"))
    return "\n".join(step.text for step in steps if isinstance(step, ManualStep))


def test_a_requirements_file_that_brings_the_old_build_back_is_named(pip_venv: Patient, base: str) -> None:
    pip_venv.pip("pypi", "torch==2.12.0")
    (pip_venv.folder / "requirements.txt").write_text("numpy\ntorch==2.12.0  # for now\ntorchmetrics==1.0\n")
    text = told(pip_venv, base)
    assert "In requirements.txt, replace torch==2.12.0 by torch==2.13.0+cu128" in text
    assert f"--extra-index-url {base}/cu128" in text
    assert "hashes" not in text
    (pip_venv.folder / "requirements.txt").write_text("torch==2.12.0 \\\n    --hash=sha256:00\n")
    assert "compile the file again" in told(pip_venv, base)
    (pip_venv.folder / "requirements.txt").write_text("torch>=2\ntorch-geometric==2.0\n")
    assert told(pip_venv, base) == ""


def test_the_tool_of_a_conda_prefix_is_that_of_its_history(tmp_path: Path) -> None:
    from tests.support.environments import write_conda

    write_conda(tmp_path / "env")
    history = tmp_path / "env" / "conda-meta" / "history"
    for line, tool in (
        ("# cmd: /opt/conda/bin/conda create -n x", "conda"),
        ("# cmd: /usr/bin/micromamba create -n x", "micromamba"),
        ("# cmd: /opt/conda/bin/mamba install y", "mamba"),
    ):
        history.write_text(f"==> 2026-01-01 00:00:00 <==\n{line}\n+defaults/linux-64::x-1\n")
        environment = probe_environment(LiveHost(), str(tmp_path / "env"), {}).value
        assert environment is not None
        assert environment.conda_tool == tool


def test_what_a_project_asks_survives_json(pip_venv: Patient) -> None:
    (pip_venv.folder / "requirements.txt").write_text("torch==2.12.0\n")
    import msgspec

    machine = pip_venv.machine()
    assert msgspec.json.decode(msgspec.json.encode(machine), type=Machine) == machine
    assert json.loads(msgspec.json.encode(machine))["environment"]["value"]["torch_asked"]
