"""Which GPUs a process can really use: present, granted, openable, selected. Problems are reported for usable GPUs. A
GPU that is bound to vfio, not granted to this container or job, or hidden by a variable on purpose is not a
problem."""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct

from gpudoctor.machine import DeviceNode, Gpu, Machine, Vendor
from gpudoctor.situation.visibility import select, visibility_variables

Answer = Literal["yes", "no", "unknown"]

_NVIDIA_CONTROL = "/dev/nvidiactl"
GPU_NODE = r"/dev/nvidia\d+$"
_JETSON_NODE = r"/dev/(nvhost-gpu|nvhost-ctrl-gpu|nvgpu|nvmap|nvidia\d+$)"
_REFUSED = ("EACCES", "EPERM")


class Standing(Struct, frozen=True):
    """How far a GPU can be used, and why not further. `unknown` never makes a GPU unusable."""

    gpu: Gpu
    bound: Answer = "unknown"
    """Whether its vendor's kernel driver has it (not vfio-pci, not nouveau, not nothing)."""
    counted: Answer = "yes"
    """Whether the compute half of that driver counts it; amdgpu gives some GPUs a screen but no KFD node."""
    granted: Answer = "unknown"
    """Whether its node is in this container or job."""
    openable: Answer = "unknown"
    """Whether its node opens."""
    selected: Answer = "yes"
    """Whether no visibility variable hides it."""
    why: str = ""
    """Why it cannot be used; "" if it can."""

    @property
    def usable(self) -> bool:
        """Whether nothing is known that keeps a process from this GPU."""
        return "no" not in (self.bound, self.counted, self.granted, self.openable, self.selected)


def standings(machine: Machine) -> tuple[Standing, ...]:
    """One Standing per GPU of the machine, in the machine's order."""
    selected = {vendor: _selected(machine, vendor) for vendor in ("nvidia", "amd")}
    return tuple(_standing(machine, gpu, selected[gpu.vendor]) for gpu in machine.gpus)


def _standing(machine: Machine, gpu: Gpu, selected: dict[str, Answer]) -> Standing:
    bound, counted, granted, openable = _answers(machine, gpu)
    chosen = selected.get(gpu.key, "yes")
    reasons = (
        (bound, f"bound to {gpu.driver.value}" if gpu.driver.known else "no kernel driver has it"),
        (counted, "its kernel driver gives it no compute node"),
        (
            granted,
            "the driver was told to leave it out (NVreg_ExcludedGpus)"
            if is_excluded(machine, gpu)
            else "its device node is not in this container or job",
        ),
        (openable, "its device node does not open"),
        (chosen, "a visibility variable hides it"),
    )
    why = next((reason for answer, reason in reasons if answer == "no"), "")
    return Standing(
        gpu=gpu, bound=bound, counted=counted, granted=granted, openable=openable, selected=chosen, why=why
    )


def _answers(machine: Machine, gpu: Gpu) -> tuple[Answer, Answer, Answer, Answer]:
    """Whether a GPU is bound, counted, granted and openable."""
    if gpu.vendor == "nvidia":
        return _nvidia_bound(gpu), "yes", _nvidia_granted(machine, gpu), _nvidia_openable(machine, gpu)
    return _amd_bound(machine, gpu), _counted(machine, gpu), _amd_granted(machine, gpu), _amd_openable(machine, gpu)


# --- NVIDIA ----------------------------------------------------------------------------------------


def _nvidia_bound(gpu: Gpu) -> Answer:
    if gpu.nvml is not None:
        return "yes"
    if gpu.driver.known:
        return "yes" if gpu.driver.value in ("nvidia", "nvgpu", "nvidia-current", "dxgkrnl") else "no"
    return "no" if gpu.driver.absent else "unknown"


def is_excluded(machine: Machine, gpu: Gpu) -> bool:
    """Whether NVIDIA's driver has the GPU and gives it to nobody, as an option of its module says."""
    return any(one.excluded and one.bdf == gpu.bdf for one in machine.nvidia.proc_details)


def _nvidia_granted(machine: Machine, gpu: Gpu) -> Answer:
    if is_excluded(machine, gpu):
        return "no"
    if not machine.system.container.known or machine.system.wsl.known:
        return "yes"
    if machine.system.jetson.known:
        given = jetson_is_given(machine)
        return "unknown" if given is None else "yes" if given else "no"
    listed = next((api.value.devices for api in machine.nvidia.answered if api.value and api.value.devices), None)
    if listed and gpu.bdf and all(device.bdf for device in listed):
        return "yes" if any(device.bdf == gpu.bdf for device in listed) else "no"
    if machine.nvidia.nodes.value is None:
        return "no" if machine.nvidia.nodes.absent and not awaits_nodes(machine) else "unknown"
    if not any(node.path == _NVIDIA_CONTROL and node.opened != "ENOENT" for node in machine.nvidia.nodes.value):
        return "unknown" if awaits_nodes(machine) else "no"  # no GPU opens without it
    return _granted_by_nodes(machine, gpu)


