"""Texts in packed files: nvidia-bug-report.log.gz, and the reports of sos, which are tar archives.

Nothing is written to disk, so no name in an archive leads anywhere; and no more than a bound is ever unpacked.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any, cast

from gpudoctor.late_regex import late

_MOST = 256 << 20
"""Bytes that are unpacked of a file."""
_TEXT, _MEMBER = 64 << 20, 1 << 20
"""Bytes that are given on: of a text, and of one member of an archive (its end, where a log is newest)."""
_BLOCK = 1 << 20
_MEMBERS = late(
    r"(?:^|/)(?:etc/os-release|proc/(?:cmdline|version|driver/nvidia/version)|installed-(?:rpms|debs)|uname|dmesg|lspci"
    r"|sos_commands/(?:kernel|pci|host|nvidia|amd|amdgpu|rocm|python|conda|hardware)/[\w.+-]{1,100}"
    r"|[\w.-]{0,60}nvidia-bug-report\.log)$"
)
"""Members of a sosreport, or of a folder of logs, that tell of GPUs."""


class DamagedError(Exception):
    """Nothing of a packed file can be read."""


def packed_text(content: bytes) -> bytes:
    """The text in a packed file; of a tar archive the members that tell of GPUs. Raises DamagedError."""
    stream = _Bounded(content)
    head = stream.peek()
    if head[257:262] == b"ustar":
        return b"\n".join(_members(stream))
    return stream.read(_TEXT)


def _gzip(file: Any) -> io.BufferedIOBase:
    import gzip

    return gzip.GzipFile(fileobj=file)


def _xz(file: Any) -> io.BufferedIOBase:
    import lzma

    return lzma.LZMAFile(file)


def _bzip2(file: Any) -> io.BufferedIOBase:
    import bz2

    return bz2.BZ2File(file)


_OPENERS: dict[bytes, Callable[[Any], io.BufferedIOBase]] = {b"\x1f\x8b": _gzip, b"\xfd7zXZ": _xz, b"BZh": _bzip2}


class _Bounded:
    """The unpacked content: it ends at the bound, and where the file was cut off or is damaged."""

    def __init__(self, content: bytes) -> None:
        opener = next((opener for magic, opener in _OPENERS.items() if content.startswith(magic)), None)
        file = io.BytesIO(content)
        self._file = opener(file) if opener else file
        self._ahead, self._left = b"", _MOST

    def peek(self) -> bytes:
        """The beginning. Raises DamagedError where there is none."""
        self._ahead = self._block(_BLOCK)
        if not self._ahead:
            raise DamagedError
        return self._ahead

    def read(self, size: int) -> bytes:
        """Read up to `size` bytes, fewer only at the end."""
        parts, missing = [self._ahead[:size]], size - len(self._ahead)
        self._ahead = self._ahead[size:]
        while missing > 0 and (block := self._block(min(missing, _BLOCK))):
            parts.append(block)
            missing -= len(block)
        return b"".join(parts)

    def _block(self, size: int) -> bytes:
        import zlib
        from lzma import LZMAError

        try:
            block = self._file.read1(min(size, self._left))
        except (EOFError, OSError, zlib.error, LZMAError):
            return b""
        self._left -= len(block)
        return block


def _members(stream: _Bounded) -> Iterator[bytes]:
    import tarfile

    try:
        with tarfile.open(fileobj=cast("Any", stream), mode="r|") as archive:
            for member in archive:
                if member.isfile() and _MEMBERS.search(member.name) and (file := archive.extractfile(member)):
                    last = b""
                    while block := file.read(_MEMBER):
                        last = (last + block)[-_MEMBER:]
                    yield last
    except (tarfile.TarError, ValueError, OverflowError, EOFError, OSError):
        return  # cut off: what was read until here counts
