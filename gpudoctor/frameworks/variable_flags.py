"""The flags in a variable such as XLA_FLAGS."""

from __future__ import annotations

import re

_FLAG = r"""-[\w-]*(?:='[^']*'|="[^"]*"|\S*)(?!\S)"""


def flags_in(value: str) -> tuple[str, ...]:
    """The flags up to the first word that is none: XLA reads no further, and takes a quoted value as a whole. None
    where the variable names a file that holds them."""
    read = re.match(rf"(?:\s*{_FLAG})*", value)
    return tuple(re.findall(_FLAG, read[0])) if read else ()


def file_of_flags(value: str) -> str:
    """The file that holds the flags: XLA takes everything for one that does not begin with a dash, and so a flag
    without its dashes, too. "" where the variable has the flags itself, and for other relative paths."""
    return value.strip() if re.match(r"\s*(?:/|\w+=)", value) else ""


def name_of(flag: str) -> str:
    """ "xla_dump_to" of "--xla_dump_to=/tmp"; a flag without its two dashes keeps what it has."""
    return flag.partition("=")[0].removeprefix("--")
