"""Machines that somebody describes: GPUs, driver, kernel, distribution, torch, Python, variables.

A description either stands alone (`whatif`) or replaces facts of a probed machine (`check --gpu ...` in an image
build). What it leaves open is taken as healthy, and said in `Machine.assumed`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gpudoctor.host import InputError
from gpudoctor.intake.description import Description
from gpudoctor.machine import (
    AmdStack,
    DeviceNode,
    Frameworks,
    Gpu,
    Jetson,
    KernelLog,
    KfdNode,
    Library,
    LoadPath,
    Machine,
    NvidiaModule,
    NvidiaStack,
    Os,
    PythonEnvironment,
    System,
    Torch,
    TorchCopy,
    absent,
    known,
    unknown,
)
from gpudoctor.matrix.versions import figures
from gpudoctor.probes.load_path import DRIVER_OWN
from gpudoctor.situation import Situation
from gpudoctor.situation.driver_choice import driver_needs, driver_serving, flavour_serving

if TYPE_CHECKING:
    from gpudoctor.matrix.questions import Identity, Matrix

SOURCE = "description"
_LIBRARIES = "/usr/lib"
_FIRST_OPEN = (515,)
"""The driver branch with the first open kernel modules."""


def imagined(description: Description, variables: dict[str, str], matrix: Matrix) -> Machine:
    """A machine of which only the description is known; all else is healthy."""
    if not description.gpus:
        raise InputError("describe at least one GPU: --gpu NAME (`gpudoctor matrix show nvidia_gpus` lists names)")
    healthy = Machine(
        system=System(
            kernel=known("6.8.0", "assumed"),
            arch=known("x86_64", "assumed"),
            os=known(Os(), "assumed"),
            cpu_flags=known(("avx", "avx2"), "assumed"),
            wsl=absent("assumed"),
            jetson=absent("assumed"),
            virtual_machine=absent("assumed"),
            container=absent("assumed"),
            job=absent("assumed"),
            secure_boot=known(False, "assumed"),
            kernel_options=known((), "assumed"),
            suspends=known(0, "assumed"),
        ),
        environment=known(_environment("3.12"), "assumed"),
        variables=variables,
        kernel_log=known(KernelLog(), "assumed"),
    )
    open_facts = {"kernel": description.kernel, "Python 3.12": description.python_version, "torch": description.torch}
    machine = described(healthy, description, matrix)
    left = tuple(name for name, value in open_facts.items() if not value)
    return replace(machine, assumed=(*left, *machine.assumed))


def described(machine: Machine, description: Description, matrix: Matrix) -> Machine:
    """The machine with what is described in the place of what was probed.

    Raises InputError for a GPU, version or name that means nothing or more than one thing.
    """
    system = _system(machine.system, description)
    machine = replace(machine, system=system)
    if description.gpus:
        machine = _with_gpus(machine, description, matrix)
    elif description.driver:
        machine = _with_driver(machine, description.driver, matrix)
    if description.python_version or description.torch:
        machine = _with_environment(machine, description, matrix)
    return machine


def _system(system: System, description: Description) -> System:
    if description.kernel:
        system = replace(system, kernel=known(_version("--kernel", description.kernel), SOURCE))
    if description.os:
        name, _, version = description.os.partition("-")
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            raise InputError(
                f"--os {description.os!r}: write the distribution's id and version, such as ubuntu-22.04"
            )
        os = Os(id=name, version=version, name=description.os)
        system = replace(system, os=known(os, SOURCE), libc=unknown("as that release has it", SOURCE))
    return system


# --- GPUs and drivers -------------------------------------------------------------------------------


def _beside_arm(identity: Identity) -> bool:
    """NVIDIA's chips with a processor of their own, and those that come as one module with Grace."""
    return identity.integrated or any(module in identity.name for module in ("GH200", "GB200", "GB300"))


def _with_gpus(machine: Machine, description: Description, matrix: Matrix) -> Machine:
    identities = tuple(_gpu(name, matrix) for name in description.gpus)
    system = machine.system
    if any(identity.vendor == "nvidia" and _beside_arm(identity) for identity in identities):
        system = replace(system, arch=known("aarch64", SOURCE))
    board = next((identity.name for identity in identities if identity.jetson), None)
    if board is not None:
        system = replace(system, jetson=known(Jetson(model=board), SOURCE))
    gpus = _placed(identities)
    described_gpus = replace(
        machine,
        system=system,
        gpus=gpus,
        buses=known(True, SOURCE),
        nvidia=NvidiaStack(module=absent(SOURCE), modules_loaded=known((), SOURCE), nodes=absent(SOURCE)),
        amd=_amd_stack(gpus, description.driver),
        load_path=LoadPath(),
    )
    described_gpus = _with_import_elsewhere(described_gpus)
    vendors = {gpu.vendor for gpu in gpus}
    if "nvidia" in vendors:
        return _with_driver(described_gpus, description.driver, matrix)
    left = () if description.driver else ("amdgpu driver",)
    return replace(described_gpus, assumed=(*machine.assumed, *left))


