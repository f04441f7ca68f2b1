"""What installing and removing packages makes of the examined environment."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import cast

from msgspec.structs import replace

from gpudoctor.dependencies import TRITONS, normalised, requirements_here
from gpudoctor.finding import (
    AllowExecution,
    PackageRemedy,
    ReinstallPackage,
    RemovePackage,
    ReplacePackage,
    ReplaceTorch,
    UnsetVariable,
)
from gpudoctor.frameworks.torch.coverage import DEVICE_WHEEL
from gpudoctor.frameworks.torch.nvidia_wheels import distribution_of, without_cuda
from gpudoctor.frameworks.torch.torch_by_version import torch_of_build
from gpudoctor.machine import Distribution, Machine, PythonEnvironment, Torch, TorchOrigin, absent, known
from gpudoctor.matrix.versions import figures, just_below, local_version, major_of, package_matches
from gpudoctor.planner.effects import SOURCE
from gpudoctor.planner.effects.frameworks import after_installing
from gpudoctor.planner.effects.variables import imported_anew
from gpudoctor.planner.effects.variables import machine_after as without_variable
from gpudoctor.planner.install_requests import rivals
from gpudoctor.situation import Situation

_AHEAD = ("PYTHONPATH", ".pth")
"""`TorchCopy.via` of copies that no installer of the environment replaces."""
_TORCHS_OF_AMD = "amd-torch-"
"""How the packages begin that AMD's torch has beside it, those with device code among them."""


def machine_after(situation: Situation, remedy: PackageRemedy) -> Machine | None:
    """The machine with the packages of its environment changed; None where that cannot be told beforehand."""
    environment = situation.machine.environment.value
    if environment is None:
        return None
    of_torch = isinstance(remedy, ReplaceTorch) or normalised(remedy.name) == "torch"
    if of_torch and (hidden_by := _hidden_by(environment)):
        if hidden_by != "PYTHONPATH" or isinstance(remedy, RemovePackage):
            return situation.machine
        situation = situation.on(without_variable(situation, UnsetVariable("PYTHONPATH")))  # its steps begin so
        environment = situation.environment
    after = _environment_after(situation, environment, remedy)
    if after is None:
        return None
    machine = situation.machine
    if of_torch:
        machine = replace(machine, smoke=None, errors=())  # of another torch
    return machine.with_environment(imported_anew(after))


def _environment_after(
    situation: Situation, environment: PythonEnvironment, remedy: PackageRemedy
) -> PythonEnvironment | None:
    if isinstance(remedy, ReplaceTorch):
        return _with_build(situation, environment, remedy)
    after: PythonEnvironment | None
    if isinstance(remedy, ReplacePackage):
        after = _with_package(environment, remedy)
    elif isinstance(remedy, ReinstallPackage):
        after = _whole_again(environment, remedy)
    else:
        after = _without(situation, environment, remedy.name)
    if after is None:
        return None
    name, extra = normalised(remedy.name), remedy.extra if isinstance(remedy, ReplacePackage) else ""
    new = after.distribution(name)
    after = after_installing(situation, after, name, version=new.version if new else "", extra=extra)
    return _with_distributions(after, _libraries_of(situation, name, extra, after)) if extra else after


def _hidden_by(environment: PythonEnvironment) -> str:
    """What puts another torch before that of the environment: whatever is installed there, Python imports that."""
    torch = environment.torch.value
    ways = [copy.via for copy in torch.copies] if torch else []
    return ways[0] if ways and ways[0] in _AHEAD and "site" in ways[1:] else ""


def brings_unread_files(situation: Situation, remedy: PackageRemedy) -> bool:
    """Whether a GPU package gets its files back after none of them was there: what they need could not be read."""
    environment = situation.environment
    if not isinstance(remedy, ReinstallPackage):
        return False
    name = normalised(remedy.name)
    before = environment.distribution(name)
    read = any(normalised(one.package) == name for one in environment.extensions)
    lost = before is not None and (before.unlinked or before.emptied)
    return lost and not read and name in situation.matrix.gpu_packages


def allowed_to_execute(situation: Situation, remedy: AllowExecution) -> Machine:
    """The machine with these programs of its packages ready to run."""
    machine, environment = situation.machine, situation.environment
    listed = tuple(
        replace(one, damaged=tuple(file for file in one.damaged if file.path not in remedy.paths))
        for one in machine.packages
    )
    after = replace(environment, distributions=replace(environment.distributions, value=listed))
    return machine.with_environment(after)


