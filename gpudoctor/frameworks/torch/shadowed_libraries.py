"""Which libraries really take the place of those that torch was built with, and how to stop that.

Holds no checks itself.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from gpudoctor.finding import (
    AnyRemedy,
    Evidence,
    Finding,
    Fix,
    ReinstallPackage,
    RemovePackage,
    ReplacePackage,
    SetVariable,
    by_hand,
    unset,
)
from gpudoctor.frameworks.torch.installed_build import FROM_AN_INDEX
from gpudoctor.frameworks.torch.nvidia_wheels import DISTRIBUTIONS, distribution_of, family_of, stem_of, without_cuda
from gpudoctor.machine import Distribution, Library, MissingSymbols
from gpudoctor.matrix.versions import figures, major_of
from gpudoctor.situation import Situation, answer_once

FOUND_LATE = ("libnvJitLink", "libnvrtc")
"""NVIDIA's own libraries ask for these, and their RUNPATH comes after LD_LIBRARY_PATH. torch asks for all others
itself, with a DT_RPATH that comes before it (read from wheels 1.13 to 2.15 and their nvidia-* wheels)."""

PRELOADS_FROM = (2, 8)
"""From this torch on, torch loads nvJitLink from the wheel before any library asks for it (torch/__init__.py)."""

FOLDERS_SHARED_BY = ("nvidia-cudnn", "nvidia-nccl")
"""Their wheels for every CUDA major put a library of one name into one folder: the last one installed stays."""

# --- what torch was built with ---------------------------------------------------------------------


@answer_once
def pins(situation: Situation) -> dict[str, tuple[str, str]]:
    """Torch's pins, by distribution without suffix: (suffix, version); the matrix's where torch has none."""
    torch = situation.torch
    own = situation.machine.installed("torch")
    pins = {}
    for line in own.requires if own else ():
        name, equal, version = line.partition(";")[0].partition("==")
        if equal and name.startswith("nvidia-") and _is_for(situation, line):
            whole = name.strip(" (")
            base = without_cuda(whole)
            pins[base] = (whole[len(f"{base}-cu") :], version.strip(" )"))
    if not pins and torch and torch.cuda:
        number = str(major_of(torch.cuda))
        release, build = situation.matrix.torch.release(torch.version), situation.build_of(torch)
        index = release if release and release.cuda == torch.cuda else None
        cudnn = (situation.matrix.torch.cudnn_of(build) if build else None) or (index.cudnn if index else None)
        if cudnn:
            pins["nvidia-cudnn"] = (number, cudnn)
        if index and index.nccl:
            pins["nvidia-nccl"] = (number, index.nccl)
    return pins


def _is_for(situation: Situation, line: str) -> bool:
    """Whether a requirement applies to this processor."""
    _, asked, rest = line.replace(" ", "").partition("platform_machine==")
    return not asked or situation.platform == f"linux-{rest[1:].partition(rest[:1])[0]}"


def pin_of(situation: Situation, base: str) -> tuple[str, str] | None:
    """The pin of one distribution, with that of the cuda-toolkit package, which newer releases of torch require."""
    toolkit = situation.machine.installed("cuda-toolkit")
    lines = (re.match(rf"({base}(?:-cu(\d+))?)==([\d.*]+)", line) for line in (toolkit.requires if toolkit else ()))
    found = next((line for line in lines if line), None)
    return pins(situation).get(base) or ((found[2] or "", found[3]) if found else None)


def wheels_of(situation: Situation, base: str) -> tuple[Distribution, ...]:
    """The installed distributions of that name, for any CUDA."""
    return tuple(d for d in situation.machine.packages if without_cuda(d.name) == base)


def pinned_and_others(
    situation: Situation, base: str, suffix: str
) -> tuple[Distribution | None, tuple[Distribution, ...]]:
    """The installed distribution of that name for the CUDA of a pin, and those for another."""
    found, name = wheels_of(situation, base), _for_cuda(base, suffix)
    own = next((one for one in found if one.name == name), None)
    return own, tuple(one for one in found if one.name != name)


def _for_cuda(base: str, suffix: str) -> str:
    return f"{base}-cu{suffix}" if suffix else base


def wanted_version(situation: Situation, base: str) -> str | None:
    """The version of a library that torch was built with: its pin, else the wheel installed for its CUDA."""
    pin = pins(situation).get(base)
    if pin:
        return pin[1]
    major = major_of(situation.torch_cuda)
    fitting = [d for d in wheels_of(situation, base) if major and d.name in (base, f"{base}-cu{major}")]
    return fitting[0].version if fitting else None


def judged_here(situation: Situation) -> bool:
    """Whether this is a CUDA wheel of an index: other builds bring their libraries in their own way."""
    torch = situation.torch
    return torch is not None and torch.cuda is not None and torch.origin in FROM_AN_INDEX


def older(version: str | None, wanted: str | None) -> bool:
    """Whether the major or minor release is older: symbols are versioned by these."""
    if not version or not wanted:
        return False
    return figures(version)[:2] < figures(wanted)[:2]


def in_the_way(situation: Situation, stem: str) -> Library | None:
    """The library of that name that a variable puts before the wheel's own, if it could really be the one loaded."""
    for library in situation.environment.libraries.found:
        if stem_of(library.name) == stem and _may_win(situation, library):
            return library
    return None


