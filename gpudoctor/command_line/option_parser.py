"""Options, declared once and read twice.

A plain run must not wait for a command-line library (click alone costs two starts of Python): a well-formed command
line is read here. Whatever is not well-formed, and --help, goes to the click command that is made from the same
table. Variables are read here alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct


class Option(Struct, frozen=True):
    """One option, by its long name; a flag takes no value."""

    name: str
    help: str = ""
    metavar: str = "TEXT"
    flag: bool = False
    multiple: bool = False
    separator: str = ","
    """Parts several values in the variable."""
    choices: tuple[str, ...] = ()
    short: str = ""
    parameter: str = ""
    """What commands call its value, if not as the option."""
    in_environment: bool = True
    """Whether a variable of its name counts, where the command line says nothing."""
    hidden: bool = False

    @property
    def key(self) -> str:
        return self.parameter or self.name[2:].replace("-", "_")

    @property
    def names(self) -> tuple[str, ...]:
        return (self.short, self.name) if self.short else (self.name,)

    @property
    def variable(self) -> str:
        return f"GPUDOCTOR_{self.name[2:].replace('-', '_').upper()}" if self.in_environment else ""


class CommandLine(Struct, frozen=True):
    """What a command takes. `program`: after the options come a program and its arguments."""

    options: tuple[Option, ...]
    program: bool = False
    empty_is_unset: bool = False
    """Whether `--python ""` is as if it was not said; else it is a value, and a wrong one."""


Given = dict[str, Any]
"""By key of an option: a text, a tuple of texts, or True; only what was given. "command": a program and its
arguments, where the command takes them."""

_TRUE = ("1", "true", "t", "yes", "y", "on")
FALSE = ("0", "false", "f", "no", "n", "off")
"""What a variable says that stands for a flag, in any case of letters."""


def read(line: CommandLine, argv: Sequence[str], environ: Mapping[str, str]) -> Given | None:
    """What a well-formed command line and the variables say; None for anything else."""
    named = {name: option for option in line.options for name in option.names}
    given: Given = {}
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if word == "--" or not word.startswith("-"):
            rest = rest if word == "--" else [word, *rest]
            break
        name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        option = named.get(name)
        if option is None or (option.flag and equals) or not (option.flag or equals or rest):
            return None
        text = "" if option.flag else value if equals else rest.pop(0)
        # Whether a text that looks like an option may be a value, each release of click has its own opinion.
        if text.startswith("-") or not _take(given, option, text):
            return None
    if line.program:
        given["command"] = tuple(rest)
    elif rest:
        return None
    return None if complete(line, given, environ) else given


def complete(line: CommandLine, given: Given, environ: Mapping[str, str]) -> str:
    """Add what the variables say to what a command line says. What is wrong with one, or ""."""
    if line.empty_is_unset:
        for key in [key for key, value in given.items() if value == ""]:
            del given[key]
    return add_variables(line.options, given, environ)


def add_variables(options: Iterable[Option], given: Given, environ: Mapping[str, str]) -> str:
    """Add what the options' variables say, where the command line says nothing; an empty one says nothing either.
    What is wrong with one, or ""."""
    for option in options:
        value = environ.get(option.variable, "")
        if not value or option.key in given:
            continue
        if option.flag:
            word = value.strip().lower()
            if word not in (*_TRUE, *FALSE):
                return f"{option.variable}={value!r}: write 1 or 0"
            if word in _TRUE:
                given[option.key] = True
            continue
        parts = [part.strip() for part in value.split(option.separator)] if option.multiple else [value]
        if not all(_take(given, option, part) for part in parts if part):
            return f"{option.variable}={value!r}: choose from {', '.join(option.choices)}"
    return ""


def words(options: Iterable[Option], given: Given) -> tuple[str, ...]:
    """What was given for these options, as a command line says it."""
    said: list[str] = []
    for option in options:
        value = given.get(option.key)
        if not value:
            continue
        for text in value if option.multiple else (value,):
            said += [option.name] if option.flag else [option.name, text]
    return tuple(said)


def _take(given: Given, option: Option, value: str) -> bool:
    if option.choices and value not in option.choices:
        return False
    if option.flag:
        given[option.key] = True
    elif option.multiple:
        given[option.key] = (*given.get(option.key, ()), value)
    else:
        given[option.key] = value
    return True
