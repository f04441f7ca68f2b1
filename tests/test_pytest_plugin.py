"""`pytest --gpudoctor`: off by default, and the cause before a hundred tests fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BAD = {"GPUDOCTOR_GPU": "RTX 5090", "GPUDOCTOR_DRIVER": "570.133.07", "GPUDOCTOR_TORCH": "2.6.0"}
GOOD = {**BAD, "GPUDOCTOR_TORCH": "2.7.0+cu128"}

TESTS = """
from pathlib import Path
def test_one():
    Path(__file__).with_name("ran").touch()
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project with a test, for a pytest that has only this plugin."""
    pytester.makepyfile(test_it=TESTS)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    for name in ("GPUDOCTOR_FORMAT", "GPUDOCTOR_LEVEL", "GPUDOCTOR_FAIL_ON"):
        monkeypatch.delenv(name, raising=False)
    return pytester


def run(project: pytest.Pytester, *arguments: str, environ: dict[str, str] | None = None) -> pytest.RunResult:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (environ or {}).items():
            patch.setenv(name, value)
        return project.runpytest_subprocess("-p", "gpudoctor.pytest_plugin", *arguments)


def ran(project: pytest.Pytester) -> bool:
    return (project.path / "ran").exists()


@pytest.mark.parametrize(
    "arguments", [(), ("--gpudoctor=off",), ("--gpudoctor", "--collect-only")], ids=["off", "said", "collected"]
)
def test_nothing_is_checked_unless_it_is_asked_for(project: pytest.Pytester, arguments: tuple[str, ...]) -> None:
    result = run(project, *arguments, environ=BAD)
    assert result.ret == 0
    result.stdout.no_fnmatch_line("*gpudoctor:*")


@pytest.mark.parametrize("option", ["--gpudoctor", "--gpudoctor=static"])
def test_a_machine_that_cannot_work_stops_the_session_with_the_cause(project: pytest.Pytester, option: str) -> None:
    result = run(project, option, ".", environ=BAD)
    assert (result.ret, ran(project)) == (121, False)
    result.stdout.fnmatch_lines(["*torch-no-arch-for-gpu*GPD402*", "*Fix: Replace torch 2.6.0*torch 2.7.0+cu128*"])
    assert result.stdout.str().count("torch-no-arch-for-gpu") == 1
    assert "Traceback" not in result.stdout.str() + result.stderr.str()


def test_a_machine_that_works_runs_the_tests(project: pytest.Pytester) -> None:
    result = run(project, "--gpudoctor", ".", environ=GOOD)
    assert (result.ret, ran(project)) == (0, True)
    result.stdout.fnmatch_lines(["gpudoctor: the check passed", "*1 passed*"])


@pytest.mark.parametrize(("value", "code"), [("true", 121), ("static", 121), ("false", 0), ("often", 4)])
def test_the_projects_file_asks_for_it(project: pytest.Pytester, value: str, code: int) -> None:
    project.makeini(f"[pytest]\ngpudoctor = {value}\n")
    assert run(project, environ=BAD).ret == code
    assert run(project, "--gpudoctor=off", environ=BAD).ret == 0


def test_what_the_project_requires_is_asked_for(project: pytest.Pytester) -> None:
    project.makefile(".toml", gpudoctor='require = ["shm>=8999TiB"]')
    result = run(project, "--gpudoctor=static")
    assert result.ret == 121
    result.stdout.fnmatch_lines(["*shm>=8999TiB is required*"])


def test_wrong_settings_are_told_and_no_test_runs(project: pytest.Pytester) -> None:
    project.makefile(".toml", gpudoctor='require = ["many GPUs"]')
    result = run(project, "--gpudoctor=static")
    assert (result.ret, ran(project)) == (122, False)
    result.stdout.fnmatch_lines(["gpudoctor: *many GPUs*"])


def test_a_module_of_the_project_does_not_take_the_place_of_ours(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "msgspec.py").write_text("raise SystemExit('mine')")
    # As the command `pytest`, which does not look for modules in the folder where it is started.
    start = "import sys; sys.path.remove(''); import pytest; sys.exit(pytest.main(sys.argv[1:]))"
    clean = {key: text for key, text in os.environ.items() if not key.startswith(("GPUDOCTOR_", "PYTEST_"))}
    done = subprocess.run(
        [sys.executable, "-c", start, "-p", "gpudoctor.pytest_plugin", "--gpudoctor=static"], cwd=tmp_path,
        capture_output=True, text=True, timeout=120, check=False,
        env={**clean, **GOOD, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )  # fmt: skip
    assert (done.returncode, (tmp_path / "ran").exists()) == (0, True), done.stdout


COUNTED = """
import os, subprocess
from pathlib import Path
run = subprocess.run
def counted(words, **how):
    if "check" in words:
        Path(__file__).with_name(f"check-{os.getpid()}").touch()
    return run(words, **how)
subprocess.run = counted
"""


def test_the_check_is_made_once_and_not_by_workers(project: pytest.Pytester) -> None:
    pytest.importorskip("xdist", reason="pytest-xdist is not installed")
    project.makeconftest(COUNTED)
    result = run(project, "-p", "xdist.plugin", "-n", "2", "--gpudoctor=static", environ=GOOD)
    assert (result.ret, ran(project)) == (0, True)
    assert len(list(project.path.glob("check-*"))) == 1
    assert run(project, "-p", "xdist.plugin", "-n", "2", "--gpudoctor=static", environ=BAD).ret == 121


def test_it_costs_nothing_while_it_is_off() -> None:
    code = (
        "import sys; before = {*sys.modules, '__future__'}\n"
        "import gpudoctor.pytest_plugin\n"
        "print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True, cwd=ROOT
    )
    assert done.stdout == "['gpudoctor', 'gpudoctor.pytest_plugin']\n"
