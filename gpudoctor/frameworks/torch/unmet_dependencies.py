"""What torch and other GPU packages require and do not have: absent, outside the range, or its files gone.

Holds no checks itself.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Literal

from msgspec import Struct

from gpudoctor.dependencies import TRITONS, Required, closure, find_one, is_empty, joined_specifiers
from gpudoctor.finding import Severity
from gpudoctor.frameworks.other_frameworks import JAX_PLUGIN, refused_plugins
from gpudoctor.frameworks.torch.installed_build import FROM_AN_INDEX
from gpudoctor.frameworks.torch.nvidia_wheels import opens_beside
from gpudoctor.machine import Distribution
from gpudoctor.matrix.versions import figures
from gpudoctor.situation import Situation, answer_once

Breaks = Literal["import", "gpu", "part", "nothing"]
Problem = Literal["absent", "outside", "damaged"]

_WEIGHTS: tuple[Breaks, ...] = ("import", "gpu", "part", "nothing")


class Effect(Struct, frozen=True):
    """What breaks without a requirement: the import of `package`, GPU work, or only a part of it."""

    breaks: Breaks
    package: str
    part: str = ""
    spare: str | None = None
    """A regular expression for the names of files that nothing misses."""

    @property
    def text(self) -> str:
        """The end of a sentence: "`import torch` fails"."""
        if self.breaks == "import":
            return f"`import {self.part or self.package.replace('-', '_')}` fails"
        return "GPU work fails" if self.breaks == "gpu" else f"{self.part or self.package} fails"


class Unmet(Struct, frozen=True):
    """One requirement that is not met; `specifier` joins what all its requirers ask for."""

    name: str
    problem: Problem
    specifier: str
    by: Distribution
    found: Distribution | None
    effect: Effect
    severity: Severity
    torn: bool = False
    """No version is in the range of all that require it: `specifier` is that of `by` alone."""
    extras: tuple[str, ...] = ()
    """Those that its requirers ask for: cuda-toolkit alone has no library."""

    @property
    def wanted(self) -> str:
        """As an installer takes it: "cuda-toolkit[cublas,cudart]==13.0.3"."""
        return (
            f"{self.name}[{','.join(self.extras)}]{self.specifier}" if self.extras else f"{self.name}{self.specifier}"
        )

    @property
    def text(self) -> str:
        """An item of a list: "sympy>=1.13.3 (1.12 is installed)"."""
        if self.problem == "absent":
            return f"{self.wanted} (not installed)"
        version = self.found.version if self.found else ""
        if self.problem == "outside":
            return f"{self.name}{self.specifier} ({version} is installed)"
        return f"{self.name} {version} ({self.damage})"

    @property
    def damage(self) -> str:
        """What became of its files."""
        if self.closed:
            return "this user may not read its files"
        if self.found and self.found.emptied:
            return "its files are gone"
        cut = self.found is not None and all(file.problem == "truncated" for file in self.found.lost)
        return "files of it are cut short" if cut else "files of it are gone"

    @property
    def closed(self) -> bool:
        """Its files are there, and this user may not read them."""
        files = self.found.lost if self.found and self.problem == "damaged" else ()
        return bool(files) and all(file.problem == "unreadable" for file in files)

    @property
    def modules(self) -> tuple[str, ...]:
        """Names that an error may give: its module, or the files that are gone."""
        files = self.found.lost if self.found else ()
        return (self.name.replace("-", "_"), *(posixpath.basename(file.path) for file in files))


@answer_once
def unmet(situation: Situation) -> tuple[Unmet, ...]:
    """Every requirement that is not met, once, the worst first."""
    listed = {distribution.name: distribution for distribution in situation.machine.packages}
    if not listed:
        return ()
    required = required_here(situation)
    effects = _effects(situation, required)
    by_name: dict[str, list[Required]] = {}
    for one in required:
        by_name.setdefault(one.what.name, []).append(one)

    def judged_without(leaving: Collection[str]) -> list[Unmet]:
        asking = ((name, [one for one in several if one.by.name not in leaving]) for name, several in by_name.items())
        judged = (_judged(situation, few, effects, find_one(name, listed.get)) for name, few in asking if few)
        return [one for one in judged if one is not None]

    refused = {one.name for one in refused_plugins(situation)}
    found = judged_without(refused)
    # What is to be replaced requires something else then, unless it is required by that itself.
    leaving = {one.name for one in found if one.problem == "outside" and not _follows(situation, one)}
    left = judged_without(leaving | refused) if leaving else found
    names = {one.name for one in left}
    found = left if all(one.name in names or one.by.name in names for one in found) else found
    found += _damaged_extras(situation, listed, {one.name for one in found} | by_name.keys())
    repaired = {one.by.name for one in found if one.severity != "note"}
    found = [one for one in found if one.severity != "note" or one.by.name in repaired]
    return tuple(sorted(found, key=lambda one: (one.severity != "error", _weight(one.effect), one.name)))


def _follows(situation: Situation, one: Unmet) -> bool:
    """Whether it is the requirer that is replaced."""
    use = situation.matrix.use_of(one.name, one.by.name, one.by.version)
    return use is not None and use.follows


@answer_once
def required_here(situation: Situation) -> tuple[Required, ...]:
    """What the installed GPU packages require, and what that requires in turn."""
    by_name = {distribution.name: distribution for distribution in situation.machine.packages}
    return closure(sorted(situation.matrix.gpu_packages), by_name.get, situation.markers)


def effect_of(situation: Situation, name: str) -> Effect | None:
    """What breaks where the files of an installed package are wrong; None if no GPU package uses it."""
    effects = [effect for (_, used), effect in _effects(situation, required_here(situation)).items() if used == name]
    effects += [
        Effect(row.breaks, row.package, row.part)
        for row in situation.matrix.tables.requirement_uses
        if row.optional and row.requires == name and situation.machine.installed(row.package)
    ]
    frameworks = (package for row in situation.matrix.tables.frameworks for package in row.packages)
    if not effects and name in {*situation.matrix.gpu_packages, *frameworks}:
        effects.append(Effect("import", name, _module_of(situation, name)))
    return min(effects, key=_weight, default=None)


Effects = dict[tuple[str, str], Effect]
"""Effects by the name of the requiring package and that of the required one."""


def _effects(situation: Situation, required: Iterable[Required]) -> Effects:
    """What breaks without each requirement. What a requirement needs in turn breaks the same, unless it is known what
    breaks for the package at the root without it: jaxlib requires SciPy, and JAX does without it."""
    roots, worst, effects = situation.matrix.gpu_packages, dict[str, Effect](), Effects()
    for one in required:
        by, use = one.by, situation.matrix.use_of(one.what.name, one.by.name, one.by.version)
        inherited = worst.get(by.name) if by.name not in roots else None
        root = situation.machine.installed(inherited.package) if use is None and inherited is not None else None
        if root is not None and root.name != by.name:
            by, use = root, situation.matrix.use_of(one.what.name, root.name, root.version)
        if use is not None:
            part = use.part or (_module_of(situation, by.name) if use.breaks == "import" else "")
            effect = Effect(use.breaks, by.name, part, use.spare)
        elif one.by.name in roots or one.by.name not in worst:
            effect = Effect("part", one.by.name)
        else:
            effect = worst[one.by.name]
        effects[one.by.name, one.what.name] = effect
        known = worst.get(one.what.name)
        if known is None or _weight(effect) < _weight(known):
            worst[one.what.name] = effect
    return effects


def _module_of(situation: Situation, package: str) -> str:
    """The module by which a framework's package is imported: "cupy" of cupy-cuda13x; "" if that is not known."""
    rows = situation.matrix.tables.frameworks
    return next((row.module.partition(".")[0] for row in rows if package in row.packages), "")


