"""Libraries that get in the way of those that torch was built with (GPD304, GPD310, GPD316)."""

from __future__ import annotations

from gpudoctor.check import Verdicts
from gpudoctor.finding import (
    Evidence,
    Finding,
    Fix,
    Manual,
    Severity,
)
from gpudoctor.frameworks.torch import check
from gpudoctor.frameworks.torch.c_library import cannot_load
from gpudoctor.frameworks.torch.shadowed_libraries import (
    DISTRIBUTIONS,
    FOLDERS_SHARED_BY,
    FOUND_LATE,
    PRELOADS_FROM,
    clear_the_way,
    in_the_way,
    judged_here,
    older,
    pinned_again,
    pins,
    shadow_evidence,
    stem_of,
    two_in_one_folder,
    wanted_version,
    wheels_of,
    works,
)
from gpudoctor.machine import Distribution, Library
from gpudoctor.matrix.versions import figures
from gpudoctor.situation import Situation, needs

# --- the checks ------------------------------------------------------------------------------------


@check("GPD304", "ld-library-path-shadow", "runtime", needs=needs.torch)
def ld_library_path_shadow(situation: Situation) -> Verdicts:
    """A CUDA library from elsewhere is loaded instead of the wheel's.

    ## Why it matters
    The best known: an nvJitLink older than cuSPARSE needs. `import torch` then fails with "undefined symbol:
    __nvJitLinkAddData_12_1" or the like.

    ## How it is judged
    Only libraries that really can win: the wheels' DT_RPATH goes before LD_LIBRARY_PATH for all that torch asks for
    itself, so a toolkit on LD_LIBRARY_PATH is harmless there; nvJitLink is asked for by cuSPARSE, where the variable
    wins. Older than the wheel needs is an error; where torch loads its own first, a warning. So is one of NVIDIA's
    own wheels in another version than torch pins. A newer library is no fault.

    ## Fix safety
    Takes a folder out of a variable for this process, or installs one package again in this environment.
    """
    if not judged_here(situation) or works(situation):
        return
    for stem, base in DISTRIBUTIONS.items():
        if base in FOLDERS_SHARED_BY:
            continue
        library = in_the_way(situation, stem)
        if library is not None and older(library.version, wanted := wanted_version(situation, base)):
            yield _shadowed(situation, library, wanted or "")
            return
    pinned = pins(situation)
    for base in dict.fromkeys(DISTRIBUTIONS.values()):
        pin = pinned.get(base)
        own = [d for d in wheels_of(situation, base) if pin and d.name == (f"{base}-cu{pin[0]}" if pin[0] else base)]
        if base not in FOLDERS_SHARED_BY and pin and own and older(own[0].version, pin[1]):
            yield _mixed(situation, own[0], base, pin[1])


def _shadowed(situation: Situation, library: Library, wanted: str) -> Finding:
    assert situation.torch is not None
    preloaded = figures(situation.torch.version)[:2] >= PRELOADS_FROM and library.via != "LD_PRELOAD"
    severity: Severity = "warning" if preloaded and stem_of(library.name) in FOUND_LATE else "error"
    outcome = (
        "torch loads its own first, other programs do not" if severity == "warning" else "torch cannot start with it"
    )
    return Finding(
        severity=severity,
        message=f"{library.via} puts {library.path} ({library.version}) before the wheel's {library.name} "
        f"({wanted}), "
        f"which is newer: {outcome}.",
        saw=library.version or "",
        want=f"{wanted} or newer",
        subject=library.name,
        confidence="likely",
        evidence=shadow_evidence(situation, library, wanted),
        fixes=(clear_the_way(situation, library),),
        refs=("pytorch/pytorch#111469", "pytorch/pytorch#152783"),
        supersedes=("torch-import-fails",),
    )


def _mixed(situation: Situation, own: Distribution, base: str, pinned: str) -> Finding:
    breaks = base in ("nvidia-nvjitlink", "nvidia-cusparse")
    return Finding(
        severity="error" if breaks else "warning",
        message=f"{own.name} {own.version} is installed; this torch needs {pinned}.",
        saw=own.version,
        want=pinned,
        subject=own.name,
        confidence="likely",
        evidence=(
            Evidence(own.name, own.version, own.path),
            Evidence("torch needs", pinned, "requirements of torch"),
        ),
        fixes=(pinned_again(situation, base, pinned, "the version that torch pins"),),
        supersedes=("torch-import-fails",),
    )


