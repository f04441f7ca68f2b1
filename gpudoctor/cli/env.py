"""`gpudoctor env`: shell lines that set the variables which this machine needs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from gpudoctor.cli.command import command
from gpudoctor.cli.options import option, sources_options
from gpudoctor.command_line.arguments import ReportOptions
from gpudoctor.command_line.option_parser import Option
from gpudoctor.command_line.running import tell

if TYPE_CHECKING:
    from gpudoctor.command_line.machine_source import Sources

_SHELL = Option("--shell", "For whom the lines are. [default: sh]", choices=("sh", "fish", "json"))


@command()
@option(_SHELL)
@click.option("--only", multiple=True, metavar="ID|SLUG", help="Only what this problem needs.")
@sources_options()
def env(shell: str | None, only: tuple[str, ...], sources: Sources) -> int:
    """Print shell lines that set the variables which this machine needs: eval "$(gpudoctor env)".

    For each problem, the first fix that needs only environment variables. No start-up file is changed. Without
    --level, only files are read. The reason for each variable goes to stderr.

    \b
    Examples:
      eval "$(gpudoctor env)"                    in sh, bash and zsh
      gpudoctor env --shell fish | source        in fish
    """
    from gpudoctor.cli.examination import Examination, ids_of
    from gpudoctor.planner.repair import variables_for
    from gpudoctor.planner.script import variable_data, variable_lines

    examined = replace(sources.examined, level=sources.examined.level or "static")
    sources = replace(sources, examined=examined)
    look = Examination(sources, ReportOptions(style="json", quiet=True)).look()
    wanted = variables_for(look.judgement.findings, only=ids_of(only))
    if shell == "json":
        from gpudoctor.render.json import to_json

        sys.stdout.write(to_json(variable_data(wanted)))
        return 0
    if not wanted:
        tell("# Nothing to set: no problem found here has a fix of variables alone.")
    for variable in wanted:
        if variable.why:
            tell(f"# {variable.name}: {variable.why}")
    sys.stdout.write(variable_lines(wanted, shell or "sh"))
    return 0
