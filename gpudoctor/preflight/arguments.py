"""The options of `gpudoctor preflight`."""

from __future__ import annotations

from gpudoctor.command_line import options
from gpudoctor.command_line.option_parser import CommandLine, Option

LINE = CommandLine(
    (
        options.REQUIRE,
        options.level("How deep to look. [default: driver]", options.START_LEVELS),
        Option(
            "--wait",
            "Check again for this long while only the node is at fault: drivers and plugins may start late.",
            metavar="SECONDS",
        ),
        Option("--ready-file", "File to write when all is well, for a probe.", metavar="PATH"),
        options.REPORT_FILE,
        options.form(help="Format of the report, in the report file and, without a command, on stdout."),
        options.fail_on("What to refuse."),
        options.SELECT,
        options.IGNORE,
        options.PLUGIN,
        Option("--set-env", "Set the variables that fix an error, for the command only.", flag=True),
        options.PYTHON,
        options.MATRIX,
        options.quiet("Say nothing when all is well."),
        options.verbose("Print the whole report when the command is refused."),
    ),
    program=True,
    empty_is_unset=True,  # manifests are full of variables that expand to nothing
)
