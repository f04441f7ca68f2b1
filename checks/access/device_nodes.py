"""Device nodes that are missing, or that this user may not open (GPD206 to GPD209)."""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import (
    AddContainerFlags,
    Evidence,
    Finding,
    Fix,
    LoadModule,
    Manual,
    NotJudged,
    UnblockModule,
    by_hand,
)
from gpudoctor.machine import DeviceNode, Vendor
from gpudoctor.situation import Situation
from gpudoctor.situation.access_fixes import access_fixes
from gpudoctor.situation.device_nodes import (
    SHARED,
    amd_nodes,
    gpu_nodes,
    made_at_first_use,
    nvidia_nodes,
)
from gpudoctor.situation.gpu_groups import called, finding
from gpudoctor.situation.kernel_modules import amds_driver, forbids
from gpudoctor.situation.no_kernel_driver import without_kfd
from gpudoctor.situation.nvidia_driver import (
    CUDA_UNKNOWN,
    NVML_NO_PERMISSION,
    cuda_status,
    driver_answers,
    nvml_status,
)
from gpudoctor.situation.working_gpus import gpus_that_work, gpus_without_driver

_SHARES_DEV = ("apptainer", "singularity", "charliecloud", "shifter", "enroot", "flatpak", "systemd-nspawn")
"""Containers that use the host's /dev: nodes appear in them as on bare metal."""


def _needless(situation: Situation, vendor: Vendor) -> bool:
    """Whether another vendor's GPU does the work, so that nobody needs these."""
    working = gpus_that_work(situation)
    if (wanted := situation.framework_vendor) is not None:
        return wanted != vendor and any(gpu.vendor == wanted for gpu in working)
    return any(gpu.vendor != vendor and not gpu.integrated for gpu in working)


_SILENT = (
    "KFD tells this process nothing of its nodes: a control group keeps the GPUs from it, or a recording has lost "
    "their properties (`--level driver` asks ROCm)"
)


@check("GPD206", "gpu-device-permission", "access")
def gpu_device_permission(situation: Situation) -> Verdicts:
    """This user may not open the NVIDIA device nodes.

    ## Why it matters
    Programs of this user find no GPU, although programs of root do.

    ## How it is judged
    The check opens /dev/nvidiactl, /dev/nvidia-uvm and the GPUs' nodes; EACCES is an error. It does not read group
    memberships, so ACLs and rootless containers are judged correctly. One closed GPU of several was not granted,
    which is not a problem. At level driver, NVML's "Insufficient Permissions" is an error too.

    ## Fix safety
    Joining a group gives its rights to every program of this user, from the next login on.
    """
    nodes = nvidia_nodes(situation) or {}
    refusals = _refusals(situation)
    shared = [nodes[path] for path in SHARED if path in nodes and nodes[path].opened in refusals]
    gpus = list(gpu_nodes(situation))
    closed = shared or ([n for n in gpus if n.opened in refusals] if _all_closed(gpus, refusals) else [])
    if not closed and nvml_status(situation) == NVML_NO_PERMISSION and cuda_status(situation) != 0:
        closed = [nodes.get(SHARED[0]) or DeviceNode(path=SHARED[0])]
    if not closed or _needless(situation, "nvidia"):
        return
    yield _closed(situation, "nvidia", closed[0], tuple(closed))


@check("GPD207", "amd-device-permission", "access")
def amd_device_permission(situation: Situation) -> Verdicts:
    """This user may not open /dev/kfd or the AMD render nodes.

    ## Why it matters
    /dev/kfd and /dev/dri/renderD* belong to the groups render and video. A user outside them finds no GPU with HIP
    ("Unable to open /dev/kfd read-write: Permission denied").

    ## How it is judged
    The check opens the nodes; EACCES is an error. In containers the number of the owning group counts, not its name.

    ## Fix safety
    Joining a group gives its rights to every program of this user, from the next login on.
    """
    kfd, render = amd_nodes(situation) or (
        situation.machine.amd.kfd.value,
        situation.machine.amd.render_nodes.value or (),
    )
    refusals = _refusals(situation)
    closed = [kfd] if kfd is not None and kfd.opened in refusals else []
    if not closed and _all_closed(list(render), refusals):
        closed = [node for node in render if node.opened in refusals]
    if not closed or situation.in_wsl or _needless(situation, "amd"):
        return
    if not situation.machine.of_vendor("amd") and situation.framework_vendor != "amd":
        return
    others = [node for node in render if node.opened in refusals and node not in closed]
    yield _closed(situation, "amd", closed[0], (*closed, *others))


