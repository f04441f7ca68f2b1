"""For tests of checks, gpudoctor's own and those of plugins: small machines, and what a check says of them.

Machines are healthy; a test changes one thing:

machine = nvidia_machine(nvidia_gpu("NVIDIA GeForce RTX 5090", "sm_120"), driver="570.133.07",
                         torch=torch("2.6.0+cu124"))
change(machine, nvidia=..., system=...)      # frozen records: replace parts
check_result("driver-too-old", machine).findings
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.check import Check
from gpudoctor.finding import Finding, NotJudged
from gpudoctor.machine import (
    AmdStack,
    DeviceNode,
    Distribution,
    Fabric,
    Fact,
    Frameworks,
    Gpu,
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
    User,
    absent,
    known,
)
from gpudoctor.matrix.load import load_matrix
from gpudoctor.matrix.questions import Matrix

LIB = "/usr/lib/x86_64-linux-gnu"


class CheckResult(Struct, frozen=True):
    """What one check says of one machine."""

    findings: tuple[Finding, ...]
    not_judged: tuple[NotJudged, ...]


@cache
def _matrix(overlays: tuple[str, ...]) -> Matrix:
    return load_matrix(overlays)


def check_result(
    slug: str | Check[Any], machine: Machine, *, plugins: tuple[str, ...] = (), overlays: tuple[str, ...] = ()
) -> CheckResult:
    """What the check of that slug (or a check itself) says of a machine, by the matrix with these overlay files.

    Only that check runs: nothing is joined to its cause, and a crash is raised. `plugins` names those to look in.
    """
    from gpudoctor.situation import Situation
    from gpudoctor.suites import machine_checks

    checks = [slug] if isinstance(slug, Check) else machine_checks(plugins).named(slug)
    situation = Situation(machine, _matrix(overlays))
    results = [check.run(situation) for check in checks]
    findings = tuple(finding for found, _ in results for finding in found)
    return CheckResult(findings, tuple(question for _, questions in results for question in questions))


def change(record: Any, **parts: Any) -> Any:
    """A frozen record with some fields replaced."""
    return replace(record, **parts)


def system(*, container: str | None = None, **parts: Any) -> System:
    """Ubuntu 24.04 on x86-64, bare metal, an ordinary user in render and video."""
    healthy = System(
        kernel=known("6.8.0-60-generic", "uname"),
        arch=known("x86_64", "uname"),
        os=known(Os(id="ubuntu", version="24.04", like=("debian",), name="Ubuntu 24.04.2 LTS"), "/etc/os-release"),
        cpu_flags=known(("avx", "avx2", "sse4_2"), "/proc/cpuinfo"),
        memory=known(64 << 30, "/proc/meminfo"),
        shm=known(32 << 30, "/dev/shm"),
        secure_boot=known(False, "/sys/firmware/efi/efivars"),
        lockdown=known("none", "/sys/kernel/security/lockdown"),
        kernel_options=known((), "/proc/cmdline"),
        wsl=absent("uname"),
        jetson=absent("/proc/device-tree"),
        virtual_machine=absent("/sys/class/dmi"),
        container=known(container, "/.dockerenv") if container else absent("/proc/1/cgroup"),
        job=absent("environment"),
        user=User(uid=1000, gids=(44, 992, 1000), groups=("video", "render", "someone"), source="process"),
        suspends=known(0, "/sys/power/suspend_stats/success"),
        groups={"video": 44, "render": 992},
    )
    return replace(healthy, **parts)


def nvidia_gpu(name: str = "NVIDIA GeForce RTX 4090", arch: str = "sm_89", *, index: int = 0, **parts: Any) -> Gpu:
    """A discrete NVIDIA GPU bound to the nvidia driver, with its node /dev/nvidia<index>."""
    healthy = Gpu(
        vendor="nvidia",
        name=name,
        arch=known(arch, "compat_matrix"),
        bdf=f"0000:{index + 1:02x}:00.0",
        driver=known("nvidia", f"/sys/bus/pci/devices/0000:{index + 1:02x}:00.0/driver"),
        index=index,
        nodes=(f"/dev/nvidia{index}",),
        memory=known(24 << 30, "nvml"),
        source="/sys/bus/pci/devices",
    )
    return replace(healthy, **parts)


def amd_gpu(name: str = "AMD Radeon RX 7900 XTX", gfx: str = "gfx1100", *, index: int = 0, **parts: Any) -> Gpu:
    """A discrete AMD GPU bound to amdgpu, KFD node index+1 (node 0 is the CPU), /dev/dri/renderD128+index."""
    healthy = Gpu(
        vendor="amd",
        name=name,
        arch=known(gfx, f"/sys/class/kfd/kfd/topology/nodes/{index + 1}/properties"),
        bdf=f"0000:{index + 3:02x}:00.0",
        driver=known("amdgpu", f"/sys/bus/pci/devices/0000:{index + 3:02x}:00.0/driver"),
        index=index,
        nodes=(f"/dev/dri/renderD{128 + index}",),
        memory=known(16 << 30, "kfd"),
        kfd_node=index + 1,
        source="/sys/bus/pci/devices",
    )
    return replace(healthy, **parts)


def torch(version: str = "2.9.1+cu128", **parts: Any) -> Torch:
    """torch as its version names it: "2.9.1+cu128", "2.9.1+rocm6.4", "2.13.0+cpu"; no code objects were read."""
    local = version.partition("+")[2]
    cuda = re.fullmatch(r"cu(\d+)(\d)", local)
    rocm = re.fullmatch(r"rocm([\d.]+)", local)
    healthy = Torch(
        version=version,
        build=local or None,
        cuda=f"{cuda[1]}.{cuda[2]}" if cuda else None,
        hip=f"{rocm[1]}.0" if rocm else None,
        rocm=rocm[1] if rocm else None,
        origin="download.pytorch.org" if local else "pypi",
        path="/venv/lib/python3.12/site-packages/torch",
        copies=(TorchCopy(path="/venv/lib/python3.12/site-packages/torch", version=version, via="site"),),
        has_cuda_libraries=local != "cpu",
        source="/venv/lib/python3.12/site-packages/torch/version.py",
    )
    return replace(healthy, **parts)


def environment(
    patient: Torch | None, *, python: str = "3.12", packages: dict[str, str] | None = None, **parts: Any
) -> PythonEnvironment:
    """A pip venv at /venv with torch (or without) and other distributions by version."""
    installed = {**({"torch": patient.version} if patient else {}), **(packages or {})}
    site = f"/venv/lib/python{python}/site-packages"
    healthy = PythonEnvironment(
        prefix="/venv",
        kind="venv",
        python=known(python, "/venv/pyvenv.cfg"),
        interpreter="/venv/bin/python",
        site_packages=(site,),
        distributions=known(
            tuple(Distribution(name=n, version=v, installer="pip") for n, v in sorted(installed.items())), site
        ),
        frameworks=Frameworks(torch=known(patient, patient.source) if patient else absent(site)),
        has_pip=True,
        python_headers=known(True, f"/usr/include/python{python}/Python.h"),
        source="/venv/pyvenv.cfg",
    )
    return _changed(healthy, parts)


def _changed(patient: PythonEnvironment, parts: dict[str, Any]) -> PythonEnvironment:
    torch = parts.pop("torch", patient.torch)
    return replace(patient.with_torch(torch), **parts)


def nvidia_machine(
    *gpus: Gpu,
    driver: str = "580.95.05",
    flavour: str = "open",
    torch: Torch | None = torch(),  # noqa: B008 - frozen
    python: str = "3.12",
    packages: dict[str, str] | None = None,
    variables: dict[str, str] | None = None,
    container: str | None = None,
    **parts: Any,
) -> Machine:
    """A healthy NVIDIA box at level static."""
    gpus = gpus or (nvidia_gpu(),)
    nodes = ["/dev/nvidiactl", "/dev/nvidia-uvm", *(node for gpu in gpus for node in gpu.nodes)]
    stack = NvidiaStack(
        module=known(NvidiaModule(version=driver, flavour=flavour), "/proc/driver/nvidia/version"),  # type: ignore[arg-type]
        modules_loaded=known(("nvidia", "nvidia_uvm", "nvidia_modeset"), "/proc/modules"),
        modules_installed=known((), "/lib/modules"),
        dkms=known((), "/var/lib/dkms"),
        blocked=known((), "/etc/modprobe.d"),
        userland=known(driver, f"{LIB}/libnvidia-ml.so.{driver}"),
        nodes=known(tuple(DeviceNode(path=p, opened="ok", mode=0o666, uid=0, gid=0) for p in nodes), "/dev"),
        proc_gpus=known(tuple(gpu.bdf for gpu in gpus if gpu.bdf), "/proc/driver/nvidia/gpus"),
        fabric=Fabric(switches=known(0, "/sys/bus/pci/devices"), manager_version=absent("/usr/bin")),
        toolkit=absent("/usr/bin"),
    )
    libraries = tuple(
        Library(
            name=name,
            path=f"{LIB}/{stem}.so.{driver}",
            version=driver,
            via="ld.so.cache",
            mounted=True if container else None,
        )
        for name, stem in (("libcuda.so.1", "libcuda"), ("libnvidia-ml.so.1", "libnvidia-ml"))
    )
    amd = AmdStack(
        topology=absent("/sys/class/kfd"), kfd=absent("/dev/kfd"), modules_loaded=known((), "/proc/modules")
    )
    healthy = _machine(gpus, stack, amd, libraries, environment(torch, python=python, packages=packages), container)
    return replace(replace(healthy, variables=variables or {}), **parts)


def _machine(
    gpus: tuple[Gpu, ...],
    nvidia: NvidiaStack,
    amd: AmdStack,
    libraries: tuple[Library, ...],
    patient: PythonEnvironment,
    container: str | None,
) -> Machine:
    return Machine(
        system=system(container=container),
        gpus=gpus,
        buses=known(True, "/sys/bus/pci/devices"),
        nvidia=nvidia,
        amd=amd,
        load_path=LoadPath(found=libraries, searched=(LIB,), complete=known(True, "ld.so.cache")),
        environment=known(patient, "/venv/pyvenv.cfg"),
        kernel_log=known(KernelLog(), "/dev/kmsg"),
    )


def amd_machine(
    *gpus: Gpu,
    torch: Torch | None = torch("2.9.1+rocm6.4"),  # noqa: B008 - frozen
    python: str = "3.12",
    packages: dict[str, str] | None = None,
    variables: dict[str, str] | None = None,
    container: str | None = None,
    **parts: Any,
) -> Machine:
    """A healthy AMD box at level static, with the kernel's own amdgpu."""
    gpus = gpus or (amd_gpu(),)
    kfd_nodes = (
        KfdNode(node=0),
        *(
            KfdNode(
                node=gpu.kfd_node, gfx=gpu.arch.value, bdf=gpu.bdf, render_minor=128 + (gpu.index or 0), simd_count=96
            )
            for gpu in gpus
            if gpu.kfd_node is not None
        ),
    )
    stack = AmdStack(
        module=known("in-tree", "/sys/module/amdgpu"),
        modules_loaded=known(("amdgpu",), "/proc/modules"),
        modules_installed=known((), "/lib/modules"),
        dkms=known((), "/var/lib/dkms"),
        blocked=known((), "/etc/modprobe.d"),
        kfd=known(DeviceNode(path="/dev/kfd", opened="ok", mode=0o660, uid=0, gid=992), "/dev/kfd"),
        render_nodes=known(
            tuple(DeviceNode(path=n, opened="ok", mode=0o660, uid=0, gid=992) for gpu in gpus for n in gpu.nodes),
            "/dev/dri",
        ),
        topology=known(kfd_nodes, "/sys/class/kfd/kfd/topology/nodes"),
        rocm=known((), "/opt"),
        firmware_package=absent("/var/lib/dpkg/status"),
    )
    nvidia = NvidiaStack(
        module=absent("/proc/driver/nvidia/version"), nodes=absent("/dev"), modules_loaded=known((), "/proc/modules")
    )
    healthy = _machine(gpus, nvidia, stack, (), environment(torch, python=python, packages=packages), container)
    return replace(replace(healthy, variables=variables or {}), **parts)


