"""What a project's files say to gpudoctor: which files are read, and for which machines they hold."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpudoctor.command_line.project_settings import Settings, project_settings
from gpudoctor.host import InputError, LiveHost
from gpudoctor.probes.project_files import torch_asked
from gpudoctor.render.formats import FORMATS
from tests.support import in_process
from tests.support.hosts import Host

DESCRIBED = ("--gpu", "RTX 4090", "--driver", "580.95.05", "--torch", "2.9.1+cu128")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded machine of one GPU, as a root and as a snapshot."""
    folder = tmp_path_factory.mktemp("recorded")
    host = Host(folder / "root").ubuntu().nvidia_gpu("2684").nvidia_driver("580.95.05").torch("2.9.1+cu128")
    host.run()
    (folder / "snapshot.json").write_text(gpudoctor(folder, "snapshot", "--root", "root").stdout)
    return folder


@pytest.fixture
def project(recorded: Path, tmp_path: Path) -> Path:
    """A folder for settings, with that machine in it."""
    return Path(shutil.copytree(recorded, tmp_path / "project", symlinks=True))


def gpudoctor(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    if "--" not in words:
        return in_process.gpudoctor(*words, cwd=folder, **variables)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GPUDOCTOR_")} | variables
    command = [sys.executable, "-m", "gpudoctor", *words]  # becomes what follows
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd=folder, env=kept)


