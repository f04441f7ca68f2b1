"""AMD code in a library or a separate file: the gfx targets that it is for.

Compilers put one offload bundle for each translation unit into `.hip_fatbin`; `.hipFatBinSegment` has one wrapper of
24 bytes for each. A multi-arch library has its code in archives beside it instead (kpack) and only refers to them.

Sources: "User Guide for AMDGPU Backend" of LLVM; rocm-kpack in ROCm/TheRock.
"""

from __future__ import annotations

from gpudoctor.codeobjects import Code
from gpudoctor.codeobjects.bounded_file import Bounded
from gpudoctor.codeobjects.elf import GPU_CODE, Elf, Section

PLAIN = b"__CLANG_OFFLOAD_BUNDLE__"
PACKED = b"CCOB"
CODE, WRAPPERS, KPACK = GPU_CODE[1], ".hipFatBinSegment", ".rocm_kpack_ref"
EM_AMDGPU = 224

_WRAPPER_SIZE = 24
_KPACK_WRAPPER = 0x4B504948


def read_amd(elf: Elf, sample: int | None = None) -> Code:
    """The AMD code of a library, or of a code object.

    Decompressing costs a millisecond per bundle: with `sample`, only so many compressed bundles, evenly spread, are
    read. Raises NotReadable for a damaged section table.
    """
    if elf.machine == EM_AMDGPU:
        return _code_object(elf)
    wrappers = elf.section(WRAPPERS)
    if elf.section(KPACK) is not None or _points_to_kpack(elf.file, wrappers):
        return Code(kpack=True)
    sections = [section for section in elf.sections if section.name == CODE and section.size]
    if not sections:
        registered = wrappers is not None and wrappers.size >= _WRAPPER_SIZE
        return Code(reason="its code lies outside .hip_fatbin" if registered else None)
    from gpudoctor.codeobjects.offload_bundles import read_sections

    return read_sections(elf.file, sections, sample)


def gfx_order(target: str) -> tuple[int, str]:
    """Sort key: gfx906 before gfx90a before gfx1030."""
    name = target.partition(":")[0].partition("-")[0]
    return len(name), target


def _points_to_kpack(file: Bounded, wrappers: Section | None) -> bool:
    if wrappers is None or wrappers.size < _WRAPPER_SIZE:
        return False
    return int.from_bytes(file.read(wrappers.offset, 4), "little") == _KPACK_WRAPPER


# --- code objects ---

_PROCESSORS = {
    0x20: "gfx600", 0x21: "gfx601", 0x22: "gfx700", 0x23: "gfx701", 0x24: "gfx702", 0x25: "gfx703", 0x26: "gfx704",
    0x28: "gfx801", 0x29: "gfx802", 0x2A: "gfx803", 0x2B: "gfx810", 0x2C: "gfx900", 0x2D: "gfx902", 0x2E: "gfx904",
    0x2F: "gfx906", 0x30: "gfx908", 0x31: "gfx909", 0x32: "gfx90c", 0x33: "gfx1010", 0x34: "gfx1011",
    0x35: "gfx1012", 0x36: "gfx1030", 0x37: "gfx1031", 0x38: "gfx1032", 0x39: "gfx1033", 0x3A: "gfx602",
    0x3B: "gfx705", 0x3C: "gfx805", 0x3D: "gfx1035", 0x3E: "gfx1034", 0x3F: "gfx90a", 0x40: "gfx940",
    0x41: "gfx1100", 0x42: "gfx1013", 0x43: "gfx1150", 0x44: "gfx1103", 0x45: "gfx1036", 0x46: "gfx1101",
    0x47: "gfx1102", 0x48: "gfx1200", 0x49: "gfx1250", 0x4A: "gfx1151", 0x4B: "gfx941", 0x4C: "gfx942",
    0x4E: "gfx1201", 0x4F: "gfx950", 0x51: "gfx9-generic", 0x52: "gfx10-1-generic", 0x53: "gfx10-3-generic",
    0x54: "gfx11-generic", 0x55: "gfx1152", 0x58: "gfx1153", 0x59: "gfx12-generic", 0x5A: "gfx1251",
    0x5B: "gfx12-5-generic", 0x5F: "gfx9-4-generic",
}  # fmt: skip
"""EF_AMDGPU_MACH of LLVM's BinaryFormat/ELF.h."""

_ABI_V3 = 1


def _code_object(elf: Elf) -> Code:
    processor = _PROCESSORS.get(elf.flags & 0xFF)
    if processor is None:
        return Code(containers=1, reason=f"an unknown AMD processor ({elf.flags & 0xFF:#x})")
    target = processor + _features(elf.flags, elf.abi_version)
    return Code(gfx=(target,), share={target: 1.0}, containers=1)


def _features(flags: int, abi: int) -> str:
    """The features that the code requires; a feature that is left open, or that the processor lacks, is not named.

    Since code object version 4 each feature has two bits (2: off, 3: on). Version 3 has one bit (on). If it is not
    set, the code may need the feature off or a processor without it, which only the processor could tell.
    """
    if abi <= _ABI_V3:
        return (":sramecc+" if flags & 0x200 else "") + (":xnack+" if flags & 0x100 else "")
    signs = {2: "-", 3: "+"}
    sramecc, xnack = signs.get(flags >> 10 & 3), signs.get(flags >> 8 & 3)
    return (f":sramecc{sramecc}" if sramecc else "") + (f":xnack{xnack}" if xnack else "")
