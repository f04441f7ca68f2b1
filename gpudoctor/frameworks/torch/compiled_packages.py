"""Packages that were compiled against a torch: which one, and what to install instead.

Holds no checks itself.
"""

from __future__ import annotations

import re

from gpudoctor.dependencies import requirements_here
from gpudoctor.finding import Evidence, Severity
from gpudoctor.frameworks.torch.installed_build import FROM_AN_INDEX
from gpudoctor.machine import Distribution, Extension, Torch
from gpudoctor.machine.torch import COMPANIONS
from gpudoctor.matrix.rows.packages import TorchDependent
from gpudoctor.matrix.versions import figures, local_version, major_of, package_matches, public_version
from gpudoctor.situation import Situation, answer_once
from gpudoctor.situation.extensions import alternatives

_STATED = r"(?:torch-?(?=\d+\.)|\+pt(?=\d{2,3}[a-z]))(\d)\.?(\d+)"
"""A torch in a version or in the name of a wheel: "torch2.8", "+pt28cu128"."""


def has_own_check(situation: Situation, package: str) -> bool:
    """Whether a check for this package alone says for which torch it was compiled."""
    rows = situation.matrix.tables.torch_dependents
    own = (row.package == package and row.slug != "extension-torch-mismatch" for row in rows)
    return package in COMPANIONS or any(own)


def stated_torch(installed: Distribution) -> re.Match[str] | None:
    """The torch that the version of a package, or the name of its wheel, says that it was compiled for."""
    return re.search(_STATED, f"{installed.version} {installed.direct_url.rpartition('/')[2]}")


def tells_its_torch(installed: Distribution) -> bool:
    """Whether nothing but the version of a package can tell its torch, and does."""
    return installed.only_named and stated_torch(installed) is not None


def built_for(situation: Situation, installed: Distribution) -> tuple[str, str]:
    """The torch that a package was compiled for, as a specifier, and where that was read; ("", "") if unknown."""
    if stated := stated_torch(installed):
        return f"=={stated[1]}.{stated[2]}.*", installed.direct_url or installed.version
    release = situation.torch.version if situation.torch else ""
    for asked in requirements_here(installed, situation.markers):
        # A range that this torch lies in does not tell the one that it was compiled for.
        if asked.name == "torch" and (asked.specifier.startswith("==") or not asked.admits(release)):
            return re.sub(r"\+[\w.]+", "", asked.specifier), f"requirements of {installed.name}"
    if installed.built_for_torch and unloadable(situation, installed.name):
        # A library with a stable interface also loads beside another torch: the record counts where it does not.
        return f"=={public_version(installed.built_for_torch)}", f"the build record of {installed.name}"
    if local_version(installed.version) or installed.direct_url:
        return "", ""
    row = dependent_row(situation, installed)
    return (row.torch, f"compat_matrix: {row.source}") if row else ("", "")


def dependent_row(situation: Situation, installed: Distribution) -> TorchDependent | None:
    """What the matrix says of this release of a package that is compiled against torch."""
    rows = (row for row in situation.matrix.tables.torch_dependents if row.package == installed.name)
    return next((row for row in rows if package_matches(row.version, installed.version)), None)


def cuda_needed(situation: Situation, package: str) -> str | None:
    """The major release of CUDA that an installed package certainly needs, since the version of a wheel for another
    one would tell it; None: not known."""
    installed = situation.machine.installed(package)
    if installed is None or local_version(installed.version) or installed.direct_url:
        return None
    row = dependent_row(situation, installed)
    return row.cuda if row and row.tagged else None


def needs_other_cuda(situation: Situation, installed: Distribution, torch: Torch) -> bool:
    """Whether that is another CUDA than torch's, or torch is for ROCm: nothing brings its runtime along. What its
    libraries miss tells more where they were read."""
    cuda = cuda_needed(situation, installed.name)
    return bool(cuda and (torch.cuda or torch.rocm)) and major_of(cuda) != major_of(torch.cuda)


def torch_mismatch(situation: Situation, package: str, compiled: tuple[str, ...] = ()) -> Severity | None:
    """How much it weighs that an installed package was compiled for another torch: another patch release often works,
    and so does one whose libraries, in the packages `compiled`, are for this torch. None: no mismatch is known."""
    torch, installed = situation.torch, situation.machine.installed(package)
    if torch is None or installed is None or torch.origin not in FROM_AN_INDEX:
        return None
    if any(unloadable(situation, one) for one in (package, *compiled)):
        return "error"
    release = torch.release
    wanted = built_for(situation, installed)[0] if re.fullmatch(r"[\d.]+", release) else ""
    if not wanted or package_matches(wanted, release):
        return "error" if installed.only_named and needs_other_cuda(situation, installed, torch) else None
    line = figures(re.sub(r"[^\d.].*$", "", wanted.lstrip("=<>~! ")))[:2]
    loads = any(one.of_torch and one.package in compiled for one in situation.machine.extensions)
    return "warning" if loads or (wanted.startswith("==") and line == figures(release)[:2]) else "error"


@answer_once
def unloadable(situation: Situation, package: str) -> tuple[Extension, ...]:
    """Libraries of a package that need symbols which this torch does not define. Where several are made for one
    place, all of them must lack some."""
    own = [one for one in situation.machine.extensions if one.package == package and one.of_torch]
    groups = alternatives(own).values()
    return tuple(group[0] for group in groups if all(one.undefined for one in group))


def symbol_evidence(lacking: tuple[Extension, ...]) -> tuple[Evidence, ...]:
    """What shows that libraries were built for another torch."""
    return tuple(Evidence("undefined symbols", " ".join(one.undefined), one.path) for one in lacking[:3])
