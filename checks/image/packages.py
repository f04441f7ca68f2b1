"""Packages that cannot be installed in an image: gone from their index, or compiled without what that needs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpudoctor.check import Verdicts, check
from gpudoctor.dockerfile.image import Image, Step
from gpudoctor.dockerfile.image_python import python_of
from gpudoctor.dockerfile.proposals import install_line, package_line
from gpudoctor.dockerfile.recipe import Recipe, about_line, change, command_of
from gpudoctor.dockerfile.requirements import Requirement
from gpudoctor.dockerfile.rewriting import in_place, split_off
from gpudoctor.dockerfile.toolkit import without_toolkit
from gpudoctor.dockerfile.unreadable_commands import copies_environment, installs_unread
from gpudoctor.finding import Finding, Fix, Severity
from gpudoctor.matrix.torch_builds import cuda_of
from gpudoctor.matrix.versions import figures, package_matches

_TRUE = ("TRUE", "1", "ON", "YES")


@check("GPD618", "image-package-removed", "image")
def package_removed(recipe: Recipe) -> Verdicts:
    """A package is no longer where the image installs it from.

    ## Why it matters
    The package index has only a stub of tensorflow-gpu, whose installation fails. PyTorch's channel of conda ends
    with 2.5.1. The build of the image stops.

    ## How it is judged
    The matrix has the last real release of such packages. A version before the end is not reported, nor a package of
    conda if another channel may have it.

    ## Fix safety
    The proposed package is the one that took its place, for the same GPUs.
    """
    for image in recipe.images:
        for step in image.steps:
            if step.command.maybe:
                continue
            for one in step.pip.requirements:
                conda = step.pip.tool == "conda"
                name = "pytorch" if conda and one.name == "torch" else one.name
                row = recipe.matrix.images.removed_package(name, step.pip.channel if conda else "")
                if row is None or (conda and not step.pip.channel):
                    continue
                fails = _newer(one, row.last) if conda else package_matches(one.specifier or ">=0", row.stub)
                if not fails or (not conda and (step.pip.index_urls or one.specifier.startswith("@"))):
                    continue
                where = f"channel {row.channel} of conda" if conda else "package index"
                has = f"ends with {row.last}" if conda else f"has only a stub of it after {row.last}"
                yield Finding(
                    severity="error",
                    confidence="likely",
                    message=f"{name}{one.specifier} cannot be installed: the {where} {has}. The build stops here.",
                    saw=f"{name}{one.specifier}",
                    want=row.instead,
                    subject=image.place(step.command.line),
                    evidence=(command_of(image, step.command),),
                    fixes=(change(f"Install {row.instead}", _instead(recipe, image, step, one, row.instead)),),
                    refs=(row.source,),
                )


def _newer(one: Requirement, last: str) -> bool:
    """Whether a requirement of conda admits only releases after the last one."""
    exact = re.match(r"={2,3}(\d[\d.]*)|>=?(\d[\d.]*)", one.specifier)
    return exact is not None and figures((exact[1] or exact[2]).rstrip(".")) > figures(last)


def _instead(recipe: Recipe, image: Image, step: Step, one: Requirement, instead: str) -> str:
    place = one.file or image.place(step.command.line)
    if step.pip.tool == "conda":
        rows = [row for row in recipe.matrix.torch.builds(image.platform) if row.origin != "pypi"]
        fitting = [row for row in rows if package_matches(one.specifier, row.version)]
        best = next((row for row in fitting if row.build == step.pip.backend), next(iter(fitting), None))
        if best is None:
            return f"{place}: leave out pytorch and pytorch-cuda, and install torch by pip"
        url = recipe.matrix.torch.index_url(best)
        return install_line(recipe, image, step.command.line, best.version, best.build, url)
    return package_line(image, step, one, instead + _pin(recipe, image, instead))


def _pin(recipe: Recipe, image: Image, package: str) -> str:
    """ "==2.21.0", the newest release with wheels for the image's Python; "" if that is unknown."""
    name, _, extra = package.removesuffix("]").partition("[")
    builds, python = recipe.matrix.tables.framework_builds, python_of(image)
    rows = (row for row in builds if (row.install, row.extra) == (name, extra) and python in row.pythons)
    return next((f"=={row.newest}" for row in rows if row.newest), "")


