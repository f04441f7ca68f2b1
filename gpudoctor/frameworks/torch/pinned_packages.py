"""The packages that torch's own requirements ask for, compared with what is installed, as fixes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from gpudoctor.dependencies import parsed
from gpudoctor.finding import Fix, ReplacePackage
from gpudoctor.frameworks.torch.installed_build import FROM_AN_INDEX
from gpudoctor.frameworks.torch.shadowed_libraries import pins
from gpudoctor.machine import Torch
from gpudoctor.matrix.versions import package_matches
from gpudoctor.situation import Situation

_OF_PINS = r"lib(?:cu(?!da\.so)|nccl|nv(?!idia-|cuvid|optix))"
"""The libraries that the nvidia packages bring; the others of these names are the driver's."""


def missing_pins(situation: Situation, torch: Torch, libraries: Iterable[str]) -> Fix | None:
    """Install what torch pins and what is not there, if a missing library may be of these packages; else None."""
    if not any(re.match(_OF_PINS, name) for name in libraries):
        return None
    there = _installed(situation)
    lacking = {name: version for name, version in _pins(situation, torch).items() if name not in there}
    return _install(lacking, "missing") if lacking and there else None


def wrong_pins(situation: Situation, torch: Torch) -> Fix | None:
    """Install torch's releases of the libraries that are there in another one."""
    there = _installed(situation)
    wrong = {
        name: version
        for name, version in _pins(situation, torch).items()
        if name in there and not package_matches(f"=={version}", there[name])
    }
    return _install(wrong, "of another release") if wrong else None


def out_of_range(situation: Situation, name: str) -> str:
    """What torch requires of an installed package, if its version is outside of that; else empty."""
    own, there = situation.machine.installed("torch"), situation.machine.installed(name)
    if own is None or there is None:
        return ""
    required = (what for line in own.requires if (what := parsed(line)) and "extra" not in what.marker)
    return next((what.specifier for what in required if what.name == name and not what.admits(there.version)), "")


def _pins(situation: Situation, torch: Torch) -> dict[str, str]:
    wanted = pins(situation) if torch.origin in FROM_AN_INDEX else {}
    return {f"{base}-cu{suffix}" if suffix else base: version for base, (suffix, version) in wanted.items()}


def _installed(situation: Situation) -> dict[str, str]:
    return {distribution.name: distribution.version for distribution in situation.machine.packages}


def _install(packages: Mapping[str, str], how: str) -> Fix:
    remedies = tuple(
        ReplacePackage(name, f"=={version}", why="torch requires it") for name, version in packages.items()
    )
    return Fix(f"Install the packages that torch requires and that are {how} ({len(packages)})", remedies)
