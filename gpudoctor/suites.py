"""The checks of `checks/`: those of machines, images and fleets, each found by its folder. And those of plugins."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from importlib import import_module
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
    checks: list[Check[Situation]] = [check for layer in _LAYERS for check in _checks_of(layer)]
    if plugins:
        from gpudoctor.plugins import plugin_checks, refuse_clashes

        checks += plugin_checks(plugins)
        refuse_clashes((*checks, *_checks_of(_IMAGE), *_checks_of(_FLEET)))
    return Suite(checks, lambda: (*_checks_of(_IMAGE), *_checks_of(_FLEET)))


@cache
def image_checks(plugins: tuple[str, ...] = ()) -> Suite[Recipe]:
    """Every check of Dockerfiles and compose files; a judgement of a machine never imports them. `plugins` may be
    named beside them."""
    return Suite(_checks_of(_IMAGE), lambda: machine_checks(plugins))


@cache
def pair_checks() -> Suite[PairResult]:
    """Every check of nodes that computed in pairs."""
    return Suite(_checks_of(_FLEET), machine_checks)


def _checks_of(folder: str) -> Iterator[Check[Any]]:
    """What the modules of a folder hold that is a check."""
    package = import_module(f"gpudoctor.checks.{folder}")
    names = sorted(name.removesuffix(".py") for name in os.listdir(package.__path__[0]) if name.endswith(".py"))
    for name in names:
        module = import_module(f"{package.__name__}.{name}") if name != "__init__" else package
        yield from (value for value in vars(module).values() if isinstance(value, Check))
