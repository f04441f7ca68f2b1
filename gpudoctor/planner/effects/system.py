"""What drivers, modules, services and containers make of a machine, as far as its record tells beforehand."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from msgspec.structs import replace

from gpudoctor.finding import (
    AddContainerFlags,
    AnyRemedy,
    InstallDriver,
    InstallKernel,
    InstallRocmDriver,
    InstallSystemPackage,
    JoinGroup,
    LoadModule,
    ModuleFlavour,
    Reboot,
    RebuildModule,
    StartService,
    UnblockModule,
)
from gpudoctor.machine import (
    AmdStack,
    BlockedModule,
    DeviceNode,
    DkmsModule,
    Fact,
    Gpu,
    InstalledModule,
    KernelLog,
    LoadPath,
    Machine,
    NvidiaStack,
    Vendor,
    known,
    unknown,
)
from gpudoctor.matrix.versions import figures
from gpudoctor.planner.effects import SOURCE
from gpudoctor.situation import Situation
from gpudoctor.situation.healthy_driver import amd_stack, driver_libraries, nvidia_stack
from gpudoctor.situation.kernel_modules import core_modules, for_running_kernel, newer_kernel_with_amdgpu
from gpudoctor.situation.nvidia_driver import kernel_driver

_ASKED_BEFORE = "asked before the fix"

T = TypeVar("T")
_OfAKernel = TypeVar("_OfAKernel", InstalledModule, DkmsModule)


def machine_after(situation: Situation, remedy: AnyRemedy) -> Machine | None:
    """The machine after a remedy of the system; None where its record does not hold what that changes."""
    machine = situation.machine
    if isinstance(remedy, InstallDriver):
        row = situation.matrix.nvidia.branch(remedy.branch)
        version = max(filter(None, (remedy.minimum, row.latest if row else None)), key=figures, default=remedy.branch)
        return _driven(_unblock(machine, "nvidia"), version, remedy.flavour, situation)
    if isinstance(remedy, InstallRocmDriver):
        return _amd_driven(machine)
    if isinstance(remedy, InstallKernel):
        return _with_kernel(machine, remedy.version)
    if isinstance(remedy, (RebuildModule, LoadModule, UnblockModule)):
        return _load(_unblock(machine, remedy.module), remedy.module, situation)
    if isinstance(remedy, Reboot):
        return _reboot(situation)
    if isinstance(remedy, StartService):
        return _start_service(machine, remedy)
    if isinstance(remedy, InstallSystemPackage):
        return _with_package(machine, remedy)
    if isinstance(remedy, JoinGroup):
        return _in_group(machine, remedy.group)
    if isinstance(remedy, AddContainerFlags):
        return _start_container(machine, remedy)
    return None


# --- kernel drivers ----------------------------------------------------------------------------------


def _driven(machine: Machine, version: str, flavour: ModuleFlavour | None, situation: Situation) -> Machine:
    """The machine with that NVIDIA driver loaded. A module whose flavour is unknown is not taken for a wrong one."""
    gpus = _bind(machine, "nvidia", "nvidia")
    machine = replace(machine, gpus=gpus, kernel_log=known(KernelLog(), SOURCE), load_path=LoadPath())
    stack = nvidia_stack(machine, version, flavour, situation.matrix, SOURCE)
    before = machine.nvidia
    stack = replace(
        stack,
        fabric=before.fabric,
        toolkit=before.toolkit,
        ptxas=before.ptxas,
        blocked=before.blocked,
        cdi=unknown(""),
    )
    return replace(machine, nvidia=stack, load_path=driver_libraries(machine, version, SOURCE))


def _with_kernel(machine: Machine, version: str) -> Machine:
    """The machine once it runs this kernel. DKMS builds for it what it built for the present one."""
    before = machine.system.kernel.value
    kernel = version if version.count(".") > 1 else f"{version}.0"

    def moved(one: _OfAKernel) -> _OfAKernel:
        return replace(one, kernel=kernel) if one.kernel == before else one

    nvidia, amd = machine.nvidia, machine.amd
    installed, dkms = _with_each(nvidia.modules_installed, moved), _with_each(nvidia.dkms, moved)
    machine = replace(
        machine,
        system=replace(machine.system, kernel=known(kernel, SOURCE)),
        nvidia=replace(nvidia, modules_installed=installed, dkms=dkms),
        amd=replace(amd, dkms=_with_each(amd.dkms, moved)),
    )
    return _amd_driven(machine, machine.amd.module.value or "in-tree") if machine.of_vendor("amd") else machine


def _amd_driven(machine: Machine, module: str = "installed") -> Machine:
    gpus = _bind(machine, "amd", "amdgpu")
    ours = tuple(gpu for gpu in gpus if gpu.vendor == "amd" and not gpu.reserved)
    before = machine.amd
    stack = replace(amd_stack(ours, module, SOURCE), rocm=before.rocm, firmware_package=before.firmware_package)
    return replace(machine, gpus=gpus, amd=stack, kernel_log=known(KernelLog(), SOURCE))


def _bind(machine: Machine, vendor: Vendor, driver: str) -> tuple[Gpu, ...]:
    """The GPUs, those of a vendor with its driver, and with nodes and a place where they had none."""
    count = 0
    gpus = []
    for gpu in machine.gpus:
        if gpu.vendor == vendor and not gpu.reserved:
            node = f"/dev/nvidia{count}" if vendor == "nvidia" else f"/dev/dri/renderD{128 + count}"
            place = gpu.kfd_node if gpu.kfd_node is not None or vendor == "nvidia" else count + 1
            nodes = gpu.nodes or (node,)
            gpus.append(replace(gpu, driver=known(driver, SOURCE), nodes=nodes, nvml=None, kfd_node=place))
            count += 1
        else:
            gpus.append(gpu)
    return tuple(gpus)


def _unblock(machine: Machine, module: str) -> Machine:
    """The machine without the rules that keep a module from loading."""

    def left(stack: NvidiaStack | AmdStack) -> Fact[tuple[BlockedModule, ...]]:
        rules = tuple(rule for rule in stack.blocked.value or () if rule.module != module)
        return replace(stack.blocked, value=rules) if stack.blocked.known else stack.blocked

    nvidia = replace(machine.nvidia, blocked=left(machine.nvidia))
    return replace(machine, nvidia=nvidia, amd=replace(machine.amd, blocked=left(machine.amd)))


def _load(machine: Machine, module: str, situation: Situation) -> Machine | None:
    if module.startswith("amd"):
        return _amd_driven(machine)
    if module == "nvidia_peermem":
        before = machine.nvidia.gpudirect_modules.value or ()
        loaded = known((*before, module), SOURCE)
        return replace(machine, nvidia=replace(machine.nvidia, gpudirect_modules=loaded))
    if not module.startswith("nvidia"):
        return None
    version, flavour, _ = kernel_driver(situation)
    return _driven(machine, version or "", flavour, situation)


def _reboot(situation: Situation) -> Machine:
    """The machine after a reboot: the installed module is loaded, the log is empty, nothing was asked yet."""
    machine = situation.machine
    if machine.amd.module.known or newer_kernel_with_amdgpu(situation):
        machine = _amd_driven(machine, machine.amd.module.value or "in-tree")
    waiting = next(iter(core_modules(situation)), None)
    version = (waiting.version if waiting else None) or machine.nvidia.userland.value
    if machine.nvidia.module.absent and waiting and version:  # of a kernel that was installed since
        machine = _driven(machine, version, waiting.flavour, situation)
    nvidia = machine.nvidia
    if module := nvidia.module.value:
        file = for_running_kernel(situation)
        version = (file.version if file else None) or nvidia.userland.value or module.version
        flavour = (file.flavour if file else None) or module.flavour
        nvidia = replace(nvidia, module=known(replace(module, version=version, flavour=flavour), SOURCE))
    unasked = unknown(_ASKED_BEFORE)
    gpus = tuple(replace(gpu, nvml=None) for gpu in machine.gpus)
    return replace(
        machine,
        gpus=gpus,
        nvidia=replace(nvidia, nvml=unasked, cuda=unasked, smi=unasked),
        amd=replace(machine.amd, hsa=unasked),
        system=replace(machine.system, suspends=known(0, SOURCE)),
        kernel_log=known(KernelLog(), SOURCE),
    )


# --- services, packages, rights ------------------------------------------------------------------------


def _start_service(machine: Machine, remedy: StartService) -> Machine | None:
    if "fabric" not in remedy.service:
        return None
    _, _, version = remedy.package.partition("=")
    fabric = machine.nvidia.fabric
    manager = known(version.lstrip("="), SOURCE) if version else fabric.manager_version
    fabric = replace(fabric, manager_running=known(True, SOURCE), manager_version=manager)
    log = known(KernelLog(), SOURCE)
    nvidia = replace(machine.nvidia, fabric=fabric, nvml=unknown(_ASKED_BEFORE), cuda=unknown(_ASKED_BEFORE))
    return replace(machine, nvidia=nvidia, kernel_log=log)


def _with_package(machine: Machine, remedy: InstallSystemPackage) -> Machine | None:
    environment = machine.environment.value
    if remedy.purpose == "python-headers" and environment is not None:
        environment = replace(environment, python_headers=known(True, SOURCE))
        return machine.with_environment(environment)
    if remedy.purpose == "nvidia-container-toolkit":
        return replace(machine, nvidia=replace(machine.nvidia, toolkit=known("installed", SOURCE)))
    return None  # what firmware does, only the GPU tells


def _in_group(machine: Machine, group: str) -> Machine:
    """The machine for a user of that group: the nodes that it owns open."""
    user = machine.system.user
    number = machine.system.groups.get(group)
    gids = user.gids if number is None or number in user.gids else (*user.gids, number)
    user = replace(user, gids=gids, groups=tuple(dict.fromkeys((*user.groups, group))))
    machine = replace(machine, system=replace(machine.system, user=user))
    return _open_nodes(machine, lambda node: number is None or node.gid in (None, number))


def _start_container(machine: Machine, remedy: AddContainerFlags) -> Machine | None:
    """The machine in a container that was started anew, with enough shared memory."""
    if remedy.wants == "shm":
        return replace(machine, system=replace(machine.system, shm=known(8 << 30, SOURCE)))
    return None


def _open_nodes(machine: Machine, opens: Callable[[DeviceNode], bool]) -> Machine:
    def opened(node: DeviceNode) -> DeviceNode:
        return replace(node, opened="ok") if node.opened in ("EACCES", "EPERM") and opens(node) else node

    amd, asked = machine.amd, unknown(_ASKED_BEFORE)
    kfd = amd.kfd if amd.kfd.value is None else replace(amd.kfd, value=opened(amd.kfd.value))
    amd = replace(amd, kfd=kfd, render_nodes=_with_each(amd.render_nodes, opened), hsa=asked)
    nvidia = replace(machine.nvidia, nodes=_with_each(machine.nvidia.nodes, opened), nvml=asked, cuda=asked)
    return replace(machine, amd=amd, nvidia=nvidia)


def _with_each(fact: Fact[tuple[T, ...]], change: Callable[[T], T]) -> Fact[tuple[T, ...]]:
    """A listing with each of its things changed; one that nobody could read stays."""
    return fact if fact.value is None else replace(fact, value=tuple(map(change, fact.value)))
