"""Packages of other frameworks that do not go together (GPD443, GPD444, GPD448,
GPD462, GPD472)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import Evidence, Finding, Fix, RemovePackage, ReplacePackage, Severity, by_hand
from gpudoctor.frameworks.other_frameworks import JAX_PLUGIN, refused_plugins, release_of, rewrite_shared_files
from gpudoctor.machine import Distribution
from gpudoctor.matrix.questions import group_of
from gpudoctor.matrix.versions import figures, package_matches, public_version
from gpudoctor.situation import Situation

if TYPE_CHECKING:
    from gpudoctor.matrix.rows import SameRelease, SharedFiles

_ORT, _ANY = "ort-cpu-and-gpu-both", "packages-overwrite-each-other"


@check("GPD443", _ORT, "packages", framework="onnxruntime")
def ort_cpu_and_gpu_both(situation: Situation) -> Verdicts:
    """Two packages of ONNX Runtime are installed together.

    ## Why it matters
    All of them own the folder onnxruntime. The one that was installed last has overwritten the other, so the GPU's
    providers may be gone, or come back with the next update.

    ## How it is judged
    Two of the packages onnxruntime, onnxruntime-gpu, onnxruntime-migraphx and the like are installed. It is a note if
    none of them is for a usable GPU.

    ## Fix safety
    Keeps the package for the usable GPU in its version, removes the others and installs it again.
    """
    yield from _overwritten(situation, _ORT)


@check("GPD462", _ANY, "packages")
def packages_overwrite_each_other(situation: Situation) -> Verdicts:
    """Two installed packages own the same files.

    ## Why it matters
    The one that was installed last has overwritten the other. tensorflow-cpu over tensorflow takes the GPU away. Of
    cupy-cuda12x and cupy-cuda13x only one works. nvidia-cudnn-cu12 and nvidia-cudnn-cu13 put one cuDNN into one
    folder, and removing either removes it.

    ## How it is judged
    The matrix names groups of packages that share a folder. It is an error if the framework's GPU build may be gone,
    or libraries that the files there need are missing; a warning where one of the two still works, and a note if none
    is for a usable GPU.

    ## Fix safety
    Keeps the package for the usable GPU in its version, removes the others and installs it again. If another
    framework uses another CUDA than torch does, it is installed for that of torch. Else nothing is removed: a person
    must choose one CUDA for both.
    """
    yield from _overwritten(situation, _ANY)


def _overwritten(situation: Situation, slug: str) -> Iterator[Finding]:
    for row in situation.matrix.tables.shared_files:
        groups = list(_groups(row, situation.machine.packages)) if row.slug == slug else []
        if groups and row.framework is None:
            yield _pairs(situation, row, groups)
            continue
        for group in groups:
            yield _sharing(situation, row, group)


def _groups(row: SharedFiles, listed: tuple[Distribution, ...]) -> Iterator[list[Distribution]]:
    """The installed packages that share files with another one."""
    groups: dict[str, list[Distribution]] = {}
    for one in listed:
        if group := group_of(row, one.name):
            groups.setdefault(group, []).append(one)
    yield from (group for group in groups.values() if len(group) > 1)


def _sharing(situation: Situation, row: SharedFiles, group: list[Distribution]) -> Finding:
    keep = _to_keep(situation, row, group)
    names = " and ".join(f"{one.name} {one.version}" for one in group)
    together = "They are installed together, and" if len(group) > 2 else "Both"
    names_of_group = {one.name for one in group}
    broken = any(one.package in names_of_group and one.missing for one in situation.machine.extensions)
    instructions = _instructions(situation, row, keep) if keep else ""
    fixes = (_by_hand(instructions, keep, group) if instructions else _keep_only([keep], group),) if keep else ()
    return Finding(
        severity="note" if not situation.usable else "error" if broken else row.severity if keep else "note",
        message=f"{names} are installed. {together} own {row.what}: a program gets the files of the one that was "
        "installed last.",
        saw=" and ".join(one.name for one in group),
        want=f"only {keep.name}" if keep else "one of them",
        subject=f"{keep.name} {keep.version}" if keep else group[0].name,
        framework=row.framework,
        evidence=tuple(map(Evidence.of_package, group)),
        fixes=fixes,
        refs=(row.source,),
    )


def _pairs(situation: Situation, row: SharedFiles, groups: list[list[Distribution]]) -> Finding:
    """Packages of several CUDAs in the same folders: one cause, and one fix for all."""
    kept = [_to_keep(situation, row, group) for group in groups]
    keep = [one for one in kept if one is not None]
    names = ", ".join(" and ".join(f"{one.name} {one.version}" for one in group) for group in groups)
    own = f"Both own {row.what}" if len(groups) == 1 else f"Each pair owns {row.what}"
    members = [one for group in groups for one in group]
    known = len(keep) == len(groups)
    fixes = (_keep_only(keep, members),) if known else ()
    if row.instructions:
        fixes = (_by_hand(row.instructions, keep[0] if keep else None, members),)
    return Finding(
        severity=row.severity if situation.usable else "note",
        message=f"{names} are installed. {own}: a program gets the files of the one that was installed last.",
        saw=f"{len(groups)} pairs" if len(groups) > 1 else " and ".join(one.name for one in groups[0]),
        want=f"only {', '.join(one.name for one in keep)}" if known else "one of each",
        subject=", ".join(one.name for one in keep) if known else groups[0][0].name,
        evidence=tuple(map(Evidence.of_package, members)),
        fixes=fixes or tuple(_one_cuda(situation)),
        refs=(row.source,),
    )


def _one_cuda(situation: Situation) -> Iterator[Fix]:
    """The other frameworks for the CUDA of torch."""
    if situation.torch and situation.torch.cuda:
        for one in situation.others:
            from gpudoctor.frameworks.gpu_builds import for_cuda

            yield from for_cuda(situation, one, {figures(situation.torch.cuda)[0]})


def _instructions(situation: Situation, row: SharedFiles, keep: Distribution) -> str:
    """Where a person reads how a build is installed that no package index has."""
    builds = situation.matrix.builds_of(row.framework or "")
    of_package = (
        one for one in builds if one.package == keep.name and package_matches(one.version or "", keep.version)
    )
    return next((one.instructions for one in of_package if not one.install), "")


def _by_hand(instructions: str, keep: Distribution | None, group: list[Distribution]) -> Fix:
    """What a person does where the package index lacks the one to keep."""
    name = keep.name if keep else "the one that you need"
    removed = " ".join(one.name for one in group)
    text = f"pip uninstall -y {removed}\nThen install only {name}, as {instructions} says."
    return by_hand(f"Keep only {name}", text, "replaces")


def _keep_only(keep: list[Distribution], group: list[Distribution]) -> Fix:
    names = keep[0].name if len(keep) == 1 else "one of each pair"
    owner = keep[0].name if len(keep) == 1 else "another package"
    removed = (RemovePackage(one.name, why=f"{owner} owns the same files") for one in group if one not in keep)
    return Fix(f"Keep only {names}", (*removed, *map(rewrite_shared_files, keep)))


def _to_keep(situation: Situation, row: SharedFiles, group: list[Distribution]) -> Distribution | None:
    """The package of a build for the usable GPUs: one that the driver runs, then one whose CUDA is in the
    environment, then that of the newest CUDA. None if none is, or frameworks of different CUDA releases need one
    each. Of packages without a framework, the only one for GPUs, by its name."""
    if row.framework is None:
        named = [one for one in group if re.search(r"-(gpu|cu\d+)\b", one.name)]
        for_gpus = named or [one for one in group if not one.name.endswith(("-cpu", "-lite"))]
        majors = {(one.cuda or "").partition(".")[0] for one in situation.frameworks if one.cuda}
        wanted = [one for one in for_gpus if one.name.rpartition("-cu")[2][:2] in majors] or for_gpus
        served = situation.usable_of("nvidia") or not situation.usable
        return wanted[0] if served and len(wanted) == 1 else None
    return _for_the_gpus(situation, row.framework, group)


def _for_the_gpus(situation: Situation, framework: str, group: list[Distribution]) -> Distribution | None:
    """The package of a framework's build for the usable GPUs, best as above; None if there is none."""
    from gpudoctor.frameworks.gpu_builds import cuda_in_wheels, runs_here

    builds = {build.package: build for build in situation.matrix.builds_of(framework)}
    vendors = {gpu.vendor for gpu in situation.usable} or {"nvidia", "amd"}
    fitting = [one for one in group if one.name in builds and builds[one.name].vendor in vendors]
    runs = [one for one in fitting if runs_here(situation, builds[one.name])] or fitting
    brought = cuda_in_wheels(situation)
    of_torch = figures(situation.torch.cuda)[0] if situation.torch and situation.torch.cuda else None

    def order(one: Distribution) -> tuple[bool, bool, tuple[int, ...]]:
        cuda = figures(builds[one.name].cuda or "0")
        return cuda[0] == of_torch, cuda[0] in brought, cuda

    return max(runs, key=order, default=None)


