"""A machine as one JSON document, read back."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Struct

from gpudoctor import __version__
from gpudoctor.host import InputError
from gpudoctor.host.given_file import read_given
from gpudoctor.machine import Machine

SNAPSHOT_LIMIT = 64 << 20
SCHEMA = 1


class Snapshot(Struct, frozen=True, kw_only=True):
    """What `gpudoctor snapshot` prints."""

    schema: int = SCHEMA
    gpudoctor: str = __version__
    machine: Machine


def read_snapshot(path: str) -> Machine:
    """The machine of a snapshot or of a JSON report. Raises InputError with file and place."""
    try:
        # A pipe is welcome; one that nobody writes to is empty, and not waited for.
        content = read_given(path, SNAPSHOT_LIMIT, pipes=True)
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{path}: cannot be read: {said.lower()}") from None
    if len(content) > SNAPSHOT_LIMIT:
        raise InputError(f"{path}: larger than {SNAPSHOT_LIMIT >> 20} MiB; this is no snapshot")
    try:
        snapshot = msgspec.json.decode(content, type=Snapshot)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path}: not a snapshot of gpudoctor: {error}") from None
    if re.search(rb"\d{19}", content) and _has_a_vast_number(msgspec.to_builtins(snapshot.machine)):
        raise InputError(f"{path}: not a snapshot of gpudoctor: a number of more than 64 bits")
    if snapshot.schema != SCHEMA:
        raise InputError(
            f"{path}: schema {snapshot.schema} is not known to gpudoctor {__version__}; it reads {SCHEMA}"
        )
    return snapshot.machine


def _has_a_vast_number(data: Any) -> bool:
    if isinstance(data, dict):
        return any(map(_has_a_vast_number, data.values()))
    if isinstance(data, (list, tuple)):
        return any(map(_has_a_vast_number, data))
    return isinstance(data, int) and data.bit_length() > 64
