"""The options that several commands share. A variable has one name for all of them; an empty one is unset."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

from gpudoctor.command_line.option_parser import Option
from gpudoctor.host import InputError
from gpudoctor.machine import Level
from gpudoctor.render.formats import FORMATS

LEVELS: tuple[str, ...] = get_args(Level)
KERNEL_LEVELS = LEVELS[2:]
StartLevel = Literal["static", "driver", "quick", "standard"]
"""How deep is looked before a program starts; the kernels of level full take minutes."""
START_LEVELS: tuple[str, ...] = get_args(StartLevel)

REQUIRE_VARIABLE, REQUIRE_SEPARATOR = "GPUDOCTOR_REQUIRE", ";"
"""What it asks for is added to what --require says: neither takes the other's back."""

# --- what is examined -------------------------------------------------------------------------------------


def level(help: str, choices: tuple[str, ...] = LEVELS) -> Option:
    """How deep to look: each command has its own reach and default."""
    return Option("--level", help, choices=choices)


PYTHON = Option(
    "--python", "Examined interpreter, venv or conda prefix. [default: the active one, else .venv]", metavar="PATH"
)
ROOT = Option(
    "--root", "Read the machine below DIR (a mounted image, /host, a recording); nothing is run.", metavar="DIR"
)
MACHINE = (
    level(
        "How deep to look: static reads files only, driver also starts the drivers' libraries, quick, standard and "
        "full also compute with torch. [default: quick with a usable GPU and a torch, else driver]"
    ),
    PYTHON,
    ROOT,
)
ENV = Option(
    "--env",
    "A variable of the examined process; where no process is examined, only these are set.",
    metavar="NAME=VALUE",
    multiple=True,
    separator=";",
    parameter="variables",
)
GPU = Option(
    "--gpu",
    "A GPU: name, PCI id, chip, sm_NN or gfxNNNN.",
    metavar="NAME",
    multiple=True,
    separator=";",
    parameter="gpus",
)
DRIVER = Option("--driver", "Version of the kernel driver.", metavar="VERSION")
DESCRIPTION = (
    GPU,
    DRIVER,
    Option("--kernel", "Release of the kernel.", metavar="RELEASE"),
    Option("--os", "Distribution, such as ubuntu-22.04.", metavar="ID-VERSION"),
    Option("--platform", "Processor: linux/amd64 or linux/arm64.", metavar="PLATFORM"),
    Option("--container", "Kind of container: docker, podman, kubernetes ... or none.", metavar="KIND"),
    Option("--torch", "torch; without +BUILD the package index's own build.", metavar="VERSION[+BUILD]"),
    Option("--python-version", "Version of the examined Python.", metavar="X.Y"),
    Option(
        "--package",
        "An installed package.",
        metavar="NAME==VERSION",
        multiple=True,
        separator=";",
        parameter="packages",
    ),
    Option("--kernel-log", "File with the kernel log (`dmesg`, journal); - reads stdin.", metavar="FILE"),
    Option(
        "--error", "An error message that you saw.", metavar="TEXT", multiple=True, separator="\n", parameter="errors"
    ),
)


def snapshot_file(help: str) -> Option:
    """A machine that was recorded."""
    return Option("--from", help, metavar="FILE", parameter="snapshot_file")


def named_values(pairs: Iterable[str]) -> dict[str, str]:
    """What `--env` says, as a mapping. Raises InputError."""
    variables = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise InputError(f"--env {pair!r}: write NAME=VALUE")
        variables[name] = value
    return variables


# --- how it is judged -------------------------------------------------------------------------------------

REQUIRE = Option(
    "--require",
    "What is needed here: gpu>=8, gpu.memory>=70GiB, any(gfx in gfx942,gfx950), "
    f"torch>=2.6 ... It is an error if that is missing. [{REQUIRE_VARIABLE}, separated by {REQUIRE_SEPARATOR!r}]",
    metavar="EXPR",
    multiple=True,
    in_environment=False,
)
EXPECT = Option("--expect", "Nodes that must be there: gpu[01-64], or a file of names.", metavar="NODES|FILE")
GOLDEN = Option("--golden", "A snapshot or report of a node that is known to be good.", metavar="FILE")
ROLES = Option("--roles", "Roles of nodes, a line each: gpu[01-32]=train.", metavar="FILE")
MATRIX = Option(
    "--matrix",
    "YAML file that adds or replaces rows of the compatibility matrix.",
    metavar="FILE",
    multiple=True,
    separator=":",
    parameter="overlays",
)


WHERE = (PYTHON, ROOT, ENV, snapshot_file(""), *DESCRIPTION, MATRIX)
"""The options that choose the machine and the environment: another command for the same one repeats them."""


def fail_on(help: str) -> Option:
    """The option for the verdict from which on a run fails."""
    choices = ("error", "warning", "never")
    return Option("--fail-on", f"{help} [default: error]", choices=choices)


SELECT = Option("--select", "Run only these checks.", metavar="ID|SLUG|PREFIX", multiple=True)
IGNORE = Option(
    "--ignore",
    "Leave these problems out of the verdict; the reason is shown.",
    metavar="ID|SLUG|PREFIX[=REASON]",
    multiple=True,
)

PLUGIN = Option(
    "--plugin",
    "Also run the checks of this plugin, installed beside gpudoctor.",
    metavar="NAME",
    multiple=True,
    parameter="plugins",
)

# --- how it is told ---------------------------------------------------------------------------------------


def form(styles: tuple[str, ...] = FORMATS, help: str = "Form of what is printed.") -> Option:
    """The option for the form of the answer."""
    return Option("--format", f"{help} [default: text]", choices=styles, parameter="style")


REPORT_FILE = Option(
    "--report-file", "Write the report to PATH, too (a Kubernetes termination log, say).", metavar="PATH"
)
PRIVATE = Option(
    "--private", "Include home folders, user names, serial numbers, UUIDs: do not publish the output.", flag=True
)


def quiet(help: str) -> Option:
    """Say less."""
    return Option("--quiet", help, flag=True, short="-q")


def verbose(help: str) -> Option:
    """Say more."""
    return Option("--verbose", help, flag=True, short="-v")


NO_COLOR = Option("--no-color", "Print without colour.", flag=True)


def report(styles: tuple[str, ...] = FORMATS) -> tuple[Option, ...]:
    """Which checks count, and how the report is given."""
    return (
        form(styles),
        fail_on("What makes the exit code 1."),
        SELECT,
        IGNORE,
        PLUGIN,
        REPORT_FILE,
        PRIVATE,
        quiet("Print the first problem only, nothing when there is none."),
        verbose("Print evidence, notes and all fixes."),
        NO_COLOR,
    )
