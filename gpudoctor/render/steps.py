"""Ways out and commands as a person pastes them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator

from gpudoctor.fix.steps import EnvStep, Fix, ManualStep, RunStep
from gpudoctor.render.lines import Line


def fix_lines(fix: Fix, label: str) -> Iterator[Line]:
    """One way out with its steps."""
    yield [(f"    {label}: ", "green"), (fix.title, "")]
    for step in fix.steps:
        if isinstance(step, RunStep):
            as_root = "sudo " if step.risk == "root" and os.geteuid() else ""
            yield [(f"      {as_root}{command_line(step.argv)}", "command")]
        elif isinstance(step, EnvStep):
            yield [(f"      export {step.name}={shlex.quote(step.value)}", "command")]
            if step.why:
                yield [(f"      ({step.why})", "dim")]
        elif isinstance(step, ManualStep):
            yield from ([(f"      {line}", "")] for line in step.text.splitlines())


def command_line(argv: tuple[str, ...] | list[str]) -> str:
    """A command as it can be pasted into a shell; a home folder is written ~."""
    home = os.path.expanduser("~")

    def quoted(argument: str) -> str:
        if home not in ("/", "") and argument.startswith(home + "/"):
            return "~/" + shlex.quote(argument[len(home) + 1 :])
        if argument.startswith("~/"):  # of a snapshot, which leaves homes out
            return "~/" + shlex.quote(argument[2:])
        return shlex.quote(argument)

    return " ".join(quoted(argument) for argument in argv)
