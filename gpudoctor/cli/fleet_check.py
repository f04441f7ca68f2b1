"""`gpudoctor fleet check` and `gpudoctor fleet node`."""

from __future__ import annotations

import io
import math
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click
import msgspec
from msgspec.structs import replace

from gpudoctor.cli.command import command
from gpudoctor.cli.options import matrix_option, option, option_group
from gpudoctor.command_line import options
from gpudoctor.command_line.arguments import LINE, ReportOptions
from gpudoctor.command_line.option_parser import read
from gpudoctor.exit_codes import FailOn
from gpudoctor.fleet.engines import ENGINES, engine_of
from gpudoctor.fleet.engines.order import Order, node_names
from gpudoctor.host import InputError
from gpudoctor.host.input_file import reason_of
from gpudoctor.render.fleet import FORMATS, write_fleet
from gpudoctor.safe_arguments import is_name

if TYPE_CHECKING:
    from gpudoctor.fleet.records import FleetReport

_NOT_OF_A_NODE = ("style", "report_file", "quiet", "verbose", "no_color", "fail_on")
"""Options of `check` for the form of a single report."""

_LINGER = 1.0


def _limit(context: click.Context, option: click.Parameter, seconds: float) -> float:
    if not (math.isfinite(seconds) and 1 <= seconds <= 86400):
        raise InputError(f"--timeout {seconds:g}: give seconds from 1 to 86400")
    return seconds


timeout_option = click.option(
    "--timeout", "seconds", type=float, default=60.0, show_default=True, metavar="SECONDS", callback=_limit,
    help="All answers must be here by then; a node that gave none is unknown.",
)  # fmt: skip
fleet_options = option_group(
    "shown",
    ReportOptions,
    option(options.fail_on("From which verdict on the exit code is 1.")),
    option(options.form(FORMATS)),
    option(options.REPORT_FILE),
    option(options.verbose("Print every difference.")),
    option(options.NO_COLOR),
)
check_options = click.argument("check_options", nargs=-1, type=click.UNPROCESSED, metavar="[-- CHECK OPTIONS...]")


@command("check")
@click.option("--on", "engine", type=click.Choice(ENGINES), required=True, help="What starts gpudoctor on the nodes.")
@click.option(
    "--nodes", default="", metavar="NODES", help="The nodes: gpu[01-64]. [default: those that the engine knows]"
)
@option(replace(options.level("How deep to look on each node. [default: driver]"), in_environment=False))
@timeout_option
@click.option("--dry-run", is_flag=True, help="Print what would be started.")
@click.option("--keep", metavar="DIR", default="", help="Keep the documents of the nodes in DIR.")
@click.option(
    "--program", default="", metavar="PATH",
    help="gpudoctor on the nodes. [default: this one; ssh and kubernetes: gpudoctor]",
)  # fmt: skip
@click.option(
    "--engine-arg", "arguments", multiple=True, metavar="ARG",
    help="An option of srun, mpiexec, clush or kubectl; the address of a Ray cluster.",
)  # fmt: skip
@click.option("--image", default="", metavar="IMAGE", help="Kubernetes: the image, which holds gpudoctor.")
@click.option(
    "--resource", "resources", multiple=True, metavar="NAME=N", help="Kubernetes: limits, nvidia.com/gpu=8."
)
@click.option(
    "--selector", "selectors", multiple=True, metavar="LABEL=VALUE", help="Kubernetes: labels of the nodes."
)
@matrix_option
@fleet_options
@check_options
def check(
    engine: str,
    nodes: str,
    level: str | None,
    seconds: float,
    dry_run: bool,
    keep: str,
    program: str,
    overlays: tuple[str, ...],
    shown: ReportOptions,
    check_options: tuple[str, ...],
    **engines: tuple[str, ...] | str,
) -> int:
    """Check many nodes with an engine that you have, and name the odd ones.

    Each node checks itself. Options behind -- are those of `gpudoctor check`. A node that crashes, hangs, is missing
    or answers nonsense is unknown. Exit codes: as of `gpudoctor fleet report`.

    \b
    Examples:
      gpudoctor fleet check --on slurm      inside a job: its nodes
      gpudoctor fleet check --on slurm --nodes 'gpu[01-64]' \\
          --engine-arg=--gpus-per-node=8
      gpudoctor fleet check --on ssh --nodes 'gpu[01-64]' -- --require 'gpu==8'
      gpudoctor fleet check --on kubernetes --image IMAGE \\
          --resource nvidia.com/gpu=8 --dry-run
    """
    chosen = engine_of(engine)
    here = (sys.executable, "-m", "gpudoctor") if chosen.OWN_PYTHON else ("gpudoctor",)
    order = Order(
        nodes=node_names(nodes) if nodes else (),
        seconds=seconds,
        level=level or "driver",
        options=_check_options(check_options, (*_NOT_OF_A_NODE, "level")),
        program=(program,) if program else here,
        **cast("dict[str, Any]", engines),
    )
    if dry_run:
        click.echo(chosen.preview(order), nl=False)
        return 0
    folder = _folder(keep)
    documents = _documents(engine, order)
    if documents is None:
        return 0
    return _tell(documents, folder, overlays, shown)


