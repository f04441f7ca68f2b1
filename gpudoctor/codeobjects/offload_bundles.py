"""AMD's offload bundles: a table of targets and the code objects themselves, either plain or compressed as a whole
(zlib or zstd).

Source: "Clang Offload Bundler" of LLVM.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

from msgspec import Struct

from gpudoctor.codeobjects import Code
from gpudoctor.codeobjects.amd import PACKED, PLAIN, gfx_order
from gpudoctor.codeobjects.bounded_file import Bounded, NotReadable
from gpudoctor.codeobjects.elf import Section

_PAGE = 4096
_ENTRY = struct.Struct("<QQQ")
_ZLIB, _ZSTD = 0, 1
_HEADERS = {  # method, size of the whole compressed bundle (version 1 does not say)
    1: struct.Struct("<6xH12x"),
    2: struct.Struct("<6xHI12x"),
    3: struct.Struct("<6xHQ16x"),
}
_TARGET = r"gfx[0-9][0-9a-z]*(?:-[0-9a-z]+)*(?::[a-z]+[+-])*|amdgcnspirv"
_MOST_ENTRIES = 512
_MOST_BUNDLES = 4096
_MOST_PAGES = 65536
_TABLE_SIZES = (4096, 65536)
"""How much of a bundle is decompressed to find its table of targets, at first and at most."""


class _Bundle(Struct, frozen=True):
    """Where a bundle's table of targets can be read."""

    start: int
    end: int
    method: int | None = None
    """None: plain."""


def read_bundles(file: Bounded) -> Code:
    """The code of a file that is itself an offload bundle (.co, .hsaco of kernel libraries)."""
    return read_sections(file, [Section(name="", offset=0, size=file.size)], None)


def read_sections(file: Bounded, sections: list[Section], sample: int | None) -> Code:
    """The code of all bundles in some sections, or of `sample` of the compressed ones."""
    bundles: list[_Bundle] = []
    carriers: dict[str, int] = {}
    reason, read = None, 0
    try:
        for section in sections:
            _find_bundles(file, section, bundles)
    except NotReadable as error:
        reason = error.reason
    try:
        for bundle in _spread(bundles, sample):
            for target in _targets(file, bundle):
                carriers[target] = carriers.get(target, 0) + 1
            read += 1
    except NotReadable as error:
        reason = error.reason
    if reason is not None and read:
        reason += f" (after {read} bundles)"
    found = sorted(carriers, key=gfx_order)
    return Code(
        gfx=tuple(found),
        share={target: carriers[target] / read for target in found},
        containers=len(bundles),
        reason=reason,
    )


