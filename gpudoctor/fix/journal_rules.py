"""What a journal may say. A file that says anything else was not written by gpudoctor and is not trusted."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any

import msgspec

from gpudoctor.fix.run import Begun, Mark, kept_places, shape_of
from gpudoctor.step import RunStep

_ID = r"\d{8}-\d{6}-[0-9a-f]{6}"
_PLAN_DEPTH = 40
_OF_A_STEP = ("started", "process", "ended", "reverted")


def begun_problem(begun: Begun, name: str) -> str:
    """What is wrong with the first line of the journal in the folder `name`; "" if nothing is."""
    if begun.id != name or not re.fullmatch(_ID, name):
        return f"it says that it belongs to the run {begun.id[:40]!a}"
    everything = (*begun.roots, *begun.files, *begun.made, *begun.without)
    named = (*everything, *filter(None, (begun.prefix,)))
    if unsound := next((path for path in named if not is_plain_path(path)), None):
        return f"{unsound[:200]!a} is not a path that a fix changes"
    places = kept_places(name, begun.prefix)[1:]
    if "/" + begun.kept.lstrip("/") not in places and not begun.kept.endswith(f"/runs/{name}/kept"):
        return f"{begun.kept[:200]!a} is not a place where files are kept"
    if problem := next(filter(None, map(_step_problem, begun.steps)), ""):
        return problem
    return _plan_problem(begun.plan)


def mark_problem(mark: Mark, begun: Begun) -> str:
    """What is wrong with a later line; "" if nothing is."""
    first = 0 if mark.mark in _OF_A_STEP else -1
    if not first <= mark.step < len(begun.steps):
        return f"it marks step {mark.step} as {mark.mark}, and has no such step"
    return ""


def is_plain_path(path: str) -> bool:
    """Whether it is absolute, has no "..", and can be given to the system."""
    normal = os.path.normpath(path)
    return path.startswith("/") and normal == path and not path.startswith("//") and _is_text(path)


def _step_problem(step: RunStep) -> str:
    commands = (step.argv, *step.undo)
    if not all(command and command[0] for command in commands):
        return "it has a step without a command"
    variables = (*step.env, *step.env.values())
    if not all(map(_is_text, (*(part for command in commands for part in command), *variables))):
        return "it has a command with characters that no command can hold"
    if not all(name and "=" not in name for name in step.env):
        return "it sets a variable without a name"
    return "" if step.cwd is None or is_plain_path(step.cwd) else f"{step.cwd[:200]!a} is no folder to run a step in"


def _plan_problem(plan: Any) -> str:
    if _depth(plan) > _PLAN_DEPTH:
        return "its plan is nested too deeply"
    try:
        shape_of(plan)
    except msgspec.ValidationError as error:
        return f"its plan is not one that gpudoctor writes ({error})"
    return ""


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while level and depth <= _PLAN_DEPTH:
        depth += 1
        level = [inner for outer in level for inner in _inside(outer)]
    return depth


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _is_text(text: str) -> bool:
    """Without NUL, and possible in the file system's encoding."""
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False
