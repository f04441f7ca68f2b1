"""The first bytes of a Zstandard frame, decompressed by the library and no further than asked.

The library is imported here, and this module only where there is such a frame.
"""

from __future__ import annotations

import sys

from gpudoctor.codeobjects.bounded_file import Bounded, NotReadable

try:
    if sys.version_info >= (3, 14):
        from compression.zstd import ZstdDecompressor, ZstdError
    else:
        from backports.zstd import ZstdDecompressor, ZstdError
except ImportError:  # a Python that was built without it
    raise NotReadable("zstd data, which this Python cannot decompress") from None

_MAGIC = b"\x28\xb5\x2f\xfd"
_CHUNK = 32 << 10
_INPUT_LIMIT = 8 << 20
"""A frame may have blocks without content for ever."""


def first_bytes(file: Bounded, start: int, end: int, wanted: int) -> bytes:
    """At most `wanted` bytes of the content of the frame that lies from `start` to `end` of the file. Memory stays
    bounded whatever the frame states: the library refuses a window of more than 128 MiB, and of a smaller one it
    touches only what it writes."""
    if file.read(start, min(len(_MAGIC), end - start)) != _MAGIC:
        raise NotReadable("malformed: not a zstd frame")
    decompressor, content = ZstdDecompressor(), bytearray()
    for at in range(start, min(end, start + _INPUT_LIMIT), _CHUNK):
        try:
            content += decompressor.decompress(file.read(at, min(_CHUNK, end - at)), wanted - len(content))
        except (ZstdError, MemoryError):
            raise NotReadable("malformed: damaged zstd data") from None
        if decompressor.eof or len(content) == wanted:
            return bytes(content)
    if end > start + _INPUT_LIMIT:
        return bytes(content)
    raise NotReadable("truncated: a zstd frame that is cut short")
