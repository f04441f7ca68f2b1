"""A machine as one JSON document, read back."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from gpudoctor import __version__
from gpudoctor.host import InputError
from gpudoctor.host.input_file import read_input
from gpudoctor.machine import FORMAT, Machine

SNAPSHOT_LIMIT = 64 << 20
SCHEMA = 1
_HEAD = 2000


def _to_format_2(machine: dict[str, Any]) -> None:
    """GPUs were called cards, and torch was the only framework."""
    nvidia, smoke = machine.get("nvidia"), machine.get("smoke")
    for record, before, now in ((nvidia, "proc_cards", "proc_details"), (smoke, "card_asked", "gpu_asked")):
        if isinstance(record, dict) and before in record:
            record[now] = record.pop(before)
    fact = machine.get("environment")
    environment = fact.get("value") if isinstance(fact, dict) else None
    if isinstance(environment, dict) and "torch" in environment:
        environment["frameworks"] = {"torch": environment.pop("torch")}


_TO_THE_NEXT: dict[int, Callable[[dict[str, Any]], None]] = {1: _to_format_2}
"""By its format, what makes a written machine one of the next format; each format that was ever written is here."""


class _WrittenMachine(Struct):
    format: int = 1
    """The first had no number."""


class _Written(Struct):
    machine: _WrittenMachine
    schema: int = SCHEMA
    gpudoctor: str = ""


class Snapshot(Struct, frozen=True, kw_only=True):
    """What `gpudoctor snapshot` prints."""

    schema: int = SCHEMA
    gpudoctor: str = __version__
    machine: Machine


def read_content(path: str) -> bytes:
    """The content of a file that a person names. Raises InputError."""
    # A pipe is welcome; one that nobody writes to is empty, and not waited for.
    return read_input(path, SNAPSHOT_LIMIT, "; give the part about the GPU", pipes=True)


def is_document(content: bytes) -> bool:
    """Whether it is, or was meant to be, a snapshot or a report; rocm-smi prints JSON, too."""
    head = content[:_HEAD].lstrip()
    return head.startswith(b"{") and any(key in head for key in (b'"gpudoctor"', b'"machine"', b'"schema"'))


def machine_of_document(path: str, content: bytes) -> Machine:
    """The machine of a snapshot or of a report with that content. Raises InputError."""
    try:
        written = msgspec.json.decode(content, type=_Written)
        if unknown := _unknown_form(written):
            raise InputError(f"{path}: {unknown}")
        machine = _machine(content, written.machine.format)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path}: not a snapshot of gpudoctor: {error}") from None
    if re.search(rb"\d{19}", content) and _has_a_vast_number(msgspec.to_builtins(machine)):
        raise InputError(f"{path}: not a snapshot of gpudoctor: a number of more than 64 bits")
    return machine


def _unknown_form(written: _Written) -> str:
    if written.schema != SCHEMA:
        return f"schema {written.schema} is not known to gpudoctor {__version__}; it reads {SCHEMA}"
    number = written.machine.format
    if number == FORMAT or number in _TO_THE_NEXT:
        return ""
    return f"format {number} of the machine is not known to gpudoctor {__version__}; it reads 1 to {FORMAT}"


def _machine(content: bytes, number: int) -> Machine:
    """Raises msgspec.DecodeError."""
    if number == FORMAT:
        return msgspec.json.decode(content, type=Snapshot).machine
    document = msgspec.json.decode(content)
    while number != FORMAT:
        _TO_THE_NEXT[number](document["machine"])
        number += 1
    document["machine"]["format"] = FORMAT
    return msgspec.convert(document, type=Snapshot).machine


def _has_a_vast_number(data: Any) -> bool:
    if isinstance(data, dict):
        return any(map(_has_a_vast_number, data.values()))
    if isinstance(data, (list, tuple)):
        return any(map(_has_a_vast_number, data))
    return isinstance(data, int) and data.bit_length() > 64
