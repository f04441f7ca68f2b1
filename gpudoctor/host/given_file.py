"""Reads files that a person names: completely, and without waiting; and errors of an output that accepts no more."""

from __future__ import annotations

import errno
import os
import stat

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of an output that accepts no more data."""


def read_given(path: str, limit: int, *, pipes: bool = False) -> bytes:
    """Its content, or one byte more than `limit` of it.

    OSError if it cannot be read, is no regular file, or would make us wait; with `pipes` a pipe is read to its end.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        kind = os.fstat(descriptor).st_mode
        if pipes and not stat.S_ISDIR(kind):
            os.set_blocking(descriptor, not stat.S_ISREG(kind))
        elif not stat.S_ISREG(kind):
            raise OSError(errno.EINVAL, "not a regular file")
        content = bytearray()
        while len(content) <= limit and (block := os.read(descriptor, min(1 << 20, limit + 1 - len(content)))):
            content += block
        return bytes(content)
    finally:
        os.close(descriptor)
