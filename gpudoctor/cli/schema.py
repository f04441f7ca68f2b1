"""`gpudoctor schema`: the JSON Schema of what a command prints."""

from __future__ import annotations

import sys

import click

from gpudoctor.cli.command import command


@command()
@click.argument("command", default="report", metavar="[COMMAND]")
def schema(command: str) -> int:
    """Print the JSON Schema of what COMMAND prints with --format json. [default: the report of `check`]"""
    from gpudoctor.schemas import schema_text

    sys.stdout.write(schema_text(command))
    return 0
