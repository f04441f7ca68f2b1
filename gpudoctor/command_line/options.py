"""The options that several commands share. A variable has one name for all of them; an empty one is unset."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

from gpudoctor.command_line.reading import Option
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
    return Option(("--level",), "level", help, choices=choices, variable="GPUDOCTOR_LEVEL")


PYTHON = Option(
    ("--python",), "python", "Examined interpreter, venv or conda prefix. [default: the active one, else .venv]",
    metavar="PATH", variable="GPUDOCTOR_PYTHON",
)  # fmt: skip
ROOT = Option(
    ("--root",), "root", "Read the machine below DIR (a mounted image, /host, a recording); nothing is run.",
    metavar="DIR", variable="GPUDOCTOR_ROOT",
)  # fmt: skip
MACHINE = (
    level(
        "How deep to look: static reads files only, driver also starts the drivers' libraries, quick, standard and "
        "full also compute with torch. [default: quick with a usable GPU and a torch, else driver]"
    ),
    PYTHON,
    ROOT,
)
ENV = Option(
    ("--env",), "variables", "A variable of the examined process; where no process is examined, only these are set.",
    metavar="NAME=VALUE", multiple=True, variable="GPUDOCTOR_ENV", separator=";",
)  # fmt: skip
GPU = Option(
    ("--gpu",), "gpus", "A GPU: name, PCI id, chip, sm_NN or gfxNNNN.",
    metavar="NAME", multiple=True, variable="GPUDOCTOR_GPU", separator=";",
)  # fmt: skip
DRIVER = Option(
    ("--driver",), "driver", "Version of the kernel driver.", metavar="VERSION", variable="GPUDOCTOR_DRIVER"
)
DESCRIPTION = (
    GPU,
    DRIVER,
    Option(("--kernel",), "kernel", "Release of the kernel.", metavar="RELEASE", variable="GPUDOCTOR_KERNEL"),
    Option(
        ("--os",), "os", "Distribution, such as ubuntu-22.04.", metavar="ID-VERSION", variable="GPUDOCTOR_OS"
    ),
    Option(
        ("--platform",), "platform", "Processor: linux/amd64 or linux/arm64.",
        metavar="PLATFORM", variable="GPUDOCTOR_PLATFORM",
    ),
    Option(
        ("--container",), "container", "Kind of container: docker, podman, kubernetes ... or none.",
        metavar="KIND", variable="GPUDOCTOR_CONTAINER",
    ),
    Option(
        ("--torch",), "torch", "torch; without +BUILD the package index's own build.",
        metavar="VERSION[+BUILD]", variable="GPUDOCTOR_TORCH",
    ),
    Option(
        ("--python-version",), "python_version", "Version of the examined Python.",
        metavar="X.Y", variable="GPUDOCTOR_PYTHON_VERSION",
    ),
    Option(
        ("--package",), "packages", "An installed package.",
        metavar="NAME==VERSION", multiple=True, variable="GPUDOCTOR_PACKAGE", separator=";",
    ),
    Option(
        ("--kernel-log",), "kernel_log", "File with the kernel log (`dmesg`, journal); - reads stdin.",
        metavar="FILE", variable="GPUDOCTOR_KERNEL_LOG",
    ),
    Option(
        ("--error",), "errors", "An error message that you saw.",
        metavar="TEXT", multiple=True, variable="GPUDOCTOR_ERROR", separator="\n",
    ),
)  # fmt: skip


def snapshot_file(help: str) -> Option:
    """A machine that was recorded."""
    return Option(("--from",), "snapshot_file", help, metavar="FILE", variable="GPUDOCTOR_FROM")


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
    ("--require",), "require", "What is needed here: gpu>=8, gpu.memory>=70GiB, any(gfx in gfx942,gfx950), "
    f"torch>=2.6 ... It is an error if that is missing. [{REQUIRE_VARIABLE}, separated by {REQUIRE_SEPARATOR!r}]",
    metavar="EXPR", multiple=True,
)  # fmt: skip
EXPECT = Option(
    ("--expect",), "expect", "Nodes that must be there: gpu[01-64], or a file of names.",
    metavar="NODES|FILE", variable="GPUDOCTOR_EXPECT",
)  # fmt: skip
GOLDEN = Option(
    ("--golden",), "golden", "A snapshot or report of a node that is known to be good.",
    metavar="FILE", variable="GPUDOCTOR_GOLDEN",
)  # fmt: skip
ROLES = Option(
    ("--roles",), "roles", "Roles of nodes, a line each: gpu[01-32]=train.",
    metavar="FILE", variable="GPUDOCTOR_ROLES",
)  # fmt: skip
MATRIX = Option(
    ("--matrix",), "overlays", "YAML file that adds or replaces rows of the compatibility matrix.",
    metavar="FILE", multiple=True, variable="GPUDOCTOR_MATRIX", separator=":",
)  # fmt: skip


WHERE = (PYTHON, ROOT, ENV, snapshot_file(""), *DESCRIPTION, MATRIX)
"""The options that choose the machine and the environment: another command for the same one repeats them."""


def fail_on(help: str) -> Option:
    """The option for the verdict from which on a run fails."""
    choices = ("error", "warning", "never")
    return Option(
        ("--fail-on",), "fail_on", f"{help} [default: error]", choices=choices, variable="GPUDOCTOR_FAIL_ON"
    )


SELECT = Option(
    ("--select",), "select", "Run only these checks.",
    metavar="ID|SLUG|PREFIX", multiple=True, variable="GPUDOCTOR_SELECT",
)  # fmt: skip
IGNORE = Option(
    ("--ignore",), "ignore", "Leave these problems out of the verdict; the reason is shown.",
    metavar="ID|SLUG|PREFIX[=REASON]", multiple=True, variable="GPUDOCTOR_IGNORE",
)  # fmt: skip

PLUGIN = Option(
    ("--plugin",), "plugins", "Also run the checks of this plugin, installed beside gpudoctor.",
    metavar="NAME", multiple=True, variable="GPUDOCTOR_PLUGIN",
)  # fmt: skip

# --- how it is told ---------------------------------------------------------------------------------------


def form(styles: tuple[str, ...] = FORMATS, help: str = "Form of what is printed.") -> Option:
    """The option for the form of the answer."""
    return Option(("--format",), "style", f"{help} [default: text]", choices=styles, variable="GPUDOCTOR_FORMAT")


REPORT_FILE = Option(
    ("--report-file",), "report_file", "Write the report to PATH, too (a Kubernetes termination log, say).",
    metavar="PATH", variable="GPUDOCTOR_REPORT_FILE",
)  # fmt: skip
PRIVATE = Option(
    ("--private",), "private", "Include home folders, user names, serial numbers, UUIDs: do not publish the output.",
    flag=True, variable="GPUDOCTOR_PRIVATE",
)  # fmt: skip


def quiet(help: str) -> Option:
    """Say less."""
    return Option(("-q", "--quiet"), "quiet", help, flag=True, variable="GPUDOCTOR_QUIET")


def verbose(help: str) -> Option:
    """Say more."""
    return Option(("-v", "--verbose"), "verbose", help, flag=True, variable="GPUDOCTOR_VERBOSE")


NO_COLOR = Option(("--no-color",), "no_color", "Print without colour.", flag=True, variable="GPUDOCTOR_NO_COLOR")


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
