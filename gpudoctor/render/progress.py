"""What is done now: one line of the terminal, gone when all is done."""

from __future__ import annotations

import os
import sys
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

from gpudoctor.render.lines import columns, printable

if TYPE_CHECKING:
    from gpudoctor.machine import SmokeKernel
    from gpudoctor.smoke.session import Starting

_CLEAR = "\r\x1b[K"


class ProgressLine:
    """Shows each stage, and each kernel before and after it; silent where `out` is no terminal."""

    def __init__(self, out: TextIO, *, wanted: bool = True) -> None:
        self._out = out
        self._shown = wanted and out is not None and out.isatty() and os.environ.get("TERM") != "dumb"
        self._done = 0

    def __call__(self, event: SmokeKernel | Starting) -> None:
        from gpudoctor.machine import SmokeKernel

        if isinstance(event, SmokeKernel):
            self._done += 1
        else:
            what = " ".join(filter(None, (event.name, event.dtype, f"on {event.device}" if event.device else "")))
            self._write(f"smoke: {what} ({self._done} done)")

    def stage(self, text: str) -> None:
        """What begins now: "importing torch"."""
        self._write(f"{text} ...")

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if self._shown:
            self._out.write(_CLEAR)
            self._out.flush()

    def _write(self, text: str) -> None:
        if not self._shown:
            return
        self._out.write(_CLEAR + printable(text)[: columns(self._out) - 1])
        self._out.flush()


def progress_line(style: str = "json", quiet: bool = False) -> ProgressLine:
    """The line on stderr; none with -q, and none where a form for machines goes to a program."""
    return ProgressLine(sys.stderr, wanted=not quiet and (style == "text" or sys.stdout.isatty()))
