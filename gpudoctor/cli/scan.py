"""`gpudoctor scan`: which GPUs a library, a wheel or an environment really has code for."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from gpudoctor.cli.command import command
from gpudoctor.cli.options import data_option, matrix_option, option
from gpudoctor.command_line.options import GPU, PYTHON
from gpudoctor.host import InputError, LiveHost
from gpudoctor.machine import Gpu
from gpudoctor.situation import Situation

if TYPE_CHECKING:
    from gpudoctor.matrix.questions import Matrix
    from gpudoctor.scan.library import Library, Progress
    from gpudoctor.scan.verdicts import Verdict

UNKNOWN = 3


@command()
@click.argument("given", nargs=-1, metavar="[PATH|NAME]...")
@option(replace(GPU, help="Judge for this GPU, not for this machine's."))
@option(replace(PYTHON, help="Environment in which distributions are looked up."))
@click.option("--matrix-row", is_flag=True, help="Print the matrix's rows for a torch wheel, as YAML.")
@data_option
@matrix_option
def scan(
    given: tuple[str, ...],
    gpus: tuple[str, ...],
    python: str | None,
    matrix_row: bool,
    style: str | None,
    overlays: tuple[str, ...],
) -> int:
    """Say which GPUs a library, a wheel, an installed distribution or an environment has code for.

    Without PATH: the active environment. The exit code is 1 if a library that decides has no code for a GPU,
    3 if that cannot be told.

    \b
    Examples:
      gpudoctor scan torch --gpu "RTX 5090"
      gpudoctor scan torch-2.9.1-cp312-cp312-manylinux_2_28_x86_64.whl
    """
    from gpudoctor.host.linux import require_linux
    from gpudoctor.matrix.load import load_matrix
    from gpudoctor.render.lines import print_lines
    from gpudoctor.render.scan import scan_data, scan_lines
    from gpudoctor.scan.target import scan as scan_all

    require_linux()
    if matrix_row:
        return _print_rows(given)
    matrix = load_matrix(overlays)
    judged_for, all_named = _gpus(gpus, matrix)
    scanned = scan_all(given, LiveHost(), python, _progress())
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
    libraries = [library for found in scanned for library in found.libraries]
    judged = _verdicts(libraries, judged_for, all_named, matrix)
    if style == "json":
        from gpudoctor.render.json import to_json

        sys.stdout.write(to_json(scan_data(scanned, judged)))
    else:
        again = (*given, *(("--python", python) if python else ()))
        lines = scan_lines(scanned, judged, again, matrix.framework_of_package)
        print_lines(lines, sys.stdout, color=True, exact_commands=True)
    standings = {verdict.standing for _, verdicts in judged for verdict in verdicts}
    return 1 if "missing" in standings else UNKNOWN if "unknown" in standings else 0


def _verdicts(
    libraries: list[Library], gpus: tuple[Gpu, ...], all_named: bool, matrix: Matrix
) -> list[tuple[Gpu, list[Verdict]]]:
    from gpudoctor.scan.verdicts import judge

    return [
        (
            gpu,
            judge(
                libraries, gpu, () if all_named else tuple(other for other in gpus if other.key != gpu.key), matrix
            ),
        )
        for gpu in gpus
    ]


def _gpus(names: tuple[str, ...], matrix: Matrix) -> tuple[tuple[Gpu, ...], bool]:
    """The GPUs to judge by, and whether a person named them."""
    if names:
        from gpudoctor.intake.described_gpus import identify, with_places

        return with_places(identify(names, matrix), (), wsl=False), True
    from gpudoctor.frameworks.torch.builds import gpus_to_serve
    from gpudoctor.survey import survey

    situation = Situation(survey(LiveHost(), matrix, level="static").machine, matrix)
    return gpus_to_serve(situation, tuple(gpu for gpu in situation.usable if gpu.arch.value)), False


def _progress() -> Progress | None:
    if not sys.stderr.isatty():
        return None

    def show(done: int, total: int) -> None:
        sys.stderr.write(f"\r\x1b[K{done} of {total} libraries")
        sys.stderr.flush()

    return show


def _print_rows(given: tuple[str, ...]) -> int:
    from gpudoctor.codeobjects.bounded_file import NotReadable
    from gpudoctor.scan.matrix_row import matrix_rows
    from gpudoctor.scan.places import Wheel
    from gpudoctor.scan.target import open_file

    if not given:
        raise click.UsageError("--matrix-row wants a torch wheel")
    for path in given:
        with open_file(path, path) as descriptor:
            try:
                rows = matrix_rows(Wheel(descriptor), os.path.basename(path))
            except (NotReadable, OSError) as error:
                raise InputError(f"{path}: {error}") from None
        sys.stdout.write(rows)
    return 0
