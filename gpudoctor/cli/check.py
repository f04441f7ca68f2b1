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
from gpudoctor.command_line.arguments import LINE, ExaminationOptions, ReportOptions
from gpudoctor.command_line.check import check as judge_and_tell
from gpudoctor.command_line.options import PRIVATE, REQUIRE, WHERE
from gpudoctor.command_line.project_settings import Settings, requirements
from gpudoctor.command_line.reading import Given, Option, complete, words
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
    "Tell what is wrong with this machine and this Python environment, first cause first.\n\n"
    "--gpu, --driver, --torch ... describe what is not to be read from this machine.\n\n"
    "\b\n"
    "Examples:\n"
    "  gpudoctor check\n"
    "  gpudoctor check --python .venv\n"
    "  gpudoctor check --gpu H100 --driver 550.54.15  before an image runs there\n"
    "  gpudoctor check --format markdown              for a bug report\n"
    "  gpudoctor check --from machine.json            a machine elsewhere\n"
    "  gpudoctor check --from issue.md                what somebody pasted",
)


@command()
@description_options
@variable_option
@option(REQUIRE)
@matrix_option
@report_options
def whatif(
    description: Description,
    variables: dict[str, str],
    require: tuple[str, ...],
    overlays: tuple[str, ...],
    shown: ReportOptions,
) -> int:
    """Check a machine that is only described; everything else is assumed healthy.

    \b
    Examples:
      gpudoctor whatif --gpu "RX 6800" --torch 2.9.1+rocm6.4
      gpudoctor whatif --gpu "RTX 4090" --error "CUDA error: unknown error"
    """
    from gpudoctor.command_line.machine_source import answer
    from gpudoctor.command_line.reporting import judgement_of, present
    from gpudoctor.intake.described import imagined
    from gpudoctor.intake.described_gpus import unambiguous
    from gpudoctor.matrix.load import load_matrix
    from gpudoctor.report import Subject
    from gpudoctor.survey import Survey

    matrix, needs = load_matrix(overlays), requirements(Settings(), require, os.environ)
    machine = unambiguous(
        description,
        lambda one: imagined(one, variables, matrix),
        lambda machine: answer(judgement_of(machine, matrix, shown, needs, foresee=False)),
    )
    label = ", ".join(filter(None, (*description.gpus, description.driver, description.torch)))
    said = {"variables": tuple(f"{name}={value}" for name, value in variables.items()), "overlays": overlays}
    return present(
        Survey(machine, (), {}),
        Subject(kind="whatif", label=label),
        matrix,
        shown,
        required=needs,
        again=words(WHERE, {**said, **to_builtins(description)}),
        require=words((REQUIRE,), {"require": require}),
    )


@command()
@machine_options
@variable_option
@option(replace(PRIVATE, variable=""))  # what is made to be passed on
@option(Option(("--files",), "files", "Record the files that probes read in DIR, a new folder.", metavar="DIR"))
def snapshot(examined: ExaminationOptions, variables: dict[str, str], private: bool, files: str | None) -> int:
    """Print this machine as one JSON document; `check --from FILE` reads it back.

    With --files it becomes a folder instead, which `check --root DIR` reads: to contribute a machine to the tests.

    \b
    Examples:
      gpudoctor snapshot > machine.json
      gpudoctor snapshot --files machine
    """
    if files is not None:
        from gpudoctor.cli.snapshot_files import record

        if private:
            raise InputError("--files always leaves private details out: it does not go with --private")
        return record(examined, variables, files)
    from gpudoctor.command_line.machine_source import probed, with_installers
    from gpudoctor.intake.snapshot import Snapshot
    from gpudoctor.matrix.load import load_matrix
    from gpudoctor.render.json import machine_data, to_json

    matrix = load_matrix(())
    survey, _ = probed(examined, variables, Description(), matrix, ReportOptions(style="json"))
    survey = with_installers(survey, examined, variables, Description(), matrix)
    head = Snapshot(machine=survey.machine)
    data = machine_data(survey.machine, private=private)
    sys.stdout.write(to_json({"schema": head.schema, "gpudoctor": head.gpudoctor, "machine": data}))
    return 0
