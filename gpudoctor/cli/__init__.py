"""The commands as click knows them, one module each; their options and their start are in `command_line/`."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import click

from gpudoctor.cli.command import Group
from gpudoctor.command_line.running import exit_code_of, say
from gpudoctor.exit_codes import BROKEN_PIPE, INTERRUPTED

# Where each command is defined; only the module of the one that is run gets imported.
COMMANDS = {
    "check": "gpudoctor.cli.check:check",
    "whatif": "gpudoctor.cli.whatif:whatif",
    "fix": "gpudoctor.cli.fix:fix",
    "env": "gpudoctor.cli.env:env",
    "dockerfile": "gpudoctor.cli.dockerfile:dockerfile",
    "preflight": "gpudoctor.cli.preflight:preflight",
    "recommend": "gpudoctor.cli.recommend:recommend",
    "variants": "gpudoctor.cli.variants:variants",
    "snapshot": "gpudoctor.cli.snapshot:snapshot",
    "fleet": "gpudoctor.cli.fleet:fleet",
    "smoke": "gpudoctor.cli.smoke:smoke",
    "scan": "gpudoctor.cli.scan:scan",
    "explain": "gpudoctor.cli.explain:explain",
    "list": "gpudoctor.cli.list_checks:list_checks",
    "matrix": "gpudoctor.cli.matrix:matrix",
    "schema": "gpudoctor.cli.schema:schema",
    "completion": "gpudoctor.cli.completion:completion",
}


class LazyGroup(Group):
    """A group whose commands are imported when they are asked for."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. That nobody reads on would be 1 with click."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise click.exceptions.Exit(BROKEN_PIPE) from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, in the order in which people meet them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command


def _print_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        from gpudoctor.command_line.version import print_version

        print_version()
        context.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the versions of gpudoctor and of its compatibility matrix.",
)
def gpudoctor() -> None:
    """Tells why a GPU does not work with PyTorch, proves it, and fixes it.

    \b
    Examples:
      gpudoctor check                      what is wrong, first cause first
      gpudoctor fix                        show the fix, ask, apply it
      gpudoctor fix --undo                 undo the last fix
      gpudoctor recommend --gpu "RX 6800"  the PyTorch build for a GPU
      gpudoctor explain GPD402             what a problem means
    """


def run(arguments: Sequence[str]) -> int:
    """Run the command line and give its exit code."""
    return exit_code_of(lambda: _by_click(arguments))


def _hint(error: click.ClickException) -> str:
    """Where the options, arguments and commands are listed that somebody did not find."""
    if not isinstance(error, click.UsageError) or error.ctx is None or "id you mean" in error.message:
        return ""
    wrong_value = isinstance(error, click.BadParameter) and not isinstance(error, click.MissingParameter)
    return "" if wrong_value or "`" in error.message else f" (`{error.ctx.command_path} --help` tells more)"


def _by_click(arguments: Sequence[str]) -> int:
    try:
        code = gpudoctor.main(list(arguments), prog_name="gpudoctor", standalone_mode=False)
    except click.Abort:
        return INTERRUPTED
    except click.ClickException as error:
        if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):
            error.show()  # the help itself
        else:
            say(f"{error.format_message()}{_hint(error)}")
        return error.exit_code
    return code if isinstance(code, int) else 0