def jetson_is_given(machine: Machine) -> bool | None:
    """Whether a node of a Jetson's GPU is here; None if nobody could look. Which there are depends on JetPack."""
    nodes = machine.nvidia.nodes
    if nodes.undecided:
        return None
    return any(re.match(_JETSON_NODE, node.path) and node.opened != "ENOENT" for node in nodes.value or ())


def awaits_nodes(machine: Machine) -> bool:
    """Whether libcuda makes missing nodes when it starts, as it does for the machine's root, in a container that has
    the driver's library. The device cgroup decides whether they open, so a start of CUDA that failed says no."""
    library, cuda, user = machine.load_path.first("libcuda.so.1"), machine.nvidia.cuda.value, machine.system.user
    given = machine.nvidia.module.known and library is not None and library.mounted is True
    return given and user.uid == 0 and not user.in_namespace and (cuda is None or cuda.status == 0)


def _nvidia_openable(machine: Machine, gpu: Gpu) -> Answer:
    nodes = machine.nvidia.nodes.value
    if nodes is None:
        return "unknown"
    if machine.system.wsl.known:
        return _opens(nodes, ("/dev/dxg",))
    return _opens(nodes, (_NVIDIA_CONTROL, *_nodes_of(machine, gpu)))


# --- AMD -------------------------------------------------------------------------------------------


def _amd_bound(machine: Machine, gpu: Gpu) -> Answer:
    if gpu.kfd_node is not None or machine.system.wsl.known:
        return "yes"
    if gpu.driver.known:
        return "yes" if gpu.driver.value == "amdgpu" else "no"
    return "no" if gpu.driver.absent else "unknown"


def _counted(machine: Machine, gpu: Gpu) -> Answer:
    """Whether KFD lists an AMD GPU; unknown if KFD hides nodes from a container."""
    if gpu.kfd_node is not None or machine.system.wsl.known:
        return "yes"
    nodes = machine.amd.topology.value
    hides = machine.system.container.known or not all(node.readable for node in nodes or ())
    return "unknown" if nodes is None or hides else "no"


def _amd_granted(machine: Machine, gpu: Gpu) -> Answer:
    if not machine.system.container.known or machine.system.wsl.known:
        return "yes"
    hidden = {node.node for node in machine.amd.topology.value or () if not node.readable}
    if gpu.kfd_node in hidden or machine.amd.kfd.absent:
        return "no"
    if machine.amd.render_nodes.value is None:
        return "no" if machine.amd.render_nodes.absent else "unknown"
    return _granted_by_nodes(machine, gpu)


def _amd_openable(machine: Machine, gpu: Gpu) -> Answer:
    if machine.system.wsl.known:
        return _opens(machine.nvidia.nodes.value or (), ("/dev/dxg",))
    if machine.amd.kfd.absent:
        return "no"
    kfd = machine.amd.kfd.value
    nodes = (*((kfd,) if kfd else ()), *(machine.amd.render_nodes.value or ()))
    return _opens(nodes, ("/dev/kfd", *_nodes_of(machine, gpu)))


# --- nodes of GPUs -----------------------------------------------------------------------------------


def _gpu_nodes(machine: Machine, vendor: Vendor) -> tuple[DeviceNode, ...]:
    """The present nodes that each stand for one GPU; an AMD render node may belong to another vendor's GPU."""
    if vendor == "amd":
        nodes = machine.amd.render_nodes.value or ()
    else:
        nodes = tuple(n for n in machine.nvidia.nodes.value or () if re.match(GPU_NODE, n.path))
    return tuple(node for node in nodes if node.opened != "ENOENT")


def _unassigned(machine: Machine, vendor: Vendor) -> tuple[DeviceNode, ...]:
    """The nodes of `_gpu_nodes` that are not known to belong to a certain GPU."""
    assigned = {path for gpu in machine.gpus for path in gpu.nodes}
    return tuple(node for node in _gpu_nodes(machine, vendor) if node.path not in assigned)