@check("GPD448", "jax-plugins-of-two-cudas", "packages", framework="jax")
def jax_plugins_of_two_cudas(situation: Situation) -> Verdicts:
    """JAX has GPU plugins for two releases of CUDA.

    ## Why it matters
    JAX loads every plugin, and each registers itself for the same devices. The second fails: "ALREADY_EXISTS:
    PJRT_Api already exists for device type cuda". Which one comes first is chance: it may be the one that the driver
    does not run.

    ## How it is judged
    Two of the packages jax-cuda12-plugin, jax-cuda13-plugin and the like are installed, or two of their pjrt
    packages, which hold the library. It is a note if none is for a usable GPU.

    ## Fix safety
    Keeps the plugin that the driver runs; of two, that of torch's CUDA, else that of the CUDA in the environment,
    else the newer one. The other plugin and its pjrt are removed.
    """
    by_cuda = _plugins(situation)
    if len(by_cuda) < 2 or refused_plugins(situation):  # jax-plugin-mismatch tells which of them is to stay
        return
    firsts = _firsts(by_cuda)
    keep = _for_the_gpus(situation, "jax", firsts)
    family = keep.name.rpartition("-")[0] if keep else ""
    others = [one for name, group in by_cuda.items() if name != family for one in group]
    removals = tuple(RemovePackage(one.name, why=f"{keep.name} is for the same GPUs") for one in others if keep)
    yield Finding(
        severity="warning" if situation.usable and keep else "note",
        message=f"JAX has plugins for two releases of CUDA: {' and '.join(one.name for one in firsts)}. It loads "
        "both, and the second one fails (PJRT_Api already exists for device type cuda).",
        saw=" and ".join(one.name for one in firsts),
        want=f"only {keep.name}" if keep else "one of them",
        subject=f"{keep.name} {keep.version}" if keep else firsts[0].name,
        evidence=tuple(Evidence.of_package(one) for group in by_cuda.values() for one in group),
        fixes=(Fix(f"Keep only {keep.name}", removals),) if keep else (),
        refs=("jax-ml/jax jax_plugins/cuda/__init__.py",),
    )


