"""`gpudoctor preflight` as a click command."""

from __future__ import annotations

import os

from gpudoctor.cli.options import whole_command
from gpudoctor.command_line.option_parser import Given, complete
from gpudoctor.command_line.running import say
from gpudoctor.exit_codes import USAGE, of_refusal
from gpudoctor.preflight.arguments import LINE
from gpudoctor.preflight.command import preflight as pass_or_refuse


def _run(given: Given) -> int:
    if wrong := complete(LINE, given, os.environ):
        say(wrong)
        return of_refusal(USAGE, given["command"])
    return pass_or_refuse(given)


preflight = whole_command(
    "preflight",
    LINE,
    _run,
    "Check this machine, then become CMD; or refuse to start it, and say why.\n\n"
    "CMD keeps the process number, gets the signals and gives the exit status. A refusal exits with 121 (error), "
    "122 (usage) or 123 (unknown); without CMD with the codes of check. GPUDOCTOR_SKIP=1 checks nothing.\n\n"
    "\b\n"
    "Example:\n"
    "  gpudoctor preflight --require 'gpu>=1' -- python train.py",
)
