"""Packages that conda installed, changed by the tool that owns the prefix (conda, mamba, micromamba)."""

from __future__ import annotations

import re
import shlex

from gpudoctor.finding import ReplaceTorch, SetVariable
from gpudoctor.planner.place import Place, risk_of
from gpudoctor.step import ManualStep, RunStep, Step


def torch(place: Place, remedy: ReplaceTorch, why: str) -> Step:
    """The CUDA build of conda-forge. `remedy.build` says which CUDA ("cuda-version>=12.8,<13")."""
    version = remedy.version if remedy.version.startswith(">=") else f"={remedy.version}"
    packages = (f"pytorch-gpu{version}", remedy.build, *(name for name, _ in remedy.companions))
    if place.tool == "pixi":
        text = f"{_advice_for_pixi(remedy.build)}pixi add {' '.join(repr(p) for p in packages)}"
        return ManualStep(text=text, why=why, risk="replaces")
    if not place.prefix:
        return ManualStep(text=f"conda install -c conda-forge {' '.join(repr(p) for p in packages)}", why=why)
    argv = (_tool(place), "install", "-y", "-p", place.prefix, "-c", "conda-forge", *packages)
    back = "; conda install --revision undoes it" if _tool(place) == "conda" else ""
    return RunStep(argv=argv, why=f"{why}{back}", risk="replaces")


def _advice_for_pixi(build: str) -> str:
    """pixi looks for what the manifest says, not for what the machine has."""
    return (
        f"pixi takes the CPU build where its manifest has no `{line}` below [system-requirements] (or for its "
        "platform): add it. Then:\n"
        if (line := cuda_requirement(build))
        else ""
    )


def cuda_requirement(build: str) -> str:
    """The line that pixi's manifest needs for "cuda-version>=12.8,<13"; "" for a build without CUDA."""
    newest = re.search(r"<(\d+)", build)
    return f'cuda = "{int(newest[1]) - 1}"' if newest else ""


def reinstall(place: Place, name: str, version: str, why: str) -> Step:
    """Install the same version again."""
    argv = (_tool(place), "install", "-y", "-p", place.prefix, "--force-reinstall", f"{name}={version}")
    return RunStep(argv=argv, why=why, risk="replaces")


def remove(place: Place, name: str, why: str) -> Step:
    """Remove a package."""
    return RunStep(argv=(_tool(place), "remove", "-y", "-p", place.prefix, name), why=why, risk="replaces")


def set_variable(place: Place, remedy: SetVariable) -> Step | None:
    """Set a variable on activation; None for tools that keep none, and where conda is not at hand."""
    if place.conda != "conda" or not place.prefix or not place.has("conda"):
        return None
    config = ("conda", "env", "config", "vars")
    argv = (*config, "set", "-p", place.prefix, f"{remedy.name}={remedy.value}")
    undo = ((*config, "unset", "-p", place.prefix, remedy.name),)
    return RunStep(argv=argv, why=remedy.why, risk=risk_of(remedy.name), undo=undo)


def unset_variable(place: Place, name: str) -> str:
    """The command for a variable that activation sets."""
    return shlex.join((_tool(place), "env", "config", "vars", "unset", "-p", place.prefix, name))


def _tool(place: Place) -> str:
    return place.conda or "conda"
