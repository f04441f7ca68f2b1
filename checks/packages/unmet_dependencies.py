"""Whether what torch and other GPU packages require is installed whole (GPD432)."""

from __future__ import annotations

import posixpath

from gpudoctor.check import Verdicts
from gpudoctor.dependencies import TRITONS
from gpudoctor.finding import Evidence, Finding, Fix, ReinstallPackage, ReplacePackage, by_hand
from gpudoctor.frameworks.torch import check
from gpudoctor.frameworks.torch.unmet_dependencies import Unmet, unmet
from gpudoctor.matrix.versions import figures
from gpudoctor.plain_text import enumeration
from gpudoctor.situation import Situation

_MOST_NAMED = 5
_EFFECTS = ("torch-import-fails", "framework-import-fails", "python-dev-missing", "no-gpu")


@check("GPD432", "requirements-incomplete", "packages")
def requirements_incomplete(situation: Situation) -> Verdicts:
    """What torch or another GPU package requires is missing or emptied.

    ## Why it matters
    `import torch` fails without typing-extensions and without NVIDIA's libraries, torch.compile without Triton or
    SymPy. Removing a package of CUDA 13 also takes files away that its twin for CUDA 12 owns.

    ## How it is judged
    By the requirements in the packages' own metadata, with their markers, and by theirs in turn. Extras that nothing
    asks for do not count. A package is emptied if its RECORD names modules and libraries that are not there. It is
    an error if an import or GPU work fails without it, else a warning; so are libraries that the loader finds outside
    the wheels. What conda, a distribution or an image brings is not compared by name, and a module that lies on the
    import path without a record counts as installed.

    ## Fix safety
    Installs the missing packages, and the emptied ones again in the same version. torch stays as it is.
    """
    problems = unmet(situation)
    if not problems:
        return
    requirers = tuple(dict.fromkeys(one.effect.package for one in problems))
    named = enumeration([one.text for one in problems], _MOST_NAMED)
    worst = tuple(one for one in problems if one.severity == problems[0].severity)
    effects = tuple(dict.fromkeys(map(_effect, worst)))[:3]
    root = situation.machine.installed(requirers[0])
    yield Finding(
        severity=problems[0].severity,
        message=f"{_installed(situation, requirers)} need{'s' * (len(requirers) == 1)} {named}: "
        f"{', '.join(effects)}.",
        saw=", ".join(one.text for one in problems),
        want=", ".join(one.wanted for one in problems),
        subject=f"{root.name} {root.version}" if root else requirers[0],
        confidence="certain" if all(one.problem != "outside" for one in worst) else "likely",
        evidence=tuple(_evidence(one) for one in problems[:10]),
        fixes=_fixes(situation, problems),
        supersedes=_EFFECTS if problems[0].severity == "error" else (),
    )


def _effect(one: Unmet) -> str:
    """What comes of it. A part may work with a release that its packages do not ask for, and GPU work that was seen
    to work finds the libraries elsewhere."""
    text = one.effect.text
    works = one.severity == "warning" and (one.problem == "outside" or one.effect.breaks == "gpu")
    return text.removesuffix("fails") + "may fail" if works else text


def _installed(situation: Situation, names: tuple[str, ...]) -> str:
    found = ((name, situation.machine.installed(name)) for name in names)
    return " and ".join(f"{name} {one.version}" if one else name for name, one in found)


def _evidence(one: Unmet) -> Evidence:
    if one.found is None:
        return Evidence(one.name, "no record, and no module on the import path", one.by.path)
    first = one.found.lost[0].path if one.problem == "damaged" else one.found.path
    return Evidence(one.name, f"{one.found.version} ({one.problem})", first)


def _fix(situation: Situation, problems: tuple[Unmet, ...]) -> Fix:
    from gpudoctor.situation.import_order import remedy_for_path, remedy_title

    for one in problems:
        path = "" if one.found is None or remedy_for_path(situation, one.by.path, "") else one.found.path
        remedy = remedy_for_path(situation, path, "Python finds these packages before those of this environment")
        if remedy is not None:
            return Fix(remedy_title(remedy), (remedy,))
    missing = sum(one.problem == "absent" for one in problems)
    closed = tuple(one for one in problems if one.closed)
    if len(closed) == len(problems):
        folders = " and ".join(posixpath.dirname(one.found.damaged[0].path) for one in closed if one.found)
        text = (
            f"Give this user the right to read {folders} and what is below, or run as the owner of the environment."
        )
        return by_hand("Give this user access", text)
    problems = tuple(one for one in problems if not one.closed)
    title = "Install what is missing" if missing == len(problems) else "Install these packages again"
    remedies = [_remedy(situation, one) for one in problems]
    return Fix(title, tuple(sorted(remedies, key=lambda remedy: isinstance(remedy, ReinstallPackage))))


def _fixes(situation: Situation, problems: tuple[Unmet, ...]) -> tuple[Fix, ...]:
    newer = _of_this_cuda(situation, problems) or _newer_requirers(problems)
    if newer and all(one.torn for one in problems):
        return newer
    return (_fix(situation, problems), *newer)


def _of_this_cuda(situation: Situation, problems: tuple[Unmet, ...]) -> tuple[Fix, ...]:
    """The fix where a package is named for another CUDA than that of torch, and so are the releases that it needs."""
    requirers = {one.by.name for one in problems if one.torn}
    from gpudoctor.frameworks.torch.release_for_torch import for_cuda_of_torch

    instead = for_cuda_of_torch(situation, requirers)
    return (instead,) if instead else ()


def _newer_requirers(problems: tuple[Unmet, ...]) -> tuple[Fix, ...]:
    """The fix where no version of a package is in the range of all that require it: newer releases of those."""
    torn = [one for one in problems if one.torn]
    names = tuple(dict.fromkeys(one.by.name for one in torn if one.by.name != "torch"))
    if not names:
        return ()
    found = ", ".join(f"{one.name} {one.found.version}" for one in torn if one.found)
    text = f"Install a release of {', '.join(names)} that admits {found}: pip install --upgrade {' '.join(names)}"
    return (by_hand(f"Use another release of {', '.join(names)}", text, "replaces"),)


def _remedy(situation: Situation, one: Unmet) -> ReplacePackage | ReinstallPackage:
    index = _index(situation) if one.name in TRITONS else ""
    why = f"{one.by.name} requires it"
    use = situation.matrix.use_of(one.name, one.by.name, one.by.version)
    if one.problem == "outside" and one.found is not None and use is not None and use.follows:
        release = ".".join(map(str, figures(one.found.version)[:2]))
        return ReplacePackage(one.by.name, f"=={release}.*", why=f"the release of {one.name} {one.found.version}")
    if one.problem == "damaged" and one.found is not None:
        return ReinstallPackage(one.name, one.found.version, index_url=index, why=f"{why}, and {one.damage}")
    extra = ",".join(one.extras)
    return ReplacePackage(one.name, one.specifier, index_url=index, why=why, indirect=True, extra=extra)


def _index(situation: Situation) -> str:
    """The index of this torch, which alone has the Triton of a ROCm build."""
    torch = situation.torch
    row = situation.build_of(torch)
    return situation.matrix.torch.index_url(row) if row else ""
