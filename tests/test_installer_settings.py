"""What pip and uv are configured to do: read as they read it, and honoured in the choice of builds and commands."""

from __future__ import annotations

import configparser
import os
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gpudoctor.finding import Fix, Manual, ReinstallPackage, ReplacePackage, ReplaceTorch
from gpudoctor.fix.errors import RepairError
from gpudoctor.fix.indexes import check_indexes
from gpudoctor.frameworks.torch import builds
from gpudoctor.host import LiveHost
from gpudoctor.host.recorded_host import RecordedHost
from gpudoctor.machine import (
    Constraint,
    Distribution,
    Installers,
    InstallerSettings,
    Machine,
    PythonEnvironment,
    TorchCopy,
    absent,
    known,
)
from gpudoctor.matrix.load import load_matrix
from gpudoctor.planner.place import place
from gpudoctor.planner.plan import steps_for_all
from gpudoctor.probes.constraint_files import read_constraints
from gpudoctor.probes.installers import probe_installers, with_wheels
from gpudoctor.probes.pip_settings import pip_settings, read_ini
from gpudoctor.probes.python_environment import probe_environment
from gpudoctor.probes.uv_settings import uv_settings
from gpudoctor.situation import Situation
from gpudoctor.step import ManualStep, RunStep, Step
from tests.support.environments import write_torch
from tests.support.in_process import gpudoctor
from tests.support.judging import finding
from tests.support.machines import change, environment, nvidia_gpu, nvidia_machine, torch
from tests.support.made_environments import make_venv_with_pip
from tests.support.torch_indexes import only_these

MATRIX = load_matrix()
TORCH = ("torch", "torchvision")
needs_uv = pytest.mark.skipif(shutil.which("uv") is None, reason="needs uv")


def write(root: Path, files: Mapping[str, str]) -> RecordedHost:
    for path, text in files.items():
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return RecordedHost(str(root), {})


def pip(root: Path, files: Mapping[str, str], folder: str = "/w", **environ: str) -> InstallerSettings:
    return pip_settings(write(root, files), {"HOME": "/home/me", **environ}, "/venv", folder, TORCH)


def uv(root: Path, files: Mapping[str, str], folder: str = "/w/sub", **environ: str) -> InstallerSettings:
    return uv_settings(write(root, files), {"HOME": "/home/me", **environ}, folder, TORCH)


# --- pip's configuration ----------------------------------------------------------------------------


def test_a_later_level_of_pips_configuration_overrides_an_earlier_one(tmp_path: Path) -> None:
    levels = ("/etc/xdg/pip/pip.conf", "/etc/pip.conf", "/home/me/.pip/pip.conf", "/home/me/.config/pip/pip.conf")
    files = {path: f"[global]\nindex-url = https://{n}.example/simple\n" for n, path in enumerate(levels)}
    for number in range(len(levels)):
        root = tmp_path / str(number)
        found = pip(root, {path: files[path] for path in levels[: number + 1]})
        assert found.index_url == f"https://{number}.example/simple"
    files["/venv/pip.conf"] = "[global]\nindex-url = https://site.example/simple\n"
    assert pip(tmp_path / "site", files).index_url == "https://site.example/simple"
    files["/mine.conf"] = "[global]\nindex-url = https://mine.example/simple\n"
    assert pip(tmp_path / "own", files, PIP_CONFIG_FILE="/mine.conf").index_url == "https://mine.example/simple"
    variable = {"PIP_INDEX_URL": "https://variable.example/simple"}
    assert pip(tmp_path / "env", files, **variable).index_url == "https://variable.example/simple"
    assert pip(tmp_path / "none", files, PIP_CONFIG_FILE="/dev/null") == InstallerSettings()


def test_a_command_of_pip_overrides_what_is_global_and_empty_values_count_for_nothing(tmp_path: Path) -> None:
    files = {"/etc/pip.conf": "[install]\nuser = true\n", "/venv/pip.conf": "[global]\nuser = false\n"}
    found = pip(tmp_path, files, PIP_NO_INDEX="")
    assert found.user and not found.no_index
    assert found.sources == {"user": "/etc/pip.conf, line 2"}


def test_what_decides_where_pip_installs_and_from_where(tmp_path: Path) -> None:
    text = """[global]
extra-index-url =
    https://one.example/simple
    https://user:secret@two.example/simple
no_index = yes
[install]
# target = /nowhere
prefix: /opt/x
no-binary = :all:
require-hashes = 1
"""
    found = pip(tmp_path, {"/etc/pip.conf": text})
    assert found.extra_indexes == ("https://one.example/simple", "https://***@two.example/simple")
    assert found.no_index and found.require_hashes
    assert (found.elsewhere, found.no_binary) == ({"prefix": "/opt/x"}, (":all:",))
    assert found.sources["require_hashes"] == "/etc/pip.conf, line 10"


