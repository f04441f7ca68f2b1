"""What a release makes: gpudoctor.pyz, the image, and the workflow that publishes."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from click.testing import CliRunner

from gpudoctor.cli.dockerfile import dockerfile

ROOT = Path(__file__).parents[1]
RELEASE = ROOT / "release"
PYTHON = ".".join(map(str, sys.version_info[:2]))
MACHINE = os.uname().machine


@pytest.fixture(scope="module")
def builder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_zipapp", RELEASE / "build_zipapp.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def zipapp(builder: ModuleType, folder: Path, main: str, *, python: str = PYTHON, machine: str = MACHINE) -> Path:
    """A pyz whose gpudoctor is that text."""
    own = {"gpudoctor/__init__.py": b"", "gpudoctor/__main__.py": main.encode(), "data.txt": b"of all"}
    output = folder / "gpudoctor.pyz"
    builder._write(output, {python: {**own, "native.txt": b"of one"}, "3.99": {**own, "native.txt": b"x"}}, machine)
    return output


def run(pyz: Path, tmp: Path, *words: str) -> subprocess.CompletedProcess[str]:
    tmp.mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, str(pyz), *words],
        capture_output=True, text=True, timeout=60, check=False, env={**os.environ, "TMPDIR": str(tmp)},
    )  # fmt: skip


def test_the_single_file_runs_from_a_folder_that_it_removes(builder: ModuleType, tmp_path: Path) -> None:
    main = (
        "import sys, pathlib\n"
        "def main():\n"
        "    place = pathlib.Path(__file__).parents[1]\n"
        "    print((place / 'data.txt').read_text(), (place / 'native.txt').read_text(), sys.argv[1:])\n"
        "    sys.exit(3)\n"
    )
    done = run(zipapp(builder, tmp_path, main), tmp_path / "tmp", "check", "-q")
    assert (done.returncode, done.stdout, done.stderr) == (3, "of all of one ['check', '-q']\n", "")
    assert list((tmp_path / "tmp").iterdir()) == []


def test_the_single_file_leaves_nothing_when_it_becomes_a_command(builder: ModuleType, tmp_path: Path) -> None:
    main = "import os\ndef main():\n    os.execve('/bin/ls', ['ls', '-A', os.environ['TMPDIR']], os.environ)\n"
    done = run(zipapp(builder, tmp_path, main), tmp_path / "tmp")
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(
    "python, machine, reason",
    [
        ("3.98", MACHINE, f"this gpudoctor.pyz needs Python 3.98 to 3.99, and this is Python {PYTHON}."),
        (PYTHON, "riscv64", f"this gpudoctor.pyz is for riscv64, and this machine is {MACHINE}."),
    ],
)
def test_a_single_file_for_another_python_or_machine_says_so_in_one_line(
    builder: ModuleType, tmp_path: Path, python: str, machine: str, reason: str
) -> None:
    done = run(zipapp(builder, tmp_path, "raise Exception", python=python, machine=machine), tmp_path / "tmp")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"{reason}\n")


def test_the_single_file_is_the_same_bytes_again(builder: ModuleType, tmp_path: Path) -> None:
    one = zipapp(builder, tmp_path, "pass").read_bytes()
    assert zipapp(builder, tmp_path / "other", "pass").read_bytes() == one


def test_the_image_is_understood_and_has_no_fault() -> None:
    result = CliRunner().invoke(dockerfile, [str(RELEASE / "Dockerfile"), "--gpu", "H100", "--fail-on", "warning"])
    assert result.exit_code == 0, result.output


def test_the_image_runs_as_a_user_without_rights() -> None:
    text = (RELEASE / "Dockerfile").read_text()
    final = text[text.rindex("\nFROM ") :]
    assert re.search(r"^USER 65534:65534$", final, re.MULTILINE)
    assert "RUN" not in final, "a base without a shell must do"


def workflow() -> dict[str, object]:
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    found: dict[str, object] = yaml.safe_load(text)
    return found


def test_every_action_is_pinned_to_a_commit_with_its_release() -> None:
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    uses = re.findall(r"uses: (.*)", text)
    assert uses
    assert [one for one in uses if not re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one)] == []


def test_a_job_of_the_workflow_may_do_only_what_it_must() -> None:
    assert workflow()["permissions"] == {}
    jobs = workflow()["jobs"]
    assert isinstance(jobs, dict)
    assert {name: sorted(job["permissions"]) for name, job in jobs.items()} == {
        "build": ["contents"],
        "test": [],
        "attest": ["attestations", "id-token"],
        "publish": ["id-token"],
        "announce": ["contents"],
    }
    assert jobs["publish"]["environment"]["name"] == "pypi"
    pythons = {str(one) for one in jobs["test"]["strategy"]["matrix"]["python"]}
    assert pythons == {"3.10", "3.11", "3.12", "3.13", "3.14"}