def _spread(bundles: list[_Bundle], sample: int | None) -> list[_Bundle]:
    """All bundles, or `sample` of them from first to last if they are compressed."""
    if sample is None or len(bundles) <= sample or all(bundle.method is None for bundle in bundles):
        return bundles
    return [bundles[index * len(bundles) // sample] for index in range(sample)]


def _find_bundles(file: Bounded, section: Section, bundles: list[_Bundle]) -> None:
    at, end = section.offset, section.offset + section.size
    if end > file.size:
        raise NotReadable(f"truncated: its code ends at {end} and the file at {file.size}")
    while (at := file.skip_zeros(at, end)) < end:
        if len(bundles) >= _MOST_BUNDLES:
            raise NotReadable(f"absurd size: more than {_MOST_BUNDLES} bundles")
        if _starts(file, at, end, PACKED):
            bundle, at = _compressed_bundle(file, at, end)
        elif _starts(file, at, end, PLAIN):
            bundle = _Bundle(start=at, end=end)
            at += _plain_size(file, bundle)
            if at > end:
                raise NotReadable("malformed: a code object that is larger than its section")
        else:
            raise NotReadable(f"malformed: no offload bundle at {at}")
        bundles.append(bundle)


def _plain_size(file: Bounded, bundle: _Bundle) -> int:
    """Up to the end of the last code object; at least the table itself, so that a walk makes progress."""
    entries = _table(_plain(file, bundle))
    table = len(PLAIN) + 8 + sum(_ENTRY.size + len(name) for _, _, name in entries)
    return max(table, *(offset + size for offset, size, _ in entries))


def _plain(file: Bounded, bundle: _Bundle) -> Callable[[int], bytes]:
    return lambda limit: file.read(bundle.start, min(limit, bundle.end - bundle.start))


def _starts(file: Bounded, at: int, end: int, magic: bytes) -> bool:
    return at + len(magic) <= end and file.read(at, len(magic)) == magic


def _compressed_bundle(file: Bounded, at: int, end: int) -> tuple[_Bundle, int]:
    version = struct.unpack("<4xH", file.read(at, 6))[0]
    layout = _HEADERS.get(version)
    if layout is None:
        raise NotReadable(f"a packed bundle of an unknown version ({version})")
    method, *sizes = layout.unpack(file.read(at, layout.size))
    following = at + sizes[0] if sizes else _next_on_page(file, at, end)
    if not at + layout.size < following <= end:
        raise NotReadable("malformed: a packed bundle that is larger than its section")
    return _Bundle(start=at + layout.size, end=following, method=method), following


def _next_on_page(file: Bounded, at: int, end: int) -> int:
    """The start of the bundle after one that does not state its size: compilers align them to pages."""
    for place in range(at + _PAGE, min(end, at + _MOST_PAGES * _PAGE), _PAGE):
        if _starts(file, place, end, PACKED) or _starts(file, place, end, PLAIN):
            return place
    return end


def _targets(file: Bounded, bundle: _Bundle) -> set[str]:
    start, end = bundle.start, bundle.end
    if bundle.method is None:
        entries = _table(_plain(file, bundle))
    elif bundle.method == _ZSTD:
        from gpudoctor.codeobjects.zstd import first_bytes

        entries = _table(lambda limit: first_bytes(file, start, end, limit))
    elif bundle.method == _ZLIB:
        entries = _table(lambda limit: _inflate(_plain(file, bundle)(limit), limit))
    else:
        raise NotReadable(f"a bundle that is packed in an unknown way ({bundle.method})")
    return {_target(name) for _, size, name in entries if size and not name.startswith(b"host-")}


def _inflate(data: bytes, limit: int) -> bytes:
    import zlib

    try:
        return zlib.decompressobj().decompress(data, limit)
    except zlib.error:
        raise NotReadable("malformed: damaged zlib data") from None


def _table(content: Callable[[int], bytes]) -> list[tuple[int, int, bytes]]:
    """A bundle's entries (offset, size, id); `content(n)` gives its first n bytes, or fewer."""
    for limit in _TABLE_SIZES:
        data = content(limit)
        entries = _entries(data)
        if entries is not None:
            return entries
        if len(data) < limit:
            break
    raise NotReadable("truncated: a bundle without its whole table of targets")


def _entries(data: bytes) -> list[tuple[int, int, bytes]] | None:
    """The table's entries, or None if `data` ends before the table does."""
    if len(data) < len(PLAIN) + 8:
        return None
    if data[: len(PLAIN)] != PLAIN:
        raise NotReadable("malformed: a packed bundle without a bundle in it")
    count, at = int.from_bytes(data[len(PLAIN) : len(PLAIN) + 8], "little"), len(PLAIN) + 8
    if not 0 < count <= _MOST_ENTRIES:
        raise NotReadable(f"absurd size: a bundle of {count} code objects")
    entries = []
    for _ in range(count):
        if at + _ENTRY.size > len(data):
            return None
        offset, size, length = _ENTRY.unpack_from(data, at)
        at += _ENTRY.size
        if length > _TABLE_SIZES[-1]:
            raise NotReadable("absurd size: a code object's name")
        if at + length > len(data):
            return None
        entries.append((offset, size, data[at : at + length]))
        at += length
    return entries


def _target(name: bytes) -> str:
    """The target in an id such as "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-"."""
    text = name.rstrip(b"\0").decode("ascii", "replace")
    start = max(text.find("-gfx"), text.find("-amdgcnspirv")) + 1
    if not start or not re.fullmatch(_TARGET, text[start:]):
        raise NotReadable(f"malformed: a target named {text[:80]!r}")
    return text[start:]