def _refusals(situation: Situation) -> tuple[str, ...]:
    """The errors that mean that this user may not open a node. EPERM comes from a device cgroup; in a container or a
    batch job its cause is how that was started."""
    alone = situation.machine.system.container.absent and not situation.machine.system.job.known
    return ("EACCES", "EPERM") if alone else ("EACCES",)


def _all_closed(nodes: list[DeviceNode], refusals: tuple[str, ...]) -> bool:
    return any(n.opened in refusals for n in nodes) and not any(n.opened in ("ok", "untried") for n in nodes)


def _closed(situation: Situation, vendor: Vendor, node: DeviceNode, closed: tuple[DeviceNode, ...]) -> Finding:
    mode = "" if node.mode is None else f", mode {node.mode & 0o777:04o}"
    return Finding(
        severity="error",
        message=f"This user may not open {node.path} (permission denied), so no GPU can be used.",
        saw=f"{'EPERM' if node.opened == 'EPERM' else 'EACCES'} on {node.path}{mode}",
        want="read and write access",
        subject=node.path,
        evidence=tuple(Evidence(f"{vendor}.nodes", f"{n.path}: {n.opened}, gid {n.gid}", n.path) for n in closed[:3]),
        fixes=access_fixes(situation, vendor, closed),
        supersedes=("no-driver",),
    )


@check("GPD208", "amd-kfd-missing", "access")
def amd_kfd_missing(situation: Situation) -> Verdicts:
    """AMD's compute node /dev/kfd, or every GPU's render node, is missing.

    ## Why it matters
    Compute goes through /dev/kfd and /dev/dri/renderD*. Without them amdgpu drives only the screen: HIP finds no GPU.

    ## How it is judged
    An AMD GPU is bound to amdgpu, and /dev/kfd (or the whole KFD) is known to be missing, or KFD lists another GPU
    of its kind and not this one; or /dev/kfd is there, but /dev/dri has none of the render nodes that KFD names.
    Containers and WSL are not reported. Where no AMD GPU has a node of KFD and the properties of one say nothing,
    only level driver tells.

    ## Fix safety
    Another kernel or AMD's driver package needs root and a reboot.
    """
    amd = situation.machine.amd
    if _kfd_is_silent(situation):
        yield NotJudged(_SILENT, matters=situation.expected_vendor == "amd")
    for severity, gpus in without_kfd(situation, "amd-kfd-missing"):
        whole = not (amd.kfd.absent or amd.topology.absent)
        boot = "Boot a kernel built with CONFIG_HSA_AMD (kernels of the large distributions are)."
        read = "Reboot; the kernel log (`sudo dmesg | grep -i -e kfd -e amdgpu`) says why."
        assumed = situation.machine.assumes("amdgpu driver")
        load = (
            "`sudo modprobe amdgpu`; if /dev/kfd is still missing, `sudo dmesg | grep -i -e kfd -e amdgpu` says why. "
            "A container is given it by its configuration (`--device /dev/kfd --device /dev/dri`; LXC: an entry)."
        )
        yield finding(
            severity,
            gpus,
            message=f"KFD lists another GPU of this kind and not {called(gpus)}, which has no compute access."
            if whole
            else "/dev/kfd is missing: the kernel has no GPU for computing."
            if assumed
            else f"/dev/kfd is missing: amdgpu drives {called(gpus)} without its compute part.",
            saw="not listed by KFD" if whole else "no /dev/kfd",
            want="a KFD node" if whole else "/dev/kfd",
            evidence=(
                Evidence.of("amd.kfd", amd.kfd),
                Evidence.of("amd.topology", amd.topology),
                Evidence.of("gpu.driver", gpus[0].driver),
            ),
            fixes=(by_hand("Reboot, and read why KFD leaves it out", read, "reboot"),)
            if whole
            else (
                *(by_hand("Load amdgpu, and read why it has no GPU for computing", load, "root"),) * assumed,
                by_hand("Boot a kernel with KFD", boot, "reboot"),
                *amds_driver(situation, "Install AMD's kernel driver"),
            ),
            confidence="likely" if assumed else "certain",
        )
    if not situation.in_container and not situation.in_wsl:
        yield from _missing_nodes(situation)


