"""`gpudoctor recommend`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import click
from msgspec.structs import replace

from gpudoctor.cli.command import command, did_you_mean
from gpudoctor.cli.options import data_option, option, sources_options
from gpudoctor.command_line.arguments import ExaminationOptions
from gpudoctor.command_line.options import NO_COLOR, REQUIRE, verbose
from gpudoctor.command_line.project_settings import Settings, requirements
from gpudoctor.command_line.running import say
from gpudoctor.machine import Level, Machine, unknown
from gpudoctor.machine.torch import COMPANIONS
from gpudoctor.situation import Situation

if TYPE_CHECKING:
    from gpudoctor.command_line.machine_source import Sources
    from gpudoctor.matrix.questions import Matrix
    from gpudoctor.matrix.rows import Framework


@command()
@sources_options(option(REQUIRE))
@click.option(
    "--with",
    "companions",
    multiple=True,
    type=click.Choice(COMPANIONS),
    help="Install this, too, in the version that pairs. [default: those that are installed]",
)
@click.option(
    "--framework",
    default="torch",
    show_default=True,
    metavar="NAME",
    help="Choose a build of this framework: torch, jax, onnxruntime, tensorflow, cupy ...",
)
@data_option
@option(verbose("Print all commands of all choices."))
@option(NO_COLOR)
def recommend(
    sources: Sources, companions: tuple[str, ...], framework: str, style: str | None, verbose: bool, no_color: bool
) -> int:
    """Name the best build of torch or another framework for this machine, the next best, and why not the others.

    --gpu, --driver ... describe a machine; the rest is read from this one or assumed. Exit codes: 0 a build works,
    1 none does, or no one driver supports all GPUs, 3 a GPU or the driver is unknown.

    \b
    Examples:
      gpudoctor recommend
      gpudoctor recommend --gpu "RTX 5090" --driver 570.133.07
      gpudoctor recommend --with torchvision -v
      gpudoctor recommend --require "torch<2.8"
      gpudoctor recommend --framework jax --gpu "RTX 3060"
    """
    from gpudoctor.matrix.load import load_matrix
    from gpudoctor.recommend import recommend as choose
    from gpudoctor.recommend import recommend_framework
    from gpudoctor.render.lines import print_lines
    from gpudoctor.render.progress import progress_line
    from gpudoctor.render.recommend import recommendation_lines

    matrix = load_matrix(sources.overlays)
    other = _other_framework(framework, companions, matrix)
    with progress_line(style or "text") as progress:
        machine = machine_to_serve(sources, matrix, progress.stage)
        situation = Situation(machine, matrix, requirements(Settings(), sources.require, os.environ))
        answer = recommend_framework(situation, other) if other else choose(situation, companions=companions)
    if style == "json":
        from gpudoctor.records import view_as
        from gpudoctor.render.documents import Recommendations
        from gpudoctor.render.json import to_json

        sys.stdout.write(to_json(view_as(Recommendations, answer)))
    else:
        lines = recommendation_lines(answer, machine, again=sources.options, verbose=verbose)
        print_lines(lines, sys.stdout, color=not no_color)
    return answer.exit_code


_SHORT_NAMES = {"pytorch": "torch", "tf": "tensorflow", "ort": "onnxruntime", "jaxlib": "jax"}
"""What people call them, too."""


def _other_framework(name: str, companions: tuple[str, ...], matrix: Matrix) -> Framework | None:
    """The framework of that name; None for torch. A usage error if the matrix knows none."""
    name = _SHORT_NAMES.get(name.lower(), name.lower())
    if name == "torch":
        return None
    tables = matrix.tables
    rows = {row.framework: row for row in (*tables.frameworks, *tables.frameworks_on_torch)}
    if name not in rows:
        known = ("torch", *rows)
        hint = did_you_mean(name, known) or f". Known: {', '.join(known)}."
        raise click.BadParameter(f"no framework {name!r} is known{hint}", param_hint="--framework")
    if companions:
        raise click.UsageError("--with goes with torch alone.")
    return rows[name]


def machine_to_serve(sources: Sources, matrix: Matrix, stage: Callable[[str], None]) -> Machine:
    """The machine from its files; its drivers are started only where the files do not name the driver."""
    from gpudoctor.command_line.machine_source import host_of, with_installers
    from gpudoctor.host.linux import other_system
    from gpudoctor.survey import survey

    examined, description = sources.examined, sources.description
    if (system := other_system()) and description.gpus and examined == ExaminationOptions():
        from gpudoctor.intake.described import imagined_machine

        say(f"this is {system}: the answer is for a Linux machine with these GPUs")
        return imagined_machine(description, sources.variables, matrix)
    host = host_of(examined.root, sources.variables)
    level = cast("Level", examined.level or "static")
    found = survey(host, matrix, python=examined.python, level=level, kernels=False, stage=stage)
    machine = with_installers(found, sources, matrix, commands=False).machine
    if not description.empty:
        from gpudoctor.intake.described import described_machine

        if description.python_version and not examined.python:
            machine = replace(machine, environment=unknown("another environment is described"))
        return described_machine(machine, description, matrix)
    if examined.level is None and examined.root is None and _files_are_silent(machine):
        found = survey(host, matrix, python=examined.python, level="driver", stage=stage)
        return with_installers(found, sources, matrix, commands=False).machine
    return machine


def _files_are_silent(machine: Machine) -> bool:
    """Whether only the driver itself can tell what is there (WSL2, a container without /sys)."""
    from gpudoctor.situation.nvidia_driver import cuda_driver

    nvidia = machine.of_vendor("nvidia")
    if any(not gpu.arch.value for gpu in machine.gpus):
        return True
    if nvidia:
        return cuda_driver(machine) is None and not machine.nvidia.module.absent
    return not machine.gpus and (machine.system.wsl.known or not machine.buses.known)
