"""Runs the programs of `children/`: bare and timed, with standard output reserved for their answers.

Driver libraries print what they like, hang and crash; each line written before that counts.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import TypeVar

from msgspec import DecodeError, Struct
from msgspec.json import decode

from gpudoctor.host.bound_child import serving, signal_name
from gpudoctor.host.child import run_bound

_PROGRAM = serving("gpudoctor_drivers", "*sys.argv[2:]")

Answer = TypeVar("Answer")


class ChildRun(Struct, frozen=True):
    """The lines that a child wrote, and its failure if any: "crashed (SIGSEGV)", "gave no answer within 20 s"."""

    lines: tuple[str, ...] = ()
    failure: str = ""
    gone: bool = True
    """Whether nothing of it is left. Otherwise it waits in the driver, and whatever asks the driver will wait too."""

    def answers(self, kind: type[Answer]) -> list[Answer]:
        """Its lines as records of that kind; what is none was printed by a library."""
        found = []
        for line in self.lines:
            with suppress(DecodeError, UnicodeDecodeError, RecursionError):
                found.append(decode(line, type=kind))
        return found


def run_child(asked: tuple[str, ...], seconds: float, environ: Mapping[str, str]) -> ChildRun:
    """Ask drivers (see `children/serve.py`) in a bare interpreter with the examined process's variables.

    The child writes no file and needs no folder: containers may have none. The answers of a child that cannot be
    ended do not count: it would live on beside the command.
    """
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "children")
    variables = {**environ, "CUDA_CACHE_DISABLE": "1"}
    run = run_bound(_PROGRAM, (folder, *asked), seconds, environ=variables, cwd="/")
    lines = tuple(run.output.stdout.splitlines()) if run.gone else ()
    if run.failure:
        return ChildRun(
            lines, "gave " + run.failure if run.failure.startswith("no answer") else run.failure, run.gone
        )
    return ChildRun(lines, _ending(run.output.rc, run.output.stderr))


def _ending(code: int, errors: str) -> str:
    if code == 0:
        return ""
    if code < 0:
        return f"crashed ({signal_name(-code)})"
    last = errors.strip().splitlines()[-1:] or [f"status {code}"]
    return f"failed: {last[0][:200]}"
