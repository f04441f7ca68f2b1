"""Becoming the command: same process, same number, its own signals and exit status."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import MutableMapping, Sequence
from contextlib import suppress
from typing import NoReturn

NOT_FOUND, NOT_EXECUTABLE = 127, 126
"""As a shell has them."""

_IGNORED_BY_PYTHON = ("SIGPIPE", "SIGXFSZ")
"""Python ignores these at its start; what is ignored stays so in the program that takes over."""


def become(argv: Sequence[str], environ: MutableMapping[str, str]) -> NoReturn:
    """Replace this process by the command. Exits with 127 or 126 where it cannot be started."""
    _take_back_locale(environ)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    for name in _IGNORED_BY_PYTHON:
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        os.execvpe(argv[0], list(argv), environ)
    except OSError as error:
        found = not isinstance(error, (FileNotFoundError, NotADirectoryError))
        said = (error.strerror or str(error)).lower()
        if error.errno == errno.ENOEXEC:
            said += " (a script needs a first line such as #!/bin/sh)"
    except ValueError as error:  # a NUL in an argument or variable
        found, said = True, str(error)
    with suppress(OSError):
        print(f"gpudoctor: {argv[0] or repr('')}: cannot be started: {said}", file=sys.stderr, flush=True)
    sys.exit(NOT_EXECUTABLE if found else NOT_FOUND)


def _take_back_locale(environ: MutableMapping[str, str]) -> None:
    """Without a locale Python sets LC_CTYPE for itself (PEP 538); the command gets what this process got."""
    if "LC_CTYPE" not in environ:
        return
    with suppress(OSError), open("/proc/self/environ", "rb") as file:
        if b"\0LC_CTYPE=" not in b"\0" + file.read():
            del environ["LC_CTYPE"]
