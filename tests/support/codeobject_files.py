"""Small ELF files, fat binaries and offload bundles, put together byte by byte for the tests."""

from __future__ import annotations

import struct
import sys
import zlib
from collections.abc import Sequence

if sys.version_info >= (3, 14):
    from compression.zstd import compress as zstd_frame
else:
    from backports.zstd import compress as zstd_frame

__all__ = ["zstd_frame"]

X86_64, AMDGPU = 62, 224
PROGBITS, NOBITS = 1, 8

SASS, PTX = 2, 1


def elf(
    sections: Sequence[tuple[str, bytes] | tuple[str, bytes, int]] = (),
    *,
    machine: int = X86_64,
    flags: int = 0,
    abi_version: int = 0,
    bits: int = 64,
) -> bytes:
    """An ELF file with these sections (name, content, type), each aligned to 16 bytes, its table at the end."""
    names = b"\0"
    body = bytearray(64 if bits == 64 else 52)
    headers = [(0, 0, 0, 0)]
    for name, given, *kind in (*sections, (".shstrtab", b"")):
        at = len(names)
        names += name.encode() + b"\0"
        content = names if name == ".shstrtab" else given
        body += bytes(-len(body) % 16)
        headers.append((at, kind[0] if kind else PROGBITS, len(body), len(content)))
        if not kind or kind[0] != NOBITS:
            body += content
    body += bytes(-len(body) % 16)
    table, layout = len(body), "<IIQQQQIIQQ" if bits == 64 else "<IIIIIIIIII"
    for name_at, kind_of, offset, size in headers:
        body += struct.pack(layout, name_at, kind_of, 0, 0, offset, size, 0, 0, 16, 0)
    ident = b"\x7fELF" + bytes((2 if bits == 64 else 1, 1, 1, 64 if machine == AMDGPU else 0, abi_version)) + bytes(7)
    head_layout = "<HHIQQQIHHHHHH" if bits == 64 else "<HHIIIIIHHHHHH"
    sizes = (64, 56, 0, 64) if bits == 64 else (52, 32, 0, 40)
    head = struct.pack(head_layout, 3, machine, 1, 0, 0, table, flags, *sizes, len(headers), len(headers) - 1)
    body[: len(ident + head)] = ident + head
    return bytes(body)


def entry(arch: str, payload: int = 48) -> bytes:
    """One entry of a fat binary: "sm_90a", "compute_80" ..."""
    family, _, number = arch.partition("_")
    suffix = number.lstrip("0123456789")
    flags = {"": 0x11, "a": 0x100011, "f": 0x200011}[suffix]
    kind = SASS if family == "sm" else PTX
    number = number.removesuffix(suffix)
    head = struct.pack("<HHIQIIHHIIIQQQ", kind, 0x101, 64, payload, 0, 0, 8, 0, int(number), 0, 0, flags, 0, payload)
    return head + b"\xcc" * payload


def container(*archs: str, payload: int = 48) -> bytes:
    """One fat binary, padded to 8 bytes."""
    entries = b"".join(entry(arch, payload) for arch in archs)
    whole = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entries)) + entries
    return whole + bytes(-len(whole) % 8)


def wrappers(count: int, magic: int = 0x466243B1) -> bytes:
    return struct.pack("<IIQQ", magic, 1, 0, 0) * count


def cuda_library(*containers: bytes, relocatable: Sequence[bytes] = ()) -> bytes:
    """A library with NVIDIA code, as nvcc's host linker leaves it."""
    sections = [(".text", b"\x90" * 32), (".nv_fatbin", b"".join(containers))]
    if relocatable:
        sections.append(("__nv_relfatbin", b"".join(relocatable)))
    return elf([*sections, (".nvFatBinSegment", wrappers(len(containers) + len(relocatable)))])


def bundle(*targets: str, code: int = 256, host: bool = True) -> bytes:
    """A plain offload bundle with `code` bytes for each target."""
    ids = [b"host-x86_64-unknown-linux-gnu-"] if host else []
    ids += [f"hipv4-amdgcn-amd-amdhsa--{target}".encode() for target in targets]
    table = 32 + sum(24 + len(name) for name in ids)
    at = (table + 4095) // 4096 * 4096
    head = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(ids))
    for name in ids:
        size = 0 if name.startswith(b"host") else code
        head += struct.pack("<QQQ", at, size, len(name)) + name
        at += size
    return head.ljust((table + 4095) // 4096 * 4096, b"\0") + b"\xcc" * (code * len(targets))


def packed(content: bytes, *, version: int = 3, frame: bytes | None = None) -> bytes:
    """A packed bundle; zlib, or zstd where its frame is given."""
    data = zlib.compress(content) if frame is None else frame
    method = 0 if frame is None else 1
    head = {1: 20, 2: 24, 3: 32}[version]
    sizes = {1: "<I", 2: "<II", 3: "<QQ"}[version]
    numbers = (len(content),) if version == 1 else (head + len(data), len(content))
    return b"CCOB" + struct.pack("<HH", version, method) + struct.pack(sizes, *numbers) + bytes(8) + data


def hip_library(*bundles: bytes, registered: int | None = None) -> bytes:
    """A library with AMD code: bundles aligned to pages, as the linker does."""
    content = b"".join(one + bytes(-len(one) % 4096) for one in bundles[:-1]) + (bundles[-1] if bundles else b"")
    count = len(bundles) if registered is None else registered
    return elf(
        [(".text", b"\x90" * 32), (".hip_fatbin", content), (".hipFatBinSegment", wrappers(count, 0x48495046))]
    )
