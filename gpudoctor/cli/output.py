"""What `fix` prints and asks: JSON at the end, lines as it goes, a question before it changes anything."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

from gpudoctor.command_line.running import tell
from gpudoctor.machine import Machine
from gpudoctor.render.lines import Line, print_lines, printable
from gpudoctor.render.steps import command_line

if TYPE_CHECKING:
    from gpudoctor.command_line.arguments import ReportOptions
    from gpudoctor.fix.apply import Event


def print_json(data: Any, shown: ReportOptions) -> None:
    """Print JSON to stdout and into the report file."""
    from gpudoctor.render.json import to_json
    from gpudoctor.render.report_file import write_report_file

    text = to_json(data)
    sys.stdout.write(text)
    write_report_file(shown.report_file, text)


def print_text(lines: Iterable[Line], shown: ReportOptions) -> None:
    """Print for a person on this machine, before whatever is asked or run next."""
    print_lines(lines, sys.stdout, color=not shown.no_color, exact_commands=True)
    sys.stdout.flush()


def place_of(machine: Machine) -> tuple[str, ...]:
    """The options that name the examined environment from any folder and shell; none where it is the active one."""
    environment = machine.examined
    active = {os.environ.get(name) for name in ("VIRTUAL_ENV", "CONDA_PREFIX")}
    if not environment.prefix or environment.prefix in active:
        return ()
    own = environment.kind in ("venv", "conda")
    return ("--python", environment.prefix if own else environment.interpreter or environment.prefix)


def asked_for(question: str, command: tuple[str, ...], shown: ReportOptions, *, yes: bool) -> bool:
    """Whether to do it: with --yes, or if a person says so. Just pressing Enter means no. `command` is what does it
    where there is no terminal."""
    if yes:
        return True
    if shown.style != "text" or not (sys.stdin.isatty() and sys.stdout.isatty()):
        tell(f"Nothing was changed: there is no terminal to ask on. Run: {command_line((*command, '--yes'))}")
        return False
    if click.confirm(question, default=False):
        return True
    tell("Nothing was changed.")
    return False


def teller(shown: ReportOptions) -> Callable[[Event], None]:
    """Tells of a run as it goes: to the person, or to stderr where stdout is for JSON."""
    from gpudoctor.fix.apply import Line as Printed
    from gpudoctor.fix.apply import Saving, StepStarts
    from gpudoctor.render.plan import step_line

    to_stderr = shown.style == "json"
    live = sys.stderr.isatty() and not shown.quiet

    def say(event: Event) -> None:
        if isinstance(event, Saving):
            if live:
                end = "\n" if event.done >= event.of else ""
                click.echo(f"\rsaving what is there: {event.done} of {event.of} files{end}", err=True, nl=False)
        elif shown.quiet:
            return
        elif isinstance(event, StepStarts):
            click.echo(step_line(event.number, event.of, event.argv), err=to_stderr)
        elif isinstance(event, Printed):
            click.echo(f"    {printable(event.text)}", err=to_stderr)

    return say
