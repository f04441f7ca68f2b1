"""The story of the RX 6700 XT (gfx1031): the plan, each way out of it, the variable for one command, the undo."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.hosts import Host
from tests.support.in_process import gpudoctor
from tests.support.made_environments import make_venv_with_pip
from tests.support.wheel_index import WheelIndex, wheel_index

VARIABLE = "HSA_OVERRIDE_GFX_VERSION"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WheelIndex]:
    with wheel_index(tmp_path_factory.mktemp("index")) as served:
        yield served


class Patient:
    """A venv with torch for ROCm 6.4, on a recorded machine with that GPU."""

    def __init__(self, folder: Path, index: WheelIndex) -> None:
        self.folder, self.index = folder, index
        self.prefix, self.machine = folder / "venv", folder / "machine"
        host = Host(self.machine).ubuntu().amd_gpu("73df", 100301)
        host.file("/gpudoctor-host.json", json.dumps(host.json))
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("GPUDOCTOR_", "PIP_", "UV_", "HSA_", "HIP_"))
        }
        own = {"XDG_STATE_HOME": str(folder / "state"), "HOME": str(folder), "VIRTUAL_ENV": ""}
        self.environ = {**kept, **index.environ, **own}
        make_venv_with_pip(self.prefix)
        names = ("torch==2.9.1+rocm6.4", "torchvision==0.24.1+rocm6.4")
        self.run(
            str(self.prefix / "bin/python"), "-m", "pip", "install", "--index-url", f"{index.url}/rocm6.4", *names
        )

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            argv,
            env=self.environ,
            check=False,
            capture_output=True,
            text=True,
            timeout=300,
            stdin=subprocess.DEVNULL,
        )

    def gpudoctor(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return gpudoctor(*arguments, environ=self.environ)

    def fix(self, *arguments: str) -> tuple[int, dict]:
        told = self.gpudoctor("fix", *self.examined, "--format", "json", *arguments)
        assert told.stdout, told.stderr
        return told.returncode, json.loads(told.stdout)

    @property
    def examined(self) -> tuple[str, ...]:
        return (
            *("--root", str(self.machine), "--python", str(self.prefix)),
            *("--matrix", str(self.index.overlay())),
        )

    def files(self) -> dict[str, bytes]:
        paths = (path for path in self.prefix.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        return {str(path): path.read_bytes() for path in paths}


NATIVE_WHEEL = pytest.mark.skipif(
    sys.version_info < (3, 11), reason="AMD has no wheel of this torch for Python 3.10: none to install"
)


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory, index: WheelIndex) -> Patient:
    return Patient(tmp_path_factory.mktemp("patient"), index)


def commands(plan: dict) -> list[str]:
    return [shlex.join(step["argv"][3:]) for step in plan["steps"] if step["kind"] == "run"]


@NATIVE_WHEEL
def test_three_ways_out_a_native_build_the_variable_and_the_processor(patient: Patient, index: WheelIndex) -> None:
    before = patient.files()
    code, native = patient.fix("--dry-run")
    assert code == 1
    assert commands(native) == [
        f"install --index-url {index.url}/amd 'torch[device-gfx1031]==2.11.0+rocm7.14.0' "
        "'torchvision[device-gfx1031]==0.26.0+rocm7.14.0'"
    ]
    _, variable = patient.fix("--alternative", "2", "--yes")
    (step,) = variable["steps"]
    assert (step["kind"], step["name"], step["value"], step["state"]) == ("env", VARIABLE, "10.3.0", "shown only")
    assert "AMD does not support" in step["why"] and "preflight --set-env" in variable["after"]
    _, processor = patient.fix("--alternative", "3", "--dry-run")
    assert commands(processor) == [f"install --index-url {index.url}/cpu torch==2.9.1+cpu torchvision==0.24.1+cpu"]
    no_such = patient.gpudoctor("fix", *patient.examined, "--alternative", "4")
    assert no_such.returncode == 2 and "has 3 fixes" in no_such.stderr
    assert patient.files() == before


def test_the_variable_is_printed_for_a_shell_and_repairs_what_is_checked_with_it(patient: Patient) -> None:
    printed = patient.gpudoctor("env", *patient.examined)
    assert printed.stdout == f"export {VARIABLE}=10.3.0;\n"
    assert "AMD does not support" in printed.stderr
    checked = patient.gpudoctor("check", *patient.examined, "--env", f"{VARIABLE}=10.3.0")
    assert checked.returncode == 0


@NATIVE_WHEEL
def test_the_native_build_is_installed_proved_and_taken_back(patient: Patient) -> None:
    before = patient.files()
    code, done = patient.fix("--yes")
    assert (code, done["result"]["ok"], done["result"]["proof"]["repaired"]) == (0, True, ["GPD404"])
    again, nothing = patient.fix("--yes")
    assert (again, nothing["steps"]) == (0, [])
    undone = patient.gpudoctor("fix", "--undo", "--yes", "--python", str(patient.prefix))
    assert undone.returncode == 0, undone.stderr
    assert patient.files() == before


_AS_THIS_MACHINE = """
set -e
for node in null zero urandom random tty full; do
    touch "$0/dev/$node"; mount --bind "/dev/$node" "$0/dev/$node"
done
rm -f "$0/dev/kfd" "$0/dev/dri/renderD128"
mknod "$0/dev/kfd" c 1 3; mknod "$0/dev/dri/renderD128" c 1 3
mkdir -p "$0/dev/shm"; mount -t tmpfs none "$0/dev/shm"
mount --bind "$0/sys" /sys; mount --bind "$0/dev" /dev
exec "$@"
"""
"""Under `unshare -m`: the recorded GPU stands in the place of this machine's."""


def alive(patient: Patient, *argv: str) -> subprocess.CompletedProcess[str]:
    return patient.run("unshare", "-m", "sh", "-c", _AS_THIS_MACHINE, str(patient.machine), *argv)


def test_preflight_sets_the_variable_for_its_command_only(patient: Patient) -> None:
    if os.geteuid() != 0 or shutil.which("unshare") is None or alive(patient, "true").returncode != 0:
        pytest.skip("mounting over /sys needs root")
    command = (sys.executable, "-m", "gpudoctor", "preflight", "--level", "static", "--python", str(patient.prefix))
    show = ("--", "sh", "-c", f'echo "it is ${VARIABLE}"')
    refused = alive(patient, *command, *show)
    assert (refused.returncode, refused.stdout) == (121, "")
    assert "device-gfx1031" in refused.stderr
    passed = alive(patient, *command, "--set-env", *show)
    assert (passed.returncode, passed.stdout) == (0, "it is 10.3.0\n")
    assert f"{VARIABLE}=10.3.0" in passed.stderr
    assert VARIABLE not in patient.environ
    assert not list(patient.folder.glob(".*rc"))
