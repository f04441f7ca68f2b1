"""Torch that no index may replace: images, Nix, boards and own builds get words, and nothing is run there."""

from __future__ import annotations

from typing import Any

import pytest

from gpudoctor.machine import CodeArchs, Jetson, Machine, known
from gpudoctor.planner.planned_steps import Permissions
from gpudoctor.planner.repair import Repair
from gpudoctor.step import ManualStep, RunStep
from tests.support.judging import plan_of
from tests.support.machines import nvidia_gpu, nvidia_machine, torch, with_environment, with_system

RTX_5090 = nvidia_gpu("NVIDIA GeForce RTX 5090", "sm_120")
OLD_CODE = known(CodeArchs(sass=("sm_70", "sm_80", "sm_86", "sm_90")), "libtorch_cuda.so")


def built_for_older_gpus(version: str, origin: str, **parts: Any) -> Machine:
    return nvidia_machine(
        RTX_5090, torch=torch(version, origin=origin, build=None, cuda="12.4", archs=OLD_CODE), **parts
    )


def ngc() -> Machine:
    return built_for_older_gpus("2.4.0a0+3bcc3cddb5.nv24.07", "ngc", container="docker")


def nix() -> Machine:
    store = "/nix/store/abc-python3-env"
    return with_environment(
        built_for_older_gpus("2.5.1", "distribution"),
        kind="system",
        prefix=store,
        interpreter=f"{store}/bin/python3",
    )


def jetson() -> Machine:
    orin = nvidia_gpu("Jetson AGX Orin", "sm_87", bdf=None, nodes=(), driver=known("nvgpu", "x"), integrated=True)
    patient = torch("2.9.1", build="cpu", has_cuda_libraries=False)
    board = known(Jetson(model="AGX Orin", l4t="36.4"), "/proc/device-tree")
    return with_system(nvidia_machine(orin, torch=patient), jetson=board, arch=known("aarch64", "uname"))


def own_build() -> Machine:
    return built_for_older_gpus("2.5.0a0+git1234567", "source")


def plan(machine: Machine) -> Repair:
    return plan_of(machine, Permissions(packages=True, system=True))


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        (ngc(), ("nvcr.io/nvidia/pytorch", "sm_120", "Do not install a torch from an index into this image")),
        (nix(), ("cudaSupport = true",)),
        (jetson(), ("L4T 36.4", "not for this board")),
        (own_build(), ('TORCH_CUDA_ARCH_LIST="12.0"', "CUDA 12.8 or newer")),
    ],
    ids=["ngc", "nix", "jetson", "own build"],
)
def test_another_image_or_origin_is_told_and_nothing_is_run(machine: Machine, words: tuple[str, ...]) -> None:
    found = plan(machine)
    (step,) = found.steps
    assert isinstance(step.step, ManualStep)
    assert all(word in step.step.text for word in words), step.step.text
    assert found.to_run == ()
    assert "pip" not in step.step.text.replace("pipeline", "")


def test_a_conda_environment_is_changed_by_conda() -> None:
    machine = with_environment(
        built_for_older_gpus("2.5.1", "conda-forge"), kind="conda", prefix="/opt/conda/envs/x", conda_tool="mamba"
    )
    (step,) = plan(machine).to_run
    assert step.argv[:5] == ("mamba", "install", "-y", "-p", "/opt/conda/envs/x")
    assert "cuda-version>=12.8,<14" in step.argv


def test_the_distributions_torch_stays_and_a_venv_of_its_own_is_proposed() -> None:
    machine = with_environment(
        built_for_older_gpus("2.5.1", "distribution"),
        kind="system",
        externally_managed=True,
        prefix="/usr",
        interpreter="/usr/bin/python3",
    )
    commands = [step.step.argv for step in plan(machine).steps if isinstance(step.step, RunStep)]
    assert commands[0] == ("/usr/bin/python3", "-m", "venv", ".venv-gpu")
    assert commands[1][0] == ".venv-gpu/bin/python"
    assert "--break-system-packages" not in commands[1]
    assert plan(machine).to_run == ()
