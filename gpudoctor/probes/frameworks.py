"""Frameworks beside torch: what their files tell and their distributions do not. Nothing is imported.

The matrix names the few files to read; a framework that is not installed costs nothing.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.host import Host
from gpudoctor.machine import Distribution, FrameworkFiles, unknown
from gpudoctor.matrix.rows.packages import BuildRecord, Framework, FrameworkBuild, FrameworkFlags
from gpudoctor.matrix.versions import package_matches
from gpudoctor.probes.distributions import with_details
from gpudoctor.records import view_as
from gpudoctor.situation.frameworks import unknown_build

_RECORD_LIMIT = 64 << 10


class FrameworkRows(Struct, frozen=True):
    """The rows of the matrix that name frameworks, their GPU builds and the flags that these read."""

    frameworks: tuple[Framework, ...] = ()
    builds: tuple[FrameworkBuild, ...] = ()
    flags: tuple[FrameworkFlags, ...] = ()


def with_their_requirements(
    host: Host, rows: FrameworkRows, distributions: tuple[Distribution, ...]
) -> tuple[Distribution, ...]:
    """The same distributions, those of frameworks and of their builds with what they require."""
    names = {name for row in rows.frameworks for name in row.packages} | {build.package for build in rows.builds}
    return tuple(
        with_details(host, one) if one.name in names and one.path and not one.requires else one
        for one in distributions
    )


def read_frameworks(
    host: Host, rows: FrameworkRows, distributions: tuple[Distribution, ...], environ: Mapping[str, str], prefix: str
) -> tuple[FrameworkFiles, ...]:
    """One for each framework of which a distribution is installed."""
    by_name = {one.name: one for one in distributions}
    found = []
    for row in rows.frameworks:
        there = next((by_name[name] for name in row.packages if name in by_name), None)
        if there is None or not there.path:
            continue
        builds = [build for build in rows.builds if build.framework == row.framework]
        files = _files(host, row, builds, by_name, there, environ, prefix)
        flags = [one for one in rows.flags if one.framework == row.framework and environ.get(one.variable)]
        if flags:
            from gpudoctor.probes.framework_flags import refused_flags

            files = replace(files, refused=refused_flags(host, flags, files.source, environ))
        found.append(files)
    return tuple(found)


def _files(
    host: Host,
    row: Framework,
    builds: list[FrameworkBuild],
    by_name: Mapping[str, Distribution],
    there: Distribution,
    environ: Mapping[str, str],
    prefix: str,
) -> FrameworkFiles:
    from gpudoctor.probes.opened_libraries import OpenedLibraries, opened_libraries
    from gpudoctor.probes.rocm_wheels import rocblas_of_wheels

    site = posixpath.dirname(there.path)
    stated = _stated(host, row.record, site) if row.record else {}
    for_gpu = bool(stated.get("for_gpu")) if stated and row.record and row.record.for_gpu else None
    # Of packages that share their folder, the one whose files lie there is what a program imports.
    owner = stated.get("package", "")
    there = by_name.get(owner, there)
    builds = [build for build in builds if _is_installed(host, site, build, by_name)]
    if owner or for_gpu is False:
        builds = [build for build in builds if build.package == owner and for_gpu is not False]
    looked = [(build, opened_libraries(host, build, site, environ, prefix, by_name.values())) for build in builds]
    looked.sort(key=lambda one: bool(one[1].not_found.value))  # of two, the one that has its libraries
    build, opened = looked[0] if looked else (None, OpenedLibraries(unknown("no GPU build that is known")))
    return view_as(
        FrameworkFiles,
        opened,
        name=row.framework,
        version=there.version,
        build=build.package if build else unknown_build(row, by_name.values()),
        owner=owner,
        cuda=stated.get("cuda"),
        blas_gfx=rocblas_of_wheels(host, site) if build and build.vendor == "amd" else None,
        requested=_requested(host, there),
        source=site,
    )


def _is_installed(host: Host, site: str, build: FrameworkBuild, by_name: Mapping[str, Distribution]) -> bool:
    one = by_name.get(build.package)
    if one is None or not (build.version is None or package_matches(build.version, one.version)):
        return False
    return not build.file or host.exists(posixpath.join(site, build.file))


def _stated(host: Host, record: BuildRecord, site: str) -> dict[str, str]:
    """What the build record says, by the names of its patterns."""
    text = host.text(posixpath.join(site, record.file), _RECORD_LIMIT).value
    if text is None:
        return {}
    patterns = {"package": record.package, "cuda": record.cuda, "for_gpu": record.for_gpu}
    found = {name: re.search(pattern, text) for name, pattern in patterns.items() if pattern}
    return {"file": record.file, **{name: hit[1] for name, hit in found.items() if hit}}


def _requested(host: Host, distribution: Distribution) -> bool | None:
    """The file REQUESTED (PEP 376): pip and uv write it for what a person named."""
    if not distribution.path.endswith(".dist-info") or host.stat(posixpath.join(distribution.path, "RECORD")).absent:
        return None
    return host.exists(posixpath.join(distribution.path, "REQUESTED"))
