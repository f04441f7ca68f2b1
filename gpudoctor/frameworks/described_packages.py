"""Packages with GPU code of which no library was read, as where they are only described: the matrix says which GPUs
they support."""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.finding import Evidence, Finding, Fix, Manual, Severity, by_hand
from gpudoctor.frameworks.torch.gpu_coverage import arch_list, fits
from gpudoctor.isa import capability, cuda_runs
from gpudoctor.machine import OVERRIDE, Distribution, Gpu, archs_of
from gpudoctor.matrix.rows.packages import ExtensionBuild, FrameworkBuild
from gpudoctor.matrix.versions import figures, package_matches
from gpudoctor.situation import Situation
from gpudoctor.situation.extensions import by_package
from gpudoctor.situation.gpu_groups import finding, gpu_names


def described_without_code(situation: Situation) -> Iterator[Finding]:
    """One finding for each package that does not support a GPU."""
    yield from _by_its_source(situation)
    yield from _by_its_build(situation)
    yield from _with_torch(situation)


def _is_described(situation: Situation, package: Distribution) -> bool:
    return package.path == "description" or situation.machine.pasted is not None


def _by_its_source(situation: Situation) -> Iterator[Finding]:
    """Packages compiled against torch, whose source needs newer GPUs, where none of their code was read."""
    for row in situation.matrix.tables.extension_builds:
        package = situation.machine.installed(row.package)
        lacking = _too_old(situation, row, package) if package else ()
        if package is None or not lacking or _code_of(situation, package):  # its code says it
            continue
        yield finding(
            "error" if supports_none(situation, package) else "warning",
            lacking,
            message=f"{package.name} {package.version} does not support "
            f"{gpu_names(lacking)}: it needs {row.least} or newer.",
            saw=arch_list(archs_of(lacking)),
            want=f"{row.least} or newer",
            confidence="likely",
            evidence=(Evidence.of_version(package),),
            fixes=(Fix(f"Use no {package.name}", (unsupported(row),)),),
            refs=(row.source,),
        )


def supports_none(situation: Situation, package: Distribution) -> bool:
    """Whether no GPU that torch supports here is one that the source of a package can be compiled for."""
    rows = (row for row in situation.matrix.tables.extension_builds if row.package == package.name)
    gpus = nvidia_gpus_of_torch(situation)
    return bool(gpus) and any(len(_too_old(situation, row, package)) == len(gpus) for row in rows)


def _too_old(situation: Situation, row: ExtensionBuild, package: Distribution) -> tuple[Gpu, ...]:
    if row.version and not package_matches(row.version, package.version):
        return ()
    code = _code_of(situation, package)  # somebody may have changed the source
    own = (gpu for gpu in nvidia_gpus_of_torch(situation) if older_than_source(row, gpu))
    return tuple(gpu for gpu in own if not code or cuda_runs(gpu.arch.value or "", code, ()).runs == "no")


def _code_of(situation: Situation, package: Distribution) -> tuple[str, ...]:
    return tuple(arch for one in by_package(situation).get(package.name, ()) for arch in one.sass)


def older_than_source(row: ExtensionBuild, gpu: Gpu) -> bool:
    """Whether a GPU is older than any that the source of a package can be compiled for."""
    least, found = capability(row.least or ""), capability(gpu.arch.value or "")
    return least is not None and found is not None and gpu.vendor == "nvidia" and found < least


def nvidia_gpus_of_torch(situation: Situation) -> tuple[Gpu, ...]:
    """The NVIDIA GPUs that the installed torch has code for."""
    return tuple(fit.gpu for fit in fits(situation) if fit.served and fit.gpu.vendor == "nvidia")


def _by_its_build(situation: Situation) -> Iterator[Finding]:
    """Frameworks beside torch, whose build has no code for a GPU."""
    for one in situation.others:
        package = situation.machine.installed(one.build.package) if one.build else None
        if one.build is None or package is None or not _is_described(situation, package) or not one.meant_for_gpu:
            continue
        from gpudoctor.frameworks.gpu_builds import installs

        nvidia, gpus = one.build.vendor == "nvidia", situation.usable_of(one.build.vendor)
        lacking = tuple(gpu for gpu in gpus if _lacks(situation, one.build, package, gpu))
        if not lacking or (not nvidia and situation.variable(OVERRIDE)):
            continue
        fixes = installs(situation, one, lacking) if nvidia else ()
        weight: Severity = "error" if len(lacking) == len(gpus) else "warning"
        yield _without_code(
            package, one.title, one.build, lacking, weight, fixes, _cuda_for(situation, one.build, lacking)
        )


