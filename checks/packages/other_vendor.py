"""Triton and amdsmi packages that are not the ones of this torch (GPD436, GPD437)."""

from __future__ import annotations

import re

from gpudoctor.check import Verdicts
from gpudoctor.dependencies import TRITONS
from gpudoctor.finding import (
    AnyRemedy,
    Evidence,
    Finding,
    Fix,
    ReinstallPackage,
    RemovePackage,
    ReplacePackage,
    Severity,
)
from gpudoctor.frameworks.torch import check
from gpudoctor.frameworks.torch.installed_build import build_name
from gpudoctor.machine import Distribution, MissingSymbols
from gpudoctor.matrix.versions import minor, public_version
from gpudoctor.situation import Situation, needs

# --- Triton ----------------------------------------------------------------------------------------


@check("GPD436", "triton-overwritten", "packages")
def triton_overwritten(situation: Situation) -> Verdicts:
    """A second Triton package shares the folder of torch's own.

    ## Why it matters
    triton, pytorch-triton and pytorch-triton-rocm all install the folder triton/. The last one installed is imported,
    whatever torch requires: torch.compile then fails with "0 active drivers", or with errors of another release. If
    one of them is removed, the other one loses its files.

    ## How it is judged
    By the names that torch requires. Which one's files are there is told by the size of Triton's library. If they are
    those of torch's own, the other package does no harm yet: a note.

    ## Fix safety
    Removes the other package and installs torch's own again, as they share files.
    """
    torch, package = situation.torch, situation.machine.installed("torch")
    if torch is None or package is None:
        return
    required = {re.split(r"[\s(;=<>~!\[]", line, maxsplit=1)[0].lower() for line in package.requires}
    installed = [one for one in situation.machine.packages if one.name in TRITONS]
    own = next((one for one in installed if one.name in required), None)
    others = [one for one in installed if one.name not in required]
    if own is None or not others:
        return
    there = situation.environment.triton_owner
    severity: Severity = "note" if there == own.name else "warning"
    names = " and ".join(f"{one.name} {one.version}" for one in others)
    state = f"the files of {there} are there" if there else "the one installed last is imported"
    yield Finding(
        severity=severity,
        message=f"{names} shares the folder triton/ with {own.name} {own.version}, which "
        f"{build_name(torch)} requires: {state}.",
        saw=names,
        want=f"only {own.name} {own.version}",
        subject=own.name,
        confidence="certain" if there else "possible",
        evidence=tuple(Evidence.of_package(one) for one in (own, *others)),
        fixes=(_only(situation, own, others),),
        refs=("state-spaces/mamba#595",),
    )


def _only(situation: Situation, own: Distribution, others: list[Distribution]) -> Fix:
    torch = situation.torch
    row = situation.build_of(torch)
    url = situation.matrix.torch.index_url(row) if row and own.name != "triton" else ""
    removed: tuple[AnyRemedy, ...] = tuple(
        RemovePackage(one.name, why="it shares the folder triton/ with torch's own") for one in others
    )
    again = ReinstallPackage(own.name, own.version, index_url=url, why="the other package owned the same files")
    return Fix(f"Remove {', '.join(one.name for one in others)}, then install {own.name} again", (*removed, again))


# --- amdsmi ----------------------------------------------------------------------------------------


@check("GPD437", "amdsmi-mismatch", "packages", needs=needs.rocm_torch)
def amdsmi_mismatch(situation: Situation) -> Verdicts:
    """The amdsmi package is of another ROCm than its library.

    ## Why it matters
    torch for ROCm imports amdsmi where it is installed, and amdsmi looks up all its functions at once. With an older
    libamd_smi.so `import torch` fails with "undefined symbol: amdsmi_get_...".

    ## How it is judged
    By the functions that the package looks up and those that the library has. An older package fits a newer library.

    ## Fix safety
    Replaces or removes only amdsmi.
    """
    found = [one for one in situation.environment.missing_symbols if one.library == "libamd_smi.so"]
    if found and situation.torch and not situation.torch_imported:
        yield _misfit(situation, found[0])


def _misfit(situation: Situation, missing: MissingSymbols) -> Finding:
    installed = situation.machine.installed("amdsmi")
    name = f"amdsmi {installed.version}" if installed else "amdsmi"
    release = _release(situation, missing.path)
    remove = Fix("Remove amdsmi", (RemovePackage("amdsmi", why="torch works without it"),))
    fitting = f"=={release}.*" if release else ""
    fits = Fix(f"Install amdsmi {release}", (ReplacePackage("amdsmi", fitting, why="the release of its library"),))
    older = bool(release and installed and minor(public_version(installed.version)) > minor(release))
    return Finding(
        severity="error",
        message=f"{name} looks up {missing.symbols[0]}, which {missing.path} does not have: `import torch` fails.",
        saw=name,
        want=f"amdsmi {release}" if release else "the amdsmi of the ROCm that its library came with",
        subject=name,
        evidence=(
            Evidence("needed by", missing.needed_by, missing.needed_by),
            Evidence("missing symbols", " ".join(missing.symbols), missing.path),
        ),
        fixes=(fits, remove) if older else (remove,),
        refs=("RLinf/RLinf#1507", "ROCm/amdsmi#186"),
        supersedes=("torch-import-fails",),
    )


def _release(situation: Situation, path: str) -> str:
    """The ROCm release of a library, as far as its path tells: torch's own, or that of /opt/rocm-6.4.1."""
    torch = situation.torch
    if torch is not None and torch.path and path.startswith(f"{torch.path}/"):
        return ".".join(map(str, minor(torch.rocm))) if torch.rocm else ""
    found = re.search(r"/rocm-(\d+\.\d+)", path)
    return found[1] if found else ""
