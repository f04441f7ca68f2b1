"""Frameworks beside torch: the libraries that they open (GPD461, GPD465, GPD474)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpudoctor.check import Verdicts, check
from gpudoctor.dependencies import parsed
from gpudoctor.finding import Evidence, Finding, Fix, ReinstallPackage, ReplacePackage, by_hand
from gpudoctor.frameworks.other_frameworks import finding_of, on_the_loaders_path, version_evidence, works_beside
from gpudoctor.frameworks.torch.nvidia_wheels import FIRST_WITHOUT_SUFFIX, distribution_of, family_of, without_cuda
from gpudoctor.frameworks.torch.shadowed_libraries import clear_the_way
from gpudoctor.machine import Distribution, Library, MissingSymbols
from gpudoctor.matrix.rows.packages import FrameworkBuild
from gpudoctor.matrix.versions import figures, major_of
from gpudoctor.situation import Situation
from gpudoctor.situation.frameworks import InstalledFramework
from gpudoctor.situation.gpu_groups import finding, gpu_names, group_by

# --- libraries that are not there ----------------------------------------------------------------------------


@check("GPD461", "framework-libraries-not-found", "framework")
def framework_libraries_not_found(situation: Situation) -> Verdicts:
    """A framework cannot find the CUDA libraries that it opens itself.

    ## Why it matters
    JAX and TensorFlow print one line ("Unable to load cuDNN. Is it installed?", "Cannot dlopen some GPU libraries")
    and compute on the CPU. CuPy and CTranslate2 fail at their first operation on the GPU.

    ## How it is judged
    The matrix names the libraries that a build opens when it needs them. The check looks in NVIDIA's wheels, in the
    environment's own folder of libraries, in CUDA toolkits and on the loader's path. CTranslate2 and older releases
    of ONNX Runtime do not look into the wheels: for them only the loader's path counts, unless a torch for GPUs is
    there. JAX also needs NVML of the driver, which a container without the capability utility does not get. A
    library whose file is cut short does not count. It is an error if a usable GPU is there. It is a warning if the
    package serves machines without a GPU as well and another framework uses the GPU.

    ## Fix safety
    Installs the libraries as the framework's own extra names them, or again where only their files are gone; the
    framework keeps its version.
    """
    for one in situation.others:
        yield from _without_the_drivers(situation, one)
        lacking = one.files.not_found.value if one.files else None
        if not lacking or one.vendor is None or one.build is None or not situation.usable_of(one.vendor):
            continue
        from gpudoctor.frameworks.gpu_builds import for_the_cuda_here
        from gpudoctor.frameworks.torchs_cudnn import beside_torch, environment_of_its_own

        optional = (
            one.build.default and one.row is not None and (one.row.gpu == "sometimes" or works_beside(situation, one))
        )
        where = "no folder that it looks in has a whole one"
        if one.files and one.files.beside:
            where = f"it does not look in {', '.join(one.files.beside)}"
        yield finding_of(
            one,
            "warning" if optional else "error",
            *((Evidence.of(f"{one.name}.not_found", one.files.not_found),) if one.files else ()),
            message=f"{one.named} opens {', '.join(lacking)}, and {where}: it cannot use "
            f"{gpu_names(situation.usable_of(one.vendor))}.",
            saw=f"no {', '.join(lacking)}",
            want=", ".join(lacking),
            slug="framework-cuda-libs-missing",
            fixes=(
                *for_the_cuda_here(situation, one),
                *_newer_release(situation, one),
                *beside_torch(
                    situation,
                    one,
                    _beside_other_releases(situation, one, lacking) or (_provided(situation, one, lacking),),
                ),
                *environment_of_its_own(situation, one),
            ),
            refs=(one.build.source,),
        )


def _without_the_drivers(situation: Situation, one: InstalledFramework) -> Iterator[Finding]:
    """A library of the driver that a framework needs beside libcuda."""
    library, path = one.row.driver_library if one.row else "", situation.machine.load_path
    known = path.complete.value and path.first("libcuda.so.1") and not situation.on_jetson
    if not library or one.vendor != "nvidia" or not known or path.first(library) or not situation.usable_of("nvidia"):
        return
    text = f"Install {library} in the driver's version; it comes with the driver."
    if situation.in_container:
        text = "Start the container with NVIDIA_DRIVER_CAPABILITIES=compute,utility (or all), which mounts NVML, too."
    yield finding_of(
        one,
        "error",
        Evidence.of("load_path", path.complete),
        message=f"{one.named} needs {library} of the driver beside libcuda, and it is not on the load "
        f"path: it cannot use {gpu_names(situation.usable_of('nvidia'))}.",
        saw=f"no {library}",
        want=library,
        slug="framework-cuda-libs-missing",
        confidence="likely",
        fixes=(by_hand(f"Bring {library} of the driver", text, "root"),),
        refs=("jax 0.11.2 on an H100 without libnvidia-ml: No visible GPU devices",),
    )


def _provided(situation: Situation, one: InstalledFramework, lacking: tuple[str, ...]) -> Fix:
    """What brings the libraries, or where to look for them."""
    folders = one.files.beside if one.files else ()
    if folders:
        return on_the_loaders_path(folders)
    again = _again(situation, one, lacking)
    if again is not None:
        return again
    from gpudoctor.frameworks.gpu_builds import install_again

    whole = install_again(situation, one)
    if whole is None and (wheels := _from_wheels(situation, one, lacking)):
        return wheels
    text = f"Install the CUDA {one.cuda} that {one.title} needs, so that the loader finds {', '.join(lacking)}."
    return whole or by_hand(f"Install CUDA {one.cuda}", text, "replaces")


def _newer_release(situation: Situation, one: InstalledFramework) -> Iterator[Fix]:
    """Of a release for a CUDA whose releases have ended: the newest one, with the libraries that it opens."""
    from gpudoctor.frameworks.gpu_builds import builds_for, release_for, runs_here

    if one.build is None or one.build.install or one.build.instructions or one.distribution is None:
        return
    for build in builds_for(situation, one.name, situation.usable_of("nvidia")):
        version = release_for(situation, build) if build.install == one.distribution.name else None
        newer = figures(build.cuda or "0") > figures(one.build.cuda or "0")
        if version is None or not newer or not runs_here(situation, build):
            continue
        path = situation.machine.load_path
        lacking = tuple(name for name in build.opens if not path.first(name))
        wheels = _from_wheels(situation, one, lacking, build) if lacking and build.looks == "loader" else None
        why = f"it is built for CUDA {build.cuda}"
        new = ReplacePackage(build.install, f"=={version}", extra=build.extra, why=why)
        yield Fix(f"Install {one.title} {version}", (new, *(wheels.remedies if wheels else ())))
        return


def _from_wheels(
    situation: Situation, one: InstalledFramework, lacking: tuple[str, ...], build: FrameworkBuild | None = None
) -> Fix | None:
    """NVIDIA's wheels with these libraries, for a framework that does not look into them by itself; `build`: for
    that one of it."""
    bases = dict.fromkeys(map(distribution_of, lacking))
    major = major_of(build.cuda if build else one.cuda)
    sites = situation.environment.site_packages
    if None in bases or not sites or not major or major >= FIRST_WITHOUT_SUFFIX:
        return None
    names = [base for base in bases if base]
    why = f"{one.title} needs its library"
    wheels = tuple(ReplacePackage(f"{base}-cu{major}", "", why=why) for base in names)
    folders = (f"{sites[0]}/nvidia/{base.removeprefix('nvidia-').replace('-', '_')}/lib" for base in names)
    return Fix("Install NVIDIA's wheels and name their folders", (*wheels, *on_the_loaders_path(folders).remedies))


def _again(situation: Situation, one: InstalledFramework, lacking: tuple[str, ...]) -> Fix | None:
    """Installs packages again whose records are there and whose libraries are not: pip takes them for installed."""
    bases = set(filter(None, map(distribution_of, lacking)))
    emptied = [package for name in lacking if (package := _wheel_of(situation, one, name)) and _brings(package, name)]
    emptied = list({package.name: package for package in emptied}.values())
    if len(emptied) < len(bases) or not emptied:
        return None
    why = f"its files are gone, and {one.title} needs them"
    remedies = tuple(ReinstallPackage(package.name, package.version, why=why) for package in emptied)
    return Fix("Install these packages again", remedies)


def _wheel_of(situation: Situation, one: InstalledFramework, library: str) -> Distribution | None:
    """The installed one of NVIDIA's wheels that has this library, in whichever release."""
    base, major = distribution_of(library), major_of(one.cuda)
    names = (f"{base}-cu{major}", *((base,) if base and major >= FIRST_WITHOUT_SUFFIX else ()))
    found = (situation.machine.installed(name) for name in names)
    return next((package for package in found if package), None) if base else None


