"""`gpudoctor fleet pair`."""

from __future__ import annotations

import io
import os
import sys
from functools import partial
from typing import TYPE_CHECKING, cast

import click
from msgspec.structs import replace

from gpudoctor.cli.command import command
from gpudoctor.cli.options import DATA_STYLES, option, option_group, positive
from gpudoctor.command_line import options
from gpudoctor.command_line.arguments import ReportOptions
from gpudoctor.command_line.running import say
from gpudoctor.exit_codes import FailOn
from gpudoctor.host import InputError, LiveHost
from gpudoctor.render.lines import print_lines

if TYPE_CHECKING:
    from gpudoctor.fleet.pair.nodes import Between
    from gpudoctor.fleet.pair.trials import Trials

_UNKNOWN = 3


shown_options = option_group(
    "shown",
    ReportOptions,
    option(options.form(DATA_STYLES)),
    option(options.fail_on("What makes the exit code 1.")),
    option(options.REPORT_FILE),
    option(options.quiet("Print nothing if no fault was found.")),
    option(options.verbose("Print every pairing.")),
    option(options.NO_COLOR),
)


@command()
@click.option(
    "--rounds", type=click.IntRange(min=1), default=3, show_default=True, metavar="N", help="Partners of each node."
)
@click.option("--links", is_flag=True, help="Let every node meet every other, to find faulty links, too.")
@click.option(
    "--backend",
    type=click.Choice(["nccl", "rccl", "gloo"]),
    help="What computes. [default: nccl or rccl where torch sees GPUs, else gloo]",
)
@click.option(
    "--between",
    type=click.Choice(["nodes", "gpus"]),
    help="What is paired. [default: nodes; the GPUs of a single node]",
)
@click.option(
    "--timeout", type=float, default=60.0, show_default=True, callback=positive, metavar="SECONDS",
    help="Limit of each pairing, with its set-up.",
)  # fmt: skip
@click.option(
    "--size",
    type=float,
    callback=positive,
    metavar="MIB",
    help="Data of each all-reduce. [default: 256 on GPUs, else 4]",
)
@option(replace(options.PYTHON, help="Interpreter with the torch that is tested. [default: the running one]"))
@shown_options
def pair(
    rounds: int,
    links: bool,
    backend: str | None,
    between: str | None,
    timeout: float,
    size: float | None,
    python: str | None,
    shown: ReportOptions,
) -> int:
    """Find the node that hangs, computes wrong or is slow: let nodes compute in pairs, then all together.

    Run it on every node inside torchrun. Rank 0 prints the result, and all ranks end with the same exit code.

    \b
    Example:
      torchrun --nnodes 8 --nproc-per-node 8 --rdzv-backend c10d \\
          --rdzv-endpoint HOST:29500 -m gpudoctor fleet pair
    """
    from gpudoctor.fleet.pair.coordinator import PairOptions
    from gpudoctor.fleet.pair.job import take_part
    from gpudoctor.fleet.pair.job_rank import job_rank
    from gpudoctor.fleet.pair.member import MemberError
    from gpudoctor.render.progress import progress_line

    place = job_rank(os.environ)
    interpreter = _interpreter(python)
    if place.size == 1:
        say("this job has one rank: there is nobody to pair it with, and nothing was tested")
        return _UNKNOWN
    wanted = PairOptions(
        rounds=None if links else rounds,
        seconds=timeout,
        backend=backend,
        size=int(size * 2**20) // 4 * 4 or 4 if size else None,
        between=cast("Between | None", between),
    )
    try:
        # Rank 0 alone speaks; what it does takes minutes.
        with progress_line(shown.style, shown.quiet or place.rank > 0) as progress:
            return take_part(place, interpreter, wanted, partial(_print, shown=shown), progress.stage)
    except MemberError as error:
        say(f"rank {place.rank} on {place.name} could not be tested: {error}")
        # torchrun ends all ranks when one fails. Rank 0 misses this one, and says so when the others are tested.
        return 0 if place.rank else _UNKNOWN


def _interpreter(python: str | None) -> str:
    """The one that --python names, else the running one: torchrun started it because of its torch."""
    from gpudoctor.probes.python_layout import find_layout

    layout = find_layout(LiveHost({}), python, os.environ) if python else None
    if python and (layout is None or not layout.interpreter):
        raise InputError(f"--python {python}: there is no interpreter")
    return layout.interpreter or "" if layout else sys.executable


def _print(trials: Trials, shown: ReportOptions) -> int:
    """Print what was measured; the exit code."""
    from gpudoctor.fleet.pair.verdict import report_of
    from gpudoctor.matrix.load import load_matrix
    from gpudoctor.render.fleet_pair import pair_lines
    from gpudoctor.render.json import to_json
    from gpudoctor.render.report_file import write_report_file
    from gpudoctor.suites import pair_checks

    report = report_of(trials, pair_checks(), cast("FailOn", shown.fail_on), load_matrix())
    copy = io.StringIO()
    if shown.style == "json":
        sys.stdout.write(to_json(report))
        copy.write(to_json(report))
    else:
        if not (shown.quiet and report.verdict == "ok"):
            print_lines(pair_lines(report, verbose=shown.verbose), sys.stdout, color=not shown.no_color)
        print_lines(pair_lines(report, verbose=True), copy, color=False)
    sys.stdout.flush()
    write_report_file(shown.report_file, copy.getvalue())
    return report.exit_code
