"""Which GPU builds a framework beside torch has for the GPUs here, and the fix that installs one.

torch has a module of its own for this (`frameworks.torch.builds`): its builds come from several indexes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import islice

from gpudoctor.dependencies import normalised
from gpudoctor.finding import Fix, ReinstallPackage, RemovePackage, ReplacePackage, by_hand
from gpudoctor.frameworks.other_frameworks import in_one_folder, parts_here, rewrite_shared_files
from gpudoctor.frameworks.torch.coverage import cuda_answer
from gpudoctor.frameworks.torch.nvidia_wheels import DISTRIBUTIONS, FIRST_WITHOUT_SUFFIX, without_cuda
from gpudoctor.frameworks.torch.runtime_libraries import depends_on_torch, release_for_torch
from gpudoctor.frameworks.torchs_cudnn import cudnn_wheel, environment_of_its_own, replaces_cudnn_of_torch
from gpudoctor.isa import Answer, capability
from gpudoctor.machine import Distribution, Gpu
from gpudoctor.matrix.questions import group_of
from gpudoctor.matrix.rows.packages import FrameworkBuild
from gpudoctor.matrix.versions import figures, major_of, package_matches, public_version
from gpudoctor.situation import Situation
from gpudoctor.situation.frameworks import InstalledFramework
from gpudoctor.situation.nvidia_driver import driver_verdict
from gpudoctor.situation.system_rocm import system_rocm


def supports(situation: Situation, build: FrameworkBuild, gpu: Gpu) -> bool:
    """Whether a build may have code for a GPU; what the matrix does not say counts as yes."""
    arch = gpu.arch.value
    if gpu.vendor != build.vendor:
        return False
    if arch is None:
        return True
    own, least = capability(arch), capability(build.least)
    if build.vendor == "nvidia" and own and least and own < least:
        return False
    last = known.last_cuda if (known := situation.matrix.gpus.capability(arch)) else None
    if last and major_of(build.cuda) > major_of(last):
        return False
    return not build.archs or answer(situation, build, gpu).runs != "no"


def older_than_the_gpu(situation: Situation, build: FrameworkBuild, gpu: Gpu) -> bool:
    """Whether the CUDA of a build ended before the GPU came: its cuBLAS and cuDNN have nothing for it, whatever the
    driver compiles."""
    known = situation.matrix.gpus.capability(gpu.arch.value) if build.cuda and gpu.arch.value else None
    return known is not None and major_of(build.cuda) < major_of(known.first_cuda)


def answer(situation: Situation, build: FrameworkBuild, gpu: Gpu) -> Answer:
    """Which of its code a build runs on a GPU; both architectures are known."""
    arch = gpu.arch.value or ""
    if build.vendor == "amd":
        return situation.matrix.gpus.gfx_answer(arch, build.archs)
    return cuda_answer(situation, arch, build.archs, build.ptx, cuda=build.cuda)


def builds_for(situation: Situation, name: str, gpus: tuple[Gpu, ...]) -> tuple[FrameworkBuild, ...]:
    """The builds with code for some of these GPUs on this platform, those that the driver runs first; among equals
    that of the CUDA that another framework here was built with, so that both share its libraries."""
    rows = [
        row
        for row in situation.matrix.builds_of(name)
        if situation.platform in row.platforms and any(supports(situation, row, gpu) for gpu in gpus)
    ]
    majors = {major_of(one.cuda) for one in situation.frameworks if one.name != name} - {0}
    rocm = system_rocm(situation)

    def order(row: FrameworkBuild) -> tuple[bool, bool]:
        if rocm is not None and row.beside:
            return not runs_here(situation, row), major_of(row.rocm) != major_of(rocm.rocm)
        return not runs_here(situation, row), bool(majors) and major_of(row.cuda) not in majors

    return tuple(sorted(rows, key=order))


def known_to_run(situation: Situation, build: FrameworkBuild, gpu: Gpu) -> bool:
    """Whether it is known that a build which may support a GPU does: by its code, by what its publisher supports, or,
    where it has no GPU code itself, by AMD's list for ROCm."""
    if build.archs:
        return answer(situation, build, gpu).runs == "yes"
    if build.vendor == "nvidia":
        return bool(build.least)
    return any(gpu.arch.value in row.gfx for row in situation.matrix.tables.rocm_releases)


def runs_here(situation: Situation, build: FrameworkBuild) -> bool:
    """Whether the driver is not too old for it."""
    return build.cuda is None or driver_verdict(situation, build.cuda) != "too-old"


def cuda_in_wheels(situation: Situation) -> frozenset[int]:
    """Majors of the CUDA runtimes that NVIDIA's wheels bring to the environment: those of their versions."""
    runtimes = (one for one in situation.machine.packages if without_cuda(one.name) == "nvidia-cuda-runtime")
    return frozenset(major_of(one.version) for one in runtimes)


