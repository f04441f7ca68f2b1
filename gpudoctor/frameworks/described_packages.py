"""Packages with GPU code that are only described: they have no libraries to read, and the matrix says which GPUs
they support."""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.finding import Evidence, Finding, Fix, Manual
from gpudoctor.frameworks.others import gpu_names
from gpudoctor.frameworks.torch.gpu_coverage import fits, spelled
from gpudoctor.isa import capability
from gpudoctor.machine import Distribution, Gpu
from gpudoctor.matrix.versions import package_matches
from gpudoctor.situation import Situation
from gpudoctor.situation.frameworks import InstalledFramework
from gpudoctor.situation.gpu_groups import finding


def described_without_code(situation: Situation) -> Iterator[Finding]:
    """One finding for each package that does not support a GPU."""
    yield from _by_its_source(situation)
    yield from _by_its_build(situation)


def _is_described(package: Distribution) -> bool:
    return package.path == "description"


def _by_its_source(situation: Situation) -> Iterator[Finding]:
    """Packages compiled against torch, whose source needs newer GPUs."""
    gpus = tuple(fit.gpu for fit in fits(situation) if fit.served and fit.gpu.vendor == "nvidia")
    for row in situation.matrix.tables.extension_builds:
        package, least = situation.machine.installed(row.package), capability(row.least or "")
        if package is None or not _is_described(package) or least is None:
            continue
        lacking = tuple(gpu for gpu in gpus if (found := capability(gpu.arch.value or "")) and found < least)
        if not lacking or (row.version and not package_matches(row.version, package.version)):
            continue
        yield finding(
            "error" if len(lacking) == len(gpus) else "warning",
            lacking,
            message=f"{package.name} {package.version} does not support "
            f"{gpu_names(lacking)}: it needs {row.least} or newer.",
            saw=spelled(tuple(dict.fromkeys(gpu.arch.value or "" for gpu in lacking))),
            want=f"{row.least} or newer",
            confidence="likely",
            evidence=(Evidence(f"{package.name}.version", package.version, package.path),),
            fixes=(Fix(f"Use no {package.name}", (unsupported(package.name, row.least or ""),)),),
            refs=(row.source,),
        )


def _by_its_build(situation: Situation) -> Iterator[Finding]:
    """Frameworks beside torch, whose build has no code for a GPU."""
    for one in situation.others:
        package = situation.machine.installed(one.build.package) if one.build else None
        if one.build is None or package is None or not _is_described(package) or not one.meant_for_gpu:
            continue
        from gpudoctor.frameworks.gpu_builds import installs, supports

        nvidia, gpus = one.build.vendor == "nvidia", situation.usable_of(one.build.vendor)
        lacking = tuple(gpu for gpu in gpus if not supports(situation, one.build, gpu))
        if not lacking or (not nvidia and situation.variable("HSA_OVERRIDE_GFX_VERSION")):
            continue
        code = (*one.build.archs, *one.build.ptx)
        yield finding(
            "error" if len(lacking) == len(gpus) else "warning",
            lacking,
            message=f"{package.name} {package.version} has no code for "
            f"{gpu_names(lacking)}: {one.title} cannot compute on it.",
            saw=spelled(code) if code else f"{one.build.least} and newer",
            want=spelled(tuple(dict.fromkeys(gpu.arch.value or "" for gpu in lacking))),
            confidence="likely",
            evidence=(Evidence(f"{package.name}.version", package.version, package.path),),
            fixes=(installs(situation, one, lacking) if nvidia else ()) or (_another_gpu(one, lacking),),
            refs=(one.build.source,),
        )


def _another_gpu(framework: InstalledFramework, gpus: tuple[Gpu, ...]) -> Fix:
    archs = " and ".join(dict.fromkeys(gpu.arch.value or gpu.name for gpu in gpus))
    text = f"Use another GPU, or the CPU: no build of {framework.title} is known to have code for {archs}."
    return Fix("Use another GPU, or the CPU", (Manual(text, elsewhere=True),))


def unsupported(package: str, least: str) -> Manual:
    """What is left where the source of a package supports no GPU that old."""
    return Manual(
        f"No build of {package} supports this GPU: its source needs {least} or newer. Make the program use torch's "
        f"own kernels instead of {package}."
    )
