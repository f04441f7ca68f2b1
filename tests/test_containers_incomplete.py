"""Every way to leave something out of a container that was given a GPU: only the whole one passes."""

from __future__ import annotations

from itertools import chain, combinations

import pytest
from msgspec.structs import replace

from gpudoctor.engine import judge
from gpudoctor.machine import Machine, absent, known, unknown
from gpudoctor.requirement import parse
from gpudoctor.suites import machine_checks
from tests.support.check_cases import matrix
from tests.support.machines import amd_machine, change, nvidia_machine

NVIDIA_PARTS = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0", "libcuda", "libnvidia-ml", "module", "bus")
AMD_PARTS = ("/dev/kfd", "/dev/dri", "driver", "bus")


def subsets(parts: tuple[str, ...]) -> list[frozenset[str]]:
    sizes = (combinations(parts, size) for size in range(len(parts) + 1))
    return [frozenset(subset) for subset in chain.from_iterable(sizes)]


def without_bus(machine: Machine) -> Machine:
    return change(machine, gpus=(), buses=unknown("/sys/bus/pci is hidden"))


def nvidia_without(gone: frozenset[str], container: str) -> Machine:
    machine = nvidia_machine(container=container)
    stack, path = machine.nvidia, machine.load_path
    nodes = tuple(node for node in stack.nodes.value or () if node.path not in gone)
    stack = replace(stack, nodes=known(nodes, "/dev"))
    if "module" in gone:
        stack = replace(stack, module=absent("/proc/driver/nvidia"), modules_loaded=known((), "/proc/modules"))
        machine = change(machine, gpus=tuple(replace(gpu, driver=absent("/sys")) for gpu in machine.gpus))
    found = tuple(library for library in path.found if library.name.partition(".so")[0] not in gone)
    machine = change(machine, nvidia=stack, load_path=replace(path, found=found))
    return without_bus(machine) if "bus" in gone else machine


def amd_without(gone: frozenset[str], container: str) -> Machine:
    machine = amd_machine(container=container)
    stack = machine.amd
    if "/dev/kfd" in gone:
        stack = replace(stack, kfd=absent("/dev/kfd"))
    if "/dev/dri" in gone:
        stack = replace(stack, render_nodes=known((), "/dev/dri"))
    if "driver" in gone:
        stack = replace(
            stack,
            module=absent("/sys/module"),
            modules_loaded=known((), "/proc/modules"),
            kfd=absent("/dev/kfd"),
            topology=absent("/sys/class/kfd"),
        )
        gpus = tuple(replace(gpu, driver=absent("/sys"), kfd_node=None) for gpu in machine.gpus)
        machine = change(machine, gpus=gpus)
    machine = change(machine, amd=stack)
    return without_bus(machine) if "bus" in gone else machine


def passes(machine: Machine, required: bool) -> bool:
    needs = (parse("gpu>=1"),) if required else ()
    return judge(machine, matrix(), machine_checks(), required=needs).verdict in ("ok", "warning")


@pytest.mark.parametrize("required", [True, False])
@pytest.mark.parametrize("container", ["docker", "kubernetes", "podman"])
def test_nvidia(container: str, required: bool) -> None:
    through = [gone for gone in subsets(NVIDIA_PARTS) if passes(nvidia_without(gone, container), required)]
    assert through == [frozenset(), {"libnvidia-ml"}]  # torch computes without NVML


@pytest.mark.parametrize("required", [True, False])
@pytest.mark.parametrize("container", ["docker", "kubernetes", "podman"])
def test_amd(container: str, required: bool) -> None:
    through = [gone for gone in subsets(AMD_PARTS) if passes(amd_without(gone, container), required)]
    assert through == [frozenset()]
