"""The machine as one frozen record: what was read, where it was read, and what could not be read.

Nothing here judges. Versions are texts as printed; memory is in bytes; paths are those of the examined machine (with
`--root`, they are given without that root).
"""

from __future__ import annotations

from typing import Literal

from msgspec import field
from msgspec.structs import force_setattr, replace

from gpudoctor.machine.amd import AmdStack, HsaAgent, HsaApi, KfdNode, RocmInstall, SmiGpu
from gpudoctor.machine.board import Board
from gpudoctor.machine.environment import (
    NO_GLIBCXX,
    WORKING_FOLDER,
    Constraint,
    Distribution,
    EnvironmentKind,
    Extension,
    Installers,
    InstallerSettings,
    InterruptedInstall,
    Lock,
    MissingLibrary,
    ProjectPackage,
    PythonEnvironment,
    ShadowingModule,
    StartFault,
    StartFaultKind,
    TorchAsked,
)
from gpudoctor.machine.facts import ASSUMED, Fact, FactState, Record, Vendor, absent, denied, known, unknown
from gpudoctor.machine.frameworks import (
    FileSetting,
    FrameworkFiles,
    Frameworks,
    MissingSymbols,
    ModuleImport,
    RefusedFlag,
)
from gpudoctor.machine.gpu import Firmware, Gpu
from gpudoctor.machine.network import Interface, Network, RdmaDevice, RdmaPort, SettingsFile
from gpudoctor.machine.nvidia import (
    CdiSpec,
    Fabric,
    FabricState,
    MigDevice,
    NvidiaApi,
    NvidiaModule,
    NvidiaStack,
    NvmlDevice,
    ProcGpu,
    Virtualization,
)
from gpudoctor.machine.pasted_text import PastedText, Told
from gpudoctor.machine.programs import Program, ProgramBackend
from gpudoctor.machine.smoke import LISTING, Smoke, SmokeDevice, SmokeKernel, SmokeStatus
from gpudoctor.machine.system import (
    BatchJob,
    BlockedModule,
    Clock,
    DeviceNode,
    DkmsModule,
    InstalledModule,
    Jetson,
    KernelLog,
    Library,
    LibraryKind,
    LoadPath,
    LogFault,
    Opening,
    Os,
    ProcessLimits,
    System,
    User,
)
from gpudoctor.machine.torch import (
    EMPTY,
    NOT_STARTED,
    CodeArchs,
    DamagedFile,
    FileProblem,
    ImportTrial,
    StartVariable,
    SuspectFile,
    Torch,
    TorchCopy,
    TorchOrigin,
)

__all__ = [
    "ASSUMED",
    "EMPTY",
    "FORMAT",
    "LISTING",
    "NOT_STARTED",
    "NO_GLIBCXX",
    "WORKING_FOLDER",
    "AmdStack",
    "BatchJob",
    "BlockedModule",
    "Board",
    "CdiSpec",
    "Clock",
    "CodeArchs",
    "Constraint",
    "DamagedFile",
    "DeviceNode",
    "Distribution",
    "DkmsModule",
    "EnvironmentKind",
    "Extension",
    "Fabric",
    "FabricState",
    "Fact",
    "FactState",
    "FileProblem",
    "FileSetting",
    "Firmware",
    "FrameworkFiles",
    "Frameworks",
    "Gpu",
    "HsaAgent",
    "HsaApi",
    "ImportTrial",
    "InstalledModule",
    "InstallerSettings",
    "Installers",
    "Interface",
    "InterruptedInstall",
    "Jetson",
    "KernelLog",
    "KfdNode",
    "Level",
    "Library",
    "LibraryKind",
    "LoadPath",
    "Lock",
    "LogFault",
    "Machine",
    "MigDevice",
    "MissingLibrary",
    "MissingSymbols",
    "ModuleImport",
    "Network",
    "NvidiaApi",
    "NvidiaModule",
    "NvidiaStack",
    "NvmlDevice",
    "Opening",
    "Os",
    "PastedText",
    "ProcGpu",
    "ProcessLimits",
    "Program",
    "ProgramBackend",
    "ProjectPackage",
    "PythonEnvironment",
    "RdmaDevice",
    "RdmaPort",
    "Record",
    "RefusedFlag",
    "RocmInstall",
    "SettingsFile",
    "ShadowingModule",
    "SmiGpu",
    "Smoke",
    "SmokeDevice",
    "SmokeKernel",
    "SmokeStatus",
    "StartFault",
    "StartFaultKind",
    "StartVariable",
    "SubjectKind",
    "SuspectFile",
    "System",
    "Told",
    "Torch",
    "TorchAsked",
    "TorchCopy",
    "TorchOrigin",
    "User",
    "Vendor",
    "Virtualization",
    "absent",
    "denied",
    "known",
    "unknown",
]

