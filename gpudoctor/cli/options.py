"""The options of `gpudoctor.command_line` as click has them, and groups of them gathered into one record each."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable
from typing import Any

import click
from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.cli.command import Command
from gpudoctor.cli.completion import COMPLETED
from gpudoctor.command_line import options
from gpudoctor.command_line.arguments import ExaminationOptions, ReportOptions, as_record, shown
from gpudoctor.command_line.option_parser import CommandLine, Given, Option, add_variables
from gpudoctor.command_line.project_settings import project_settings
from gpudoctor.host import InputError
from gpudoctor.intake.description import Description

Body = Callable[..., int]
Decorator = Callable[[Body], Body]


def _attributes(row: Option) -> dict[str, Any]:
    """What click is told of an option: it reads the command line alone, and gives a text, a tuple of texts, a bool;
    None where nothing is said."""
    return {
        "type": click.Choice(row.choices) if row.choices else None,
        "is_flag": row.flag or None,  # False would make the value of an option optional
        "multiple": row.multiple,
        "metavar": None if row.flag or row.choices else row.metavar,
        "help": f"{row.help} [{row.variable}]" if row.variable else row.help,
        "hidden": row.hidden,
        "shell_complete": COMPLETED.get(row.key),
    }


def whole_command(name: str, line: CommandLine, run: Callable[[Given], int], help: str) -> click.Command:
    """The click command of a line: its help, and what is wrong with a command line that is not plain. `run` gets
    what the command line says, without the variables."""

    def callback(**given: Any) -> int:
        return run({key: value for key, value in given.items() if key == "command" or not _unsaid(value)})

    params: list[click.Parameter] = [click.Option([*row.names, row.key], **_attributes(row)) for row in line.options]
    if line.program:
        params.append(click.Argument(["command"], nargs=-1, type=click.UNPROCESSED, metavar="[-- CMD ARGS...]"))
    settings = {"allow_interspersed_args": not line.program}
    return Command(name, callback=callback, params=params, help=help, context_settings=settings)


def positive(context: click.Context, option: click.Parameter, number: float | None) -> float | None:
    """A callback for an option that takes a number above 0."""
    if number is not None and not (number > 0 and math.isfinite(number)):
        raise click.UsageError(f"{option.opts[0]} {number:g}: write a number above 0")
    return number


def option(row: Option, read: Callable[[Any], Any] | None = None) -> Decorator:
    """A decorator: the command gets what the command line or the variable says, as `read` makes it."""

    def value_of(context: click.Context, _: click.Parameter, value: Any) -> Any:
        if _unsaid(value):
            said: Given = {}
            if wrong := add_variables((row,), said, os.environ):
                raise InputError(wrong)
            value = said.get(row.key, value)
        return read(value) if read else value

    return click.option(*row.names, row.key, **_attributes(row), callback=value_of)


def option_group(
    parameter: str, record: type[Struct], *given: Decorator, make: Callable[[Given], Struct] | None = None
) -> Decorator:
    """A decorator: these options reach the command as one record, in one parameter; of what is not said, `make` has
    the defaults, by default the record."""

    def decorate(command: Body) -> Body:
        @functools.wraps(command)
        def call(**values: Any) -> int:
            fields = {name: values.pop(name) for name in record.__struct_fields__ if name in values}
            said = {name: value for name, value in fields.items() if not _unsaid(value)}
            return command(**values, **{parameter: make(said) if make else as_record(record, said)})

        decorated: Body = call
        for each in reversed(given):
            decorated = each(decorated)
        return decorated

    return decorate


def _unsaid(value: Any) -> bool:
    return value is None or value is False or value == ()


def _report_options(given: Given) -> ReportOptions:
    return shown(given, project_settings())


machine_options = option_group("examined", ExaminationOptions, *map(option, options.MACHINE))

# What computes does so on the running system: below a root nothing is run.
computing_options = option_group(
    "examined",
    ExaminationOptions,
    option(
        options.level(
            "How much to compute. [default: quick, or what --kernel and --minutes need]", options.KERNEL_LEVELS
        )
    ),
    option(options.PYTHON),
    option(replace(options.ROOT, hidden=True)),
)

description_options = option_group("description", Description, *map(option, options.DESCRIPTION))

report_options = option_group("shown", ReportOptions, *map(option, options.report()), make=_report_options)

# A repair is no report: it is shown as a text, or as the steps of its contract.
DATA_STYLES = ("text", "json")
repair_options = option_group("shown", ReportOptions, *map(option, options.report(DATA_STYLES)), make=_report_options)

data_option = option(options.form(DATA_STYLES))
matrix_option = option(options.MATRIX)
plugin_option = option(options.PLUGIN, lambda given: project_settings().with_plugins(given))
variable_option = option(options.ENV, options.named_values)


def sources_options(*also: Decorator) -> Decorator:
    """A decorator: what a machine is read from and judged with reaches the command as `Sources`, in one parameter.
    `also` are options that some commands have beside those that all have."""

    def decorate(command: Body) -> Body:
        @functools.wraps(command)
        def call(examined: Any, variables: Any, description: Any, overlays: Any, **values: Any) -> int:
            from gpudoctor.command_line.machine_source import Sources

            snapshot, require = values.pop("snapshot_file", None), values.pop("require", ())
            return command(sources=Sources(examined, variables, snapshot, description, overlays, require), **values)

        decorated: Body = call
        for each in (matrix_option, *reversed(also), description_options, variable_option, machine_options):
            decorated = each(decorated)
        return decorated

    return decorate
