"""The command line: thin commands over the doctor."""

from __future__ import annotations

import errno
import importlib
import io
import os
import sys
from collections.abc import Sequence

import click

from gpudoctor import __version__
from gpudoctor.plain_text import without_controls

INTERNAL_FAULT = 70

# Where each command is defined; only the module of the one that is run gets imported.
COMMANDS = {
    "check": "gpudoctor.cli.check:check",
    "whatif": "gpudoctor.cli.check:whatif",
    "fix": "gpudoctor.cli.fix:fix",
    "env": "gpudoctor.cli.fix:env",
    "dockerfile": "gpudoctor.cli.dockerfile:dockerfile",
    "preflight": "gpudoctor.cli.preflight:preflight",
    "recommend": "gpudoctor.cli.recommend:recommend",
    "snapshot": "gpudoctor.cli.check:snapshot",
    "smoke": "gpudoctor.cli.smoke:smoke",
    "scan": "gpudoctor.cli.scan:scan",
    "explain": "gpudoctor.cli.reference:explain",
    "list": "gpudoctor.cli.reference:list_checks",
    "matrix": "gpudoctor.cli.reference:matrix",
    "schema": "gpudoctor.cli.reference:schema",
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, in the order in which people meet them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="gpudoctor")
def gpudoctor() -> None:
    """Say why a GPU does not work with PyTorch, prove it, and give the exact repair."""


def run(arguments: Sequence[str]) -> int:
    """Run the command line and give its exit code: bad input is one line and 2, our own fault is 70."""
    from gpudoctor.host import InputError
    from gpudoctor.host.ending import Ended

    _make_writable()
    try:
        code = gpudoctor.main(list(arguments), prog_name="gpudoctor", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.Abort:
        return 130
    except Ended as ended:
        return ended.exit_code
    except click.ClickException as error:
        if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):
            error.show()  # the help itself
        else:
            click.echo(f"gpudoctor: {without_controls(error.format_message(), ' ')}", err=True)
        return error.exit_code
    except InputError as error:
        click.echo(f"gpudoctor: {without_controls(str(error), ' ')}", err=True)
        return 2
    except BrokenPipeError:
        _discard_output()
        return 141
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            _discard_output()
            click.echo(
                f"gpudoctor: the output cannot be written: {without_controls(str(error.strerror), ' ').lower()}",
                err=True,
            )
            return 2
        if os.environ.get("GPUDOCTOR_TRACEBACK"):
            raise
        click.echo(
            f"gpudoctor: a fault of gpudoctor itself: {type(error).__name__}: {without_controls(str(error), ' ')}\n"
            "Please report it; GPUDOCTOR_TRACEBACK=1 shows where it happened.",
            err=True,
        )
        return INTERNAL_FAULT
    return code if isinstance(code, int) else 0


def _make_writable() -> None:
    """A stream that was closed takes everything; a character that its encoding lacks becomes "?"."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - as long as the program
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def _discard_output() -> None:
    """What is still buffered must not fail once more at the end of the program."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