Level = Literal["static", "driver", "quick", "standard", "full"]
SubjectKind = Literal["machine", "root", "snapshot", "whatif", "text"]
FORMAT = 2
"""Of a written Machine. It rises with a change that an older gpudoctor would misread; `intake.snapshot` reads all."""


class Machine(Record, frozen=True):
    """Everything known about one machine and one Python environment on it."""

    format: int = field(default_factory=lambda: FORMAT)  # a plain default would not be written
    system: System = System()
    gpus: tuple[Gpu, ...] = ()
    buses: Fact[bool] = unknown("not probed")
    """Known if the PCI bus (or what replaces it: KFD, WSL, Jetson) could be listed."""
    nvidia: NvidiaStack = NvidiaStack()
    amd: AmdStack = AmdStack()
    load_path: LoadPath = LoadPath()
    """Driver libraries: libcuda.so.1, libnvidia-ml.so.1, libhsa-runtime64.so.1 ..."""
    network: Network = Network()
    environment: Fact[PythonEnvironment] = unknown("not probed")
    programs: tuple[Program, ...] = ()
    """Programs outside of Python environments that compute on GPUs: ollama, llama.cpp."""
    variables: dict[str, str] = field(default_factory=dict)
    """Relevant environment variables of the examined process."""
    kernel_log: Fact[KernelLog] = unknown("not probed")
    smoke: Smoke | None = None
    """The results of the smoke kernels, if they ran."""
    errors: tuple[str, ...] = ()
    """Error messages that a person saw there, as they were printed."""
    level: Level = "static"
    """How deep it was probed."""
    assumed: tuple[str, ...] = ()
    """For a described machine: facts that nobody described and that are assumed to be healthy."""
    pasted: PastedText | None = None
    """If the machine was read from a text."""

    def __post_init__(self) -> None:
        names = [gpu._name for gpu in self.gpus]
        if len(set(names)) < len(names) or any(gpu.ordinal for gpu in self.gpus):
            counted = (names[:place].count(name) for place, name in enumerate(names))
            gpus = tuple(replace(gpu, ordinal=ordinal) for gpu, ordinal in zip(self.gpus, counted, strict=True))
            force_setattr(self, "gpus", gpus)

    @property
    def torch(self) -> Torch | None:
        """The torch of the examined environment, if one is known to be there."""
        return self.environment.value.torch.value if self.environment.value else None

    @property
    def packages(self) -> tuple[Distribution, ...]:
        """The distributions of the examined environment, as far as their listing is known."""
        environment = self.environment.value
        return environment.distributions.value or () if environment else ()

    def installed(self, name: str) -> Distribution | None:
        """The installed distribution of that normalised name, if one is known."""
        environment = self.environment.value
        return environment.distribution(name) if environment else None

    def source_of_error(self, text: str) -> str:
        """Where one of `errors` was read."""
        lines = self.pasted.error_lines if self.pasted else ()
        place = self.errors.index(text) if text in self.errors else len(lines)
        return f"text, line {lines[place]}" if place < len(lines) else "--error"

    def of_vendor(self, vendor: Vendor) -> tuple[Gpu, ...]:
        return tuple(gpu for gpu in self.gpus if gpu.vendor == vendor)
