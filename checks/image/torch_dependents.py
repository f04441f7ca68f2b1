"""Packages of an image that require another torch than the image has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from gpudoctor.check import Verdicts, check
from gpudoctor.dockerfile.image import Image, Step
from gpudoctor.dockerfile.proposals import companion_lines, keep_torch, package_line, step_of, torch_finding
from gpudoctor.dockerfile.recipe import Recipe, change
from gpudoctor.dockerfile.requirements import Requirement
from gpudoctor.dockerfile.rewriting import TorchIndex, in_place, rewritten
from gpudoctor.dockerfile.torch_dependents import companion_torch, release_for, required_by, required_torch
from gpudoctor.dockerfile.torch_requests import TorchRequest, asked_for, configured_from, install_request
from gpudoctor.dockerfile.torch_wheels import ImageTorch
from gpudoctor.dockerfile.unreadable_commands import installs_unread
from gpudoctor.finding import Finding, Fix
from gpudoctor.frameworks.torch.companions import builds_differ, is_stable_torchaudio
from gpudoctor.machine.torch import COMPANIONS
from gpudoctor.matrix.torch_builds import cuda_of
from gpudoctor.matrix.versions import major_of, package_matches


@check("GPD654", "image-package-requires-other-torch", "image")
def requires_other_torch(recipe: Recipe) -> Verdicts:
    """A package requires another torch than the image installs.

    ## Why it matters
    vLLM, xformers and torchvision are compiled for one release of torch and require it. In the same command pip finds
    no solution, and the build of the image fails. In a later command pip replaces torch by that release, from
    whatever index that command names: often with another CUDA.

    ## How it is judged
    The matrix has the torch that exact versions of these packages require, and the newest torchvision of an index.
    A package without a version counts by its newest known release. A torchvision that the base image or a command
    before may have brought stays. It is an error if one command asks for both, a warning if a command replaces a
    torch whose version the file pins, or that of the base image, also where a requirements file asks for that other
    torch itself. It is also an error if a torchvision or torchaudio comes to a torch for other hardware or another
    major of CUDA (torchaudio: another CUDA), by its version or by the index of a later command: pip keeps both, and
    the import fails. So does that of one that stays when a later command installs another torch.

    ## Fix safety
    With one torch in all commands nothing is replaced.
    """
    for image in recipe.images:
        for order, step in enumerate(image.steps):
            if step.command.maybe or "--no-deps" in step.pip.flags:
                continue
            asked = next((one for one in asked_for(image) if one.order == order), None)
            for one in step.pip.requirements:
                torch = required_torch(one, recipe.matrix) or companion_torch(one, recipe.matrix)
                if asked is None or not torch or not asked.pinned or package_matches(torch, asked.pinned):
                    continue
                yield torch_finding(
                    image, asked, "error",
                    f"{one.name} {one.exact} requires torch {torch.removeprefix('==')}, and the same command asks "
                    f"for {asked.pinned}: the build fails here.",
                    f"torch{asked.requirement.specifier}", f"torch{torch}",
                    (_in_one_command(recipe, image, step, asked, one, torch),), certain=False,
                )  # fmt: skip
        yield from _of_another_build(recipe, image)
        yield from _left_behind(recipe, image)
        yield from _asked_again(image)
        for later in required_by(image, recipe.matrix):
            before = [one for one in asked_for(image) if one.order < later.order]
            wanted = later.requirement.specifier
            if later.maybe or not wanted:
                continue
            if not before:
                yield from _replacing_the_base(recipe, image, later)
                continue
            if not before[-1].pinned or package_matches(wanted, before[-1].pinned):
                continue
            yield torch_finding(
                image, later, "warning",
                f"{later.by} requires torch {wanted.removeprefix('==')}: pip replaces torch {before[-1].pinned} of "
                f"line {before[-1].line}.",
                f"torch{before[-1].requirement.specifier}", f"torch{wanted}",
                (_with_its_companion(recipe, image, before[-1], later),), certain=False,
            )  # fmt: skip


def _asked_again(image: Image) -> Iterator[Finding]:
    """A requirements file that asks for another torch than a command before pins."""
    requests = asked_for(image)
    for before, later in pairwise(requests):
        wanted = later.requirement
        if not before.pinned or before.maybe or later.maybe or before.locked or later.locked or later.folder:
            continue
        if not wanted.file or not wanted.specifier or wanted.specifier.startswith("@"):
            continue
        if package_matches(wanted.specifier.partition("+")[0], before.pinned):
            continue
        fix = change("Ask for one torch", f"{wanted.file}: torch=={before.pinned}, or leave it out")
        yield torch_finding(
            image, later, "warning",
            f"{wanted.file} asks for torch{wanted.specifier}: {later.tool} replaces torch {before.pinned} of line "
            f"{before.line}.",
            f"torch{before.requirement.specifier}", f"torch{wanted.specifier}", (fix,), certain=False,
        )  # fmt: skip


def _of_another_build(recipe: Recipe, image: Image) -> Iterator[Finding]:
    """A torchvision or torchaudio of another build than the image's torch, which pip keeps beside it."""
    held = recipe.torch(image)
    if held is None or held.asked is None or not held.known:
        return
    wrong: list[tuple[Step, TorchRequest, str]] = []
    for step, asked in _companions_beside(image, held.asked):
        if step.command.maybe or step.pip.tool not in ("pip", "uv") or step.pip.sourced:
            continue
        own = install_request(step, step.pip, asked, image, configured_from(image))
        wanted = companion_torch(asked, recipe.matrix)
        version = asked.release or _companion(recipe, held.version, asked.name)
        build = _build_of(recipe, image, held, own)
        fits = not wanted or package_matches(wanted, held.version)
        if fits and builds_differ(recipe.matrix, asked.name, version or "", build, held.build):
            wrong.append((step, own, build))
    for step, own, build in wrong:
        texts = {}
        for asked in (one.requirement for other, one, _ in wrong if other is step):
            release = _companion(recipe, held.version, asked.name)
            local = f"+{held.build}" if "+" in asked.specifier or asked.file else ""
            texts[asked] = f"{asked.name}=={release}{local}" if release else asked.name
        name, index = own.requirement.name, TorchIndex(held.asked.index_url, held.build)
        what = f"The {name} of {'the package index' if own.source == 'package index' else f'line {own.line}'}"
        yield torch_finding(
            image, own, "error",
            f"{f'{name} {own.requirement.exact}' if own.local else what} is built for {build}, and torch "
            f"{held.version} of line {held.line} for {held.build}: `import {name}` fails.",
            f"{name} for {build}", f"{name} for {held.build}",
            (change(f"Install the {name} for {held.build}", companion_lines(image, step, texts, index)),),
            certain=False,
        )  # fmt: skip


