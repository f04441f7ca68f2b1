"""A repair from the report to the proof, with real pip and uv against an index on loopback."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.in_process import gpudoctor
from tests.support.made_environments import make_venv_with_pip
from tests.support.wheel_index import WheelIndex, torch_files, wheel_index, write_wheel

UV = shutil.which("uv")


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WheelIndex]:
    with wheel_index(tmp_path_factory.mktemp("index")) as served:
        yield served


class Patient:
    """A venv with a torch, and the machine that it is to serve."""

    def __init__(
        self, folder: Path, index: WheelIndex, tool: str, target: tuple[str, ...], *installed: tuple[str, ...]
    ) -> None:
        """`installed` are builds, each with the wheels that come from its index."""
        self.index = index
        self.tool = tool
        self.prefix = folder / "venv"
        self.state = folder / "state"
        self.target = target
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("GPUDOCTOR_", "PIP_", "UV_"))
        }
        own = {"XDG_STATE_HOME": str(self.state), "HOME": str(folder), "VIRTUAL_ENV": ""}
        self.environ = {**kept, **index.environ, **own}
        index.venv(self.prefix, (tool, installed), lambda: self._make(installed))

    def _make(self, installed: tuple[tuple[str, ...], ...]) -> None:
        if self.tool == "uv":
            self._run(UV or "uv", "venv", "--python", sys.executable, str(self.prefix))
        else:
            make_venv_with_pip(self.prefix)
        for build, *wheels in installed:
            self.install(build, *wheels)

    def install(self, build: str, *wheels: str) -> None:
        python = str(self.prefix / "bin" / "python")
        uv = (UV or "uv", "pip", "install", "--python", python)
        command = uv if self.tool == "uv" else (python, "-m", "pip", "install")
        self._run(*command, "--index-url", f"{self.index.url}/{build}", *wheels)

    def _run(self, *argv: str) -> None:
        done = subprocess.run(argv, env=self.environ, check=False, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr

    def gpudoctor(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return gpudoctor(*arguments, environ=self.environ)

    def examined(self, *arguments: str) -> tuple[int, dict]:
        """Exit code and JSON of `check` or `fix` for the described machine."""
        command, *rest = arguments
        result = self.gpudoctor(
            command, *self.target, "--python", str(self.prefix), "--matrix", str(self.index.overlay()),
            "--format", "json", *rest,
        )  # fmt: skip
        assert result.returncode in (0, 1), result.stderr
        return result.returncode, json.loads(result.stdout)

    def errors(self) -> list[str]:
        _, report = self.examined("check")
        return [finding["slug"] for finding in report["findings"] if finding["severity"] == "error"]

    def versions(self) -> dict[str, str]:
        """What is installed, by the names of the .dist-info folders."""
        found = self.prefix.glob("lib/python*/site-packages/*.dist-info")
        stems = (path.name.removesuffix(".dist-info").partition("-") for path in found)
        return {name: version for name, _, version in stems}

    def files(self) -> dict[str, tuple[int, str | bytes]]:
        """Every file and link with mode and content; what Python compiled is no part of a package."""
        found: dict[str, tuple[int, str | bytes]] = {}
        for path in sorted(self.prefix.rglob("*")):
            if "__pycache__" in path.parts or (path.is_dir() and not path.is_symlink()):
                continue
            content = os.readlink(path) if path.is_symlink() else path.read_bytes()
            found[str(path.relative_to(self.prefix))] = (path.lstat().st_mode, content)
        return found


TOOLS = ["pip", pytest.param("uv", marks=pytest.mark.skipif(UV is None, reason="uv is not on PATH"))]
RTX_4070 = ("--gpu", "RTX 4070", "--driver", "580.95.05")
RTX_5090 = ("--gpu", "RTX 5090", "--driver", "580.95.05")
CPU_TORCH = ("cpu", "torch==2.9.1+cpu")


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize(
    ("target", "build", "version", "fault"),
    [(RTX_4070, "cpu", "2.9.1", "torch-cpu-only"), (RTX_5090, "cu124", "2.6.0", "torch-no-arch-for-gpu")],
)
def test_a_repair_is_shown_run_proved_and_taken_back(
    tmp_path: Path, index: WheelIndex, tool: str, target: tuple[str, ...], build: str, version: str, fault: str
):
    patient = Patient(tmp_path, index, tool, target, (build, f"torch=={version}+{build}", "torchvision"))
    before, files = patient.versions(), patient.files()
    assert patient.errors()[0] == fault

    code, shown = patient.examined("fix", "--dry-run")
    assert code == 1
    assert patient.files() == files
    assert not patient.state.exists()

    code, done = patient.examined("fix", "--yes")
    assert (code, done["result"]["proof"]["verdict"]) == (0, "ok"), done["result"]["proof"]
    assert done["steps"] == shown["steps"]
    assert len(done["result"]["proof"]["repaired"]) >= 1
    after = patient.versions()
    assert after["torch"] != before["torch"]
    assert after["torch"].partition("+")[2] == after["torchvision"].partition("+")[2] != build
    assert patient.errors() == []

    repaired = patient.files()
    code, again = patient.examined("fix", "--yes")
    assert (code, again["steps"]) == (0, [])
    assert patient.files() == repaired

    told = patient.gpudoctor("fix", "--undo", "--yes", "--python", str(patient.prefix))
    assert told.returncode == 0, told.stdout + told.stderr
    assert patient.versions() == before
    assert patient.files() == files
    assert patient.errors()[0] == fault
    assert "  undone  " in patient.gpudoctor("fix", "--history").stdout


def test_after_a_fix_the_environment_is_judged_without_what_stands_before_it(tmp_path: Path, index: WheelIndex):
    patient = Patient(tmp_path, index, "pip", RTX_4070, ("cu128", "torch==2.9.1+cu128", "torchvision"))
    own = next(patient.prefix.glob("lib/python*/site-packages"))
    before = tmp_path / "before"
    before.mkdir()
    for name in ("torchvision", "torchvision-0.24.1+cu128.dist-info"):
        (own / name).rename(before / name)
    record = before / "torchvision-0.24.1+cu128.dist-info"
    metadata = record / "METADATA"
    metadata.write_text(metadata.read_text().replace("0.24.1+cu128", "0.22.0+cu128"))
    record.rename(before / "torchvision-0.22.0+cu128.dist-info")
    patient.environ["PYTHONPATH"] = str(before)
    assert patient.errors() == ["torchvision-mismatch"]

    _, done = patient.examined("fix", "--yes")
    proof = done["result"]["proof"]
    assert (proof["by_variables"], proof["left"], proof["unforeseen"]) == (["GPD420"], [], [])
    assert patient.versions()["torchvision"] == "0.24.1+cu128"
    del patient.environ["PYTHONPATH"]
    assert patient.errors() == []


def test_a_fix_that_did_not_help_is_not_proposed_twice(tmp_path: Path):
    with wheel_index(tmp_path / "index") as index:
        patient = Patient(tmp_path, index, "pip", RTX_5090, ("cu124", "torch==2.6.0+cu124"))
        _, shown = patient.examined("fix", "--dry-run")
        assert (shown["predicted"], len(shown["steps"])) == (
            {"verdict": "ok", "left": [], "until": "end", "notes": []},
            1,
        )
        # The wheel that the index has under the name of the new build holds the old one.
        proposed = next(word for word in shown["steps"][0]["argv"] if word.startswith("torch==")).partition("==")[2]
        folder = index.folder / proposed.partition("+")[2] / "torch"
        write_wheel(folder, "torch", proposed, torch_files("2.6.0", "cu124"))

        code, done = patient.examined("fix", "--yes")
        assert (code, done["result"]["proof"]["left"]) == (1, ["GPD402"]), done["result"]
        assert "GPD402" in done["result"]["proof"]["unforeseen"]
        _, again = patient.examined("fix", "--dry-run")
        assert all(proposed not in " ".join(step.get("argv", [])) for step in again["steps"]), str(again)
        assert "did not help" in again["after"] or again["steps"]
        _, named = patient.examined("fix", "--dry-run", "--only", "torch-no-arch-for-gpu")
        assert f"torch=={proposed}" in named["steps"][0]["argv"]

        # In an environment that was changed since, it may help.
        write_wheel(index.folder / "pypi" / "other", "other", "1.0")
        patient.install("pypi", "other")
        assert "GPD402" in patient.examined("fix", "--dry-run")[1]["steps"][0]["because"]


def serve_what_is_recommended(patient: Patient) -> None:
    """Put the torch that gpudoctor proposes there on the index, whichever that is."""
    _, plan = patient.examined("fix", "--install", "torch", "--dry-run")
    argv = plan["steps"][0]["argv"]
    version = next(word for word in argv if word.startswith("torch==")).removeprefix("torch==")
    url = next((word for word in argv if word.startswith(patient.index.url)), f"{patient.index.url}/pypi")
    folder = patient.index.folder / url.rpartition("/")[2] / "torch"
    write_wheel(folder, "torch", version, torch_files(version.partition("+")[0], "cu130"))


@pytest.mark.parametrize("tool", TOOLS)
def test_a_missing_torch_is_installed_where_that_is_said_and_undone(tmp_path: Path, index: WheelIndex, tool: str):
    patient = Patient(tmp_path, index, tool, RTX_4070)
    serve_what_is_recommended(patient)
    files = patient.files()
    arguments = (*RTX_4070, "--python", str(patient.prefix), "--matrix", str(index.overlay()))
    for way in ((), ("--yes",), ("--install", "torch", "--dry-run")):
        assert patient.gpudoctor("fix", *arguments, *way).returncode == 0
        assert patient.files() == files, way
    shown = patient.gpudoctor("fix", *arguments, "--install", "torch", "--dry-run").stdout
    done = patient.gpudoctor("fix", *arguments, "--install", "torch", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert patient.versions()["torch"].partition("+")[0] in shown
    undo = next(line.partition(" ")[2] for line in done.stdout.splitlines() if line.startswith("Undo: "))
    assert patient.gpudoctor("fix", "--undo", "--yes").returncode == 0
    assert patient.files() != files, "another environment's fix is not undone"
    assert patient.gpudoctor(*shlex.split(undo)[1:], "--yes").returncode == 0
    assert patient.files() == files


def test_what_is_required_is_installed_as_the_next_command_says_and_undone(tmp_path: Path, index: WheelIndex):
    patient = Patient(tmp_path, index, "pip", RTX_4070)
    patient.install("cu124", "torch==2.6.0+cu124")
    files = patient.files()
    arguments = ("--python", str(patient.prefix), "--matrix", str(index.overlay()), "--require", "torch>=2.7")
    told = patient.gpudoctor("check", "--level", "static", *RTX_4070, *arguments)
    assert told.returncode == 1
    command = shlex.split(told.stdout.splitlines()[-1].removeprefix("Next: "))
    assert command[:2] == ["gpudoctor", "fix"]
    done = patient.gpudoctor(*command[1:], "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert patient.versions()["torch"].startswith("2.7")
    assert patient.gpudoctor("check", "--level", "static", *RTX_4070, *arguments).returncode == 0
    assert patient.gpudoctor("fix", "--undo", "--yes", "--python", str(patient.prefix)).returncode == 0
    assert patient.files() == files


def test_on_a_terminal_a_missing_torch_is_offered(tmp_path: Path, index: WheelIndex):
    patient = Patient(tmp_path, index, "pip", RTX_4070)
    serve_what_is_recommended(patient)
    code, told = on_a_terminal(patient, "y")
    assert (code, "Apply step 1? [y/N]" in told) == (0, True), told
    assert "torch" in patient.versions()


def test_what_pins_the_old_torch_is_named_before_anything_is_replaced(tmp_path: Path, index: WheelIndex):
    pinned = (("cu124", "torch==2.6.0+cu124"), ("pypi", "--no-deps", "pinning-2-6-0"))
    patient = Patient(tmp_path, index, "pip", RTX_5090, *pinned)
    result = patient.gpudoctor(
        "fix", *RTX_5090, "--python", str(patient.prefix), "--matrix", str(index.overlay()), "--dry-run"
    )
    first = result.stdout.index("pinning-2-6-0 1.0 (==2.6.0)")
    assert first < result.stdout.index("pip install")


def test_a_step_that_fails_stops_the_repair_and_offers_the_undo(tmp_path: Path, index: WheelIndex):
    patient = Patient(tmp_path, index, "pip", RTX_4070, CPU_TORCH)
    files = patient.files()
    lost = tmp_path / "lost.yaml"
    lost.write_text(f"wheel_index: {{base: {index.url}/nothing-is-here}}\n")
    arguments = ("fix", *RTX_4070, "--python", str(patient.prefix), "--matrix", str(lost), "--yes")
    result = patient.gpudoctor(*arguments)
    assert result.returncode == 1
    assert "step 1 failed" in result.stdout
    assert "gpudoctor fix --undo" in result.stdout
    assert "still there" in result.stdout
    assert patient.gpudoctor("fix", "--undo", "--yes", "--python", str(patient.prefix)).returncode == 0
    assert patient.files() == files


def test_without_a_terminal_and_without_yes_nothing_is_run(tmp_path: Path, index: WheelIndex):
    patient = Patient(tmp_path, index, "pip", RTX_4070, CPU_TORCH)
    files = patient.files()
    result = patient.gpudoctor("fix", *RTX_4070, "--python", str(patient.prefix), "--matrix", str(index.overlay()))
    assert result.returncode == 1
    assert "pip install" in result.stdout
    assert "--yes" in result.stderr
    assert patient.files() == files


def on_a_terminal(patient: Patient, answer: str, *arguments: str) -> tuple[int, str]:
    """Run `fix` with a terminal and an answer to its question."""
    import pty

    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "gpudoctor", "fix", *patient.target, "--python", str(patient.prefix),
         "--matrix", str(patient.index.overlay()), "--no-color", *arguments],
        stdin=theirs, stdout=theirs, stderr=theirs, env=patient.environ,
    )  # fmt: skip
    os.close(theirs)
    told = b""
    asked = False
    while True:
        try:
            block = os.read(ours, 65536)
        except OSError:  # the other side is closed
            break
        told += block
        if b"[y/N]" in told and not asked:
            asked = True
            os.write(ours, answer.encode() + b"\n")
    os.close(ours)
    return process.wait(timeout=300), told.decode()


def test_on_a_terminal_it_asks_and_no_is_the_answer_of_enter(tmp_path: Path, index: WheelIndex):
    patient = Patient(tmp_path, index, "pip", RTX_4070, CPU_TORCH)
    files = patient.files()
    code, told = on_a_terminal(patient, "")
    assert (code, "Apply step 1? [y/N]" in told, "Nothing was changed." in told) == (1, True, True)
    assert patient.files() == files
    code, told = on_a_terminal(patient, "y")
    assert (code, "Fixed 1 problem" in told) == (0, True)
    assert patient.versions()["torch"].startswith("2.9.1+cu")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 143)])
def test_a_repair_that_was_cut_off_is_told_and_continued(tmp_path: Path, index: WheelIndex, number: int, code: int):
    patient = Patient(tmp_path, index, "pip", RTX_4070, CPU_TORCH)
    arguments = ("fix", *RTX_4070, "--python", str(patient.prefix), "--matrix", str(index.overlay()))
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "gpudoctor", *arguments, "--yes"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=patient.environ,
    )  # fmt: skip
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("[1/1]"):
            process.send_signal(number)
    assert process.wait(timeout=60) == code
    process.stdout.close()

    before = patient.versions()
    checked = patient.gpudoctor("check", *arguments[1:])
    assert "--continue or --undo" in checked.stderr
    for more in ((), ("--ignore", "GPD405")):  # there may be nothing left to fix, and the fix is cut off all the same
        refused = patient.gpudoctor(*arguments, "--yes", *more)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "--continue or --undo" in refused.stderr
    assert patient.versions() == before
    assert "cut off" in patient.gpudoctor("fix", "--history").stdout

    done = patient.gpudoctor(*arguments, "--continue")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Fixed 1 problem" in done.stdout
    assert patient.errors() == []
    assert patient.gpudoctor("fix", "--undo", "--yes", "--python", str(patient.prefix)).returncode == 0
    assert patient.versions()["torch"] == "2.9.1+cpu"
