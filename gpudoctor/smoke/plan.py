"""Makes the ordered list of kernels to run, from a level, devices and names."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from gpudoctor.host import InputError
from gpudoctor.machine import SmokeDevice

if TYPE_CHECKING:
    from gpudoctor.frameworks.torch.kernels.kernel import Kernel

SmokeLevel = Literal["quick", "standard", "full"]
LEVELS: tuple[SmokeLevel, ...] = ("quick", "standard", "full")
KERNELS = Path(__file__).parents[1] / "frameworks" / "torch" / "kernels"
SOAK = "soak"
"""The kernel that runs for as many minutes as a person asks for."""


class Request(Struct, frozen=True):
    """What is asked for: a level, devices, kernels. `blocked` names GPUs (address or uuid) that are busy, full or
    exclusive, and why: their kernels are skipped."""

    level: SmokeLevel | None
    """None: import torch and count its devices, nothing more."""
    devices: tuple[str, ...] = ()
    """ "cuda:0", "cpu", "cuda" (every GPU), "all" (and the CPU); (): every GPU, or the CPU for a CPU build."""
    named: bool = True
    """Whether a person named these devices."""
    kernels: tuple[str, ...] = ()
    """Names; (): all kernels of the level and of lower levels."""
    seconds: float | None = None
    """Time limit per kernel, in place of its own."""
    minutes: float = 0.0
    """How long the soak runs."""
    asked: bool = True
    cpu_instead: bool = False
    """If no devices are named: compute on the CPU when torch sees no GPU."""
    blocked: dict[str, str] = {}
    beside: tuple[str, ...] = ()
    """Modules that are compiled for torch: they are imported after the kernels."""

    @property
    def gpu_asked(self) -> bool:
        return any(name.startswith("cuda") for name in self.devices)

    @property
    def cpu_asked(self) -> bool:
        """Whether a person asks for the CPU alone."""
        return self.named and set(self.devices) == {"cpu"}


class Limits(Struct, frozen=True):
    """Seconds that a step may take. A running kernel is never cut below its own limit."""

    importing: float = 90.0
    """torch's libraries take a minute to load from a cold network disk."""
    counting: float = 30.0
    listing: float = 60.0
    """CUDA starts eight GPUs that nothing keeps awake in half a minute."""
    beginning: float = 30.0
    """The time from the command to the first sign of the kernel."""
    quick: float = 60.0
    standard: float = 300.0
    full: float = 1800.0
    """A whole level, from the first kernel on: six times what a slow, healthy GPU takes."""
    further_device: float = 0.5
    """Share of a level's seconds that each device after the first adds."""

    def in_all(self, request: Request, devices: int) -> float:
        assert request.level is not None
        of_level: float = getattr(self, request.level)
        base = of_level * (1 + self.further_device * max(0, devices - 1))
        return max(base, 3 * (request.seconds or 0.0)) + 60 * request.minutes


class Job(Struct, frozen=True):
    """One kernel with one dtype on one device. `skip` says why it does not run."""

    kernel: str
    device: str
    dtype: str
    seconds: float
    minutes: float = 0.0
    skip: str = ""


def declared_kernels(folder: Path = KERNELS) -> tuple[Kernel, ...]:
    """The kernels that a folder of kernels declares."""
    if folder == KERNELS:
        from gpudoctor.frameworks.torch import kernels

        return kernels.all_kernels()
    name = f"gpudoctor_smoke_{abs(hash(folder)):x}"
    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[name] = package
    spec.loader.exec_module(package)
    found: tuple[Kernel, ...] = package.all_kernels()
    return found


def choose_kernels(request: Request, kernels: Sequence[Kernel]) -> tuple[Kernel, ...]:
    """The kernels that a request selects. Raises InputError for an unknown name."""
    names = [kernel.name for kernel in kernels]
    for name in request.kernels:
        if name not in names:
            raise InputError(f"there is no smoke kernel {name!r}{_near(name, names)}")
    if request.kernels:
        return tuple(kernel for kernel in kernels if kernel.name in request.kernels)
    reached = LEVELS[: LEVELS.index(request.level) + 1] if request.level else ()
    return tuple(kernel for kernel in kernels if kernel.level in reached)


