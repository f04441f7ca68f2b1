"""Python environments that an image copies from another stage: whether they work where they lie."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import lru_cache

from gpudoctor.check import Verdicts, check
from gpudoctor.dockerfile.copied_environments import (
    CopiedEnvironment,
    copied_environments,
    lone_torch,
    missing_interpreter,
    of_another_libc,
    origin_of,
    other_python,
    unread_packages,
)
from gpudoctor.dockerfile.image import CopyInstruction, Image
from gpudoctor.dockerfile.preflights import is_preflight
from gpudoctor.dockerfile.recipe import Recipe, about_line, change
from gpudoctor.dockerfile.start import OF_OTHER_NAME, programs
from gpudoctor.finding import Finding, Fix


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
        folder = missing.rpartition(" in ")[2]
        copy = change(
            "Copy the interpreter, too", f"{image.place(one.copied.line)}: below it", _copy(image, origin, folder)
        )
        same = change("Use the base image of that stage", image.on_base(_base(image, one.copied)))
        here = change("Make the environment on this base image", *_on_this_base(image, origin))
        by_uv = "/uv/" in missing or "UV_PYTHON_INSTALL_DIR" in origin.settings
        ways = (copy, *[here] * _takes_its_python(image, one, missing)) if by_uv else (same, here)
        yield _broken(
            image,
            one.copied,
            f"{one.place} was made with {missing} of stage {origin.name}, which this image does not have: its python "
            "cannot be started.",
            "no such interpreter",
            missing,
            ways,
        )


def _takes_its_python(image: Image, one: CopiedEnvironment, missing: str) -> bool:
    """Whether uv, which downloaded a Python, would take that of this base image in its place."""
    with_uv = "/uv:" not in (one.origin.base or "")
    any_one = missing.startswith("the Python") and not one.made.step.python
    return with_uv and (any_one or missing.startswith(f"Python {image.facts.python} "))


def _on_this_base(image: Image, origin: Image) -> Iterator[str]:
    yield origin.on_base(image.base or "the same base image")
    if image.facts.prefix == "/usr":
        yield "below it, and python3 in the commands that make the environment:"
        yield origin.written_run("apt-get update && apt-get install -y python3-venv python3-pip")


def _copy(image: Image, origin: Image, path: str) -> str:
    return image.written_copy(origin.name, (path,), path)


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
    lone = lone_torch(image)
    if lone is not None and not image.facts.has_torch:
        folder = posixpath.dirname(lone.sources[0].rstrip("/"))
        line = image.written_copy(lone.origin, (folder,), folder)
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
    starts = [(ep, cmd) for _, ep, cmd in recipe.starts(image)]
    started = {words[0] for ep, cmd in starts for words in programs(ep, cmd)}
    started |= {ep.words[0] for ep, _ in starts if ep is not None and is_preflight(ep.words) and not ep.shell}
    yield from _of_another_place(image, started)
    copies = [each for each in image.copied if each.origin]
    if not any(each.moved("/usr/local/bin") for each in copies) and not _other_installs(image):
        yield from _left_behind(image, started)
        yield from _packages_alone(image, copies, started)


def _of_another_place(image: Image, started: set[str]) -> Iterator[Finding]:
    """Commands of environments that lie elsewhere than they were made."""
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
                        _copy(image, one.origin, one.made.place),
                    ),
                ),
            )


def _packages_alone(image: Image, copies: list[CopyInstruction], started: set[str]) -> Iterator[Finding]:
    """Commands of site-packages that were copied without /usr/local/bin."""
    listed = [posixpath.basename(source) for each in copies for source in each.sources]
    for copied in copies:
        origin = origin_of(image, copied)
        if origin is None or not copied.moved(f"/usr/local/lib/python{origin.facts.python}/site-packages"):
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
                        _copy(image, origin, "/usr/local/bin"),
                    ),
                ),
            )


def _left_behind(image: Image, started: set[str]) -> Iterator[Finding]:
    """Commands of a stage's own Python, of which this image copies an environment alone."""
    for one in copied_environments(image):
        steps = [step for step in one.origin.steps if step.environment in ("", one.made.place)]
        for name in sorted(started):
            package = OF_OTHER_NAME.get(name, name)
            brings = [step for step in steps if step.pip.asks_for(package)]
            if not brings or any(step.environment for step in brings) or brings[0].command.maybe:
                continue
            place = image.place(brings[0].command.line)
            yield _broken(
                image,
                one.copied,
                f"The container starts {name}, which the Python of stage {one.origin.name} has, and not {one.place}, "
                "which is copied (exit code 127).",
                f"{one.place} without {package}",
                package,
                (
                    change(
                        "Install it in the environment",
                        f"{place}: {image.written_run(f'{one.made.place}/bin/pip install {package}')}",
                        "below the line that makes the environment",
                    ),
                ),
            )
            return


def _lies(image: Image, program: str) -> str:
    """The folder of a program that is called by its path."""
    return posixpath.dirname(posixpath.normpath(posixpath.join(image.folder, program)))


def _other_installs(image: Image) -> bool:
    return any(step.installs and not step.copied for step in image.steps)


@lru_cache
def _scripts(origin: Image) -> frozenset[str]:
    """The commands of the packages that a stage installs by their own names."""
    packages = {one.name for step in origin.steps for one in step.pip.requirements}
    return frozenset(packages) | {name for name, package in OF_OTHER_NAME.items() if package in packages}


def _broken(
    image: Image, copied: CopyInstruction, message: str, saw: str, want: str, fixes: tuple[Fix, ...]
) -> Finding:
    text = image.written_copy(copied.origin, copied.sources, copied.target)
    return about_line(image, copied.line, text, severity="error", message=message, saw=saw, want=want, fixes=fixes)