@pytest.mark.parametrize(
    "words",
    [
        ("check", "--root", "root"),
        ("check", "--from", "snapshot.json"),
        ("check", *DESCRIBED),
        ("whatif", *DESCRIBED),
        ("fix", "--dry-run", "--root", "root"),
    ],
)
def test_what_is_asked_of_a_machine_is_not_asked_of_another(project: Path, words: tuple[str, ...]):
    (project / "gpudoctor.toml").write_text('require = ["gpu>=4096"]\nlevel = "quick"\nwait = 60')
    done = gpudoctor(project, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert gpudoctor(project, "check", "--level", "static", "--select", "GPD910").returncode == 1


@pytest.mark.parametrize(
    "words", [("--root", "root"), ("--from", "snapshot.json"), ("--gpu", "RTX 4090", "--root", "root")]
)
def test_what_a_person_requires_is_asked_of_any_machine(project: Path, words: tuple[str, ...]):
    assert gpudoctor(project, "check", *words, "--require", "gpu>=4096").returncode == 1


@pytest.mark.parametrize("words", [("--root", "broken"), ("--from", "broken.json")])
def test_how_a_report_is_read_holds_for_any_machine(tmp_path: Path, words: tuple[str, ...]):
    host = Host(tmp_path / "broken").ubuntu().nvidia_gpu("2b85").nvidia_driver("580.95.05").torch("2.4.1+cu124")
    host.run()
    (tmp_path / "broken.json").write_text(gpudoctor(tmp_path, "snapshot", "--root", "broken").stdout)
    words = ("check", *words, "--select", "GPD402")
    assert gpudoctor(tmp_path, *words).returncode == 1
    for settings in ('ignore = ["GPD402"]', 'fail-on = "never"'):
        (tmp_path / "gpudoctor.toml").write_text(settings)
        assert gpudoctor(tmp_path, *words).returncode == 0


NEVER_MET = "shm>=9000TiB"
DISARMING = (
    'ignore = ["GPD"]',
    'ignore = {GPD910 = "we know"}',
    'ignore = ["requirement-not-met", "GPD1"]',
    'fail-on = "never"',
    'select = ["GPD3"]',
)


@pytest.mark.parametrize("settings", DISARMING)
@pytest.mark.parametrize("asked", ["--require", "GPUDOCTOR_REQUIRE"])
def test_no_file_takes_back_what_a_person_requires(project: Path, settings: str, asked: str):
    (project / "gpudoctor.toml").write_text(settings)
    words = ("--require", NEVER_MET) if asked == "--require" else ()
    given = {} if words else {asked: NEVER_MET}
    gate = ("preflight", "--level", "static", *words, "--", "echo", "started")
    refused = gpudoctor(project, *gate, **given)
    assert (refused.returncode, refused.stdout) == (121, "")
    assert "requirement-not-met" in refused.stderr
    # What a person ignores goes before what they require; a project's own requirement its project may ignore.
    assert (
        gpudoctor(project, *gate[:3], *words, "--ignore", "GPD=mine", "--fail-on", "never", **given).returncode == 0
    )


def test_a_repair_is_judged_as_the_check_judges(project: Path):
    (project / "gpudoctor.toml").write_text('ignore = ["GPD"]')
    words = ("fix", "--dry-run", "--level", "static")
    assert "requirement-not-met" not in gpudoctor(project, *words).stdout
    told = gpudoctor(project, *words, "--require", NEVER_MET)
    assert told.returncode == 1 and "GPD910" in told.stdout


def test_a_project_may_ignore_what_it_requires_itself(project: Path):
    (project / "gpudoctor.toml").write_text(f'require = "{NEVER_MET}"\nignore = {{GPD910 = "not yet bought"}}')
    assert gpudoctor(project, "check", "--level", "static", "--select", "GPD910").returncode == 0


def test_what_is_ignored_is_told_in_every_form(project: Path):
    (project / "gpudoctor.toml").write_text(f'require = "{NEVER_MET}"\nignore = {{GPD910 = "not yet bought"}}')
    for style in FORMATS:
        told = gpudoctor(project, "check", "--level", "static", "--format", style).stdout
        assert "GPD910" in told and "not yet bought" in told, style
    passed = gpudoctor(project, "preflight", "--level", "static", "--", "true")
    assert "ignored: GPD910 (not yet bought)" in passed.stderr
    refused = gpudoctor(project, "preflight", "--level", "static", "--require", "shm>=8999TiB", "--", "true")
    assert "GPD910" in refused.stderr


def test_a_pipe_in_the_place_of_the_settings_is_refused_and_not_waited_for(tmp_path: Path):
    os.mkfifo(tmp_path / "gpudoctor.toml")
    with pytest.raises(InputError, match=r"gpudoctor\.toml: cannot be read: not a regular file"):
        project_settings(str(tmp_path))


def test_settings_that_may_not_be_read_refuse(tmp_path: Path):
    """What they would have required is not known."""
    (tmp_path / "gpudoctor.toml").write_text('require = ["gpu>=8"]')
    (tmp_path / "gpudoctor.toml").chmod(0)
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    own = os.geteuid()
    if own == 0:
        os.seteuid(65534)
    try:
        with pytest.raises(InputError, match=r"gpudoctor\.toml: cannot be read: .*(denied|EACCES)"):
            project_settings(str(tmp_path))
    finally:
        os.seteuid(own)


@pytest.mark.parametrize(
    "text",
    [
        "wait = " + "9" * 6000,
        "wait = " + "9" * 4000,
        "wait = 0x" + "f" * 20_000,
        "a = " + "[" * 50_000,
        "a = " + "{a = " * 50_000,
        "a" + ".a" * 50_000 + " = 1",
        "[a" + ' . "a"' * 30_000 + "]",
        'require = "\0"',
        '"' + "a" * 100_000 + '" = 1',
        "a = 1979-13-45",
        "# " + "x" * 300_000,
    ],
    ids=lambda text: text[:12],
)
def test_settings_that_are_no_settings_are_one_line(tmp_path: Path, text: str):
    for name, head in (("gpudoctor.toml", ""), ("pyproject.toml", "[tool.gpudoctor]\n")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).write_text(head + text)
        with pytest.raises(InputError) as caught:
            project_settings(str(folder))
        assert name in str(caught.value) and "\n" not in str(caught.value) and len(str(caught.value)) < 600


@pytest.mark.parametrize("text", ["a = " + "9" * 6000, "a = " + "[" * 50_000, "a" + ".a" * 50_000 + " = 1"])
def test_a_project_of_somebody_else_that_is_broken_asks_for_nothing(tmp_path: Path, text: str):
    (tmp_path / "pyproject.toml").write_text(text)
    assert project_settings(str(tmp_path)) == Settings()
    assert torch_asked(LiveHost(), str(tmp_path)) == ()


def test_members_of_a_workspace_and_lines_that_ask_for_torch_are_bounded(tmp_path: Path):
    members = ", ".join(['"a"'] * 5000 + ['"b"', "7", "0x" + "f" * 6000])
    (tmp_path / "pyproject.toml").write_text(f"[tool.uv.workspace]\nmembers = [{members}]\n")
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "pyproject.toml").write_text('[project]\ndependencies = ["torch>=2"]\n')
    (tmp_path / "requirements.txt").write_text("torch" + " " * 500_000 + "x\n" + "torch==2.6.0\n" * 20_000)
    asked = torch_asked(LiveHost(), str(tmp_path))
    assert [one.file for one in asked[:3]] == ["a/pyproject.toml", "b/pyproject.toml", "requirements.txt"]
    assert len(asked) == 200


def test_a_selection_is_told(project: Path) -> None:
    (project / "gpudoctor.toml").write_text('select = ["GPD422"]')
    for style in FORMATS:
        assert "all but GPD422" in gpudoctor(project, "check", "--level", "static", "--format", style).stdout, style
    assert "all but GPD422" in gpudoctor(project, "preflight", "--level", "static", "--", "true").stderr


@pytest.mark.parametrize("wait", ["inf", "1e300", "nan"])
def test_no_project_lets_a_container_wait_for_ever(project: Path, wait: str) -> None:
    (project / "gpudoctor.toml").write_text(f"wait = {wait}")
    assert gpudoctor(project, "preflight", "--level", "static", "--", "true").returncode == 122
