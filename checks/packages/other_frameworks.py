"""Packages of other frameworks that do not go together (GPD443, GPD444)."""

from __future__ import annotations

import re

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import Evidence, Finding, Fix, ReinstallPackage, RemovePackage, ReplacePackage, Severity
from gpudoctor.machine import Distribution
from gpudoctor.matrix.versions import package_matches
from gpudoctor.situation import Situation

_BOTH = "ort-cpu-and-gpu-both"
_PLUGIN = r"jax-cuda\d+-(?:plugin|pjrt)"
"""jaxlib does not compare its version with that of a ROCm plugin."""


@check("GPD443", _BOTH, "packages", framework="onnxruntime")
def ort_cpu_and_gpu_both(situation: Situation) -> Verdicts:
    """onnxruntime and onnxruntime-gpu are installed together.

    ## Why it matters
    Both own the folder onnxruntime. The one that was installed last has overwritten the other, so the GPU's
    providers may be gone, or come back with the next update.

    ## How it is judged
    Both packages are installed. It is a note on a machine without a usable GPU.

    ## Fix safety
    Removes the CPU package and installs the same version of the other one again.
    """
    for row in situation.matrix.tables.package_conflicts:
        one, other = situation.machine.installed(row.package), situation.machine.installed(row.other)
        if row.slug != _BOTH or one is None or other is None:
            continue
        if not (package_matches(row.version, one.version) and package_matches(row.other_version, other.version)):
            continue
        remedies = (
            RemovePackage(one.name, why=f"{other.name} owns the same files"),
            ReinstallPackage(other.name, other.version, why="removing the other one takes its files away"),
        )
        yield Finding(
            severity=_severity(situation),
            message=f"{one.name} {one.version} and {other.name} {other.version} are installed together, and both own "
            "the same files: which one a program gets depends on which was installed last.",
            saw=f"{one.name} and {other.name}",
            want=f"only {other.name}",
            subject=f"{other.name} {other.version}",
            evidence=(_evidence(one), _evidence(other)),
            fixes=(Fix(f"Keep only {other.name}", remedies),),
            refs=(row.source,),
        )


@check("GPD444", "jax-plugin-mismatch", "packages", framework="jax")
def jax_plugin_mismatch(situation: Situation) -> Verdicts:
    """The GPU plugin of JAX is of another release than jaxlib.

    ## Why it matters
    JAX does not use a plugin of another release. It warns once and computes on the CPU.

    ## How it is judged
    jaxlib itself compares the numbers of the two versions: they must be equal. ROCm plugins are not compared. It is a
    note on a machine without a usable GPU.

    ## Fix safety
    Replaces only the plugin's packages.
    """
    environment, jaxlib = situation.environment, situation.machine.installed("jaxlib")
    if environment is None or jaxlib is None:
        return
    plugins = [one for one in environment.distributions.value or () if re.fullmatch(_PLUGIN, one.name)]
    wrong = [one for one in plugins if _numbers(one.version) != _numbers(jaxlib.version)]
    if not wrong:
        return
    names = ", ".join(f"{one.name} {one.version}" for one in wrong)
    wanted = _numbers(jaxlib.version)
    yield Finding(
        severity=_severity(situation),
        message=f"{names} {'is' if len(wrong) == 1 else 'are'} not for jaxlib {jaxlib.version}: JAX does not use the "
        "plugin and computes on the CPU.",
        saw=names,
        want=f"the release of jaxlib {jaxlib.version}",
        subject=f"jaxlib {jaxlib.version}",
        evidence=(_evidence(jaxlib), *map(_evidence, wrong)),
        fixes=(
            Fix(
                "Install the plugin of jaxlib's release",
                tuple(ReplacePackage(one.name, f"=={wanted}", why="jaxlib's release") for one in plugins),
            ),
        ),
        refs=("jax-ml/jax jaxlib/plugin_support.py",),
    )


def _numbers(version: str) -> str:
    """ "0.12.0.1" of "0.12.0.1.post2"; PEP 440 allows what follows."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return found[0] if found else ""


def _severity(situation: Situation) -> Severity:
    return "error" if situation.usable else "note"


def _evidence(one: Distribution) -> Evidence:
    return Evidence(one.name, one.version, one.path)