def best_package(situation: Situation, framework: str, group: list[Distribution]) -> Distribution | None:
    """Of installed packages, the one of a framework's build for the usable GPUs: one that the driver runs, then one
    for torch's CUDA, then one whose CUDA is in the environment, then that of the newest CUDA. None if there is
    none."""
    builds = {build.package: build for build in situation.matrix.builds_of(framework)}
    vendors = {gpu.vendor for gpu in situation.usable} or {"nvidia", "amd"}
    fitting = [one for one in group if one.name in builds and builds[one.name].vendor in vendors]
    runs = [one for one in fitting if runs_here(situation, builds[one.name])] or fitting
    brought = cuda_in_wheels(situation)
    of_torch = major_of(situation.torch_cuda)

    def order(one: Distribution) -> tuple[bool, bool, tuple[int, ...]]:
        cuda = builds[one.name].cuda
        major = major_of(cuda)
        return major == of_torch > 0, major in brought, figures(cuda or "")

    return max(runs, key=order, default=None)


def cuda_release(situation: Situation, package: str) -> str:
    """The releases of a package that are for the CUDA of NVIDIA's wheels here, where its release decides the CUDA of
    a framework (cuda-bindings); "" where it does not, or nothing tells."""
    majors = cuda_in_wheels(situation)
    rows = [row for row in situation.matrix.tables.framework_builds if row.package == package != row.install]
    fitting = [row.version for row in rows if row.version and major_of(row.cuda) in majors]
    return fitting[0] or "" if len(fitting) == 1 else ""


def for_the_cuda_here(situation: Situation, framework: InstalledFramework, *, newer: bool = False) -> Iterator[Fix]:
    """Builds of a framework for the CUDA of NVIDIA's wheels here, where its own build is for another; `newer`: for
    the newest CUDA of which there are wheels."""
    majors = cuda_in_wheels(situation)
    yield from for_cuda(situation, framework, {max(majors)} if newer and majors else majors)


def for_cuda(situation: Situation, framework: InstalledFramework, wanted: Collection[int]) -> Iterator[Fix]:
    """Builds of a framework for one of these majors of CUDA, where its own build is for another: the best for each
    CUDA. Two CUDAs in one environment overwrite each other's cuDNN and NCCL."""
    offered = set[str]()
    own = major_of(framework.build.cuda if framework.build else None)
    for build in builds_for(situation, framework.name, situation.usable) if own not in wanted else ():
        cuda = build.cuda
        if cuda and cuda not in offered and major_of(cuda) in wanted and runs_here(situation, build):
            version = version_for(situation, framework, build) or release_for(situation, build)
            fix = install(situation, framework, build, version)
            if fix is not None:
                offered.add(cuda)
                yield fix


def install(
    situation: Situation, framework: InstalledFramework, build: FrameworkBuild, version: str | None = None
) -> Fix | None:
    """The fix that installs a GPU build of the framework in its version, or another, with its libraries; None if no
    index has one. What owns the same files goes first."""
    version = version or version_for(situation, framework, build)
    another = version != public_version(framework.version)
    if version is None or (another and not build.releases and release_for(situation, build) is None):
        return None
    *removals, new = remedies(situation, framework.title, build, version, framework)
    again: tuple[ReinstallPackage, ...] = ()
    there = situation.machine.installed(build.install)
    if there is not None and there.version == version and there.requires and not _offers(there, build.extra):
        return None  # a release before the extra: an installer would bring nothing
    if there is not None and there.version == version and in_one_folder(situation, build.install):
        again = (rewrite_shared_files(there),)
    again += tuple(_twins(situation, {one.name for one in removals if isinstance(one, RemovePackage)}))
    linker = _linker(situation, build)
    return Fix(f"Install {framework.title}'s build for {target_of(build)}", (*removals, *again, *linker, new))


def _offers(package: Distribution, extras: str) -> bool:
    named = re.findall(r"extra\s*==\s*[\"']([\w.-]+)", "\n".join(package.requires))
    return set(map(normalised, named)).issuperset(normalised(one) for one in extras.split(",") if one)


def _twins(situation: Situation, removed: Collection[str]) -> Iterator[ReinstallPackage]:
    """NVIDIA's packages that stay, and that own files of those that are removed: of another CUDA's."""
    folder = situation.matrix.shared_folder
    shared = {folder(name) for name in removed if name.startswith("nvidia-")} - {""}
    for one in situation.machine.packages if shared else ():
        if one.name not in removed and folder(one.name) in shared:
            yield rewrite_shared_files(one)


_LINKED = {"nvidia-cusparse", "nvidia-cusolver"}
"""Wheels that cannot be loaded with an nvJitLink older than themselves; their metadata does not say so."""


