"""What the program has: its commands, their options, its variables, its exit codes."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

import click

from gpudoctor.cli import gpudoctor
from gpudoctor.command_line import running
from gpudoctor.exit_codes import REFUSALS, exit_code
from gpudoctor.preflight.handover import NOT_EXECUTABLE, NOT_FOUND
from tests.documentation import ROOT

_VARIABLE = re.compile(r"\s*\[(GPUDOCTOR_[A-Z_]+)([^\]]*)\]")


class OptionRow(NamedTuple):
    """An option, and the commands that have it with this meaning."""

    names: tuple[str, ...]
    value: str
    variable: str
    meaning: str
    commands: tuple[str, ...]


@cache
def commands() -> dict[str, click.Command]:
    """Every command by what is typed: "check", "matrix show"."""
    found: dict[str, click.Command] = {}
    context = click.Context(gpudoctor)
    for name in gpudoctor.list_commands(context):
        command = gpudoctor.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            found.update((f"{name} {below}", each) for below, each in command.commands.items())
        else:
            found[name] = command
    return found


def option_names(command: str) -> set[str]:
    """What may be typed after a command."""
    return {name for option in _options(commands()[command]) for name in option.opts} | {"-h", "--help"}


@cache
def option_rows() -> tuple[OptionRow, ...]:
    """Every option that help shows; those with the same names and meaning are one row."""
    found: dict[tuple[str, ...], list[str]] = {}
    for name, command in commands().items():
        for option in _options(command):
            if not option.hidden:
                found.setdefault(_described(option), []).append(name)
    return tuple(
        OptionRow(tuple(names), value, variable, meaning, tuple(where))
        for (value, variable, meaning, *names), where in found.items()
    )


def variables() -> set[str]:
    """Every variable that the program reads: those of options, which their help names, and those that it spells."""
    said = (_VARIABLE.search(option.help or "") for command in commands().values() for option in _options(command))
    sources = (path.read_text() for path in (ROOT / "gpudoctor").rglob("*.py"))
    spelt = {name for source in sources for name in re.findall(r"(?<!_)GPUDOCTOR_[A-Z_]*[A-Z]", source)}
    return spelt | {found[1] for found in said if found}


def exit_codes() -> set[int]:
    """Every exit code; of signals only that of Ctrl-C."""
    verdicts = {exit_code(verdict, "error") for verdict in ("ok", "warning", "error", "unknown")}
    own = {running.USAGE, running.INTERNAL_FAULT, running.INTERRUPTED, running.BROKEN_PIPE}
    return verdicts | own | set(REFUSALS.values()) | {NOT_FOUND, NOT_EXECUTABLE}


def _options(command: click.Command) -> list[click.Option]:
    return [param for param in command.params if isinstance(param, click.Option)]


def _described(option: click.Option) -> tuple[str, ...]:
    """Value, variable and meaning, then the names: the short one first."""
    meaning = option.help or ""
    said = _VARIABLE.search(meaning)
    variable = f"`{said[1]}`{said[2]}" if said else f"`{option.envvar}`" if option.envvar else ""
    value = "" if option.is_flag else option.metavar or _choices(option)
    return (value, variable, _VARIABLE.sub("", meaning), *sorted(option.opts, key=len))


def _choices(option: click.Option) -> str:
    kind = option.type
    return "|".join(map(str, kind.choices)) if isinstance(kind, click.Choice) else kind.name.upper()