def _companions_beside(image: Image, torch: TorchRequest) -> Iterable[tuple[Step, Requirement]]:
    """The last commands that ask for torchvision and torchaudio in the environment of a torch."""
    last: dict[str, tuple[Step, Requirement]] = {}
    for step in image.steps:
        for name in step.command.argv if "uninstall" in step.command.argv else ():
            last.pop(name, None)
        for one in step.pip.requirements if not step.pip.elsewhere else ():
            if one.name in COMPANIONS and step.environment == torch.environment:
                last[one.name] = step, one
    return last.values()


def _left_behind(recipe: Recipe, image: Image) -> Iterator[Finding]:
    """A torchvision or torchaudio of an exact version that stays when a later command installs another torch."""
    held = recipe.torch(image)
    if held is None or held.asked is None or not held.known or held.asked.by or held.asked.locked:
        return
    later, asked = image.steps[held.asked.order], held.asked
    if "install" not in later.command.argv or installs_unread(image, later):
        return
    left = [
        (step, one, torch)
        for step, one in _companions_beside(image, asked)
        if not step.command.maybe and image.steps.index(step) < asked.order
        if (torch := companion_torch(one, recipe.matrix)) and not package_matches(torch, held.version)
    ]
    also = [f"{one.name}=={release}" for _, one, _ in left if (release := _companion(recipe, held.version, one.name))]
    for step, one, torch in left:
        text = in_place(image, later.command, rewritten(later, {}, None, also))
        yield torch_finding(
            image, asked, "error",
            f"{one.name} {one.release} of line {step.command.line} requires torch {torch.removeprefix('==')}, and "
            f"stays when this command installs torch {held.version}: `import {one.name}` fails.",
            f"{one.name} {one.release}", f"a {one.name} for torch {held.version}",
            (change(f"Install the {one.name} of that torch with it", text),) if also else (), certain=False,
        )  # fmt: skip


