"""Projects of pdm, pipenv, hatch, pip-tools and conda: found, and changed through their own tools."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from gpudoctor.checks.framework.torch_vendor import torch_cpu_only

from gpudoctor.finding import RemovePackage, ReplacePackage, ReplaceTorch
from gpudoctor.host import LiveHost
from gpudoctor.machine import (
    Constraint,
    Installers,
    InstallerSettings,
    Machine,
    ProjectPackage,
    PythonEnvironment,
    TorchAsked,
    known,
)
from gpudoctor.matrix.load import load_matrix
from gpudoctor.planner.place import place
from gpudoctor.planner.plan import steps_for_all
from gpudoctor.probes.python_environment import probe_environment
from gpudoctor.situation import Situation
from gpudoctor.step import ManualStep, RunStep, Step
from gpudoctor.testing import check_result
from tests.support.environments import write_conda, write_distribution, write_torch, write_venv
from tests.support.in_process import gpudoctor
from tests.support.machines import change, environment, nvidia_gpu, nvidia_machine, torch
from tests.support.made_environments import make_venv_with_pip
from tests.support.torch_indexes import only_these

MATRIX = load_matrix()
CU128 = ReplaceTorch("2.13.0", "cu128", "download.pytorch.org", "https://x.example/cu128")


def needs(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"needs {program}")


def probed(
    prefix: Path, monkeypatch: pytest.MonkeyPatch | None = None, folder: Path | None = None
) -> PythonEnvironment:
    if monkeypatch and folder:
        monkeypatch.chdir(folder)
    found = probe_environment(LiveHost(), str(prefix), {}).value
    assert found is not None
    return found


def steps(patient: PythonEnvironment, remedy: Any = CU128) -> tuple[Step, ...]:
    machine: Machine = change(nvidia_machine(nvidia_gpu()), environment=known(patient, "test"))
    return steps_for_all((remedy,), place(machine), Situation(machine, MATRIX))


def commands(patient: PythonEnvironment, remedy: Any = CU128) -> list[str]:
    found = steps(patient, remedy)
    assert all(isinstance(step, RunStep) for step in found), found
    return [" ".join(step.argv) for step in found if isinstance(step, RunStep)]


def by_hand(patient: PythonEnvironment, remedy: Any = CU128) -> str:
    found = steps(patient, remedy)
    assert all(isinstance(step, ManualStep) for step in found), found
    return "\n".join(step.text for step in found if isinstance(step, ManualStep))


def project(lock: str, *asked: str, **parts: Any) -> PythonEnvironment:
    lines = tuple(TorchAsked(file, line) for file, _, line in (one.partition(": ") for one in asked))
    return environment(torch("2.13.0+cpu"), lock=lock, project="/proj", torch_asked=lines, **parts)


# --- which project --------------------------------------------------------------------------------


def test_a_project_of_pdm_is_known_by_its_lock(tmp_path: Path) -> None:
    write_venv(tmp_path / ".venv")
    (tmp_path / "pdm.lock").touch()
    (tmp_path / "pyproject.toml").write_text('[[tool.pdm.source]]\nname = "gpu-cu128"\nurl = "https://x.example"\n')
    found = probed(tmp_path / ".venv")
    assert (found.project, found.lock, found.project_keys) == (str(tmp_path), "pdm.lock", ("source.gpu-cu128",))


def test_a_project_of_hatch_is_known_by_the_path_or_the_name_of_its_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_venv(tmp_path / ".venv")
    table = '[project]\nname = "mine"\n[tool.hatch.envs.default]\ndependencies = ["torch==2.13.0"]\n'
    (tmp_path / "pyproject.toml").write_text(table)
    assert probed(tmp_path / ".venv").lock == "", "hatch keeps its environment elsewhere"
    (tmp_path / "pyproject.toml").write_text(f'{table}path = ".venv"\n')
    found = probed(tmp_path / ".venv")
    assert (found.lock, [one.requirement for one in found.torch_asked]) == ("hatch", ["torch==2.13.0"])
    assert "envs.default.path" in found.project_keys
    other = tmp_path / "hatch/env/virtual/mine/abc/mine"
    write_venv(other)
    assert probed(other, monkeypatch, tmp_path).project == str(tmp_path)
    (tmp_path / "pyproject.toml").write_text(table.replace("mine", "another"))
    assert probed(other, monkeypatch, tmp_path).project == ""


def test_an_environment_that_poetry_keeps_elsewhere_belongs_to_the_project_of_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, deep = tmp_path / "mine", tmp_path / "mine/src/deep"
    deep.mkdir(parents=True)
    (mine / "poetry.lock").touch()
    name = base64.urlsafe_b64encode(hashlib.sha256(str(mine).encode()).digest()).decode()[:8]
    prefix = tmp_path / f"cache/virtualenvs/mine-{name}-py3.12"
    write_venv(prefix)
    for folder in (mine, deep):
        found = probed(prefix, monkeypatch, folder)
        assert (found.project, found.lock) == (str(mine), "poetry.lock")
    assert probed(prefix, monkeypatch, tmp_path).lock == ""
    write_venv(other := tmp_path / "cache/virtualenvs/mine-AAAAAAAA-py3.12")
    assert probed(other, monkeypatch, mine).lock == "", "poetry keeps that one for another folder"


def test_an_environment_that_a_variable_or_a_file_names_belongs_to_the_project_that_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, prefix = tmp_path / "mine", tmp_path / "envs/one"
    mine.mkdir()
    write_venv(prefix)
    (mine / "uv.lock").touch()
    (mine / "pdm.lock").touch()
    assert probed(prefix, monkeypatch, mine).lock == ""
    (mine / ".pdm-python").write_text(f"{prefix}/bin/python\n")
    found = probed(prefix, monkeypatch, mine)
    assert (found.project, found.lock) == (str(mine), "pdm.lock")
    for chosen in (str(prefix), "../envs/one"):
        monkeypatch.setenv("UV_PROJECT_ENVIRONMENT", chosen)
        assert probed(prefix, monkeypatch, mine).lock == "uv.lock"
    monkeypatch.setenv("UV_PROJECT_ENVIRONMENT", "other")
    assert probed(prefix, monkeypatch, mine).lock == "pdm.lock"


PIPFILE = """[packages]
tensorflow = {version = "==2.19.0", extras = ["and-cuda"]}
torch = "2.13.0"
[dev-packages]
jax = "*"
[scripts]
onnxruntime = "no package"
"""


def test_a_project_of_pipenv_is_known_beside_its_environment_and_by_the_file_in_it(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    for prefix in (mine / ".venv", tmp_path / "virtualenvs/mine-XTd9KI9S"):
        site = write_venv(prefix)
        write_torch(site)
        for name in ("tensorflow", "jax", "onnxruntime"):
            write_distribution(site, name, "1.0")
        (mine / "Pipfile").write_text(PIPFILE)
        (prefix / ".project").write_text(str(mine))
        assert probed(prefix).lock == "", "pipenv has locked nothing"
        (mine / "Pipfile.lock").touch()
        found = probed(prefix)
        assert (found.project, found.lock) == (str(mine), "Pipfile.lock")
        named = (ProjectPackage("tensorflow"), ProjectPackage("torch"), ProjectPackage("jax", group="dev-packages"))
        assert found.project_packages == named
        assert [(one.file, one.requirement) for one in found.torch_asked] == [("Pipfile", "torch ==2.13.0")]
        (mine / "Pipfile.lock").unlink()


@pytest.mark.parametrize(
    ("head", "command"),
    [
        (
            "#    pip-compile --generate-hashes requirements.in",
            ("pip-compile", "--generate-hashes", "requirements.in"),
        ),
        ("#    uv pip compile requirements.in -o requirements.txt", ("uv", "pip", "compile", "requirements.in")),
        ("#    pip-compile --index-url=https://me:hunter22@x.example requirements.in", ()),
        ("#    pip-compile 'requirements.in; rm -rf ~'", ()),
        ("torch==2.13.0", ()),
    ],
)
def test_a_list_is_compiled_again_as_it_was(tmp_path: Path, head: str, command: tuple[str, ...]) -> None:
    write_venv(tmp_path / "venv")
    (tmp_path / "requirements.in").write_text("torch\n")
    (tmp_path / "requirements.txt").write_text(f"#\n# This file is autogenerated\n{head}\ntorch==2.13.0\n")
    found = probed(tmp_path / "venv")
    assert found.compiled_by[: len(command)] == command
    assert found.lock == ("requirements.in" if command else "")


def test_an_environment_file_of_conda_that_brings_the_old_torch_back_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = write_conda(tmp_path / "envs/ml")
    write_torch(site, "2.13.0+cpu", None)
    text = "name: ml\ndependencies:\n  - python=3.12\n  - pip:\n    - torch==2.13.0+cpu  # for now\n"
    (tmp_path / "environment.yml").write_text(text)
    patient = probed(tmp_path / "envs/ml", monkeypatch, tmp_path)
    told = "\n".join(step.text for step in steps(patient) if isinstance(step, ManualStep))
    assert told.startswith("In environment.yml, replace torch==2.13.0+cpu by torch==2.13.0+cu128")
    (tmp_path / "environment.yml").write_text(text.replace("ml", "other", 1))
    assert probed(tmp_path / "envs/ml", monkeypatch, tmp_path).torch_asked == ()


# --- their steps ------------------------------------------------------------------------------------


def test_pdm_gets_the_index_as_a_source_for_these_packages_once() -> None:
    source, add = commands(project("pdm.lock"))
    assert "[[tool.pdm.source]]" in source and 'include_packages = ["torch"]' in source
    assert add == "pdm add torch==2.13.0+cu128"
    assert commands(project("pdm.lock", project_keys=("source.gpu-cu128",))) == [add]


def test_hatch_changes_the_one_line_that_asks_and_leaves_others_to_a_person() -> None:
    asked = "pyproject.toml: torch==2.12.0"
    edit, sync = commands(project("hatch", asked))
    assert r's/"torch==2\.12\.0"/"torch==2.13.0+cu128"/' in edit and "PIP_EXTRA_INDEX_URL" in edit
    assert sync == "hatch run python --version"
    for other in (
        project("hatch"),
        project("hatch", asked, project_keys=("envs.default.env-vars",)),
        project("hatch", "pyproject.toml: torch==2.12.0; python_version > '3'"),
    ):
        assert "In pyproject.toml, ask for torch==2.13.0+cu128" in by_hand(other)
    assert "In each that this environment has" in by_hand(project("hatch", asked, asked))


def test_pip_tools_compiles_again_and_installs_without_removing_anything() -> None:
    asked = ("requirements.in: torch==2.12.0", "requirements.txt: torch==2.12.0")
    patient = project("requirements.in", *asked, compiled_by=("pip-compile", "requirements.in"))
    edit, compile, install = commands(patient)
    assert "1i\\--extra-index-url https://x.example/cu128" in edit and "$a" not in edit
    assert compile == "pip-compile requirements.in"
    assert install == "/venv/bin/python -m pip install -r requirements.txt"
    there = change(patient, installers=Installers(programs=known((), "PATH")))
    assert by_hand(there).startswith("pip-compile is not on PATH.")
    own = change(there, distributions=environment(torch(), packages={"pip-tools": "7.5"}).distributions)
    assert commands(own)[1] == "/venv/bin/python -m piptools compile requirements.in"
    by_uv = change(patient, compiled_by=("uv", "pip", "compile", "requirements.in", "-o", "requirements.txt"))
    assert commands(by_uv)[1].endswith("-o requirements.txt --index-strategy unsafe-best-match")


def test_what_no_project_names_is_changed_by_an_installer_that_is_there() -> None:
    remedy = ReplacePackage("sympy", "==1.14.0", indirect=True)
    pip = Installers(programs=known((), "PATH"))
    for lock in ("poetry.lock", "pdm.lock"):
        assert commands(project(lock, installers=pip), remedy) == ["/venv/bin/python -m pip install sympy==1.14.0"]


NAMED = (ProjectPackage("onnxruntime"), ProjectPackage("jax", group="gpu"), ProjectPackage("cupy", extra="gpu"))


@pytest.mark.parametrize(
    ("lock", "name", "argv"),
    [
        ("pdm.lock", "onnxruntime", ["pdm remove onnxruntime"]),
        ("pdm.lock", "jax", ["pdm remove --group gpu jax"]),
        ("pdm.lock", "jax-cuda13-plugin", ["/venv/bin/python -m pip uninstall -y jax-cuda13-plugin"]),
        ("poetry.lock", "cupy", ["poetry remove --optional gpu cupy"]),
        ("poetry.lock", "jax-cuda13-plugin", []),
        ("Pipfile.lock", "onnxruntime", ["pipenv uninstall onnxruntime"]),
        ("Pipfile.lock", "jax", ["pipenv uninstall --categories gpu jax"]),
        ("uv.lock", "jax", ["uv remove --no-sync --group gpu jax", "/venv/bin/python -m pip uninstall -y jax"]),
    ],
)
def test_a_package_leaves_the_project_that_names_it(lock: str, name: str, argv: list[str]) -> None:
    patient = project(lock, project_packages=NAMED)
    assert commands(patient, RemovePackage(name, indirect=True)) == argv


def test_extras_that_a_tool_would_only_add_to_are_changed_by_a_person_or_anew() -> None:
    remedy = ReplacePackage("jax", "==0.12.0", extra="cuda12")
    assert "asks for jax in --group gpu" in by_hand(project("pdm.lock", project_packages=NAMED), remedy)
    assert commands(project("pdm.lock"), remedy) == ["pdm add jax[cuda12]==0.12.0"]
    assert commands(project("uv.lock", project_packages=NAMED), remedy) == [
        "uv remove --frozen --group gpu jax",
        "uv add --frozen --group gpu jax[cuda12]==0.12.0",
        "uv sync --inexact --group gpu",
    ]


OVERRIDE = "override-dependencies = [\"onnxruntime; sys_platform == 'never'\"]"


@pytest.mark.parametrize(
    ("table", "edit"),
    [
        ("[tool.uv]\ndev-dependencies = []\n", rf"-e /^\[tool\.uv\]$/a {OVERRIDE}"),
        ("[tool.uv.sources]\ntorch = {index = 'x'}\n", rf"-e $a\[tool.uv] -e $a\{OVERRIDE}"),
        ("[tool]\nuv.package = false\n", ""),
        ("[tool.uv]\noverride-dependencies = []\n", ""),
    ],
)
def test_uv_keeps_out_what_another_package_requires(tmp_path: Path, table: str, edit: str) -> None:
    site = write_venv(tmp_path / ".venv")
    for name, requires in (
        ("onnxruntime", ()),
        ("rembg", ("onnxruntime",)),
        ("other", ('onnxruntime; extra == "x"',)),
    ):
        write_distribution(site, name, "1.0", requires=requires)
    (tmp_path / "uv.lock").touch()
    (tmp_path / "pyproject.toml").write_text(f"[project]\nname = 'mine'\n{table}")
    found = probe_environment(LiveHost(), str(tmp_path / ".venv"), {}, packages=("rembg", "other")).value
    assert found is not None
    remedy = RemovePackage("onnxruntime")
    if not edit:
        assert by_hand(found, remedy) == "Remove onnxruntime from the project, or what requires it: rembg."
        return
    expected = [f"sed -i {edit} pyproject.toml", "uv lock"]
    assert commands(found, remedy)[:2] == expected
    named = change(found, project_packages=(ProjectPackage("onnxruntime"),))
    assert commands(named, remedy)[:3] == ["uv remove --no-sync onnxruntime", *expected]
    assert "and what requires it: rembg" in by_hand(change(named, lock="poetry.lock"), remedy)


def test_check_names_what_requires_a_package_as_fix_does(tmp_path: Path) -> None:
    site = write_venv(tmp_path / ".venv")
    for name, requires in (("onnxruntime", ()), ("onnxruntime-gpu", ()), ("reader", ("onnxruntime",))):
        write_distribution(site, name, "1.22.0", requires=requires)
    (tmp_path / "poetry.lock").touch()
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'mine'\ndependencies = ['reader']\n[tool.poetry]\n")
    target = ("--level", "static", "--python", str(tmp_path / ".venv"), "--gpu", "RTX 4090", "--driver", "580.65.06")
    for command in (("check",), ("fix", "--dry-run")):
        shown = gpudoctor(*command, *target, environ={**os.environ, "XDG_STATE_HOME": str(tmp_path)}).stdout
        assert "or what requires it: reader" in " ".join(shown.split())


EXTRAS = """[project]
name = "mine"
version = "0"
requires-python = ">=3.10"
[project.optional-dependencies]
cpu = ["torch==2.13.0"]
gpu = ["torch==2.13.0"]
[tool.uv]
conflicts = [[{{ extra = "cpu" }}, {{ extra = "gpu" }}]]
[tool.uv.sources]
torch = [{{ index = "of-cpu", extra = "cpu" }}, {{ index = "of-gpu", extra = "gpu" }}]
[[tool.uv.index]]
name = "of-cpu"
url = "{base}/cpu"
explicit = true
[[tool.uv.index]]
name = "of-gpu"
url = "{base}/cu128"
explicit = true
"""


def test_an_extra_of_the_project_that_has_the_build_is_synced_and_nothing_is_changed(tmp_path: Path) -> None:
    write_torch(write_venv(tmp_path / ".venv"))
    (tmp_path / "uv.lock").touch()
    (tmp_path / "pyproject.toml").write_text(EXTRAS.format(base="https://x.example"))
    found = probed(tmp_path / ".venv")
    assert [(one.extra, one.index) for one in found.torch_asked] == [
        ("cpu", "https://x.example/cpu"),
        ("gpu", "https://x.example/cu128"),
    ]
    assert commands(found) == ["uv sync --inexact --extra gpu"]
    for other in (change(CU128, index_url="https://x.example/cu130"), change(CU128, version="2.12.0")):
        assert "uv add OPTION" in by_hand(found, other), "no extra has that build"
    vision = ReplacePackage("torchvision", "==0.28.0", index_url=CU128.index_url)
    assert "uv add OPTION" in by_hand(found, vision), "no extra has it"
    text = EXTRAS.format(base="https://me:secret99@x.example")
    (tmp_path / "pyproject.toml").write_text(text)
    assert not any(one.index for one in probed(tmp_path / ".venv").torch_asked)


def test_an_extra_with_a_build_for_the_gpus_is_synced_though_its_index_ends_at_an_older_torch(tmp_path: Path) -> None:
    """torch 2.13.0 has no build in the index cu128, which the project names for its other extra."""
    write_torch(write_venv(tmp_path / ".venv"), "2.13.0+cpu", None)
    (tmp_path / "uv.lock").touch()
    text = EXTRAS.format(base="https://download.pytorch.org/whl").replace("torch==2.13.0", "torch>=2.9")
    (tmp_path / "pyproject.toml").write_text(text)
    machine = change(nvidia_machine(driver="580.65.06"), environment=known(probed(tmp_path / ".venv"), "test"))
    remedy = check_result(torch_cpu_only, machine).findings[0].fixes[0].remedies[0]
    assert isinstance(remedy, ReplaceTorch)
    assert remedy.build == "cu128"
    assert commands(probed(tmp_path / ".venv"), remedy) == ["uv sync --inexact --extra gpu"]


def test_a_constraint_of_the_project_is_named_before_uv_stops_at_it() -> None:
    limit = Constraint("torchvision", "<0.23", source="/proj/pyproject.toml, line 8")
    installers = Installers(programs=known(("uv",), "PATH"), uv=InstallerSettings(constraints=(limit,)))
    found = project("uv.lock", installers=installers)
    text = by_hand(found, ReplacePackage("torchvision", "==0.28.0"))
    assert "the constraint torchvision<0.23 (/proj/pyproject.toml, line 8) excludes it" in text
    assert "uv add --frozen torchvision==0.28.0" in text
    assert commands(found, ReplacePackage("torchvision", "==0.22.1"))


@pytest.mark.parametrize(
    ("named", "build"), [("", "cu130"), ("cu128", "cu128"), ("cpu", "cu130"), ("cu126", "cu126")]
)
def test_of_equally_good_builds_that_of_the_project_is_chosen(named: str, build: str) -> None:
    url = f"https://download.pytorch.org/whl/{named}" if named else ""
    asked = (TorchAsked("pyproject.toml", "torch", extra="one", index=url), TorchAsked("pyproject.toml", "torch"))
    patient = environment(torch("2.10.0+cpu"), lock="uv.lock", project="/proj", torch_asked=asked)
    machine = change(nvidia_machine(nvidia_gpu(), driver="580.65.06"), environment=known(patient, "test"))
    found = check_result(torch_cpu_only, machine).findings[0].fixes[0].remedies[0]
    assert isinstance(found, ReplaceTorch)
    assert (found.version, found.build) == ("2.10.0", build)


def test_pipenv_locks_and_installs_what_its_list_then_names() -> None:
    assert commands(project("Pipfile.lock", "Pipfile: torch ==2.12.0")) == [
        "pipenv install --index https://x.example/cu128 torch==2.13.0+cu128"
    ]
    remedy = ReplacePackage("jax", "==0.12.0", extra="cuda12")
    named = project("Pipfile.lock", project_packages=NAMED)
    assert commands(named, remedy) == ["pipenv install --categories gpu jax[cuda12]==0.12.0"]
    twice = project("Pipfile.lock", project_packages=(*NAMED, ProjectPackage("jax")))
    assert "jax[cuda12]==0.12.0" in by_hand(twice, remedy)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[project]\ndependencies = [\"Torch>=2; python_version > '3'\"]", ProjectPackage("torch")),
        ('[project.optional-dependencies]\ngpu = ["torch[opt]==2"]', ProjectPackage("torch", extra="gpu")),
        ('[dependency-groups]\nml = ["torch"]', ProjectPackage("torch", group="ml")),
        ('[tool.poetry.dependencies]\npython = "^3.11"\ntorch = "^2.5"', ProjectPackage("torch")),
        ('[tool.poetry.group.ml.dependencies]\ntorch = {version = "2.5.1"}', ProjectPackage("torch", group="ml")),
        ('[tool.poetry.dev-dependencies]\ntorch = "*"', ProjectPackage("torch", group="dev")),
        ('[tool.pdm.dev-dependencies]\nml = ["torch"]', ProjectPackage("torch", group="ml")),
        ('[tool.uv]\ndev-dependencies = ["torch"]', ProjectPackage("torch", group="dev")),
    ],
)
def test_what_a_project_names_is_read_from_the_tables_of_every_tool(
    tmp_path: Path, text: str, expected: ProjectPackage
) -> None:
    write_torch(write_venv(tmp_path / ".venv"))
    (tmp_path / "poetry.lock").touch()
    (tmp_path / "pyproject.toml").write_text(text)
    found = probed(tmp_path / ".venv")
    assert found.project_packages == (expected,)
    assert [(one.group, one.extra) for one in found.torch_asked] == [(expected.group, expected.extra)]


# --- the real tools ----------------------------------------------------------------------------------


class Project:
    """A folder with files and an environment in .venv, and the commands that are run there."""

    def __init__(self, folder: Path, base: str, files: Mapping[str, str]) -> None:
        self.folder, self.base, self.prefix = folder, base, folder / ".venv"
        self.environ = {
            **only_these(base, folder / "cache"),
            "PDM_CACHE_DIR": str(folder / "cache"),
            "PDM_CHECK_UPDATE": "false",
            "HATCH_DATA_DIR": str(folder / "data"),
            "HATCH_CACHE_DIR": str(folder / "cache"),
            "HATCH_PYTHON": sys.executable,
            "HOME": str(folder),
            "PIP_FIND_LINKS": "",
        }
        for name, text in files.items():
            (folder / name).write_text(text.format(base=base))

    def run(self, *argv: str, cwd: str | None = None) -> None:
        streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        done = subprocess.run(argv, cwd=cwd or self.folder, env=self.environ, check=False, **streams)
        assert done.returncode == 0, f"{' '.join(argv)}\n{done.stdout}"

    def repair(self) -> None:
        remedy = change(CU128, index_url=f"{self.base}/cu128")
        for step in steps(probed(self.prefix), remedy):
            assert isinstance(step, RunStep), step
            self.run(*step.argv, cwd=step.cwd)

    def versions(self) -> dict[str, str]:
        found = self.prefix.glob("lib/python*/site-packages/*.dist-info")
        stems = (path.name.removesuffix(".dist-info").partition("-") for path in found)
        return {name: version for name, _, version in stems}


@needs("uv")
def test_a_list_that_uv_compiles_keeps_its_repair(tmp_path: Path, base: str) -> None:
    mine = Project(tmp_path, base, {"requirements.in": "torch==2.12.0  # gpu\naccelerate"})
    mine.run("uv", "venv", "--python", sys.executable, str(mine.prefix))
    mine.run("uv", "pip", "compile", "-q", "requirements.in", "-o", "requirements.txt")
    mine.run("uv", "pip", "sync", "-q", "--python", str(mine.prefix), "requirements.txt")
    mine.repair()
    assert (mine.versions()["torch"], mine.versions()["numpy"]) == ("2.13.0+cu128", "2.0")
    assert (tmp_path / "requirements.in").read_text().splitlines()[1:] == ["torch==2.13.0+cu128  # gpu", "accelerate"]
    assert "torch==2.13.0+cu128" in (tmp_path / "requirements.txt").read_text()


@needs("pip-compile")
def test_a_list_that_pip_tools_compiles_keeps_its_repair(tmp_path: Path, base: str) -> None:
    mine = Project(tmp_path, base, {"requirements.in": "accelerate\nTorch >= 2\n"})
    make_venv_with_pip(mine.prefix)
    mine.run("pip-compile", "-q", "requirements.in")
    mine.run(str(mine.prefix / "bin/python"), "-m", "pip", "install", "-q", "-r", "requirements.txt")
    mine.repair()
    assert (mine.versions()["torch"], mine.versions()["numpy"]) == ("2.13.0+cu128", "2.0")
    mine.run("pip-compile", "-q", "requirements.in")
    assert "torch==2.13.0+cu128" in (tmp_path / "requirements.txt").read_text()


PDM = """[project]
name = "mine"
version = "0"
requires-python = ">=3.10"
dependencies = ["torch==2.12.0"]
[tool.pdm]
distribution = false
[[tool.pdm.source]]
name = "pypi"
url = "{base}/pypi"
"""


@needs("pdm")
def test_a_project_of_pdm_keeps_its_repair(tmp_path: Path, base: str) -> None:
    mine = Project(tmp_path, base, {"pyproject.toml": PDM})
    make_venv_with_pip(mine.prefix)
    mine.run("pdm", "use", "-q", str(mine.prefix / "bin/python"))
    mine.run("pdm", "install", "-q")
    mine.repair()
    mine.run("pdm", "sync", "-q")
    assert (mine.versions()["torch"], mine.versions()["numpy"]) == ("2.13.0+cu128", "2.0")


@needs("uv")
def test_a_project_of_uv_with_an_extra_for_the_gpu_keeps_its_files(tmp_path: Path, base: str) -> None:
    mine = Project(tmp_path, base, {"pyproject.toml": EXTRAS})
    mine.run("uv", "sync", "-q", "--python", sys.executable, "--extra", "cpu")
    assert mine.versions()["torch"] == "2.13.0+cpu"
    before = [(tmp_path / name).read_text() for name in ("pyproject.toml", "uv.lock")]
    mine.repair()
    assert mine.versions()["torch"] == "2.13.0+cu128"
    assert [(tmp_path / name).read_text() for name in ("pyproject.toml", "uv.lock")] == before


@needs("uv")
@pytest.mark.parametrize("table", ["", "[tool.uv]\n", "[tool.uv.sources]\n"])
def test_a_package_that_uv_keeps_out_does_not_come_back(tmp_path: Path, base: str, table: str) -> None:
    head = '[project]\nname = "mine"\nversion = "0"\nrequires-python = ">=3.10"\ndependencies = ["accelerate"]\n'
    mine = Project(tmp_path, base, {"pyproject.toml": head + table})
    mine.run("uv", "sync", "-q", "--python", sys.executable)
    assert "numpy" in mine.versions()
    found = probe_environment(LiveHost(), str(mine.prefix), {}, packages=("accelerate",)).value
    assert found is not None
    for step in steps(found, RemovePackage("numpy")):
        assert isinstance(step, RunStep), step
        mine.run(*step.argv, cwd=step.cwd)
    mine.run("uv", "sync", "-q", "--locked")
    assert {"accelerate", "torch"} <= mine.versions().keys() - {"numpy"} == mine.versions().keys()


PIPENV = """[[source]]
url = "{base}/pypi"
verify_ssl = false
name = "pypi"
[packages]
torch = "==2.12.0"
"""


@needs("pipenv")
@pytest.mark.parametrize("inside", ["1", "0"])
def test_a_project_of_pipenv_keeps_its_repair(tmp_path: Path, base: str, inside: str) -> None:
    mine = Project(tmp_path, base, {"Pipfile": PIPENV})
    mine.environ.update(PIPENV_VENV_IN_PROJECT=inside, PIPENV_CACHE_DIR=str(tmp_path / "cache"), PIPENV_YES="1")
    mine.environ.update(WORKON_HOME=str(tmp_path / "envs"), PIP_INDEX_URL="", PIPENV_IGNORE_VIRTUALENVS="1")
    mine.run("pipenv", "--python", sys.executable, "install")
    mine.prefix = next(path.parent for path in tmp_path.glob("**/pyvenv.cfg"))
    mine.repair()
    mine.run("pipenv", "sync")
    assert (mine.versions()["torch"], mine.versions()["numpy"]) == ("2.13.0+cu128", "2.0")


HATCH = """[project]
name = "mine"
version = "0"
[tool.hatch.envs.default]
skip-install = true
path = ".venv"
dependencies = ["numpy", "torch==2.12.0"]
"""


@needs("hatch")
def test_a_project_of_hatch_keeps_its_repair(tmp_path: Path, base: str) -> None:
    mine = Project(tmp_path, base, {"pyproject.toml": HATCH})
    mine.run("hatch", "run", "python", "--version")
    mine.repair()
    mine.run("hatch", "run", "python", "--version")
    assert (mine.versions()["torch"], mine.versions()["numpy"]) == ("2.13.0+cu128", "2.0")
