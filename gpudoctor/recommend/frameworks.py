"""Chooses a build of a framework beside torch from the matrix; pure.

Like torch's choice it takes the driver as it is. What another driver would allow stands in `otherwise`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gpudoctor.finding import RemovePackage, ReplacePackage
from gpudoctor.frameworks.described_packages import older_than_source, unsupported
from gpudoctor.frameworks.gpu_builds import (
    answer,
    builds_for,
    known_to_run,
    older_than_the_gpu,
    release_for,
    remedies,
    runs_here,
    supports,
    target_of,
)
from gpudoctor.frameworks.package_spec import PackageSpec
from gpudoctor.frameworks.required_release import value_of
from gpudoctor.frameworks.torch.runtime_libraries import depends_on_torch
from gpudoctor.machine import Gpu
from gpudoctor.matrix.versions import figures, major_of
from gpudoctor.planner.commands import package_commands
from gpudoctor.planner.place import place
from gpudoctor.planner.plan import steps_for_all
from gpudoctor.recommend.records import INSTRUCTIONS, BuildLevel, Out, Recommendation, Recommended
from gpudoctor.recommend.starting_point import (
    arch_names,
    change_before,
    common_notes,
    driver_fault,
    gpus_that_count,
)
from gpudoctor.situation import Situation
from gpudoctor.situation.driver_choice import driver_to_install
from gpudoctor.situation.gpu_groups import VENDORS
from gpudoctor.situation.known_issues import of_release
from gpudoctor.situation.nvidia_driver import cuda_driver, no_driver
from gpudoctor.step import PlannedFix

if TYPE_CHECKING:
    from gpudoctor.matrix.rows import Framework, FrameworkBuild, KnownIssue
    from gpudoctor.requirement import Requirement


def recommend_framework(situation: Situation, framework: Framework) -> Recommendation:
    """Choose a build of this framework for all relevant GPUs of a machine."""
    return _Choosing(situation, framework).recommendation()


class _Choosing:
    """One machine's question, with the values that are computed once."""

    def __init__(self, situation: Situation, framework: Framework) -> None:
        self.situation = situation
        self.framework = framework
        self.installed = next((one for one in situation.others if one.name == framework.framework), None)
        self.present = gpus_that_count(situation)
        self.gpus = tuple(gpu for gpu in self.present if gpu.arch.value)
        self.faults = {vendor: driver_fault(situation, self._of(vendor)) for vendor in ("nvidia", "amd")}
        self.required = tuple(one for one in situation.required if one.framework == framework.framework)
        self.rows = situation.matrix.builds_of(framework.framework)
        self.for_the_driver: set[int] = set()
        self.out = {id(row): why for row in self.rows if (why := self._why_not(row))}

    def recommendation(self) -> Recommendation:
        ordered = builds_for(self.situation, self.framework.framework, self.gpus)
        fitting = [row for row in ordered if id(row) not in self.out]
        known = [row for row in fitting if self._is_known_to_run(row)]
        for row in fitting if known else ():
            if row not in known:
                self.out[id(row)] = f"not known to have code for {arch_names(self.gpus)}"
        newest: dict[tuple[str, str | None], FrameworkBuild] = {}
        for row in known or fitting:  # an older release of a package is no choice beside its newest
            newest.setdefault((row.package, row.cuda), row)
        fitting = list(newest.values())
        served = [self._build(row) if row.install else self._by_hand(row) for row in fitting]
        chosen = (*served, *self._on_the_cpu(bool(self.gpus)))
        return Recommendation(
            choices=chosen,
            rejected=tuple(
                Out("", "", self.out[id(row)], _distribution(row)) for row in self.rows if id(row) in self.out
            ),
            gpus=self.present,
            notes=tuple(self._notes(fitting)),
            otherwise=() if served or not self.gpus else self._otherwise(),
            certain=self._certain(fitting) and (bool(known) or not fitting),
            known=bool(known) or not fitting,
            framework=self.framework.title,
        )

    def _of(self, vendor: str) -> tuple[Gpu, ...]:
        return tuple(gpu for gpu in self.gpus if gpu.vendor == vendor)

    def _why_not(self, row: FrameworkBuild) -> str:
        """Why a build is not proposed; "" if it is."""
        situation = self.situation
        ours = self._of(row.vendor)
        if not ours:
            return f"for {VENDORS[row.vendor]} GPUs"
        if situation.platform not in row.platforms:
            return f"no wheel for {situation.platform} (only for {', '.join(row.platforms)})"
        lacking = [gpu for gpu in ours if not supports(situation, row, gpu)]
        if lacking:
            return f"no code for {arch_names(lacking)}"
        if newer := [gpu for gpu in ours if older_than_the_gpu(situation, row, gpu)]:
            return f"the libraries of CUDA {row.cuda} are older than {arch_names(newer)}"
        if not row.install and any(other.install for other in self.rows if other.vendor == row.vendor):
            return "no package index has all that it needs"
        release = release_for(situation, row)
        if row.install and release is None and depends_on_torch(situation, row.install):
            return f"no release goes with {self._torch_and_python()}"
        if row.install and release is None:
            newest = f"no wheel for Python {situation.python} in its newest release"
            return f"{newest} (only for {', '.join(row.pythons)})"
        if unmet := next((one for one in self.required if not self._meets(row, one)), None):
            return f"{unmet.text} is required"
        if fault := self.faults[row.vendor]:
            self.for_the_driver.add(id(row))
            return fault
        if not runs_here(situation, row):
            self.for_the_driver.add(id(row))
            floor = situation.matrix.nvidia.floor(row.cuda or "")
            return f"{target_of(row)} needs driver {floor} or newer, and {cuda_driver(situation.machine)} is here"
        broken = (issue for issue in self._issues(row) if issue.severity == "error")
        return next((f"known issue: {issue.symptom}" for issue in broken), "")

    def _meets(self, row: FrameworkBuild, requirement: Requirement) -> bool:
        """Whether a build is what is required: the other vendor's builds need no runtime, and a person chooses the
        release of what is installed by hand."""
        runtime = requirement.name.partition(".")[2]
        if row.vendor != {"cuda": "nvidia", "rocm": "amd"}.get(runtime, row.vendor):
            return True
        value = value_of(row, self._release(row), runtime)
        return requirement.admits(value) if value else not (row.install and requirement.operator)

    def _release(self, row: FrameworkBuild) -> str:
        """The release to install; "" if none has a wheel for this Python."""
        return release_for(self.situation, row) or ""

    def _torch_and_python(self) -> str:
        torch, python = self.situation.torch, self.situation.python
        return (f"torch {torch.version}" if torch else "torch") + (f" and Python {python}" if python else "")

    def _issues(self, row: FrameworkBuild) -> tuple[KnownIssue, ...]:
        return of_release(self.situation, self.gpus, row.install, self._release(row))

    def _is_known_to_run(self, row: FrameworkBuild) -> bool:
        """Whether some GPU is known to run it; what a person installs by hand is for any GPU of NVIDIA."""
        by_hand = not row.install and row.vendor == "nvidia"
        ours = (gpu for gpu in self.gpus if supports(self.situation, row, gpu))
        return by_hand or any(known_to_run(self.situation, row, gpu) for gpu in ours)

    def _by_hand(self, row: FrameworkBuild) -> Recommended:
        what = f"{self.framework.title} for {target_of(row)}"
        why = [f"{what} ({row.package}) is installed by its own instructions: no package index has all that it needs"]
        if row.image:
            why = [f"{what} comes as the image {row.image}"]
        if row.instructions:
            why.append(f"{INSTRUCTIONS}{row.instructions}")
        return Recommended(torch=None, build=None, origin="", index_url="", level="manual", why=tuple(why))

    def _build(self, row: FrameworkBuild) -> Recommended:
        release = self._release(row)
        wanted = remedies(self.situation, self.framework.title, row, release, self.installed)
        levels = {self._level(row, gpu) for gpu in self._of(row.vendor)}
        level = next(level for level in ("unmeasured", "ptx", "native") if level in levels)
        return self._recommendation(wanted, level, self._why(row, level, release))

    def _recommendation(
        self, wanted: tuple[RemovePackage | ReplacePackage, ...], level: BuildLevel, why: Iterable[str]
    ) -> Recommended:
        return Recommended(
            torch=None,
            build=None,
            origin="pypi",
            index_url="",
            level=level,
            commands=package_commands(wanted, self.situation),
            why=tuple(why),
            package=_requirement(wanted[-1]),
        )

    def _level(self, row: FrameworkBuild, gpu: Gpu) -> BuildLevel:
        if not row.archs:
            return "unmeasured"
        runs = answer(self.situation, row, gpu)
        return "unmeasured" if runs.runs == "unknown" else "native" if runs.native else "ptx"

    def _why(self, row: FrameworkBuild, level: BuildLevel, release: str) -> Iterator[str]:
        yield f"built for {target_of(row)}"
        if row.beside:
            yield f"it uses {target_of(row)} of the system, which must be installed"
        if release != row.newest and depends_on_torch(self.situation, row.install):
            yield f"the newest release of this build, {row.newest}, does not go with {self._torch_and_python()}"
        elif release != row.newest:
            yield f"the newest release of this build, {row.newest}, has no wheel for Python {self.situation.python}"
        for issue in self._issues(row):
            yield f"known issue: {issue.symptom}. {issue.workaround}"
        if level == "ptx":
            yield "the driver compiles its code for the GPU when it is first used"
        if level == "unmeasured" and not self._is_known_to_run(row):
            yield "whether it has code for the GPU is not known: the matrix does not hold what it carries"
        yield from self._shared_libraries(row)
        yield from self._required_torch(row, release)
        if self.installed:
            yield f"{self.installed.text} is installed"

    def _shared_libraries(self, row: FrameworkBuild) -> Iterator[str]:
        major = major_of(row.cuda)
        for one in self.situation.frameworks if major else ():
            if one.name != row.framework and major_of(one.cuda) == major:
                yield f"shares its CUDA {major} libraries with the installed {one.named}"

    def _required_torch(self, row: FrameworkBuild, release: str) -> Iterator[str]:
        torch = self.situation.torch
        here = f", and {torch.version} is installed" if torch else ""
        for dependent in self.situation.matrix.tables.torch_dependents:
            if dependent.package == row.install and dependent.version == f"=={release}":
                yield f"requires torch {dependent.torch}{here}"

    def _on_the_cpu(self, beside_gpus: bool) -> Iterator[Recommended]:
        if self.framework.cpu:
            remark = "the GPUs are not used" if beside_gpus else "no usable GPU was found"
            wanted = (ReplacePackage(self.framework.cpu, self._releases()),)
            yield self._recommendation(wanted, "cpu", (remark,))

    def _releases(self) -> str:
        """The required releases, as a specifier."""
        asked = [one for one in self.required if one.name == self.framework.framework]
        return ",".join(f"{one.operator}{one.values[0]}{'.*' * (one.operator in ('==', '!='))}" for one in asked)

    def _otherwise(self) -> tuple[PlannedFix, ...]:
        """What must change before any build, or the driver that the least demanding one needs."""
        here, title, floor = place(self.situation.machine), self.framework.title, self.situation.matrix.nvidia.floor
        if fix := change_before(self.situation, self.gpus):
            return (PlannedFix(fix.title, steps_for_all(fix.remedies, here, self.situation)),)
        needy = [row for row in self.rows if row.cuda and id(row) in self.for_the_driver]
        for row in sorted(needy, key=lambda row: figures(floor(row.cuda or "") or ""))[:1]:
            install = driver_to_install(self.situation, self.gpus, cuda=row.cuda, why=self.out[id(row)])
            if install:
                release = self._release(row)
                packages = remedies(self.situation, title, row, release, self.installed)
                steps = steps_for_all((install, *packages), here, self.situation)
                return (PlannedFix(f"Driver {install.branch}, then {title}'s build for {target_of(row)}", steps),)
        return ()

    def _certain(self, fitting: list[FrameworkBuild]) -> bool:
        if not self.present:
            return self.situation.machine.buses.known
        if not self.gpus:
            return False
        machine = self.situation.machine
        asks_a_driver = any(row.cuda for row in fitting) and not no_driver(machine)
        return not asks_a_driver or cuda_driver(machine) is not None

    def _notes(self, fitting: list[FrameworkBuild]) -> Iterator[str]:
        for fault in filter(None, self.faults.values()):
            yield f"{fault[0].upper()}{fault[1:]}: nothing can use it until that is changed."
        for gpu in self.present:
            if not gpu.arch.value:
                yield f"The architecture of {gpu.name} is unknown: nothing is proposed for it."
            elif fitting and not any(supports(self.situation, row, gpu) for row in fitting):
                yield f"{gpu.name} ({gpu.arch.value}) is left out: no build that can be installed supports it."
        for row in self.situation.matrix.tables.extension_builds if self.gpus and not fitting else ():
            ours = row.package in {build.package for build in self.rows}
            if ours and all(older_than_source(row, gpu) for gpu in self.gpus):
                yield unsupported(row).text
        if self.situation.python is None:
            yield "The Python is unknown: not every build has a wheel for every Python."
        yield from common_notes(self.situation, self.gpus, (self.framework.framework,))


def _requirement(package: object) -> str:
    assert isinstance(package, ReplacePackage)
    return PackageSpec(package.name, package.specifier, package.extra).text


def _distribution(row: FrameworkBuild) -> str:
    return f"{row.with_extra if row.install else row.package} {row.newest or row.version or ''}".rstrip()