def test_constraints_are_read_with_their_lines_through_files_that_include_others(tmp_path: Path) -> None:
    files = {
        "/etc/pip.conf": "[global]\nconstraint = /c/one.txt https://c.example/two.txt\n",
        "/c/one.txt": "# torch==1\nnumpy<2\n\nTorch <= 2.9.1 ; python_version < '3.13'  # why\n-c more/other.txt\n",
        "/c/more/other.txt": "torchvision==0.24.1 \\\n    --hash=sha256:00\ntorch @ https://u:p@x.example/torch.whl\n",
    }
    found = pip(tmp_path, files)
    assert found.constraints == (
        Constraint("torch", "<=2.9.1", "python_version < '3.13'", "/c/one.txt, line 4"),
        Constraint("torchvision", "==0.24.1", "", "/c/more/other.txt, line 1"),
        Constraint("torch", "@ https://***@x.example/torch.whl", "", "/c/more/other.txt, line 3"),
    )
    assert found.unread == ("https://c.example/two.txt",)


def test_a_constraint_file_that_is_not_there_keeps_the_installer_from_installing(tmp_path: Path) -> None:
    found = pip_settings(LiveHost(), {"PIP_CONSTRAINT": "c.txt"}, "", str(tmp_path), TORCH)
    assert (found.lost, found.unread) == ((f"{tmp_path}/c.txt",), ())
    assert f"constraint (PIP_CONSTRAINT) names {tmp_path}/c.txt, which is not there" in by_hand(configured(found))


def test_relative_constraints_are_those_of_the_working_folder(tmp_path: Path) -> None:
    found = pip(tmp_path, {"/w/c.txt": "torch<2.9"}, PIP_CONSTRAINT="c.txt")
    assert [one.source for one in found.constraints] == ["/w/c.txt, line 1"]


def test_files_that_include_each_other_come_to_an_end(tmp_path: Path) -> None:
    found = pip(tmp_path, {"/w/a.txt": "-c b.txt\ntorch<3", "/w/b.txt": "-c a.txt"}, PIP_CONSTRAINT="a.txt")
    assert len(found.constraints) == 1 and not found.unread


_INI = st.text(alphabet="[]=:#; \n\tab-_", max_size=80)


@given(_INI)
@example("[a]\nb = 1\n  2\n\n  3\n# c\n  4\nc: 5")
def test_pips_files_are_read_as_configparser_reads_them(text: str) -> None:
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(text)
    except configparser.Error:
        list(read_ini(text))  # whatever it is, it is read to its end
        return
    expected = {(name, key): value for name in parser.sections() for key, value in parser.items(name)}
    expected |= {(parser.default_section, key): value for key, value in parser.defaults().items()}
    own = {(section, key): value for section, key, value, _ in read_ini(text)}
    if not parser.defaults():
        assert {key: " ".join(value.split()) for key, value in own.items()} == {
            key: " ".join((value or "").split()) for key, value in expected.items()
        }


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200), st.binary(max_size=200))
def test_whatever_stands_in_these_files_they_are_read(tmp_path: Path, one: bytes, other: bytes) -> None:
    (tmp_path / "pip.conf").write_bytes(b"[global]\nconstraint = c.txt\n" + one)
    (tmp_path / "uv.toml").write_bytes(b'constraint-dependencies = ["torch<3", 7]\n' + one)
    (tmp_path / "c.txt").write_bytes(other)
    own = {"PIP_CONFIG_FILE": str(tmp_path / "pip.conf"), "UV_CONFIG_FILE": str(tmp_path / "uv.toml")}
    host = LiveHost()
    for found in (
        pip_settings(host, own, "", str(tmp_path), TORCH),
        uv_settings(host, own, str(tmp_path), TORCH),
    ):
        assert isinstance(found, InstallerSettings)
    read_constraints(host, [str(tmp_path / "c.txt")], "/", TORCH)


# --- uv's configuration -----------------------------------------------------------------------------


def test_uv_reads_the_nearest_project_the_users_file_and_the_systems(tmp_path: Path) -> None:
    files = {
        "/w/pyproject.toml": "[tool.uv]\nconstraint-dependencies = [\n  'torch<2.9',\n]\noffline = true\n",
        "/home/me/.config/uv/uv.toml": 'index-url = "https://u:p@user.example/simple"\n',
        "/etc/uv/uv.toml": 'index-url = "https://sys.example/simple"\n[pip]\ntarget = "/x"\nno-binary = [":all:"]\n',
    }
    found = uv(tmp_path, files)
    assert found.constraints == (Constraint("torch", "<2.9", "", "/w/pyproject.toml, line 3"),)
    assert (found.offline, found.index_url) == (True, "https://***@user.example/simple")
    assert (found.elsewhere, found.no_binary) == ({"target": "/x"}, (":all:",))
    assert found.sources["target"] == "/etc/uv/uv.toml, line 3"
    assert uv(tmp_path, files, UV_NO_CONFIG="1") == InstallerSettings()


def test_the_indexes_of_uv_are_those_that_every_package_may_come_from(tmp_path: Path) -> None:
    text = """[[index]]
name = "a"
url = "https://a.example/simple"
[[index]]
url = "https://b.example/simple"
default = true
[[index]]
name = "c"
url = "https://c.example/simple"
explicit = true
"""
    found = uv(tmp_path, {"/w/uv.toml": text}, UV_INDEX="mine=https://mine.example/simple")
    assert found.extra_indexes == ("https://mine.example/simple", "https://a.example/simple")
    assert found.index_url == "https://b.example/simple"


# --- the choice of builds ---------------------------------------------------------------------------


def configured(settings: InstallerSettings, **parts: Any) -> Machine:
    patient = environment(torch("2.9.1+cpu"), installers=Installers(pip=settings, uv=settings), **parts)
    return change(nvidia_machine(nvidia_gpu(), torch=torch("2.9.1+cpu")), environment=known(patient, "test"))


