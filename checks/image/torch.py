"""The torch that an image installs, compared with its base image."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpudoctor.check import Verdicts, check
from gpudoctor.dockerfile.image import Image, Step
from gpudoctor.dockerfile.proposals import build_within, install_line, package_line, step_of, torch_finding
from gpudoctor.dockerfile.recipe import Recipe, change
from gpudoctor.dockerfile.requirements import Requirement
from gpudoctor.dockerfile.rewriting import TorchIndex
from gpudoctor.dockerfile.torch import (
    Held,
    TorchRequest,
    asked_for,
    companion_torch,
    cuda_of,
    outrun,
    pins_torch,
    python_of,
    release_for,
    required_by,
    required_torch,
    wheels_for,
)
from gpudoctor.finding import Finding, Fix, Severity
from gpudoctor.matrix.versions import figures, minor, package_matches

if TYPE_CHECKING:
    from gpudoctor.matrix.rows import TorchBuild

_COMPILED = ("pytorch3d", "detectron2", "tinycudann", "torch-scatter", "torch-sparse")
_OFTEN_READY = ("flash-attn", "mamba-ssm", "causal-conv1d")
"""Their setup.py first looks for a ready wheel for this torch, and compiles if there is none."""


@check("GPD603", "image-cuda-older-than-wheel", "image")
def older_cuda(recipe: Recipe) -> Verdicts:
    """The base image's CUDA is older than the CUDA of the torch wheel.

    ## Why it matters
    Wheels bring their own CUDA runtime, so torch itself does not use the base image's. But the image then starts on
    hosts whose driver supports the base image and not torch (another major). An nvcc of another major cannot compile
    an extension. An older /usr/local/cuda/lib64 on LD_LIBRARY_PATH mixes with the wheel's libraries.

    ## How it is judged
    An error if something is compiled against torch with an nvcc of another major version. A warning if that is only
    possible (a ready wheel may exist, or a package has no CUDA code), if the major differs and no driver is known to
    support the wheel, and for LD_LIBRARY_PATH. Otherwise a note.

    ## Fix safety
    Either side may change: use a base image with the wheel's CUDA, or a wheel with the base image's CUDA.
    """
    for image in recipe.images:
        held, facts = recipe.torch(image), image.facts
        wheel = cuda_of(held.build) if held else ""
        if held is None or facts is None or not facts.cuda or not wheel or held.asked is None:
            continue
        if outrun(image, recipe.matrix, held, held.asked) is not None:
            continue  # image-torch-without-index reports it, with the same fix
        majors = figures(facts.cuda)[0], figures(wheel)[0]
        compiled = _compiles(image, held)
        if majors[0] != majors[1] and facts.compiler and compiled:
            what, always = compiled
            nvcc = f"nvcc {facts.cuda}{'' if always else ' (where no ready wheel is found)'}"
            yield _older(
                recipe, image, held, wheel, "error" if always else "warning",
                f"{what} is compiled with the base image's {nvcc} against a torch for CUDA {wheel}: "
                "torch refuses another major version.",
            )  # fmt: skip
        elif minor(facts.cuda) >= minor(wheel):
            continue
        elif facts.libraries and majors[0] == majors[1] and _base_libraries_first(image):
            yield _older(
                recipe, image, held, wheel, "warning",
                f"LD_LIBRARY_PATH puts the libraries of CUDA {facts.cuda} before those in the wheel (CUDA "
                f"{wheel}): a mixture of both may fail to load.",
            )  # fmt: skip
        elif majors[0] != majors[1] and not _driver_is_judged(recipe, held, wheel):
            floor = recipe.matrix.floor(wheel)
            yield _older(
                recipe, image, held, wheel, "warning",
                f"The image is made for hosts that support CUDA {facts.cuda}, but its torch needs a driver for "
                f"CUDA {wheel}"
                + (f" ({floor} or newer)." if floor else "."),
            )  # fmt: skip
        else:
            yield _older(
                recipe, image, held, wheel, "note",
                f"torch brings CUDA {wheel} and does not use the base image's CUDA {facts.cuda}.",
            )  # fmt: skip


def _driver_is_judged(recipe: Recipe, held: Held, wheel: str) -> bool:
    """Whether the described driver supports the wheel, or the checks of machines say that it does not."""
    verdict = recipe.matrix.driver_for_cuda(recipe.driver, wheel)
    return verdict in ("serves", "minor-version") or (verdict == "too-old" and held.known)


def _older(recipe: Recipe, image: Image, held: Held, wheel: str, severity: Severity, message: str) -> Finding:
    facts, asked = image.facts, held.asked
    assert facts is not None and facts.cuda is not None and asked is not None
    fixes = [
        change(
            "Use a base image with the wheel's CUDA",
            image.on_base(f"an image with CUDA {wheel}"),
        )
    ]
    build = build_within(recipe, image, facts.cuda, held.version if held.certain else "")
    if facts.torch and asked.by and " " not in asked.by:
        fixes.insert(0, _kept(image, asked, facts.torch))
    elif build is not None:
        url = recipe.matrix.index_url(build)
        fixes.insert(
            0,
            change(
                "Use a wheel with the base image's CUDA",
                install_line(recipe, image, asked.line, build.version, build.build, url),
            ),
        )
    return torch_finding(
        image, asked, severity, message, f"CUDA {facts.cuda} in {image.base}", f"CUDA {wheel}",
        tuple(fixes) if severity != "note" else (), certain=severity == "note",
    )  # fmt: skip


def _compiles(image: Image, held: Held) -> tuple[str, bool] | None:
    """(what is compiled against torch after torch was installed, whether that is certain)."""
    for step in image.steps:
        install, text = step.pip, step.command.text
        if step.command.line < held.line or step.command.maybe:
            continue
        if install is not None and "--no-build-isolation" in install.flags and not install.find_links:
            names = [one.name for one in install.requirements if one.name in (*_COMPILED, *_OFTEN_READY)]
            if names or not install.requirements:
                forced = "FLASH_ATTENTION_FORCE_BUILD" in step.command.variables
                return (names[0], forced or names[0] in _COMPILED) if names else ("a package", False)
        if re.search(r"setup\.py (install|develop|build_ext)", text):
            return "an extension", "build_ext" in text
    return None


def _base_libraries_first(image: Image) -> bool:
    setting = image.settings.get("LD_LIBRARY_PATH")
    parts = (setting.value or "").split(":") if setting else []
    return any(re.match(r"/usr/local/cuda(-[\d.]+)?/(lib64|targets/.*/lib)/?$", part) for part in parts)


@check("GPD604", "image-torch-other-vendor", "image")
def other_vendor(recipe: Recipe) -> Verdicts:
    """torch is built for another vendor's GPUs than the base image.

    ## Why it matters
    The package index's torch is a CUDA build and finds no GPU in a ROCm image; a ROCm build finds none in a CUDA one.

    ## How it is judged
    The check compares the vendor of the base image with the build that the last command installs. A requirement that
    the base's own torch satisfies changes nothing. A package without a version counts by its newest known release:
    where that needs another torch, pip replaces the base's; constraints may prevent it, and are no fault. If GPUs are
    described, torch is checked against them instead.

    ## Fix safety
    The proposed index has the same release for the base image's vendor.
    """
    for image in recipe.images:
        held, facts = recipe.torch(image), image.facts
        if held is None or held.asked is None or facts is None or facts.vendor is None or held.vendor is None:
            continue
        if held.vendor == facts.vendor or (recipe.gpus and held.known):
            continue
        kind = {"nvidia": "CUDA", "amd": "ROCm"}
        by = f", which {held.asked.by} brings," if held.asked.by else ""
        row = _of_vendor(recipe, image, held)
        fixes = (
            (change("Keep the base image's torch", _keeping(image, held.asked, kind[facts.vendor])),)
            if facts.has_torch
            else (change(f"Install it for {kind[facts.vendor]}", _keeping(image, held.asked, kind[facts.vendor])),)
            if pins_torch(held.asked.by.partition(" ")[0], recipe.matrix)
            else (
                change(
                    f"Install the {kind[facts.vendor]} build",
                    install_line(recipe, image, held.line, row.version, row.build, recipe.matrix.index_url(row)),
                ),
            )
            if row
            else ()
        )
        yield torch_finding(
            image, held.asked, "error",
            f"{image.base} is made for {kind[facts.vendor]}, but torch {held.version} from the "
            f"{_place(held)}{by} is built for {kind[held.vendor]}: it finds no GPU.",
            f"{held.build}", f"a {kind[facts.vendor]} build", fixes,
        )  # fmt: skip


def _keeping(image: Image, asked: TorchRequest, kind: str) -> str:
    if not asked.by:
        return f"{_without(image, asked)}; the base image has one."
    name = asked.by.partition(" ")[0]
    place = asked.requirement.file or image.place(asked.line)
    alone = " with --no-deps" if image.facts is not None and image.facts.has_torch else ""
    return f"{place}: leave out {name}, or install it{alone} from a source that has it for {kind}"


def _without(image: Image, asked: TorchRequest) -> str:
    """Where to leave torch out: in the file that names it, or in the command."""
    file = asked.requirement.file if not asked.locked else ""
    return f"{file}: leave out torch" if file else f"{image.place(asked.line)}: leave torch out of the command"


def _place(held: Held) -> str:
    return "package index" if held.source == "package index" else f"index for {held.build}"


def _of_vendor(recipe: Recipe, image: Image, held: Held) -> TorchBuild | None:
    """The nearest build for the base image: the same version, with the base's CUDA or ROCm or an older one."""
    facts = image.facts
    assert facts is not None
    limit = facts.rocm if facts.vendor == "amd" else facts.cuda
    rows = [row for row in wheels_for(recipe.matrix, image.platform, python_of(image)) if row.origin != "pypi"]
    rows = [row for row in rows if (row.rocm if facts.vendor == "amd" else row.cuda)]
    same = [row for row in rows if row.version == held.version] or rows

    def fits(row: TorchBuild) -> tuple[bool, tuple[int, ...]]:
        own = row.rocm or row.cuda or ""
        return not limit or minor(own) <= minor(limit), figures(own)

    return max(same, key=fits, default=None)


