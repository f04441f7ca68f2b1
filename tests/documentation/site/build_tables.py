"""Which build runs on which GPU, and which driver runs which CUDA: tables of the matrix's answers."""

from __future__ import annotations

from collections.abc import Iterable

from gpudoctor.matrix.nvidia import DriverVerdict
from gpudoctor.matrix.rows import DriverBranch
from gpudoctor.matrix.versions import figures, minor
from tests.documentation.site.gpu_pages import Kind, best, evaluated, kinds, most_asked_for, number
from tests.documentation.site.markdown import code, escaped, table
from tests.support.check_cases import matrix

_DRIVER: dict[DriverVerdict, str] = {"serves": "yes", "minor-version": "minor", "too-old": "no", "unknown": "?"}


def torch_releases() -> str:
    """GPU by torch release: the builds that run."""
    nvidia = [kind for kind in kinds() if kind.nvidia]
    amd = [kind for kind in kinds() if not kind.nvidia]
    return "\n\n".join(
        ("## NVIDIA GPUs", _releases(nvidia), "## AMD GPUs", _releases(amd)),
    )


def drivers_and_cuda() -> str:
    """Driver branch by CUDA release."""
    releases = sorted(
        {row.cuda for row in matrix().tables.cuda_toolkits if figures(row.cuda) >= (11,)}, key=figures, reverse=True
    )
    rows = [("driver", *(f"CUDA {release}" for release in releases))]
    for branch in _branches():
        driver = branch.latest or branch.branch
        rows.append(
            (
                f"{branch.branch} ({driver})",
                *(_DRIVER[matrix().nvidia.driver_for_cuda(driver, release)] for release in releases),
            )
        )
    return table(rows, filtered="Type the first figure of a driver, such as 570")


def drivers_and_gpus() -> str:
    """Which driver branches run which NVIDIA GPUs."""
    rows = [("architecture", "GPUs such as", "first driver", "last branch", "open kernel modules")]
    for kind in kinds():
        if kind.nvidia:
            first, last = matrix().nvidia.first_driver(kind.arch), matrix().nvidia.last_branch(kind.arch)
            flavour = matrix().nvidia.module_flavour(kind.arch) or ""
            rows.append(
                (_linked(kind), escaped(", ".join(most_asked_for(kind.names)[:2])), first or "", last or "", flavour)
            )
    return table(rows, filtered="Type a GPU or an architecture")


def apus() -> str:
    """AMD's processors with a GPU, and the newest torch for each."""
    rows = [("architecture", "GPUs", "best torch today")]
    for kind in kinds():
        target = None if kind.nvidia else matrix().gpus.target(kind.arch)
        if target is not None and target.kind == "apu" and target.device_extra:
            rows.append((_linked(kind), escaped(target.chips), best(kind)))
    return table(rows)


def old_gpus() -> str:
    """The NVIDIA GPUs that new drivers have dropped."""
    rows = [("architecture", "GPUs such as", "last driver branch", "best torch today")]
    for kind in kinds():
        last = matrix().nvidia.last_branch(kind.arch) if kind.nvidia else None
        if last:
            rows.append((_linked(kind), escaped(", ".join(most_asked_for(kind.names)[:2])), last, best(kind)))
    return table(rows)


def builds_and_drivers() -> str:
    """The oldest driver for each CUDA build of torch."""
    builds = {row.build: row.cuda for row in matrix().tables.torch_builds if row.cuda}
    rows = [("build", "CUDA", "works from driver", "fully supported from driver")]
    for build, cuda in sorted(builds.items(), key=lambda item: figures(item[1]), reverse=True):
        rows.append(
            (code(build), cuda, matrix().nvidia.floor(cuda) or "?", matrix().nvidia.bundled_driver(cuda) or "?")
        )
    return table(rows)


def rocm_and_gpus() -> str:
    """AMD's GPUs: what AMD supports, what torch and rocBLAS have code for."""
    rows = [("architecture", "GPUs", "AMD's list of ROCm", "builds of torch that run", "override")]
    for kind in kinds():
        target = None if kind.nvidia else matrix().gpus.target(kind.arch)
        if target is not None:
            official = f"{target.official_from} to {target.official_to}" if target.official_from else "never"
            override = target.override.value if target.override.safety == "safe-class" else ""
            builds = sorted({choice.build for choice in evaluated(kind)[0]}, key=number)
            rows.append(
                (
                    f"[{kind.arch}]({kind.arch}.md) {target.family}",
                    escaped(target.chips),
                    official,
                    " ".join(builds),
                    override or "",
                )
            )
    return table(rows, filtered="Type a GPU or a gfx target")


def _releases(of: Iterable[Kind]) -> str:
    found = {kind: evaluated(kind) for kind in of}
    versions = {one.version for runs, _, _ in found.values() for one in runs} | {
        one.torch for _, others, _ in found.values() for one in others
    }
    newest: dict[tuple[int, ...], str] = {}
    for version in sorted(versions, key=figures):
        newest[minor(version)] = version
    columns = sorted(newest.values(), key=figures, reverse=True)
    rows = [("GPU", *columns)]
    for kind, (runs, _, _) in found.items():
        cells = {version: {one.build for one in runs if one.version == version} for version in columns}
        if any(cells.values()):
            builds = (" ".join(sorted(cells[version], key=number)) for version in columns)
            rows.append((_linked(kind), *builds))
    return table(rows, filtered="Type an architecture or a build")


def _linked(kind: Kind) -> str:
    return f"{code(kind.arch)} {kind.family}"


def _branches() -> list[DriverBranch]:
    return sorted(matrix().tables.driver_branches, key=lambda row: figures(row.branch), reverse=True)