def best(machine: Machine) -> Fix:
    return builds.replacements(Situation(machine, MATRIX), machine.gpus, keep=machine.torch)[0]


def chosen(machine: Machine) -> str:
    remedy = next(one for one in best(machine).remedies if isinstance(one, ReplaceTorch))
    return f"{remedy.version}+{remedy.build}"


def limit(specifier: str, name: str = "torch", marker: str = "") -> InstallerSettings:
    return InstallerSettings(constraints=(Constraint(name, specifier, marker, "/c.txt, line 2"),))


def test_a_constraint_that_excludes_the_best_build_leads_to_the_best_build_inside_it() -> None:
    assert chosen(configured(InstallerSettings())).startswith("2.9.1+")
    assert chosen(configured(limit(">=2.10,<2.11"))).startswith("2.10.0+")
    fix = best(configured(limit(">=2.10,<2.11")))
    assert "not 2.9.1+cu" in fix.title and "torch>=2.10,<2.11 (/c.txt, line 2)" in fix.title
    assert chosen(configured(limit("==2.9.1"))).startswith("2.9.1+")
    assert chosen(configured(limit("==2.9.1+cu126"))) == "2.9.1+cu126"


def test_a_constraint_for_another_python_or_package_excludes_nothing() -> None:
    plain = best(configured(InstallerSettings()))
    assert best(configured(limit("<2", marker="python_version < '3.9'"))) == plain
    assert best(configured(limit("<1", name="torchvision"))) == plain  # it is not installed


def test_a_constraint_on_a_companion_counts_where_that_comes_along() -> None:
    paired = configured(limit("==0.25.0", name="torchvision"), packages={"torchvision": "0.24.1+cpu"})
    assert chosen(paired).startswith("2.10.0+")


def test_where_a_constraint_leaves_nothing_the_line_to_change_is_named() -> None:
    fix = best(configured(limit("==1.2")))
    assert [type(remedy) for remedy in fix.remedies] == [Manual]
    assert "torch==1.2 (/c.txt, line 2)" in fix.remedies[0].text


def test_without_an_index_only_the_wheels_that_are_there_can_be_chosen() -> None:
    wheel = "torch-2.10.0+cu126-cp312-cp312-manylinux_2_28_x86_64.whl"
    offline = InstallerSettings(no_index=True, find_links=("/wheels",), wheels=(wheel,))
    machine = configured(offline)
    assert chosen(machine) == "2.10.0+cu126"
    (step,) = steps(machine, *best(machine).remedies)
    assert isinstance(step, RunStep) and "--index-url" not in step.argv
    fix = best(configured(change(offline, wheels=(wheel.replace("cp312", "cp311"),))))
    assert "/wheels lacks it" in fix.remedies[0].text
    unread = configured(change(offline, wheels=None))
    assert chosen(unread).startswith("2.9.1+")  # a page of links is not read


@pytest.mark.parametrize(
    ("wheel", "lies_there"),
    [
        ("onnxruntime_gpu-1.22.0-cp312-cp312-manylinux_2_27_x86_64.whl", True),
        ("onnxruntime_gpu-1.22.0-cp311-cp311-manylinux_2_27_x86_64.whl", False),
        ("onnxruntime_gpu-1.22.0-cp38-abi3-manylinux_2_27_x86_64.whl", True),
        ("onnxruntime_gpu-1.21.0-cp312-cp312-manylinux_2_27_x86_64.whl", False),
        ("torch-2.10.0+cu126-cp312-cp312-manylinux_2_28_x86_64.whl", False),
    ],
)
def test_without_an_index_any_package_comes_from_the_folders_of_wheels(
    wheel: str, lies_there: bool, tmp_path: Path
) -> None:
    (tmp_path / wheel).touch()
    (tmp_path / "README").touch()
    found = with_wheels(LiveHost(), InstallerSettings(no_index=True, find_links=(str(tmp_path),)), "/")
    (step,) = steps(configured(found), ReinstallPackage("onnxruntime-gpu", "1.22.0"))
    assert isinstance(step, RunStep) is lies_there


# --- the commands -----------------------------------------------------------------------------------

OWN = ReplaceTorch(version="2.10.0", build="cu128", origin="pypi")
OTHERS = ReplaceTorch(
    version="2.10.0", build="cu128", origin="download.pytorch.org", index_url="https://x.example/cu128"
)


def steps(machine: Machine, *remedies: Any) -> tuple[Step, ...]:
    return steps_for_all(remedies, place(machine), Situation(machine, MATRIX))


def command(machine: Machine, remedy: Any = OTHERS) -> str:
    runs = [step for step in steps(machine, remedy) if isinstance(step, RunStep)]
    return " ".join(runs[-1].argv)


def by_hand(machine: Machine, remedy: Any = OTHERS) -> str:
    found = steps(machine, remedy)
    assert all(isinstance(step, ManualStep) for step in found), found
    return "\n".join(step.text for step in found if isinstance(step, ManualStep))


def with_tools(installers: Installers, **parts: Any) -> Machine:
    patient = environment(torch("2.9.1+cpu"), installers=installers, **parts)
    return change(nvidia_machine(nvidia_gpu(), torch=torch("2.9.1+cpu")), environment=known(patient, "test"))


