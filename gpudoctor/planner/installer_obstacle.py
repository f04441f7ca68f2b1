"""What the configuration of pip or uv lets no command install."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpudoctor.frameworks.package_spec import PackageSpec
from gpudoctor.machine import InstallerSettings
from gpudoctor.planner.place import Place
from gpudoctor.situation import Situation
from gpudoctor.situation.installer import excluding_all, refusal, with_place


def installer_obstacle(place: Place, situation: Situation, wanted: Iterable[PackageSpec]) -> str:
    """Why the installer's configuration lets no command install these; "" if it does."""
    settings = place.settings
    if settings.require_hashes:
        return f"{_set(settings, 'require_hashes')} allows packages with a hash only: add them"
    if settings.dry_run:
        return f"{_set(settings, 'dry_run')} makes pip install nothing: remove it"
    if settings.lost:
        source = _set(settings, "constraint")
        return f"{source} names {', '.join(settings.lost)}, which is not there: {place.tool} stops at it"
    if place.tool in ("uv", "uv-project") and (why := _obstacle_in_uvs_files(settings)):
        return why
    return excluded(situation, wanted)


def excluded(situation: Situation, wanted: Iterable[PackageSpec]) -> str:
    """The constraint that excludes one of these; "" if none does. The tool of a project stops at it, too."""
    for item in wanted:
        exact = re.fullmatch(r"==([^*,]+)", item.spec)
        if exact and (why := refusal(situation, item.name, exact[1])):
            return f"{item.text} cannot be installed: {why}"
        if item.spec and not exact and (limit := excluding_all(situation, item.name, item.spec)):
            return f"{item.text} cannot be installed: the constraint {with_place(limit)} excludes it"
    return ""


def _obstacle_in_uvs_files(settings: InstallerSettings) -> str:
    """What uv's own files say, and no option of a command overrides."""
    if settings.elsewhere:
        option, folder = next(iter(settings.elsewhere.items()))
        return f"{_set(settings, option)} makes uv install into {folder}, not into this environment: remove it"
    if settings.no_binary:
        return f"{_set(settings, 'no_binary')} forbids wheels, and torch has nothing else: remove it"
    if settings.torch_backend and settings.sources.get("torch_backend") != "UV_TORCH_BACKEND":
        return f"{_set(settings, 'torch_backend')} makes uv take torch from that index: remove it"
    if settings.offline:
        return f"{_set(settings, 'offline')} makes uv use its cache only: go online, or remove it"
    return ""


def _set(settings: InstallerSettings, name: str) -> str:
    """An option, with the file or variable that sets it."""
    option, source = name.replace("_", "-"), settings.sources.get(name, "")
    return f"{option} ({source})" if source else option