@check("GPD655", "image-torch-replaced", "image")
def torch_replaced(recipe: Recipe) -> Verdicts:
    """The torch that NVIDIA built for its image is replaced by another one.

    ## Why it matters
    The packages of an NGC image (torchvision, apex, Transformer Engine) are compiled for its own torch, and fail with
    another. Since 25.03 its PIP_CONSTRAINT pins that torch, so pip may find no solution. An image for Jetson holds a
    torch for Jetson's GPUs, which no index of torch has before JetPack 7: its wheels for aarch64 are for the CPU or
    for servers.

    ## How it is judged
    The base image is an NGC or L4T image with torch, and a command installs a torch that the base's own does not
    satisfy into the image's own Python. Another index than those of torch may have wheels for Jetson: no report. A
    warning in an NGC image, an error in one for Jetson.

    ## Fix safety
    Without torch in the command the base image's torch stays.
    """
    for image in recipe.images:
        held, facts = recipe.torch(image), image.facts
        if held is None or held.asked is None or not held.known or facts is None or not facts.has_torch:
            continue
        if held.asked.locked or any("venv" in step.command.text for step in image.steps):
            continue  # an environment of its own beside the image's
        asked, new = held.asked, f"torch {held.version} ({held.build})"
        text = ""
        if facts.origin == "ngc":
            text = (
                f"{new} replaces NVIDIA's own torch of {image.base}: the packages beside it were compiled for that."
                + (_PINNED if _pins_torch(image, asked) else "")
            )
        elif facts.origin == "jetson" and "cpu" not in (asked.build, asked.local):
            made = "is a CPU build" if held.build == "cpu" else "is built for servers"
            lost = f"{image.base} loses its torch for Jetson: {new} of the {_place(held)} {made} on aarch64."
            text = lost if held.build == "cpu" or figures(facts.release or "") < _SERVER_STACK else ""
        if text:
            advice = f"{_without(image, asked)}."
            if asked.by:
                own = f"install {asked.by}, which requires that torch, into a virtual environment of its own."
                advice = f"{image.place(held.line)}: {own}"
            keep = change("Keep the base image's torch", advice)
            yield torch_finding(
                image, asked, "error" if facts.origin == "jetson" else "warning", text, new,
                f"the torch of {image.base}", (keep,), certain=False,
            )  # fmt: skip


