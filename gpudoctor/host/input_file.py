"""Reads files that a person names: completely, and without waiting; and errors of an output that accepts no more."""

from __future__ import annotations

import errno
import os
import stat

from gpudoctor.host.open_file import closing

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of an output that accepts no more data."""

STDIN = "/dev/stdin"

_CAREFUL = ("O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_NOINHERIT", "O_BINARY")  # Windows has the last two
WITHOUT_WAITING = sum(getattr(os, name, 0) for name in _CAREFUL)
"""Flags for a file that may be a pipe or a terminal: do not wait for it, nor own it, nor hand it to children."""


class InputError(Exception):
    """A person's input cannot be used: the text says what, where, and what to do."""


def reason_of(error: Exception) -> str:
    """What the system says of an error: "no such file or directory"."""
    return (getattr(error, "strerror", None) or str(error)).lower()


def read_input(
    path: str, limit: int, advice: str, *, name: str = "", pipes: bool = False, kind: type[InputError] = InputError
) -> bytes:
    """Its content. Raises InputError, or that kind of it, which calls the file by its name; `advice` ends the message
    about a file over the limit."""
    name = name or path
    try:
        content = read_given(path, limit, pipes=pipes)
    except (OSError, ValueError) as error:
        raise kind(f"{name}: cannot be read: {reason_of(error)}") from None
    if len(content) > limit:
        raise kind(f"{name}: larger than {limit >> 20} MiB{advice}")
    return content


def read_given(path: str, limit: int, *, pipes: bool = False) -> bytes:
    """Its content, or one byte more than `limit` of it. OSError if it cannot be read, is no regular file, or would
    make us wait; with `pipes` a pipe is read to its end."""
    inherited = path == STDIN and not os.path.exists(STDIN)  # a system without /dev
    with closing(os.dup(0) if inherited else os.open(path, os.O_RDONLY | WITHOUT_WAITING)) as descriptor:
        kind = os.fstat(descriptor).st_mode
        if pipes and not stat.S_ISDIR(kind):
            if hasattr(os, "set_blocking"):
                os.set_blocking(descriptor, not stat.S_ISREG(kind))
        elif not stat.S_ISREG(kind):
            raise OSError(errno.EINVAL, "not a regular file")
        content = bytearray()
        while len(content) <= limit and (block := os.read(descriptor, min(1 << 20, limit + 1 - len(content)))):
            content += block
        return bytes(content)
