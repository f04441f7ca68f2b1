"""What checks look at: one machine with one matrix. Questions that need both are answered here once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeVar

from gpudoctor.machine import Gpu, ImportTrial, LogFault, Machine, PythonEnvironment, Torch, Vendor
from gpudoctor.situation.usable_gpus import Standing, standings, usable_count

if TYPE_CHECKING:
    from gpudoctor.dependencies import Environment
    from gpudoctor.matrix.questions import Matrix
    from gpudoctor.matrix.rows import TorchBuild
    from gpudoctor.requirement import Requirement
    from gpudoctor.situation.frameworks import InstalledFramework

ESSENTIAL = ("elementwise", "matmul")
"""Smoke kernels that must run before gpudoctor says anything about a GPU."""

P = ParamSpec("P")
A = TypeVar("A")


class Situation:
    """A machine and the matrix, with the answers that need both."""

    def __init__(
        self,
        machine: Machine,
        matrix: Matrix,
        required: tuple[Requirement, ...] = (),
        peer_torch: Torch | None = None,
    ) -> None:
        self.machine = machine
        self.matrix = matrix
        self.required = required
        self.peer_torch = peer_torch
        """The torch that works on machines of the same kind beside this one: a fix keeps to it where it can."""
        self.answers: dict[object, Any] = {}
        """Answers to the questions that `answer_once` marks."""

    def on(self, machine: Machine) -> Situation:
        """The same situation on a changed machine."""
        return Situation(machine, self.matrix, self.required, self.peer_torch)

    @cached_property
    def standings(self) -> tuple[Standing, ...]:
        """One per GPU: present, granted, openable, selected."""
        return standings(self.machine)

    @cached_property
    def usable(self) -> tuple[Gpu, ...]:
        """The GPUs that checks report problems for."""
        return tuple(standing.gpu for standing in self.standings if standing.usable)

    @cached_property
    def usable_count(self) -> int:
        """How many of the usable GPUs a process gets: fewer if it is unknown which ones."""
        return usable_count(self.machine)

    def usable_of(self, vendor: Vendor) -> tuple[Gpu, ...]:
        return tuple(gpu for gpu in self.usable if gpu.vendor == vendor)

    @property
    def environment(self) -> PythonEnvironment:
        """The examined Python environment; where there is none, a record of which nothing is known."""
        return self.machine.examined

    @property
    def python(self) -> str | None:
        """Python of the examined environment as wheels name it ("3.12", "3.13t"); None: not known."""
        return self.environment.python.value

    @property
    def torch(self) -> Torch | None:
        """The torch of the examined environment, if there is one."""
        return self.machine.torch

    @property
    def torch_cuda(self) -> str:
        """The CUDA that it was built with; "" if it was built with none, or there is no torch."""
        return (self.torch.cuda if self.torch else None) or ""

    def build_of(self, torch: Torch | None) -> TorchBuild | None:
        """The matrix's row of a torch on this platform, if it has one."""
        return self.matrix.torch.build_of(torch, self.platform) if torch else None

    @property
    def torch_trial(self) -> ImportTrial | None:
        """How the import of torch went, if it was tried."""
        return self.torch.trial.value if self.torch else None

    @property
    def torch_imported(self) -> bool:
        """Whether the import of torch was tried, and works."""
        return self.torch_trial is not None and self.torch_trial.ok

    def imported(self, package: str) -> bool:
        """Whether the import of what a package brings was tried, and works."""
        if package == "torch":
            return self.torch_imported
        tried = (one.trial.value for one in self.environment.frameworks.imports if one.package == package)
        return any(trial is not None and trial.ok for trial in tried)

    @property
    def torch_target(self) -> Vendor | Literal["cpu"] | None:
        """What the installed torch is built for: a vendor's GPUs, or the CPU alone. None: no torch, or its files do
        not tell."""
        torch = self.torch
        if torch is None:
            return None
        build = torch.build or ""
        if torch.rocm or torch.hip or build.startswith("rocm"):
            return "amd"
        if torch.cuda or (build.startswith("cu") and build[2:3].isdecimal()):
            return "nvidia"
        return "cpu" if build == "cpu" or torch.has_cuda_libraries is False else None

    @property
    def built_for(self) -> Vendor | None:
        """The vendor whose GPUs the installed torch is built for; None: no torch, a CPU build, or unknown."""
        return None if self.torch_target == "cpu" else self.torch_target

    @cached_property
    def frameworks(self) -> tuple[InstalledFramework, ...]:
        """The installed frameworks, torch first."""
        from gpudoctor.situation.frameworks import installed_frameworks, torch_framework

        own = (torch_framework(self.torch, self.built_for),) if self.torch else ()
        return (*own, *installed_frameworks(self.environment, self.matrix))

    @property
    def others(self) -> tuple[InstalledFramework, ...]:
        """The installed frameworks beside torch."""
        return self.frameworks[1:] if self.torch else self.frameworks

    @property
    def gpu_framework(self) -> InstalledFramework | None:
        """The framework for whose GPUs this environment was made: torch if it is a GPU build, else the first one
        that is. None: no GPU build of any."""
        return next((one for one in self.frameworks if one.meant_for_gpu), None)

    @property
    def framework_vendor(self) -> Vendor | None:
        """The vendor whose GPUs the installed frameworks are built for; None: CPU builds alone, or unknown."""
        return self.gpu_framework.vendor if self.gpu_framework else None

    @property
    def requires_gpu(self) -> bool:
        """Whether a job requires something that only a usable GPU has, or a person requested kernels on a GPU."""
        named = self.machine.smoke is not None and self.machine.smoke.gpu_asked
        return named or any(requirement.needs_gpu for requirement in self.required)

    @property
    def requires_torch(self) -> bool:
        """Whether a job requires torch, or a person requested kernels, which need it."""
        smoke = self.machine.smoke
        asked = smoke is not None and smoke.asked and smoke.framework == "torch"
        return asked or any(requirement.needs_torch for requirement in self.required)

    @property
    def expected_vendor(self) -> Vendor | None:
        """The vendor whose GPUs this environment is expected to use: the one that torch is built for, else another
        framework; where none tells and a GPU is required, that of all GPUs here. None if unknown."""
        vendors = {gpu.vendor for gpu in self.machine.gpus}
        if self.framework_vendor or not self.requires_gpu or len(vendors) != 1:
            return self.framework_vendor
        return next(iter(vendors))

    def variable(self, name: str) -> str | None:
        """Value of an environment variable; None if it is not set."""
        return self.machine.variables.get(name)

    def log_faults(self, slug: str) -> tuple[LogFault, ...]:
        """Lines of the kernel log that the matrix's patterns or Xid table assign to this cause, oldest first."""
        faults = self.machine.log_faults
        if not faults:
            return ()
        meanings = {pattern.id: pattern.slug for pattern in self.matrix.tables.log_patterns}
        xids = {row.xid: row.slug for row in self.matrix.tables.xids}
        return tuple(fault for fault in faults if slug in (meanings.get(fault.kind), xids.get(fault.xid or -1)))

    @property
    def log_is_the_complaint(self) -> bool:
        """Whether somebody pasted the kernel log into a report that does not say that a GPU works."""
        return self.machine.pasted is not None and not self.machine.pasted.works

    @cached_property
    def behind(self) -> dict[str, Gpu]:
        """The GPU behind each device of the smoke kernels ("cuda:0"), if known."""
        smoke, vendor = self.machine.smoke, self.built_for
        if smoke is None or smoke.framework != "torch" or vendor is None:
            return {}
        from gpudoctor.situation.smoke_devices import gpus_behind

        return gpus_behind(self.machine, vendor, smoke.devices)

    def computed(self, gpu: Gpu) -> bool:
        """Whether smoke kernels ran on a GPU, including the `ESSENTIAL` ones, and all of them passed."""
        devices = {name for name, other in self.behind.items() if other.key == gpu.key}
        ran = [kernel for kernel in self.machine.kernels if kernel.device in devices and kernel.status != "skipped"]
        return set(ESSENTIAL) <= {kernel.name for kernel in ran} and all(kernel.status == "pass" for kernel in ran)

    @property
    def in_container(self) -> bool:
        return self.machine.system.container.known

    @property
    def in_system_container(self) -> bool:
        """In one that is set up like a machine and brings the driver's libraries itself."""
        return self.machine.system.container.value in ("lxc", "systemd-nspawn")

    @property
    def in_wsl(self) -> bool:
        return self.machine.system.wsl.known

    @property
    def on_jetson(self) -> bool:
        return self.machine.system.jetson.known

    @property
    def platform(self) -> str:
        """ "linux-x86_64" or "linux-aarch64", as torch wheels name it."""
        return self.machine.system.platform

    @cached_property
    def markers(self) -> Environment:
        """What the markers of dependencies are compared with here."""
        from gpudoctor.dependencies import marker_environment

        return marker_environment(self.python, self.platform.partition("-")[2])


def answer_once(question: Callable[Concatenate[Situation, P], A]) -> Callable[Concatenate[Situation, P], A]:
    """Cache the answers to a question about a situation, because many checks ask the same."""

    @wraps(question)
    def answer(situation: Situation, /, *args: P.args, **kwargs: P.kwargs) -> A:
        asked = (question, args, *kwargs.items())
        if asked not in situation.answers:
            situation.answers[asked] = question(situation, *args, **kwargs)
        kept: A = situation.answers[asked]
        return kept

    return answer