def test_a_plain_version_is_meant_exactly_where_another_index_may_have_another_build() -> None:
    extra = InstallerSettings(extra_indexes=("https://x.example/cpu",))
    assert command(configured(extra), OWN).endswith("torch===2.10.0")
    assert "=== keeps out the builds" in steps(configured(extra), OWN)[-1].why
    assert command(configured(InstallerSettings()), OWN).endswith("torch==2.10.0")
    assert "===" not in steps(configured(InstallerSettings()), OWN)[-1].why
    assert command(configured(extra), OTHERS).endswith("torch==2.10.0+cu128")
    uv_made = configured(extra, uv_managed=True)
    assert command(uv_made, OWN).endswith("--index-strategy unsafe-best-match torch===2.10.0")
    assert "--index https://x.example/cu128" in command(uv_made, OTHERS)
    folder = InstallerSettings(find_links=("/wheels",), wheels=())
    assert command(configured(folder), OWN).endswith("torch==2.10.0"), "it has no wheel of torch"


def test_a_command_takes_back_what_would_lead_it_elsewhere() -> None:
    found = InstallerSettings(elsewhere={"target": "/x"}, user=True, no_binary=(":all:",))
    assert command(configured(found)).endswith("--target= --no-user --only-binary=:all: torch==2.10.0+cu128")
    told = by_hand(configured(change(found, sources={"target": "/uv.toml, line 3"}), uv_managed=True))
    assert told.startswith(
        "target (/uv.toml, line 3) makes uv install into /x, not into this environment: remove it."
    )


def test_what_a_package_requires_comes_along_though_pip_is_told_to_leave_it_out(tmp_path: Path) -> None:
    for content in ("no-deps = true", "no_dependencies = yes", "no-deps = 0"):
        found = pip(tmp_path / content[:9], {"/venv/pip.conf": f"[install]\n{content}\n"})
        *_, step = steps(configured(found), ReplacePackage("jinja2", ""))
        assert isinstance(step, RunStep)
        assert step.env == ({} if content.endswith("0") else {"PIP_NO_DEPS": "0"})


def test_a_command_of_uv_leaves_out_the_variables_that_would_lead_it_elsewhere(tmp_path: Path) -> None:
    found = uv(tmp_path, {}, UV_TORCH_BACKEND="cpu", UV_EXCLUDE_NEWER="2025-06-01")
    assert command(configured(found, uv_managed=True)).startswith(
        "env -u UV_TORCH_BACKEND -u UV_EXCLUDE_NEWER uv pip install --python /venv/bin/python "
    )
    assert command(configured(found)).startswith("/venv/bin/python -m pip install"), "pip reads neither"
    span = uv(tmp_path, {}, UV_EXCLUDE_NEWER="7 days")
    assert command(configured(span, uv_managed=True)).startswith("env -u UV_EXCLUDE_NEWER uv "), (
        "its index has no dates"
    )
    assert command(configured(span, uv_managed=True), OWN).startswith("uv pip install ")


@pytest.mark.parametrize("value", ["2025-06-01", "7 days"])
def test_a_project_follows_a_date_that_its_next_sync_asks_again(tmp_path: Path, value: str) -> None:
    found = uv(tmp_path, {}, UV_EXCLUDE_NEWER=value)
    project = {"uv_managed": True, "lock": "uv.lock", "project": "/w"}
    told = by_hand(configured(found, **project))
    assert told.startswith("exclude-newer (UV_EXCLUDE_NEWER) makes uv leave out what is newer")
    assert "uv sync" in told
    assert command(configured(InstallerSettings(), **project)).startswith("uv sync")


def test_of_several_torchvisions_that_match_one_is_taken_that_the_constraints_admit() -> None:
    patient = torch("2.14.1+cu130", origin="pypi", build="cu130")
    for limit, wanted in (("<=0.29.1", "0.29.1"), ("<1", "0.29.2"), ("<0.29", "0.29.2")):
        settings = InstallerSettings(constraints=(Constraint("torchvision", limit, "", "/c, line 1"),))
        here = environment(
            patient, packages={"torchvision": "0.24.1"}, installers=Installers(pip=settings, uv=settings)
        )
        machine = change(nvidia_machine(nvidia_gpu(), torch=patient), environment=known(here, "test"))
        assert f"; {wanted} matches it" in finding(machine, "torchvision-mismatch").message, limit


def test_a_date_of_uv_hides_nothing_that_is_installed(tmp_path: Path) -> None:
    settings = uv(tmp_path, {"/w/pyproject.toml": '[tool.uv]\nexclude-newer = "2026-06-01"\n'})
    machine = configured(settings, uv_managed=True)
    again, newer = ReinstallPackage("mpmath", "1.3.0"), ReplacePackage("mpmath", "==1.3.0")
    assert command(machine, again).startswith("uv pip install ")
    assert "exclude-newer (/w/pyproject.toml" in by_hand(machine, newer)
    assert "exclude-newer" in by_hand(machine, ReinstallPackage("torch", "2.9.1", index_url=OTHERS.index_url))


