"""The GPUs' device nodes that are present."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gpudoctor.machine import DeviceNode, Vendor
from gpudoctor.situation import Situation
from gpudoctor.situation.usable_gpus import GPU_NODE

SHARED = ("/dev/nvidiactl", "/dev/nvidia-uvm")
"""Nodes that every CUDA program opens."""

_UNMAPPED = 65534
"""Appears as the owner of everything that a user namespace (a rootless container) does not map."""


def nvidia_nodes(situation: Situation) -> dict[str, DeviceNode] | None:
    """The nodes of the NVIDIA driver (/dev/dxg in WSL) by path; None if nobody could look."""
    nodes = situation.machine.nvidia.nodes
    if nodes.value is None:
        return {} if nodes.absent else None
    return {node.path: node for node in nodes.value if node.opened != "ENOENT"}


def made_at_first_use(situation: Situation) -> bool | None:
    """Whether libcuda loads NVIDIA's modules and makes the nodes that are missing on bare metal: the machine's root
    does so itself, for others nvidia-modprobe does. None if it is unknown whether that is there."""
    user, modprobe = situation.machine.system.user, situation.machine.nvidia.modprobe
    if user.uid == 0 and not user.in_namespace:
        return True
    return False if modprobe.absent else modprobe.value


def amd_nodes(situation: Situation) -> tuple[DeviceNode | None, tuple[DeviceNode, ...]] | None:
    """/dev/kfd, if it is present, and the render nodes; None if nobody could look."""
    kfd, render = situation.machine.amd.kfd, situation.machine.amd.render_nodes
    if kfd.undecided or render.undecided:
        return None
    there = kfd.value if kfd.value and kfd.value.opened != "ENOENT" else None
    return there, tuple(node for node in render.value or () if node.opened != "ENOENT")


def owning_group(nodes: Iterable[DeviceNode]) -> int | None:
    """The number of the first group that owns one of these nodes and may use it, as the host counts; None if a user
    namespace hides it."""
    for node in nodes:
        by_group = node.mode is None or node.mode & 0o060 == 0o060
        if by_group and node.gid and node.gid != _UNMAPPED:
            return node.gid
    return None


def gpu_nodes(situation: Situation) -> tuple[DeviceNode, ...]:
    """/dev/nvidia0 and the like, as far as they are present."""
    return tuple(node for path, node in (nvidia_nodes(situation) or {}).items() if re.match(GPU_NODE, path))


def dead_nodes(situation: Situation, vendor: Vendor | None) -> Iterator[DeviceNode]:
    """Nodes of the vendor that are present and fail for a reason other than the rights to open them."""
    kfd, render = amd_nodes(situation) or (None, ())
    of_amd = (*((kfd,) if kfd else ()), *render) if vendor != "nvidia" else ()
    of_nvidia = (nvidia_nodes(situation) or {}).values() if vendor != "amd" else ()
    alive = ("ok", "untried", "EACCES", "EPERM", "ENOENT")
    return (node for node in (*of_nvidia, *of_amd) if node.opened not in alive)
