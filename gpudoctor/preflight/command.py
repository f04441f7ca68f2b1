"""`gpudoctor preflight`: checks the machine, then becomes the command, or refuses and says why."""

from __future__ import annotations

import os
import time
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, cast

from gpudoctor.command_line.option_parser import FALSE, Given
from gpudoctor.command_line.running import open_streams, say
from gpudoctor.exit_codes import INTERNAL_FAULT, USAGE, of_refusal
from gpudoctor.host import InputError, LiveHost
from gpudoctor.host.interrupts import Interrupted, interruptible
from gpudoctor.host.linux import require_linux
from gpudoctor.machine import Level

if TYPE_CHECKING:
    from gpudoctor.preflight.gate import Passage, Rules
    from gpudoctor.preflight.ready_file import ReadyFile
    from gpudoctor.survey import Survey


def preflight(given: Given, environ: MutableMapping[str, str] = os.environ) -> int:
    """Check this machine; become the command if nothing refuses. Returns the exit code of a refusal or the verdict.
    `environ` belongs to this process: `--set-env` changes it, for the command and for the checks that prove it."""
    command: tuple[str, ...] = given["command"]
    starter = os.getppid()
    open_streams()
    try:
        with interruptible():  # also as process 1, which no signal ends by itself
            code = _pass_or_refuse(given, environ)
            if command and not code:
                from gpudoctor.preflight.handover import become

                become(command, environ, starter)
            return code
    except Interrupted as interrupted:
        return interrupted.exit_code
    except InputError as error:
        say(str(error))
        return of_refusal(USAGE, command)
    except Exception as error:
        if environ.get("GPUDOCTOR_TRACEBACK"):
            raise
        say(f"a fault of gpudoctor itself: {type(error).__name__}: {error}")
        return of_refusal(INTERNAL_FAULT, command)


def _pass_or_refuse(given: Given, environ: MutableMapping[str, str]) -> int:
    started = time.monotonic()
    ready = _ready_file(given)
    if ready:
        ready.withdraw()
    if environ.get("GPUDOCTOR_SKIP", "").lower() not in ("", *FALSE):
        say("skipped: GPUDOCTOR_SKIP is set")
    else:
        require_linux()
        given = _with_interpreter(given, environ)
        passed = _check_machine(given, environ)
        code = of_refusal(passed.code, given["command"])
        _report(passed, given, code)
        if code:
            return code
        if not given.get("quiet"):
            say(f"{passed.summary} ({time.monotonic() - started:.2f} s)")
    if ready:
        ready.write()
    return 0


def _with_interpreter(given: Given, environ: MutableMapping[str, str]) -> Given:
    """What is given, with the Python that the command will run; without one, the active environment is judged."""
    if given.get("python") or not given["command"]:
        return given
    from gpudoctor.preflight.interpreter import interpreter_of

    found = interpreter_of(given["command"], environ)
    return {**given, "python": found} if found else given


def _check_machine(given: Given, environ: MutableMapping[str, str]) -> Passage:
    from gpudoctor.matrix.load import load_matrix
    from gpudoctor.preflight.gate import Gate
    from gpudoctor.survey import survey

    rules, wait = _rules(given, environ)
    if rules.plugins and not given.get("quiet"):
        from gpudoctor.plugins import with_distribution

        say(f"with the checks of the plugins {', '.join(map(with_distribution, rules.plugins))}")
    matrix = load_matrix(given.get("overlays", ()))

    def probe(level: Level) -> Survey:
        return survey(LiveHost(), matrix, python=given.get("python"), level=level)

    return Gate(probe, matrix, rules, environ).passage(wait)


def _rules(given: Given, environ: MutableMapping[str, str]) -> tuple[Rules, float]:
    """The rules, and how long to check again. The command line overrides the variables, and they the project."""
    from gpudoctor.command_line.project_settings import fail_on, project_settings, requirements
    from gpudoctor.engine import ignore_rules
    from gpudoctor.preflight.gate import Rules

    project = project_settings()
    required = requirements(project, given.get("require", ()), environ)
    rules = Rules(
        level=cast("Level", given.get("level") or project.level or "driver"),
        required=required,
        select=given.get("select", ()),
        project_select=() if given.get("select") else project.selected,
        ignore=ignore_rules(given.get("ignore", ())),
        project_ignore=ignore_rules(() if given.get("ignore") else project.rules),
        plugins=project.with_plugins(given.get("plugins", ())),
        fail_on=fail_on(project, given.get("fail_on"), required),
        set_env=bool(given.get("set_env")),
    )
    return rules, _seconds(given.get("wait")) if "wait" in given else project.wait or 0.0


def _seconds(text: str | None) -> float:
    from gpudoctor.command_line.project_settings import LONGEST_WAIT

    try:
        seconds = float(text or "")
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < LONGEST_WAIT:
        raise InputError(f"--wait {text}: write a number of seconds, such as --wait 120")
    return seconds


def _report(passed: Passage, given: Given, code: int) -> None:
    """Write the refusal and the requested reports. InputError for a file that cannot be written, unless that would
    hide a refusal or the node is only full."""
    machine_form = given.get("style", "text") != "text" and not given["command"]
    if not (code or given.get("report_file") or machine_form):
        return
    from gpudoctor.preflight.reporting import write_reports
    from gpudoctor.render.report_file import NoRoomError

    try:
        write_reports(passed, given, code)
    except InputError as error:
        if not code and not isinstance(error, NoRoomError):
            raise
        say(str(error))
    except OSError:  # nobody reads stdout; a refusal stays a refusal
        pass


def _ready_file(given: Given) -> ReadyFile | None:
    if "ready_file" not in given:
        return None
    from gpudoctor.preflight.ready_file import ReadyFile

    return ReadyFile(given["ready_file"])