def installed_by(specifier: str) -> str:
    """A version that an installer may choose for a specifier; "" where it says none."""
    clauses = [re.fullmatch(r"\s*(~=|==|>=|<=|<|>|!=)\s*([^\s,]+)\s*", clause) for clause in specifier.split(",")]
    bounds: dict[str, str] = {}
    for operator, version in (found.groups() for found in clauses if found):
        tightest = max if ">" in operator else min  # several packages may ask for it
        bounds[operator] = tightest(bounds.get(operator, version), version, key=figures)
    for operator in ("==", "~=", "<=", ">="):
        if operator in bounds:
            return bounds[operator].removesuffix(".*")
    if "<" in bounds:
        return just_below(bounds["<"])
    return f"{bounds['>']}.1" if ">" in bounds else ""


# --- torch -------------------------------------------------------------------------------------------


def _with_build(
    situation: Situation, environment: PythonEnvironment, remedy: ReplaceTorch
) -> PythonEnvironment | None:
    if remedy.version.startswith(">"):
        return None  # conda-forge's own choice
    version = f"{remedy.version}+{remedy.build}"
    torch = torch_of_build(version, cast(TorchOrigin, remedy.origin), SOURCE, remedy.build)
    before = environment.distribution("torch")
    own = version if remedy.index_url else remedy.version
    had = environment.torch.value
    kept = had is not None and had.cuda == torch.cuda
    installed = [Distribution(name="torch", version=own, requires=_pins(before) if kept else ())]
    local = f"+{remedy.build}" if remedy.index_url else ""
    installed += [
        Distribution(name=name, version=version.removesuffix(".*") + local) for name, version in remedy.companions
    ]
    devices = (extra.removeprefix("device-") for extra in remedy.extra.split(",") if extra)
    installed += [Distribution(name=f"{DEVICE_WHEEL}{gfx}", version=remedy.version) for gfx in devices]
    row = situation.matrix.torch.companion(remedy.version)
    if row and row.triton and remedy.build != "cpu":
        name = (row.triton_rocm_package if torch.rocm and not remedy.extra else None) or "triton"
        installed.append(Distribution(name=name, version=row.triton.removeprefix("==")))

    removed = {one.name for one in rivals(situation, remedy)}

    def goes(one: Distribution) -> bool:
        return one.name in TRITONS or one.name in removed or one.name.startswith(_TORCHS_OF_AMD)

    after = _with_distributions(environment, installed, without=goes)
    for name, _ in remedy.companions:
        after = _without_old_facts(after, name)
    after = replace(after, torch_remains=(), missing_symbols=() if not kept else after.missing_symbols)
    return after.with_torch(known(torch, SOURCE))


def _pins(torch: Distribution | None) -> tuple[str, ...]:
    """What another build of the same CUDA pins, as far as the installed one tells."""
    return tuple(line for line in torch.requires if line.startswith("nvidia")) if torch else ()


# --- any package --------------------------------------------------------------------------------------


def _with_package(environment: PythonEnvironment, remedy: ReplacePackage) -> PythonEnvironment | None:
    name = normalised(remedy.name)
    if name == "torch":
        return None
    before = environment.distribution(name)
    if before is not None and _stays(before, remedy):
        return _without_old_facts(environment, name) if remedy.extra else environment
    version = installed_by(remedy.specifier) + (f"+{remedy.local}" if remedy.local else "")
    new = Distribution(name=name, version=version or (before.version if before else ""), installer="pip")
    return _without_old_facts(_with_distributions(environment, [new]), name)


def _stays(before: Distribution, remedy: ReplacePackage) -> bool:
    """Whether an installer leaves the package with its files, whole or not, and brings at most the extra's."""
    if before.lacks or not package_matches(remedy.specifier, before.version):
        return False
    written_anew = remedy.specifier.startswith("==") and not remedy.extra
    return not written_anew and remedy.local in ("", local_version(before.version))


def _libraries_of(situation: Situation, name: str, extra: str, after: PythonEnvironment) -> Iterator[Distribution]:
    """NVIDIA's packages that an extra brings and that are not there yet, as far as installed metadata tells: the
    package's own, and that of another with an extra in turn (jax-cuda12-plugin[with-cuda]). A release for another
    CUDA brings none of those that are named after the old one."""
    new, builds = after.distribution(name), situation.matrix.tables.framework_builds
    releases = (row for row in builds if new and row.package == name and row.cuda and row.version)
    cuda = next((row.cuda for row in releases if new and package_matches(row.version or "", new.version)), None)

    def of_another(library: str) -> bool:
        number = library.rpartition("-cu")[2]
        return cuda is not None and number.isdecimal() and int(number) != major_of(cuda)

    pending, done = [(name, frozenset(extra.split(",")))], set[str]()
    while pending:
        owner, extras = pending.pop()
        package = situation.machine.installed(owner)
        done.add(owner)
        for one in requirements_here(package, situation.markers, extras) if package else ():
            if one.name.startswith("nvidia-") and after.distribution(one.name) is None and not of_another(one.name):
                yield Distribution(name=one.name, version=installed_by(one.specifier), installer="pip")
            elif one.extras and one.name not in done:
                pending.append((one.name, frozenset(one.extras)))