def no_gpu_machine(*, torch: Torch | None = None, container: str | None = None, **parts: Any) -> Machine:
    """A computer without any GPU."""
    base = nvidia_machine(torch=torch, container=container)
    healthy = replace(
        base,
        gpus=(),
        nvidia=NvidiaStack(
            module=absent("/proc/driver/nvidia/version"),
            nodes=absent("/dev"),
            modules_loaded=known((), "/proc/modules"),
            modules_installed=known((), "/lib/modules"),
        ),
        load_path=LoadPath(found=(), searched=(LIB,), complete=known(True, "ld.so.cache")),
    )
    return replace(healthy, **parts)


def with_stack(machine: Machine, **parts: Any) -> Machine:
    """The machine with fields of its NVIDIA stack replaced (its AMD stack if it has only AMD GPUs)."""
    if machine.gpus and all(gpu.vendor == "amd" for gpu in machine.gpus):
        return replace(machine, amd=replace(machine.amd, **parts))
    return replace(machine, nvidia=replace(machine.nvidia, **parts))


def with_system(machine: Machine, **parts: Any) -> Machine:
    """The machine with fields of its system replaced."""
    return replace(machine, system=replace(machine.system, **parts))


def with_environment(machine: Machine, **parts: Any) -> Machine:
    """The machine with fields of its Python environment replaced."""
    patient = machine.environment.value
    assert patient is not None
    return replace(machine, environment=known(_changed(patient, parts), machine.environment.source))


def with_torch(machine: Machine, **parts: Any) -> Machine:
    """The machine with fields of its torch replaced."""
    patient = machine.torch
    assert patient is not None
    return with_environment(machine, torch=known(replace(patient, **parts), patient.source))


def fact(value: Any, source: str = "test") -> Fact[Any]:
    """A fact that is known."""
    return known(value, source)
