"""The Python environments of an image: whether the program that it starts runs in the one that was filled."""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Iterator

from gpudoctor.check import Verdicts, check
from gpudoctor.dockerfile.copied_environments import copied_environments
from gpudoctor.dockerfile.environments import makes_one
from gpudoctor.dockerfile.image import Image, Step
from gpudoctor.dockerfile.recipe import Recipe, change, command_of
from gpudoctor.dockerfile.start import OF_OTHER_NAME, programs, script_program
from gpudoctor.finding import Evidence, Finding, Fix

_PYTHON = re.compile(r"python[\d.]*$")
_RUNNING = ("cProfile", "pdb", "profile", "runpy", "trace")
"""Modules of the standard library that run the program after them."""
_ELSEWHERE = ("PYTHONPATH", "PYTHONHOME", "BASH_ENV", "PYTHONUSERBASE", "ENV_NAME")
"""Variables that may put another Python or its packages in front; micromamba's ENTRYPOINT activates ENV_NAME."""
_LINKING = ("ln", "cp", "mv", "update-alternatives")


@check("GPD626", "image-environment-off-path", "image")
def environment_off_path(recipe: Recipe) -> Verdicts:
    """The container starts another Python than the one with torch.

    ## Why it matters
    A virtual environment counts only where its bin folder is in front on PATH, or where its python is called by its
    path. PATH of a build stage does not come along with COPY, and what `activate` does ends with its RUN. The program
    stops with "No module named 'torch'", or its command is not found (exit code 127).

    ## How it is judged
    Every torch that the file installs lies in one environment, and the base image brings none. ENTRYPOINT and CMD, or
    those of a service, start `python` or a command of the environment's packages by its name alone, and PATH does not
    have that environment. Of a start script its last command counts, if nothing in it may choose another Python.
    Behind `uv run` and the like nothing is reported.

    ## Fix safety
    With ENV PATH every command of the image finds the environment first.
    """
    for image in recipe.images:
        place = _place_of_torch(image)
        if place is None:
            continue
        environment, step = place
        path = image.settings.get("PATH")
        if (path is not None and path.value is None) or any(name in image.settings for name in _ELSEWHERE):
            continue
        folders = [posixpath.normpath(one) for one in (path.value or "" if path else "").split(":")]
        if _linked(image, environment):
            continue
        filled = {step.environment for step in image.steps if step.environment and step.installs}
        if any(f"{one}/bin" in folders for one in filled):
            continue  # also another one: the program may run in that, and start what needs torch
        told = set[str]()
        for service, entrypoint, command in recipe.starts(image):
            if service is not None and any(name in service.environment for name in ("PATH", *_ELSEWHERE)):
                continue
            if any(f"{environment}/" in word for one in (entrypoint, command) if one for word in one.words):
                continue  # it names what lies there
            found = next((one for one in programs(entrypoint, command) if _needs(image, one, environment)), None)
            start, in_script = command or entrypoint, script_program(entrypoint, command)
            if in_script is not None and _needs(image, in_script[0], environment):
                found = in_script[0]
            if found is None or start is None:
                continue
            own = start in (image.entrypoint, image.command)
            at = image.place(start.line) if own or service is None else service.place
            at = in_script[1] if in_script is not None else at
            if at in told:
                continue  # of another service that starts the same
            told.add(at)
            lies = f"is not that of {environment}, where torch is installed: `import torch` fails."
            if not _PYTHON.match(posixpath.basename(found[0])):
                lies = f"lies in {environment}/bin, which PATH does not have (exit code 127)."
            yield Finding(
                severity="error",
                confidence="likely",
                message=f"The container starts {found[0]}, which {lies}",
                saw=f"PATH without {environment}/bin",
                want=f"{environment}/bin in front",
                subject=at if own or service is None else service.subject,
                evidence=(Evidence("start", " ".join(found), at), command_of(image, step.command)),
                fixes=tuple(_ways_onto_path(image, environment, step, at, found)),
            )


def _ways_onto_path(image: Image, environment: str, step: Step, start: str, words: tuple[str, ...]) -> Iterator[Fix]:
    copies = (one.line for one in image.copied if one.origin and environment.startswith(one.target))
    below = next(copies, image.base_line) if step.copied else max(step.command.line, image.base_line)
    yield change(
        "Put the environment in front on PATH",
        f"{image.place(below)}: below it",
        image.written_env("PATH", f"{environment}/bin:$PATH"),
    )
    name = "python" if _PYTHON.match(posixpath.basename(words[0])) else words[0]
    yield change("Call it by its path", f"{start}: {environment}/bin/{name} in place of {words[0]}")


def _place_of_torch(image: Image) -> tuple[str, Step] | None:
    """The one environment that has torch, and the command that installs it."""
    if not image.facts.known or image.facts.has_torch or image.form != "dockerfile":
        return None
    steps = [step for step in image.steps if step.brings_torch]
    places = {step.environment for step in steps}
    if len(places) != 1 or any(step.script or step.pip.tool == "conda" for step in image.steps):
        return None
    environment = places.pop()
    made = any(makes_one(step.command.argv) and step.environment == environment for step in image.steps)
    moved = any(one.place == environment for one in copied_environments(image))
    return (environment, steps[-1]) if environment and (made or moved) else None


def _linked(image: Image, environment: str) -> bool:
    """Whether a command brings a part of an environment to a place that is looked at."""
    named = [one.command for one in image.steps if f"{environment}/" in one.command.text]
    return any(
        posixpath.basename(one.argv[0]) in _LINKING or (one.argv[0] in ("echo", "printf") and "-packages" in one.text)
        for one in named
    )


def _needs(image: Image, words: tuple[str, ...], environment: str) -> bool:
    """Whether a program, by its name alone, is meant to be that of an environment."""
    program = words[0]
    if words[1:2] == ("-m",) and _of_python_alone("".join(words[2:3])):
        return False
    if "/" in program:
        return program.startswith(("/usr/bin/python", "/usr/local/bin/python"))
    if _PYTHON.match(program):
        return True
    owner = OF_OTHER_NAME.get(program, program)
    owners = [step for step in image.steps if step.pip.asks_for(owner)]
    return bool(owners) and all(step.environment == environment for step in owners)


def _of_python_alone(module: str) -> bool:
    """Whether a module is one of the standard library that needs no package: `python -m http.server`."""
    name = module.partition(".")[0]
    return name in sys.stdlib_module_names and name not in _RUNNING
