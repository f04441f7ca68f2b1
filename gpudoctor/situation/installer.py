"""Which installer changes the examined environment, and what its configuration admits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from gpudoctor.dependencies import applies, normalised
from gpudoctor.machine import Constraint, InstallerSettings, PythonEnvironment
from gpudoctor.matrix.versions import just_below, package_matches
from gpudoctor.situation import Situation

Installer = Literal["pip", "uv", "ensurepip", "none"]
"""ensurepip: there is neither that works, and the interpreter can make itself a pip; none: not even that."""


def installer(environment: PythonEnvironment) -> Installer:
    """uv for what it made and where there is no pip; pip where uv is not on PATH."""
    programs = environment.installers.programs
    has_uv = programs.value is None or "uv" in programs.value
    has_pip = environment.has_pip and not environment.installers.pip_fails
    if has_uv and (environment.uv_managed or not has_pip):
        return "uv"
    if has_pip:
        return "pip"
    return "none" if environment.installers.ensurepip.value is False else "ensurepip"


def settings(environment: PythonEnvironment) -> InstallerSettings:
    """The configuration of what installs into an environment; poetry, pdm and pixi read neither pip's nor uv's."""
    if environment.lock in ("poetry.lock", "pdm.lock", "pixi.lock"):
        return InstallerSettings()
    uv = environment.lock == "uv.lock" or installer(environment) == "uv"
    return environment.installers.uv if uv else environment.installers.pip


def refusal(situation: Situation, name: str, version: str) -> str:
    """Why the installer's configuration excludes a version of a package; "" if it does not."""
    if constraint := excluding(situation, name, version):
        return f"the constraint {with_place(constraint)} excludes it"
    configured = settings(situation.environment)
    if not configured.no_index or configured.wheels is None:
        return ""
    if not _has_wheel(configured, name, version, situation.python):
        places = " ".join(configured.find_links) or "no folder of wheels"
        return f"no index may be asked (no-index, {configured.sources.get('no_index', '')}), and {places} lacks it"
    return ""


def excluding(situation: Situation, name: str, version: str) -> Constraint | None:
    """The constraint that excludes a version; None if there is none."""
    return next((one for one in _limits(situation, name) if not _admits(one.specifier, version)), None)


def excluding_all(situation: Situation, name: str, specifier: str) -> Constraint | None:
    """The constraint that no version inside a range meets; None if there is none. The version of a file that a
    constraint names is not known."""
    for limit in (one for one in _limits(situation, name) if not one.specifier.startswith("@")):
        ends = re.findall(r"\d+(?:\.\w+)*", f"{specifier},{limit.specifier}")
        tried = (one for end in ends for one in (end, f"{end}.1", just_below(end)))
        if not any(package_matches(specifier, one) and _admits(limit.specifier, one) for one in tried):
            return limit
    return None


def _limits(situation: Situation, name: str) -> Iterator[Constraint]:
    limits = settings(situation.environment).constraints
    yield from (one for one in limits if one.name == name and applies(one.marker, situation.markers))


def with_place(constraint: Constraint) -> str:
    """A constraint and its place: "torch<=2.14.1 (/etc/pip/constraints.txt, line 2)"."""
    return f"{constraint.name}{constraint.specifier} ({constraint.source})"


def _admits(specifier: str, version: str) -> bool:
    if specifier.startswith("@"):
        return False  # one file alone
    if "+" not in specifier and "===" not in specifier:
        return package_matches(specifier, version)
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import InvalidVersion

    try:
        return SpecifierSet(specifier).contains(version, prereleases=True)
    except (InvalidSpecifier, InvalidVersion):
        return True


def _has_wheel(configured: InstallerSettings, name: str, version: str, python: str | None) -> bool:
    tag = f"cp{(python or '').replace('.', '').rstrip('t')}"
    split = (wheel.removesuffix(".whl").split("-") for wheel in configured.wheels or ())
    same = (one for one in split if len(one) >= 5 and (normalised(one[0]), one[1]) == (normalised(name), version))
    return any(
        python is None or parts[-2] == "abi3" or re.search(rf"(^|\.)(py3|{tag})($|\.)", parts[-3]) for parts in same
    )
