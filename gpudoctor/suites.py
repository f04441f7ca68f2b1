"""The checks of `checks/`: those of machines, images and fleets, each found by its folder. And those of plugins.

What all checks of a file need stands in its folder's `NEEDS`: the file is imported where a machine has it.
"""

from __future__ import annotations

import os
from functools import cache, partial
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from gpudoctor.check import Check
from gpudoctor.engine import Suite

if TYPE_CHECKING:
    from gpudoctor.dockerfile.recipe import Recipe
    from gpudoctor.fleet.pair.result import PairResult
    from gpudoctor.situation import Situation

_IMAGE, _FLEET = "image", "fleet"
_LAYERS = ("driver", "access", "runtime", "framework", "packages", "smoke", "gpudoctor")


@cache
def machine_checks(plugins: tuple[str, ...] = ()) -> Suite[Situation]:
    """Every check of a machine, also of the plugins that are named. Raises InputError for a plugin that is none."""
    checks: list[Check[Situation]] = []
    late = []
    for layer in _LAYERS:
        needs = getattr(_package(layer), "NEEDS", {})
        checks += (check for file in _files(layer) if file not in needs for check in _checks_in(file, layer))
        late += [(need, partial(_checks_in, file, layer)) for file, need in needs.items()]
    if plugins:
        from gpudoctor.plugins import plugin_checks, refuse_clashes

        checks += plugin_checks(plugins)
        refuse_clashes((*Suite(checks, late=late), *_of_other_subjects()))
    return Suite(checks, _of_other_subjects, late)


@cache
def image_checks(plugins: tuple[str, ...] = ()) -> Suite[Recipe]:
    """Every check of Dockerfiles and compose files; a judgement of a machine never imports them. `plugins` may be
    named beside them."""
    return Suite(_checks_of(_IMAGE), lambda: machine_checks(plugins))


@cache
def pair_checks() -> Suite[PairResult]:
    """Every check of nodes that computed in pairs."""
    return Suite(_checks_of(_FLEET), machine_checks)


def _of_other_subjects() -> tuple[Check[Any], ...]:
    return (*_checks_of(_IMAGE), *_checks_of(_FLEET))


def _checks_of(folder: str) -> tuple[Check[Any], ...]:
    return tuple(check for file in _files(folder) for check in _checks_in(file, folder))


def _files(folder: str) -> list[str]:
    names = sorted(os.listdir(_package(folder).__path__[0]))
    return [name.removesuffix(".py") for name in names if name.endswith(".py") and name != "__init__.py"]


@cache
def _checks_in(file: str, folder: str) -> tuple[Check[Any], ...]:
    """What a file holds that is a check."""
    module = import_module(f"{_package(folder).__name__}.{file}")
    return tuple(value for value in vars(module).values() if isinstance(value, Check))


def _package(folder: str) -> ModuleType:
    return import_module(f"gpudoctor.checks.{folder}")
