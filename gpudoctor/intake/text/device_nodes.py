"""The device nodes that a text shows, misses or does not give to a container."""

from __future__ import annotations

from msgspec.structs import replace

from gpudoctor.intake.text.access import as_the_user_finds_it
from gpudoctor.intake.text.facts import SILENT, Facts
from gpudoctor.intake.text.ranking import decided, decided_with
from gpudoctor.intake.text.torch import source
from gpudoctor.late_regex import late
from gpudoctor.machine import DeviceNode, Gpu, Machine, absent, known, unknown

_NO_GPU = late(
    r"No CUDA GPUs|no NVIDIA driver|No HIP GPUs|no CUDA-capable device|No devices were found|libcuda\.so|hsa api call"
)
_GRANTS_GPUS = late(
    r"--gpus\b|--runtime[= ]nvidia|--privileged|--device[= ]\S*(?:nvidia|dri)|NVIDIA_VISIBLE_DEVICES|/dev/dxg"
)
"""ROCm needs the nodes of /dev/dri besides /dev/kfd."""


def with_nodes(machine: Machine, facts: Facts) -> Machine:
    """Device nodes that a listing shows or misses, and a container that was started without GPUs."""
    missing = decided_with(facts, "no node ")
    where = next((source(said) for said in missing.values()), "")
    if any(name.startswith("/dev/kfd") for name in missing):
        gone = absent(where, "no such file")
        machine = replace(machine, amd=replace(machine.amd, kfd=gone, topology=unknown(SILENT)))
        machine = replace(machine, gpus=tuple(map(_without_kfd_node, machine.gpus)))
    if "/dev/dri" in missing:
        machine = replace(machine, amd=replace(machine.amd, render_nodes=known((), where)))
    machine = _with_refusals(machine, facts)
    listed = {name: said for name, said in decided_with(facts, "node ").items() if name.startswith("/dev/nvidia")}
    if listed and "/dev/nvidia-uvm" not in listed:  # of `ls -l /dev/nvidia*`, which lists all
        missing = {**missing, "/dev/nvidia-uvm": next(iter(listed.values()))}
        where = where or source(missing["/dev/nvidia-uvm"])
    if "/dev/nvidia-uvm" in missing:
        nodes = tuple(node for node in machine.nvidia.nodes.value or () if "uvm" not in node.path)
        machine = replace(machine, nvidia=replace(machine.nvidia, nodes=known(nodes, where)))
    command = decided(facts, "container command")
    if command and not _GRANTS_GPUS.search(command.value) and _sees_no_gpu(facts):
        stack = replace(machine.nvidia, nodes=known(_without_gpus(machine.nvidia.nodes.value), source(command)))
        amd = machine.amd
        if machine.of_vendor("amd"):
            amd = replace(
                amd,
                kfd=amd.kfd if "/dev/kfd" in command.value else absent(source(command), "not given to the container"),
                render_nodes=known((), source(command)),
            )
        machine = replace(machine, nvidia=stack, amd=amd)
    return machine


def _with_refusals(machine: Machine, facts: Facts) -> Machine:
    """The nodes as the user of the text finds them."""
    kfd = machine.amd.kfd
    if kfd.value is not None and (tried := as_the_user_finds_it(facts, kfd.value)):
        return replace(machine, amd=replace(machine.amd, kfd=known(tried[0], f"text, line {tried[1]}")))
    return machine


def _without_kfd_node(gpu: Gpu) -> Gpu:
    """A GPU of a machine that has no /dev/kfd: that the kernel lists it for compute was assumed."""
    return replace(gpu, kfd_node=None) if gpu.vendor == "amd" else gpu


def _without_gpus(nodes: tuple[DeviceNode, ...] | None) -> tuple[DeviceNode, ...]:
    return tuple(node for node in nodes or () if "nvidia" not in node.path)


def _sees_no_gpu(facts: Facts) -> bool:
    available = decided(facts, "available")
    return bool(available and available.value == "False") or any(_NO_GPU.search(line.text) for line in facts.errors)