@check("GPD614", "image-torch-not-for-jetson", "image")
def not_for_jetson(recipe: Recipe) -> Verdicts:
    """The torch that the image installs is not built for Jetson.

    ## Why it matters
    No index of torch has a build for Jetson's GPUs before JetPack 7. Its wheels for aarch64 are for the CPU or for
    Arm servers, and find no GPU. A torchvision of the package index brings such a torch along, also over the wheel of
    NVIDIA that a line before installs.

    ## How it is judged
    The base image is one of NVIDIA's for Jetson without a torch, and a command installs a torch of the package index
    or of torch's indexes. A CPU build that the file names is meant. Another index may have wheels for Jetson.

    ## Fix safety
    NVIDIA's torch for that release of Jetson Linux takes nothing from the image.
    """
    for image in recipe.images:
        held, facts = recipe.torch(image), image.facts
        if held is None or held.asked is None or facts is None or facts.origin != "jetson" or facts.has_torch:
            continue
        asked, release = held.asked, facts.release or ""
        if not held.known or "cpu" in (asked.build, asked.local) or figures(release) >= _SERVER_STACK:
            continue
        made = "is a CPU build" if held.build == "cpu" else "is built for servers"
        by = f" that {asked.by} brings" if asked.by else ""
        line = release.partition(".")[0]
        pages = (row.wheels[line] for row in recipe.matrix.tables.nvidia_socs if line in row.wheels)
        page = next(pages, "NVIDIA's wheels for Jetson")
        advice = f"take torch{' and torchvision' if asked.by else ''} for Jetson from {page}"
        yield torch_finding(
            image, asked, "error",
            f"{image.base} is for Jetson, and torch {held.version}{by} {made} on aarch64: it finds no GPU.",
            f"torch {held.version} ({held.build}) of the {_place(held)}", f"a torch for Jetson Linux {line}",
            (change("Install the torch for Jetson", f"{image.place(held.line)}: {advice}"),), certain=False,
        )  # fmt: skip