def _build_of(recipe: Recipe, image: Image, held: ImageTorch, own: TorchRequest) -> str:
    """The build of a torchvision or torchaudio; "" if it is not known. In a command with torch, pip takes both from
    the same places."""
    beside = held.asked is not None and own.order <= held.asked.order
    if own.local or (own.source == "index" and not beside):
        return own.local or own.build
    if own.source != "package index" or beside or own.requirement.specifier.startswith("@"):
        return ""
    if is_stable_torchaudio(recipe.matrix, own.requirement.name, own.pinned):
        return ""
    rows = recipe.matrix.torch.builds(image.platform)
    return next((row.build for row in rows if row.origin == "pypi" and row.version == held.version), "")


def _replacing_the_base(recipe: Recipe, image: Image, later: TorchRequest) -> Iterator[Finding]:
    """A package that requires another torch than the base image has. Other checks tell it of a torch for another
    vendor's GPUs, and of the images whose torch NVIDIA built."""
    held, facts = recipe.torch(image), image.facts
    if held is None or held.asked != later or not facts.torch:
        return
    if held.vendor not in (None, facts.vendor) or facts.origin in ("ngc", "jetson"):
        return
    if any("venv" in step.command.text for step in image.steps):
        return
    wanted = later.requirement.specifier
    name, _, version = later.by.partition(" ")
    if not version and not recipe.driver and major_of(facts.cuda) < major_of(cuda_of(held.build)):
        return  # image-cuda-older-than-wheel reports it
    release = _companion(recipe, facts.torch, name) or release_for(name, facts.torch, recipe.matrix)
    if release:
        step, asked = step_of(image, later.line, name)
        title = f"Install {name} {release}, which is for torch {facts.torch}"
        fix = change(title, package_line(image, step, asked, f"{name}=={release}"))
    elif version:
        other = f"torch {wanted.removeprefix('==')}"
        fix = change(f"Use a base image with {other}", image.on_base(f"an image with {other}"))
    else:
        fix = keep_torch(image, later, facts.torch)
    yield torch_finding(
        image, later, "warning",
        f"{later.by} requires torch {wanted.removeprefix('==')}: pip replaces torch {facts.torch} of {image.base}, "
        "and what was compiled for that may fail.",
        f"torch {facts.torch}", f"torch{wanted}", (fix,), certain=False,
    )  # fmt: skip


def _in_one_command(
    recipe: Recipe, image: Image, step: Step, asked: TorchRequest, package: Requirement, torch: str
) -> Fix:
    """The fix that lets pip find a solution: the companion of the torch, or the torch that the package requires."""
    release = _companion(recipe, asked.pinned, package.name)
    if release:
        local = f"+{asked.local}" if asked.local else ""
        text = package_line(image, step, package, f"{package.name}=={release}{local}")
        return change(f"Ask for {package.name} {release}", text)
    text = package_line(image, step, asked.requirement, f"torch{torch}")
    return change(f"Ask for torch {torch.removeprefix('==')}", text)


def _companion(recipe: Recipe, torch: str, name: str) -> str | None:
    """The release of torchvision or torchaudio that belongs to a torch."""
    row = recipe.matrix.torch.companion(torch)
    return row.release_of(name) if row else None


def _with_its_companion(recipe: Recipe, image: Image, before: TorchRequest, later: TorchRequest) -> Fix:
    """The fix that leaves one torch: the release of the package that is for the torch before, else the torch that the
    package requires, or for a package of any version that torch in its command."""
    name, _, version = later.by.partition(" ")
    release = _companion(recipe, before.pinned, name)
    index = TorchIndex(before.index_url, before.build) if release else None
    release = release or release_for(name, before.pinned, recipe.matrix)
    if release:
        step, asked = step_of(image, later.line, name)
        text = f"{name}=={release}"
        title = f"Install {name} {release}, which is for torch {before.pinned}"
        return change(title, package_line(image, step, asked, text, index))
    if version:
        step, asked = step_of(image, before.line, "torch")
        text = f"torch=={later.pinned}"
        return change(f"Install torch {later.pinned} at once", package_line(image, step, asked, text))
    return keep_torch(image, later, before.pinned)
