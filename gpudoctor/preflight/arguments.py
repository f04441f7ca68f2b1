"""The options of `gpudoctor preflight`."""

from __future__ import annotations

from gpudoctor.command_line import options
from gpudoctor.command_line.reading import CommandLine, Option

LINE = CommandLine(
    (
        options.REQUIRE,
        options.level("How deep to look. [default: driver]", options.START_LEVELS),
        Option(
            ("--wait",), "wait", "Judge again for so long while only the node is at fault: drivers and plugins may "
            "come up late.", metavar="SECONDS", variable="GPUDOCTOR_WAIT",
        ),
        Option(("--ready-file",), "ready_file", "Written when all is well, for a probe to look at.", metavar="PATH"),
        options.REPORT_FILE,
        options.form(help="Form of the report: to the report file, and without a command to stdout."),
        options.fail_on("What refuses."),
        options.SELECT,
        options.IGNORE,
        options.PLUGIN,
        Option(
            ("--set-env",), "set_env", "Set the variables that repair an error, for the command only.", flag=True
        ),
        options.PYTHON,
        options.MATRIX,
        options.quiet("Say nothing when all is well."),
        options.verbose("Print the whole report on a refusal."),
    ),
    program=True,
    empty_is_unset=True,  # manifests are full of variables that expand to nothing
)  # fmt: skip