def _weight(effect: Effect) -> int:
    return _WEIGHTS.index(effect.breaks)


def _judged(
    situation: Situation, several: list[Required], effects: Effects, found: Distribution | None
) -> Unmet | None:
    name, blamed = several[0].what.name, several
    effect = min((effects[one.by.name, name] for one in several), key=_weight)
    problem: Problem = "absent" if found is None else "damaged"
    if found is None and (name == "torch" or not _is_absent(situation, name)):
        return None
    if found is not None and found.twins:
        return None  # package-installed-twice tells which of them is to stay
    if found is not None and not _missed(found, effect):
        problem = "outside"
        blamed = [one for one in several if not (one.what.admits(found.version) or _judged_elsewhere(situation, one))]
        # Of two releases in one folder package-installed-twice tells which is to stay, and so what is required.
        blamed = [one for one in blamed if not (one.by.twins or _does_as_well(situation, one, found))]
        effect = min((effects[one.by.name, name] for one in blamed), key=_weight, default=effect)
    if effect.breaks == "import" and situation.imported(effect.package):
        if problem == "outside":
            return None  # it works; another release may not (JAX 0.4.23 asks for no limit, and fails with NumPy 2.4)
        effect = Effect("part", effect.package, f"what uses it in {effect.package}", effect.spare)
    if not blamed or (problem != "damaged" and not any(_by_its_records(situation, one.by) for one in blamed)):
        return None
    extras = tuple(sorted({extra for one in several for extra in one.what.extras}))
    torch = situation.torch
    if extras and problem == "absent" and effect.breaks == "nothing" and torch is not None and torch.needs_libraries:
        effect = Effect("gpu", effect.package)  # the libraries that its extras bring are not there either
    severity = _severity(situation, problem, effect, found)
    if severity is None:
        return None
    from gpudoctor.frameworks.gpu_builds import cuda_release

    asked = (*(one.what.specifier for one in several), cuda_release(situation, name))
    specifier = joined_specifiers(asked)
    torn = problem == "outside" and is_empty(specifier)
    if torn:
        specifier = blamed[0].what.specifier
    return Unmet(
        found.name if found else name, problem, specifier, blamed[0].by, found, effect, severity, torn, extras
    )