@check("GPD444", "jax-plugin-mismatch", "packages", framework="jax")
def jax_plugin_mismatch(situation: Situation) -> Verdicts:
    """The GPU plugin of JAX is of another release than jaxlib.

    ## Why it matters
    JAX does not use a plugin of another release. It warns once and computes on the CPU.

    ## How it is judged
    jaxlib itself compares the numbers of the two versions: they must be equal. ROCm plugins are not compared. It is a
    warning beside a plugin for another CUDA that is of jaxlib's release, and a note where no GPU is usable.

    ## Fix safety
    Replaces only the plugin's packages. One beside a plugin for another CUDA that is of jaxlib's release is removed.
    """
    jaxlib, wrong = situation.machine.installed("jaxlib"), refused_plugins(situation)
    if jaxlib is None or not wrong:
        return
    names = ", ".join(f"{one.name} {one.version}" for one in wrong)
    wanted = release_of(jaxlib.version)
    groups = [group for group in _plugins(situation).values() if not set(group) & set(wrong)]
    used = next((one.name for group in groups for one in group if one.name.endswith("-plugin")), "")
    severity: Severity = "warning" if used else "error"
    yield Finding(
        severity=severity if situation.usable else "note",
        message=f"{names} {'is' if len(wrong) == 1 else 'are'} not for jaxlib {jaxlib.version}: JAX does not use the "
        f"plugin{f', and takes {used}' if used else ' and computes on the CPU'}.",
        saw=names,
        want=f"the release of jaxlib {jaxlib.version}",
        subject=f"jaxlib {jaxlib.version}",
        evidence=(Evidence.of_package(jaxlib), *map(Evidence.of_package, wrong)),
        fixes=(
            Fix(f"Keep only {used}", tuple(RemovePackage(one.name, why=f"JAX takes {used}") for one in wrong))
            if used
            else _of_jaxlibs_release(situation, wrong, wanted),
        ),
        refs=("jax-ml/jax jaxlib/plugin_support.py",),
        supersedes=("requirements-incomplete", "framework-cuda-libs-missing"),
    )


