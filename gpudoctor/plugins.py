"""Checks of other distributions: entry points of the group `gpudoctor.checks`.

A plugin runs only where a person or a project's file names it, and only from gpudoctor's own environment: a file in a
folder can choose among what was installed beside gpudoctor, and bring no code of its own.
"""

from __future__ import annotations

import re
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from functools import cache, wraps
from importlib.metadata import Distribution, EntryPoint, distributions
from types import ModuleType
from typing import Any, get_args

import msgspec
from msgspec.structs import replace

from gpudoctor.check import Check, Verdicts
from gpudoctor.finding import Finding, Layer, NotJudged
from gpudoctor.host import InputError
from gpudoctor.situation import Situation

GROUP = "gpudoctor.checks"

_ID, _SLUG, _OWN_LETTERS = r"[A-Z]{2,8}\d{3}", r"[a-z0-9]+(-[a-z0-9]+)*", "GPD"


def plugin_checks(names: Iterable[str]) -> tuple[Check[Situation], ...]:
    """The checks of these plugins. Raises InputError for one that is not installed, cannot be loaded, or breaks the
    rules of ids."""
    return tuple(check for name in dict.fromkeys(names) for check in _checks_of(name))


def refuse_clashes(checks: Iterable[Check[Any]]) -> None:
    """Raises InputError where two checks, of which one is a plugin's, have one id or one slug."""
    seen: dict[str, Check[Any]] = {}
    for check in sorted(checks, key=lambda check: not check.id.startswith(_OWN_LETTERS)):
        for name in () if check.id.startswith(_OWN_LETTERS) else (check.id, check.slug):
            if other := seen.get(name):
                raise InputError(f"{check.id} ({check.slug}) of a plugin: {other.id} is named {name!r}, too")
        seen |= {check.id: check, check.slug: check}


def with_distribution(name: str) -> str:
    """A plugin with its distribution: "fans (gpudoctor-fans 1.0)"."""
    distribution, _ = _entry_point(name)
    return f"{name} ({distribution.metadata['Name']} {distribution.version})"


@cache
def _checks_of(name: str) -> tuple[Check[Situation], ...]:
    _, entry_point = _entry_point(name)
    try:
        with redirect_stdout(sys.stderr), _installed_first():  # stdout is for the report
            module = entry_point.load()
    except (Exception, SystemExit) as error:
        raise InputError(f"plugin {name!r} cannot be loaded: {type(error).__name__}: {_one_line(error)}") from None
    found = [one for one in vars(module).values() if isinstance(one, Check)] if isinstance(module, ModuleType) else []
    if not found:
        raise InputError(f"plugin {name!r}: {entry_point.value} is no module that holds checks")
    for check in found:
        if wrong := _what_is_wrong(check):
            raise InputError(f"plugin {name!r}: the check {check.id} {wrong}")
    return tuple(map(_watched, found))


def _entry_point(name: str) -> tuple[Distribution, EntryPoint]:
    found = [
        (distribution, entry_point)
        for distribution in distributions(path=_own_folders())
        for entry_point in distribution.entry_points
        if entry_point.group == GROUP and entry_point.name == name
    ]
    if not found:
        raise InputError(f"plugin {name!r} is not installed in gpudoctor's own environment ({sys.prefix})")
    owners = {distribution.metadata["Name"] for distribution, _ in found}
    if len(owners) > 1:
        raise InputError(f"plugin {name!r} is in several distributions: {', '.join(sorted(owners))}")
    return found[0]


def _own_folders() -> list[str]:
    """Where distributions of this Python are installed; neither the working folder nor PYTHONPATH."""
    user = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    return list(dict.fromkeys((sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *user)))


@contextmanager
def _installed_first() -> Iterator[None]:
    """`python -m gpudoctor` looks into the working folder first: a module of that name there is not the plugin."""
    before = list(sys.path)
    sys.path[:0] = _own_folders()
    try:
        yield
    finally:
        sys.path[:] = before


def _what_is_wrong(check: Check[Any]) -> str:
    if not re.fullmatch(_ID, check.id) or check.id.startswith(_OWN_LETTERS):
        return "needs an id of its own letters and three digits, such as FAN001 (GPD is gpudoctor's)"
    if not re.fullmatch(_SLUG, check.slug):
        return f"has the slug {check.slug!r}: write small letters, digits and hyphens"
    if check.layer not in get_args(Layer):
        return f"has the layer {check.layer!r}: choose from {', '.join(get_args(Layer))}"
    return "" if check.explanation.strip() else "has no docstring for `gpudoctor explain`"


def _watched(check: Check[Situation]) -> Check[Situation]:
    """The check, whose verdicts are what the engine takes them for: the remedies from the closed set, say. All else
    is a crash of that check."""

    @wraps(check.function)
    def function(situation: Situation) -> Verdicts:
        try:
            yield from map(_as_declared, check.function(situation) or ())
        except SystemExit as error:
            raise RuntimeError(f"it ended the program ({error})") from None

    return replace(check, function=function)


def _as_declared(verdict: object) -> Finding | NotJudged:
    if not isinstance(verdict, (Finding, NotJudged)):
        raise TypeError(f"a check yields Finding and NotJudged, not {type(verdict).__name__}")
    return msgspec.convert(msgspec.to_builtins(verdict), type=type(verdict))


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
