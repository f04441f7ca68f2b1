"""Windows and macOS: what is described or recorded is judged there; and a Python that is too old."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpudoctor.__main__ import OLDEST
from tests.support.machines import nvidia_machine

ROOT = Path(__file__).parents[1]
SYSTEMS = ("win32", "darwin")
NAMES = {"win32": "Windows", "darwin": "macOS"}


def on(system: str, *arguments: str, cwd: Path, text: str = "") -> subprocess.CompletedProcess[str]:
    """A run of gpudoctor on a Python that is without what that system lacks."""
    return subprocess.run(
        [sys.executable, str(ROOT / "tests" / "support" / "other_system.py"), system, *arguments],
        input=text, capture_output=True, text=True, timeout=120, check=False, cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def each_on(system: str, rows: Sequence[tuple[Any, ...]], cwd: Path) -> list[tuple[int, str, str]]:
    """(code, stdout, stderr) of the commands of these rows, one after the other in one such Python."""
    done = on(system, cwd=cwd, text=json.dumps([arguments for arguments, *_ in rows]))
    said: list[tuple[int, str, str]] = json.loads(done.stdout)
    return said


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tmp_path = tmp_path_factory.mktemp("project")
    (tmp_path / "Dockerfile").write_text("FROM ubuntu:24.04\nRUN pip install torch==2.6.0\n")
    (tmp_path / "issue.md").write_text("RTX 5090, torch 2.6.0+cu124\nno kernel image is available for execution\n")
    (tmp_path / "nodes").mkdir()
    for name in ("n01", "n02"):
        snapshot = {"schema": 1, "gpudoctor": "0.1.0", "machine": msgspec.to_builtins(nvidia_machine())}
        (tmp_path / "nodes" / f"{name}.json").write_bytes(msgspec.json.encode(snapshot))
    (tmp_path / "gpudoctor.toml").write_text('select = ["GPD4", "GPD6"]\n')
    return tmp_path


DESCRIBED = ("--gpu", "RTX 5090", "--driver", "570.133.07")
WORKS = [
    (("check", "--from", "issue.md"), 1, "torch-no-arch-for-gpu"),
    (("check", "--from", "issue.md", "--format", "json", "--report-file", "report.json"), 1, "GPD402"),
    (("fix", "--from", "issue.md"), 1, "torch==2.7.0+cu128"),
    (("whatif", "--gpu", "RX 6800", "--torch", "2.9.1+rocm6.4"), 0, "No problem found"),
    (("recommend", *DESCRIBED), 0, "Best build: torch"),
    (("dockerfile", "Dockerfile", *DESCRIBED, "--format", "sarif"), 1, '"uri": "Dockerfile"'),
    (("fleet", "report", "nodes"), 0, "n[01-02]"),
    (("explain", "GPD402"), 0, "How it is judged"),
    (("list",), 0, "GPD402"),
    (("matrix", "validate"), 0, "all valid"),
    (("schema",), 0, '"Report"'),
    (("--version",), 0, "compatibility matrix"),
    (("--help",), 0, "preflight"),
]


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_asks_nothing_of_this_machine_works(system: str, project: Path) -> None:
    for (arguments, code, told), (ended, stdout, stderr) in zip(WORKS, each_on(system, WORKS, project), strict=True):
        assert (ended, told in stdout) == (code, True), (arguments, stdout + stderr)
        if "--report-file" in arguments:
            assert told in (project / "report.json").read_text()
            (project / "report.json").unlink()


def test_a_pasted_text_is_read_from_stdin(project: Path) -> None:
    done = on("win32", "check", "--from", "-", cwd=project, text=(project / "issue.md").read_text())
    assert "torch-no-arch-for-gpu" in done.stdout, done.stderr


def test_an_answer_for_described_gpus_says_that_it_is_for_linux(project: Path) -> None:
    assert on("win32", "recommend", *DESCRIBED, cwd=project).stderr == (
        "gpudoctor: this is Windows: the answer is for a Linux machine with these GPUs\n"
    )


EXAMINES = [
    (("check",), 2),
    (("check", "--gpu", "H100"), 2),
    (("check", "--root", "."), 2),
    (("recommend",), 2),
    (("recommend", *DESCRIBED, "--python", "."), 2),
    (("fix",), 2),
    (("fix", "--undo"), 2),
    (("env",), 2),
    (("snapshot",), 2),
    (("smoke",), 2),
    (("scan", "torch.whl"), 2),
    (("preflight",), 2),
    (("preflight", "--", "python", "train.py"), 122),
]


@pytest.mark.parametrize(("system", "rows"), [("darwin", EXAMINES[:1]), ("win32", EXAMINES)], ids=SYSTEMS[::-1])
def test_what_examines_a_machine_is_refused_in_one_line(
    system: str, rows: list[tuple[tuple[str, ...], int]], project: Path
) -> None:
    for (arguments, code), (ended, stdout, stderr) in zip(rows, each_on(system, rows, project), strict=True):
        (line,) = stderr.splitlines()
        assert (ended, stdout) == (code, ""), arguments
        assert line.startswith(f"gpudoctor: only Linux machines are examined, and this is {NAMES[system]}. ")
        assert ("wsl" in line) == (system == "win32")
        named = re.findall(r"(?:: |, )([a-z]+[^,.]*)", line.partition("What works here")[2])
        assert {name.split()[0] for name in named} <= {row[0][0] for row in WORKS}, "what is named is tested above"


def test_a_program_is_refused_too(project: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from tests.support.other_system import become; become('darwin')\n"
        "import gpudoctor\n"
        "print(gpudoctor.diagnose(snapshot='issue.md').verdict)\n"
        "try: gpudoctor.diagnose()\n"
        "except gpudoctor.InputError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(ROOT)], capture_output=True, text=True, timeout=120, check=False, cwd=project
    )
    verdict, refusal = done.stdout.splitlines()
    assert (verdict, "this is macOS" in refusal) == ("error", True)


# --- old Pythons -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["__init__.py", "__main__.py"])
def test_an_old_python_can_read_what_it_meets_first(name: str) -> None:
    tree = ast.parse((ROOT / "gpudoctor" / name).read_text(), feature_version=(3, 6))
    imported = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert "__future__" not in imported, "Python 3.6 has no annotations there"


def test_pip_and_the_program_refuse_the_same_pythons() -> None:
    assert f'requires-python = ">={OLDEST[0]}.{OLDEST[1]}"' in (ROOT / "pyproject.toml").read_text()


def test_a_python_with_the_library_of_another_gets_a_sentence(tmp_path: Path) -> None:
    """The library is ours, without its compiled modules."""
    library = tmp_path / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}"
    library.mkdir(parents=True)
    for each in Path(os.__file__).parent.iterdir():
        if each.name not in ("lib-dynload", "site-packages"):
            (library / each.name).symlink_to(each)
    (library / "_struct.py").write_text("raise ImportError('_struct')\n")
    done = subprocess.run(
        [sys.executable, "-m", "gpudoctor", "check"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONHOME": str(tmp_path)},
    )
    (line,) = (one for one in done.stderr.splitlines() if not one.startswith("Could not find platform"))
    assert (done.returncode, done.stdout) == (2, "")
    assert line.startswith("gpudoctor: PYTHONHOME gives this Python the standard library of another one (")
    assert line.endswith('env -u PYTHONHOME gpudoctor check --env PYTHONHOME="$PYTHONHOME"')


def old_pythons() -> list[str]:
    """Interpreters on PATH or of pyenv that are too old."""
    folders = sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob("versions/3.[6-9].*/bin"))
    found = [shutil.which(f"python3.{minor}", path=str(folder)) for minor in range(6, 10) for folder in folders]
    named = [shutil.which(f"python3.{minor}") for minor in range(6, 10)]
    return [path for path in found or named if path]


@pytest.mark.parametrize("python", old_pythons() or [""])
def test_an_old_python_gets_a_sentence(python: str) -> None:
    if not python:
        pytest.skip("no Python older than 3.10 is installed")
    done = subprocess.run(
        [python, "-m", "gpudoctor", "check"], capture_output=True, text=True, timeout=60, check=False, cwd=ROOT
    )
    (line,) = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (2, "")
    assert line.startswith("gpudoctor: runs on Python 3.10 and newer, and this is Python 3.")