def _plugins(situation: Situation) -> dict[str, list[Distribution]]:
    """JAX's plugins by their CUDA ("jax-cuda12"), each with its pjrt."""
    by_cuda: dict[str, list[Distribution]] = {}
    for one in situation.machine.packages:
        if re.fullmatch(JAX_PLUGIN, one.name):
            by_cuda.setdefault(one.name.rpartition("-")[0], []).append(one)
    return by_cuda


def _firsts(by_cuda: dict[str, list[Distribution]]) -> list[Distribution]:
    """The plugin of each CUDA, or the pjrt that was left of it."""
    return [max(group, key=lambda one: one.name.endswith("-plugin")) for group in by_cuda.values()]


def _of_jaxlibs_release(situation: Situation, wrong: tuple[Distribution, ...], wanted: str) -> Fix:
    """The plugin of jaxlib's release; where its CUDA came later, the release of the plugin for JAX. What another CUDA
    has left goes."""
    by_cuda = _plugins(situation)
    plugins = [one for one in _firsts(by_cuda) if one in wrong] or list(wrong)
    keep = _for_the_gpus(situation, "jax", plugins) or plugins[0]
    family = keep.name.rpartition("-")[0]
    others = (one for name, group in by_cuda.items() if name != family for one in group)
    removed = [RemovePackage(one.name, why=f"{keep.name} is for the same GPUs") for one in others]
    for build in situation.matrix.builds_of("jax"):
        if build.package == keep.name and build.version and not package_matches(build.version, wanted):
            release, why = release_of(keep.version), f"{keep.name} has no release {wanted}"
            jax = ReplacePackage("jax", f"=={release}", extra=build.extra or "", why=why)
            jaxlib = ReplacePackage("jaxlib", f"=={release}", why="it comes with that JAX")
            return Fix("Install the release of the plugin for JAX, too", (*removed, jax, jaxlib))
    own = (one for one in by_cuda[family] if one in wrong)
    replaced = (ReplacePackage(one.name, f"=={wanted}", why="jaxlib's release") for one in own)
    return Fix("Install the plugin of jaxlib's release", (*removed, *replaced))


@check("GPD472", "packages-of-different-releases", "packages")
def packages_of_different_releases(situation: Situation) -> Verdicts:
    """Packages that must be of one release are not.

    ## Why it matters
    `import flashinfer` stops with "flashinfer-cubin version does not match flashinfer version", and so do vLLM and
    SGLang where they use it.

    ## How it is judged
    The matrix names packages whose import compares the releases. A local version ("+cu130") does not count, nor does
    a build without a version. With the variable that turns the comparison off, nothing is reported. It is a warning
    on a machine without a usable GPU.

    ## Fix safety
    Replaces only the packages with the kernels, or removes those that have no such release.
    """
    for row in situation.matrix.tables.same_releases:
        first = situation.machine.installed(row.package)
        if first is None or situation.variable(row.unless) or public_version(first.version) == "0.0.0":
            continue
        wanted = public_version(first.version)
        there = [one for name in row.others if (one := situation.machine.installed(name)) is not None]
        wrong = [one for one in there if public_version(one.version) != wanted]
        if wrong:
            names = ", ".join(f"{one.name} {one.version}" for one in wrong)
            yield Finding(
                severity="error" if situation.usable else "warning",
                message=f"{first.name} {first.version} cannot be imported beside {names}.",
                saw=names,
                want=f"release {wanted}",
                subject=f"{first.name} {first.version}",
                evidence=(Evidence.of_package(first), *map(Evidence.of_package, wrong)),
                fixes=(_of_one_release(row, first, wrong),),
                refs=(row.source,),
            )


def _of_one_release(row: SameRelease, first: Distribution, others: list[Distribution]) -> Fix:
    """The release of the first package for the others. What has no such release goes: it is not needed."""
    wanted = public_version(first.version)
    gone = [name for name, last in row.last_releases.items() if figures(wanted) > figures(last)]
    gone = [one.name for one in others if one.name in gone]
    why = f"it has no release {wanted}, and {first.name} does without it"
    removed = (RemovePackage(name, why=why) for name in gone)
    why_new = f"{first.name}'s release"
    new = (ReplacePackage(one.name, f"=={wanted}", why=why_new) for one in others if one.name not in gone)
    title = f"Remove {', '.join(gone)}: the index has no release {wanted}"
    return Fix(title if gone else f"Install the release of {first.name}", (*removed, *new))
