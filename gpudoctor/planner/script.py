"""The plan of a fix as a POSIX shell script, to be read and then run somewhere else.

Text that was read from a machine reaches the shell only quoted, never as the start of an argument or of a line.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator
from typing import Any

from gpudoctor.finding import UnsetVariable, VariableRemedy
from gpudoctor.plain_text import without_controls, without_workflow_commands
from gpudoctor.planner.planned_steps import PlannedStep
from gpudoctor.planner.repair import Repair
from gpudoctor.privacy import SECRET, without_secrets
from gpudoctor.step import EnvStep, RunStep

_HEAD = """\
#!/bin/sh
# A fix by gpudoctor {version} for {subject}.
# Read it before you run it. It stops at the first command that fails.
set -eu
if [ "$(id -u)" -eq 0 ]; then sudo=; else sudo=sudo; fi
"""
_LOGIN = """\
# A script holds no password: it takes the package index's password from this variable.
: "${INDEX_LOGIN:?set it to USER:PASSWORD}"
"""


def shell_script(plan: Repair, *, version: str, subject: str) -> str:
    """All of a plan: commands as they are, manual steps as comments."""
    lines = [_HEAD.format(version=version, subject=without_secrets(without_controls(subject)))]
    if plan.pinned:
        lines += [f"{line}\n" for line in _comment(f"These need another torch: {', '.join(plan.pinned)}")]
    stopped = False
    for number, planned in enumerate(plan.steps, 1):
        lines += [f"{line}\n" for line in ("", *_step(number, planned, stopped))]
        stopped = stopped or planned.stops
    lines += ["\n", *(f"{line}\n" for line in _comment(plan.after))]
    if any("$INDEX_LOGIN" in line for line in lines if not line.startswith("#")):
        lines.insert(1, _LOGIN)
    return "".join(lines)


def _step(number: int, planned: PlannedStep, stopped: bool) -> Iterator[str]:
    step = planned.step
    mark = f" (shown only: {planned.why_not})" if planned.why_not else ""
    reasons = f"{step.why} [{', '.join(planned.because)}]".strip()
    yield from _comment(f"{number}. {reasons}{mark}")
    if planned.replaces:
        yield from _comment(f"   replaces {', '.join(planned.replaces)}")
    if isinstance(step, RunStep):
        for argv in step.undo:
            yield from _comment(f"   undone by: {'$sudo ' if step.risk == 'root' else ''}{quoted(argv)}")
        yield from _command(step, stopped)
    elif isinstance(step, EnvStep):
        yield from _comment(f"   In the shell that starts the program: export {step.name}={_quoted(step.value)}")
    else:
        yield from (line for text in step.text.split("\n") for line in _comment(f"   {text}"))


def _command(step: RunStep, stopped: bool) -> Iterator[str]:
    words = (*step.argv, *step.env.values(), step.cwd or "")
    if not all(word.isprintable() for word in words):
        yield from _comment("   No command is written: a name in it has characters that cannot be shown.")
        return
    line = quoted(step.argv)
    if step.env:
        line = f"env {' '.join(f'{name}={_quoted(value)}' for name, value in sorted(step.env.items()))} {line}"
    if step.risk == "root":
        line = f"$sudo {line}"
    if step.cwd:
        line = f"( cd {quoted((step.cwd,))} && {line} )"
    yield f"# after the step above: {line}" if stopped else line


def quoted(argv: Iterable[str]) -> str:
    """An argument list as one line for a shell. Home folders are left out: this one, and one written as "~/"."""
    home = f"{os.path.expanduser('~')}/"
    words = [
        f"~/{word.removeprefix(home)}" if home not in ("//", "/root/") and word.startswith(home) else word
        for word in argv
    ]
    return " ".join(f'"$HOME"/{_quoted(word[2:])}' if word.startswith("~/") else _quoted(word) for word in words)


def _quoted(word: str) -> str:
    """One argument, with a variable in place of a secret."""
    return '"$INDEX_LOGIN"'.join(shlex.quote(part) for part in without_secrets(word).split(SECRET))


def _comment(text: str) -> Iterator[str]:
    """A text as comment lines: none of its lines becomes a command."""
    lines = re.split(r"[\r\n]", without_workflow_commands(without_secrets(text)))
    yield from (f"# {without_controls(line)}".rstrip() for line in lines)


# --- variables --------------------------------------------------------------------------------------------


def variable_lines(variables: Iterable[VariableRemedy], shell: str) -> str:
    """Lines for `eval` (sh) or `source` (fish) that set and unset variables. They hold no comments, because an
    unquoted `eval` joins all lines into one."""
    lines: list[str] = []
    for variable in variables:
        if isinstance(variable, UnsetVariable):
            lines.append(f"set -e {variable.name};" if shell == "fish" else f"unset {variable.name};")
        elif shell == "fish":
            lines.append(f"set -gx {variable.name} {_fish(variable.value)};")
        else:
            lines.append(f"export {variable.name}={shlex.quote(variable.value)};")
    return "".join(f"{line}\n" for line in lines)


def variable_data(variables: Iterable[VariableRemedy]) -> dict[str, Any]:
    """The JSON of `env`: variables to set, and variables to unset."""
    chosen = tuple(variables)
    return {
        "schema": 1,
        "set": {one.name: one.value for one in chosen if not isinstance(one, UnsetVariable)},
        "unset": [one.name for one in chosen if isinstance(one, UnsetVariable)],
    }


def _fish(value: str) -> str:
    """In fish a single-quoted text knows only \\\\ and \\'."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
