"""JAX's plugins for GPUs (GPD444, GPD448)."""

from __future__ import annotations

import re

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import Evidence, Finding, Fix, RemovePackage, ReplacePackage, Severity
from gpudoctor.frameworks.gpu_builds import best_package
from gpudoctor.frameworks.other_frameworks import JAX_PLUGIN, refused_plugins, release_of
from gpudoctor.machine import Distribution
from gpudoctor.matrix.versions import package_matches
from gpudoctor.situation import Situation


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
    keep = best_package(situation, "jax", firsts)
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
    keep = best_package(situation, "jax", plugins) or plugins[0]
    family = keep.name.rpartition("-")[0]
    others = (one for name, group in by_cuda.items() if name != family for one in group)
    removed = [RemovePackage(one.name, why=f"{keep.name} is for the same GPUs") for one in others]
    builds = [one for one in situation.matrix.builds_of("jax") if one.package == keep.name]
    if builds and not any(one.version is None or package_matches(one.version, wanted) for one in builds):
        release, why = release_of(keep.version), f"{keep.name} has no release {wanted}"
        jax = ReplacePackage("jax", f"=={release}", extra=builds[0].extra or "", why=why)
        jaxlib = ReplacePackage("jaxlib", f"=={release}", why="it comes with that JAX")
        return Fix("Install the release of the plugin for JAX, too", (*removed, jax, jaxlib))
    own = (one for one in by_cuda[family] if one in wrong)
    replaced = (ReplacePackage(one.name, f"=={wanted}", why="jaxlib's release") for one in own)
    return Fix("Install the plugin of jaxlib's release", (*removed, *replaced))
