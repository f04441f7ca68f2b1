"""What pipelines take as it is: the GitHub Action, workflows, the GitLab template, the hook for pre-commit."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

ROOT = Path(__file__).parents[1]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
WORKFLOWS = sorted((ROOT / "examples" / "github-actions").glob("*.yml"))
GITLAB = ROOT / "examples" / "gitlab" / "gpudoctor.gitlab-ci.yml"
HOOK = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())[0]

BAD, GOOD = "FROM ubuntu:22.04\nRUN pip install torch==2.6.0\n", "FROM ubuntu:22.04\nRUN pip install torch==2.9.1\n"


@pytest.mark.parametrize(
    ("schema", "files"),
    [("github-actions", [ROOT / "action.yml"]), ("github-workflows", WORKFLOWS), ("gitlab-ci", [GITLAB])],
    ids=["action", "workflows", "gitlab"],
)
def test_the_schema_of_the_service_is_met(schema: str, files: list[Path]) -> None:
    pytest.importorskip("check_jsonschema", reason="check-jsonschema is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", *map(str, files)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def scripts(tree: Any) -> list[str]:
    """Every shell script of a workflow or an action."""
    if isinstance(tree, dict):
        own = [tree["run"]] if isinstance(tree.get("run"), str) else []
        return [*own, *(script for value in tree.values() for script in scripts(value))]
    return [script for value in tree for script in scripts(value)] if isinstance(tree, list) else []


@pytest.mark.parametrize("file", [ROOT / "action.yml", *WORKFLOWS], ids=lambda file: file.name)
def test_no_expression_is_part_of_a_shell_line(file: Path) -> None:
    found = scripts(yaml.safe_load(file.read_text()))
    assert not any("${{" in script for script in found)
    assert not any(re.search(r"pip\"? install (-e )?\.(\s|$)", script) for script in found), "that is the user's own"


# --- the action's steps ----------------------------------------------------------------------------------------


class Runner:
    """Runs the steps of the action as a runner does: bash, variables from expressions, files for outputs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = folder / "project"
        self.temp = folder / "temp"
        (self.temp / "gpudoctor" / "bin").mkdir(parents=True)
        self.project.mkdir()
        self.program = self.temp / "gpudoctor" / "bin" / "gpudoctor"
        self.program.write_text(f'#!/bin/sh\nexec {sys.executable} -m gpudoctor "$@"\n')
        self.program.chmod(0o755)
        self.outputs: dict[str, str] = {}

    def step(
        self, name: str, environ: dict[str, str] | None = None, **inputs: str
    ) -> subprocess.CompletedProcess[str]:
        (step,) = (step for step in ACTION["runs"]["steps"] if step.get("id") == name)
        given = {key: row["default"] for key, row in ACTION["inputs"].items()} | inputs
        environ = environ or {}
        known = {"inputs": given, "env": environ, "steps": {"program": str(self.program)}}

        def value(match: re.Match[str]) -> str:
            for part in match[1].split("||"):
                scope, *_, key = part.strip().split(".")
                if found := known[scope].get(key):
                    return found
            return ""

        variables = {key: re.sub(r"\$\{\{(.*?)\}\}", value, text) for key, text in step["env"].items()}
        script, output = self.folder / "step.sh", self.folder / "output"
        script.write_text(step["run"])
        output.write_text("")
        clean = {key: text for key, text in os.environ.items() if not key.startswith("GPUDOCTOR_")}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", script], cwd=self.project, timeout=120,
            capture_output=True, text=True, check=False,
            env={**clean, "PYTHONPATH": str(ROOT), **environ, **variables,
                 "RUNNER_TEMP": str(self.temp), "GITHUB_OUTPUT": str(output)},
        )  # fmt: skip
        self.outputs = dict(line.split("=", 1) for line in output.read_text().splitlines())
        return done


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


