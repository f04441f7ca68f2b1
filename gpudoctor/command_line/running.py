"""How a run ends: one line and an exit code for whatever happens, never a traceback."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from contextlib import suppress

from gpudoctor.exit_codes import BROKEN_PIPE, INTERNAL_FAULT, INTERRUPTED, USAGE
from gpudoctor.host import InputError
from gpudoctor.host.input_file import FULL
from gpudoctor.host.interrupts import Interrupted
from gpudoctor.plain_text import without_controls, without_workflow_commands
from gpudoctor.privacy import without_secrets


def exit_code_of(body: Callable[[], int]) -> int:
    """Run a command: bad input is one line and 2, our own fault is 70."""
    open_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a character that its encoding lacks becomes "?"
    try:
        code = body()
        sys.stdout.flush()
    except Interrupted as interrupted:
        return interrupted.exit_code
    except KeyboardInterrupt:
        tell("")
        return INTERRUPTED
    except InputError as error:
        say(str(error))
        return USAGE
    except BrokenPipeError:
        return BROKEN_PIPE
    except Exception as error:
        if isinstance(error, OSError) and error.errno in FULL:
            say(f"the output cannot be written: {str(error.strerror).lower()}")
            return USAGE
        if os.environ.get("GPUDOCTOR_TRACEBACK"):
            raise
        say(f"a fault of gpudoctor itself: {type(error).__name__}: {error}")
        tell("Please report it; GPUDOCTOR_TRACEBACK=1 shows where it happened.")
        return INTERNAL_FAULT
    return code


def open_streams() -> None:
    """A stream that was closed takes everything; a program that takes this process over gets it closed again. No pipe
    of ours gets its number: a child would find it in the place of its own."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - as long as the program


def say(text: str) -> None:
    """Print one line for whoever started the program, if stderr is open."""
    tell(f"gpudoctor: {text}")


def tell(text: str) -> None:
    """One line to stderr, without secrets and control characters. It says where something is to be looked for: paths
    stay as they are."""
    with suppress(OSError):
        print(
            _wrap(without_workflow_commands(without_secrets(without_controls(text, " ")))),
            file=sys.stderr,
            flush=True,
        )


def _wrap(text: str) -> str:
    """The line as a terminal shows it without breaking a word; a log takes it as one line."""
    if not sys.stderr.isatty():
        return text
    from gpudoctor.render.layout import wrap
    from gpudoctor.render.lines import columns

    label = "gpudoctor: " if text.startswith("gpudoctor: ") else ""
    lines = wrap([(label, ""), (text.removeprefix(label), "")], columns(sys.stderr))
    return "\n".join("".join(part for part, _ in line) for line in lines)


def settle_streams() -> None:
    """Keep an unwritable stream from failing once more when Python ends, which would make the exit code 120."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