def _granted_by_nodes(machine: Machine, gpu: Gpu) -> Answer:
    """Whether a GPU's node is present; "unknown" if there are fewer nodes than GPUs that they may belong to."""
    if gpu.nodes:
        return "yes" if any(node.path in gpu.nodes for node in _gpu_nodes(machine, gpu.vendor)) else "no"
    left = _unassigned(machine, gpu.vendor)
    if not left:
        return "no"
    without = [other for other in machine.of_vendor(gpu.vendor) if not other.nodes]
    return "yes" if gpu.vendor == "nvidia" and sum(map(_may_open, left)) >= len(without) else "unknown"


def _nodes_of(machine: Machine, gpu: Gpu) -> tuple[str, ...]:
    """The nodes that must open for a GPU. If its own node is unknown, one that opens, if there is any."""
    left = sorted(_unassigned(machine, gpu.vendor), key=_may_open, reverse=True)
    return gpu.nodes or tuple(node.path for node in left[:1])


def _may_open(node: DeviceNode) -> bool:
    return node.opened in ("ok", "untried")


def _opens(nodes: tuple[DeviceNode, ...], paths: tuple[str, ...]) -> Answer:
    asked = [node for node in nodes if node.path in paths]
    if not all(map(_may_open, asked)):
        return "no"
    return "yes" if any(node.opened == "ok" for node in asked) else "unknown"


# --- visibility variables ----------------------------------------------------------------------------


def runtime_order(machine: Machine, vendor: Vendor) -> tuple[Gpu, ...]:
    """The GPUs of a vendor that its runtime counts, in its order: bound, granted and openable ones."""
    counted = [gpu for gpu in machine.of_vendor(vendor) if "no" not in _answers(machine, gpu)]
    return tuple(sorted(counted, key=lambda gpu: (gpu.index is None, gpu.index or 0)))


def has_usable_gpu(machine: Machine) -> bool:
    """Whether a process can use any GPU."""
    return any(standing.usable for standing in standings(machine))


def usable_count(machine: Machine) -> int:
    """How many GPUs a process can use. This is fewer than are usable if it is unknown which ones they are: three
    nodes of eight GPUs, or one UUID of GPUs whose UUIDs are unknown."""
    return _count(machine, "nvidia") + _count(machine, "amd")


def _count(machine: Machine, vendor: Vendor) -> int:
    gpus = runtime_order(machine, vendor)
    surplus = len(_in_doubt(machine, vendor)) - sum(map(_may_open, _unassigned(machine, vendor)))
    gpus = gpus[: len(gpus) - max(0, surplus)]  # any of them: only their number counts
    for _, value in visibility_variables(machine.variables, vendor):
        selection = select(value, gpus)
        gpus = tuple({gpu.key: gpu for gpu in selection.gpus}.values())[: selection.entries]
    return len(gpus)


def _in_doubt(machine: Machine, vendor: Vendor) -> tuple[Gpu, ...]:
    """GPUs that may or may not own one of the nodes, which are fewer than the GPUs."""
    granted = _nvidia_granted if vendor == "nvidia" else _amd_granted
    in_doubt = (gpu for gpu in runtime_order(machine, vendor) if not gpu.nodes and granted(machine, gpu) == "unknown")
    return tuple(in_doubt) if _gpu_nodes(machine, vendor) else ()


def in_process_order(machine: Machine, vendor: Vendor) -> tuple[Gpu, ...]:
    """The GPUs of a vendor as a process numbers them, with visibility variables applied; empty if that is unknown.
    CUDA counts the fastest GPU first unless it is set to PCI order, so the position of unlike GPUs tells nothing."""
    gpus = runtime_order(machine, vendor)
    by_place = vendor == "amd" or machine.variables.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    for _, value in visibility_variables(machine.variables, vendor):
        selection = select(value, gpus, ordered=by_place)
        if not selection.certain:
            return ()
        gpus = selection.gpus
    return gpus if by_place or len({gpu.name for gpu in gpus}) < 2 else ()


def _selected(machine: Machine, vendor: Vendor) -> dict[str, Answer]:
    remaining = gpus = runtime_order(machine, vendor)
    ordered = vendor == "amd" or machine.variables.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    certain = not _in_doubt(machine, vendor) or not visibility_variables(machine.variables, vendor)
    for _, value in visibility_variables(machine.variables, vendor):
        selection = select(value, remaining, ordered=ordered)
        remaining, certain = selection.gpus, certain and selection.certain
    if not certain:
        return {gpu.key: "unknown" for gpu in gpus}
    shown = {gpu.key for gpu in remaining}
    return {gpu.key: "yes" if gpu.key in shown else "no" for gpu in gpus}
