"""`gpudoctor list`: all checks."""

from __future__ import annotations

import sys

import click

from gpudoctor.cli.command import command
from gpudoctor.cli.options import data_option, plugin_option


@command("list")
@data_option
@plugin_option
def list_checks(style: str | None, plugins: tuple[str, ...]) -> int:
    """List all checks: id, slug and what is wrong."""
    from gpudoctor.suites import image_checks, machine_checks, pair_checks

    checks = (*machine_checks(plugins), *image_checks(), *pair_checks())
    if style == "json":
        from gpudoctor.render.documents import ListedCheck
        from gpudoctor.render.json import to_json

        sys.stdout.write(to_json([ListedCheck(check.id, check.slug, check.title) for check in checks]))
        return 0
    if sys.stdout.isatty():
        from gpudoctor.render.lines import Line, print_lines

        lines: list[Line] = [[(f"{one.id}  ", "dim"), (one.slug, "bold"), (f"  {one.title}", "")] for one in checks]
        print_lines(lines, sys.stdout, color=True)
        return 0
    width = max(len(check.slug) for check in checks)
    for check in checks:
        click.echo(f"{check.id}  {check.slug:<{width}}  {check.title}")
    return 0
