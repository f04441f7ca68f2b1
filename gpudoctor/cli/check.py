"""`gpudoctor check`, `gpudoctor whatif` and `gpudoctor snapshot` as click commands."""

from __future__ import annotations

import os
import sys

from msgspec import to_builtins
from msgspec.structs import replace

from gpudoctor.cli.command import command
from gpudoctor.cli.options import (
    description_options,
    machine_options,
    matrix_option,
    option,
    report_options,
    variable_option,
    whole_command,
)
from gpudoctor.command_line.arguments import LINE, Examined, Shown
from gpudoctor.command_line.check import check as judge_and_tell
from gpudoctor.command_line.options import PRIVATE, WHERE
from gpudoctor.command_line.reading import Given, complete, words
from gpudoctor.host import InputError
from gpudoctor.intake.description import Description


def _check(given: Given) -> int:
    if wrong := complete(LINE, given, os.environ):
        raise InputError(wrong)
    return judge_and_tell(given)


check = whole_command(
    "check",
    LINE,
    _check,
    "Say what is wrong with this machine and this Python environment, first cause first.\n\n"
    "Described facts (--gpu, --driver ...) stand in the place of those of this machine.",
)


@command()
@description_options
@variable_option
@matrix_option
@report_options
def whatif(description: Description, variables: dict[str, str], overlays: tuple[str, ...], shown: Shown) -> int:
    """Judge a machine that is only described; what is not described is taken as healthy."""
    from gpudoctor.command_line.reporting import present
    from gpudoctor.intake.described import imagined
    from gpudoctor.matrix.load import load_matrix
    from gpudoctor.report import Subject
    from gpudoctor.survey import Survey

    matrix = load_matrix(overlays)
    machine = imagined(description, variables, matrix)
    label = ", ".join(filter(None, (*description.gpus, description.driver, description.torch)))
    said = {"variables": tuple(f"{name}={value}" for name, value in variables.items()), "overlays": overlays}
    again = words(WHERE, {**said, **to_builtins(description)})
    return present(Survey(machine, (), {}), Subject(kind="whatif", label=label), matrix, shown, again=again)


@command()
@machine_options
@variable_option
@option(replace(PRIVATE, variable=""))  # what is made to be passed on
def snapshot(examined: Examined, variables: dict[str, str], private: bool) -> int:
    """Print this machine as one JSON document; `check --from FILE` reads it back."""
    from gpudoctor.command_line.examined import probed
    from gpudoctor.intake.snapshot import Snapshot
    from gpudoctor.matrix.load import load_matrix
    from gpudoctor.render.public import machine_data, to_json

    survey, _ = probed(examined, variables, Description(), load_matrix(()), Shown(style="json"))
    head = Snapshot(machine=survey.machine)
    data = machine_data(survey.machine, private=private)
    sys.stdout.write(to_json({"schema": head.schema, "gpudoctor": head.gpudoctor, "machine": data}))
    return 0