@check("GPD617", "image-extension-not-built", "image")
def extension_not_built(recipe: Recipe) -> Verdicts:
    """A package that the image compiles finds no nvcc, or no torch.

    ## Why it matters
    flash-attn and its kin have no wheels on the package index. Their setup.py imports torch and asks for nvcc, also
    where it would download a ready wheel. pip builds in an environment of its own, in which there is no torch, unless
    it is told `--no-build-isolation`; and images named `runtime` or `base` have no nvcc.

    ## How it is judged
    The matrix names the packages. A wheel that the file names is not compiled. Nothing is said of nvcc if the base
    image is not known, is for AMD's GPUs, or if any line may bring nvcc; it is a warning if a file that cannot be
    read may have brought the package, and a note if the build goes on after a failure (`|| true`). pip before 25.3
    builds such packages beside the installed torch if `wheel` is installed: then a missing option is a warning.

    ## Fix safety
    The devel image of the same name holds what the runtime image holds, and the compiler. A ready wheel must be of
    this torch, CUDA and Python.
    """
    rows = {row.package: row for row in recipe.matrix.tables.extension_builds if row.only_source}
    for image in recipe.images:
        for number, step in enumerate(image.steps):
            install = step.pip
            if step.command.maybe or install.find_links or install.locked:
                continue
            for one in install.requirements:
                row = rows.get(one.name)
                if row is None or one.specifier.startswith("@") or _skips_compiling(image, step, row.skip):
                    continue
                why = _without_torch(image, step, number, one.name) if row.imports_torch else None
                if _without_nvcc(recipe, image, number):
                    sure = not any(installs_unread(image, before) for before in image.steps[:number])
                    apart_from_torch = why is not None
                    yield _without_compiler(recipe, image, step, one, sure, apart_from_torch)
                elif why:
                    yield _isolated(image, step, one, *why)


def _skips_compiling(image: Image, step: Step, skip: str | None) -> bool:
    value = step.command.variables.get(skip, image.variable(skip)) if skip else None
    return (value or "").upper() in _TRUE


def _without_nvcc(recipe: Recipe, image: Image, number: int) -> bool:
    held = recipe.torch(image)
    if (held is not None and held.vendor == "amd") or any(one.origin for one in image.copied):
        return False
    return without_toolkit(image, image.steps[: number + 1])


def _without_torch(image: Image, step: Step, number: int, name: str) -> tuple[Severity, str] | None:
    """Why the build of a package does not find torch; None if it does, or if that is unknown."""
    before = image.steps[:number]
    if (
        not image.facts.known
        or copies_environment(image) is not None
        or any(installs_unread(image, one) for one in before)
    ):
        return None
    there = image.facts.has_torch or any(one.pip.asks_for("torch") for one in before)
    if not there and not step.pip.unread and not step.pip.incomplete and step.pip.asks_for("torch"):
        return "error", "torch is installed by the same command, and is not there yet"
    beside = {"--no-build-isolation", "--no-build-isolation-package"} & set(step.pip.flags)
    beside |= {"PIP_NO_BUILD_ISOLATION", "UV_NO_BUILD_ISOLATION"} & image.settings.keys()
    if not there or beside or name in step.pip.beside_torch:
        return None
    return (
        "error" if step.pip.tool == "uv" else "warning"
    ), f"{step.pip.tool} builds it apart from the installed torch"


def _isolated(image: Image, step: Step, one: Requirement, severity: Severity, why: str) -> Finding:
    return about_line(
        image,
        step.command.line,
        step.command.shown,
        severity="note" if step.command.tolerated else severity,
        message=f"setup.py of {one.name} imports torch, and {why}: No module named 'torch'.{_goes_on(step)}",
        saw="no --no-build-isolation",
        want="--no-build-isolation, after torch",
        fixes=(change("Build it with the installed torch", *_beside_torch(image, step, one)),),
        refs=("Dao-AILab/flash-attention#246",),
    )


def _goes_on(step: Step) -> str:
    return " The build goes on without it." if step.command.tolerated else ""


def _beside_torch(image: Image, step: Step, one: Requirement) -> Iterator[str]:
    """The lines that build a package with the installed torch."""
    package = f"{one.name}{one.extras}{one.specifier}"
    if one.file and one.file != step.command.script:
        yield f"{one.file}: leave out {one.name}"
    yield in_place(image, step.command, split_off(step, one.name, package, "--no-build-isolation"))


def _without_compiler(
    recipe: Recipe, image: Image, step: Step, one: Requirement, sure: bool, apart_from_torch: bool
) -> Finding:
    place = image.place(step.command.line)
    also = tuple(_beside_torch(image, step, one)) if apart_from_torch else ()
    return about_line(
        image,
        step.command.line,
        step.command.shown,
        severity="note" if step.command.tolerated else "error" if sure else "warning",
        message=f"{one.name} is compiled here, and {image.base} has no nvcc: its setup.py stops.{_goes_on(step)}",
        saw="no nvcc",
        want="nvcc, or a ready wheel",
        fixes=tuple(_ways_to_compile(recipe, image, place, one, also)),
        refs=("Dao-AILab/flash-attention#1229, #1220, #1736",),
    )


def _ways_to_compile(
    recipe: Recipe, image: Image, place: str, one: Requirement, also: tuple[str, ...]
) -> Iterator[Fix]:
    name = image.base or ""
    devel = re.sub(r"-(runtime|base)(?=-|$)", "-devel", name)
    held = recipe.torch(image)
    of = f"torch {held.version} and CUDA {cuda_of(held.build) or ''}" if held and held.known else "this torch"
    instead = f"in place of {one.name}, the address of its wheel for {of}"
    wheel = change("Install a ready wheel", f"{one.file or place}: {instead}")
    if devel != name:
        base = image.on_base(devel)
        yield change("Use the image with the compiler", base, *also)
    yield wheel
