"""The torch of a plan is the one for the driver that the same plan leaves."""

from __future__ import annotations

import pytest

from gpudoctor.machine import Machine
from gpudoctor.matrix.load import load_matrix
from gpudoctor.planner.planned_steps import Permissions
from gpudoctor.step import RunStep
from tests.support.judging import plan_of
from tests.support.machines import nvidia_gpu, nvidia_machine, torch

MATRIX = load_matrix()
GPUS = {
    "4070": nvidia_gpu("NVIDIA GeForce RTX 4070", "sm_89"),
    "5090": nvidia_gpu("NVIDIA GeForce RTX 5090", "sm_120"),
    "1080 Ti": nvidia_gpu("NVIDIA GeForce GTX 1080 Ti", "sm_61"),
    "A100": nvidia_gpu("NVIDIA A100-SXM4-80GB", "sm_80"),
}


def machine(gpu: str, driver: str, version: str, container: str | None = None) -> Machine:
    flavour = "proprietary" if gpu == "1080 Ti" else "open"
    return nvidia_machine(
        GPUS[gpu], driver=driver, flavour=flavour, torch=torch(version), python="3.11", container=container
    )


def planned(machine: Machine) -> tuple[str, list[str]]:
    """What the plan says of a driver, and the torch wheels that it installs."""
    steps = [planned.step for planned in plan_of(machine).steps]
    lines = [" ".join(step.argv) if isinstance(step, RunStep) else getattr(step, "text", "") for step in steps]
    driver = " ".join(line for line in lines if "driver" in line)
    return driver, [word for line in lines for word in line.split() if word.startswith("torch==")]


@pytest.mark.parametrize(
    ("gpu", "driver", "version", "branch"),
    [
        ("4070", "470.256.02", "2.9.1+cpu", "580"),
        ("5090", "535.183.01", "2.9.1+cpu", "580"),
        ("5090", "550.54.15", "2.6.0+cu124", "580"),
        ("1080 Ti", "390.157", "2.9.1+cu128", "580"),
        ("1080 Ti", "595.71.05", "2.9.1+cu128", "580"),
        ("1080 Ti", "595.71.05", "2.9.1+cpu", "580"),
    ],
)
def test_after_a_new_driver_comes_the_torch_for_it(gpu: str, driver: str, version: str, branch: str) -> None:
    step, wheels = planned(machine(gpu, driver, version))
    assert branch in step
    row = MATRIX.nvidia.branch(branch)
    assert row and row.latest
    none, later = planned(machine(gpu, row.latest, version))
    assert none == ""
    assert wheels == later and len(wheels) == 1


@pytest.mark.parametrize("version", ["2.9.1+cpu", "2.9.1+cu128"])
def test_in_a_container_the_driver_of_the_host_stays_where_it_knows_the_gpu(version: str) -> None:
    step, wheels = planned(machine("A100", "450.80.02", version, "docker"))
    assert (step, set(wheels)) == ("", {"torch==2.7.1+cu118"})


def test_a_torch_that_a_person_asks_for_waits_for_the_driver_that_its_build_needs() -> None:
    old = nvidia_machine(GPUS["1080 Ti"], driver="390.157", flavour="proprietary", torch=None, python="3.11")
    steps = plan_of(old, Permissions(packages=True), also=("GPD401",)).steps
    assert any("driver" in planned.step.why for planned in steps[:-1])
    install = steps[-1]
    assert isinstance(install.step, RunStep)
    assert (install.state, install.why_not) == ("shown only", "comes after the step above, which you do")