def test_a_bad_dockerfile_is_annotated_uploaded_and_fails_the_job(runner: Runner) -> None:
    (runner.project / "Dockerfile").write_text(BAD)
    (runner.project / "other.Dockerfile").write_text(GOOD)
    done = runner.step(
        "run", command="dockerfile", paths="Dockerfile\nother.Dockerfile\n", gpu="RTX 5090", driver="570.133.07",
        sarif="true",
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    (annotation,) = done.stdout.splitlines()
    assert annotation.startswith("::error file=Dockerfile,line=2,title=torch-no-arch-for-gpu [GPD402]")
    assert runner.outputs["exit-code"] == "1"
    (run,) = json.loads(Path(runner.outputs["sarif-file"]).read_text())["runs"]
    assert [result["ruleId"] for result in run["results"]] == ["GPD402"]


def test_a_good_dockerfile_passes_and_uploads_nothing_unasked(runner: Runner) -> None:
    (runner.project / "Dockerfile").write_text(GOOD)
    done = runner.step("run", command="dockerfile", gpu="RTX 5090", driver="580.82.07")
    assert (done.returncode, done.stdout) == (0, "gpudoctor: no problem that fails this step\n"), done.stderr
    assert runner.outputs == {"exit-code": "0"}


def test_what_a_runner_must_have_is_asked_and_what_the_workflow_sets_stays(runner: Runner) -> None:
    done = runner.step("run", environ={"GPUDOCTOR_REQUIRE": "shm>=8999TiB"}, level="static", args="--select\nGPD910")
    assert done.returncode == 1
    assert "shm>=8999TiB is required" in done.stdout
    done = runner.step("run", level="static", args="--select\nGPD910", require="shm>=0")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("hostile", ['$(touch planted)"; touch planted; "', "`touch planted`", "-o\n;touch planted"])
def test_no_input_starts_a_command(runner: Runner, hostile: str) -> None:
    (runner.project / "Dockerfile").write_text(GOOD)
    together = dict.fromkeys(("gpu", "driver", "require", "level", "fail-on", "python", "args"), hostile)
    for inputs in (together, {"paths": hostile}, {"command": hostile}):
        assert runner.step("run", **{"command": "dockerfile", **inputs}).returncode == 2, inputs
    assert not list(runner.folder.rglob("*planted*"))


def test_a_wrong_input_is_told_and_uploads_nothing(runner: Runner) -> None:
    done = runner.step("run", command="scan", sarif="true")
    assert (done.returncode, runner.outputs) == (2, {})
    assert done.stdout.startswith("::error::")
    assert runner.step("run", command="dockerfile", paths="absent", sarif="true").returncode == 2
    assert runner.outputs == {"exit-code": "2"}


@pytest.mark.parametrize(("version", "asked"), [("", "gpudoctor-cli"), ("0.1.0", "gpudoctor-cli==0.1.0")])
def test_the_distribution_is_installed_beside_the_project(runner: Runner, version: str, asked: str) -> None:
    pip = runner.program.with_name("python")
    pip.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {runner.folder}/asked\n')
    pip.chmod(0o755)
    stub = runner.folder / "path" / "python3"
    stub.parent.mkdir()
    stub.write_text(f'#!/bin/sh\necho "$@" > {runner.folder}/made\n')
    stub.chmod(0o755)
    done = runner.step("install", environ={"PATH": f"{stub.parent}:{os.environ['PATH']}"}, version=version)
    assert done.returncode == 0, done.stderr
    assert (runner.folder / "made").read_text() == f"-m venv {runner.temp}/gpudoctor\n"
    assert (runner.folder / "asked").read_text().splitlines()[-1] == asked
    assert runner.outputs == {"program": str(runner.program)}


def test_the_upload_takes_what_the_run_wrote_also_after_a_failure() -> None:
    upload = ACTION["runs"]["steps"][-1]
    assert "always()" in upload["if"] and "steps.run.outputs.sarif-file" in upload["if"]
    assert upload["with"] == {"sarif_file": "${{ steps.run.outputs.sarif-file }}"}


# --- GitLab ----------------------------------------------------------------------------------------------------


def job(name: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """The script of a job, as GitLab's runner hands it to bash."""
    lines = yaml.safe_load(GITLAB.read_text())[name]["script"]
    program = folder / "bin" / "gpudoctor"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m gpudoctor "$@"\n')
    program.chmod(0o755)
    clean = {key: text for key, text in os.environ.items() if not key.startswith("GPUDOCTOR_")}
    environ = {**clean, "PATH": f"{program.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), **variables}
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", "\n".join(lines)], cwd=folder, env=environ, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip


def test_gitlab_shows_a_dockerfile_in_the_merge_request(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(BAD)
    described = {"GPUDOCTOR_GPU": "RTX 5090", "GPUDOCTOR_DRIVER": "570.133.07"}
    done = job(".gpudoctor-dockerfile", tmp_path, RECIPES="Dockerfile", **described)
    assert done.returncode == 1
    assert "torch==2.7.0+cu128" in done.stdout
    (entry,) = json.loads((tmp_path / "gl-code-quality-report.json").read_text())
    assert entry["location"]["path"] == "Dockerfile"


@pytest.mark.parametrize(("required", "code"), [("shm>=8999TiB", 1), ("shm>=0", 0)])
def test_gitlab_tests_a_runner(tmp_path: Path, required: str, code: int) -> None:
    asked = {"GPUDOCTOR_REQUIRE": required, "GPUDOCTOR_LEVEL": "static", "GPUDOCTOR_SELECT": "GPD910"}
    done = job(".gpudoctor-runner", tmp_path, **asked)
    assert done.returncode == code, done.stderr
    assert ("requirement-not-met" in done.stdout) == bool(code)
    assert ElementTree.parse(tmp_path / "gpudoctor.xml").getroot().get("failures") == str(code)


# --- pre-commit ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "taken"),
    [
        ("Dockerfile", True), ("docker/Dockerfile.cuda", True), ("cuda.Dockerfile", True), ("Containerfile", True),
        ("compose.yaml", True), ("deploy/docker-compose.gpu.yml", True), ("compose.prod.yml", True),
        ("values.yaml", False), ("docs/dockerfile/index.yaml", False), ("mydockerfiles.txt", False),
        ("composer.yml", False), ("my-compose.yaml", False),
    ],
)  # fmt: skip
def test_the_hook_takes_recipes(path: str, taken: bool) -> None:
    assert bool(re.search(HOOK["files"], path)) == taken


def test_the_hook_gets_several_files_at_once(tmp_path: Path) -> None:
    for name, text in (("Dockerfile", GOOD), ("bad.Dockerfile", BAD)):
        (tmp_path / name).write_text(text)
    entry = [sys.executable, "-m", *HOOK["entry"].split(), "--gpu", "RTX 5090", "--driver", "570.133.07"]
    done = subprocess.run(
        [*entry, "Dockerfile", "bad.Dockerfile"], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "bad.Dockerfile:2" in done.stdout


def test_the_manifest_is_one_of_pre_commit() -> None:
    pytest.importorskip("pre_commit", reason="pre-commit is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "pre_commit", "validate-manifest", str(ROOT / ".pre-commit-hooks.yaml")],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
