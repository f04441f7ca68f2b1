"""The Python environments of an image: whether the program that it starts runs in the one that was filled."""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import lru_cache

from gpudoctor.check import Verdicts, check
from gpudoctor.dockerfile.copied_environments import (
    copied_environments,
    lone_package,
    missing_interpreter,
    of_another_libc,
    origin_of,
    other_python,
    unread_packages,
)
from gpudoctor.dockerfile.environments import makes_one
from gpudoctor.dockerfile.image import CopyInstruction, Image, Step
from gpudoctor.dockerfile.recipe import Recipe, about_line, change, command_of
from gpudoctor.dockerfile.start import programs, script_program
from gpudoctor.finding import Evidence, Finding, Fix

_PYTHON = re.compile(r"python[\d.]*$")
_RUNNING = ("cProfile", "pdb", "profile", "runpy", "trace")
"""Modules of the standard library that run the program after them."""
_OF_OTHER_NAME = {"torchrun": "torch", "jupyter-lab": "jupyterlab", "accelerate-launch": "accelerate"}
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
        filled = {step.environment for step in image.steps if step.environment and step.pip is not None}
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
    if image.facts is None or image.facts.has_torch or image.form != "dockerfile":
        return None
    steps = [step for step in image.steps if step.brings_torch]
    places = {step.environment for step in steps}
    if len(places) != 1 or any(step.script or (step.pip and step.pip.tool == "conda") for step in image.steps):
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
    owner = _OF_OTHER_NAME.get(program, program)
    owners = [step for step in image.steps if step.pip is not None and step.pip.asks_for(owner)]
    return bool(owners) and all(step.environment == environment for step in owners)


def _of_python_alone(module: str) -> bool:
    """Whether a module is one of the standard library that needs no package: `python -m http.server`."""
    name = module.partition(".")[0]
    return name in sys.stdlib_module_names and name not in _RUNNING


@check("GPD627", "image-environment-incomplete", "image")
def environment_incomplete(recipe: Recipe) -> Verdicts:
    """A copied Python environment lacks a part of what it needs.

    ## Why it matters
    A virtual environment has no interpreter of its own: its `python` is a link to the one that made it, and its
    commands name the path where it was made. Packages that are copied without an environment work with one Python
    version alone, their commands lie in another folder, and what they require in others.

    ## How it is judged
    The check compares the stage that the file copies from with the one that is built, by their base images and
    commands: the interpreter, the Python of `python3.N/site-packages`, the commands that the container starts, a
    folder of torch alone. Where a command may bring the missing part, nothing is reported.

    ## Fix safety
    The same base image in both stages has the same Python at the same place.
    """
    for image in recipe.images:
        yield from _interpreters(recipe, image)
        yield from _packages(image)
        yield from _commands(recipe, image)


def _interpreters(recipe: Recipe, image: Image) -> Iterator[Finding]:
    for one in copied_environments(image):
        if of_another_libc(image, one) and recipe.frameworks(image):
            yield _broken(
                image,
                one.copied,
                f"{one.place} was made on {one.origin.base} with glibc, and {image.base} has musl, which cannot load "
                f"the libraries of {recipe.frameworks(image)[0].package.name}.",
                "musl",
                "glibc",
                (change("Use the base image of that stage", image.on_base(one.origin.base or "")),),
            )
            continue
        missing = missing_interpreter(image, one)
        if not missing or _starts_uv(recipe, image):
            continue
        origin = one.origin
        by_uv = "/uv/" in missing or "UV_PYTHON_INSTALL_DIR" in origin.settings
        folder = missing.rpartition(" in ")[2]
        ways: tuple[Fix, ...] = (
            change("Copy the interpreter, too", f"{image.place(one.copied.line)}: below it", _copy(origin, folder)),
            change("Use the base image of that stage", image.on_base(origin.base or "the base image of that stage")),
            change("Make the environment on this base image", *_on_this_base(image, origin)),
        )
        yield _broken(
            image,
            one.copied,
            f"{one.place} was made with {missing} of stage {origin.name}, which this image does not have: its python "
            "cannot be started.",
            "no such interpreter",
            missing,
            ways if by_uv else ways[1:],
        )


def _on_this_base(image: Image, origin: Image) -> Iterator[str]:
    yield origin.on_base(image.base or "the same base image")
    if image.facts is not None and image.facts.prefix == "/usr":
        yield "below it, and python3 in the commands that make the environment:"
        yield origin.written_run("apt-get update && apt-get install -y python3-venv python3-pip")


def _copy(origin: Image, path: str) -> str:
    return f"COPY --from={origin.name} {path} {path}"


def _starts_uv(recipe: Recipe, image: Image) -> bool:
    """Whether uv starts the program: it makes the environment anew."""
    return any(
        posixpath.basename(words[0]) == "uv"
        for _, entrypoint, command in recipe.starts(image)
        for words in programs(entrypoint, command)
    )