def _linker(situation: Situation, build: FrameworkBuild) -> tuple[ReplacePackage, ...]:
    """nvJitLink in its newest release, if an installer will choose the newest of the libraries that link it."""
    major = major_of(build.cuda)
    listed = situation.machine.packages
    of_nvidia = {without_cuda(one.name): one for one in listed}
    there = of_nvidia.get("nvidia-nvjitlink")
    if not build.extra or there is None or major_of(there.version) != major or of_nvidia.keys() >= _LINKED:
        return ()
    pinned = any(line.startswith(f"{there.name}==") for one in listed for line in one.requires)
    toolkits = [row.cuda for row in situation.matrix.tables.cuda_toolkits if major_of(row.cuda) == major]
    newest = max(toolkits, key=figures, default="")
    if pinned or figures(there.version)[:2] >= figures(newest)[:2]:
        return ()
    why = "cuSPARSE and cuSOLVER come in their newest release, and need an nvJitLink that is no older"
    return (ReplacePackage(there.name, f">={newest}", why=why, indirect=True),)


def remedies(
    situation: Situation, title: str, build: FrameworkBuild, version: str, installed: InstalledFramework | None = None
) -> tuple[RemovePackage | ReplacePackage, ...]:
    """What installs that version of a build with its libraries. What owns the same files goes first."""
    target = target_of(build)
    removals = tuple(
        RemovePackage(name, why=f"the build for {target} takes its place", indirect=True)
        for name in dict.fromkeys(_in_the_way(situation, build, installed))
    )
    if build.beside:
        return (*removals, *_plugin(situation, title, build, version))
    why = f"{title} for {target}, with its libraries"
    whole = ReplacePackage(build.install, f"=={version}", extra=build.extra, why=why)
    return (*removals, *_older_cudnn(situation, build), whole)


def _older_cudnn(situation: Situation, build: FrameworkBuild) -> tuple[ReplacePackage, ...]:
    """cuDNN in a release that still has kernels for the GPUs here; an installer takes the newest."""
    name = cudnn_wheel(build)
    gpus = situation.usable_of("nvidia") or situation.machine.of_vendor("nvidia")
    served = [gpu for gpu in gpus if supports(situation, build, gpu)] if name else []
    bounds = [bound for gpu in served if (bound := situation.matrix.nvidia.cudnn_with(gpu.arch.value))]
    if name is None or not bounds:
        return ()
    why = "newer releases have no kernels for these GPUs"
    return (ReplacePackage(name, min(bounds, key=figures), why=why),)


def _plugin(situation: Situation, title: str, build: FrameworkBuild, version: str) -> tuple[ReplacePackage, ...]:
    """The plugin and, where they are of another release, the framework's own packages."""
    why = f"GPU code of {title}; it uses {target_of(build)} of the system, which must be installed"
    there = ((name, situation.machine.installed(name)) for name in build.beside)
    moved = (name for name, one in there if one is None or not _same_release(one.version, version))
    pinned = (ReplacePackage(name, f"=={version}", why=f"goes with {build.install} {version}") for name in moved)
    return (*pinned, ReplacePackage(build.install, f"=={version}", why=why))


def _same_release(version: str, other: str) -> bool:
    """Whether two versions are equal in their first three numbers ("0.12.0.1" goes with "0.12.0")."""
    return _three(version) == _three(other)


def _three(version: str) -> tuple[int, ...]:
    found = figures(public_version(version))[:3]
    return found + (0,) * (3 - len(found))


def release_for(situation: Situation, build: FrameworkBuild) -> str | None:
    """Its newest release with a wheel for the examined Python, and for the torch here where that decides; None: none
    is known."""
    if depends_on_torch(situation, build.install):
        return release_for_torch(situation, build.install)
    if not build.pythons or situation.python is None or situation.python in build.pythons:
        return build.newest
    return build.older.get(situation.python)


def _in_the_way(situation: Situation, build: FrameworkBuild, installed: InstalledFramework | None) -> Iterator[str]:
    """Packages of the present build that own files of the new one, or would be used beside it."""
    if installed and installed.build and installed.build.package not in (build.install, build.package):
        yield installed.build.package
        package = situation.machine.installed(installed.build.package)
        yield from parts_here(situation, package) if package else ()
    there = installed.distribution.name if installed and installed.distribution else ""
    if there not in ("", build.install, build.package, *build.beside):
        yield there
    major = major_of(build.cuda)
    others = {major_of(one.cuda) for one in situation.frameworks if one.name != build.framework} - {0}
    listed = situation.machine.packages
    for row in situation.matrix.tables.shared_files:
        for one in listed if row.framework is None and major else ():
            if group_of(row, one.name) and major_of(one.name.rpartition("-cu")[2]) not in (major, *others):
                yield one.name
    if build.looks == "pathfinder" and all(one < FIRST_WITHOUT_SUFFIX for one in (major, *others)):
        yield from (one.name for one in listed if one.name in DISTRIBUTIONS.values())


