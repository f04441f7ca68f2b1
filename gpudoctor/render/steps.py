"""Fixes and commands as a person pastes them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from gpudoctor.plain_text import is_command
from gpudoctor.render.lines import Line, Span
from gpudoctor.step import EnvStep, ManualStep, PlannedFix, RunStep, Step


def telling_steps(fix: PlannedFix) -> tuple[Step, ...]:
    """The steps of a fix, without one that only repeats its title."""
    title = fix.title.rstrip(".")
    return tuple(step for step in fix.steps if "\n".join(step_lines(step)).rstrip(".") != title)


_SHORT, _LONGER = 200, 20
"""Characters of a step that needs no title, where it begins with all words of it; and how many more they may take."""
_SMALL_WORDS = {"a", "an", "it", "the", "this"}


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower())) - _SMALL_WORDS


_PLACED = r"(\S+:\d+(?:-\d+)?: +)(.+)"
"""A line to write, behind its place in a file."""


def fix_lines(fix: PlannedFix, label: str, *, here: bool = False, told: str = "") -> Iterator[Line]:
    """One fix with its steps; `here`: they are for the machine at which it is read; `told`: what was said before."""
    steps = telling_steps(fix)
    first, style = next(step_spans(steps[0], here=here), ("", "")) if steps else ("", "")
    told_first = not style and len(first) <= _SHORT and not re.fullmatch(_PLACED, first)
    more = told_first and _words(fix.title) <= _words(first[: len(fix.title) + _LONGER])
    yield [("    ", ""), (f"{label}: ", "green"), (first if more else fix.title, "")]
    for number, step in enumerate(steps):
        for text, style in list(step_spans(step, here=here))[more and number == 0 :]:
            place = re.fullmatch(_PLACED, text) if not style else None
            spans = [(place[1], ""), (place[2], "command")] if place and is_command(place[2]) else [(text, style)]
            yield [("      ", ""), *spans]
        if isinstance(step, EnvStep) and step.why and step.why not in told:
            yield [("      ", ""), (f"({step.why})", "dim")]


def step_spans(step: Step, *, here: bool = False) -> Iterator[Span]:
    """The lines of a step: commands, sentences, and what is to be written into a file as it stands."""
    copied = False
    for line in step_lines(step, here=here):
        if not isinstance(step, ManualStep) or is_command(line):
            yield line, "command"
        else:
            copied = copied and not re.search(r"[\w)]\.$", line)  # a sentence after the content of a file
            yield line, "verbatim" if copied else ""
        copied = copied or line.endswith(":")


def step_lines(step: Step, *, here: bool = False) -> tuple[str, ...]:
    """A step as a person does it: the command, the variable, the instruction."""
    if isinstance(step, RunStep):
        return (run_line(step, here=here),)
    if isinstance(step, EnvStep):
        return (f"export {step.name}={_quote(step.value)}",)
    return tuple(step.text.splitlines())


def run_line(step: RunStep, *, here: bool = False) -> str:
    """A command with its folder and its variables, by root where it needs to be."""
    folder = f"cd {command_line([step.cwd])} && " if step.cwd else ""
    variables = "".join(f"{name}={_quote(value) if value else ''} " for name, value in step.env.items())
    return f"{folder}{_as_root(step, here=here)}{variables}{command_line(step.argv)}"


def undo_lines(step: RunStep, *, here: bool = False) -> tuple[str, ...]:
    """The commands that undo a step, in the form of the step itself."""
    return tuple(f"{_as_root(step, here=here)}{command_line(argv)}" for argv in step.undo)


def _as_root(step: RunStep, *, here: bool = False) -> str:
    """What makes root of the reader, who may be root here already. Who runs it elsewhere, nobody knows."""
    is_root = here and hasattr(os, "geteuid") and os.geteuid() == 0  # nobody is, on a system without root
    return "sudo " if step.risk == "root" and not is_root else ""


def command_line(argv: tuple[str, ...] | list[str]) -> str:
    """A command as it can be pasted into a shell; a home folder is written ~."""
    home = os.path.expanduser("~")

    def pasted(argument: str) -> str:
        if home not in ("/", "") and argument.startswith(home + "/"):
            return "~/" + _quote(argument[len(home) + 1 :])
        if argument.startswith("~/"):  # of a snapshot, which leaves homes out
            return "~/" + _quote(argument[2:])
        return _quote(argument)

    return " ".join(pasted(argument) for argument in argv)


def _quote(text: str) -> str:
    if text.replace("/", "").replace("-", "").replace(".", "").isalnum() and text.isascii():
        return text  # as most words of commands are
    from shlex import quote

    return quote(text)