_PINNED = " The image pins it (PIP_CONSTRAINT), so the build may fail here."
_SERVER_STACK = (38,)
"""From this L4T on (JetPack 7) Jetson has the CUDA of Arm servers, and their wheels start on it."""


def _pins_torch(image: Image, asked: TorchRequest) -> bool:
    """Whether the NGC image's own constraints hold for a command: since 25.03, for pip, unless the file takes them
    back."""
    release = image.facts.release if image.facts else None
    taken_back = "PIP_CONSTRAINT" in image.settings or any(
        "PIP_CONSTRAINT" in step.command.variables or "PIP_CONSTRAINT" in step.command.text for step in image.steps
    )
    return asked.tool == "pip" and figures(release or "") >= (25, 3) and not taken_back


@check("GPD654", "image-package-requires-other-torch", "image")
def requires_other_torch(recipe: Recipe) -> Verdicts:
    """A package requires another torch than the image installs.

    ## Why it matters
    vLLM, xformers and torchvision are compiled for one release of torch and require it. In the same command pip finds
    no solution, and the build of the image fails. In a later command pip replaces torch by that release, from
    whatever index that command names: often with another CUDA.

    ## How it is judged
    The matrix has the torch that exact versions of these packages require, and the newest torchvision of an index. A
    package without a version counts by its newest known release.
    A torchvision that the base image or a command before may have brought stays. It is an error if one command asks
    for both, a warning if a command replaces a torch whose version the file pins, or that of the base image.

    ## Fix safety
    With one torch in all commands nothing is replaced.
    """
    for image in recipe.images:
        for step in image.steps:
            if step.pip is None or step.command.maybe or "--no-deps" in step.pip.flags:
                continue
            asked = next((one for one in asked_for(image) if one.line == step.command.line), None)
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
        for later in required_by(image, recipe.matrix):
            before = [one for one in asked_for(image) if one.line < later.line]
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


def _replacing_the_base(recipe: Recipe, image: Image, later: TorchRequest) -> Iterator[Finding]:
    """A package that requires another torch than the base image has. Other checks tell it of a torch for another
    vendor's GPUs, and of the images whose torch NVIDIA built."""
    held, facts = recipe.torch(image), image.facts
    if held is None or held.asked != later or facts is None or not facts.torch:
        return
    if held.vendor not in (None, facts.vendor) or facts.origin in ("ngc", "jetson"):
        return
    if any("venv" in step.command.text for step in image.steps):
        return
    wanted = later.requirement.specifier
    name, _, version = later.by.partition(" ")
    if not version and not recipe.driver and figures(facts.cuda or "")[:1] < figures(cuda_of(held.build))[:1]:
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
        fix = _kept(image, later, facts.torch)
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
    row = recipe.matrix.companion(torch)
    return {"torchvision": row.torchvision, "torchaudio": row.torchaudio}.get(name) if row else None


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
    return _kept(image, later, before.pinned)


def _kept(image: Image, asked: TorchRequest, version: str) -> Fix:
    """The fix that names the torch that is there, so that pip looks for a release of the package that is for it."""
    step, _ = step_of(image, asked.line, asked.by)
    text = package_line(image, step, Requirement("torch"), f"torch=={version}")
    return change(f"Keep torch {version}: name it with {asked.by}", text)