@command("node")
@timeout_option
@check_options
def node(seconds: float, check_options: tuple[str, ...]) -> int:
    """Check this node, and print its report in lines for `gpudoctor fleet check`.

    Launchers start it. With any other one, send what it prints on all nodes to `gpudoctor fleet check --on stdin`.
    The exit code is 0, whatever the check says: an engine must not end the other nodes.

    \b
    Example:
      pdsh -w 'gpu[01-64]' gpudoctor fleet node |
          gpudoctor fleet check --on stdin --nodes 'gpu[01-64]'
    """
    from gpudoctor.fleet.node import lines_of_check

    for line in lines_of_check(_check_options(check_options), seconds, os.environ):
        click.echo(line)
    # srun loses what it has not passed on yet if this task ends while another one of the step was killed.
    time.sleep(_LINGER)
    return 0


def _check_options(words: tuple[str, ...], refused: tuple[str, ...] = _NOT_OF_A_NODE) -> tuple[str, ...]:
    """Options for the check on each node. Raises InputError where one is wrong, or no matter of a node."""
    given = read(LINE, words, {})
    if given is None:
        raise InputError(f"after --: {' '.join(words)[:80]!r} are no options of `gpudoctor check`")
    for row in LINE.options:
        if row.key in refused and row.key in given:
            raise InputError(f"after --: {row.name} is no matter of a node; give it to `gpudoctor fleet check`")
    return words


def _documents(engine: str, order: Order) -> list[dict[str, Any]] | None:
    """One document for each node."""
    from gpudoctor.fleet.gather import documents

    answers = engine_of(engine).run(order)
    return None if answers is None else documents(order.nodes, answers)


def _folder(keep: str) -> Path | None:
    """The folder of --keep, empty: a document of an earlier run would be taken for one of this run."""
    if not keep:
        return None
    folder = Path(keep)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise InputError(f"--keep {keep}: the folder is not empty")
    except OSError as error:
        raise InputError(f"--keep {keep}: {reason_of(error)}") from None
    return folder


def _tell(
    documents: list[dict[str, Any]], folder: Path | None, overlays: tuple[str, ...], shown: ReportOptions
) -> int:
    from gpudoctor.fleet.documents import document
    from gpudoctor.fleet.merge import merge
    from gpudoctor.matrix.load import load_matrix

    written = [(each["node"], msgspec.json.encode(each)) for each in documents]
    if folder is not None:
        for number, (name, content) in enumerate(written):
            (folder / f"{name if is_name(name) else f'unnamed-{number}'}.json").write_bytes(content)
    found = (document(content, name) for name, content in written)
    return show(merge(found, load_matrix(overlays), fail_on=cast("FailOn", shown.fail_on)), shown)


def show(report: FleetReport, shown: ReportOptions) -> int:
    """Print a fleet's report, and write it to the file that was asked for; the exit code."""
    from gpudoctor.render.report_file import write_report_file

    if shown.report_file:
        copy = io.StringIO()
        write_fleet(report, shown.style, copy, verbose=shown.verbose)
        write_report_file(shown.report_file, copy.getvalue())
    write_fleet(report, shown.style, sys.stdout, color=not shown.no_color, verbose=shown.verbose)
    return report.exit_code