@pytest.mark.parametrize(("value", "refused"), [("2025-06-01T00:00:00Z", (OTHERS, OWN)), ("1 week", (OTHERS,))])
def test_a_date_in_uvs_own_file_is_named_because_no_option_overrides_it(
    tmp_path: Path, value: str, refused: tuple[ReplaceTorch, ...]
) -> None:
    found = uv(tmp_path, {"/w/uv.toml": f'exclude-newer = "{value}"\n'})
    machine = configured(found, uv_managed=True)
    for remedy in refused:
        assert "exclude-newer (/w/uv.toml, line 1) makes uv leave out what is newer" in by_hand(machine, remedy)
    for remedy in {OTHERS, OWN} - {*refused}:
        assert command(machine, remedy).startswith("uv pip install ")


def test_what_no_command_can_meet_is_told_and_not_run() -> None:
    dry = InstallerSettings(dry_run=True, sources={"dry_run": "/venv/pip.conf, line 2"})
    assert "dry-run (/venv/pip.conf, line 2) makes pip install nothing" in by_hand(configured(dry))
    hashes = InstallerSettings(require_hashes=True, sources={"require_hashes": "/etc/pip.conf, line 7"})
    assert "require-hashes (/etc/pip.conf, line 7)" in by_hand(configured(hashes))
    again = ReinstallPackage("numpy", "2.4.0")
    pinned = configured(limit("==2.3.0", name="numpy"))
    assert "numpy==2.4.0 cannot be installed: the constraint numpy==2.3.0" in by_hand(pinned, again)
    offline = InstallerSettings(offline=True, sources={"offline": "UV_OFFLINE"})
    assert "offline (UV_OFFLINE)" in by_hand(configured(offline, uv_managed=True))


@pytest.mark.parametrize(
    ("wanted", "constraint", "refused"),
    [
        (">=0.50", "==0.41.3.post2", True),
        (">=0.50", "<0.50", True),
        (">=0.50", "<=0.49.2,>=0.40", True),
        ("~=12.0", "<12", True),
        (">=0.50", "<0.51", False),
        (">=0.50,!=0.50", "<1", False),
        ("~=12.0", ">=12.5", False),
        ("~=12.0", "@ file:///wheels/bitsandbytes-12.1-py3-none-any.whl", False),
        ("<2", "==1.26.*", False),
        ("<2", "==1.26.4", False),
        ("", "==0.41", False),
    ],
)
def test_a_constraint_that_leaves_nothing_of_a_range_is_named(wanted: str, constraint: str, refused: bool) -> None:
    remedy = ReplacePackage("bitsandbytes", wanted)
    machine = configured(limit(constraint, "bitsandbytes"))
    if refused:
        told = f"bitsandbytes{wanted} cannot be installed: the constraint bitsandbytes{constraint} (/c.txt, line 2)"
        assert told in by_hand(machine, remedy)
    else:
        assert "pip install" in command(machine, remedy)


@pytest.mark.parametrize(
    ("remedy", "requires", "named"),
    [
        (ReplacePackage("cupy-cuda12x", "==14.2.0", extra="ctk"), (), True),
        (ReplacePackage("cupy-cuda12x", "==14.2.0"), (), False),
        (ReplacePackage("uvicorn", "==0.40", extra="standard"), (), False),
        (
            ReplacePackage("tensorflow", "==2.19.0", extra="and-cuda"),
            ("nvidia-cublas-cu12>=12.5; extra == 'and-cuda'",),
            True,
        ),
        (
            ReplacePackage("tensorflow", "==2.15.0", extra="and-cuda"),
            ("nvidia-cublas-cu12==12.2; extra == 'and-cuda'",),
            False,
        ),
    ],
)
def test_the_libraries_that_torch_pins_stay_where_an_extra_brings_others(
    remedy: ReplacePackage, requires: tuple[str, ...], named: bool
) -> None:
    pins = ("nvidia-cublas-cu12==12.8.4.1", "filelock")
    packages = (
        Distribution("torch", "2.9.1", path="/site/torch", installer="pip", requires=pins),
        Distribution("tensorflow", "2.19.0", path="/site/tf", installer="pip", requires=requires),
    )
    machine = configured(InstallerSettings(), distributions=known(packages, "/site"))
    assert (" torch==2.9.1" in f"{command(machine, remedy)} ") is named


def test_the_tool_is_one_that_is_there() -> None:
    here = Installers(programs=known((), "PATH"), ensurepip=known(True, "x"))
    assert command(with_tools(here, uv_managed=True)).startswith("/venv/bin/python -m pip install")
    bare = with_tools(here, has_pip=False)
    first, last = steps(bare, OTHERS)
    assert isinstance(first, RunStep) and isinstance(last, RunStep)
    assert first.argv == ("/venv/bin/python", "-m", "ensurepip")
    assert last.argv[:4] == ("/venv/bin/python", "-m", "pip", "install")
    assert "no pip, no uv on PATH" in by_hand(with_tools(change(here, ensurepip=known(False, "x")), has_pip=False))
    with_uv = change(here, programs=known(("uv",), "PATH"))
    assert command(with_tools(with_uv, has_pip=False)).startswith("uv pip install")


