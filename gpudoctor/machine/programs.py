"""Programs that compute on GPUs without Python: ollama, llama.cpp."""

from __future__ import annotations

from msgspec import field

from gpudoctor.machine.facts import Record


class ProgramBackend(Record, frozen=True):
    """One of a program's libraries that compute on GPUs."""

    kind: str
    """The last word of its name: "cuda", "hip", "vulkan"."""
    path: str
    sass: tuple[str, ...] = ()
    ptx: tuple[str, ...] = ()
    gfx: tuple[str, ...] = ()
    blas_gfx: tuple[str, ...] | None = None
    """Targets of the rocBLAS beside it; None: it brings none."""
    runtime: str = ""
    """CUDA that it was built with, as the library names it or the runtime beside it: "12", "12.8"."""
    missing: tuple[str, ...] = ()
    """Libraries of CUDA or ROCm that it names and the loader does not find."""

    @property
    def folder(self) -> str:
        """The folder that it lies in: "cuda_v12"."""
        return self.path.rpartition("/")[0].rpartition("/")[2]


class Program(Record, frozen=True):
    """A program, the libraries that it computes with, and the settings of its service."""

    name: str
    """As the matrix names it: "ollama"."""
    path: str
    folder: str = ""
    """The folder of its libraries; empty if it was not found: what it computes with is then unknown."""
    backends: tuple[ProgramBackend, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    """Relevant environment variables that its service sets."""
    service: str = ""
    """The file that describes its service; empty: it has none, and gets the variables of whoever starts it."""