@check("GPD310", "nccl-shadowed", "runtime", needs=needs.torch)
def nccl_shadowed(situation: Situation) -> Verdicts:
    """Another NCCL is loaded instead of the one that torch was built with.

    ## Why it matters
    An older NCCL lacks functions that torch asks for: `import torch` fails with "undefined symbol: ncclCommRegister",
    or distributed runs end with a version error.

    ## How it is judged
    An older NCCL that a load-path variable puts first and that really wins, an older wheel than torch pins, or NCCL
    wheels for two CUDA majors, which share one folder.

    ## Fix safety
    Takes a folder out of a variable for this process, or installs packages again in this environment.
    """
    if not judged_here(situation) or works(situation):
        return
    wanted = wanted_version(situation, "nvidia-nccl")
    library = in_the_way(situation, "libnccl")
    if library is not None and older(library.version, wanted):
        yield Finding(
            severity="warning",
            message=f"{library.via} has torch load NCCL {library.version} from {library.path}; it was built with "
            f"{wanted}.",
            saw=library.version or "",
            want=f"{wanted} or newer",
            subject="NCCL",
            evidence=shadow_evidence(situation, library, wanted),
            fixes=(clear_the_way(situation, library),),
            refs=("pytorch/pytorch#119932",),
            supersedes=("torch-import-fails",),
        )
        return
    pin = pins(situation).get("nvidia-nccl")
    if pin is None:
        return
    name = f"nvidia-nccl-cu{pin[0]}" if pin[0] else "nvidia-nccl"
    found = wheels_of(situation, "nvidia-nccl")
    own = next((d for d in found if d.name == name), None)
    others = tuple(d for d in found if d.name != name and older(d.version, pin[1]))
    if own is not None and older(own.version, pin[1]):
        yield Finding(
            severity="warning",
            message=f"{own.name} {own.version} is installed; this torch was built with {pin[1]}.",
            saw=own.version,
            want=f"{pin[1]} or newer",
            subject="NCCL",
            evidence=(Evidence(own.name, own.version, own.path),),
            fixes=(pinned_again(situation, "nvidia-nccl", pin[1], "the version that torch pins"),),
            supersedes=("torch-import-fails",),
        )
    elif own is not None and others:
        yield two_in_one_folder(situation, "nvidia-nccl", others, pin[1])


@check("GPD316", "libstdcxx-too-old", "runtime", needs=needs.torch)
def libstdcxx_too_old(situation: Situation) -> Verdicts:
    """The C++ runtime library is older than torch or Triton needs.

    ## Why it matters
    `import torch` fails with "version `GLIBCXX_3.4.30' not found". Often an old libstdc++ of a conda environment, or
    one that LD_LIBRARY_PATH names, is loaded before the system's.

    ## How it is judged
    The highest GLIBCXX version that the libraries of torch and Triton ask for against the highest that the libstdc++
    found first has.

    ## Fix safety
    Takes a folder out of a variable, or updates one library in this environment.
    """
    environment, torch = situation.environment, situation.torch
    needed = torch.needs_glibcxx.value if torch else None
    there = environment.libstdcxx.value if environment else None
    if environment is None or torch is None or needed is None or there is None or works(situation):
        return
    if figures(there) >= figures(needed) or cannot_load(situation.machine, situation.matrix, torch):
        return
    asking = "Triton" if torch.needs_glibcxx.source.endswith("/libtriton.so") else f"torch {torch.version}"
    yield Finding(
        severity="error",
        message=f"The libstdc++ that is loaded has GLIBCXX {there} at most; {asking} needs {needed}.",
        saw=f"GLIBCXX_{there}",
        want=f"GLIBCXX_{needed}",
        subject=environment.libstdcxx_path or "libstdc++.so.6",
        evidence=(
            Evidence.of("environment.libstdcxx", environment.libstdcxx),
            Evidence.of("torch.needs_glibcxx", torch.needs_glibcxx),
        ),
        fixes=(_newer_libstdcxx(situation, environment.libstdcxx_path, environment.kind == "conda"),),
        refs=("triton-lang/triton#1543",),
        supersedes=("torch-import-fails",),
    )


def _newer_libstdcxx(situation: Situation, path: str, conda: bool) -> Fix:
    library = Library(name="libstdc++.so.6", path=path, via="LD_LIBRARY_PATH")
    folders = (situation.variable("LD_LIBRARY_PATH") or "").split(":")
    if path and path.rpartition("/")[0] in folders:
        return clear_the_way(situation, library)
    if conda:
        text = "conda install -c conda-forge 'libstdcxx-ng>=12' in this environment."
        return Fix("Update libstdc++ in the conda environment", (Manual(text, risk="replaces"),))
    text = "Update the distribution (its libstdc++ is too old for this torch), or use a container of a newer one."
    return Fix("Use a newer distribution or container", (Manual(text, risk="root"),))