def test_a_pip_that_does_not_run_makes_way_for_a_new_one() -> None:
    gone = ("/venv/lib/python3.12/site-packages/pip", "/venv/lib/python3.12/site-packages/pip-24.0.dist-info")
    here = Installers(programs=known((), "PATH"), ensurepip=known(True, "x"))
    here = change(here, pip_fails="ImportError: x", pip_files=gone)
    first, second, last = steps(with_tools(here), OTHERS)
    assert isinstance(first, RunStep) and isinstance(second, RunStep) and isinstance(last, RunStep)
    assert first.argv == ("rm", "-rf", *gone)
    assert second.argv == ("/venv/bin/python", "-m", "ensurepip")
    assert last.argv[:4] == ("/venv/bin/python", "-m", "pip", "install")
    assert "no working pip" in by_hand(with_tools(change(here, ensurepip=known(False, "x"))))
    with_uv = change(here, programs=known(("uv",), "PATH"))
    assert command(with_tools(with_uv)).startswith("uv pip install")


def test_nothing_is_run_where_the_environment_cannot_be_changed() -> None:
    closed = Installers(writable=known(False, "/venv/lib/python3.12/site-packages"))
    assert "/venv/lib/python3.12/site-packages cannot be written to" in by_hand(with_tools(closed))
    mounted = Installers(writable=change(closed.writable, why="read-only file system"))
    assert "/venv/lib/python3.12/site-packages lies on a read-only file system" in by_hand(with_tools(mounted))
    copy = TorchCopy("/home/me/.local/lib/python3.12/site-packages/torch", "2.9.1+cpu", "user site")
    own = torch("2.9.1+cpu", copies=(copy,))
    mine = change(environment(own, installers=closed), kind="system", prefix="/usr", interpreter="/usr/bin/python3")
    assert "pip install --user" in by_hand(change(nvidia_machine(), environment=known(mine, "test")))
    inside = change(mine, kind="conda", prefix="/opt/conda", installers=Installers())
    text = by_hand(change(nvidia_machine(), environment=known(inside, "test")))
    assert "pip install --user" in text, "conda's Python, too, looks there before its own folder"
    gone = Installers(interpreter=known(False, "/venv/bin/python"))
    assert "the Python that this environment was made with is gone" in by_hand(with_tools(gone))
    project = with_tools(closed, lock="uv.lock", project="/proj")
    assert "cannot be written to" in by_hand(project)


@pytest.mark.parametrize(("folders", "runs"), [("", False), ('find-links = ["/wheels"]\n', True)])
def test_uvs_file_that_forbids_every_index_is_named(tmp_path: Path, folders: str, runs: bool) -> None:
    settings = uv(tmp_path, {"/home/me/.config/uv/uv.toml": f"{folders}no-index = true\n"})
    found = configured(settings, uv_managed=True)
    if runs:
        assert command(found).startswith("uv pip install")
    else:
        text = by_hand(found)
        assert "/home/me/.config/uv/uv.toml" in text and "forbids every index" in text and "\nuv pip install" in text


def test_a_project_whose_tool_is_missing_is_shown() -> None:
    nothing = Installers(programs=known((), "PATH"))
    for lock, tool in (("uv.lock", "uv"), ("poetry.lock", "poetry"), ("pdm.lock", "pdm")):
        text = by_hand(with_tools(nothing, lock=lock, project="/proj"))
        assert text.startswith(f"{tool} is not on PATH.") and f"{tool} add" in text


@pytest.mark.parametrize("lacks", ["RECORD", "METADATA"])  # pip stops without the one, and needs the other to see it
def test_remains_without_record_are_removed_first_and_nothing_outside_the_environment(lacks: str) -> None:
    site = "/venv/lib/python3.12/site-packages"
    lost = Distribution("torch", "2.9.1+cpu", f"{site}/torch-2.9.1+cpu.dist-info", lacks=(lacks,))
    patient = change(environment(torch("2.9.1+cpu")), distributions=known((lost,), site))
    machine = change(nvidia_machine(), environment=known(patient, "test"))
    first, *_ = steps(machine, OTHERS)
    assert isinstance(first, RunStep)
    assert first.argv[:4] == ("rm", "-rf", f"{site}/torch-2.9.1+cpu.dist-info", f"{site}/torch")
    outside = change(lost, path="/home/me/.local/lib/python3.12/site-packages/torch-2.9.1+cpu.dist-info")
    machine = change(machine, environment=known(change(patient, distributions=known((outside,), site)), "test"))
    assert "rm" not in [step.argv[0] for step in steps(machine, OTHERS) if isinstance(step, RunStep)]
    of_apt = change(lost, path="/usr/lib/python3/dist-packages/torch-2.9.1.dist-info", installer="debian")
    for apt in (of_apt, change(of_apt, installer="")):
        own = change(patient, distributions=known((apt,), site), kind="system", prefix="/usr")
        machine = change(machine, environment=known(own, "test"))
        assert "rm" not in [step.argv[0] for step in steps(machine, OTHERS) if isinstance(step, RunStep)]


# --- the real tools ---------------------------------------------------------------------------------