def _missed(found: Distribution, effect: Effect) -> bool:
    """Whether files are gone that something misses."""
    names = (posixpath.basename(file.path) for file in found.lost)
    return any(effect.spare is None or not re.fullmatch(effect.spare, name) for name in names)


def _is_absent(situation: Situation, name: str) -> bool:
    return name in situation.environment.not_installed


def _judged_elsewhere(situation: Situation, one: Required) -> bool:
    """Whether another check compares these versions."""
    if one.what.name == "torch":
        from gpudoctor.frameworks.torch.compiled_packages import has_own_check

        return has_own_check(situation, one.by.name)
    if re.fullmatch(JAX_PLUGIN, one.by.name):
        return True  # jax-plugin-mismatch compares all of them with jaxlib
    of_rocm = one.what.name.endswith("-rocm")  # triton-too-old compares what the package index has
    return (one.what.name in TRITONS and not of_rocm) or one.what.name.startswith("nvidia-")


def _does_as_well(situation: Situation, one: Required, found: Distribution) -> bool:
    """Whether the package only refuses an older release than the one that it pins, and this one is newer."""
    use = situation.matrix.use_of(one.what.name, one.by.name, one.by.version)
    pinned = one.what.specifier.removeprefix("==")
    return use is not None and use.newer and figures(found.version) > figures(pinned)


def _by_its_records(situation: Situation, by: Distribution) -> bool:
    """Whether what a package requires is installed as its records say. conda, distributions and images bring it under
    other names: there only an import that failed counts."""
    torch = situation.torch
    if torch is None:
        return by.installer != "conda"
    if torch.trial.value is not None and not torch.trial.value.ok:
        return True
    return by.installer != "conda" and torch.origin in (*FROM_AN_INDEX, "nightly", "amd")


