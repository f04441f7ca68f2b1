"""What a plan foresees of an environment, compared with what pip and uv really leave there."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from gpudoctor.finding import AnyRemedy, ReinstallPackage, RemovePackage, ReplacePackage, ReplaceTorch
from gpudoctor.machine import (
    DamagedFile,
    Distribution,
    Extension,
    FrameworkFiles,
    Frameworks,
    Machine,
    MissingLibrary,
    PythonEnvironment,
    known,
)
from gpudoctor.matrix.load import load_matrix
from gpudoctor.planner.effects import effect
from gpudoctor.planner.effects.packages import installed_by
from gpudoctor.planner.place import place
from gpudoctor.planner.plan import steps_for_all
from gpudoctor.planner.planned_steps import Permissions
from gpudoctor.planner.repair import Repair
from gpudoctor.situation import Situation
from gpudoctor.step import RunStep
from tests.support.judging import plan_of
from tests.support.machines import change, nvidia_machine, torch, with_environment
from tests.support.machines import environment as described
from tests.support.wheel_index import WheelIndex, wheel_index, write_wheel
from tests.test_fix_end_to_end import RTX_4070, TOOLS, Patient


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WheelIndex]:
    with wheel_index(tmp_path_factory.mktemp("index")) as served:
        for version in ("1.26.4", "2.1.0"):
            write_wheel(served.folder / "pypi" / "numpy", "numpy", version, {"numpy/__init__.py": b""})
        yield served


def read(patient: Patient) -> Machine:
    """The machine as gpudoctor reads it now."""
    _, report = patient.examined("check", "--level", "static")
    return msgspec.convert(report["machine"], Machine)


def told(environment: PythonEnvironment | None) -> dict[str, object]:
    """What checks ask first of an environment."""
    assert environment is not None
    torch = environment.torch.value
    listed = {one.name: one.version for one in environment.distributions.value or ()}
    own = ("pip", "setuptools", "wheel", "triton")  # what the made wheels do not require
    return {
        "packages": {name: version for name, version in listed.items() if name not in own},
        "damaged": [one.name for one in environment.distributions.value or () if one.damaged or one.emptied],
        "torch": torch and (torch.version, torch.build, torch.cuda, len(torch.copies), torch.damaged),
    }


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize(
    "remedies",
    [
        (
            ReplaceTorch(
                version="2.9.1", build="cu128", origin="download.pytorch.org", index_url="{}/cu128",
                companions=(("torchvision", "0.24.1"),),
            ),
        ),
        (ReplacePackage("numpy", "==1.26.4"),),
        (ReplacePackage("numpy", "<2"),),
        (RemovePackage("torchvision"),),
        (RemovePackage("torch"),),
        (ReinstallPackage("torch", "2.9.1+cpu", index_url="{}/cpu"),),
    ],
    ids=["another torch", "a version", "a range", "a removal", "no torch", "again"],
)  # fmt: skip
def test_the_environment_is_afterwards_as_it_was_foreseen(
    tmp_path: Path, index: WheelIndex, tool: str, remedies: tuple[AnyRemedy, ...]
) -> None:
    remedies = tuple(
        msgspec.structs.replace(one, index_url=one.index_url.format(index.url))
        if isinstance(one, (ReplaceTorch, ReinstallPackage))
        else one
        for one in remedies
    )
    installed = (("cpu", "torch==2.9.1+cpu", "torchvision==0.24.1+cpu"), ("pypi", "numpy==2.1.0"))
    patient = Patient(tmp_path, index, tool, RTX_4070, *installed)
    before = read(patient)
    situation = Situation(before, load_matrix((str(index.overlay()),)))
    foreseen = before
    for remedy in remedies:
        foreseen = effect(remedy, situation.on(foreseen)).machine
    for step in steps_for_all(remedies, place(before), situation):
        assert isinstance(step, RunStep), step
        argv = [word.replace("~/", f"{tmp_path}/") for word in step.argv]  # a report leaves the home folder out
        done = subprocess.run(argv, env=patient.environ, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
    real, predicted = told(read(patient).environment.value), told(foreseen.environment.value)
    if any(isinstance(one, ReplacePackage) and one.specifier == "<2" for one in remedies):
        # Which version a range leads to is the index's affair: only that it is in the range is foreseen.
        versions = [facts["packages"].pop("numpy") for facts in (real, predicted)]  # type: ignore[attr-defined]
        assert all(str(version).startswith("1.") for version in versions)
    assert json.dumps(predicted, sort_keys=True) == json.dumps(real, sort_keys=True)


@pytest.mark.parametrize(
    ("specifier", "version"),
    [
        ("==2.9.1", "2.9.1"),
        ("==0.9.*", "0.9"),
        (">=4.10,<5", "4.10"),
        ("<2", "1.99"),
        ("<2.1.0", "2.0.99"),
        ("", ""),
        (">=2.2,>=2.0.0,<2.8", "2.2"),
    ],
)
def test_a_range_leads_to_a_version_inside_it(specifier: str, version: str) -> None:
    assert installed_by(specifier) == version


@pytest.mark.parametrize(("version", "kept"), [("2.9.1", True), ("2.9.1+cu128", True), ("2.9.0", False)])
def test_the_index_brings_the_same_torch_back_under_its_shorter_name(version: str, kept: bool) -> None:
    situation = Situation(nvidia_machine(torch=torch("2.9.1+cu128")), load_matrix())
    environment = effect(ReinstallPackage("torch", version), situation).machine.environment.value
    assert environment is not None and environment.torch.value is not None
    assert (environment.torch.value.cuda == "12.8") is kept


@pytest.mark.parametrize(("version", "kept"), [("1.22.0", True), ("1.23.0", False)])
def test_the_same_files_again_need_the_same_libraries(version: str, kept: bool) -> None:
    needs = Extension("onnxruntime-gpu", "1.22.0", "/site/cuda.so", missing=(MissingLibrary("libcublas.so.12"),))
    patient = change(described(None, packages={"onnxruntime-gpu": "1.22.0"}), extensions=(needs,))
    situation = Situation(change(nvidia_machine(), environment=known(patient, "test")), load_matrix())
    after = effect(ReinstallPackage("onnxruntime-gpu", version), situation).machine
    assert after.environment.value is not None
    assert after.environment.value.extensions == ((needs,) if kept else ())


def commands(plan: Repair) -> list[str]:
    """The requirements that the steps of a plan name, step by step."""
    return [" ".join(word for word in step.argv if "==" in word) for step in plan.to_run]


def test_a_damaged_package_without_its_libraries_needs_both_steps() -> None:
    """`pip uninstall onnxruntime` took files of onnxruntime-gpu along, and its CUDA libraries were never there."""
    damaged = (DamagedFile("/site/onnxruntime/__init__.py", "missing"),)
    package = Distribution("onnxruntime-gpu", "1.22.0", path="/site/o.dist-info", installer="pip", damaged=damaged)
    needs = Extension(
        "onnxruntime-gpu", "1.22.0", "/site/onnxruntime/capi/libonnxruntime_providers_cuda.so",
        needs=("libcublas.so.12",), missing=(MissingLibrary("libcublas.so.12"),),
    )  # fmt: skip
    machine = nvidia_machine(torch=None)
    machine = with_environment(machine, distributions=known((package,), "/site"), extensions=(needs,), has_pip=True)
    plan = plan_of(machine, Permissions(packages=True))
    assert commands(plan) == ["onnxruntime-gpu==1.22.0", "onnxruntime-gpu[cuda,cudnn]==1.22.0"]
    assert [step.because for step in plan.steps] == [("GPD469",), ("GPD445",)]
    assert plan.predicted.left == ()


def test_a_build_that_was_overwritten_counts_again_once_it_is_written_again() -> None:
    """The files that were read are those of onnxruntime, which was installed over onnxruntime-gpu."""
    both = tuple(
        Distribution(name, "1.22.0", path="/site", installer="pip") for name in ("onnxruntime", "onnxruntime-gpu")
    )
    needs = Extension(
        "onnxruntime-gpu", "1.22.0", "/site/onnxruntime/capi/libonnxruntime_providers_cuda.so",
        needs=("libcublas.so.12",), missing=(MissingLibrary("libcublas.so.12"),),
    )  # fmt: skip
    files = Frameworks(others=(FrameworkFiles("onnxruntime", "1.22.0", owner="onnxruntime", source="/site"),))
    machine = with_environment(
        nvidia_machine(torch=None),
        distributions=known(both, "/site"),
        extensions=(needs,),
        frameworks=files,
        has_pip=True,
    )
    plan = plan_of(machine, Permissions(packages=True))
    assert commands(plan)[-2:] == ["onnxruntime-gpu==1.22.0", "onnxruntime-gpu[cuda,cudnn]==1.22.0"]
    assert plan.predicted.left == ()


@pytest.mark.parametrize("damaged", [False, True])
def test_only_the_extra_brings_the_libraries_of_a_framework(damaged: bool) -> None:
    lost = (DamagedFile("/site/tensorflow/__init__.py", "missing"),) if damaged else ()
    package = Distribution("tensorflow", "2.19.0", path="/site/t.dist-info", installer="pip", damaged=lost)
    files = FrameworkFiles(
        "tensorflow", "2.19.0", build="tensorflow", not_found=known(("libcudnn.so.9",), "test"), source="/site"
    )
    machine = with_environment(
        nvidia_machine(torch=None), distributions=known((package,), "/site"), has_pip=True,
        frameworks=Frameworks(others=(files,)),
    )  # fmt: skip
    plan = plan_of(machine, Permissions(packages=True))
    assert commands(plan) == ["tensorflow==2.19.0"] * damaged + ["tensorflow[and-cuda]==2.19.0"]
    assert plan.predicted.left == ()


@pytest.mark.parametrize(
    "packages",
    [
        {"jax-cuda12-plugin": "0.6.2"},
        {"jax-cuda12-plugin": "0.6.2", "jax-cuda12-pjrt": "0.6.0"},
        {"jax-cuda12-plugin": "0.4.36", "jax-cuda12-pjrt": "0.4.36"},
    ],
)
def test_an_extra_of_jax_brings_the_plugin_with_its_parts_in_one_step(packages: dict[str, str]) -> None:
    plugin = "jax-cuda12-plugin"
    asked = {plugin: (f"jax-cuda12-pjrt=={packages[plugin]}",)}
    there = {"jax": "0.6.2", "jaxlib": "0.6.2", **packages}
    listed = tuple(
        Distribution(name, version, "/s/x.dist-info", "pip", asked.get(name, ())) for name, version in there.items()
    )
    lost = FrameworkFiles(
        "jax", version="0.6.2", build=plugin, not_found=known(("libcublas.so.12",), "/s"), source="/s"
    )
    patient = nvidia_machine(torch=None, python="3.11")
    machine = with_environment(patient, frameworks=Frameworks(others=(lost,)), distributions=known(listed, "/s"))
    found = plan_of(machine).steps
    assert [planned.step.argv[-1] for planned in found] == ["jax[cuda12]==0.6.2"]
