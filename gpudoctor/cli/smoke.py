"""`gpudoctor smoke`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, cast

import click
from msgspec.structs import replace

from gpudoctor.cli.command import command
from gpudoctor.cli.options import computing_options, matrix_option, option, positive, report_options, variable_option
from gpudoctor.command_line.arguments import ExaminationOptions, ReportOptions
from gpudoctor.command_line.options import KERNEL_LEVELS
from gpudoctor.command_line.options import snapshot_file as snapshot_option
from gpudoctor.command_line.reporting import present
from gpudoctor.host import InputError, LiveHost
from gpudoctor.host.interrupts import interruptible
from gpudoctor.machine import Level
from gpudoctor.render.lines import Line, print_lines
from gpudoctor.requirement import OTHER_FRAMEWORKS

if TYPE_CHECKING:
    from gpudoctor.smoke.plan import Request


@command()
@click.option(
    "--device",
    "devices",
    multiple=True,
    metavar="cuda:N|cuda|cpu|all",
    help="Compute there (with other frameworks: gpu:N). [default: every GPU that torch sees, else the CPU]",
)
@click.option(
    "--framework",
    type=click.Choice(["torch", *OTHER_FRAMEWORKS]),
    default="torch",
    show_default=True,
    help="What computes. Others than torch multiply matrices on each device that they see.",
)
@click.option("--kernel", "names", multiple=True, metavar="NAME", help="Run this kernel only, whatever its level.")
@click.option(
    "--timeout", type=float, metavar="SECONDS", callback=positive, help="Time limit of each kernel, not its own."
)
@click.option("--minutes", type=float, callback=positive, help="How long the soak of level full lasts.")
@click.option("--list", "only_list", is_flag=True, help="List the kernels and run none.")
@computing_options
@option(replace(snapshot_option(""), hidden=True))
@variable_option
@matrix_option
@report_options
def smoke(
    devices: tuple[str, ...],
    framework: str,
    names: tuple[str, ...],
    timeout: float | None,
    minutes: float | None,
    only_list: bool,
    examined: ExaminationOptions,
    snapshot_file: str | None,
    variables: dict[str, str],
    overlays: tuple[str, ...],
    shown: ReportOptions,
) -> int:
    """Prove that torch or another framework computes here, and computes right: run small kernels and compare.

    Each one runs in a child of the examined Python, with a time limit; what crashes or hangs costs that kernel only.
    The report is that of `check`, with the kernels first.

    \b
    Examples:
      gpudoctor smoke
      gpudoctor smoke --level standard --device cuda:0
      gpudoctor smoke --framework jax
      gpudoctor smoke --list
    """
    if only_list:
        return _list(shown)
    if examined.root is not None or snapshot_file is not None:
        raise InputError("smoke computes on the running system: --root (GPUDOCTOR_ROOT) and --from do not go with it")
    from gpudoctor.host.linux import require_linux

    require_linux()
    from gpudoctor.matrix.load import load_matrix
    from gpudoctor.render.progress import progress_line
    from gpudoctor.report import Subject
    from gpudoctor.smoke.plan import Request
    from gpudoctor.survey import survey

    request = Request(level=None, devices=devices, kernels=names, seconds=timeout, minutes=minutes or 0.0)
    level = _level(framework, examined.level, request)
    matrix = load_matrix(overlays)
    again = ("--python", examined.python) if examined.python else ()
    with interruptible(), progress_line(shown.style, shown.quiet) as progress:
        found = survey(
            LiveHost(variables),
            matrix,
            python=examined.python,
            level=level,
            imports=False,
            request=request,
            framework=framework,
            progress=progress,
            stage=progress.stage,
        )
    return present(found, Subject("machine", "this machine"), matrix, shown, about="kernels", again=again)


def _level(framework: str, given: str | None, request: Request) -> Level:
    """The level that was asked for, or the lowest that has all that was. Raises InputError for unknown names."""
    if framework != "torch":
        if request.kernels or request.seconds or request.minutes:
            raise click.UsageError(
                "--kernel, --timeout and --minutes are for torch: other frameworks have one program"
            )
        return "quick"
    from gpudoctor.frameworks.torch.kernels import all_kernels
    from gpudoctor.smoke.plan import check_device_names, choose_kernels

    check_device_names(request)
    if request.minutes and given not in (None, "full"):
        raise click.UsageError(f"--minutes belongs to the soak, which --level {given} does not have")
    levels = [kernel.level for kernel in choose_kernels(request, all_kernels())] if request.kernels else []
    if given or request.minutes or not levels:
        levels.append(given or ("full" if request.minutes else "quick"))
    return cast("Level", max(levels, key=KERNEL_LEVELS.index))


def _list(shown: ReportOptions) -> int:
    """Print every kernel: level, name, dtypes, time limit in seconds for each of them, what it computes."""
    from gpudoctor.frameworks.torch.kernels import all_kernels

    kernels = all_kernels()
    if shown.style == "json":
        from gpudoctor.records import view_as
        from gpudoctor.render.documents import Kernels, ListedKernel
        from gpudoctor.render.json import to_json

        rows = (
            view_as(ListedKernel, one, dtypes=tuple(filter(None, one.dtypes)), devices=one.gpus) for one in kernels
        )
        sys.stdout.write(to_json(Kernels(kernels=tuple(rows))))
        return 0
    width = max((len(kernel.name) for kernel in kernels), default=0)
    lines: list[Line] = []
    for kernel in kernels:
        head = f"{kernel.level:<9} {kernel.name:<{width}}  {kernel.seconds:>4g} s  {' '.join(kernel.dtypes)}"
        lines += [[(head, "bold")], [(f"    {kernel.title}", "")]]
    print_lines(lines, sys.stdout, color=not shown.no_color)
    return 0
