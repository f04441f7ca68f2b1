"""`gpudoctor check`, `gpudoctor whatif` and `gpudoctor snapshot`."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, cast

import click

from gpudoctor.cli.options import (
    Examined,
    Shown,
    description_options,
    machine_options,
    matrix_option,
    report_options,
    require_option,
    variable_option,
)
from gpudoctor.cli.present import present
from gpudoctor.cli.progress import progress_line
from gpudoctor.intake.description import Description

if TYPE_CHECKING:
    from gpudoctor.cli.progress import ProgressLine
    from gpudoctor.doctor import Survey
    from gpudoctor.machine import Level
    from gpudoctor.matrix.questions import Matrix
    from gpudoctor.report import Subject
    from gpudoctor.smoke.plan import Request


@click.command()
@machine_options
@variable_option
@click.option(
    "--from",
    "snapshot_file",
    type=click.Path(),
    metavar="FILE",
    help="Judge the machine of a snapshot (or of a JSON report) instead of probing one.",
)
@description_options
@require_option
@matrix_option
@report_options
def check(
    examined: Examined,
    variables: dict[str, str],
    snapshot_file: str | None,
    description: Description,
    required: tuple[str, ...],
    overlays: tuple[str, ...],
    shown: Shown,
) -> int:
    """Say what is wrong with this machine and this Python environment, first cause first.

    Described facts (--gpu, --driver ...) stand in the place of those of this machine.
    """
    from gpudoctor.matrix.load import load_matrix
    from gpudoctor.preflight.settings import Settings, project_settings, requirements

    here = snapshot_file is None and _is_this_machine(examined, description)
    needs = requirements(project_settings() if here else Settings(), required, os.environ)
    matrix = load_matrix(overlays)
    if snapshot_file is not None:
        survey, subject = from_snapshot(snapshot_file, examined, variables)
    else:
        progress = progress_line(shown.style, shown.quiet)
        survey, subject = probed(examined, variables, description, matrix, progress)
    return present(with_description(survey, description, matrix), subject, matrix, shown, required=needs)


@click.command()
@description_options
@variable_option
@matrix_option
@report_options
def whatif(description: Description, variables: dict[str, str], overlays: tuple[str, ...], shown: Shown) -> int:
    """Judge a machine that is only described; what is not described is taken as healthy."""
    from gpudoctor.doctor import Survey
    from gpudoctor.intake.described import imagined
    from gpudoctor.matrix.load import load_matrix
    from gpudoctor.report import Subject

    matrix = load_matrix(overlays)
    machine = imagined(description, variables, matrix)
    label = ", ".join(filter(None, (*description.gpus, description.driver, description.torch)))
    return present(Survey(machine, (), {}), Subject(kind="whatif", label=label), matrix, shown)


@click.command()
@machine_options
@variable_option
@click.option("--private", is_flag=True, help="Keep home folders, user names, serial numbers and UUIDs.")
def snapshot(examined: Examined, variables: dict[str, str], private: bool) -> int:
    """Print this machine as one JSON document; `check --from FILE` reads it back."""
    from gpudoctor.intake.snapshot import Snapshot
    from gpudoctor.matrix.load import load_matrix
    from gpudoctor.render.public import machine_data, to_json

    survey, _ = probed(examined, variables, Description(), load_matrix(()), progress_line())
    head = Snapshot(machine=survey.machine)
    data = machine_data(survey.machine, private=private)
    sys.stdout.write(to_json({"schema": head.schema, "gpudoctor": head.gpudoctor, "machine": data}))
    return 0


def probed(
    examined: Examined, variables: dict[str, str], description: Description, matrix: Matrix, progress: ProgressLine
) -> tuple[Survey, Subject]:
    """Probe this machine, or the one below the root. Where other cards are described, these ones are not asked."""
    from gpudoctor.doctor import survey
    from gpudoctor.host import LiveHost
    from gpudoctor.host.ending import ending_in_order
    from gpudoctor.host.recorded import RecordedHost
    from gpudoctor.preflight.settings import Settings, project_settings
    from gpudoctor.report import Subject

    root = examined.root
    settings = project_settings() if _is_this_machine(examined, description) else Settings()
    level = cast("Level | None", examined.level or settings.level or ("static" if description.gpus else None))
    host = LiveHost(variables) if root is None else RecordedHost(root, variables)
    # Of a described machine the kernels can prove nothing but this torch, on the CPU: if a person asks for them.
    installed = not (description.torch or description.python_version)
    kernels = description.empty or (examined.level is not None and installed)
    request = None if description.empty or not kernels else _on_the_cpu()
    with ending_in_order(), progress:
        found = survey(
            host,
            matrix,
            python=examined.python,
            level=level,
            kernels=kernels,
            request=request,
            progress=progress,
        )
    return found, Subject("machine", "this machine") if root is None else Subject("root", root)


def _is_this_machine(examined: Examined, description: Description) -> bool:
    return examined.root is None and description.empty


def _on_the_cpu() -> Request:
    from gpudoctor.smoke.plan import Request

    return Request(level=None, devices=("cpu",))


def from_snapshot(path: str, examined: Examined, variables: dict[str, str]) -> tuple[Survey, Subject]:
    """The machine of a snapshot; nothing is probed."""
    from gpudoctor.doctor import Survey
    from gpudoctor.intake.snapshot import read_snapshot
    from gpudoctor.report import Subject

    if examined != Examined(level=None, python=None, root=None) or variables:
        raise click.UsageError(
            "--from reads a machine as it was recorded; --root, --python, --level and --env do not go with it"
        )
    return Survey(read_snapshot(path), (), {}), Subject(kind="snapshot", label=path)


def with_description(survey: Survey, description: Description, matrix: Matrix) -> Survey:
    """The survey with what is described in the place of what was probed."""
    if description.empty:
        return survey
    from msgspec.structs import replace

    from gpudoctor.intake.described import described

    return replace(survey, machine=described(survey.machine, description, matrix))
