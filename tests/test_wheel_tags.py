"""Packages whose wheel was made for another Python or platform: what the tags say, what is told, what fixes them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpudoctor.host import LiveHost
from gpudoctor.machine import Distribution, ImportTrial, StartFault, SuspectFile, known
from gpudoctor.planner.planned_steps import Permissions
from gpudoctor.probes.python_environment import probe_environment
from tests.support.environments import shared_library, write_distribution, write_venv
from tests.support.judging import finding, plan_of, remedies, told
from tests.support.machines import change, nvidia_machine, with_environment, with_system, with_torch
from tests.support.wheel_index import WheelIndex, wheel_index, write_wheel
from tests.test_fix_end_to_end import RTX_4070, TOOLS, Patient

SLUG = "packages-for-another-python"
HERE = f"cp{sys.version_info.major}{sys.version_info.minor}"


def made_for(folder: Path, python: str, *tags: str, files: tuple[str, ...] = (), machine: str = "x86_64") -> str:
    """What is read of a package with these tags, in an environment of that Python and processor."""
    folder.mkdir()
    interpreter = folder / "base" / f"python{python}"
    interpreter.parent.mkdir()
    elf = bytearray(shared_library())
    elf[18] = {"x86_64": 62, "aarch64": 183}[machine]
    interpreter.write_bytes(elf)
    site = write_venv(folder / "venv", python, home=str(interpreter.parent))
    info = write_distribution(site, "thing", "1.0", files=dict.fromkeys(files, b"x"))
    (info / "WHEEL").write_text("Wheel-Version: 1.0\n" + "".join(f"Tag: {tag}\n" for tag in tags))
    environment = probe_environment(LiveHost({}), str(folder / "venv"), {}).value
    assert environment is not None
    thing = environment.distribution("thing")
    assert thing is not None
    return thing.made_for


@pytest.mark.parametrize(
    ("name", "tag", "expected"),
    [
        ("flash_attn", "py3-none-any", True),
        ("flash_attn", "cp311-cp311-linux_x86_64", False),
        ("click", "py3-none-any", False),
    ],
)
def test_gpu_packages_with_nothing_compiled_are_marked(tmp_path: Path, name: str, tag: str, expected: bool) -> None:
    info = write_distribution(write_venv(tmp_path / "venv", "3.11"), name, "1.0")
    (info / "WHEEL").write_text(f"Wheel-Version: 1.0\nTag: {tag}\n")
    environment = probe_environment(LiveHost({}), str(tmp_path / "venv"), {}, packages=("flash-attn",)).value
    assert environment is not None
    package = environment.distribution(name.replace("_", "-"))
    assert package is not None and package.pure == expected


@pytest.mark.parametrize(
    ("python", "tags", "expected"),
    [
        ("3.12", ["cp312-cp312-manylinux_2_17_x86_64", "cp312-cp312-manylinux2014_x86_64"], ""),
        ("3.12", ["cp311-cp311-manylinux_2_17_x86_64", "cp311-cp311-manylinux2014_x86_64"], "Python 3.11"),
        ("3.11", ["cp312-cp312-linux_x86_64"], "Python 3.12"),
        ("3.12", ["cp38-abi3-manylinux_2_17_x86_64"], ""),
        ("3.8", ["cp39-abi3-manylinux_2_17_x86_64"], "Python 3.9 and newer"),
        ("3.13t", ["cp313-cp313t-linux_x86_64"], ""),
        ("3.13t", ["cp313-cp313-linux_x86_64"], "Python 3.13"),
        ("3.13", ["cp313-cp313t-linux_x86_64"], "Python 3.13t"),
        ("3.12", ["py3-none-any"], ""),
        ("3.12", ["py2.py3-none-any"], ""),
        ("3.12", ["py3-none-manylinux2014_x86_64"], ""),
        ("3.12", ["py3-none-manylinux2014_aarch64"], "aarch64"),
        ("3.12", ["cp312-cp312-manylinux_2_17_aarch64.manylinux2014_aarch64"], "aarch64"),
        ("3.12", ["cp312-cp312-win_amd64"], "Windows"),
        ("3.12", ["cp312-cp312-macosx_11_0_arm64"], "macOS"),
        ("3.12", ["cp312-cp312-musllinux_1_2_x86_64"], "Linux with musl (Alpine)"),
        ("3.12", ["cp312-cp312-musllinux_1_2_x86_64", "cp312-cp312-manylinux_2_28_x86_64"], ""),
        ("3.12", ["cp311-cp311-linux_x86_64", "cp312-cp312-linux_x86_64"], ""),
        ("3.12", ["cp311-none-linux_x86_64"], ""),
        ("3.7", ["cp37-cp37m-manylinux1_x86_64"], ""),
        ("3.10", ["pp310-pypy310_pp73-linux_x86_64"], ""),
        ("3.12", ["nonsense", "cp-x"], ""),
        ("3.12", [], ""),
    ],
)
def test_the_tags_of_a_wheel_are_compared_with_the_examined_python(
    tmp_path: Path, python: str, tags: list[str], expected: str
) -> None:
    assert made_for(tmp_path / "x", python, *tags) == expected


def test_the_processor_is_that_of_the_interpreter(tmp_path: Path) -> None:
    tag = "cp312-cp312-manylinux2014_aarch64"
    assert made_for(tmp_path / "a", "3.12", tag, machine="aarch64") == ""
    assert made_for(tmp_path / "b", "3.12", "cp312-cp312-linux_x86_64", machine="aarch64") == "x86_64"


def test_a_module_for_this_python_counts_more_than_the_tags(tmp_path: Path) -> None:
    """Distributions build one package for several Pythons: the tags are those of the last."""
    other = "thing/x.cpython-311-x86_64-linux-gnu.so"
    files = (other, "thing/x.cpython-312-x86_64-linux-gnu.so")
    assert made_for(tmp_path / "a", "3.12", "cp311-cp311-linux_x86_64", files=files) == ""
    assert made_for(tmp_path / "b", "3.12", "cp311-cp311-linux_x86_64", files=(other,)) == "Python 3.11"


def test_what_lies_outside_the_environment_is_not_compared(tmp_path: Path) -> None:
    write_venv(tmp_path / "venv")
    info = write_distribution(tmp_path / "other", "thing", "1.0")
    (info / "WHEEL").write_text("Tag: cp311-cp311-linux_x86_64\n")
    variables = {"PYTHONPATH": str(tmp_path / "other")}
    environment = probe_environment(LiveHost(variables), str(tmp_path / "venv"), variables).value
    assert environment is not None
    thing = environment.distribution("thing")
    assert thing is not None
    assert thing.made_for == ""


def wrong(name: str, version: str, made_for: str = "Python 3.11") -> Distribution:
    return Distribution(name, version, path=f"/site/{name}.dist-info", installer="pip", made_for=made_for)


def test_all_of_them_are_one_problem_with_one_plan() -> None:
    file = SuspectFile("/site/torch/_C.so", owner="torch", problem="other-python", detail="Python 3.11")
    trial = ImportTrial(ok=False, error="ModuleNotFoundError: No module named 'torch._C'", suspects=(file,))
    machine = with_torch(nvidia_machine(), trial=known(trial, "import torch"))
    torch = machine.environment.value.distribution("torch")
    listed = (
        Distribution("sympy", "1.14", installer="pip"), wrong("markupsafe", "3.0.2"), wrong("triton", "3.5.1"),
        wrong("torch", torch.version if torch else "2.9.1+cu128"),
    )  # fmt: skip
    machine = with_environment(machine, distributions=known(listed, "/site"), has_pip=True)
    assert told(machine)[0] == (SLUG, "error")
    assert "torch-import-fails" not in dict(told(machine))
    plan = plan_of(machine, Permissions(packages=True))
    named = [word.partition("=")[0] for step in plan.to_run for word in step.argv if "==" in word]
    assert sorted(named) == ["markupsafe", "torch", "triton"]
    assert SLUG not in plan.predicted.left


@pytest.mark.parametrize(("name", "severity"), [("numpy", "error"), ("jaxlib", "error"), ("pandas", "warning")])
def test_it_is_an_error_where_gpu_work_needs_the_package(name: str, severity: str) -> None:
    jax = Distribution("jax", "0.6.2", installer="pip", requires=("jaxlib<=0.6.2,>=0.6.2", "numpy>=1.26"))
    listed = (jax, wrong(name, "0.6.2", "aarch64"))
    machine = with_environment(nvidia_machine(torch=None), distributions=known(listed, "/site"))
    assert dict(told(machine))[SLUG] == severity
    assert f"{name} 0.6.2 was made for aarch64" in finding(machine, SLUG).message


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WheelIndex]:
    with wheel_index(tmp_path_factory.mktemp("index")) as served:
        for name in ("numpy", "scipy"):
            write_wheel(served.folder / "pypi" / name, name, "1.0")
        yield served


@pytest.mark.parametrize("tool", TOOLS)
def test_they_are_fixed_only_when_all_are(tmp_path: Path, index: WheelIndex, tool: str) -> None:
    installed = (("cu128", "torch==2.9.1+cu128", "torchvision"), ("pypi", "numpy==1.0", "scipy==1.0"))
    patient = Patient(tmp_path, index, tool, RTX_4070, *installed)
    for name in ("numpy", "scipy"):
        (info,) = patient.prefix.glob(f"lib/python*/site-packages/{name}-1.0.dist-info")
        wheel = info / "WHEEL"
        text = wheel.read_text()
        wheel.unlink()  # uv links files to its cache
        wheel.write_text(text.replace("py3-none-any", "cp27-cp27m-linux_x86_64"))
    files = patient.files()

    code, done = patient.examined("fix", "--yes")
    assert (code, done["result"]["proof"]["left"]) == (0, [])
    assert done["result"]["proof"]["repaired"] == ["GPD475"]
    assert all("cp27" not in path.read_text() for path in patient.prefix.rglob("WHEEL"))
    assert patient.gpudoctor("fix", "--undo", "--yes", "--python", str(patient.prefix)).returncode == 0
    assert patient.files() == files


@pytest.mark.parametrize(
    ("name", "version", "remedy"),
    [
        ("detectron2", "0.6+cu118", "Manual"),
        ("torch-scatter", "2.1.2+pt29cu128", "Manual"),
        ("torchvision", "0.24.1+cu128", "ReinstallPackage torchvision0.24.1+cu128"),
        ("numpy", "2.3.5", "ReinstallPackage numpy2.3.5"),
    ],
)
def test_what_is_only_labelled_as_torchs_builds_are_is_not_sought_on_torchs_index(name, version, remedy):
    wrong = Distribution(name, version, f"/v/{name}.dist-info", installer="pip", made_for="Python 3.9")
    machine = with_environment(nvidia_machine(), distributions=known((wrong,), "/v"))
    assert [one.split(" (")[0] for one in remedies(machine, SLUG)] == [remedy]


def test_a_wheel_for_musl_is_told_with_the_c_library_that_is_here():
    wrong = Distribution("numpy", "2.3.5", "/v/numpy-2.3.5.dist-info", made_for="Linux with musl (Alpine)")
    base = nvidia_machine(torch=None, packages={"jax": "0.6.2"})
    there = base.environment.value.distributions.value
    listed = tuple(change(one, requires=("numpy",)) if one.name == "jax" else one for one in there)
    machine = with_environment(base, distributions=known((*listed, wrong), "/v"))
    machine = with_system(machine, libc=known("glibc 2.39", "confstr"))
    assert finding(machine, SLUG).want.endswith("with glibc")
    fault = StartFault(kind="interpreter-foreign", path="/v/bin/python", detail="aarch64")
    assert SLUG not in dict(told(with_environment(machine, start_faults=(fault,))))
