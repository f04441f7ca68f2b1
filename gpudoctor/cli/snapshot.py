"""`gpudoctor snapshot`: a machine as one JSON document."""

from __future__ import annotations

import sys

from msgspec.structs import replace

from gpudoctor.cli.command import command
from gpudoctor.cli.options import machine_options, option, variable_option
from gpudoctor.command_line.arguments import ExaminationOptions, ReportOptions
from gpudoctor.command_line.option_parser import Option
from gpudoctor.command_line.options import PRIVATE
from gpudoctor.host import InputError


@command()
@machine_options
@variable_option
@option(replace(PRIVATE, in_environment=False))  # what is made to be passed on
@option(
    Option("--files", "Record the files that probes read in DIR, a new folder.", metavar="DIR", in_environment=False)
)
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
    from gpudoctor.command_line.machine_source import Sources, examine, with_questions_of_fixes
    from gpudoctor.intake.snapshot import Snapshot
    from gpudoctor.matrix.load import load_matrix
    from gpudoctor.render.json import machine_data, to_json

    matrix = load_matrix(())
    sources = Sources(examined, variables)
    survey, _ = examine(sources, matrix, ReportOptions(style="json"))
    survey = with_questions_of_fixes(survey, sources, matrix)
    head = Snapshot(machine=survey.machine)
    data = machine_data(survey.machine, private=private)
    sys.stdout.write(to_json({"schema": head.schema, "gpudoctor": head.gpudoctor, "machine": data}))
    return 0
