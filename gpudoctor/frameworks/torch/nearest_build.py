"""Picks the build to install: of the installed version, or the nearest to it."""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec.structs import replace

from gpudoctor.dependencies import parsed
from gpudoctor.finding import AnyRemedy, Fix, ReplaceTorch, SetVariable, UnsetVariable
from gpudoctor.frameworks.torch.candidates import Choice, merely_built, within_version
from gpudoctor.frameworks.torch.companions import pairing
from gpudoctor.machine import OVERRIDE, UNKNOWN_VERSION, Torch
from gpudoctor.matrix.questions import Matrix
from gpudoctor.records import view_as
from gpudoctor.situation import Situation
from gpudoctor.situation.wsl import needed_in_wsl


def nearest(situation: Situation, choices: tuple[Choice, ...], keep: Torch | None) -> tuple[Choice, ...]:
    """The choices to offer: of the version to keep, else of the nearest newer one, else of the newest older one. The
    torch of equal machines beside this one comes before the one to keep.

    What an extra or a group of the project asks for comes before both. Choices without a known fault on this machine
    come first. At most one supported build is offered, and after it one
    that nobody supports, if only that keeps the version or nothing else exists.
    """
    keep, matrix = situation.peer_torch or keep, situation.matrix
    peer = situation.peer_torch
    if peers := [choice for choice in choices if peer and peer.is_build(choice.version, choice.build)]:
        choices = tuple(peers)
    elif declared := _by_option(situation, choices):
        choices = declared
    own = project_indexes(situation)
    offered = [_sound(matrix, [c for c in choices if not merely_built(c)], keep, own)]
    built = _sound(matrix, [c for c in choices if merely_built(c)], keep, own)
    if built and (offered[0] is None or (keep and _distance(built, keep) < _distance(offered[0], keep))):
        offered.append(built)
    return tuple(choice for choice in offered if choice)


def _by_option(situation: Situation, choices: tuple[Choice, ...]) -> tuple[Choice, ...]:
    """The choices that an extra or a group of the project asks for, each from its own index: a sync with that option
    installs one of them, and changes no file of a person."""
    lines = [one for one in situation.environment.torch_asked if one.index and (one.extra or one.group)]
    asked = [(one.index.rstrip("/"), what) for one in lines if (what := parsed(one.requirement))]

    def is_asked_for(choice: Choice) -> bool:
        return any(index == choice.index_url.rstrip("/") and what.admits(choice.version) for index, what in asked)

    return tuple(filter(is_asked_for, choices)) if asked else ()


def project_indexes(situation: Situation) -> frozenset[str]:
    """The indexes that a project names for torch."""
    return frozenset(line.index.rstrip("/") for line in situation.environment.torch_asked if line.index)


def _sound(matrix: Matrix, choices: list[Choice], keep: Torch | None, own: frozenset[str]) -> Choice | None:
    """The nearest choice without a known fault, and the one that it replaces; else the nearest choice. A fault of the
    kept release itself, on any GPU, is no reason to leave that release; and a fault of one of its ROCm builds is none
    of the CUDA build that is kept."""
    first = _nearest(matrix, choices, keep, own)
    same_kind = bool(first and keep and bool(first.rocm) == bool(keep.rocm or keep.hip))
    if first and keep and same_kind and first.fault_of_release and _distance(first, keep) == (0, ()):
        return first
    best = _nearest(matrix, [choice for choice in choices if not choice.fault], keep, own)
    if first is None or best is None or not first.fault:
        return best or first
    report = re.search(r"(?<=\()[\w.-]+/[\w.-]+#\d+", first.fault)
    return replace(best, passed_over=f"{first.version}+{first.build}: known issue{f' {report[0]}' if report else ''}")


def _nearest(matrix: Matrix, choices: list[Choice], keep: Torch | None, own: frozenset[str]) -> Choice | None:
    """The nearest build; among equally good ones for the driver, an index in `own` takes precedence."""
    if not choices:
        return None
    if keep is None:
        return choices[0]
    closest = min(_distance(choice, keep) for choice in choices)
    pool = [choice for choice in choices if _distance(choice, keep) == closest]
    ranked = ((within_version(matrix, choice), choice) for choice in pool)
    best = min(ranked, key=lambda one: (one[0][0], one[1].index_url.rstrip("/") not in own, one[0]))[1]
    if best.index_url or best.version != keep.release:
        return best
    # A plain ==X over another build of X changes nothing: take the same build from the index that names it.
    named = [choice for choice in pool if choice.index_url and choice.build == best.build]
    return named[0] if named else best


def _distance(choice: Choice, keep: Torch) -> tuple[int, tuple[int, ...]]:
    """0 for the kept version, 1 for newer ones (smaller is nearer), 2 for older ones (newer is nearer)."""
    return _apart(choice.version, keep.version)


@lru_cache(maxsize=1024)  # there are several builds of every version
def _apart(version: str, keep: str) -> tuple[int, tuple[int, ...]]:
    from packaging.version import InvalidVersion, Version

    offered = Version(version)
    try:
        kept = Version(Version(keep).public)
    except InvalidVersion:
        return (1, tuple(-n for n in offered.release))
    if offered == kept:
        return (0, ())
    if offered > kept:
        return (1, offered.release)
    return (2, tuple(-n for n in offered.release))


def fix_by(situation: Situation, choice: Choice, keep: Torch | None) -> Fix:
    """One choice as a fix, with the installed companions."""
    remedies = replace_torch(situation, choice)
    if choice.rocm:
        overrides = sorted(name for name in situation.machine.variables if name.startswith(OVERRIDE))
        why = "the build has code for the GPU itself, which the override would keep it from using"
        remedies += tuple(UnsetVariable(name=name, why=why) for name in overrides)
        remedies += settings_in_wsl(situation, choice.rocm)
    name = f"torch {choice.version}+{choice.build}" if choice.index_url else f"torch {choice.version}"
    place = " from AMD's index" if choice.origin == "amd" else "" if choice.index_url else " from the package index"
    cuda = "" if choice.index_url else f"CUDA {choice.cuda}; "
    untested = "; built, but not tested by AMD" if merely_built(choice) else ""
    fault = f"; known issue: {choice.fault}" if choice.fault else ""
    instead = f"; not {choice.passed_over}" if choice.passed_over else ""
    remark = f" ({cuda}{choice.carries or 'CPU'}{untested}{fault}{instead})"
    verb = f"Replace torch {keep.version} with" if keep and keep.version != UNKNOWN_VERSION else "Install"
    if keep and keep.is_build(choice.version, choice.build):
        verb = "Complete"
    return Fix(title=f"{verb} {name}{place}{remark}", remedies=remedies)


def settings_in_wsl(situation: Situation, rocm: str) -> tuple[SetVariable, ...]:
    """The variables that a build for that ROCm needs inside WSL."""
    variables, _ = needed_in_wsl(situation, rocm)
    why = f"ROCm {rocm} looks behind /dev/dxg only with this variable"
    return tuple(SetVariable(*setting, why=why) for setting in variables.items())


def replace_torch(situation: Situation, choice: Choice, also: tuple[str, ...] = ()) -> tuple[AnyRemedy, ...]:
    """The remedy that installs a choice, and what else its companions (installed ones, and `also`) need."""
    companions, others = pairing(situation, choice, also)
    return (view_as(ReplaceTorch, choice, companions=companions), *others)