def _brings(package: Distribution, library: str) -> bool:
    """Whether a release of NVIDIA's wheels has a library of this name: both are numbered alike (libcudnn.so.8)."""
    return major_of(library.partition(".so.")[2]) == major_of(package.version)


def _beside_other_releases(
    situation: Situation, one: InstalledFramework, lacking: tuple[str, ...]
) -> tuple[Fix, ...]:
    """What helps where another package requires NVIDIA's wheel in a release that has a library of another number."""
    from gpudoctor.frameworks.gpu_builds import builds_for, install, release_for, runs_here
    from gpudoctor.frameworks.torch.unmet_dependencies import required_here

    wheels = {name: wheel for name in lacking if (wheel := _wheel_of(situation, one, name))}
    others = {family_of(name): wheel for name, wheel in wheels.items() if not _brings(wheel, name)}
    requirers = {each.what.name: each.by for each in required_here(situation) if each.by.name != one.name}
    if not others or not all(wheel.name in requirers for wheel in others.values()):
        return ()
    fixes, torch = [], situation.torch
    for build in builds_for(situation, one.name, situation.usable_of("nvidia")):
        opened = {family_of(name): name for name in build.opens}
        suits = all(family in opened and _brings(wheel, opened[family]) for family, wheel in others.items())
        # torch pins the libraries of its CUDA, and a framework takes none that are older than its own.
        suits = suits and not (torch and torch.cuda and figures(torch.cuda) < figures(build.cuda or "0"))
        version = release_for(situation, build) if suits and runs_here(situation, build) else None
        if version and (fix := install(situation, one, build, version)):
            fixes.append(fix)
    wheel = next(iter(others.values()))
    text = (
        f"{one.named} needs {', '.join(lacking)}, and {requirers[wheel.name].name} here requires {wheel.name} "
        f"{wheel.version}, which has none: one environment holds one release of it. Make an environment for "
        f"{one.title} alone."
    )
    return (*fixes[:1], by_hand(f"An environment for {one.title} alone", text, "replaces"))


