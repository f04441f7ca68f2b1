"""`gpudoctor preflight` as a click command: its help, and what is wrong with a command line that is not plain."""

from __future__ import annotations

import os
from typing import Any

import click

from gpudoctor.preflight.arguments import OPTIONS, Option, add_variables
from gpudoctor.preflight.command import USAGE, status
from gpudoctor.preflight.command import preflight as pass_or_refuse


def _parameter(option: Option) -> click.Option:
    return click.Option(
        [*option.names, option.key],
        type=click.Choice(option.choices) if option.choices else None,
        is_flag=option.flag,
        multiple=option.multiple,
        metavar=None if option.flag or option.choices else option.metavar,
        help=f"{option.help} [{option.variable}]" if option.variable else option.help,
    )


def _run(**given: Any) -> int:
    asked = {name: value for name, value in given.items() if value or name == "command"}
    if wrong := add_variables(asked, os.environ):
        click.echo(f"gpudoctor: {wrong}", err=True)
        return status(USAGE, asked["command"])
    return pass_or_refuse(asked)


preflight = click.Command(
    "preflight",
    callback=_run,
    params=[
        *(_parameter(option) for option in OPTIONS),
        click.Argument(["command"], nargs=-1, type=click.UNPROCESSED, metavar="[-- CMD ARGS...]"),
    ],
    context_settings={"allow_interspersed_args": False},
    help="Judge this machine, then become CMD; or refuse, and say why.\n\n"
    "CMD keeps the process number, gets the signals and gives the exit status. A refusal exits with 121 (error), "
    "122 (usage) or 123 (not known); without CMD with the codes of check. GPUDOCTOR_SKIP=1 judges nothing.",
)
