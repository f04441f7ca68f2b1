"""`gpudoctor schema`: the JSON Schema of what a command prints."""

from __future__ import annotations

import os
import sys

import click

from gpudoctor.cli.command import command
from gpudoctor.host import InputError

_REPORTS = ("check", "whatif", "smoke", "preflight", "dockerfile")
"""Commands that print the report."""


@command()
@click.argument("command", default="report", metavar="[COMMAND]")
def schema(command: str) -> int:
    """Print the JSON Schema of what COMMAND prints with --format json. [default: the report of `check`]"""
    sys.stdout.write(schema_text(command))
    return 0


def schema_text(command: str) -> str:
    """The stored schema of what a command prints. Raises InputError where there is none."""
    from gpudoctor.matrix.files import yaml_path

    folder = os.path.join(os.path.dirname(yaml_path()), "schemas")
    names = sorted(file.removesuffix(".json") for file in os.listdir(folder))
    name = "report" if command in _REPORTS else command
    if name not in names:
        raise InputError(f"there is no schema {command!r}: choose from {', '.join((*names, *_REPORTS))}")
    with open(os.path.join(folder, f"{name}.json"), encoding="utf-8") as file:
        return file.read()