# --- libraries that are too old ------------------------------------------------------------------------------


@check("GPD465", "framework-library-too-old", "framework")
def framework_library_too_old(situation: Situation) -> Verdicts:
    """An NVIDIA library is older than the one a framework was built against.

    ## Why it matters
    JAX refuses it ("Outdated cuDNN installation found") and computes on the CPU; TensorFlow and others refuse a cuDNN
    that is older than the one they were built with. Another framework often pins such a library. An nvJitLink that is
    older than cuSPARSE and cuSOLVER cannot be loaded with them.

    ## How it is judged
    The extras in the framework's own metadata name these packages. What is installed must be no older than the lowest
    version there, and so must be what LD_LIBRARY_PATH puts before it, where the framework follows that variable
    (TensorFlow does, JAX does not). An older cuDNN is an error, as is any of these libraries for JAX; for other
    frameworks an older library is a note. A library that lacks symbols which another one needs is an error.

    ## Fix safety
    Installs a newer release of that one package, or takes the folder out of the variable. Where torch pins another
    release, pip says so; torch works with a newer cuDNN of the same major.
    """
    for one in situation.others:
        if one.vendor != "nvidia" or not situation.usable_of("nvidia") or one.build is None or one.files is None:
            continue
        for misfit in one.files.misfits[:1]:
            yield _misfit(situation, one, misfit)
        overruled = {distribution_of(library.name): library for library in one.files.overruled}
        for owner in _owners(situation, one):
            for name, lowest, specifier in _lowest(owner):
                there = situation.machine.installed(name)
                library = overruled.get(without_cuda(name))
                if library is not None and library.version and figures(library.version) < figures(lowest):
                    yield _overruled(situation, one, library, name, lowest)
                elif there is not None and figures(there.version) < figures(lowest):
                    yield _too_old(one, there, lowest, specifier)


def _too_old(one: InstalledFramework, there: Distribution, lowest: str, specifier: str) -> Finding:
    cudnn = there.name.startswith("nvidia-cudnn")
    strict = cudnn or (one.row is not None and one.row.compares_versions)
    newer = ReplacePackage(there.name, specifier, why=f"{one.title} needs it", indirect=True)
    return finding_of(
        one,
        "error" if strict else "note",
        Evidence.of_package(there),
        message=f"{one.named} was built for {there.name} {lowest} or newer, and {there.version} is installed.",
        saw=f"{there.name} {there.version}",
        want=f"{there.name}{specifier}",
        fixes=(Fix(f"Install a newer {there.name}", (newer,)),),
        slug="cudnn-mismatch" if cudnn else "",
    )


