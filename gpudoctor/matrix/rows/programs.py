"""Programs that compute on GPUs without Python: where they lie, and what they ask for."""

from msgspec import Struct

from gpudoctor.matrix.rows.row import Row


class DriverFloor(Struct, frozen=True, forbid_unknown_fields=True):
    """The oldest driver with which a program uses its library for one CUDA."""

    runtime: str
    """Specifier of the CUDA runtime that the library brings."""
    driver: str
    below: str = ""
    """Only for GPUs of a lower compute capability than this: "sm_70"."""


class GpuProgram(Row, frozen=True, kw_only=True):
    """A program outside of Python environments, and where its libraries lie."""

    program: str
    commands: tuple[str, ...]
    """Names of its files on PATH; the first one that is there counts."""
    folders: tuple[str, ...]
    """Where its libraries may lie, from the folder of its command on."""
    subfolders: tuple[str, ...] = ()
    """Folders in there that hold libraries for GPUs; "*" for each."""
    service: str = ""
    """Name of its systemd unit."""
    chosen_by: str = ""
    """The variable that names the one subfolder to use."""
    chosen: str = ""
    """Regular expression for its values that do."""
    driver_floors: tuple[DriverFloor, ...] = ()
    """Drivers that it asks for itself, beyond what its CUDA asks for; the first row that fits counts."""
    integrated: tuple[str, ...] = ()
    """The integrated AMD GPUs that it uses without being told to."""
    for_nvidia: str
    """What brings its library for NVIDIA GPUs: a sentence."""
    for_amd: str
