"""Chooses a torch build for a machine from the matrix; pure.

Unlike a fix it takes the driver as it is. It proposes nothing that the present driver or a GPU cannot run, and lists
separately what another driver would allow.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.finding import Fix, InstallDriver, Manual, ReplaceTorch, SetVariable
from gpudoctor.frameworks.torch.builds import Choice, RejectedCandidate, candidates, gpus_to_serve
from gpudoctor.frameworks.torch.candidates import INSTALLABLE, merely_built
from gpudoctor.frameworks.torch.coverage import without_overrides
from gpudoctor.frameworks.torch.gpu_coverage import disturbs, fits, visible_as
from gpudoctor.frameworks.torch.hsa_override import override_fixes
from gpudoctor.frameworks.torch.nearest_build import nearest, replace_torch
from gpudoctor.frameworks.torch.other_origins import Place, conda_cuda, fixes_elsewhere, place_of
from gpudoctor.frameworks.torch.replacements import on_another_system, replacements
from gpudoctor.machine import OVERRIDE, Gpu, Torch
from gpudoctor.matrix.versions import figures
from gpudoctor.planner.commands import commands_for
from gpudoctor.planner.place import place
from gpudoctor.planner.plan import steps_for_all
from gpudoctor.recommend.after_install import once_installed, without_its_issues
from gpudoctor.recommend.companions import instructions, left_out, with_companions
from gpudoctor.recommend.records import Out, Recommendation, Recommended
from gpudoctor.recommend.starting_point import (
    arch_names,
    common_notes,
    driver_fault,
    driver_refusal,
    gpus_that_count,
    too_new_for_the_kernel,
)
from gpudoctor.situation import Situation
from gpudoctor.situation.c_library import c_library
from gpudoctor.situation.driver_choice import (
    choice_before_torch,
    driver_name,
    driver_needs,
    driver_options,
    driver_to_install,
    left_without_a_driver,
)
from gpudoctor.situation.gpu_groups import gpu_names
from gpudoctor.situation.issue_findings import remarks_on_torch
from gpudoctor.situation.kernel_modules import kernel_too_old, kernel_with_the_chip
from gpudoctor.situation.nvidia_driver import cuda_driver, no_driver
from gpudoctor.situation.wsl import needed_in_wsl
from gpudoctor.step import PlannedFix


def recommend(situation: Situation, *, companions: tuple[str, ...] = ()) -> Recommendation:
    """Choose for all relevant GPUs of a machine; `companions` are installed along with torch."""
    return _Choosing(situation, companions).recommendation()


class _Choosing:
    """One machine's question, with the values that are computed once."""

    def __init__(self, situation: Situation, companions: tuple[str, ...]) -> None:
        self.situation = situation
        self.machine = machine = situation.machine
        self.matrix = situation.matrix
        self.companions = companions
        self.keep = situation.torch
        self.present = gpus_that_count(situation)
        known = tuple(gpu for gpu in self.present if gpu.arch.value)
        self.gpus = gpus_to_serve(situation, known) if known else ()
        self.place = place_of(machine, self.keep)
        self.driver = cuda_driver(machine)
        self.fault = driver_fault(situation, self.gpus)
        self.native, self.rejected = self._candidates(self.gpus)
        if self.fault:
            self.native = ()

    def recommendation(self) -> Recommendation:
        choices = self._choices()
        certain = self._certain()
        served = any(choice.level != "cpu" for choice in choices)
        return Recommendation(
            choices=tuple(choices),
            rejected=self._out(choices),
            gpus=self.present,
            notes=tuple(self._notes()),
            otherwise=() if served or not self.gpus else self._otherwise(),
            certain=certain,
            undriven=left_without_a_driver(self.situation, self.gpus),
        )

    # --- the choices -------------------------------------------------------------------------------

    def _choices(self) -> list[Recommended]:
        if self.gpus and self.place in ("jetson", "ngc", "nix"):
            # An index may have a wheel for this very board; an NGC image or a Nix environment takes none.
            board = [self._build(choice) for choice in self.native[:1] if self.place == "jetson"]
            return board or [self._by_hand(fix, self.place) for fix in self._elsewhere()]
        if self.gpus and self.place == "conda" and (own := self._from_conda()):
            return [own]
        if not self.gpus:
            return self._on_the_cpu()
        found = [self._build(choice, *why) for choice, *why in self._different(self.native)]
        sound = any(choice.origin != "amd" and not merely_built(choice) for choice in self.native)
        if not sound and not self.fault:
            found += self._overrides(bool(self.native))
        if self.place == "source":
            found += [self._by_hand(fix, "source") for fix in self._elsewhere()]
        return found + self._on_the_cpu()

    def _different(self, choices: tuple[Choice, ...]) -> list[tuple[Choice, str]]:
        """The best build, and those that differ from it in kind, each with its difference."""
        sound = [choice for choice in choices if not merely_built(choice)]
        best = next(iter(sound), None)
        newest = "newest release that works" + (" for all these GPUs" if len(self.gpus) > 1 else " here")
        found: list[tuple[Choice, str]] = [(best, newest)] if best else []
        spared = without_its_issues(self.situation, best, sound) if best else ()
        found += [(choice, "without the known issue of the build above") for choice in spared]
        half_served = best is not None and best.driver == "minor-version"
        without_linalg = best is not None and best.linalg == "no"
        of_amd = best is not None and best.origin == "amd"
        kinds = (
            ("the driver fully supports its CUDA", [c for c in sound if half_served and c.driver == "serves"]),
            ("all of torch.linalg runs on it", [c for c in sound if without_linalg and c.linalg != "no"]),
            ("keeps the installed version", list(self._same_version())),
            ("the package index's own build: needs no other index", [c for c in sound if not c.index_url]),
            ("from torch's own index", [c for c in sound if of_amd and c.origin == "download.pytorch.org"]),
            ("nobody supports it yet", [c for c in choices if merely_built(c)]),
        )
        for why, pool in kinds:
            first = next(iter(pool), None)
            taken = {(choice.version, choice.build) for choice, _ in found}
            if first and (first.version, first.build) not in taken:
                found.append((first, why))
        return found

    def _same_version(self) -> tuple[Choice, ...]:
        if self.keep is None:
            return ()
        kept = tuple(c for c in self.native if c.version == self.keep.release)
        return nearest(self.situation, kept, self.keep)

    def _build(self, choice: Choice, *remarks: str) -> Recommended:
        remedies = replace_torch(self.situation, choice, self.companions)
        why = [*remarks, *choice.why, *left_out(self.situation, choice.version, remedies, self.companions)]
        if choice.origin == "pypi" and choice.cuda:
            why.append(f"the package index's own {choice.version} is the build for CUDA {choice.cuda}")
        if choice.origin == "amd":
            why.append(f"AMD's own index; the extra {choice.extra} chooses the device code")
        if self.keep and self.keep.is_build(choice.version, choice.build):
            why.append("this build is installed")
        before = without_overrides(self.situation) if choice.rocm else self.situation
        if overrides := sorted(self.machine.variables.keys() - before.machine.variables.keys()):
            why.append(f"unset {', '.join(overrides)}: native code is not used under an override")
        changed = once_installed(before, remedies)
        if choice.level != "cpu":
            why += self._remarks(changed, choice.fault)
        hiding, reason = self._hiding(changed)
        behind_windows, beside = needed_in_wsl(self.situation, choice.rocm) if choice.rocm else ({}, ())
        env = dict(choice.fault_variables) | behind_windows | hiding
        return Recommended(
            torch=choice.version,
            build=choice.build,
            origin=choice.origin,
            index_url=choice.index_url,
            level=choice.level,
            env=env,
            commands=commands_for(remedies, self.situation, env=env, apart=self._apart),
            why=(*why, *beside, *reason),
        )

    def _remarks(self, after: Situation, fault: str) -> list[str]:
        """What `check` will note of this build; `fault` is already told."""
        told = [found.message for found in remarks_on_torch(after)]
        return [f"{text[0].lower()}{text[1:]}" for text in told if not fault or fault.partition(" (")[0] not in text]

    def _hiding(self, after: Situation) -> tuple[dict[str, str], tuple[str, ...]]:
        """The variables that keep programs from GPUs that disturb beside this build, and why they are needed."""
        all_fits = fits(after)
        served = tuple(fit.gpu for fit in all_fits if fit.served)
        disturbing = tuple(fit.gpu for fit in all_fits if fit.fails and disturbs(after, fit.gpu))
        settings = visible_as(after, served) if served and disturbing else ()
        if not settings:
            return {}, ()
        return dict(settings), (f"has no code for {gpu_names(disturbing)}: {settings[-1][0]} hides it",)

    @property
    def _apart(self) -> bool:
        """Whether a wheel needs its own venv, because another tool owns the torch here."""
        return self.place in ("conda", "distribution")

    def _overrides(self, needless: bool) -> list[Recommended]:
        """At most one: code for the generation's listed target, with the override that it needs; a risky one
        only if nothing is native."""
        policies = [self.matrix.amd.override(gpu.arch.value) for gpu in self.gpus]
        if needless and any(policy is None or policy.safety == "risky" for policy in policies):
            return []
        found = []
        for fix in override_fixes(self.situation, self.gpus, self.keep):
            torch = next((r for r in fix.remedies if isinstance(r, ReplaceTorch)), None)
            settings = [r for r in fix.remedies if isinstance(r, SetVariable)]
            held = {n: v for n, v in self.machine.variables.items() if n.startswith(OVERRIDE) and v}
            env = {**held, **{setting.name: setting.value for setting in settings}}
            version, build = (torch.version, torch.build) if torch else _release_and_build(self.keep)
            why = [fix.title, *dict.fromkeys(setting.why for setting in settings)]
            remedies = fix.remedies
            if torch is None:
                why.append("the installed torch has that code")
            else:
                remedies = with_companions(self.situation, remedies, torch, self.companions)
                why += left_out(self.situation, torch.version, remedies, self.companions)
            hiding, reason = self._hiding(once_installed(self.situation, remedies))
            env |= hiding
            why += reason
            found.append(
                Recommended(
                    torch=version,
                    build=build,
                    origin=torch.origin if torch else self.keep.origin if self.keep else "",
                    index_url=torch.index_url if torch else "",
                    level="override",
                    env=env,
                    commands=commands_for(remedies, self.situation, env=env, apart=self._apart),
                    why=tuple(why),
                )
            )
        return found

    def _by_hand(self, fix: Fix, origin: Place) -> Recommended:
        texts = tuple(remedy.text for remedy in fix.remedies if isinstance(remedy, Manual))
        why = (f"{fix.title}.", *texts, *instructions(origin, self.companions))
        return Recommended(torch=None, build=None, origin=origin, index_url="", level="manual", why=why)

    def _on_the_cpu(self) -> list[Recommended]:
        choices, _ = self._candidates(())
        named = [choice for choice in choices if choice.index_url] or list(choices)
        remark = "no usable GPU was found" if self.machine.buses.known else "runs with and without a GPU"
        remark = "the GPUs are not used" if self.present else remark
        return [self._build(choice, remark) for choice in named[:1]]

    def _elsewhere(self) -> tuple[Fix, ...]:
        return fixes_elsewhere(self.place, self.situation, self.gpus, self.keep)

    def _from_conda(self) -> Recommended | None:
        """conda-forge's own build, if conda owns the torch of this environment."""
        cuda = conda_cuda(self.situation, self.gpus)
        if cuda is None or self.fault or any(gpu.vendor != "nvidia" for gpu in self.gpus):
            return None
        wanted = tuple((name, "") for name in self.companions)  # the solver pairs them
        remedy = ReplaceTorch(
            version=">=2.0", build=cuda, origin="conda-forge", companions=wanted, carries="by its recipe"
        )
        return Recommended(
            torch=None,
            build=cuda,
            origin="conda-forge",
            index_url="",
            level="native",
            commands=commands_for((remedy,), self.situation),
            why=(
                "conda owns the torch of this environment: a wheel over it would mix two installs",
                f"{cuda}: the CUDA releases that know {arch_names(self.gpus)} and that the driver runs",
            ),
        )

    # --- builds that are not proposed ----------------------------------------------------------------

    def _out(self, choices: list[Recommended]) -> tuple[Out, ...]:
        """Every other build of the matrix, once, and why it is not proposed."""
        chosen = {(choice.torch, choice.build) for choice in choices}
        best = next((f"{c.torch}+{c.build}" for c in choices if c.torch), "")
        places = {"ngc": "an NGC image", "nix": "a Nix environment", "jetson": "a Jetson", "conda": "conda"}
        owner = places.get(self.place) if best == "" else None
        reasons: dict[tuple[str, str], str] = {}
        for row in self.rejected:
            kind = row.why.partition(":")[0]
            unused = "no usable GPU was found" if not self.present else "no GPU's architecture is known"
            why = row.why if self.gpus or row.because != "vendor" else f"{kind}, and {unused}"
            reasons.setdefault((row.torch, row.build), why)
        for choice in self._candidates(self.gpus)[0] if self.fault else ():  # they serve but for the driver
            reasons[(choice.version, choice.build)] = self.fault
        for choice in self.native:
            also = f"would also run; {best} is preferred" if best else "would also run"
            why = f"known issue: {choice.fault}" if choice.fault else also
            reasons[(choice.version, choice.build)] = f"not installed into {owner}" if owner else why
        platform = self.situation.platform
        for build in self.matrix.torch.builds():
            if build.origin in INSTALLABLE:
                only = f"no wheel for {platform} (only for {build.platform})"
                reasons.setdefault((build.version, build.build), only)
        rows = ((key, why) for key, why in reasons.items() if key not in chosen)
        ordered = sorted(rows, key=lambda item: figures(item[0][0]), reverse=True)
        return tuple(Out(torch=version, build=build, why=why) for (version, build), why in ordered)

    def _otherwise(self) -> tuple[PlannedFix, ...]:
        """What would have to change first: the driver, the Python, one environment for each GPU."""
        choose = choice_before_torch(self.situation, self.gpus)
        fixes = [choose] if choose else [self._after_the_driver(fix) for fix in self._other_builds()]
        here = place(self.machine)
        return tuple(PlannedFix(fix.title, steps_for_all(fix.remedies, here, self.situation)) for fix in fixes)

    def _other_builds(self) -> list[Fix]:
        return [
            fix
            for fix in replacements(self.situation, self.gpus, keep=self.keep)
            if not any(
                (isinstance(r, SetVariable) and r.name.startswith(OVERRIDE))
                or (isinstance(r, ReplaceTorch) and r.build == "cpu")
                for r in fix.remedies
            )
        ]

    def _after_the_driver(self, fix: Fix) -> Fix:
        if not self.fault or any(isinstance(remedy, InstallDriver) for remedy in fix.remedies):
            return fix
        for gpu in self.gpus:
            if too_new_for_the_kernel(self.situation, gpu):
                kernel = kernel_with_the_chip(self.situation, kernel_too_old(self.situation, gpu))[0]
                return Fix(f"{kernel.title}, then: {fix.title}", (*kernel.remedies, *fix.remedies))
        install = driver_to_install(self.situation, self.gpus, why=self.fault)
        if install is None:
            return fix
        return Fix(f"Driver {install.branch}, then: {fix.title}", (install, *fix.remedies))

    # --- facts behind the choice ------------------------------------------------------------------------

    def _candidates(self, gpus: tuple[Gpu, ...]) -> tuple[tuple[Choice, ...], tuple[RejectedCandidate, ...]]:
        return candidates(self.situation, gpus, driver=self.driver)

    def _certain(self) -> bool:
        if self.place in ("jetson", "ngc", "nix") and self.gpus:
            return True
        if not self.present:
            return self.machine.buses.known
        if any(not gpu.arch.value for gpu in self.present if not gpu.integrated) or not self.gpus:
            return False
        asked = any(gpu.vendor == "nvidia" for gpu in self.gpus) and not no_driver(self.machine)
        return not (asked and self.native and all(choice.driver == "unknown" for choice in self.native))

    def _notes(self) -> Iterator[str]:
        if self.fault:
            yield f"{self.fault[0].upper()}{self.fault[1:]}: no torch can use it until that is changed."
        if not self.present and not self.machine.buses.known:
            yield f"Whether there is a GPU is unknown ({self.machine.buses.why or 'not probed'})."
        yield from self._left_out()
        yield from self._about_the_driver()
        if self.situation.python is None:
            yield "The Python is unknown: not every build has a wheel for every Python."
        if self._apart and self.native:
            owner = "conda" if self.place == "conda" else "The distribution"
            yield f"{owner} owns the torch of this environment: the wheel goes into a venv of its own."
        if not self.gpus and not self.native:
            yield from self._on_another_system()
        yield from common_notes(self.situation, self.gpus, ("torch", "rocm"))

    def _left_out(self) -> Iterator[str]:
        """GPUs that the choice is not for."""
        for gpu in self.present:
            if not gpu.arch.value:
                yield f"The architecture of {gpu.name} is unknown: nothing is proposed for it."
            elif gpu not in self.gpus:
                why = "integrated" if gpu.integrated else "no build supports it, or only without the others"
                yield f"{gpu.name} ({gpu.arch.value}) is left out: {self._without_a_driver(gpu) or why}."

    def _about_the_driver(self) -> Iterator[str]:
        """What the choice assumes of NVIDIA's driver where that is not known."""
        if not any(gpu.vendor == "nvidia" for gpu in self.gpus):
            return
        if no_driver(self.machine):
            if driver := driver_to_install(self.situation, self.gpus):
                yield f"No NVIDIA driver is loaded: this is chosen for {driver_name(driver)}."
        elif self.driver is None and not self._certain():
            yield "The driver's version is unknown: each choice names the oldest driver that it needs."

    def _on_another_system(self) -> list[str]:
        fixes = on_another_system(c_library(self.situation), self.rejected)
        return [remedy.text for fix in fixes for remedy in fix.remedies if isinstance(remedy, Manual)]

    def _without_a_driver(self, gpu: Gpu) -> str:
        """Why a GPU is left out that the present driver does not run."""
        if not (why := driver_refusal(self.situation, gpu)) or gpu.vendor == "amd":
            return why
        others = ", and no single driver supports all GPUs" if driver_options(self.situation) else ""
        return f"{why}; it needs {driver_needs(self.matrix, gpu)}{others}"


def _release_and_build(torch: Torch | None) -> tuple[str | None, str | None]:
    return (torch.release, torch.build) if torch else (None, None)
