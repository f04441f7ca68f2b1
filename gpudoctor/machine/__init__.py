"""The machine as one frozen record: what was read, where it was read, and what could not be read.

Nothing here judges. Versions are texts as printed; memory is in bytes; paths are those of the examined machine (with
`--root`, they are given without that root).
"""

from __future__ import annotations

from typing import Literal

from msgspec import field
from msgspec.structs import force_setattr, replace

from gpudoctor.machine.amd import *
from gpudoctor.machine.board import *
from gpudoctor.machine.environment import *
from gpudoctor.machine.facts import *
from gpudoctor.machine.frameworks import *
from gpudoctor.machine.gpu import *
from gpudoctor.machine.network import *
from gpudoctor.machine.nvidia import *
from gpudoctor.machine.pasted_text import *
from gpudoctor.machine.programs import *
from gpudoctor.machine.smoke import *
from gpudoctor.machine.system import *
from gpudoctor.machine.torch import *

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
    variable_files: dict[str, str] = field(default_factory=dict)
    """Where some of these are set: "~/.bashrc, line 12"."""
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
    def examined(self) -> PythonEnvironment:
        """The examined environment; where there is none, a record of which nothing is known."""
        return self.environment.value or _NO_ENVIRONMENT

    @property
    def text(self) -> PastedText:
        """The text that the machine was read from; where it was read from none, a record that says nothing."""
        return self.pasted or _NO_TEXT

    @property
    def torch(self) -> Torch | None:
        """The torch of the examined environment, if one is known to be there."""
        return self.examined.torch.value

    @property
    def packages(self) -> tuple[Distribution, ...]:
        """The distributions of the examined environment, as far as their listing is known."""
        return self.examined.packages

    @property
    def extensions(self) -> tuple[Extension, ...]:
        """The compiled libraries of its packages, as far as they were read."""
        return self.examined.extensions

    @property
    def log_faults(self) -> tuple[LogFault, ...]:
        """The lines of the kernel log about faults, oldest first, as far as the log is known."""
        return self.kernel_log.value.faults if self.kernel_log.value else ()

    @property
    def kernels(self) -> tuple[SmokeKernel, ...]:
        """The results of the smoke kernels, if they ran."""
        return self.smoke.kernels if self.smoke else ()

    def installed(self, name: str) -> Distribution | None:
        """The installed distribution of that normalised name, if one is known."""
        return self.examined.distribution(name)

    def with_environment(self, environment: PythonEnvironment) -> Machine:
        """The same machine with another state of its environment."""
        return replace(self, environment=replace(self.environment, value=environment))

    def with_torch_facts(self, **facts: object) -> Machine:
        """The same machine with these facts of its torch."""
        return self.with_environment(self.examined.with_torch_facts(**facts))

    def source_of_error(self, text: str) -> str:
        """Where one of `errors` was read."""
        lines = self.text.error_lines
        place = self.errors.index(text) if text in self.errors else len(lines)
        return f"text, line {lines[place]}" if place < len(lines) else "--error"

    def assumes(self, what: str) -> bool:
        """Whether nobody stated this ("NVIDIA driver"): a description left it open."""
        return any(name.startswith(what) for name in self.assumed)

    def of_vendor(self, vendor: Vendor) -> tuple[Gpu, ...]:
        return tuple(gpu for gpu in self.gpus if gpu.vendor == vendor)


_NO_ENVIRONMENT, _NO_TEXT = PythonEnvironment(), PastedText()
