"""The flags in a variable such as XLA_FLAGS."""

from __future__ import annotations


def flags_in(value: str) -> tuple[str, ...]:
    """The flags; none where the variable names a file that holds them."""
    return tuple(value.split()) if value.lstrip().startswith("-") else ()


def file_of_flags(value: str) -> str:
    """The absolute path of a file that holds the flags; "" where the variable has them itself."""
    return value.strip() if value.lstrip().startswith("/") else ""


def name_of(flag: str) -> str:
    """ "xla_dump_to" of "--xla_dump_to=/tmp"; a flag without its two dashes keeps what it has."""
    return flag.partition("=")[0].removeprefix("--")
