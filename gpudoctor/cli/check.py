"""`gpudoctor check` as a click command."""

from __future__ import annotations

import os

from gpudoctor.cli.options import whole_command
from gpudoctor.command_line.arguments import LINE
from gpudoctor.command_line.check import check as judge_and_tell
from gpudoctor.command_line.option_parser import Given, complete
from gpudoctor.host import InputError


def _check(given: Given) -> int:
    if wrong := complete(LINE, given, os.environ):
        raise InputError(wrong)
    return judge_and_tell(given)


check = whole_command(
    "check",
    LINE,
    _check,
    "Tell what is wrong with this machine and this Python environment, first cause first.\n\n"
    "--gpu, --driver, --torch ... describe a machine; the rest is read from this one or assumed.\n\n"
    "\b\n"
    "Examples:\n"
    "  gpudoctor check\n"
    "  gpudoctor check --python .venv\n"
    "  gpudoctor check --gpu H100 --driver 550.54.15  before an image runs there\n"
    "  gpudoctor check --format markdown              for a bug report\n"
    "  gpudoctor check --from machine.json            a machine elsewhere\n"
    "  gpudoctor check --from issue.md                what somebody pasted",
)
