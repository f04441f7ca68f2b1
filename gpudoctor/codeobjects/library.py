"""The GPU code in one file of any kind: a library, a code object, a bundle or a fat binary."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.codeobjects import Code, amd, nvidia
from gpudoctor.codeobjects.bounded_file import Bounded, Handle, NotReadable
from gpudoctor.codeobjects.elf import MAGIC, Elf


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
            return _code_of_both(cuda, amd.read_amd(elf, sample.bundles if sample else None))
        if head.startswith((amd.PLAIN, amd.PACKED)):
            from gpudoctor.codeobjects.offload_bundles import read_bundles

            return read_bundles(file)
        if head.startswith(nvidia.MAGIC):
            return nvidia.read_fatbin(file)
    except NotReadable as error:
        return Code(reason=error.reason)
    return Code(reason="not an ELF file")


def _code_of_both(cuda: Code, hip: Code) -> Code:
    return replace(
        cuda,
        gfx=hip.gfx,
        share={**cuda.share, **hip.share},
        containers=cuda.containers + hip.containers,
        kpack=hip.kpack,
        reason=cuda.reason or hip.reason,
    )
