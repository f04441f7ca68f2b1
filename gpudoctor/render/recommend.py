"""A recommendation for a person."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gpudoctor.frameworks.package_spec import EXACTLY
from gpudoctor.machine import Gpu, Machine
from gpudoctor.plain_text import enumeration
from gpudoctor.render.lines import Line
from gpudoctor.render.next_command import next_line
from gpudoctor.render.steps import command_line, fix_lines
from gpudoctor.situation.gpu_groups import gpu_names
from gpudoctor.step import RunStep

if TYPE_CHECKING:
    from gpudoctor.recommend import Out, Recommendation, Recommended

_SHOWN_BUILDS = 6
_WITHOUT_WHEEL = "no wheel for Python"
_REQUIRED = " is required"


def best_command(answer: Recommendation, *, pip: bool) -> tuple[str, str] | None:
    """The build that comes first and what installs it, with `pip` or without one in the environment."""
    from gpudoctor.planner.commands import Way

    tools = {
        "conda": (Way.CONDA,),
        "pip": (Way.VENV, Way.PIP_FIRST, Way.PIP, Way.PIP_THEN),
        "uv": (Way.UV_VENV, Way.UV_FIRST, Way.UV, Way.UV_THEN),
    }
    for choice in answer.choices[:1]:
        if choice.level == "cpu" and answer.gpus:
            break
        for tool in ("conda", "pip", "uv") if pip else ("conda", "uv", "pip"):
            commands = [command_line(choice.commands[way]) for way in tools[tool] if way in choice.commands]
            if commands:
                return _title(choice, answer.framework), " && ".join(commands)
    return None


def recommendation_lines(
    answer: Recommendation, machine: Machine, *, again: tuple[str, ...], verbose: bool
) -> Iterator[Line]:
    """What a person reads of it. `again`: the options that name the same machine to another command."""
    served = [choice for choice in answer.choices if choice.level != "cpu"]
    yield _headline(answer, served)
    yield [("For  ", "dim"), (_subject(answer, machine), "")]
    for note in answer.notes:
        yield [("  · ", "cyan"), (note, "cyan")]
    if not served and answer.otherwise:
        yield []
        for number, fix in enumerate(answer.otherwise):
            yield from fix_lines(fix, "Alternative" if number else "Fix", here=not again)
    for number, choice in enumerate(answer.choices):
        yield []
        yield from _choice(
            choice,
            answer.framework,
            best=answer.known and number == 0 and (choice in served or answer.exit_code == 0),
            verbose=verbose,
        )
    if answer.rejected:
        yield []
        yield [("Why not the others:", "bold")]
    for why, builds in _by_reason(answer.rejected).items():
        yield [(f"  {len(builds):>4}  ", ""), (f"{why}: {_build_names(builds)}", "")]
    yield from _next(answer, machine, served, again)


_LEFT_OUT = ") is left out: "
_BESIDE = f"{_LEFT_OUT}integrated."
"""Integrated graphics beside a GPU: nobody misses it."""


def _headline(answer: Recommendation, served: list[Recommended]) -> Line:
    if not answer.gpus:
        return [("No GPU found: the best build is one for the CPU.", "bold")]
    if not served:
        for_these = "all of these GPUs" if len(answer.gpus) > 1 else answer.gpus[0].name
        which = answer.framework if answer.framework == "torch" else f"known {answer.framework}"
        required = next((row.why for row in answer.rejected if row.why.endswith(_REQUIRED)), "")
        if required and not answer.otherwise:
            return [(f"No {which} build for {for_these} meets {required.removesuffix(_REQUIRED)}.", "bold red")]
        other_python = next((row.why for row in answer.rejected if row.why.startswith(_WITHOUT_WHEEL)), "")
        if other_python and not answer.otherwise:
            has = other_python.replace(_WITHOUT_WHEEL, "has a wheel for Python", 1)
            return [(f"No {answer.framework} build for {for_these} {has}.", "bold red")]
        return [(f"No {which} build works with {for_these} as it is.", "bold red")]
    if not answer.known:
        return [(f"No {answer.framework} build is known to work with {gpu_names(answer.gpus)}.", "bold yellow")]
    sure = "" if answer.certain else " (a GPU or its driver is unknown)"
    left_out = [note.partition(" (")[0] for note in answer.notes if _LEFT_OUT in note and _BESIDE not in note]
    without = f", without {' and '.join(dict.fromkeys(left_out))}" if left_out else ""
    style = "bold green" if answer.certain and not left_out else "bold yellow"
    undriven = "No one driver supports all of these GPUs. " if answer.undriven else ""
    return [(f"{undriven}Best build: {_title(served[0], answer.framework)}{without}{sure}", style)]


def _next(
    answer: Recommendation, machine: Machine, served: list[Recommended], again: tuple[str, ...]
) -> Iterator[Line]:
    """The command that installs the best build, the page that tells how, or the command that tells what stands in
    the way."""
    from gpudoctor.situation.installer import installer

    pip = not machine.environment.known or installer(machine.examined) != "uv"
    best = best_command(answer, pip=pip) if answer.known and (served or not answer.gpus) else None
    page = served[0].instructions if served and not best else ""
    yield []
    if page:
        yield [("Next: ", "bold"), (f"read {page}", "")]
    elif best:
        there = "Next, on that machine: " if "--root" in again else "Next: "
        yield [(there, "bold"), (best[1], "command")]
    else:
        yield next_line(_way_out(answer, again))


def _way_out(answer: Recommendation, again: tuple[str, ...]) -> tuple[str, ...]:
    """The command that goes on where no build works: for GPUs of one maker alone, or what has to change first."""
    if len({gpu.vendor for gpu in answer.gpus}) > 1:
        return ("gpudoctor", "recommend", "--gpu", answer.gpus[0].name)
    steps = [step for fix in answer.otherwise[:1] for step in fix.steps]
    if answer.framework == "torch" and any(isinstance(step, RunStep) for step in steps):
        return ("gpudoctor", "fix", "--install", "torch", *again)
    return ("gpudoctor", "check", *again)


def _subject(answer: Recommendation, machine: Machine) -> str:
    from gpudoctor.situation.nvidia_driver import driver_shown

    gpus = [_gpu(gpu) for gpu in answer.gpus] or ["no GPU"]
    # Jetson Linux has driver numbers of its own, which decide nothing.
    nvidia = any(gpu.vendor == "nvidia" for gpu in answer.gpus) and not machine.system.jetson.known
    python = f"Python {machine.examined.python.value or 'unknown'}"
    parts = (", ".join(gpus), f"driver {driver_shown(machine)}" if nvidia else "", python, machine.system.platform)
    return ", ".join(filter(None, parts))


def _gpu(gpu: Gpu) -> str:
    arch = gpu.arch.value or "architecture unknown"
    return gpu.name if gpu.name.startswith(arch) else f"{gpu.name} ({arch})"


def _choice(choice: Recommended, framework: str, *, best: bool, verbose: bool) -> Iterator[Line]:
    names = {"cpu": "On the CPU", "override": "With an override", "unmeasured": "To try"}
    label = "Best" if best else names.get(choice.level, "Alternative")
    yield [(f"{label}: ", "bold green" if best else "bold"), (_title(choice, framework), "bold")]
    for why in choice.why if choice.level != "cpu" else ():  # its label says it
        yield [("    ", ""), (why, "")]
    for name, value in choice.env.items():
        yield [("    env   ", "dim"), (f"export {name}={shlex.quote(value)}", "command")]
    told = ""
    for way, command in choice.commands.items():
        if not (verbose or way.shown == "always" or (best and way.shown == "best")):
            continue
        if way.is_file:
            style = "command" if way == "dockerfile" else "verbatim"
            yield [(f"    {way.label}:", "dim")]
            yield from ([(f"      {line}", style)] for line in command)
        else:
            yield [
                (f"    {'then' if way.label == told else way.label:<6}", "dim"),
                (command_line(command), "command"),
            ]
            told = way.label
            if any("===" in word for word in command):
                yield [(f"          {EXACTLY}", "dim")]


def _title(choice: Recommended, framework: str) -> str:
    if choice.package:
        return choice.package
    if framework != "torch":
        return f"{framework}, which you install by hand"
    if choice.torch is None:
        return "torch from conda-forge" if choice.origin == "conda-forge" else "a torch that you install by hand"
    name = f"torch {choice.torch}+{choice.build}"
    return name + {"pypi": " (package index)", "amd": " (AMD's index)"}.get(choice.origin, "")


def _by_reason(rejected: Iterable[Out]) -> dict[str, list[Out]]:
    """The rejected builds by reason, without details that differ from build to build; the largest group last."""
    groups: dict[str, list[Out]] = {}
    for row in rejected:
        why = row.why.partition(";")[0]
        why = why.partition(" (")[0] if why.startswith("no wheel") else why
        groups.setdefault(why, []).append(row)
    return dict(sorted(groups.items(), key=lambda item: len(item[1])))


def _build_names(builds: list[Out]) -> str:
    """The builds of a group: all of a few or of packages, else the releases they span and their kinds."""
    if len(builds) <= _SHOWN_BUILDS or builds[0].package:
        return ", ".join(row.package or f"{row.torch}+{row.build}" for row in builds)
    kinds = enumeration(sorted({row.build for row in builds}), _SHOWN_BUILDS)
    return f"{builds[-1].torch} to {builds[0].torch} ({kinds})"
