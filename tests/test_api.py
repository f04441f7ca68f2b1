"""`gpudoctor.diagnose`: what programs get, and what it leaves alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import gpudoctor
from gpudoctor.report import Report
from tests.support.hosts import Host


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """An RTX 5090 with a torch that has no code for it, as a folder."""
    host = Host(tmp_path / "root").ubuntu().nvidia_gpu("2b85").nvidia_driver("570.133.07").torch("2.6.0+cu124")
    host.run()
    return tmp_path / "root"


def test_a_report_says_what_the_command_says(broken: Path):
    report = gpudoctor.diagnose(root=broken)
    assert isinstance(report, Report) and isinstance(report, gpudoctor.Report)
    assert (report.verdict, report.ok, report.exit_code) == ("error", False, 1)
    assert report.findings[0].slug == "torch-no-arch-for-gpu"
    command = [sys.executable, "-m", "gpudoctor", "check", "--root", str(broken), "--format", "json"]
    printed = json.loads(subprocess.run(command, capture_output=True, check=False, timeout=120).stdout)
    assert [finding["slug"] for finding in printed["findings"]] == [finding.slug for finding in report.findings]


def test_arguments_are_the_options(broken: Path, tmp_path: Path):
    assert gpudoctor.diagnose(root=broken, select="GPD1").ok
    assert gpudoctor.diagnose(root=broken, ignore={"torch-no-arch-for-gpu": "known"}).ignored[0].why == "known"
    assert gpudoctor.diagnose(root=broken, ignore=["GPD402=known"]).ignored[0].why == "known"
    assert "gpu>=8" in [finding.want for finding in gpudoctor.diagnose(root=broken, require="gpu>=8").findings]
    served = gpudoctor.diagnose(gpu="RTX 4090", driver="580.95.05", torch="2.9.1+cu128", level="static", root=broken)
    assert served.ok and served.machine.gpus[0].arch.value == "sm_89"
    overlay = tmp_path / "overlay.yaml"
    overlay.write_text("version: 2030.1.1\n")
    assert gpudoctor.diagnose(root=broken, matrix=overlay).matrix == "2030.1.1"


@pytest.mark.parametrize(
    "given",
    [
        {"level": "deep"},
        {"fail_on": "maybe"},
        {"select": "GPD999"},
        {"require": "gpu>>8"},
        {"gpu": "no such GPU"},
        {"root": "/no/such/folder"},
        {"snapshot": "/no/such/file"},
        {"matrix": "/no/such/file"},
    ],
    ids=lambda given: next(iter(given)),
)
def test_what_cannot_be_used_is_one_sentence(given: dict[str, str], capfd: pytest.CaptureFixture[str]):
    with pytest.raises(gpudoctor.InputError) as told:
        gpudoctor.diagnose(**{"level": "static", **given})
    assert "\n" not in str(told.value)
    assert capfd.readouterr() == ("", "")


def test_neither_files_of_a_project_nor_variables_have_a_say(
    broken: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    (tmp_path / "gpudoctor.toml").write_text('select = ["GPD1"]\nrequire = ["gpu>=4096"]')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPUDOCTOR_IGNORE", "GPD")
    monkeypatch.setenv("GPUDOCTOR_REQUIRE", "gpu>=4096")
    assert gpudoctor.diagnose(root=broken).findings[0].slug == "torch-no-arch-for-gpu"
    assert not [one for one in gpudoctor.diagnose(level="static").findings if one.slug == "requirement-not-met"]
    assert capfd.readouterr() == ("", "")


def test_the_package_alone_imports_nothing_of_it():
    program = (
        "import sys; before = set(sys.modules); import gpudoctor\n"
        "assert {'Report', 'diagnose'} <= set(gpudoctor.__all__)\n"
        "print([name for name in set(sys.modules) - before if name.startswith(('gpudoctor.', 'msgspec'))])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout == "[]\n", done.stderr
    with pytest.raises(AttributeError):
        gpudoctor.diagnosis  # noqa: B018


def test_a_typing_module_on_pythonpath_does_not_stop_the_command(tmp_path):
    """The command puts PYTHONPATH behind its own modules; until then it imports nothing that a folder may hide."""
    (tmp_path / "typing.py").write_text("x = 1\n")
    command = [sys.executable, "-m", "gpudoctor", "--version"]
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    shown = subprocess.run(command, check=False, capture_output=True, text=True, env=environ)
    assert (shown.returncode, shown.stderr) == (0, "")
