"""The options of `gpudoctor preflight`, declared once and read twice.

A container's start must not wait for a command-line library (click alone costs two starts of Python): a well-formed
command line is read here. Whatever is not well-formed, and --help, goes to the click command that is made from the
same table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from msgspec import Struct

from gpudoctor.render.formats import FORMATS

StartLevel = Literal["static", "driver", "quick", "standard"]
"""How deep is looked before a program starts; the kernels of level full take minutes."""

REQUIRE_VARIABLE, REQUIRE_SEPARATOR = "GPUDOCTOR_REQUIRE", ";"
"""What it asks for is added to what --require says: neither takes the other's back."""


class Option(Struct, frozen=True):
    """One option; a flag takes no value. `separator` parts several values in the variable that stands for it."""

    names: tuple[str, ...]
    key: str
    help: str
    metavar: str = "TEXT"
    flag: bool = False
    multiple: bool = False
    choices: tuple[str, ...] = ()
    variable: str = ""
    separator: str = ","


OPTIONS = (
    Option(
        ("--require",), "require", "What this job needs: gpu>=8, gpu.memory>=70GiB, any(gfx in gfx942,gfx950) ... "
        f"[{REQUIRE_VARIABLE}, parted by {REQUIRE_SEPARATOR!r}]", metavar="EXPR", multiple=True,
    ),
    Option(
        ("--level",), "level", "How deep to look. [default: driver]",
        choices=get_args(StartLevel), variable="GPUDOCTOR_LEVEL",
    ),
    Option(
        ("--wait",), "wait", "Judge again for so long while only the node is at fault: drivers and plugins may come "
        "up late.", metavar="SECONDS", variable="GPUDOCTOR_WAIT",
    ),
    Option(("--ready-file",), "ready_file", "Written when all is well, for a probe to look at.", metavar="PATH"),
    Option(
        ("--report-file",), "report_file", "Write the report to PATH (a Kubernetes termination log, say).",
        metavar="PATH", variable="GPUDOCTOR_REPORT_FILE",
    ),
    Option(
        ("--format",), "style", "Form of the report: to the report file, and without a command to stdout.",
        choices=FORMATS, variable="GPUDOCTOR_FORMAT",
    ),
    Option(
        ("--fail-on",), "fail_on", "What refuses. [default: error]",
        choices=("error", "warning", "never"), variable="GPUDOCTOR_FAIL_ON",
    ),
    Option(
        ("--select",), "select", "Run only these checks.",
        metavar="ID|SLUG|PREFIX", multiple=True, variable="GPUDOCTOR_SELECT",
    ),
    Option(
        ("--ignore",), "ignore", "Leave these findings out of the verdict.",
        metavar="ID|SLUG|PREFIX[=REASON]", multiple=True, variable="GPUDOCTOR_IGNORE",
    ),
    Option(("--set-env",), "set_env", "Set the variables that repair an error, for the command only.", flag=True),
    Option(
        ("--python",), "python", "Examined interpreter, venv or conda prefix. [default: the active one]",
        metavar="PATH", variable="GPUDOCTOR_PYTHON",
    ),
    Option(
        ("--matrix",), "overlays", "YAML file that adds or replaces rows of the compatibility matrix.",
        metavar="FILE", multiple=True, variable="GPUDOCTOR_MATRIX", separator=":",
    ),
    Option(("-q", "--quiet"), "quiet", "Say nothing when all is well.", flag=True, variable="GPUDOCTOR_QUIET"),
    Option(
        ("-v", "--verbose"), "verbose", "Print the whole report on a refusal.",
        flag=True, variable="GPUDOCTOR_VERBOSE",
    ),
)  # fmt: skip

_TRUE, FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")
"""What a variable says that stands for a flag, in any case of letters."""

Given = dict[str, Any]
"""By key of an option: a text, a tuple of texts, or a bool; only what was given. "command": CMD and ARGS."""


def read(argv: Sequence[str], environ: Mapping[str, str]) -> Given | None:
    """Options and command of a well-formed command line; None for anything else."""
    named = {name: option for option in OPTIONS for name in option.names}
    given: Given = {}
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if word == "--" or not word.startswith("-"):
            rest = rest if word == "--" else [word, *rest]
            break
        name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        option = named.get(name)
        if option is None or (option.flag and equals) or not (option.flag or equals or rest):
            return None
        text = "" if option.flag else value if equals else rest.pop(0)
        # Whether a text that looks like an option may be a value, each release of click has its own opinion.
        if text.startswith("-") or not _take(given, option, text):
            return None
    given["command"] = tuple(rest)
    return None if add_variables(given, environ) else given


def _take(given: Given, option: Option, value: str) -> bool:
    if option.choices and value not in option.choices:
        return False
    if option.flag:
        given[option.key] = True
    elif option.multiple:
        given[option.key] = (*given.get(option.key, ()), value)
    elif value:
        given[option.key] = value
    else:  # an empty text takes back what was said before
        given.pop(option.key, None)
    return True


def add_variables(given: Given, environ: Mapping[str, str]) -> str:
    """Add what the options' variables say, where the command line says nothing. What is wrong with one, or ""."""
    for option in OPTIONS:
        value = environ.get(option.variable, "") if option.variable else ""
        if not value or option.key in given:
            continue
        if option.flag:
            if value.lower() not in (*_TRUE, *FALSE):
                return f"{option.variable}={value!r}: write 1 or 0"
            given[option.key] = value.lower() in _TRUE
            continue
        parts = [part.strip() for part in value.split(option.separator)] if option.multiple else [value]
        if not all(_take(given, option, part) for part in parts if part):
            return f"{option.variable}={value!r}: choose from {', '.join(option.choices)}"
    return ""
