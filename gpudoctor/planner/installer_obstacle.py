"""What the configuration of pip or uv lets no command install."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gpudoctor.frameworks.package_spec import PackageSpec
from gpudoctor.machine import InstallerSettings
from gpudoctor.planner.place import Place
from gpudoctor.situation import Situation
from gpudoctor.situation.installer import excluding_all, refusal, with_place


def installer_obstacle(
    place: Place, situation: Situation, wanted: Iterable[PackageSpec], index: str = "", *, again: bool = False
) -> str:
    """Why the installer's configuration lets no command install these from `index`; "" if it does. `again`: in the
    versions that are installed."""
    settings = place.settings
    if settings.require_hashes:
        return f"{_set(settings, 'require_hashes')} allows packages with a hash only: add them"
    if settings.dry_run:
        return f"{_set(settings, 'dry_run')} makes pip install nothing: remove it"
    if settings.lost:
        source = _set(settings, "constraint")
        return f"{source} names {', '.join(settings.lost)}, which is not there: {place.tool} stops at it"
    if place.tool in ("uv", "uv-project") and (why := _obstacle_in_uvs_files(settings, index, again=again)):
        return why
    if "prefix" in settings.elsewhere and not place.prefix:
        return f"{_set(settings, 'prefix')} makes {place.tool} install elsewhere: remove it"
    if why := excluded(situation, wanted):
        return why
    if settings.no_index and not settings.find_links:
        return f"{_set(settings, 'no_index')} forbids every index, and no find-links is set: remove it"
    return ""


def project_obstacle(place: Place, situation: Situation, wanted: Iterable[PackageSpec], index: str) -> str:
    """The same of `uv add` and `uv sync`: the date is written into the lock, and the next sync asks it again."""
    if "exclude_newer" in misleading(place.settings, index):
        return f"{_set(place.settings, 'exclude_newer')} {_MISLEADS['exclude_newer']}"
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


def misleading(settings: InstallerSettings, index: str) -> Iterator[str]:
    """uv's settings that make a command take a package from another index than it names, or find none there.

    A span of some days hides nothing that is known here, but an index without dates is empty with it.
    """
    if settings.torch_backend:
        yield "torch_backend"
    if settings.exclude_newer and (index or re.match(r"\d{4}-\d\d-\d\d", settings.exclude_newer)):
        yield "exclude_newer"


def _obstacle_in_uvs_files(settings: InstallerSettings, index: str, *, again: bool) -> str:
    """What uv's own files say, and no option of a command overrides."""
    if settings.elsewhere:
        option, folder = next(iter(settings.elsewhere.items()))
        return f"{_set(settings, option)} makes uv install into {folder}, not into this environment: remove it"
    if settings.no_binary:
        return f"{_set(settings, 'no_binary')} forbids wheels, and torch has nothing else: remove it"
    for name in misleading(settings, index):
        has_date = again and not index and name == "exclude_newer"  # what is installed is not newer
        if not has_date and not settings.sources.get(name, "").startswith("UV_"):
            return f"{_set(settings, name)} {_MISLEADS[name]}"
    if settings.offline:
        return f"{_set(settings, 'offline')} makes uv use its cache only: go online, or remove it"
    return ""


_MISLEADS = {
    "torch_backend": "makes uv take torch from that index: remove it",
    "exclude_newer": "makes uv leave out what is newer, and what an index gives no date for: remove it",
}


def _set(settings: InstallerSettings, name: str) -> str:
    """An option, with the file or variable that sets it."""
    option, source = name.replace("_", "-"), settings.sources.get(name, "")
    return f"{option} ({source})" if source else option