def _severity(situation: Situation, problem: Problem, effect: Effect, found: Distribution | None) -> Severity | None:
    torch = situation.torch
    if effect.breaks == "import":
        return "error"
    if effect.breaks == "nothing":
        return "note" if problem == "absent" else None  # told, and installed, only beside what breaks something
    if effect.breaks == "gpu" and effect.package not in _of_torch(situation):
        return "error" if situation.usable else "warning"
    if effect.breaks == "part" or torch is None:
        return "warning"
    if torch.needs_libraries:
        return "error"
    if problem == "absent":
        # Where none of NVIDIA's wheels is installed, the libraries come from the system, and were found there.
        return "warning" if _has_nvidia_wheels(situation) else None
    computed = bool(situation.usable) and all(situation.computed(gpu) for gpu in situation.usable)
    return "warning" if computed or (found is not None and _elsewhere(situation, found, effect)) else "error"


def _elsewhere(situation: Situation, package: Distribution, effect: Effect) -> bool:
    """Whether the loader finds a package's libraries outside the wheels, since those here are gone. One that is cut
    short is still the one that is loaded, and one of an older release lacks what torch was compiled for."""
    found = situation.environment.libraries.found
    outside = [library.name for library in found if not _is_older(library.version or "", package.version)]
    lost = {posixpath.basename(file.path): file.problem for file in package.lost if ".so" in file.path}
    missed = [name for name in lost if effect.spare is None or not re.fullmatch(effect.spare, name)]
    served = (lost[name] == "missing" and any(opens_beside(one, name) for one in outside) for name in missed)
    return bool(missed) and all(served)


def _is_older(version: str, than: str) -> bool:
    """Of two releases of one major; the files of some libraries have numbers of their own, and wheels longer ones."""
    own, other = figures(version), figures(than)
    return own[:1] == other[:1] and own < other[: len(own)]


def _of_torch(situation: Situation) -> frozenset[str]:
    """torch and what it requires itself, cuda-toolkit above all: its kernels show whether that does its work."""
    return frozenset(("torch", *(one.what.name for one in required_here(situation) if one.by.name == "torch")))


def _has_nvidia_wheels(situation: Situation) -> bool:
    return any(distribution.name.startswith("nvidia-") for distribution in situation.machine.packages)


def _damaged_extras(situation: Situation, listed: dict[str, Distribution], known: set[str]) -> Iterator[Unmet]:
    """What torch uses without requiring it, and what is installed but damaged."""
    for row in situation.matrix.tables.requirement_uses:
        found, by = listed.get(row.requires), listed.get(row.package)
        if row.optional and by and found and found.lost and found.name not in known:
            effect = Effect(row.breaks, row.package, row.part)
            yield Unmet(found.name, "damaged", "", by, found, effect, "warning")


@answer_once
def needed_packages(situation: Situation) -> frozenset[str]:
    """Packages with GPU code, and what they require."""
    return situation.matrix.gpu_packages.union(one.what.name for one in required_here(situation))


def needed_first(situation: Situation, packages: Iterable[Distribution]) -> list[Distribution]:
    """Packages in the order in which their faults are told: torch, what else GPU work needs, the others."""
    return sorted(packages, key=lambda one: (one.name not in needed_packages(situation), one.name != "torch"))


def explains(situation: Situation, names: Iterable[str]) -> bool:
    """Whether an unmet requirement explains an error that names these modules or libraries."""
    tops = {name.partition(".")[0] for name in names} | set(names)
    problems = [one for one in unmet(situation) if one.severity == "error"]
    libraries = any(".so" in name for name in names) and any(
        one.name.startswith("nvidia-") or one.extras for one in problems
    )
    return libraries or any(not tops.isdisjoint(one.modules) for one in problems)
