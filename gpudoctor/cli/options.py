"""Options that all commands share, with one environment twin each (empty means unset)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

LEVELS = ("static", "driver", "quick", "standard", "full")


class RuleList(click.types.StringParamType):
    """Several rules in one environment variable, parted by commas; one rule on the command line."""

    name = "ID|SLUG|PREFIX[=REASON]"

    def split_envvar_value(self, rv: str) -> list[str]:
        """GPUDOCTOR_IGNORE="GPD303=old cluster,GPD213"."""
        return [rule.strip() for rule in rv.split(",") if rule.strip()]


def machine_options(command: F) -> F:
    """Which machine and which environment is examined, and how deeply."""
    for option in reversed(
        (
            click.option(
                "--level",
                type=click.Choice(LEVELS),
                envvar="GPUDOCTOR_LEVEL",
                help="How deep to look: static reads files only, driver also starts the drivers' "
                "libraries, quick and more also start torch. [default: quick with a usable GPU and a "
                "torch, else driver]",
            ),
            click.option(
                "--python",
                metavar="PATH",
                envvar="GPUDOCTOR_PYTHON",
                help="Examined interpreter, venv or conda prefix. [default: the active one]",
            ),
            click.option(
                "--root",
                type=click.Path(path_type=Path),
                metavar="DIR",
                envvar="GPUDOCTOR_ROOT",
                help="Read the machine below DIR (a mounted image, /host, a recording); nothing is run.",
            ),
            click.option(
                "--env",
                "variables",
                multiple=True,
                metavar="NAME=VALUE",
                help="A variable of the examined process; with --root only these are set.",
            ),
        )
    ):
        command = option(command)
    return command


def matrix_option(command: F) -> F:
    """Rows that are added to the matrix, or replace rows of it."""
    return click.option(
        "--matrix",
        "overlays",
        multiple=True,
        type=click.Path(path_type=Path),
        metavar="FILE",
        envvar="GPUDOCTOR_MATRIX",
        help="YAML file that adds or replaces rows of the compatibility matrix.",
    )(command)


def report_options(command: F) -> F:
    """How the report is given."""
    for option in reversed(
        (
            click.option(
                "--format",
                "style",
                type=click.Choice(("text", "json")),
                default="text",
                envvar="GPUDOCTOR_FORMAT",
                show_default=True,
            ),
            click.option(
                "--fail-on",
                type=click.Choice(("error", "warning", "never")),
                default="error",
                envvar="GPUDOCTOR_FAIL_ON",
                show_default=True,
                help="What makes the exit code 1.",
            ),
            click.option(
                "--select", multiple=True, type=RuleList(), envvar="GPUDOCTOR_SELECT", help="Run only these checks."
            ),
            click.option(
                "--ignore",
                multiple=True,
                type=RuleList(),
                envvar="GPUDOCTOR_IGNORE",
                help="Leave these findings out of the verdict; the reason is shown.",
            ),
            click.option(
                "--report-file",
                type=click.Path(path_type=Path),
                metavar="PATH",
                envvar="GPUDOCTOR_REPORT_FILE",
                help="Write the report to PATH too.",
            ),
            click.option(
                "--private",
                is_flag=True,
                envvar="GPUDOCTOR_PRIVATE",
                help="Keep home folders, user names, serial numbers and UUIDs in JSON.",
            ),
            click.option(
                "-q",
                "--quiet",
                is_flag=True,
                envvar="GPUDOCTOR_QUIET",
                help="Print the first error only, nothing when there is none.",
            ),
            click.option(
                "-v",
                "--verbose",
                is_flag=True,
                envvar="GPUDOCTOR_VERBOSE",
                help="Print evidence, notes and all ways out.",
            ),
            click.option("--no-color", is_flag=True, envvar="GPUDOCTOR_NO_COLOR"),
        )
    ):
        command = option(command)
    return command


def given_variables(pairs: tuple[str, ...]) -> dict[str, str]:
    """`--env NAME=VALUE` options as a mapping. Raises click.UsageError for anything else."""
    variables = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise click.UsageError(f"--env {pair!r}: write NAME=VALUE")
        variables[name] = value
    return variables