def _near(name: str, names: Sequence[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name.lower(), dict.fromkeys(names), 3)
    hint = f"; did you mean {' or '.join(near)}?" if near else "."
    return f"{hint} `gpudoctor smoke --list` names all"


def check_device_names(request: Request) -> None:
    """Raises InputError for a text that is no device name."""
    for name in request.devices:
        if not re.fullmatch(r"cpu|all|cuda(:\d+)?", name):
            hint = "; ROCm's GPUs are also named cuda" if re.match(r"hip|rocm|gpu", name) else ""
            raise InputError(f"{name!r} is no device{hint}. Devices are cuda:0, cuda:1 ..., cuda, cpu, all")


def wants_gpus(request: Request) -> bool:
    """Whether the request may select a GPU."""
    return request.devices == () or any(name != "cpu" for name in request.devices)


def wants_cpu(request: Request) -> bool:
    """Whether the CPU is asked for by name."""
    return "cpu" in request.devices or "all" in request.devices


def choose_devices(request: Request, gpus: Sequence[SmokeDevice], cpu: SmokeDevice) -> tuple[SmokeDevice, ...]:
    """The devices that a request selects, GPUs first. Raises InputError for one that torch does not see. If torch
    sees none, that is not the user's mistake: there is none to compute on."""
    there = {device.name: device for device in gpus}
    names = set(request.devices or ("cuda",))
    for name in sorted(names - {"cpu", "all", "cuda"} - set(there)) if gpus else ():
        seen = ", ".join(f"{device.name} ({device.product})" for device in gpus)
        raise InputError(f"torch sees no device {name!r}. It sees {seen}, and the CPU is named cpu")
    every = bool(names & {"cuda", "all"})
    return (*(gpu for gpu in gpus if every or gpu.name in names), *((cpu,) if wants_cpu(request) else ()))


def jobs(
    request: Request, kernels: Sequence[Kernel], devices: Sequence[SmokeDevice], all_gpus: int
) -> tuple[Job, ...]:
    """The jobs to run: a level on all devices before the next level; kernels between GPUs after those on one.

    `all_gpus` is the number of GPUs that torch sees: kernels that need all of them are skipped if some are left out.
    """
    found: list[Job] = []
    gpus = [device for device in devices if device.name != "cpu"]
    for level in LEVELS:
        of_level = [kernel for kernel in kernels if kernel.level == level]
        for device in devices:
            why = _why_blocked(device, request)
            alone = [kernel for kernel in of_level if kernel.gpus == 1]
            found += [job for kernel in alone for job in _of(kernel, device.name, request, why)]
        for kind in dict.fromkeys(device.name.partition(":")[0] for device in devices):
            why = _not_all(gpus, all_gpus, request) if kind == "cuda" else ""
            between = [kernel for kernel in of_level if kernel.gpus > 1]
            found += [job for kernel in between for job in _of(kernel, kind, request, why)]
    return tuple(found)


def _of(kernel: Kernel, device: str, request: Request, skip: str) -> list[Job]:
    """A kernel in each of its dtypes."""
    minutes = request.minutes if kernel.name == SOAK else 0.0
    seconds = (request.seconds or kernel.seconds) + 60 * minutes
    return [Job(kernel.name, device, dtype, seconds, minutes, skip) for dtype in kernel.dtypes]


def _why_blocked(device: SmokeDevice, request: Request) -> str:
    return next((why for key, why in request.blocked.items() if key and key in (device.bdf, device.uuid)), "")


def _not_all(gpus: Sequence[SmokeDevice], all_gpus: int, request: Request) -> str:
    if len(gpus) < all_gpus:
        return f"needs all {all_gpus} GPUs; asked for: {', '.join(gpu.name for gpu in gpus)}"
    return next((f"{gpu.name}: {why}" for gpu in gpus if (why := _why_blocked(gpu, request))), "")
