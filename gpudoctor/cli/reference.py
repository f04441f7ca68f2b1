"""`explain`, `list`, `matrix` and `schema`: what gpudoctor knows, without looking at a machine."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from gpudoctor.cli.options import data_option, matrix_option, plugin_option

if TYPE_CHECKING:
    from gpudoctor.check import Check


@click.command()
@click.argument("name", metavar="ID|SLUG")
@plugin_option
def explain(name: str, plugins: tuple[str, ...]) -> int:
    """Say what a finding means, why it matters, how it is judged and how safe its fix is."""
    from gpudoctor.host import InputError
    from gpudoctor.suites import machine_checks

    suite = machine_checks(plugins)
    found = [check for check in suite.named(name) if name.upper() == check.id or name == check.slug]
    if not found:
        ids = ", ".join(check.id for check in suite.named(name)[:6])
        raise InputError(f"{name!r} names several checks ({ids} ...): give one id or slug")
    _print_markdown("\n\n".join(_explanation(check) for check in found))
    return 0


def _explanation(check: Check[Any]) -> str:
    return f"# {check.id} {check.slug}\n\n{check.explanation}"


def _print_markdown(text: str) -> None:
    if not sys.stdout.isatty():
        click.echo(text)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(text))


@click.command("list")
@data_option
@plugin_option
def list_checks(style: str | None, plugins: tuple[str, ...]) -> int:
    """List all checks: id, slug and what is wrong."""
    from gpudoctor.suites import image_checks, machine_checks

    checks = (*machine_checks(plugins), *image_checks())
    if style == "json":
        from gpudoctor.render.documents import ListedCheck
        from gpudoctor.render.public import to_json

        sys.stdout.write(to_json([ListedCheck(check.id, check.slug, check.title) for check in checks]))
        return 0
    width = max(len(check.slug) for check in checks)
    for check in checks:
        click.echo(f"{check.id}  {check.slug:<{width}}  {check.title}")
    return 0


@click.group()
def matrix() -> None:
    """Show or validate the compatibility matrix."""


@matrix.command()
@click.argument("table", required=False)
@click.argument("words", nargs=-1)
@matrix_option
def show(table: str | None, words: tuple[str, ...], overlays: tuple[str, ...]) -> int:
    """Show the tables, or the rows of TABLE that contain all WORDS."""
    from gpudoctor.host import InputError
    from gpudoctor.matrix.load import load_matrix
    from gpudoctor.render.lines import printable
    from gpudoctor.render.public import json_line

    tables = load_matrix(overlays).tables
    if table is None:
        click.echo(f"compatibility matrix {printable(tables.version)}")
        for name in tables.__struct_fields__:
            rows = getattr(tables, name)
            if isinstance(rows, tuple):
                click.echo(f"  {name:<24}{len(rows):>5} rows")
        return 0
    rows = getattr(tables, table, None) if table in tables.__struct_fields__ else None
    if not isinstance(rows, tuple):
        raise InputError(f"the matrix has no table {table!r} (`gpudoctor matrix show` lists them)")
    for row in rows:
        text = json_line(row)
        if all(word.lower() in text.lower() for word in words):
            click.echo(text)
    return 0


@matrix.command()
@matrix_option
@click.argument("files", nargs=-1, type=click.Path())
def validate(files: tuple[str, ...], overlays: tuple[str, ...]) -> int:
    """Check every row of the matrix, and of overlay FILES."""
    from gpudoctor.matrix.load import validate_matrix
    from gpudoctor.render.lines import printable

    tables = validate_matrix((*overlays, *files))
    rows = sum(len(value) for name in tables.__struct_fields__ if isinstance(value := getattr(tables, name), tuple))
    click.echo(f"compatibility matrix {printable(tables.version)}: {rows} rows, all valid")
    return 0


@click.command()
@click.argument("command", default="report", metavar="[COMMAND]")
def schema(command: str) -> int:
    """Print the JSON Schema of what COMMAND prints with --format json. [default: the report of `check`]"""
    from gpudoctor.schemas import schema_text

    sys.stdout.write(schema_text(command))
    return 0
