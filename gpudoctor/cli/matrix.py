"""`gpudoctor matrix`: shows and validates the compatibility matrix."""

from __future__ import annotations

import sys

import click

from gpudoctor.cli.command import Group, did_you_mean
from gpudoctor.cli.completion import tables
from gpudoctor.cli.options import data_option, matrix_option
from gpudoctor.host import InputError
from gpudoctor.render.lines import printable


@click.group(cls=Group)
def matrix() -> None:
    """Show or validate the compatibility matrix."""


@matrix.command()
@click.argument("table", required=False, shell_complete=tables)
@click.argument("words", nargs=-1)
@data_option
@matrix_option
def show(table: str | None, words: tuple[str, ...], style: str | None, overlays: tuple[str, ...]) -> int:
    """Show the tables, or the rows of TABLE that contain all WORDS.

    \b
    Examples:
      gpudoctor matrix show                              the tables
      gpudoctor matrix show nvidia_gpus 5090             rows of one table
      gpudoctor matrix show torch_builds --format json   whole rows, with sources
    """
    from gpudoctor.matrix.load import load_matrix
    from gpudoctor.render.json import to_json
    from gpudoctor.render.lines import print_lines
    from gpudoctor.render.matrix_table import overview, print_rows, rows_with
    from gpudoctor.render.next_command import next_line

    whole = load_matrix(overlays).tables
    again = ("gpudoctor", "matrix", "show", *(word for file in overlays for word in ("--matrix", file)))
    if table is None:
        counts = overview(whole)
        if style == "json":
            sys.stdout.write(to_json({"schema": 1, "version": whole.version, "tables": counts}))
            return 0
        click.echo(f"compatibility matrix {printable(whole.version)}")
        for name, count in counts.items():
            click.echo(f"  {name:<24}{count:>5} rows")
        print_lines([next_line((*again, "nvidia_gpus"))], sys.stdout, color=True)
        return 0
    if table not in overview(whole):
        near = did_you_mean(table, list(overview(whole)))
        raise InputError(f"the matrix has no table {table!r}{near} (`gpudoctor matrix show` lists them)")
    rows = rows_with(getattr(whole, table), words)
    if style == "json":
        sys.stdout.write(to_json({"schema": 1, "version": whole.version, "table": table, "rows": rows}))
    else:
        print_rows(rows, sys.stdout)
        then = (*again, table, *words, "--format", "json") if rows else (*again, table)
        print_lines([next_line(then)], sys.stdout, color=True)
    return 0


@matrix.command()
@matrix_option
@click.argument("files", nargs=-1, type=click.Path())
def validate(files: tuple[str, ...], overlays: tuple[str, ...]) -> int:
    """Check every row of the matrix, and of overlay FILES."""
    from gpudoctor.matrix.load import validate_matrix
    from gpudoctor.render.matrix_table import overview

    whole = validate_matrix((*overlays, *files))
    rows = sum(overview(whole).values())
    click.echo(f"compatibility matrix {printable(whole.version)}: {rows} rows, all valid")
    return 0
