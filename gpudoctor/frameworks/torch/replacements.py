"""Fixes with another torch, best first: derived from hardware, driver, Python and platform.

They never depend on the wrong build that is installed, except to keep its version if a build of it works.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from gpudoctor.finding import Finding, Fix, ReplaceTorch, by_hand, together
from gpudoctor.frameworks.torch.candidates import Choice, RejectedCandidate, candidates
from gpudoctor.frameworks.torch.coverage import carries
from gpudoctor.frameworks.torch.gpus_to_serve import gpus_to_serve
from gpudoctor.frameworks.torch.hsa_override import override_fixes
from gpudoctor.frameworks.torch.nearest_build import fix_by, nearest, replace_torch
from gpudoctor.frameworks.torch.other_origins import fixes_elsewhere, place_of
from gpudoctor.frameworks.torch.programs_with_torch import with_the_program
from gpudoctor.machine import ASSUMED, Gpu, Torch, archs_of, unknown
from gpudoctor.matrix.questions import Matrix
from gpudoctor.matrix.versions import figures
from gpudoctor.situation import Situation, answer_once
from gpudoctor.situation.c_library import MUSL, c_library
from gpudoctor.situation.driver_choice import choice_before_torch, driver_to_install
from gpudoctor.situation.gpu_groups import gpu_names, group_by
from gpudoctor.situation.known_issues import speaks_against
from gpudoctor.situation.rocm_driver import current_driver, rocm_driver

Refused = tuple[RejectedCandidate, ...]


@answer_once
def replacements(situation: Situation, gpus: tuple[Gpu, ...], *, keep: Torch | None) -> tuple[Fix, ...]:
    """Fixes that give these GPUs a torch they can use, best first; never empty.

    Native builds come before overrides, overrides before the CPU. `keep` is the installed torch. Its version stays
    if a build of it supports all the GPUs on this driver.
    """
    place = place_of(situation.machine, keep)
    special = fixes_elsewhere(place, situation, gpus, keep)
    if place in ("ngc", "nix"):
        return special
    if choice := choice_before_torch(situation, gpus):
        return (choice,)
    if unnamed := [gpu for gpu in gpus if gpu.arch.value is None]:
        return special or (_name_first(unnamed[0], keep),)
    found = [carries(situation, gpu) for gpu in gpus]
    faulty = any("no" in (item.runs, item.blas) for item in found)
    choices, rejected = _choices(situation, gpus, keep if faulty else None)
    hide = _hiding_the_others(situation, gpus)
    if place in ("jetson", "conda"):
        best = nearest(situation, choices, keep)[:1]
        native = tuple(_with(hide, fix_by(situation, choice, keep)) for choice in best)
        if situation.on_jetson and native:
            return native  # an index has a wheel for this very board
        return special or native or (_nothing(situation.matrix, gpus),)
    offered = _with_limits(situation, gpus, keep, nearest(situation, choices, keep), rejected)
    modest = _modest_driver(situation, gpus)
    program = [*with_the_program(situation, gpus, keep, driver=modest)] if modest else []
    program = program or [*with_the_program(situation, gpus, keep)]
    ours = [*program, *(fix_by(situation, choice, keep) for choice in offered)]
    ours += [] if program else _the_program_after_the_driver(situation, gpus, keep)
    if not special and not ours:
        ours += _after_another_change(situation, gpus, keep, rejected)
    ours += override_fixes(situation, gpus, keep)
    fixes = [*special, *(fix if fix.by_hand else _with(hide, fix) for fix in dict.fromkeys(ours))]
    works = any(item.via_override for item in found) and all(item.runs == "yes" for item in found)
    if works and not fixes:
        text = "Keep the override: no released build supports this GPU itself, and this torch works under it."
        return (by_hand("Keep the override", text),)
    if not fixes:
        fixes.append(
            for_each_kind(situation, gpus, keep) if len(_kinds(gpus)) > 1 else _nothing(situation.matrix, gpus)
        )
    if not works and (any(gpu.vendor == "amd" for gpu in gpus) or not any(_installs(fix) for fix in fixes)):
        fixes += _on_the_cpu(situation, keep)
    return tuple(fixes)


def _choices(situation: Situation, gpus: tuple[Gpu, ...], faulty: Torch | None) -> tuple[tuple[Choice, ...], Refused]:
    """The builds to choose from, without the present one if that is faulty: files weigh more than a row of the
    matrix. It stays where device code can be added to it."""
    choices, rejected = candidates(situation, gpus)
    if modest := _modest_driver(situation, gpus):
        choices = candidates(situation, gpus, driver=modest)[0] or choices
    if faulty:
        choices = tuple(one for one in choices if one.extra or not faulty.is_build(one.version, one.build))
    return choices, rejected


def _hiding_the_others(situation: Situation, gpus: tuple[Gpu, ...]) -> Fix | None:
    """What keeps a process from GPUs that a build for `gpus` leaves out and that would make programs fail."""
    from gpudoctor.frameworks.torch.gpu_coverage import disturbs, show_only

    beside = (gpu for gpu in situation.usable_of(gpus[0].vendor) if gpu not in gpus) if gpus else ()
    disturbing = tuple(gpu for gpu in beside if disturbs(situation, gpu))
    return show_only(situation, gpus, disturbing) if disturbing else None


def _with(other: Fix | None, fix: Fix) -> Fix:
    return together(fix, other) if other else fix


def _modest_driver(situation: Situation, gpus: tuple[Gpu, ...]) -> str | None:
    """Where a text names no driver: the oldest that runs the GPUs, CUDA 12 and the present torch. A build for it
    works on most machines, one for the newest driver on few. None: the driver is known."""
    machine, matrix = situation.machine, situation.matrix
    assumed = machine.nvidia.module.source == ASSUMED
    if machine.pasted is None or not assumed or not all(gpu.vendor == "nvidia" for gpu in gpus):
        return None
    firsts = (matrix.nvidia.first_driver(gpu.arch.value, gpu.chip, gpu.pci_id) for gpu in gpus)
    serves = matrix.nvidia.bundled_driver(situation.torch_cuda) if situation.torch_cuda else None
    return max(filter(None, (*firsts, matrix.nvidia.floor("12.0"), serves)), key=figures, default=None)


def without_fault(situation: Situation, has_fault: Callable[[Choice], bool]) -> tuple[Fix, ...]:
    """Fixes with another build for the GPUs that the present one is used on, which does not have its fault, the
    nearest first. None where another tool than pip or uv owns torch."""
    keep, vendor = situation.torch, situation.built_for
    if keep is None or vendor is None or place_of(situation.machine, keep) not in ("index", "distribution"):
        return ()
    gpus = gpus_to_serve(situation, situation.usable_of(vendor))
    choices = candidates(situation, gpus)[0] if gpus else ()
    sound = tuple(choice for choice in choices if not has_fault(choice))
    return tuple(fix_by(situation, choice, keep) for choice in nearest(situation, sound, keep))


def without_issue(situation: Situation, found: Finding) -> Finding:
    """The finding of a known issue of this torch; a build that does not have it is a fix before a person's work.
    Where the row names releases of torch, other builds of the same release were not seen to be without it."""
    row = next(row for row in situation.matrix.tables.known_issues if row.id == found.subject)
    only_by_hand = all(fix.by_hand for fix in found.fixes)
    if found.severity == "note" or not only_by_hand or not (row.when.torch or row.when.rocm or row.when.cuda):
        return found
    own = situation.torch.release if situation.torch and row.when.torch else ""
    others = without_fault(situation, lambda choice: choice.version == own or speaks_against(row, situation, choice))
    return replace(found, fixes=(*others, *found.fixes))


def _with_limits(
    situation: Situation, gpus: tuple[Gpu, ...], keep: Torch | None, offered: tuple[Choice, ...], rejected: Refused
) -> tuple[Choice, ...]:
    """The choices; the first says which nearer build the configuration of pip or uv excludes."""
    whys = {(item.torch, item.build): item.why for item in rejected if item.because == "installer"}
    if not whys or not offered or offered[0].passed_over:
        return offered
    everything, _ = candidates(situation, gpus, unconstrained=True)
    for best in nearest(situation, everything, keep)[:1]:
        if why := whys.get((best.version, best.build)):
            return (replace(offered[0], passed_over=f"{best.version}+{best.build}: {why}"), *offered[1:])
    return offered


def _after_another_change(
    situation: Situation, gpus: tuple[Gpu, ...], keep: Torch | None, rejected: Refused
) -> list[Fix]:
    """Fixes that another configuration of the installer, driver, Python or C library would allow."""
    if any(item.because == "installer" for item in rejected):
        return _outside_the_limits(situation, gpus, keep, rejected)
    fixes: list[Fix] = []
    if any(item.because == "driver" for item in rejected):
        fixes, refused = _after_the_driver(situation, gpus, keep, rejected)
        rejected += refused
    if not fixes and (python := situation.python):
        anywhere, refused = candidates(situation, gpus, any_python=True)
        rejected += refused
        for choice in nearest(situation, anywhere, keep)[:1]:
            other = _nearest_python(python, choice.pythons)
            index = f" --index-url {choice.index_url}" if choice.index_url else ""
            extra = f"[{choice.extra}]" if choice.extra else ""
            wheel = f"torch{extra}=={choice.version}" + (f"+{choice.build}" if choice.index_url else "")
            text = (
                f"torch {choice.version}+{choice.build} supports the GPUs here ({choice.carries}), but has no "
                f"wheel for Python {python}: make a new environment with Python {other} and install it there: "
                f'`python -m pip install{index} "{wheel}"`.'
            )
            fixes.append(by_hand("Make a new environment with another Python", text))
    if not fixes and any(item.because == "required" for item in rejected):
        return _outside_the_limits(situation, gpus, keep, rejected)
    return fixes or [*on_another_system(c_library(situation), rejected)]


def _after_the_driver(
    situation: Situation, gpus: tuple[Gpu, ...], keep: Torch | None, rejected: Refused
) -> tuple[list[Fix], Refused]:
    """The fixes that another kernel driver would allow, and the builds that even that one does not run."""
    if all(gpu.vendor == "amd" for gpu in gpus):
        machine, present = situation.machine, rocm_driver(situation)
        there = situation.on(replace(machine, amd=replace(machine.amd, module=unknown("it is to be installed"))))
        choices, refused = candidates(there, gpus)
        # An older kernel driver than the present one need not know the GPUs.
        choices = tuple(
            choice
            for choice in choices
            if present and not situation.matrix.amd.rocm_driver_is_newer(choice.rocm or "", present.release)
        )
        return [
            _with_driver(situation, current_driver(situation, choice.rocm or ""), choice)
            for choice in nearest(situation, choices, keep)[:1]
        ], refused
    why = "no torch build for these GPUs runs on the present driver"
    driver = driver_to_install(situation, gpus, cuda=_oldest_cuda(situation, rejected), why=why)
    if driver is None:
        return [], ()
    choices, refused = candidates(situation, gpus, driver=driver.minimum)
    install = Fix(f"Driver {driver.branch}", (driver,))
    return [_with_driver(situation, install, choice) for choice in nearest(situation, choices, keep)[:1]], refused


def _the_program_after_the_driver(situation: Situation, gpus: tuple[Gpu, ...], keep: Torch | None) -> list[Fix]:
    """A newer driver, if no release of a program that chooses its torch runs on the present one."""
    why = "no release of a program here runs on the present driver"
    driver = driver_to_install(situation, gpus, why=why)
    if driver is None:
        return []
    fixes = with_the_program(situation, gpus, keep, driver=driver.minimum)
    return [together(Fix(f"Driver {driver.branch}", (driver,)), fix) for fix in fixes]


def _with_driver(situation: Situation, install: Fix, choice: Choice) -> Fix:
    title = f"{install.title}, then torch {choice.version}+{choice.build}"
    return Fix(title, (*install.remedies, *replace_torch(situation, choice)))


def _oldest_cuda(situation: Situation, rejected: Refused) -> str | None:
    """The oldest CUDA of the builds that only the driver rules out."""
    builds = {(item.torch, item.build) for item in rejected if item.because == "driver"}
    rows = (row for row in situation.matrix.torch.builds(situation.platform) if (row.version, row.build) in builds)
    return min((row.cuda for row in rows if row.cuda), key=figures, default=None)


def _outside_the_limits(
    situation: Situation, gpus: tuple[Gpu, ...], keep: Torch | None, rejected: Refused
) -> list[Fix]:
    """What a person has to change where the configuration of pip or uv excludes every build that works, or none of
    these is what is required."""
    choices, _ = candidates(situation, gpus, unconstrained=True)
    limits = {(item.torch, item.build): item for item in rejected if item.because in ("installer", "required")}
    for choice in nearest(situation, choices, keep)[:1]:
        limit, name = limits[choice.version, choice.build], f"torch {choice.version}+{choice.build}"
        text = f"{name} works here, but {limit.why}. Change that, then run gpudoctor fix again."
        title = "Change the requirement" if limit.because == "required" else f"Let the installer take {name}"
        return [by_hand(title, text)]
    return []


def _nearest_python(have: str, pythons: tuple[str, ...]) -> str:
    """The Python nearest to the present one among those that a build has wheels for."""
    plain = [python for python in pythons if not python.endswith("t")]
    return min(plain, key=lambda python: abs(figures(python)[-1] - figures(have)[-1]), default="of its release")


def _kinds(gpus: tuple[Gpu, ...]) -> dict[str, tuple[Gpu, ...]]:
    return group_by(gpus, lambda gpu: gpu.arch.value or gpu.name)


def for_each_kind(situation: Situation, gpus: tuple[Gpu, ...], keep: Torch | None) -> Fix:
    """No build, or no driver, supports all GPUs: what each needs, in an environment of its own."""
    needs = []
    for kind in _kinds(gpus).values():
        choices, _ = candidates(situation, kind)
        present = (choice for choice in choices if keep and keep.is_build(choice.version, choice.build))
        best = next(present, None) or next(iter(nearest(situation, choices, keep)), None)
        needs.append(f"{gpu_names(kind)}: {f'torch {best.version}+{best.build}' if best else 'no build at all'}")
    together, _ = candidates(situation, gpus)
    lead = "" if together else "No torch build supports all these GPUs. "
    text = (
        f"{lead}Make one environment for each kind, and show it only its own GPUs (CUDA_VISIBLE_DEVICES, "
        f"HIP_VISIBLE_DEVICES): {'; '.join(needs)}."
    )
    return by_hand("One environment for each kind of GPU", text)


def _name_first(gpu: Gpu, keep: Torch | None) -> Fix:
    """Nobody knows which GPU it is, and so which builds run on it."""
    amd = gpu.vendor == "amd"
    kind, command = ("a ROCm", "rocminfo | grep gfx") if amd else ("a CUDA", "nvidia-smi")
    text = (
        f"Which torch runs depends on the GPU, and `{command}` names it. `gpudoctor recommend --gpu NAME` then names "
        "the build."
    )
    fits = keep is not None and bool(keep.hip if amd else keep.cuda)
    title = "Find out which GPU this is" if fits else f"Install {kind} build of torch for this GPU"
    return by_hand(title, text)


def _nothing(matrix: Matrix, gpus: tuple[Gpu, ...]) -> Fix:
    names = ", ".join(dict.fromkeys(f"{gpu.name} ({gpu.arch.value})" for gpu in gpus)) or "no GPU"
    text = f"No released torch build is known to run on {names} here: build torch from source, or use another GPU."
    for gfx in archs_of(gpu for gpu in gpus if gpu.vendor == "amd"):
        last = matrix.amd.last_rocblas(gfx)
        if last is not None:
            since = f" after ROCm {last}" if last else ""
            text += f" AMD's rocBLAS has no kernels for {gfx}{since} either: build it from source, too."
    return by_hand("Build torch from source, or use another GPU", text)


def _installs(fix: Fix) -> bool:
    return any(isinstance(remedy, ReplaceTorch) for remedy in fix.remedies)


def _on_the_cpu(situation: Situation, keep: Torch | None) -> list[Fix]:
    if keep and keep.build == "cpu":
        return []
    choices, _ = candidates(situation, ())
    named = tuple(choice for choice in choices if choice.index_url)
    best = nearest(situation, named, keep)[:1]
    return [
        Fix(title=f"Use the CPU: torch {choice.version}+cpu", remedies=replace_torch(situation, choice))
        for choice in best
    ]


def on_another_system(libc: str | None, rejected: tuple[RejectedCandidate, ...]) -> tuple[Fix, ...]:
    """The fix where only the C library rules a build out: a system with another one."""
    refused = [item for item in rejected if item.because == "libc"]
    if not refused:
        return ()
    newest = refused[0]
    text = f"torch {newest.torch}+{newest.build} would work here, but it {newest.why}. "
    if libc == MUSL:
        text += (
            "There is no torch wheel for musl: use an image or a distribution with glibc (python:3.12-slim, Debian, "
            "Ubuntu) or, where the CPU is enough, the torch that the distribution itself packages."
        )
        return (by_hand("Use an image or a distribution with glibc", text, elsewhere=True),)
    text += "The C library belongs to the system: use a newer release of the distribution, or a container of one."
    return (by_hand("Use a newer distribution or container", text, elsewhere=True),)
