"""What an install or a removal leaves of the frameworks beside torch."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import islice

from msgspec.structs import replace

from gpudoctor.machine import Distribution, FrameworkFiles, PythonEnvironment, unknown
from gpudoctor.matrix.versions import package_matches
from gpudoctor.situation import Situation
from gpudoctor.situation.frameworks import installed_frameworks


def after_installing(
    situation: Situation, environment: PythonEnvironment, name: str, *, version: str = "", extra: str = ""
) -> PythonEnvironment:
    """The environment after a package was installed or removed. What was read of the frameworks concerned is dropped,
    unless the package comes without an extra and the build stays the same: then it opens the same libraries. Files
    that were read of another package in the same folder are gone. An extra brings its build and the libraries."""
    tables = situation.matrix.tables
    over = {row.framework for row in tables.frameworks if name in row.packages}
    concerned = over | {row.framework for row in tables.framework_builds if name in (row.package, row.install)}
    others = environment.frameworks.others
    if name.startswith("nvidia-"):
        looked = unknown("installed by the plan")
        left = tuple(replace(one, not_found=looked, beside=(), misfits=()) for one in others)
    else:
        here = environment.distribution(name) is not None
        stale = {one.name for one in others if one.name in over and one.owner and (one.owner != name or not here)}
        kept = (one for one in others if one.name not in stale)
        left = tuple(_as_before(situation, environment, kept, concerned, alone=not extra))
    rows = [row for row in tables.framework_builds if extra and (row.install, row.extra) == (name, extra)]
    fitting = (
        row
        for row in rows
        if row.version is None or row.package != row.install or package_matches(row.version, version)
    )
    brought = [
        Distribution(one, version if one.startswith(row.framework) else row.cuda or "", installer="pip")
        for row in islice(fitting, 1)
        for one in (row.package, *row.parts)
    ]
    there = {one.name: one for one in environment.packages}
    # What is there in that version stays as it is, with the damage that it has.
    brought = [one for one in brought if one.name not in there or there[one.name].version != one.version]
    new = {one.name: one for one in brought if one.name != name or name not in there}
    listed = there | new
    distributions = replace(environment.distributions, value=tuple(listed[one] for one in sorted(listed)))
    return replace(
        environment,
        distributions=distributions if brought else environment.distributions,
        frameworks=replace(environment.frameworks, others=left),
    )


def _as_before(
    situation: Situation,
    environment: PythonEnvironment,
    files: Iterable[FrameworkFiles],
    concerned: Collection[str],
    *,
    alone: bool,
) -> Iterator[FrameworkFiles]:
    """What was read of the frameworks and still stands."""
    before = {one.name: one for one in situation.others}
    after = {one.name: one for one in installed_frameworks(environment, situation.matrix)}
    for one in files:
        was, new = before.get(one.name), after.get(one.name)
        if one.name not in concerned:
            yield one
        elif alone and was and new and was.build == new.build and (was.build or was.version == new.version):
            yield one if was.version == new.version else replace(one, version=new.version, cuda=None)
        elif alone and was and new and was.build and new.build and was.build.looks == new.build.looks:
            # What another release opens as well it does not find either.
            left = tuple(name for name in one.not_found.value or () if name in new.build.opens)
            if left:
                lacking = replace(one.not_found, value=left)
                yield replace(one, version=new.version, cuda=None, not_found=lacking, misfits=(), overruled=())
