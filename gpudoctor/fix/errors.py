"""The error that stops a fix or an undo."""

from __future__ import annotations

import os


class RepairError(Exception):
    """What happened, where, and what to do."""


def reason(error: RepairError | OSError) -> str:
    """The reason of an error, for a person."""
    if isinstance(error, RepairError):
        return str(error)
    name = error.filename
    path = os.fsdecode(name) if isinstance(name, (str, bytes)) else "A file"
    return f"{path}: {error.strerror}."
