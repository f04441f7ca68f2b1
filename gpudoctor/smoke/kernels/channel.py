"""Framed messages between gpudoctor and its child: each frame has a start mark, its length and a checksum.

A faulty child may write anything anywhere, also into its channel: anything but a frame is refused, not guessed.
Both sides use this module; Python 3.8 and newer.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from typing import Any, Dict, Iterator

Message = Dict[str, Any]

_MARK = b"GPD\x01"
_HEAD = struct.Struct(">4sII")
FRAME_LIMIT = 1 << 20


class GarbledError(Exception):
    """Bytes on the channel that are not a frame."""


def frame(message: Message) -> bytes:
    """A message as bytes for the channel."""
    body = json.dumps(message).encode("utf-8", "surrogateescape")
    return _HEAD.pack(_MARK, len(body), zlib.crc32(body)) + body


def send(descriptor: int, message: Message) -> None:
    """Write one message completely. Raises OSError if nobody reads any more."""
    data = frame(message)
    while data:
        data = data[os.write(descriptor, data) :]


class Reader:
    """Takes bytes as they arrive and yields the complete messages."""

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, data: bytes) -> Iterator[Message]:
        """Messages that `data` completes. Raises GarbledError at the first byte that belongs to no message."""
        self._buffer += data
        while len(self._buffer) >= _HEAD.size:
            mark, length, checksum = _HEAD.unpack_from(self._buffer)
            if mark != _MARK or length > FRAME_LIMIT:
                raise GarbledError("the child wrote something that is no frame")
            if len(self._buffer) < _HEAD.size + length:
                return
            body = self._buffer[_HEAD.size : _HEAD.size + length]
            self._buffer = self._buffer[_HEAD.size + length :]
            try:
                message = json.loads(body) if zlib.crc32(body) == checksum else None
            except ValueError:
                message = None
            if not isinstance(message, dict):
                raise GarbledError("a frame of the child is damaged")
            yield message