def _whole_again(environment: PythonEnvironment, remedy: ReinstallPackage) -> PythonEnvironment:
    name = normalised(remedy.name)
    before = environment.distribution(name)
    if before is not None:  # of two records the one of that release
        before = next((one for one in (before, *before.twins) if one.version == remedy.version), before)
    again = (
        replace(
            before, damaged=(), emptied=False, lacks=(), runtimes=(), made_for="", unlinked=False, strays=(), twins=()
        )
        if before
        else None
    )
    after = _with_distributions(
        environment, [again or Distribution(name=name, version=remedy.version, installer="pip")]
    )
    if name != "torch":
        healed = _without_old_facts(after, name)
        if before is None or before.version != remedy.version:
            return healed
        # The same files need the same libraries: only those of the package's own are there again.
        own = tuple(
            replace(one, missing=tuple(each for each in one.missing if normalised(each.owner) != name))
            for one in after.extensions
            if normalised(one.package) == name
        )
        return replace(healed, extensions=(*healed.extensions, *own))
    return replace(after.with_torch(known(_whole(after, remedy), SOURCE)), torch_remains=())


def _whole(environment: PythonEnvironment, remedy: ReinstallPackage) -> Torch:
    torch = environment.torch.value
    # The package index names its own builds without the local part: 2.9.1 brings the files of 2.9.1+cu128 back.
    if torch is None or remedy.version not in (torch.version, torch.release):
        build = local_version(remedy.version)
        return torch_of_build(remedy.version, "unknown" if build else "pypi", SOURCE, build)
    copies = tuple(copy for copy in torch.copies if copy.version == torch.version)[:1] or torch.copies[:1]
    return replace(torch, damaged=(), unloadable=(), needs_libraries=(), copies=copies)


def _without(situation: Situation, environment: PythonEnvironment, name: str) -> PythonEnvironment:
    name = normalised(name)
    before = environment.distribution(name)
    if before is not None and before.twins:
        return environment  # an installer removes one record and its files; those of the other are mixed with them
    shared = situation.matrix.shared_folder
    folder = shared(name)
    listed = tuple(
        replace(one, emptied=True) if folder and shared(one.name) == folder else one
        for one in environment.packages
        if one.name != name
    )
    after = replace(environment, distributions=replace(environment.distributions, value=listed))
    if name == "torch":
        return after.with_torch(absent(SOURCE))
    return _without_old_facts(after, name)


def _without_old_facts(environment: PythonEnvironment, name: str) -> PythonEnvironment:
    """What was read of a package's old files says nothing of the new ones."""
    module = name.replace("-", "_")
    of_nvidia = name.startswith("nvidia-") or name == "cuda-toolkit"
    symbols = tuple(
        one for one in environment.missing_symbols if not of_nvidia and f"/{module}/" not in one.needed_by
    )
    if of_nvidia and environment.torch.value:  # the libraries that torch asks for are in these packages
        environment = environment.with_torch_facts(needs_libraries=())
    owner = environment.triton_owner
    if name in TRITONS:
        owner = name if environment.distribution(name) else ""
    extensions = tuple(one for one in environment.extensions if normalised(one.package) != name)
    if of_nvidia:  # what other packages asked for may be in it
        base = without_cuda(name)
        extensions = tuple(
            replace(one, missing=tuple(each for each in one.missing if distribution_of(each.name) != base))
            for one in extensions
        )
    return replace(environment, extensions=extensions, missing_symbols=symbols, triton_owner=owner)


def _with_distributions(
    environment: PythonEnvironment,
    new: Iterable[Distribution],
    without: Callable[[Distribution], bool] = lambda one: False,
) -> PythonEnvironment:
    """The environment with these distributions in the place of those of their names."""
    by_name = {one.name: one for one in environment.packages if not without(one)}
    by_name.update((one.name, one) for one in new)
    listed = tuple(sorted(by_name.values(), key=lambda one: one.name))
    missing = tuple(name for name in environment.not_installed if name not in by_name)
    interrupted = tuple(one for one in environment.interrupted if one.name not in by_name)
    return replace(environment, distributions=known(listed, SOURCE), not_installed=missing, interrupted=interrupted)
