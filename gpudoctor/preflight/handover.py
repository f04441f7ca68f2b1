"""Becoming the command: same process, same number, its own signals and exit status."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

NOT_FOUND, NOT_EXECUTABLE = 127, 126
"""As a shell has them."""

_IGNORED_BY_PYTHON = ("SIGPIPE", "SIGXFSZ")
"""Python ignores these at its start; what is ignored stays so in the program that takes over."""


def become(argv: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    """Replace this process by the command. Exits with 127 or 126 where it cannot be started."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    for name in _IGNORED_BY_PYTHON:
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        os.execvpe(argv[0], list(argv), dict(environ))
    except OSError as error:
        found = not isinstance(error, (FileNotFoundError, NotADirectoryError))
        said = (error.strerror or str(error)).lower()
    except ValueError as error:  # a NUL in an argument or variable
        found, said = True, str(error)
    print(f"gpudoctor: {argv[0]}: cannot be started: {said}", file=sys.stderr, flush=True)
    sys.exit(NOT_EXECUTABLE if found else NOT_FOUND)
