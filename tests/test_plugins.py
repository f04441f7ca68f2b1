"""Plugins: loaded only where they are named and from gpudoctor's own environment, judged as any check, and told in
one line where they are wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from gpudoctor.machine import Machine
from gpudoctor.render.json import machine_data, to_json
from gpudoctor.testing import check_result, nvidia_machine

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "tests" / "example_plugin"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that has gpudoctor and the example, built and installed by pip."""
    pytest.importorskip("hatchling", reason="hatchling is not installed")
    place = tmp_path_factory.mktemp("own") / "venv"
    python = environment(place)
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-index", "--no-deps"]
    done = subprocess.run(
        [*pip, "--no-build-isolation", str(EXAMPLE)], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return python


def environment(place: Path) -> Path:
    """An environment that sees this one's libraries and this checkout."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True, timeout=120)
    (packages,) = place.glob("lib/python*/site-packages")
    (packages / "here.pth").write_text(f"{ROOT}\n{sysconfig.get_path('purelib')}\n")
    return place / "bin" / "python"


def plugin(folder: Path, source: str, name: str = "odd") -> None:
    """A distribution with one module, as an installer leaves it."""
    (folder / f"{name}_module.py").write_text(source)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[gpudoctor.checks]\n{name} = {name}_module\n")


def snapshot(folder: Path, machine: Machine) -> str:
    path = folder / "machine.json"
    path.write_text(to_json({"schema": 1, "machine": machine_data(machine, private=True)}))
    return str(path)


def gpudoctor(python: Path, cwd: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GPUDOCTOR_", "PYTHON"))}
    command = [str(python), "-m", "gpudoctor", *words]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120, cwd=cwd, env={**kept, **variables}
    )


@pytest.mark.parametrize("named", ["option", "variable", "project"])
def test_a_plugin_that_is_named_judges(installed: Path, tmp_path: Path, named: str):
    path = snapshot(tmp_path, nvidia_machine(driver="570.133.07"))
    if named == "project":
        (tmp_path / "pyproject.toml").write_text('[tool.gpudoctor]\nplugins = ["acme"]\n')
    words = ("--plugin", "acme") if named == "option" else ()
    variables = {"GPUDOCTOR_PLUGIN": "acme"} if named == "variable" else {}
    done = gpudoctor(installed, tmp_path, "check", "--from", path, "--format", "json", *words, **variables)
    report = json.loads(done.stdout)
    (found,) = [finding for finding in report["findings"] if finding["id"] == "ACME001"]
    assert (found["slug"], found["severity"], len(found["devices"])) == ("acme-driver-branch", "warning", 1)
    assert found["fixes"][0]["steps"], "the planner knows its remedy"


def test_a_plugin_that_nobody_names_is_not_loaded(installed: Path, tmp_path: Path):
    path = snapshot(tmp_path, nvidia_machine(driver="570.133.07"))
    done = gpudoctor(installed, tmp_path, "check", "--from", path)
    assert "ACME001" not in done.stdout
    assert gpudoctor(installed, tmp_path, "explain", "ACME001").returncode == 2


def test_its_checks_are_selected_ignored_listed_and_explained(installed: Path, tmp_path: Path):
    path = snapshot(tmp_path, nvidia_machine(driver="570.133.07", torch=None))
    (tmp_path / "gpudoctor.toml").write_text('plugins = "acme"')
    selected = gpudoctor(installed, tmp_path, "check", "--from", path, "--select", "ACME", "--fail-on", "warning")
    assert selected.returncode == 1 and "acme-driver-branch" in selected.stdout
    ignored = gpudoctor(
        installed, tmp_path, "check", "--from", path, "--ignore", "acme-driver-branch=old", "--fail-on", "warning"
    )
    assert ignored.returncode == 0
    assert "ACME001  acme-driver-branch" in gpudoctor(installed, tmp_path, "list").stdout
    assert "Only this branch is tested" in gpudoctor(installed, tmp_path, "explain", "ACME001").stdout


def test_preflight_says_which_plugin_it_loads(installed: Path, tmp_path: Path):
    (tmp_path / "gpudoctor.toml").write_text('plugins = ["acme"]')
    done = gpudoctor(installed, tmp_path, "preflight", "--level", "static", "--", "true")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "with the checks of the plugins acme (gpudoctor-acme 1.0)" in done.stderr


def test_a_projects_file_runs_no_code_that_lies_beside_it(installed: Path, tmp_path: Path):
    """Neither from the working folder nor from PYTHONPATH."""
    plugin(tmp_path, "import os\nopen('ran', 'w').close()\n")
    (tmp_path / "gpudoctor.toml").write_text('plugins = ["odd"]')
    for words in (("check", "--level", "static"), ("preflight", "--level", "static"), ("list",)):
        done = gpudoctor(installed, tmp_path, *words, PYTHONPATH=str(tmp_path))
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert "plugin 'odd' is not installed in gpudoctor's own environment" in done.stderr
    assert not (tmp_path / "ran").exists()


def test_a_file_of_a_plugins_name_is_not_the_plugin(installed: Path, tmp_path: Path):
    (tmp_path / "gpudoctor.toml").write_text('plugins = ["acme"]')
    (tmp_path / "gpudoctor_acme.py").write_text("import os\nopen('ran', 'w').close()\n")
    assert "ACME001" in gpudoctor(installed, tmp_path, "list").stdout
    assert not (tmp_path / "ran").exists()


HEAD = "from gpudoctor.check import check\nfrom gpudoctor.finding import *\n"
CHECK = '{head}@check("{id}", "{slug}", "driver")\ndef one(situation):\n    """Title."""\n    {body}\n'
WRONG = {
    "is not there": ("import no_such_module", "cannot be loaded: ModuleNotFoundError"),
    "is no Python": ("def :", "cannot be loaded: SyntaxError"),
    "ends the program": ("raise SystemExit(0)", "cannot be loaded: SystemExit"),
    "holds nothing": ("x = 1", "holds checks"),
    "takes an id of ours": (CHECK.format(head=HEAD, id="GPD777", slug="odd-one", body="return ()"), "own letters"),
    "takes a slug of ours": (
        CHECK.format(head=HEAD, id="ODD001", slug="no-gpu", body="return ()"),
        "GPD101 is named 'no-gpu'",
    ),
    "has a strange id": (CHECK.format(head=HEAD, id="odd-1", slug="odd-one", body="return ()"), "own letters"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_plugin_that_is_wrong_is_one_line(tmp_path: Path, what: str):
    source, told = WRONG[what]
    python = environment(tmp_path / "venv")
    plugin(next((tmp_path / "venv").glob("lib/python*/site-packages")), source)
    done = gpudoctor(python, tmp_path, "check", "--level", "static", "--plugin", "odd")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert told in done.stderr


BODIES = {
    "raises": "raise KeyError('x')",
    "ends the program": "raise SystemExit(0)",
    "yields something else": "yield 7",
    "makes up a remedy": "yield Finding(severity='error', message='m', fixes=(Fix('t', ('rm -rf /',)),))",
    "makes up a severity": "yield Finding(severity='fatal', message='m')",
}


@pytest.mark.parametrize("what", BODIES)
def test_a_check_of_a_plugin_that_crashes_costs_that_check_only(tmp_path: Path, what: str):
    python = environment(tmp_path / "venv")
    source = CHECK.format(head=HEAD, id="ODD001", slug="odd-one", body=BODIES[what])
    plugin(next((tmp_path / "venv").glob("lib/python*/site-packages")), source)
    path = snapshot(tmp_path, nvidia_machine(driver="570.133.07"))
    done = gpudoctor(python, tmp_path, "check", "--from", path, "--plugin", "odd", "--format", "json")
    report = json.loads(done.stdout)
    (crash,) = [finding for finding in report["findings"] if finding["slug"] == "check-crashed"]
    assert "ODD001" in crash["message"] and "its plugin" in crash["message"]
    assert (done.returncode, report["verdict"], done.stderr) == (3, "unknown", "")


def test_check_result_tells_what_one_check_says():
    result = check_result("no-gpu", nvidia_machine())
    assert (result.findings, result.not_judged) == ((), ())
    (found,) = check_result("driver-too-old", nvidia_machine(driver="450.51.06")).findings
    assert found.slug == "driver-too-old"
