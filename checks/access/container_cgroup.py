"""Whether this container may use the GPU nodes that are in it (GPD203)."""

from __future__ import annotations

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import AddContainerFlags, Evidence, Finding, Fix, Manual
from gpudoctor.machine import Vendor
from gpudoctor.situation import Situation
from gpudoctor.situation.batch_job import cpu_task, without_request
from gpudoctor.situation.device_nodes import SHARED, amd_nodes, gpu_nodes, nvidia_nodes, owning_group
from gpudoctor.situation.nvidia_driver import NVML_UNKNOWN, cuda_status, driver_answers, nvml_status

_CUT_OFF = "NVIDIA/nvidia-container-toolkit#48"
_FORBIDDEN = "EPERM"
"""What the device cgroup answers, whatever the mode of the node says."""


@check("GPD203", "container-cgroup-revoked", "access")
def container_cgroup_revoked(situation: Situation) -> Verdicts:
    """The container's device cgroup forbids the GPU nodes that are in it.

    ## Why it matters
    The node is in the container, but the container may not open it. This happens after `systemctl daemon-reload` on
    the host, or if /dev was mounted without access to the devices. Running programs lose the GPU ("Unknown Error").

    ## How it is judged
    The check opens the nodes: EPERM comes from the device cgroup, whatever the file mode says. One refused GPU of
    several was not granted, which is not a problem. The result is likely if NVML says "Unknown Error" in a container.

    ## Fix safety
    The container must be started again; nothing on the host changes.
    """
    if situation.machine.system.container.absent or without_request(situation) or cpu_task(situation):
        return
    refused = _refused(situation)
    if (
        not refused
        and situation.in_container
        and nvml_status(situation) == NVML_UNKNOWN
        and cuda_status(situation) != 0
    ):
        yield _lost_access(situation)
    if not refused or (situation.usable and not any(path.endswith(("ctl", "uvm")) for path in refused)):
        return
    vendor: Vendor = "nvidia" if refused[0].startswith("/dev/nvidia") else "amd"
    yield Finding(
        severity="error",
        message=f"{', '.join(refused)} cannot be opened: the container's device cgroup forbids it (EPERM).",
        saw=f"EPERM on {refused[0]}",
        want="nodes that open",
        subject="container",
        confidence="certain" if situation.in_container else "likely",
        evidence=tuple(Evidence(f"{vendor}.nodes", f"{path}: EPERM", path) for path in refused[:3]),
        fixes=_recreate(situation, vendor),
        refs=(_CUT_OFF,),
        supersedes=("no-driver", "gpu-device-permission", "amd-device-permission"),
    )


def _recreate(situation: Situation, vendor: Vendor) -> tuple[Fix, ...]:
    if situation.in_system_container:
        flags = AddContainerFlags(vendor, why="a device gives rights to the nodes; a mount alone does not")
        return (Fix("Give the container the GPU as a device", (flags,)),)
    if vendor == "amd":
        # Engines keep the rights that --device gave. These nodes came another way, such as a mount of /dev.
        kfd, render = amd_nodes(situation) or (None, ())
        group = owning_group(node for node in (kfd, *render) if node)
        flags = AddContainerFlags("amd", group_id=group, why="--device gives rights to the nodes; a mount does not")
        return (Fix("Recreate the container with the GPU as a device", (flags,)),)
    again = AddContainerFlags("recreate", why="a new container gets new device rules")
    lasting = (
        "To prevent this on the host: `sudo nvidia-ctk system create-dev-char-symlinks --create-all`, or use "
        "the cgroupfs driver for the container engine."
    )
    return (
        Fix("Recreate the container", (again, Manual(lasting, risk="root"))),
        Fix("Start the container with the GPU", (AddContainerFlags(vendor),)),
    )


def _lost_access(situation: Situation) -> Finding:
    """NVML's answer alone: what it says when a running container loses its access to the GPU."""
    return Finding(
        severity="error",
        message='The NVIDIA driver answers "Unknown Error": this container seems to have lost its access to '
        "the GPU, as after `systemctl daemon-reload` on the host.",
        saw="NVML Unknown Error",
        want="nodes that open",
        subject="container",
        confidence="likely",
        evidence=driver_answers(situation),
        fixes=_recreate(situation, "nvidia"),
        refs=(_CUT_OFF,),
        supersedes=("no-driver",),
    )


def _refused(situation: Situation) -> tuple[str, ...]:
    """Nodes that keep every GPU away if they do not open: a shared one, or all that stand for GPUs."""
    nvidia = nvidia_nodes(situation) or {}
    shared = [node.path for node in nvidia.values() if node.opened == _FORBIDDEN and node.path in SHARED]
    gpus = gpu_nodes(situation)
    if shared or (gpus and all(node.opened == _FORBIDDEN for node in gpus)):
        return tuple(shared) or tuple(node.path for node in gpus)
    kfd, render = amd_nodes(situation) or (None, ())
    if kfd is not None and kfd.opened == _FORBIDDEN:
        return (kfd.path,)
    return (
        tuple(node.path for node in render) if kfd and render and all(n.opened == _FORBIDDEN for n in render) else ()
    )