class Patient:
    """A venv, its variables, and the plan that gpudoctor makes for it."""

    def __init__(self, folder: Path, base: str, **environ: str) -> None:
        self.prefix = folder / "venv"
        self.environ = {**only_these(base, folder / "cache"), "HOME": str(folder), **environ}
        self.host = LiveHost(self.environ)

    def run(self, argv: tuple[str, ...]) -> None:
        done = subprocess.run(argv, env=self.environ, check=False, capture_output=True, text=True)
        assert done.returncode == 0, f"{shlex.join(argv)}\n{done.stdout}{done.stderr}"

    def environment(self) -> PythonEnvironment:
        found = probe_environment(self.host, str(self.prefix), {}).value
        assert found is not None
        return change(found, installers=probe_installers(self.host, found, ("torch",), commands=True))

    def repair(self, remedy: ReplaceTorch) -> None:
        machine = change(nvidia_machine(nvidia_gpu()), environment=known(self.environment(), "test"))
        for step in steps(machine, remedy):
            assert isinstance(step, RunStep), step
            self.run(step.argv)

    def version(self) -> str:
        found = self.environment().distribution("torch")
        return found.version if found else ""


MakeVenv = Callable[..., Patient]


@pytest.fixture(scope="module")
def with_torch(tmp_path_factory: pytest.TempPathFactory, base: str) -> Path:
    """A venv with a CPU build of torch."""
    patient = Patient(tmp_path_factory.mktemp("with_torch"), base)
    python = make_venv_with_pip(patient.prefix)
    patient.run((str(python), "-m", "pip", "install", "-q", "--index-url", f"{base}/cpu", "torch==2.13.0+cpu"))
    return patient.prefix


@pytest.fixture
def venv(tmp_path: Path, base: str, with_torch: Path) -> MakeVenv:
    """A function that makes a copy of it, with more variables."""

    def copied(**environ: str) -> Patient:
        patient = Patient(tmp_path, base, **environ)
        shutil.copytree(with_torch, patient.prefix, symlinks=True)
        return patient

    return copied


FROM_PYPI = ReplaceTorch("2.13.0", "cu130", "pypi")


def test_pip_takes_the_plain_build_beside_an_index_of_cpu_builds(venv: MakeVenv, base: str) -> None:
    patient = venv(PIP_EXTRA_INDEX_URL=f"{base}/cpu")
    patient.repair(FROM_PYPI)
    assert patient.version() == "2.13.0"


def test_pip_installs_into_the_environment_whatever_it_is_configured_to(
    venv: MakeVenv, tmp_path: Path, base: str
) -> None:
    conf = tmp_path / "pip.conf"
    conf.write_text(f"[install]\ntarget = {tmp_path}/elsewhere\nuser = true\nno-binary = :all:\n")
    patient = venv(PIP_CONFIG_FILE=str(conf))
    patient.repair(ReplaceTorch("2.13.0", "cu128", "download.pytorch.org", f"{base}/cu128"))
    assert patient.version() == "2.13.0+cu128"
    assert not (tmp_path / "elsewhere").exists()


def test_a_pip_that_is_configured_for_another_python_is_told_its_own(
    venv: MakeVenv, tmp_path: Path, base: str
) -> None:
    conf = tmp_path / "pip.conf"
    conf.write_text(f"[global]\npython = {tmp_path}/other/bin/python\n")
    patient = venv(PIP_CONFIG_FILE=str(conf))
    patient.repair(ReplaceTorch("2.13.0", "cu128", "download.pytorch.org", f"{base}/cu128"))
    assert patient.version() == "2.13.0+cu128"


def test_pip_replaces_a_torch_without_record(venv: MakeVenv, base: str) -> None:
    patient = venv()
    (record,) = patient.prefix.glob("lib/python*/site-packages/torch-*/RECORD")
    record.unlink()
    patient.repair(ReplaceTorch("2.12.0", "cu128", "download.pytorch.org", f"{base}/cu128"))
    assert patient.version() == "2.12.0+cu128"
    assert len(list(patient.prefix.glob("lib/python*/site-packages/torch-*"))) == 1


@needs_uv
def test_uv_takes_the_build_that_is_meant_beside_other_indexes(tmp_path: Path, base: str) -> None:
    patient = Patient(tmp_path, base, UV_EXTRA_INDEX_URL=f"{base}/cpu")
    patient.run(("uv", "venv", "--python", sys.executable, str(patient.prefix)))
    patient.repair(FROM_PYPI)
    assert patient.version() == "2.13.0"
    patient.repair(ReplaceTorch("2.13.0", "cu128", "download.pytorch.org", f"{base}/cu128"))
    assert patient.version() == "2.13.0+cu128"


# --- when it is read --------------------------------------------------------------------------------


def test_a_machine_without_problems_is_not_asked_how_it_would_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(
        "gpudoctor.probes.installers.probe_installers",
        lambda host, environment, packages, commands: asked.append(environment.prefix) or Installers(),
    )
    prefix = make_venv_with_pip(tmp_path / "venv").parent.parent
    arguments = ("--python", str(prefix), "--level", "static", "--format", "json")
    gpudoctor("check", *arguments)
    assert asked == []
    (site,) = prefix.glob("lib/python*/site-packages")
    write_torch(site, "2.9.1+cpu", None)
    gpudoctor("check", *arguments, "--gpu", "RTX 4090", "--driver", "580.95.05")
    assert asked == [str(prefix)]


def test_a_secret_in_an_index_is_in_no_report(tmp_path: Path) -> None:
    prefix = make_venv_with_pip(tmp_path / "venv").parent.parent
    own = {"PIP_CONFIG_FILE": "/dev/null", "PIP_EXTRA_INDEX_URL": "https://me:hunter22@x.example/simple"}
    own["UV_INDEX"] = "x=https://me:hunter22@x.example/simple"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))}
    result = gpudoctor("snapshot", "--private", "--python", str(prefix), environ={**kept, **own})
    assert "x.example" in result.stdout and "hunter22" not in result.stdout