def _kfd_is_silent(situation: Situation) -> bool:
    """Whether KFD may list a GPU of which it tells this process nothing, and none of which it does."""
    machine = situation.machine
    hidden = any(not node.readable for node in machine.amd.topology.value or ())
    bound = [gpu for gpu in machine.of_vendor("amd") if gpu.driver.value == "amdgpu"]
    elsewhere = situation.in_container or situation.in_wsl or machine.amd.hsa.known
    return hidden and bool(bound) and not elsewhere and all(gpu.kfd_node is None for gpu in bound)


def _missing_nodes(situation: Situation) -> Iterator[Finding]:
    """The kernel lists GPUs for compute, but a node that all of them need is missing from /dev."""
    amd = situation.machine.amd
    if _needless(situation, "amd"):
        return
    listed = [gpu for gpu in situation.machine.of_vendor("amd") if gpu.kfd_node is not None]
    render = {node.path for node in amd.render_nodes.value or ()}
    needed = [node for gpu in listed for node in gpu.nodes]
    if listed and amd.kfd.absent:
        node, fact, subsystem = "/dev/kfd", Evidence.of("amd.kfd", amd.kfd), "kfd"
    elif needed and amd.kfd.known and amd.render_nodes.known and render.isdisjoint(needed):
        node, subsystem = needed[0], "drm"
        fact = Evidence("amd.render_nodes", " ".join(sorted(render)) or "none", amd.render_nodes.source)
    else:
        return
    text = f"Let udev create the node again: `sudo udevadm trigger --subsystem-match={subsystem}`, or reboot."
    yield Finding(
        severity="error",
        message=f"{node} is missing although the kernel lists {listed[0].name} for compute.",
        saw=f"no {node}",
        want=node,
        subject=node,
        evidence=(fact,),
        fixes=(by_hand("Let udev create the node again", text, "root"),),
    )


