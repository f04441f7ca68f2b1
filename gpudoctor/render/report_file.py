"""The file that `--report-file` names: a plain file, a pipe, a terminal, what a container engine mounted there."""

from __future__ import annotations

import errno
import os
import select
import stat
import time

from gpudoctor.host import InputError
from gpudoctor.host.input_file import FULL, WITHOUT_WAITING, reason_of
from gpudoctor.host.open_file import closing
from gpudoctor.host.planted_links import refuse_planted


class NoRoomError(InputError):
    """The report file takes no more: nothing is wrong with what was asked."""


PATIENCE = 5.0
"""Seconds that whoever reads a pipe may take to make room in it."""


def write_report_file(path: str | None, text: str) -> None:
    """Write the report there, if that was asked for. Raises InputError where it cannot be written; never waits for a
    reader."""
    if path is None:
        return
    try:
        with closing(_open_file(path)) as descriptor:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                os.ftruncate(descriptor, 0)
            _write(descriptor, text.encode("utf-8", "replace"))
    except (OSError, ValueError) as error:
        number = error.errno if isinstance(error, OSError) else None
        said = "nobody reads this pipe" if number == errno.ENXIO else reason_of(error)
        kind = NoRoomError if number in FULL else InputError
        raise kind(f"--report-file {path}: cannot be written: {said}") from None


def _open_file(path: str) -> int:
    """The file, without waiting for a reader."""
    refuse_planted(path)
    return os.open(path, os.O_WRONLY | os.O_CREAT | WITHOUT_WAITING, 0o666)


def _write(descriptor: int, content: bytes) -> None:
    deadline = time.monotonic() + PATIENCE
    while content:
        try:
            content = content[os.write(descriptor, content) :]
        except BlockingIOError:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([], [descriptor], [], left)[1]:
                raise TimeoutError(errno.ETIMEDOUT, f"nobody read it for {PATIENCE:g} s") from None