def _with_import_elsewhere(machine: Machine) -> Machine:
    """What the import here says of a machine with other GPUs. The devices that torch counted are not the described
    ones, and a library of the driver comes with the driver."""
    environment, torch = machine.environment.value, machine.torch
    trial = torch.trial.value if torch else None
    if environment is None or torch is None or trial is None:
        return machine
    library = re.search(r"([\w.+-]+\.so[\w.]*): cannot open shared object file", f"{trial.root}\n{trial.error}")
    if not trial.ok and library is not None and library[1].startswith(DRIVER_OWN):
        fact = replace(torch, trial=unknown(f"{library[1]} of the driver is not here"))
        machine = replace(machine, assumed=(*machine.assumed, f"import torch (with the driver's {library[1]})"))
    else:
        fact = replace(torch, trial=replace(torch.trial, value=replace(trial, device_count=None)))
    own = environment.with_torch(replace(environment.torch, value=fact))
    return replace(machine, environment=replace(machine.environment, value=own))


def _gpu(name: str, matrix: Matrix) -> Identity:
    found = matrix.gpus_by_name(name)
    if len(found) == 1:
        return found[0]
    if found:
        names = "; ".join(f"{identity.name} ({identity.arch})" for identity in found[:6])
        raise InputError(f"--gpu {name!r} may mean several GPUs: {names}. Give a PCI id, a chip or an architecture.")
    near = matrix.names_near(name)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    raise InputError(
        f"--gpu {name!r}: no GPU of that name is known.{hint} A PCI id, chip, sm_NN or gfxNNNN also works."
    )


def _placed(identities: tuple[Identity, ...]) -> tuple[Gpu, ...]:
    """The GPUs with the places, indexes and nodes that they would have, in the order given."""
    counted = {"nvidia": 0, "amd": 0}
    gpus = []
    for slot, identity in enumerate(identities, start=1):
        index = counted[identity.vendor]
        counted[identity.vendor] += 1
        nvidia = identity.vendor == "nvidia"
        gpus.append(
            Gpu(
                vendor=identity.vendor,
                name=identity.name,
                arch=known(identity.arch, SOURCE),
                bdf=f"0000:{slot:02x}:00.0",
                pci_id=identity.pci_id,
                chip=identity.chip,
                family=identity.family,
                integrated=identity.integrated,
                datacenter=identity.datacenter,
                driver=known("nvidia" if nvidia else "amdgpu", SOURCE),
                index=index,
                nodes=(f"/dev/nvidia{index}" if nvidia else f"/dev/dri/renderD{128 + index}",),
                kfd_node=None if nvidia else index + 1,
                source=SOURCE,
            )
        )
    return tuple(gpus)


def _with_driver(machine: Machine, driver: str, matrix: Matrix) -> Machine:
    """The machine with this NVIDIA driver, healthy in all else; the newest that runs its GPUs if none is given."""
    gpus = machine.of_vendor("nvidia")
    assumed: tuple[str, ...] = ()
    if driver:
        version = _version("--driver", driver)
        running = tuple(gpu for gpu in gpus if _still_runs(matrix, version, gpu)) or gpus
        # Where the flavours do not go together, either is as likely: the one that older drivers came with.
        flavour = flavour_serving(matrix, running) if figures(version) >= _FIRST_OPEN else "proprietary"
        flavour = flavour or "proprietary"
    else:
        choice = driver_serving(Situation(machine, matrix), gpus)
        if choice is None:
            needs = dict.fromkeys(f"{gpu.name} needs {driver_needs(matrix, gpu)}" for gpu in gpus)
            raise InputError(f"no one driver serves all these GPUs: {'; '.join(needs)}. Give --driver")
        row = matrix.branch(choice.branch)
        version, flavour = (row.latest if row else None) or choice.minimum, choice.flavour
        assumed = (f"NVIDIA driver {version}",)
    paths = ("/dev/nvidiactl", "/dev/nvidia-uvm", *(node for gpu in gpus for node in gpu.nodes))
    stack = NvidiaStack(
        module=known(NvidiaModule(version=version, flavour=flavour), SOURCE),
        modules_loaded=known(("nvidia", "nvidia_uvm"), SOURCE),
        userland=known(version, SOURCE),
        nodes=known(tuple(DeviceNode(path=path, opened="ok") for path in paths), SOURCE),
        proc_gpus=known(tuple(gpu.bdf for gpu in gpus if gpu.bdf), SOURCE),
    )
    libraries = tuple(
        Library(name=f"{stem}.so.1", path=f"{_LIBRARIES}/{stem}.so.{version}", version=version, via="default")
        for stem in ("libcuda", "libnvidia-ml")
    )
    path = LoadPath(found=libraries, searched=(_LIBRARIES,), complete=known(True, SOURCE))
    return replace(machine, nvidia=stack, load_path=path, assumed=(*machine.assumed, *assumed))


