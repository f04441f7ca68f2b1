"""Options that several commands share, gathered into one record each, with one environment twin for all of them.

An empty twin means unset.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from gpudoctor.intake.description import Description
from gpudoctor.render.formats import FORMATS

if TYPE_CHECKING:
    from gpudoctor.preflight.settings import Settings

Command = Callable[..., int]

LEVELS = ("static", "driver", "quick", "standard", "full")
KERNEL_LEVELS = LEVELS[2:]


class RuleList(click.types.StringParamType):
    """Several rules in one environment variable, parted by commas; one rule on the command line."""

    name = "ID|SLUG|PREFIX[=REASON]"

    def split_envvar_value(self, rv: str) -> list[str]:
        """GPUDOCTOR_IGNORE="GPD303=old cluster,GPD213"."""
        return [rule.strip() for rule in rv.split(",") if rule.strip()]


class Examined(Struct, frozen=True):
    """Which machine and which environment is examined, and how deeply."""

    level: str | None
    python: str | None
    root: str | None


class Shown(Struct, frozen=True):
    """Which checks count, and how the report is given."""

    style: str
    fail_on: str
    select: tuple[str, ...]
    ignore: tuple[str, ...]
    report_file: str | None
    private: bool
    quiet: bool
    verbose: bool
    no_color: bool


def gathered(
    parameter: str, record: type[Struct], *options: Callable[[Command], Command]
) -> Callable[[Command], Command]:
    """A decorator: these options reach the command as one record, in one parameter."""

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def call(**given: Any) -> int:
            fields = {name: given.pop(name) for name in record.__struct_fields__}
            return command(**given, **{parameter: record(**fields)})

        decorated: Command = call
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate


def _project() -> Settings:
    """How the project's files want a report to be read, whatever machine it is of. What they ask of a machine
    (`level`, `require`, `wait`) is asked of the running one alone."""
    from gpudoctor.preflight.settings import project_settings

    return project_settings()


_python_option = click.option(
    "--python",
    metavar="PATH",
    envvar="GPUDOCTOR_PYTHON",
    help="Examined interpreter, venv or conda prefix. [default: the active one]",
)

machine_options = gathered(
    "examined",
    Examined,
    click.option(
        "--level",
        type=click.Choice(LEVELS),
        envvar="GPUDOCTOR_LEVEL",
        help="How deep to look: static reads files only, driver also starts the drivers' libraries, quick, standard "
        "and full also compute with torch. [default: quick with a usable GPU and a torch, else driver]",
    ),
    _python_option,
    click.option(
        "--root",
        type=click.Path(),
        metavar="DIR",
        envvar="GPUDOCTOR_ROOT",
        help="Read the machine below DIR (a mounted image, /host, a recording); nothing is run.",
    ),
)

# What computes does so on the running system: below a root nothing is run.
computing_options = gathered(
    "examined",
    Examined,
    click.option(
        "--level",
        type=click.Choice(KERNEL_LEVELS),
        envvar="GPUDOCTOR_LEVEL",
        help="How much to compute. [default: quick, or what --kernel and --minutes need]",
    ),
    _python_option,
    click.option("--root", type=click.Path(), envvar="GPUDOCTOR_ROOT", hidden=True),
)

description_options = gathered(
    "description",
    Description,
    click.option(
        "--gpu", "gpus", multiple=True, metavar="NAME", help="A card: name, PCI id, chip, sm_NN or gfxNNNN."
    ),
    click.option("--driver", default="", metavar="VERSION", help="Version of the kernel driver."),
    click.option("--kernel", default="", metavar="RELEASE"),
    click.option("--os", default="", metavar="ID-VERSION", help="Such as ubuntu-22.04."),
    click.option(
        "--torch", default="", metavar="VERSION[+BUILD]", help="Without +BUILD: the package index's own build."
    ),
    click.option("--python-version", default="", metavar="X.Y"),
)


def _format_option(styles: tuple[str, ...]) -> Callable[[Command], Command]:
    return click.option(
        "--format", "style", type=click.Choice(styles), default="text", envvar="GPUDOCTOR_FORMAT", show_default=True
    )


_shown_options = (
    click.option(
        "--fail-on",
        type=click.Choice(("error", "warning", "never")),
        default=lambda: _project().fail_on or "error",
        envvar="GPUDOCTOR_FAIL_ON",
        show_default="error",
        help="What makes the exit code 1.",
    ),
    click.option(
        "--select",
        multiple=True,
        type=RuleList(),
        default=lambda: _project().selected,
        envvar="GPUDOCTOR_SELECT",
        help="Run only these checks.",
    ),
    click.option(
        "--ignore",
        multiple=True,
        type=RuleList(),
        default=lambda: _project().rules,
        envvar="GPUDOCTOR_IGNORE",
        help="Leave these findings out of the verdict; the reason is shown.",
    ),
    click.option(
        "--report-file",
        type=click.Path(),
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
        "-v", "--verbose", is_flag=True, envvar="GPUDOCTOR_VERBOSE", help="Print evidence, notes and all ways out."
    ),
    click.option("--no-color", is_flag=True, envvar="GPUDOCTOR_NO_COLOR"),
)

report_options = gathered("shown", Shown, _format_option(FORMATS), *_shown_options)

# A repair is no report: it is shown as a text, or as the steps of its contract.
repair_options = gathered("shown", Shown, _format_option(("text", "json")), *_shown_options)

require_option = click.option(
    "--require",
    "required",
    multiple=True,
    metavar="EXPR",
    help="What is needed here: gpu>=8, gpu.memory>=70GiB, torch>=2.6 ... Missing, it is an error. "
    "[GPUDOCTOR_REQUIRE, parted by ';']",
)

matrix_option = click.option(
    "--matrix",
    "overlays",
    multiple=True,
    type=click.Path(),
    metavar="FILE",
    envvar="GPUDOCTOR_MATRIX",
    help="YAML file that adds or replaces rows of the compatibility matrix.",
)


def _variables(context: click.Context, option: click.Parameter, pairs: tuple[str, ...]) -> dict[str, str]:
    """`NAME=VALUE` options as a mapping."""
    variables = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise click.UsageError(f"--env {pair!r}: write NAME=VALUE")
        variables[name] = value
    return variables


variable_option = click.option(
    "--env",
    "variables",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_variables,
    help="A variable of the examined process; with --root only these are set.",
)