def test_a_folder_that_is_not_there_is_not_called_closed() -> None:
    assert LiveHost().may_write("/nonexistent").absent
    assert LiveHost().may_write("/proc/self").value is False
    assert absent("x") != LiveHost().may_write("/tmp")


def test_a_folder_on_a_read_only_mount_is_no_matter_of_rights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert LiveHost().may_write(str(tmp_path)).why == ""
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    assert LiveHost().may_write(str(tmp_path)).why == ""
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_RDONLY))
    assert LiveHost().may_write(str(tmp_path)).why == "read-only file system"


def test_an_index_that_cannot_be_reached_is_told_before_anything_is_changed(
    base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "PIP_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # nobody listens
        lost = f"http://127.0.0.1:{closed.getsockname()[1]}/cu128"
        there = RunStep(("uv", "add", "--index", f"gpu-cu128={base}/cu128"))
        check_indexes([there])
        for argv in (
            ("uv", "add", "--index-url", lost),
            ("poetry", "source", "add", "--priority=explicit", "gpu-cu128", lost),
            ("sed", "-i", "-e", f'$a\\url = "{lost}"', "pyproject.toml"),
        ):
            with pytest.raises(RepairError, match="cannot be reached"):
                check_indexes([there, RunStep(argv)])
        pip_install = RunStep(("python", "-m", "pip", "install", "--no-deps", "onnxruntime-gpu==1.22.0"))
        uninstall = RunStep(("python", "-m", "pip", "uninstall", "-y", "onnxruntime"))
        check_indexes([uninstall], lost)
        check_indexes([uninstall, pip_install], base)
        with pytest.raises(RepairError, match="nothing was changed"):
            check_indexes([uninstall, pip_install], lost)
        monkeypatch.setenv("HTTP_PROXY", "http://proxy.example")
        check_indexes([there, RunStep(argv)])


@pytest.mark.parametrize("text", ["[install]\ndry-run = true\n", "[global]\ndry_run = 1\n", ""])
def test_a_dry_run_in_pips_settings_is_read(tmp_path: Path, text: str) -> None:
    variables = {} if text else {"PIP_DRY_RUN": "1"}
    found = pip(tmp_path, {"/venv/pip.conf": text or "[global]\n"}, **variables)
    assert found.dry_run
    assert found.sources["dry_run"] == ("/venv/pip.conf, line 2" if text else "PIP_DRY_RUN")
    assert not pip(tmp_path / "other", {"/venv/pip.conf": text}, PIP_DRY_RUN="0").dry_run


def test_pip_without_its_files_is_made_anew(venv: MakeVenv, base: str) -> None:
    patient = venv(PIP_INDEX_URL=f"{base}/pypi", PATH="/usr/bin:/bin")
    assert not patient.environment().installers.pip_fails
    (vendored,) = patient.prefix.glob("lib/python*/site-packages/pip/_vendor")
    shutil.rmtree(vendored)
    assert "pip._vendor" in patient.environment().installers.pip_fails
    patient.repair(FROM_PYPI)
    assert patient.version() == "2.13.0"


def test_a_pip_that_only_its_configuration_stops_is_left_as_it_is(venv: MakeVenv) -> None:
    patient = venv()
    (patient.prefix / "pip.conf").write_text("no section\n")
    assert not patient.environment().installers.pip_fails


def test_a_link_that_leads_nowhere_is_removed_before_its_package_comes_again(
    venv: MakeVenv, tmp_path: Path, base: str
) -> None:
    patient = venv(PIP_INDEX_URL=f"{base}/pypi", PATH="/usr/bin:/bin")
    patient.repair(FROM_PYPI)
    (folder,) = patient.prefix.glob("lib/python*/site-packages/torch")
    shutil.rmtree(folder)
    folder.symlink_to(tmp_path / "gone")
    again = ReinstallPackage("torch", "2.13.0", index_url=f"{base}/pypi")
    machine = change(nvidia_machine(nvidia_gpu()), environment=known(patient.environment(), "test"))
    for step in steps(machine, again):
        assert isinstance(step, RunStep), step
        patient.run(step.argv)
    assert folder.is_dir()
    assert not folder.is_symlink()


def test_level_static_starts_no_pip(venv: MakeVenv) -> None:
    patient = venv()
    (vendored,) = patient.prefix.glob("lib/python*/site-packages/pip/_vendor")
    shutil.rmtree(vendored)
    where = ("--python", str(patient.prefix), "--gpu", "RTX 4090", "--driver", "580.95.05")
    assert "ensurepip" not in gpudoctor("check", *where, "--level", "static").stdout
    assert "ensurepip" in gpudoctor("check", *where, PATH="/usr/bin:/bin").stdout


def test_a_prefix_of_the_configuration_is_led_back_to_the_environment() -> None:
    """With an empty --prefix pip installs below /."""
    from gpudoctor.planner.pip_steps import _options

    settings = InstallerSettings(elsewhere={"prefix": "/opt/x", "root": "/mnt", "target": "/t"})
    place: Any = SimpleNamespace(tool="pip", prefix="/v", settings=settings)
    assert set(_options(place, "")) == {"--prefix=/v", "--root=/", "--target="}
