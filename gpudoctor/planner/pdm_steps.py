"""A project of pdm: the index as a source for these packages only, then pdm's own lock and sync."""

from __future__ import annotations

from gpudoctor.frameworks.package_spec import PackageSpec
from gpudoctor.machine import TorchAsked
from gpudoctor.planner.place import Place
from gpudoctor.planner.project_steps import source_name
from gpudoctor.step import RunStep, Step


def pdm(
    place: Place, asked: tuple[TorchAsked, ...], wanted: tuple[PackageSpec, ...], index: str, why: str
) -> tuple[Step, ...]:
    """pyproject.toml names the index and these versions; the lock and the environment follow."""
    group, extra = (asked[0].group, asked[0].extra) if asked else ("", "")
    add_to = ("--dev", "--group", group) if group else ("--group", extra) if extra else ()
    add = RunStep(
        argv=("pdm", "add", *add_to, *(item.text for item in wanted)), cwd=place.project, why=why, risk="replaces"
    )
    return (*_source(place, wanted, index), add)


def _source(place: Place, wanted: tuple[PackageSpec, ...], index: str) -> tuple[Step, ...]:
    """pdm has no command for a source of its project."""
    name = source_name(index)
    if not index or f"source.{name}" in place.project_keys:
        return ()
    names = ", ".join(f'"{item.name}"' for item in wanted)
    lines = ("[[tool.pdm.source]]", f'name = "{name}"', f'url = "{index}"', f"include_packages = [{names}]")
    argv = ("sed", "-i", *(part for line in lines for part in ("-e", f"$a\\{line}")), "pyproject.toml")
    return (RunStep(argv=argv, cwd=place.project, why="the index, for these packages only", risk="replaces"),)
