"""Libraries that are loaded instead of those that torch was built with (GPD304, GPD310, GPD316)."""

from __future__ import annotations

import posixpath
import re

from gpudoctor.check import Verdicts
from gpudoctor.finding import Evidence, Finding, Fix, Severity, by_hand
from gpudoctor.frameworks.torch import check
from gpudoctor.frameworks.torch.c_library import cannot_load
from gpudoctor.frameworks.torch.nvidia_wheels import DISTRIBUTIONS, distribution_of, stem_of
from gpudoctor.frameworks.torch.shadowed_libraries import (
    FOLDERS_SHARED_BY,
    FOUND_LATE,
    PRELOADS_FROM,
    clear_the_way,
    in_the_way,
    judged_here,
    library_evidence,
    missing_symbols,
    older,
    pin_of,
    pinned_and_others,
    pins,
    reinstall_pinned,
    shadow_evidence,
    two_in_one_folder,
    wanted_version,
    wheels_of,
)
from gpudoctor.machine import NO_GLIBCXX, Distribution, Library, MissingSymbols
from gpudoctor.matrix.versions import figures, package_matches
from gpudoctor.situation import Situation


@check("GPD304", "ld-library-path-shadow", "runtime")
def ld_library_path_shadow(situation: Situation) -> Verdicts:
    """A CUDA library from elsewhere is loaded instead of the wheel's.

    ## Why it matters
    The best known case is an nvJitLink older than cuSPARSE needs. `import torch` then fails with "undefined symbol:
    __nvJitLinkAddData_12_1" or similar.

    ## How it is judged
    The check looks only at libraries that can really win. The wheels' DT_RPATH takes precedence over LD_LIBRARY_PATH
    for everything that torch loads itself, so a toolkit on LD_LIBRARY_PATH is harmless there. cuSPARSE loads
    nvJitLink, and there the variable wins, unless torch has loaded its own before. A library that lacks symbols which
    others need of it is an error, whether it comes from elsewhere or is a wheel in another version than torch pins.
    This includes what is loaded only when it is needed, such as cuSOLVER. Where the files could not be read, an older
    version decides. A newer library is fine.

    ## Fix safety
    Removes a folder from a variable for this process, or reinstalls one package in this environment.
    """
    if not judged_here(situation):
        return
    lacking = {one.path: one for one in reversed(tuple(missing_symbols(situation)))}
    yield from (_lacking(situation, one) for one in lacking.values())
    if lacking:
        return
    imported = situation.torch_imported
    for stem, base in DISTRIBUTIONS.items():
        if base in FOLDERS_SHARED_BY:
            continue
        library = in_the_way(situation, stem)
        if imported and library is not None and library.via != "LD_PRELOAD":
            continue  # the import has shown that it does no harm; what is preloaded also serves what comes later
        if library is not None and older(library.version, wanted := wanted_version(situation, base)):
            yield _shadowed(situation, library, wanted or "")
            return
    if imported:
        return
    pinned = pins(situation)
    for base in dict.fromkeys(DISTRIBUTIONS.values()):
        pin = pinned.get(base)
        own = pinned_and_others(situation, base, pin[0])[0] if pin else None
        if base not in FOLDERS_SHARED_BY and pin and own and older(own.version, pin[1]):
            yield _mixed(situation, own, base, pin[1])


def _shadowed(situation: Situation, library: Library, wanted: str) -> Finding:
    assert situation.torch is not None
    stem = stem_of(library.name)
    preloaded = figures(situation.torch.version)[:2] >= PRELOADS_FROM and library.via != "LD_PRELOAD"
    severity: Severity = "error"
    effect = "torch cannot start with it"
    if preloaded and stem in FOUND_LATE:
        severity, effect = "warning", "torch loads its own first, but other programs do not"
    elif library.wins and stem not in FOUND_LATE:
        severity, effect = ("warning", "it has all that torch needs of it, but torch was built with the newer one")
    return Finding(
        severity=severity,
        message=f"{library.via} puts {library.path} ({library.version}) before the wheel's newer {library.name} "
        f"({wanted}): {effect}.",
        saw=library.version or "",
        want=f"{wanted} or newer",
        subject=library.name,
        confidence="likely",
        evidence=shadow_evidence(situation, library, wanted),
        fixes=(clear_the_way(situation, library),),
        refs=("pytorch/pytorch#111469", "pytorch/pytorch#152783"),
        supersedes=("torch-import-fails",),
    )


def _lacking(situation: Situation, missing: MissingSymbols) -> Finding:
    """A library without the symbols that another one needs of it: the loader then refuses the other one."""
    asker = posixpath.basename(missing.needed_by)
    foreign = {one.path: one for one in situation.environment.libraries.found}
    library = foreign.get(missing.path) or foreign.get(missing.needed_by)
    base = _other_wheel(situation, missing.library, asker)
    pin = pin_of(situation, base) if base else None
    if library is not None:
        fixes: tuple[Fix, ...] = (clear_the_way(situation, library),)
    else:
        fixes = (
            (reinstall_pinned(situation, base, pin[1], "the version that torch requires"),) if base and pin else ()
        )
    effect = "it cannot be loaded when it is needed" if missing.late else "`import torch` fails"
    own = next(iter(wheels_of(situation, distribution_of(missing.library) or "")), None)
    taken = foreign.get(missing.path) or own
    found = taken.version if taken else None
    return Finding(
        severity="error",
        message=f"{asker} needs symbols that {missing.path}{f' ({found})' if found else ''} does not have, such as "
        f"{missing.symbols[0]}: {effect}.",
        saw=f"{missing.library} {found or ''}".strip(),
        want=f"a {missing.library} with {missing.symbols[0]}",
        subject=missing.library,
        evidence=(
            Evidence("needed by", missing.needed_by, "its symbol versions"),
            Evidence("missing symbols", " ".join(missing.symbols), missing.path),
            *(library_evidence(situation, library) if library else ()),
        ),
        fixes=fixes,
        refs=("pytorch/pytorch#111469", "Fictionarry/ER-NeRF#122"),
        supersedes=("torch-import-fails", "requirements-incomplete"),
    )


