"""What a kernel module file says about itself: the .modinfo section, plain or compressed."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Literal

from gpudoctor.host import Host

_Reader = Callable[[int, int], bytes]
"""(offset, length) to at most that many bytes."""

_COMPRESSED_LIMIT = 3 << 20
"""Decompressing more than this would cost more than the answer is worth."""
_PLAIN_LIMIT = 24 << 20
_STRINGS_LIMIT = 1 << 16
_SECTION = struct.Struct("<IIQQQQIIQQ")


def read_modinfo(host: Host, path: str) -> dict[str, str]:
    """The first value of each key ("version", "license", "vermagic" ...); empty if it cannot be read."""
    section = _section(host, path) if path.endswith(".ko") else _decompressed_section(host, path)
    if not section and not host.live:
        section = host.data(path, _STRINGS_LIMIT).value or b""  # a recording may have kept only the strings
    info: dict[str, str] = {}
    for entry in section.split(b"\0"):
        key, found, value = entry.partition(b"=")
        if found:
            info.setdefault(key.decode("ascii", "replace"), value.decode("utf-8", "replace"))
    return info


def flavour_of_license(license: str | None) -> Literal["open", "proprietary"] | None:
    """Flavour of an NVIDIA module by the licence that it states."""
    if license is None:
        return None
    return "open" if "GPL" in license else ("proprietary" if license == "NVIDIA" else None)


def flavour_of_source(host: Host, version: str | None) -> Literal["open", "proprietary"] | None:
    """Flavour of a DKMS module by the licence that its source in /usr/src states."""
    if version is None:
        return None
    for name in (f"nvidia-{version}", f"nvidia-open-{version}", f"nvidia-current-{version}"):
        for part in ("nvidia/nv.c", "kernel-open/nvidia/nv.c"):
            text = host.data(f"/usr/src/{name}/{part}").value or b""
            stated = text.partition(b'MODULE_LICENSE("')[2].partition(b'"')[0]
            if stated:
                return flavour_of_license(stated.decode("ascii", "replace"))
    return None


def _section(host: Host, path: str) -> bytes:
    return _find(lambda offset, length: host.data(path, length, offset).value or b"")


def _decompressed_section(host: Host, path: str) -> bytes:
    found = host.stat(path).value
    if found is None or found.size > _COMPRESSED_LIMIT:
        return b""
    content = _decompress(path, host.data(path, _COMPRESSED_LIMIT).value or b"")
    return _find(lambda offset, length: content[offset : offset + length])


def _decompress(path: str, content: bytes) -> bytes:
    try:
        if path.endswith(".xz"):
            import lzma

            return lzma.LZMADecompressor(memlimit=256 << 20).decompress(content, _PLAIN_LIMIT)
        if path.endswith(".gz"):
            import zlib

            return zlib.decompressobj(31).decompress(content, _PLAIN_LIMIT)
        from gpudoctor.codeobjects.bounded_file import Bounded
        from gpudoctor.codeobjects.zstd import first_bytes

        return first_bytes(Bounded(content), 0, len(content), _PLAIN_LIMIT)
    except Exception:  # each format has its own errors; with any of them the file says nothing
        return b""


def _find(read: _Reader) -> bytes:
    """The bytes of .modinfo in a 64-bit little-endian ELF object."""
    header = read(0, 64)
    if len(header) < 64 or header[:6] != b"\x7fELF\x02\x01":
        return b""
    table, size, count, names_index = (
        struct.unpack_from("<Q", header, 40)[0],
        *struct.unpack_from("<HHH", header, 58),
    )
    if size != _SECTION.size or not 0 < count <= 4096 or names_index >= count:
        return b""
    raw = read(table, size * count)
    if len(raw) < size * count:
        return b""
    sections = list(_SECTION.iter_unpack(raw))
    names = read(sections[names_index][4], min(sections[names_index][5], 1 << 16))
    for name, _, _, _, offset, length, *_ in sections:
        if names[name : name + 9] == b".modinfo\0":
            return bytes(read(offset, min(length, 1 << 20)))
    return b""
