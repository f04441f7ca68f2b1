"""Asks the ELF files of a host."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from gpudoctor.codeobjects.elf import Elf, NotReadable, open_elf
from gpudoctor.host import Host

T = TypeVar("T")


def ask_elf(host: Host, path: str, question: Callable[[Elf], T]) -> T | None:
    """What an ELF file answers; None if it is not there, or cannot be read."""
    handle = host.open_binary(path)
    if handle is None:
        return None
    with handle:
        try:
            return question(open_elf(handle))
        except NotReadable:
            return None
