"""Becoming the command: same process, same number, the signals and everything else as gpudoctor got them."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from contextlib import suppress
from typing import NoReturn

from gpudoctor.command_line.running import say

NOT_FOUND, NOT_EXECUTABLE = 127, 126
"""The exit codes that shells use."""
_NOTHING_GIVEN = "no command is given: CMD is dropped by an ENTRYPOINT in shell form, and by --entrypoint"

_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
_PASSING_ON = ("sh", "ash", "bash", "busybox", "dash", "ksh", "mksh", "zsh", "systemd")
_COERCED = ("C.UTF-8", "C.utf8", "UTF-8")


def become(argv: Sequence[str], environ: MutableMapping[str, str], starter: int) -> NoReturn:
    """Replace this process by the command. Exits with 127 or 126 if the command cannot be started. `starter` is the
    process that was the parent at the start."""
    _restore_locale(environ)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    for number in _IGNORED_BY_PYTHON:
        signal.signal(number, signal.SIG_IGN if _was_ignored(number, starter) else signal.SIG_DFL)
    place = place_of(argv[0], environ)
    try:
        if not place:
            raise FileNotFoundError(errno.ENOENT, "no such command" if argv[0] else _NOTHING_GIVEN)
        os.execve(place, list(argv), _variables(environ))
    except OSError as error:
        found = not isinstance(error, (FileNotFoundError, NotADirectoryError))
        reason = error.strerror or str(error)
        reason = reason[:1].lower() + reason[1:]
        if error.errno == errno.ENOEXEC:
            reason += " (a script needs a first line such as #!/bin/sh)"
    except ValueError as error:  # a NUL in an argument or variable
        found, reason = True, str(error)
    for number in _IGNORED_BY_PYTHON:  # no signal may end us over a message that cannot be written
        signal.signal(number, signal.SIG_IGN)
    say(f"{argv[0] or repr('')}: cannot be started: {reason}")
    sys.exit(NOT_EXECUTABLE if found else NOT_FOUND)


def _variables(environ: MutableMapping[str, str]) -> Mapping[bytes, bytes]:
    """The command's variables, byte for byte; one without a name cannot be passed on."""
    return {os.fsencode(name): os.fsencode(value) for name, value in environ.items() if name}


def place_of(name: str, environ: Mapping[str, str]) -> str:
    """Where a shell finds a command: the first executable file on PATH, else the first file, else ""."""
    if not name or "/" in name:
        return name
    places = [os.path.join(folder, name) for folder in os.get_exec_path(environ)]
    files = [place for place in places if os.path.isfile(place)]
    return next((place for place in files if os.access(place, os.X_OK)), files[0] if files else "")


def _restore_locale(environ: MutableMapping[str, str]) -> None:
    """Restore LC_CTYPE: Python sets it where the locale is "C" (PEP 538), even over a given value."""
    if environ.get("LC_CTYPE") not in _COERCED:
        return
    try:
        with open("/proc/self/environ", "rb") as file:
            came = dict(line.partition(b"=")[::2] for line in reversed(file.read().split(b"\0")))
    except OSError:  # no /proc: hardly anybody gives this value, and Python often sets it
        came = {}
    given = came.get(b"LC_CTYPE")
    if given is None:
        del environ["LC_CTYPE"]
    else:
        environ["LC_CTYPE"] = os.fsdecode(given)


def _was_ignored(number: signal.Signals, starter: int) -> bool:
    """Whether a signal that Python ignores was ignored before; Linux does not keep what Python's start replaced.

    All that can be known is whether the parent ignores it. A shell (`trap '' PIPE`) and systemd (IgnoreSIGPIPE=)
    pass that on. Python, Rust and Node ignore SIGPIPE for themselves, and give their children the default. So do
    container engines, whose process 1 sees no parent. Unknown is a program that ignored it and then became
    gpudoctor (`trap '' PIPE; exec gpudoctor`). There the command gets the default, which programs expect.
    """
    folder = f"/proc/{starter}"
    try:
        with open(f"{folder}/status", encoding="utf-8", errors="replace") as file:
            status = dict(line.partition(":\t")[::2] for line in file.read().splitlines())
        ignored = int(status["SigIgn"], 16) >> (number - 1) & 1
    except (OSError, KeyError, ValueError):
        return False
    name = status.get("Name", "")
    with suppress(OSError):  # for a script, this is the interpreter
        name = os.path.basename(os.readlink(f"{folder}/exe"))
    return bool(ignored) and os.getppid() == starter and name in _PASSING_ON