def _overruled(situation: Situation, one: InstalledFramework, library: Library, name: str, lowest: str) -> Finding:
    return finding_of(
        one,
        "error" if name.startswith("nvidia-cudnn") else "note",
        Evidence(library.name, library.version or "", library.path),
        message=f"LD_LIBRARY_PATH puts {library.path} ({library.version}) before the wheel's own, and {one.named} "
        f"was built for {name} {lowest} or newer.",
        saw=f"{library.name} {library.version}",
        want=f"{lowest} or newer",
        fixes=(clear_the_way(situation, library),),
        slug="ld-library-path-shadow",
    )


def _misfit(situation: Situation, one: InstalledFramework, misfit: MissingSymbols) -> Finding:
    """The symbols end in the release of CUDA that they came with: __nvJitLinkAddData_12_4."""
    asker = misfit.needed_by.rpartition("/")[2]
    releases = [
        found[1].replace("_", ".") for symbol in misfit.symbols if (found := re.search(r"_(\d+_\d+)$", symbol))
    ]
    base = distribution_of(misfit.library) or ""
    names = (f"{base}-cu{(one.cuda or '').partition('.')[0]}", base)
    there = next(filter(None, map(situation.machine.installed, names)), None)
    fixes: tuple[Fix, ...] = ()
    if there is not None and releases:
        newer = ReplacePackage(there.name, f">={max(releases, key=figures)}", why=f"{asker} needs it", indirect=True)
        fixes = (Fix(f"Install a newer {there.name}", (newer,)),)
    return finding_of(
        one,
        "error",
        Evidence("missing symbols", " ".join(misfit.symbols), misfit.path),
        message=f"{asker}, which {one.named} opens, needs symbols that {misfit.path} does not have, "
        f"such as {misfit.symbols[0]}: it cannot be loaded.",
        saw=f"{there.name} {there.version}" if there else misfit.path,
        want=f"a {misfit.library} with {misfit.symbols[0]}",
        fixes=fixes,
    )


@check("GPD474", "framework-rocblas-no-arch", "framework")
def framework_rocblas_no_arch(situation: Situation) -> Verdicts:
    """The ROCm beside a framework has no kernels for the GPU.

    ## Why it matters
    The plugin of JAX has code for many GPUs. ROCm's wheels for several GPUs have the kernels of rocBLAS and MIOpen in
    a wheel for each (rocm-sdk-device-gfx1151). Without it the first matrix product fails.

    ## How it is judged
    By the kernel files in the environment's _rocm_sdk folders. HSA_OVERRIDE_GFX_VERSION counts. An archive for a
    whole family of GPUs does not tell its targets, and nothing is judged then. Graphics of a processor beside a GPU
    do not count.

    ## Fix safety
    Adds one wheel from the index that the others came from.
    """
    for one in situation.others:
        have = one.files.blas_gfx if one.files and one.vendor == "amd" else None
        if have is None:
            continue
        from gpudoctor.frameworks.torch.system_rocblas import lacks_kernels

        lacking = (gpu for gpu in situation.usable_of("amd") if lacks_kernels(situation, have, gpu))
        for (name, arch), gpus in group_by(lacking, lambda gpu: (gpu.name, gpu.arch.value)).items():
            libraries = situation.machine.installed("rocm-sdk-libraries")
            release = f"=={libraries.version}" if libraries else ""
            text = f"Install rocm-sdk-device-{arch}{release} from the index that the rocm-sdk packages came from."
            yield finding(
                "error",
                gpus,
                message=f"{one.named} computes with the ROCm wheels beside it: their rocBLAS has no "
                f"kernels for {name} ({arch}).",
                saw=" ".join(have) or "no kernels",
                want=arch or "",
                confidence="likely",
                framework=one.name,
                evidence=(*version_evidence(one), Evidence.of("gpu.arch", gpus[0].arch)),
                fixes=(by_hand(f"Install the kernels for {arch}", text, "replaces"),),
                refs=("ROCm/TheRock#4578", "ROCm/TheRock#5347"),
            )


def _owners(situation: Situation, one: InstalledFramework) -> tuple[Distribution, ...]:
    """The distributions whose extras name the framework's CUDA libraries."""
    names = dict.fromkeys((one.build.package if one.build else "", one.distribution.name if one.distribution else ""))
    return tuple(found for name in names if (found := situation.machine.installed(name)) is not None)


def _lowest(owner: Distribution) -> Iterator[tuple[str, str, str]]:
    """Name, lowest version and specifier of each of NVIDIA's packages that its extras ask for."""
    for line in owner.requires:
        what = parsed(line) if "extra" in line and "nvidia-" in line else None
        bound = re.search(r"(?:>=|==|~=)([\d.]+)", what.specifier) if what else None
        if what is not None and bound is not None:
            yield what.name, bound[1].rstrip("."), what.specifier
