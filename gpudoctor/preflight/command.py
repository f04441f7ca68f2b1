"""`gpudoctor preflight`: judge, then become the command, or refuse and say why."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn, cast

from gpudoctor.host import InputError, LiveHost

if TYPE_CHECKING:
    from gpudoctor.doctor import Survey
    from gpudoctor.judge import FailOn
    from gpudoctor.machine import Level, Machine
    from gpudoctor.preflight.arguments import Given
    from gpudoctor.preflight.gate import Passage, Rules

USAGE, UNKNOWN = 2, 3
REFUSALS = {1: 121, USAGE: 122, UNKNOWN: 123, 70: 123}
"""What a refusal exits with where a command was given: told from the command's own status (design §3)."""


def preflight(given: Given, environ: Mapping[str, str]) -> int:
    """Judge this machine; become the command where nothing refuses. The exit code of a refusal, or of the verdict."""
    command: tuple[str, ...] = given["command"]
    signal.signal(signal.SIGTERM, _stop)  # as process 1 it would be ignored
    if environ.get("GPUDOCTOR_SKIP", "") not in ("", "0"):
        _say("skipped: GPUDOCTOR_SKIP is set")
        return _go(command, environ) if command else 0
    try:
        code, variables = _judge(given)
    except InputError as error:
        _say(str(error))
        return status(USAGE, command)
    if code:
        return code
    changed = {name: value for name, value in {**environ, **variables}.items() if value is not None}
    return _go(command, changed) if command else 0


def status(code: int, command: tuple[str, ...]) -> int:
    """What a refusal exits with: where there is a command, told from the command's own status."""
    return REFUSALS.get(code, code) if command else code


def _judge(given: Given) -> tuple[int, dict[str, str | None]]:
    """The exit code, and the variables that are set (None: unset) for the command."""
    from gpudoctor.doctor import survey
    from gpudoctor.matrix.load import load_matrix
    from gpudoctor.preflight.gate import passage

    started = time.monotonic()
    rules, wait = _rules(given)
    matrix = load_matrix(given.get("overlays", ()))
    host = LiveHost()
    python = given.get("python")

    def probe(level: Level) -> Survey:
        return survey(host, matrix, python=python, level=level)

    passed = passage(probe, matrix, rules, wait)
    code = status(passed.code, given["command"])
    if code or given.get("report_file") or (given.get("style", "text") != "text" and not given["command"]):
        from gpudoctor.preflight.refusal import tell

        tell(passed, matrix, given, code)
    if not code:
        _write_ready(given.get("ready_file"))
        if not given.get("quiet"):
            _say(f"{_summary(passed)} ({time.monotonic() - started:.2f} s)")
    return code, passed.variables


def _rules(given: Given) -> tuple[Rules, float]:
    from gpudoctor.preflight.gate import Rules
    from gpudoctor.preflight.settings import project_settings
    from gpudoctor.requirement import RequirementError, parse

    kept = project_settings(os.getcwd()) if _has_settings() else None
    texts = (*(kept.require if kept else ()), *given.get("require", ()))
    try:
        required = tuple(parse(text) for text in texts)
    except RequirementError as error:
        raise InputError(f"--require {error}") from None
    pairs = (rule.partition("=") for rule in given.get("ignore", ()))
    ignored = {**(kept.ignore if kept else {}), **{name.strip(): why.strip() for name, _, why in pairs}}
    level = given.get("level") or (kept.level if kept else None) or "driver"
    fail_on = given.get("fail_on") or (kept.fail_on if kept else None) or "error"
    rules = Rules(
        level=cast("Level", level),
        required=required,
        select=given.get("select", ()) or (kept.select if kept else ()),
        ignore=ignored,
        fail_on=cast("FailOn", fail_on),
        set_env=bool(given.get("set_env")),
    )
    return rules, _seconds(given.get("wait"), kept.wait if kept else None)


def _has_settings() -> bool:
    return os.path.exists("gpudoctor.toml") or os.path.exists("pyproject.toml")


def _seconds(text: str | None, default: float | None) -> float:
    if text is None:
        return default or 0.0
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e7:
        raise InputError(f"--wait {text}: write a number of seconds, such as --wait 120")
    return seconds


def _summary(passed: Passage) -> str:
    """One line of what the command gets: "ok: 8 x NVIDIA H100 80GB HBM3, torch 2.6.0+cu124"."""
    machine: Machine = passed.survey.machine
    from gpudoctor.visibility import standings

    names: dict[str, int] = {}
    for standing in standings(machine):
        if standing.usable:
            names[standing.gpu.name] = names.get(standing.gpu.name, 0) + 1
    cards = [f"{count} x {name}" if count > 1 else name for name, count in names.items()] or ["no GPU"]
    torch = [f"torch {machine.torch.version}"] if machine.torch else []
    variables = [
        f"{name}={value}" if value is not None else f"without {name}" for name, value in passed.variables.items()
    ]
    return f"{passed.judgement.verdict}: {', '.join((*cards, *torch, *variables))}"


def _write_ready(path: str | None) -> None:
    if path is None:
        return
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write("ready\n")
    except OSError as error:
        raise InputError(
            f"--ready-file {path}: cannot be written: {(error.strerror or str(error)).lower()}"
        ) from None


def _go(command: tuple[str, ...], environ: Mapping[str, str]) -> NoReturn:
    from gpudoctor.preflight.handover import become

    become(command, environ)


def _stop(number: int, frame: Any) -> NoReturn:
    raise SystemExit(128 + number)


def _say(text: str) -> None:
    line = "".join(c if c.isprintable() else " " for c in text)
    print(f"gpudoctor: {line}", file=sys.stderr, flush=True)