def cudnn_in_the_way(situation: Situation) -> tuple[Library, ...]:
    """The same for cuDNN and all that it opens: libcudnn with libcudnn_ops and the others."""
    found = situation.environment.libraries.found
    return tuple(one for one in found if family_of(one.name) == "libcudnn" and _may_win(situation, one))


def missing_symbols(situation: Situation, family: str | None = None) -> Iterator[MissingSymbols]:
    """Symbols that one of NVIDIA's libraries lacks and another needs, in that family (None: in any but cuDNN's).
    After an import that worked, what the import needs does not count."""
    for one in situation.environment.missing_symbols:
        own = family_of(one.library)
        if (own == family if family else own in DISTRIBUTIONS and own != "libcudnn") and (
            one.late or not situation.torch_imported
        ):
            yield one


def _may_win(situation: Situation, library: Library) -> bool:
    if library.wins is not None:
        return library.wins
    if library.via == "LD_PRELOAD" or stem_of(library.name) in FOUND_LATE:
        return True
    own = distribution_of(library.name)
    return own is not None and not wheels_of(situation, own)


def shadow_evidence(situation: Situation, library: Library, wanted: str | None) -> tuple[Evidence, ...]:
    """The library, what leads to it, and what torch needs."""
    return (
        *library_evidence(situation, library),
        Evidence("torch needs", wanted or "unknown", "requirements of torch"),
    )


def clear_the_way(situation: Situation, library: Library) -> Fix:
    """The fix that lets the loader find the wheel's own library again."""
    if not library.via.startswith("LD_"):
        text = f"Remove the package that {library.path} belongs to, or its folder from the loader's configuration."
        return by_hand(f"Remove {library.path} from the system", text, "root")
    return without_folder(situation, library, otherwise=unset(library.via))


def reinstall_pinned(situation: Situation, base: str, version: str, why: str) -> Fix:
    """Install the pinned version of one of NVIDIA's wheels; where that is installed, write its files again."""
    suffix = (pin_of(situation, base) or ("", ""))[0]
    name = _for_cuda(base, suffix)
    found = situation.machine.installed(name)
    if found is not None and found.version == version:
        return Fix(f"Install {name} {version} again", (ReinstallPackage(name, version, why=why),))
    return Fix(f"Install {name} {version.removesuffix('.*')}", (ReplacePackage(name, f"=={version}", why=why),))


def two_in_one_folder(situation: Situation, base: str, others: tuple[Distribution, ...], pinned: str) -> Finding:
    """The finding for wheels of several CUDA majors that put one library into one folder."""
    names = ", ".join(f"{other.name} {other.version}" for other in others)
    repaired = reinstall_pinned(
        situation, base, pinned, "the other wheel overwrote its files, or took them away when it was removed"
    )
    removed: tuple[AnyRemedy, ...] = tuple(
        RemovePackage(d.name, why="it shares a folder with torch's own") for d in others
    )
    return Finding(
        severity="warning",
        message=f"{names} lies in the same folder as the {base} that torch pins ({pinned}): the one installed last "
        "is "
        "loaded.",
        saw=names,
        want=f"only {base} {pinned}",
        subject=base,
        confidence="possible",
        evidence=tuple(map(Evidence.of_package, others)),
        fixes=(
            Fix(
                f"Remove {', '.join(d.name for d in others)}, then install the pinned one again",
                (*removed, *repaired.remedies),
            ),
        ),
        refs=("rwth-i6/returnn#1802",),
        supersedes=("torch-import-fails", "packages-overwrite-each-other"),
    )


# --- fixes for a shadowed library -----------------------------------------------------------------


def library_evidence(situation: Situation, library: Library) -> tuple[Evidence, ...]:
    """The library, and the variable that leads to it."""
    found = (Evidence(library.name, library.version or "no version", library.path),)
    value = situation.variable(library.via)
    return (*found, Evidence(library.via, value, "environment")) if value is not None else found


def without_folder(situation: Situation, library: Library, otherwise: Fix) -> Fix:
    """The fix that removes a library's folder (or the library) from the variable that leads to it."""
    value = situation.variable(library.via)
    if value is None:
        return otherwise
    folder = posixpath.dirname(library.path)
    entries = [
        entry for entry in re.split(r"[:;]" if library.via == "LD_LIBRARY_PATH" else r"[:\s]+", value) if entry
    ]
    kept = [entry for entry in entries if not _leads_to(entry, library.path, folder)]
    if len(kept) == len(entries):
        kept = []
    why = f"the loader then finds the right {library.name}"
    if not kept:
        return unset(library.via, why)
    return Fix(f"Remove {folder} from {library.via}", (SetVariable(library.via, ":".join(kept), why=why),))


def _leads_to(entry: str, path: str, folder: str) -> bool:
    """Whether an entry of the variable is that folder or file; links from `cuda` to `cuda-12.4` count as one."""
    plain = posixpath.normpath(entry)
    return plain in (path, folder) or plain.replace("/cuda/", "/cuda-/") == re.sub(
        r"/cuda-[\d.]+/", "/cuda-/", folder
    )


def out_of_the_cache(library: Library) -> Fix:
    """The fix where the loader's own configuration leads to the library."""
    folder = posixpath.dirname(library.path)
    text = (
        f"Remove {folder} from the file below /etc/ld.so.conf.d that names it and run `ldconfig` as root; in an "
        "image, do it in its recipe."
    )
    return by_hand(f"Remove {folder} from the loader's configuration", text, "root")
