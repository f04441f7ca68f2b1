"""What a machine has, for a person: system, GPUs, drivers, Python, torch, smoke kernels."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpudoctor.machine import Gpu, Machine, PythonEnvironment
from gpudoctor.machine.system import JETSON_DRIVER

if TYPE_CHECKING:
    from gpudoctor.render.lines import Line
    from gpudoctor.report import Report


_UNSAID = re.compile(r"(NVIDIA |amdgpu: )?unknown( \(the text [^)]*\))?")
"""The value of a line of which a text says nothing."""
_SAID_BY_THE_LINES = ("kernel", "healthy hardware", "version of torch", "amdgpu driver")
"""What is assumed of a text without a value: the lines themselves show what it does not say."""


def _is_told(machine: Machine, source: str) -> bool:
    """Whether a pasted text, or what is described beside it, states the fact. What was only assumed has a line of its
    own."""
    return machine.pasted is None or source.startswith(("text", "description"))


def inventory(report: Report) -> Iterator[Line]:
    """What the machine and the examined environment have, a line each. What a text does not say is one line."""
    machine = report.machine
    unsaid: dict[str, None] = {}
    parts = tuple(_parts(machine))
    width = max(len(name) for name, _ in (*parts, ("not said", "")))
    for name, value in parts:
        if machine.pasted is not None and _UNSAID.fullmatch(value):
            unsaid[name if name in ("GPU", "Python", "torch") else name.lower()] = None
        else:
            yield [(f"  {name:<{width}} ", "dim"), (value, "")]
    if machine.smoke is not None:
        from gpudoctor.render.smoke import smoke_summary

        yield [(f"  {'Smoke':<{width}} ", "dim"), (smoke_summary(machine.smoke, report.timings_ms.get("smoke")), "")]
    assumed = [one for one in machine.assumed if machine.pasted is None or one not in _SAID_BY_THE_LINES]
    open_ = [name for name in unsaid if not any(f"{name} " in one for one in assumed)]
    if open_:
        yield [(f"  {'not said':<{width}} ", "dim"), (f"{', '.join(open_)}: taken as healthy", "")]
    if assumed:
        rest = "" if open_ else "; everything else is taken as healthy"
        yield [(f"  {'assumed':<{width}} ", "dim"), (f"{', '.join(assumed)}{rest}", "")]


def _parts(machine: Machine) -> Iterator[tuple[str, str]]:
    """Name and value of each line."""
    yield "System", system_text(machine)
    for text, gpus in equal_gpus(machine.gpus).items():
        count = f"{len(gpus)} x " if len(gpus) > 1 else ""
        yield f"{_maker(machine, gpus)} {numbers(gpus)}".rstrip(), f"{count}{text}"
    if not machine.gpus:
        yield "GPU", no_gpus(machine)
    yield from drivers(machine)
    environment = machine.environment.value
    yield "Python", python_text(machine)
    if environment is not None:
        yield from frameworks(environment)
    for program in machine.programs:
        libraries = ", ".join(dict.fromkeys(one.folder for one in program.backends))
        yield program.name, f"{program.path} ({libraries or 'no library for GPUs was found'})"


def _maker(machine: Machine, gpus: list[Gpu]) -> str:
    """ "GPU", or whose where there are two makers: each numbers its own from 0."""
    makers = {gpu.vendor for gpu in machine.gpus}
    return "GPU" if len(makers) < 2 else gpus[0].vendor.upper()


def system_text(machine: Machine) -> str:
    """ "Ubuntu 24.04, kernel 6.8.0-60-generic x86_64, container: docker"."""
    system, os = machine.system, machine.system.os.value
    text = machine.pasted is not None
    unnamed = "" if text or system.wsl.known else "any distribution"
    os_name = (os.name or os.id or unnamed) if os else "" if text else "unknown system"
    release = system.kernel.value if _is_told(machine, system.kernel.source) else None
    arch = system.arch.value if _is_told(machine, system.arch.source) else None
    if release and arch and release.endswith(f".{arch}"):
        arch = None  # the release of Fedora's and Amazon's kernels ends in it
    unread = "kernel unknown" if not (release or text) else ""
    kernel = " ".join(filter(None, (f"kernel {release}" if release else unread, arch)))
    return ", ".join(filter(None, (os_name, kernel, place_text(machine)))) or "unknown"


def place_text(machine: Machine) -> str:
    """ "container: docker", "WSL2", "VM: kvm"; "" for bare metal."""
    system = machine.system
    wsl = "WSL2" if system.wsl.known else ""
    if system.container.known:
        return ", ".join(filter(None, (wsl, f"container: {system.container.value}")))
    if wsl:
        return wsl
    return f"VM: {system.virtual_machine.value}" if system.virtual_machine.known else ""


def no_gpus(machine: Machine) -> str:
    """What is said of a machine without a GPU."""
    return "none found" if machine.buses.known else f"unknown ({machine.buses.why})"


def python_text(machine: Machine) -> str:
    """ "3.12 in /venv (venv)"."""
    environment = machine.environment.value
    if environment is None:
        why = machine.environment.why
        return f"no environment found ({why})" if why else "none found"
    if not _is_told(machine, environment.python.source):
        return "unknown"
    where = f" in {environment.prefix} ({environment.kind})" if environment.prefix else ""
    return f"{environment.python.value or 'unknown version'}{where}"


def frameworks(environment: PythonEnvironment) -> Iterator[tuple[str, str]]:
    """torch, and the frameworks beside it."""
    torch, others = environment.torch.value, environment.frameworks.others
    if torch is not None:
        bare = "Intel GPUs" if torch.build == "xpu" else "CPU only"
        built = f"CUDA {torch.cuda}" if torch.cuda else f"ROCm {torch.rocm or torch.hip}" if torch.hip else bare
        built = built.removesuffix(" unknown")
        if built == "CPU only" and torch.build is None and torch.has_cuda_libraries is None:
            built = "unknown build"
        where = "" if torch.origin == "unknown" else f", from {torch.origin}"
        yield "torch", f"{torch.version.removeprefix('of ')} ({built}){where}"
    elif not environment.torch.absent:
        yield "torch", f"unknown ({environment.torch.why})"
    elif not others:
        yield "torch", "not installed"
    for one in others:
        build = "" if one.build == one.name else f" ({one.build or 'CPU build'})"
        yield one.name, f"{one.version}{build}"


def equal_gpus(gpus: tuple[Gpu, ...]) -> dict[str, list[Gpu]]:
    """GPUs with the same description."""
    equal: dict[str, list[Gpu]] = {}
    for gpu in gpus:
        equal.setdefault(_gpu(gpu), []).append(gpu)
    return equal


def numbers(gpus: list[Gpu]) -> str:
    """ "0-3,6"; "" where one has no number."""
    found = sorted(gpu.index for gpu in gpus if gpu.index is not None)
    if len(found) < len(gpus):
        return ""
    starts = [number for number in found if number - 1 not in found]
    ends = [number for number in found if number + 1 not in found]
    return ",".join(f"{start}-{end}" if end > start else f"{start}" for start, end in zip(starts, ends, strict=True))


def _gpu(gpu: Gpu) -> str:
    known = (gpu.arch.value or "unknown architecture", gpu.family or "")
    details = [one for one in known if one and one not in gpu.name]
    if gpu.memory.value:
        details.append(f"{gpu.memory.value / (1 << 30):.0f} GiB")
    if gpu.integrated:
        details.append("integrated")
    if gpu.driver.known and gpu.driver.value not in ("nvidia", "amdgpu", "dxgkrnl"):
        details.append(f"held by {gpu.driver.value}")
    return f"{gpu.name} ({', '.join(details)})" if details else gpu.name


def drivers(machine: Machine) -> Iterator[tuple[str, str]]:
    """Kernel drivers and the system's ROCm."""
    module = machine.nvidia.module.value
    if module is not None and JETSON_DRIVER in machine.assumed:
        yield "Driver", JETSON_DRIVER
    elif module is not None:
        answer = next((api.value for api in machine.nvidia.answered if api.value and api.value.cuda_version), None)
        serves = f", serves CUDA up to {answer.cuda_version}" if answer else ""
        of = f"{module.flavour} kernel module"
        flavour = f" ({of})" if module.flavour and of not in machine.assumed else ""
        version = module.version if _is_told(machine, machine.nvidia.module.source) else "unknown"
        yield "Driver", f"NVIDIA {version}{flavour}{serves}"
    elif machine.of_vendor("nvidia"):
        told = next((api.value.driver_version for api in machine.nvidia.answered if api.value), None)
        yield "Driver", f"NVIDIA {told or ('none loaded' if machine.nvidia.module.absent else 'unknown')}"
    if machine.of_vendor("amd"):
        loaded = machine.amd.module
        assumed = machine.pasted is not None and "amdgpu driver" in machine.assumed
        other = "amdgpu: none loaded" if loaded.absent else "amdgpu: unknown"
        yield "Driver", f"amdgpu {loaded.value}" if loaded.known and not assumed else other
    for install in machine.amd.rocm.value or ():
        yield "ROCm", f"{install.version} in {install.path}"