def _still_runs(matrix: Matrix, driver: str, gpu: Gpu) -> bool:
    last = matrix.last_branch(gpu.arch.value or "")
    return last is None or figures(driver)[:1] <= figures(last)[:1]


def _amd_stack(gpus: tuple[Gpu, ...], driver: str) -> AmdStack:
    ours = tuple(gpu for gpu in gpus if gpu.vendor == "amd")
    if not ours:
        return AmdStack(topology=absent(SOURCE), kfd=absent(SOURCE), modules_loaded=known((), SOURCE))
    nodes = tuple(DeviceNode(path=node, opened="ok") for gpu in ours for node in gpu.nodes)
    topology = tuple(KfdNode(node=gpu.kfd_node or 0, gfx=gpu.arch.value, bdf=gpu.bdf, simd_count=1) for gpu in ours)
    only_amd = len(ours) == len(gpus)
    return AmdStack(
        module=known(driver if driver and only_amd else "in-tree", SOURCE),
        modules_loaded=known(("amdgpu",), SOURCE),
        kfd=known(DeviceNode(path="/dev/kfd", opened="ok"), SOURCE),
        render_nodes=known(nodes, SOURCE),
        topology=known((KfdNode(node=0, cpu_cores=1), *topology), SOURCE),
        rocm=known((), SOURCE),
    )


# --- Python and torch -----------------------------------------------------------------------------------


def _environment(python: str) -> PythonEnvironment:
    return PythonEnvironment(
        prefix="",
        kind="venv",
        python=known(python, SOURCE),
        distributions=known((), SOURCE),
        frameworks=Frameworks(torch=absent(SOURCE)),
        has_pip=True,
        source=SOURCE,
    )


def _with_environment(machine: Machine, description: Description, matrix: Matrix) -> Machine:
    environment = machine.environment.value or _environment("3.12")
    if description.python_version:
        if not re.fullmatch(r"3\.\d{1,2}t?", description.python_version):
            raise InputError(
                f"--python-version {description.python_version!r}: write it like 3.12 (3.13t for a free-threaded one)"
            )
        environment = replace(environment, python=known(description.python_version, SOURCE))
    if description.torch:
        torch = _torch(description.torch, machine, matrix)
        environment = environment.with_torch(known(torch, SOURCE))
    return replace(machine, environment=known(environment, SOURCE))


def _torch(text: str, machine: Machine, matrix: Matrix) -> Torch:
    """The torch that a version names. Without a local part it is the package index's build for the platform."""
    public, _, local = _version("--torch", text).partition("+")
    platform = machine.system.platform
    if not local:
        rows = [row for row in matrix.builds(platform) if (row.version, row.origin) == (public, "pypi")]
        if not rows:
            newest = matrix.newest_torch()
            raise InputError(
                f"--torch {text}: which build the package index has of it for {platform} is not known (newest known: "
                f"{newest}); name the build, such as {public}+cu128"
            )
        local = rows[0].build
        origin = "pypi"
    else:
        origin = "nightly" if ".dev" in public else "download.pytorch.org"
    cuda = re.fullmatch(r"cu(\d+)(\d)", local)
    rocm = re.match(r"rocm(\d+(?:\.\d+)*)", local)
    if not (cuda or rocm or local in ("cpu", "xpu")):
        raise InputError(f"--torch {text}: +{local} is no build that is known (cpu, cu128, rocm6.4 ...)")
    return Torch(
        version=f"{public}+{local}",
        build=local,
        cuda=f"{cuda[1]}.{cuda[2]}" if cuda else None,
        hip=rocm[1] if rocm else None,
        rocm=rocm[1] if rocm else None,
        origin=origin,  # type: ignore[arg-type]
        copies=(TorchCopy(path="torch", version=f"{public}+{local}", via="site"),),
        has_cuda_libraries=local not in ("cpu", "xpu"),
        source=SOURCE,
    )


def _version(option: str, text: str) -> str:
    if not re.fullmatch(r"\d+(?:\.[0-9A-Za-z]+)*(?:[-+~_][0-9A-Za-z.+~_-]*)?", text) or len(text) > 100:
        raise InputError(f"{option} {text!r}: not a version")
    return text