@check("GPD209", "nvidia-uvm-missing", "access")
def nvidia_uvm_missing(situation: Situation) -> Verdicts:
    """A node that CUDA needs is missing, and nothing will create it.

    ## Why it matters
    CUDA needs nvidia-uvm and fails with error 999 without it. nvidia-smi does not need it and looks healthy.

    ## How it is judged
    In a container that has the other NVIDIA nodes, this one is missing or dead. On bare metal the first CUDA program
    creates the missing nodes, so there only a failed start of CUDA counts, a rule that keeps nvidia_uvm from loading,
    or a user other than root where nvidia-modprobe, which does it for them, is missing.

    ## Fix safety
    Loading nvidia_uvm needs root on the host and does not disturb running programs.
    """
    nodes, machine = nvidia_nodes(situation), situation.machine
    if nodes is None or situation.in_wsl or situation.on_jetson or gpus_without_driver(situation, "nvidia"):
        return
    if _needless(situation, "nvidia"):
        return
    uvm = nodes.get("/dev/nvidia-uvm")
    dead = uvm is not None and uvm.opened in ("ENXIO", "ENODEV", "EIO")
    stranded = _stranded(situation, nodes)
    if stranded:
        yield stranded
        return
    if "/dev/nvidiactl" not in nodes or (uvm is not None and not dead) or cuda_status(situation) == 0:
        return
    fixed_dev = situation.in_container and machine.system.container.value not in _SHARES_DEV
    blocked = machine.nvidia.blocked.value or ()
    rules = [rule for rule in blocked if rule.module == "nvidia_uvm" and forbids(rule.rule)]
    if not fixed_dev and cuda_status(situation) != CUDA_UNKNOWN and (not rules or situation.in_container):
        return
    load = LoadModule("nvidia_uvm", why="it creates /dev/nvidia-uvm")
    unblock = tuple(UnblockModule("nvidia_uvm", rule.source, why=f"it contains: {rule.rule}") for rule in rules)
    on_host = Manual("On the host, as root: `nvidia-modprobe -c 0 -u`.", risk="root")
    flags = AddContainerFlags("nvidia", why="puts /dev/nvidia-uvm into the container")
    loaded = "nvidia_uvm" in (machine.nvidia.modules_loaded.value or ())
    died = "its number is not that of the loaded module" if loaded else "its kernel module is not loaded"
    yield Finding(
        severity="error",
        message=f"/dev/nvidia-uvm is {f'dead: {died}' if dead else 'missing: CUDA cannot start without it'}.",
        saw="/dev/nvidia-uvm: " + (uvm.opened if uvm else "absent"),
        want="/dev/nvidia-uvm",
        subject="/dev/nvidia-uvm",
        confidence="certain" if cuda_status(situation) == CUDA_UNKNOWN else "likely",
        evidence=(
            Evidence("nvidia.nodes", " ".join(sorted(nodes)), machine.nvidia.nodes.source),
            Evidence.of("nvidia.modules_loaded", machine.nvidia.modules_loaded),
            *driver_answers(situation),
        ),
        fixes=(
            Fix("Create the node on the host and recreate the container", (on_host, flags))
            if fixed_dev
            else Fix("Load nvidia_uvm", (*unblock, load)),
        ),
        supersedes=("no-driver", "nvidia-uvm-after-suspend"),
    )


def _stranded(situation: Situation, nodes: dict[str, DeviceNode]) -> Finding | None:
    """Shared nodes that this user's CUDA programs need on bare metal and cannot have made."""
    nvidia = situation.machine.nvidia
    missing = tuple(path for path in SHARED if path not in nodes)
    tried = cuda_status(situation) is not None or situation.in_container or not nvidia.module.known
    if not missing or tried or not situation.usable_of("nvidia") or made_at_first_use(situation) is not False:
        return None
    program, stripped = nvidia.modprobe.source, nvidia.modprobe.known
    title, text = (
        ("Give nvidia-modprobe its rights back", f"Run as root: chmod u+s {program}.")
        if stripped
        else (
            "Install nvidia-modprobe",
            "Install nvidia-modprobe: the package of that name (Arch: nvidia-utils; openSUSE: "
            "nvidia-compute-utils-G06 or -G07).",
        )
    )
    until = "Until then any CUDA program of root makes the nodes, up to the next reboot."
    return Finding(
        severity="error",
        message=f"{' and '.join(missing)} {'are' if missing[1:] else 'is'} missing, and nvidia-modprobe, which makes "
        f"missing nodes for users other than root, {'has lost its rights' if stripped else 'is not installed'}: CUDA "
        "cannot start.",
        saw=f"no {missing[0]}, {'no setuid bit of' if stripped else 'no'} {program}",
        want=" and ".join(SHARED),
        subject=missing[0],
        confidence="likely",
        evidence=(
            Evidence("nvidia.nodes", " ".join(sorted(nodes)) or "none", nvidia.nodes.source),
            Evidence.of("nvidia.modprobe", nvidia.modprobe),
        ),
        fixes=(by_hand(title, f"{text} {until}", "root"),),
        supersedes=("no-driver", "no-gpu"),
    )
