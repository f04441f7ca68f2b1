"""`gpudoctor whatif`: checks a machine that is only described."""

from __future__ import annotations

import os

from msgspec import to_builtins

from gpudoctor.cli.command import command
from gpudoctor.cli.options import description_options, matrix_option, option, report_options, variable_option
from gpudoctor.command_line.arguments import ReportOptions
from gpudoctor.command_line.option_parser import words
from gpudoctor.command_line.options import REQUIRE, WHERE
from gpudoctor.command_line.project_settings import Settings, requirements
from gpudoctor.intake.description import Description


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
    from gpudoctor.intake.described import imagined_machine
    from gpudoctor.intake.described_gpus import unambiguous
    from gpudoctor.matrix.load import load_matrix
    from gpudoctor.report import Subject
    from gpudoctor.survey import Survey

    matrix, needs = load_matrix(overlays), requirements(Settings(), require, os.environ)
    machine = unambiguous(
        description,
        lambda one: imagined_machine(one, variables, matrix),
        lambda machine: answer(judgement_of(machine, matrix, shown, needs, foresee=False)),
    )
    said = {"variables": tuple(f"{name}={value}" for name, value in variables.items()), "overlays": overlays}
    return present(
        Survey(machine, (), {}),
        Subject(kind="whatif", label=description.label),
        matrix,
        shown,
        required=needs,
        again=words(WHERE, {**said, **to_builtins(description)}),
        require=words((REQUIRE,), {"require": require}),
    )