def _packages(image: Image) -> Iterator[Finding]:
    for copied in image.copied:
        versions = other_python(image, copied) if copied.origin else None
        if versions is not None:
            there, here = versions
            message = f"Packages of Python {there} are copied, and {image.base} has Python {here}: "
            if any(one.moved("/usr/local/bin") == "/usr/local/bin" for one in image.copied if one.origin):
                message += "their python takes its place, and lacks its own library and modules."
            else:
                message += "it does not find them, and could not load their libraries."
            yield _broken(
                image,
                copied,
                message,
                f"Python {there}",
                f"Python {here}",
                (change("Use the same Python in both stages", image.on_base(f"an image with Python {there}")),),
            )
    for copied in image.copied:
        folder = unread_packages(image, copied)
        if folder:
            yield _broken(
                image,
                copied,
                f"The Python of {image.base} looks in dist-packages, and never in {folder}.",
                "site-packages",
                "the Python that it belongs to",
                (change("Use the base image of that stage", image.on_base(_base(image, copied))),),
            )
    lone = lone_package(image, "torch")
    if lone is not None and (image.facts is None or not image.facts.has_torch):
        folder = posixpath.dirname(lone.sources[0].rstrip("/"))
        line = f"COPY --from={lone.origin} {folder} {folder}"
        yield _broken(
            image,
            lone,
            "Only the folder of torch is copied: its record, and what it requires (typing_extensions, CUDA's "
            "libraries), are left out.",
            "torch alone",
            "all of site-packages",
            (change("Copy the whole folder", f"{image.place(lone.line)}: {line}"),),
        )


def _base(image: Image, copied: CopyInstruction) -> str:
    origin = origin_of(image, copied)
    return (origin.base if origin else None) or "the base image of that stage"


def _commands(recipe: Recipe, image: Image) -> Iterator[Finding]:
    """Commands that the container starts and that were not copied, or that name another place."""
    started = {words[0] for _, ep, cmd in recipe.starts(image) for words in programs(ep, cmd)}
    places = {one.place for one in copied_environments(image)}
    for one in copied_environments(image):
        names = [word for word in started if posixpath.basename(word) in _scripts(one.origin)]
        names = [name for name in names if "/" not in name or _lies(image, name) == f"{one.place}/bin"]
        own = f"{one.place}/bin" in (image.variable("PATH") or "").split(":")
        if one.made.place not in places and names and (own or "/" in names[0]):
            name = posixpath.basename(names[0])
            yield _broken(
                image,
                one.copied,
                f"{one.place} was made in {one.made.place}: its command {name} names the python there, which this "
                "image does not have (exit code 127).",
                one.place,
                one.made.place,
                (
                    change(
                        "Copy it to the same place, too",
                        f"{image.place(one.copied.line)}: below it",
                        _copy(one.origin, one.made.place),
                    ),
                ),
            )
    copies = [each for each in image.copied if each.origin]
    if any(each.moved("/usr/local/bin") for each in copies) or _other_installs(image):
        return
    listed = [posixpath.basename(source) for each in copies for source in each.sources]
    for copied in copies:
        origin = origin_of(image, copied)
        python = origin.facts.python if origin is not None and origin.facts is not None else None
        if origin is None or not copied.moved(f"/usr/local/lib/python{python}/site-packages"):
            continue
        names = [name for name in started if "/" not in name and name in _scripts(origin)]
        if names and not any(fnmatchcase(names[0], pattern) for pattern in listed):
            yield _broken(
                image,
                copied,
                f"The container starts {names[0]}, which lies in /usr/local/bin of stage {origin.name} and is not "
                "copied (exit code 127).",
                "site-packages alone",
                "/usr/local/bin, too",
                (
                    change(
                        "Copy the commands, too",
                        f"{image.place(copied.line)}: below it",
                        _copy(origin, "/usr/local/bin"),
                    ),
                ),
            )


def _lies(image: Image, program: str) -> str:
    """The folder of a program that is called by its path."""
    return posixpath.dirname(posixpath.normpath(posixpath.join(image.folder, program)))


def _other_installs(image: Image) -> bool:
    return any(step.pip is not None and not step.copied for step in image.steps)


@lru_cache
def _scripts(origin: Image) -> frozenset[str]:
    """The commands of the packages that a stage installs by their own names."""
    packages = {one.name for step in origin.steps if step.pip is not None for one in step.pip.requirements}
    return frozenset(packages) | {name for name, package in _OF_OTHER_NAME.items() if package in packages}


def _broken(
    image: Image, copied: CopyInstruction, message: str, saw: str, want: str, fixes: tuple[Fix, ...]
) -> Finding:
    text = f"COPY --from={copied.origin} {' '.join(copied.sources)} {copied.target}"
    return about_line(image, copied.line, text, severity="error", message=message, saw=saw, want=want, fixes=fixes)