def _other_wheel(situation: Situation, *names: str) -> str | None:
    """The library that is from a wheel in another version than torch requires."""
    for base in filter(None, map(distribution_of, names)):
        pin = pin_of(situation, base)
        versions = [d.version for d in wheels_of(situation, base)]
        if pin and versions and not any(package_matches(f"=={pin[1]}", version) for version in versions):
            return base
    return None


def _mixed(situation: Situation, own: Distribution, base: str, pinned: str) -> Finding:
    breaks = base == "nvidia-nvjitlink"  # its symbols are versioned by its minor release
    return Finding(
        severity="error" if breaks else "warning",
        message=f"{own.name} {own.version} is installed, but this torch needs {pinned}.",
        saw=own.version,
        want=pinned,
        subject=own.name,
        confidence="likely",
        evidence=(Evidence.of_package(own), Evidence("torch needs", pinned, "requirements of torch")),
        fixes=(reinstall_pinned(situation, base, pinned, "the version that torch pins"),),
        supersedes=("torch-import-fails", "requirements-incomplete"),
    )


@check("GPD310", "nccl-shadowed", "runtime")
def nccl_shadowed(situation: Situation) -> Verdicts:
    """Another NCCL is loaded instead of the one that torch was built with.

    ## Why it matters
    An older NCCL lacks functions that torch needs. `import torch` fails with "undefined symbol: ncclCommRegister", or
    distributed runs end with a version error.

    ## How it is judged
    The check finds an older NCCL that a load-path variable puts first and that really wins, an NCCL wheel older than
    torch pins, and NCCL wheels for two CUDA majors, which share one folder.

    ## Fix safety
    Removes a folder from a variable for this process, or reinstalls packages in this environment.
    """
    if not judged_here(situation) or situation.torch_imported:
        return
    wanted = wanted_version(situation, "nvidia-nccl")
    library = in_the_way(situation, "libnccl")
    if library is not None and older(library.version, wanted):
        yield Finding(
            severity="warning",
            message=f"torch loads NCCL {library.version} from {library.path} ({library.via}), but was built with "
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
    own, others = pinned_and_others(situation, "nvidia-nccl", pin[0])
    if own is not None and older(own.version, pin[1]):
        yield Finding(
            severity="warning",
            message=f"{own.name} {own.version} is installed, but this torch was built with {pin[1]}.",
            saw=own.version,
            want=f"{pin[1]} or newer",
            subject="NCCL",
            evidence=(Evidence.of_package(own),),
            fixes=(reinstall_pinned(situation, "nvidia-nccl", pin[1], "the version that torch pins"),),
            supersedes=("torch-import-fails",),
        )
    elif own is not None and (too_old := tuple(other for other in others if older(other.version, pin[1]))):
        yield two_in_one_folder(situation, "nvidia-nccl", too_old, pin[1])


@check("GPD316", "libstdcxx-too-old", "runtime")
def libstdcxx_too_old(situation: Situation) -> Verdicts:
    """The C++ runtime library is older than torch or Triton needs.

    ## Why it matters
    `import torch` fails with "version `GLIBCXX_3.4.30' not found". Often an old libstdc++ from a conda environment or
    from LD_LIBRARY_PATH is loaded before the system's.

    ## How it is judged
    The check compares the highest GLIBCXX version that the libraries of torch and Triton need with the highest one in
    the libstdc++ that is found first.

    ## Fix safety
    Removes a library or folder from a variable, or updates one library in this environment.
    """
    environment, torch = situation.environment, situation.torch
    needed = torch.needs_glibcxx.value if torch else None
    provided = environment.libstdcxx.value
    if torch is None or needed is None or provided is None or situation.torch_imported:
        return
    if figures(provided) >= figures(needed) or cannot_load(situation, torch):
        return
    some = provided != NO_GLIBCXX
    has = f"GLIBCXX {provided} at most" if some else "no GLIBCXX"
    user = "Triton" if torch.needs_glibcxx.source.endswith("/libtriton.so") else f"torch {torch.version}"
    yield Finding(
        severity="error",
        message=f"The loaded libstdc++ has {has}, but {user} needs {needed}.",
        saw=f"GLIBCXX_{provided}" if some else "no GLIBCXX",
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
    preloaded = path in re.split("[ :]", situation.variable("LD_PRELOAD") or "")
    folders = (situation.variable("LD_LIBRARY_PATH") or "").split(":")
    if path and (preloaded or path.rpartition("/")[0] in folders):
        via = "LD_PRELOAD" if preloaded else "LD_LIBRARY_PATH"
        return clear_the_way(situation, Library(name="libstdc++.so.6", path=path, via=via))
    if conda:
        text = "In this environment:\nconda install -c conda-forge 'libstdcxx-ng>=12'"
        return by_hand("Update libstdc++ in the conda environment", text, "replaces")
    text = "Update the distribution, whose libstdc++ is too old for this torch, or use a container with a newer one."
    return by_hand("Use a newer distribution or container", text, "root")
