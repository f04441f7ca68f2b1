"""Commands whose help is whole: texts that are not cut off, options in groups."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from itertools import takewhile
from typing import Any, NoReturn

import click

_RANGE = r"  \[x>=1\]|; x>=1(?=\])"
"""What click adds to an option that takes a number, and which says nothing to most people."""
_SECTIONS = {
    "What is checked": ("level", "python", "root", "variables", "snapshot_file"),
    "A described machine": (
        *("gpus", "driver", "kernel", "os", "platform", "container", "torch", "python_version", "packages"),
        *("kernel_log", "errors"),
    ),
    "What counts": ("require", "select", "ignore", "fail_on", "overlays"),
    "Output": ("style", "report_file", "private", "quiet", "verbose", "no_color"),
}
"""Headings of the options that commands share, by the name of their parameter."""


_MEANT = {
    "diagnose": "check",
    "doctor": "check",
    "history": "fix --history",
    "install": "fix --install torch",
    "repair": "fix",
    "undo": "fix --undo",
}
"""What people type for a command that has another name."""


class Command(click.Command):
    """A command that lists its own options first, then those that it shares."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, each group below its heading."""
        rest: list[tuple[str, str]] = []
        groups: dict[str, list[tuple[str, str]]] = {heading: [] for heading in _SECTIONS}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                record = (record[0], re.sub(_RANGE, "", record[1]))
                heading = next((text for text, names in _SECTIONS.items() if parameter.name in names), None)
                (groups[heading] if heading else rest).append(record)
        for heading, records in {"Options": rest, **groups}.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words. Where one is too many, the error tells how a name with blanks is written."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            hint = _hint(error.message, given, {parameter.name for parameter in self.params})
            if not hint:
                raise
            raise click.UsageError(f"{error.message}{hint}", ctx) from None


def _hint(error: str, given: Sequence[str], parameters: Collection[str | None]) -> str:
    if not error.startswith("Got unexpected extra argument"):
        return ""
    for option in ("--gpu", "--error"):
        rest = given[given.index(option) + 1 :] if option in given else []
        words = list(takewhile(lambda word: not word.startswith("-"), rest))
        if len(words) > 1:
            return f'; a text with blanks is quoted: {option} "{" ".join(words)}"'
    return "; a framework is named by --framework" if "framework" in parameters else ""


class Group(click.Group):
    """A group that lists its commands with their whole first sentences."""

    command_class = Command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        named = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, command.get_short_help_str(limit=300)) for name, command in named if command is not None]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of that name. For an unknown name, the error has the near ones."""
        name = args[0] if args else ""
        if name and not name.startswith("-") and self.get_command(ctx, name) is None:
            if name == "help":
                return super().resolve_command(ctx, [*args[1:2], "--help"]) if args[1:] else self._help(ctx)
            hint = f": did you mean `gpudoctor {_MEANT[name]}`?" if name in _MEANT and ctx.parent is None else ""
            ctx.fail(f"no command {name!r}{hint or did_you_mean(name, self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)

    def _help(self, ctx: click.Context) -> NoReturn:
        click.echo(ctx.get_help())
        ctx.exit()


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """ ": did you mean `check`?"; "" where nothing is near."""
    import difflib

    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    return f": did you mean `{near[0]}`?" if near else ""


def command(name: str | None = None) -> Callable[[Callable[..., Any]], Command]:
    """`click.command` with the help of this module."""
    return click.command(name, cls=Command)
