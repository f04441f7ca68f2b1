"""Ways out by another torch, best first: derived from hardware, driver, Python and platform (design §4).

Never from the wrong build that is installed: of that only the version is kept, where a build of it serves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.finding import Manual, ReplaceTorch, WayOut
from gpudoctor.frameworks.torch.c_library import c_library, on_another_system
from gpudoctor.frameworks.torch.candidates import Rejected, candidates, platform_of, python_of
from gpudoctor.frameworks.torch.coverage import carries
from gpudoctor.frameworks.torch.nearest import is_build, nearest, replace_torch, way_to
from gpudoctor.frameworks.torch.other_origins import place_of, ways_elsewhere
from gpudoctor.frameworks.torch.overrides import override_ways
from gpudoctor.machine import Gpu, Machine, Torch
from gpudoctor.matrix.versions import figures
from gpudoctor.situation.no_common_driver import cards_to_choose
from gpudoctor.situation.nvidia_driver import driver_to_install

if TYPE_CHECKING:
    from gpudoctor.matrix.questions import Matrix


def replacements(
    machine: Machine, matrix: Matrix, gpus: tuple[Gpu, ...], *, keep: Torch | None
) -> tuple[WayOut, ...]:
    """Ways out that give these cards a torch they can use, best first; never empty.

    Native builds come before overrides, overrides before the CPU. `keep` is the installed torch, whose version
    is kept where a build of it serves all the cards on this driver.
    """
    place = place_of(machine, keep)
    special = ways_elsewhere(place, machine, matrix, gpus, keep)
    if place in ("ngc", "nix"):
        return special
    if choice := cards_to_choose(machine, matrix, gpus):
        return (choice,)
    found = [carries(machine, matrix, gpu) for gpu in gpus]
    choices, rejected = candidates(machine, matrix, gpus, python_of(machine), platform_of(machine))
    if keep and any("no" in (item.runs, item.blas) for item in found):
        # What the files show weighs more than a row: the present build is no way out of its own fault, unless
        # device code can be added to it.
        choices = tuple(choice for choice in choices if choice.extra or not is_build(choice, keep))
    if place in ("jetson", "conda"):
        native = [way_to(machine, matrix, choice, keep) for choice in nearest(matrix, choices, keep)[:1]]
        if place == "jetson" or not special:
            return (*special, *native) or (_nothing(gpus),)
        return special
    ways = [*special, *(way_to(machine, matrix, choice, keep) for choice in nearest(matrix, choices, keep))]
    if not ways:
        ways += _after_a_repair(machine, matrix, gpus, keep, rejected)
    ways += override_ways(machine, matrix, gpus, keep)
    works = any(item.via_override for item in found) and all(item.runs == "yes" for item in found)
    if works and not ways:
        text = "Keep the override: no released build carries this card natively here, and this torch works under it."
        return (WayOut(title="Keep the override", remedies=(Manual(text=text),)),)
    if not ways:
        ways.append(_split(machine, matrix, gpus, keep) if len(_kinds(gpus)) > 1 else _nothing(gpus))
    if not works and (any(gpu.vendor == "amd" for gpu in gpus) or not any(_installs(way) for way in ways)):
        ways += _on_the_cpu(machine, matrix, keep)
    return tuple(ways)


def _after_a_repair(
    machine: Machine, matrix: Matrix, gpus: tuple[Gpu, ...], keep: Torch | None, rejected: tuple[Rejected, ...]
) -> list[WayOut]:
    """What another driver, another Python or another C library would make possible."""
    ways: list[WayOut] = []
    python, platform = python_of(machine), platform_of(machine)
    if any(item.because == "driver" for item in rejected) and all(gpu.vendor == "nvidia" for gpu in gpus):
        why = "no torch build for these cards runs on the present driver"
        if driver := driver_to_install(machine, matrix, gpus, why=why):
            choices, refused = candidates(machine, matrix, gpus, python, platform, driver=driver.minimum)
            rejected += refused
            ways += [
                WayOut(
                    title=f"Driver {driver.branch}, then torch {choice.version}+{choice.build}",
                    remedies=(driver, *replace_torch(machine, matrix, choice)),
                )
                for choice in nearest(matrix, choices, keep)[:1]
            ]
    if not ways and python:
        anywhere, refused = candidates(machine, matrix, gpus, None, platform)
        rejected += refused
        for choice in nearest(matrix, anywhere, keep)[:1]:
            other = _nearest_python(python, choice.pythons)
            index = f" --index-url {choice.index_url}" if choice.index_url else ""
            extra = f"[{choice.extra}]" if choice.extra else ""
            wheel = f"torch{extra}=={choice.version}" + (f"+{choice.build}" if choice.index_url else "")
            text = (
                f"torch {choice.version}+{choice.build} serves {choice.carries}, but has no wheel for "
                f"Python {python}: make a new environment with Python {other} and install it there: "
                f'`python -m pip install{index} "{wheel}"`.'
            )
            ways.append(WayOut(title="Make a new environment with another Python", remedies=(Manual(text=text),)))
    return ways or [*on_another_system(c_library(machine, matrix), rejected)]


def _nearest_python(have: str, pythons: tuple[str, ...]) -> str:
    """Of the Pythons that a build has wheels for, the one least far from the present one."""
    plain = [python for python in pythons if not python.endswith("t")]
    return min(plain, key=lambda python: abs(figures(python)[-1] - figures(have)[-1]), default="of its release")


def _kinds(gpus: tuple[Gpu, ...]) -> dict[str, list[Gpu]]:
    kinds: dict[str, list[Gpu]] = {}
    for gpu in gpus:
        kinds.setdefault(gpu.arch.value or gpu.name, []).append(gpu)
    return kinds


def _split(machine: Machine, matrix: Matrix, gpus: tuple[Gpu, ...], keep: Torch | None) -> WayOut:
    """No build serves all cards: what each of them would need, in an environment of its own."""
    needs = []
    for cards in _kinds(gpus).values():
        choices, _ = candidates(machine, matrix, tuple(cards), python_of(machine), platform_of(machine))
        present = (
            c for c in choices if keep and (c.version, c.build) == (keep.version.partition("+")[0], keep.build)
        )
        best = next(present, None) or next(iter(nearest(matrix, choices, keep)), None)
        names = ", ".join(dict.fromkeys(gpu.name for gpu in cards))
        needs.append(f"{names}: torch {best.version}+{best.build}" if best else f"{names}: no build at all")
    text = (
        "No torch build serves all these cards. Make one environment for each kind, and let it see only its own "
        f"cards (CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES): {'; '.join(needs)}."
    )
    return WayOut(title="One environment for each kind of card", remedies=(Manual(text=text),))


def _nothing(gpus: tuple[Gpu, ...]) -> WayOut:
    names = ", ".join(dict.fromkeys(f"{gpu.name} ({gpu.arch.value or 'unknown'})" for gpu in gpus)) or "no GPU"
    text = f"No released torch build is known to run on {names} here: build torch from source, or use another card."
    return WayOut(title="No torch build serves this card", remedies=(Manual(text=text),))


def _installs(way: WayOut) -> bool:
    return any(isinstance(remedy, ReplaceTorch) for remedy in way.remedies)


def _on_the_cpu(machine: Machine, matrix: Matrix, keep: Torch | None) -> list[WayOut]:
    if keep and keep.build == "cpu":
        return []
    choices, _ = candidates(machine, matrix, (), python_of(machine), platform_of(machine))
    named = tuple(choice for choice in choices if choice.index_url)
    best = nearest(matrix, named, keep)[:1]
    return [
        WayOut(title=f"Use the CPU: torch {choice.version}+cpu", remedies=replace_torch(machine, matrix, choice))
        for choice in best
    ]