def version_for(situation: Situation, framework: InstalledFramework, build: FrameworkBuild) -> str | None:
    """The installed version, or the newest of this build if that is older."""
    installed = public_version(framework.version)
    if not build.install:
        return None
    if build.releases:
        return next((one for one in build.releases if _three(one) >= _three(installed)), build.releases[-1])
    another = framework.distribution is not None and framework.distribution.name != build.install
    release = release_for(situation, build)
    if another and release is None and build.pythons:
        return None  # no release of that project has a wheel for this Python
    newest = release or build.newest or installed
    version = min(installed, newest, key=figures)
    if another and build.version is None and version != newest:
        return newest  # another project: which releases of it there are is not known
    of_its_own = build.package.startswith(build.framework)  # else the specifier is about another project's package
    return None if of_its_own and build.version and not package_matches(build.version, version) else version


def install_again(situation: Situation, framework: InstalledFramework) -> Fix | None:
    """The fix that installs the framework's build with the libraries of its extra; None where it has no extra. A
    plugin of another release has another row than the framework's own release."""
    build = framework.build
    if build is None or not build.extra:
        return None
    installed = public_version(framework.version)
    rows = situation.matrix.builds_of(framework.name)
    alike = (one for one in rows if (one.package, one.extra) == (build.package, build.extra))
    own = (one for one in alike if version_for(situation, framework, one) == installed)
    return install(situation, framework, next(own, build))


def installs(situation: Situation, framework: InstalledFramework, gpus: tuple[Gpu, ...]) -> tuple[Fix, ...]:
    """Ways to a GPU build for these GPUs, best first; beside torch only those that leave it its cuDNN."""
    builds = builds_for(situation, framework.name, gpus)
    apart = [build for build in builds if replaces_cudnn_of_torch(situation, build)]
    beside = tuple(build for build in builds if build not in apart)
    fixes = tuple(_installs(situation, framework, beside))
    if apart and not any(isinstance(one, ReplacePackage) for fix in fixes for one in fix.remedies):
        return tuple(environment_of_its_own(situation, framework, apart[0]))
    return fixes


def _installs(
    situation: Situation, framework: InstalledFramework, builds: tuple[FrameworkBuild, ...]
) -> Iterator[Fix]:
    """The builds that keep the framework's version; if there are none, the best of another version."""
    ready = [build for build in builds if runs_here(situation, build)]
    installed = public_version(framework.version)
    keeping = [build for build in ready if _keeps(build, version_for(situation, framework, build), installed)]
    found = [fix for build in keeping if (fix := install(situation, framework, build))]
    if not found:
        releases = _other_releases(situation, framework, ready)
        others = (fix for build, version in releases if (fix := install(situation, framework, build, version)))
        found = list(others if keeping else islice(others, 1))
    yield from found
    rocm = situation.machine.amd.rocm
    for build in (keeping or ready)[:1]:
        if build.vendor == "amd" and build.beside and (rocm.absent or rocm.value == ()):
            text = (
                f"{build.install} uses the ROCm of the system, and none was found. Install {target_of(build)} "
                "(https://rocm.docs.amd.com/projects/install-on-linux), then run `gpudoctor fix` again."
            )
            yield by_hand(f"Install {target_of(build)} first", text, "root")
    if ready and not any(build.install for build in ready):
        target, package = target_of(ready[0]), ready[0].package
        text = f"Install {framework.title} for {target}: its GPU code comes with {package}."
        yield by_hand(f"Install {framework.title}'s build for {target}", text, "replaces")


def _other_releases(
    situation: Situation, framework: InstalledFramework, builds: list[FrameworkBuild]
) -> list[tuple[FrameworkBuild, str]]:
    """The release of each build to take instead, newer ones first: an older one has fewer GPUs and functions."""
    installed = figures(public_version(framework.version))
    near = [(one, version_for(situation, framework, one)) for one in builds]
    newest = [(one, release) for one, version in near if (release := release_for(situation, one)) != version]
    found = [(one, version) for one, version in (*near, *newest) if version]
    return sorted(found, key=lambda one: figures(one[1]) < installed)


def _keeps(build: FrameworkBuild, version: str | None, installed: str) -> bool:
    if version is None or not build.releases:
        return version == installed
    return _same_release(version, installed)


def target_of(build: FrameworkBuild) -> str:
    """What it is built for: "CUDA 12", "ROCm 7", "AMD GPUs"."""
    if build.cuda:
        return f"CUDA {build.cuda}"
    return f"ROCm {build.rocm}" if build.rocm else "AMD GPUs" if build.vendor == "amd" else "NVIDIA GPUs"