def _with_torch(situation: Situation) -> Iterator[Finding]:
    """Frameworks and libraries that compute with torch, whose build for its GPUs has no code for one of them."""
    of_source = {row.package for row in situation.matrix.tables.extension_builds if row.least}
    gpus = tuple(fit.gpu for fit in fits(situation) if fit.served and not fit.carried.via_override)
    for row in situation.matrix.tables.frameworks_on_torch if gpus else ():
        package = situation.machine.installed(row.packages[0])
        if package is None or not _is_described(situation, package) or package.name in of_source:
            continue
        builds = [
            build
            for build in situation.matrix.builds_of(row.framework)
            if build.vendor == situation.built_for and situation.platform in build.platforms
            if (build.version or build.newest)
            and package_matches(build.version or f"=={build.newest}", package.version)
        ]
        lacking = tuple(gpu for gpu in gpus if all(_lacks(situation, build, package, gpu) for build in builds))
        if builds and lacking:
            whole = row.gpu == "always" and len(lacking) == len(gpus)
            yield _without_code(package, row.title, builds[0], lacking, "error" if whole else "warning")


def _lacks(situation: Situation, build: FrameworkBuild, package: Distribution, gpu: Gpu) -> bool:
    """Whether that release of a build has no code for a GPU, or its CUDA none. A release that came after the matrix
    may have code for more GPUs than the one that was read; for a GPU that is older than all of these it has none
    either."""
    from gpudoctor.frameworks.gpu_builds import older_than_the_gpu, supports

    if supports(situation, build, gpu):
        return older_than_the_gpu(situation, build, gpu)
    if build.newest is None or figures(package.version) <= figures(build.newest):
        return True
    had = [own for own in map(capability, (*build.archs, build.least)) if own]
    own = capability(gpu.arch.value)
    return own is not None and bool(had) and own < min(had)


def _cuda_for(situation: Situation, build: FrameworkBuild, gpus: tuple[Gpu, ...]) -> str:
    """The first CUDA with libraries for GPUs that a build's own code may run on; "" where that code does not."""
    from gpudoctor.frameworks.gpu_builds import supports

    if not all(supports(situation, build, gpu) for gpu in gpus):
        return ""
    known = (situation.matrix.gpus.capability(gpu.arch.value or "") for gpu in gpus)
    return max((one.first_cuda for one in known if one), key=figures, default="")


def _without_code(
    package: Distribution,
    title: str,
    build: FrameworkBuild,
    lacking: tuple[Gpu, ...],
    severity: Severity,
    fixes: tuple[Fix, ...] = (),
    first_cuda: str = "",
) -> Finding:
    """`first_cuda`: the one with libraries for these GPUs, where the build itself may have code for them."""
    code = (*build.archs, *build.ptx)
    named = f"{package.name} {package.version}"
    own = not first_cuda
    no_code = f"{named} has no code" if own else f"{named} uses CUDA {build.cuda}, whose libraries have no code"
    return finding(
        severity,
        lacking,
        message=f"{no_code} for {gpu_names(lacking)}: {title} cannot compute on it.",
        saw=(arch_list(code) if code else f"{build.least} and newer") if own else f"CUDA {build.cuda}",
        want=arch_list(archs_of(lacking)) if own else f"CUDA {first_cuda} or newer",
        confidence="likely",
        evidence=(Evidence.of_version(package),),
        fixes=fixes or (on_another_gpu(title, lacking),),
        refs=(build.source,),
    )


def on_another_gpu(title: str, gpus: tuple[Gpu, ...]) -> Fix:
    """What is left where no build of a framework has code for these GPUs."""
    archs = " and ".join(dict.fromkeys(gpu.arch.value or gpu.name for gpu in gpus))
    text = f"Use another GPU, or the CPU: no build of {title} is known to have code for {archs}."
    return by_hand("Use another GPU, or the CPU", text, elsewhere=True)


def unsupported(row: ExtensionBuild) -> Manual:
    """What is left where the source of a package supports no GPU that old."""
    instead = row.instead or f"Make the program use torch's own kernels instead of {row.package}"
    return Manual(f"No build of {row.package} supports this GPU: its source needs {row.least} or newer. {instead}.")
