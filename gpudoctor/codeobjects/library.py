"""The GPU code in one file of any kind: a library, a code object, a bundle or a fat binary."""

from __future__ import annotations

from msgspec import Struct

from gpudoctor.codeobjects import amd, nvidia
from gpudoctor.codeobjects.amd import AmdCode
from gpudoctor.codeobjects.bounded_file import Bounded, Handle, NotReadable
from gpudoctor.codeobjects.elf import MAGIC, Elf
from gpudoctor.codeobjects.nvidia import NvidiaCode


class Code(Struct, frozen=True):
    """The GPU code of one file: `sass` "sm_90a", `ptx` "compute_90", `gfx` "gfx90a:xnack-". For a file without any,
    all are empty and there is no reason."""

    sass: tuple[str, ...] = ()
    ptx: tuple[str, ...] = ()
    gfx: tuple[str, ...] = ()
    relocatable: tuple[str, ...] = ()
    """NVIDIA code for the device linker only: no driver loads it."""
    share: dict[str, float] = {}
    """For each of the first three, the share of the containers (of its vendor) that have it."""
    containers: int = 0
    registered: int | None = None
    """How many containers the library registers; see NvidiaCode for why that can be more."""
    sampled: int | None = None
    """How many containers were read, if not all."""
    kpack: bool = False
    """AMD: its device code is in separate archives or packages."""
    reason: str | None = None
    """Why it could not be read, or not to its end."""

    def architectures(self, least: float = 0.0) -> tuple[str, ...]:
        """Architectures whose share of the containers is at least `least`."""
        return tuple(arch for arch in (*self.sass, *self.ptx, *self.gfx) if self.share[arch] >= least)


class Sample(Struct, frozen=True):
    """How many containers (NVIDIA) and compressed bundles (AMD, a millisecond each) to read, evenly spread."""

    containers: int
    bundles: int


def read_code(handle: Handle | Bounded, sample: Sample | None = None) -> Code:
    """Read a file's GPU code from its headers. Never raises because of the file: `reason` says what is wrong.
    `handle` is open for `pread`. With `sample`, code in only few containers may be missed."""
    try:
        file = handle if isinstance(handle, Bounded) else Bounded(handle)
        if not file.size:
            return Code(reason="an empty file")
        head = file.read(0, min(file.size, len(amd.PLAIN)))
        if head.startswith(MAGIC):
            elf = Elf(file)
            cuda = nvidia.read_nvidia(elf, sample.containers if sample else None)
            return _merged(cuda, amd.read_amd(elf, sample.bundles if sample else None))
        if head.startswith((amd.PLAIN, amd.PACKED)):
            return _merged(None, amd.read_bundles(file))
        if head.startswith(nvidia.MAGIC):
            return _merged(nvidia.read_fatbin(file), None)
    except NotReadable as error:
        return Code(reason=error.reason)
    return Code(reason="not an ELF file")


def _merged(cuda: NvidiaCode | None, hip: AmdCode | None) -> Code:
    cuda, hip = cuda or NvidiaCode(), hip or AmdCode()
    return Code(
        sass=cuda.sass,
        ptx=cuda.ptx,
        gfx=hip.gfx,
        relocatable=cuda.relocatable,
        share={**cuda.share, **hip.share},
        containers=cuda.containers + hip.containers,
        registered=cuda.registered if hip.registered is None else hip.registered + (cuda.registered or 0),
        sampled=hip.sampled if cuda.sampled is None else cuda.sampled + (hip.sampled or 0),
        kpack=hip.kpack,
        reason=cuda.reason or hip.reason,
    )
