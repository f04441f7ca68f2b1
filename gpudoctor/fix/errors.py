"""The error that stops a fix or an undo."""

from __future__ import annotations

import os


class RepairError(Exception):
    """What happened, where, and what to do."""


def reason(error: RepairError | OSError) -> str:
    """The reason of an error, for a person."""
    if isinstance(error, RepairError):
        return str(error)
    return f"{path_of(error)}: {error.strerror}."


def path_of(error: OSError, otherwise: str = "A file") -> str:
    """The path that an error is about; `otherwise` where it names none."""
    return os.fsdecode(error.filename) if isinstance(error.filename, (str, bytes)) else otherwise
