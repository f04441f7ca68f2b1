"""`gpudoctor dockerfile`: a Dockerfile or compose file, judged before it is built."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, cast

import click
from msgspec.structs import replace

from gpudoctor.cli.command import command
from gpudoctor.cli.options import matrix_option, option, report_options
from gpudoctor.command_line.arguments import ReportOptions
from gpudoctor.command_line.option_parser import Option, words
from gpudoctor.command_line.options import DRIVER, GPU, MATRIX
from gpudoctor.engine import ignore_rules, judge_recipe
from gpudoctor.exit_codes import FailOn
from gpudoctor.finding import Finding
from gpudoctor.intake.description import Description
from gpudoctor.machine import Machine
from gpudoctor.render.lines import Line
from gpudoctor.render.style import ReportStyle

if TYPE_CHECKING:
    from gpudoctor.dockerfile.frameworks import ImageFramework
    from gpudoctor.dockerfile.recipe import Recipe

_TARGET = Option("--target", "The stage that is built. [default: the last]", metavar="STAGE", in_environment=False)
_BUILD_ARG = Option(
    "--build-arg",
    "As for the build.",
    metavar="NAME=VALUE",
    multiple=True,
    in_environment=False,
    parameter="arguments",
)


@command()
@click.argument("paths", type=click.Path(), nargs=-1, required=True, metavar="PATH...")
@option(_TARGET)
@option(_BUILD_ARG)
@option(replace(GPU, help="A GPU that the image is to run on."))
@option(replace(DRIVER, help="The driver of that machine."))
@matrix_option
@report_options
def dockerfile(
    paths: tuple[str, ...],
    target: str | None,
    arguments: tuple[str, ...],
    gpus: tuple[str, ...],
    driver: str | None,
    overlays: tuple[str, ...],
    shown: ReportOptions,
) -> int:
    """Check PATH before it is built: Dockerfiles, compose files, a devcontainer.json, Apptainer definitions,
    Kubernetes manifests, or folders that hold them; or lists of packages such as environment.yml.

    \b
    Example:
      gpudoctor dockerfile Dockerfile --gpu H100 --driver 550.54.15
    """
    from gpudoctor.cli.described_image import findings_on, machine_of
    from gpudoctor.command_line.reporting import give
    from gpudoctor.dockerfile.recipe import Recipe
    from gpudoctor.dockerfile.recipe_files import read_recipes
    from gpudoctor.intake.described import imagined_machine
    from gpudoctor.matrix.load import load_matrix
    from gpudoctor.report import Subject, make_report
    from gpudoctor.suites import image_checks

    if driver and not gpus:
        raise click.UsageError("--driver is the driver of described GPUs: give --gpu, too")
    driver = driver or ""
    matrix = load_matrix(overlays)
    images, services = read_recipes(paths, matrix, _given(arguments), target or "")
    described = imagined_machine(Description(gpus=gpus, driver=driver), {}, matrix) if gpus else None
    recipe = Recipe(matrix, images, services, described.gpus if described else (), driver)
    also: list[Finding] = []
    machine = described or Machine()
    for image in images if described else ():
        running = machine_of(recipe, image, gpus, driver)
        if running is not None:
            also += findings_on(recipe, image, running, gpus, driver, shown.plugins)
            machine = running if len(images) == 1 else machine
    judgement = judge_recipe(
        recipe,
        image_checks(shown.plugins),
        also,
        select=shown.select or shown.project_select,
        ignore=ignore_rules((*shown.ignore, *shown.project_ignore)),
    )
    report = make_report(
        machine, matrix, judgement, subject=Subject("whatif", " ".join(paths)), fail_on=cast("FailOn", shown.fail_on)
    )
    given = {"target": target, "arguments": arguments, "gpus": gpus, "driver": driver, "overlays": overlays}
    again = (*paths, *words((_TARGET, _BUILD_ARG, GPU, DRIVER, MATRIX), given))
    give(report, judgement, shown, ReportStyle(about="image", again=again, table=_table(recipe, described)))
    return report.exit_code


def _given(pairs: tuple[str, ...]) -> dict[str, str]:
    """--build-arg NAME=VALUE; NAME alone takes the variable of that name, as a build does."""
    given = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name:
            raise click.UsageError(f"--build-arg {pair!r}: write NAME=VALUE")
        if equals or name in os.environ:
            given[name] = value if equals else os.environ[name]
    return given


def _table(recipe: Recipe, described: Machine | None) -> tuple[Line, ...]:
    """What each image is made of, and where it is to run, for a person."""
    from gpudoctor.render.inventory import drivers

    lines: list[Line] = []
    for image in recipe.images:
        held = recipe.torch(image)
        torch = " ".join(filter(None, (held.version, held.build))) if held else ""
        name = f"{image.file}{f' ({image.name})' if image.name else ''}"
        lines.append([(f"  {name}: ", "bold"), (image.written_from(image.base or "an image that is not known"), "")])
        if torch:
            newest = "" if held and held.certain else ", as far as known"
            lines.append([("    torch  ", "dim"), (f"{torch}{newest}", "")])
        for one in recipe.frameworks(image):
            lines.append([("    ", ""), (f"{one.row.title}  ", "dim"), (_shown(one), "")])
    for started in recipe.services:
        lines.append([(f"  {started.service.kind} ", "dim"), (started.service.name, "")])
    for gpu in described.gpus if described else ():
        lines.append([("  for     ", "dim"), (f"{gpu.name} ({gpu.arch.value})", "")])
    for _, text in drivers(described) if described else ():
        lines.append([("  driver  ", "dim"), (f"{text}{'' if recipe.driver else ', assumed'}", "")])
    return tuple(lines)


def _shown(framework: ImageFramework) -> str:
    """ "0.12.0.1 cuda12, as far as known"."""
    build = "CPU" if framework.cpu else framework.build.package if framework.build else ""
    known = " ".join(filter(None, (framework.version, build))) or framework.package.name
    return known if framework.certain or not framework.version else f"{known}, as far as known"
