"""The torch that an image installs, compared with its base image."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpudoctor.check import Verdicts, check
from gpudoctor.dockerfile.image import Image
from gpudoctor.dockerfile.image_python import python_of
from gpudoctor.dockerfile.kept_torch import with_the_torch_of_its_base
from gpudoctor.dockerfile.proposals import build_within, install_line, keep_torch, torch_finding
from gpudoctor.dockerfile.recipe import Recipe, change
from gpudoctor.dockerfile.torch_dependents import pins_torch
from gpudoctor.dockerfile.torch_requests import TorchRequest
from gpudoctor.dockerfile.torch_wheels import ImageTorch, outrun, wheels_for
from gpudoctor.dockerfile.variables import OVERRIDE_CUDA
from gpudoctor.finding import Finding, Fix, Severity
from gpudoctor.machine import PLATFORMS
from gpudoctor.matrix.torch_builds import cuda_of
from gpudoctor.matrix.versions import figures, major_of, minor

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
        if held is None or not facts.cuda or not wheel or held.asked is None:
            continue
        if outrun(image, recipe.matrix, held, held.asked) is not None:
            continue  # image-torch-without-index reports it, with the same fix
        alike = major_of(facts.cuda) == major_of(wheel)
        compiled = _compiles(image, held)
        if not alike and facts.compiler and compiled:
            what, always = compiled
            nvcc = f"nvcc {facts.cuda}{'' if always else ' (where no ready wheel is found)'}"
            yield _older(
                recipe, image, held, wheel, "error" if always else "warning",
                f"{what} is compiled with the base image's {nvcc} against a torch for CUDA {wheel}: "
                "torch refuses another major version.",
            )  # fmt: skip
        elif minor(facts.cuda) >= minor(wheel):
            continue
        elif facts.libraries and alike and _base_libraries_first(image):
            yield _older(
                recipe, image, held, wheel, "warning",
                f"LD_LIBRARY_PATH puts the libraries of CUDA {facts.cuda} before those in the wheel (CUDA "
                f"{wheel}): a mixture of both may fail to load.",
            )  # fmt: skip
        elif not alike and not _driver_is_judged(recipe, held, wheel):
            floor = recipe.matrix.nvidia.floor(wheel)
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


def _driver_is_judged(recipe: Recipe, held: ImageTorch, wheel: str) -> bool:
    """Whether the described driver supports the wheel, or the checks of machines say that it does not."""
    verdict = recipe.matrix.nvidia.driver_for_cuda(recipe.driver, wheel)
    return verdict in ("serves", "minor-version") or (verdict == "too-old" and held.known)


def _older(recipe: Recipe, image: Image, held: ImageTorch, wheel: str, severity: Severity, message: str) -> Finding:
    facts, asked = image.facts, held.asked
    assert facts.cuda is not None and asked is not None
    fixes = [
        change(
            "Use a base image with the wheel's CUDA",
            image.on_base(f"an image with CUDA {wheel}"),
        )
    ]
    build = build_within(recipe, image, facts.cuda, held.version if held.certain else "")
    if facts.torch and asked.by and " " not in asked.by:
        fixes.insert(0, keep_torch(image, asked, facts.torch))
    elif build is not None:
        url = recipe.matrix.torch.index_url(build)
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


def _compiles(image: Image, held: ImageTorch) -> tuple[str, bool] | None:
    """(what is compiled against torch after torch was installed, whether that is certain)."""
    for step in image.steps:
        install, text = step.pip, step.command.text
        if step.command.line < held.line or step.command.maybe:
            continue
        if "--no-build-isolation" in install.flags and not install.find_links:
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
        if held is None or held.asked is None or facts.vendor is None or held.vendor is None:
            continue
        if held.vendor == facts.vendor or (recipe.gpus and held.known):
            continue
        own = PLATFORMS[facts.vendor]
        by = f", which {held.asked.by} brings," if held.asked.by else ""
        row = _of_vendor(recipe, image, held)
        fixes = (
            (change("Keep the base image's torch", *kept[1]),)
            if (kept := with_the_torch_of_its_base(recipe, image)) is not None
            else (
                change(
                    f"Install it for {own}",
                    _for_vendor(image, held.asked, own),
                ),
            )
            if pins_torch(held.asked.by.partition(" ")[0], recipe.matrix)
            else (
                change(
                    f"Install the {own} build",
                    install_line(
                        recipe, image, held.line, row.version, row.build, recipe.matrix.torch.index_url(row)
                    ),
                ),
            )
            if row
            else ()
        )
        yield torch_finding(
            image, held.asked, "error",
            f"{image.base} is made for {own}, but torch {held.version} from the "
            f"{_place(held)}{by} is built for {PLATFORMS[held.vendor]}: it finds no GPU.",
            f"{held.build}", f"a {own} build", fixes,
        )  # fmt: skip


def _for_vendor(image: Image, asked: TorchRequest, kind: str) -> str:
    place = asked.requirement.file or image.place(asked.line)
    return f"{place}: leave out {asked.by.partition(' ')[0]}, or install it from a source that has it for {kind}"


def _place(held: ImageTorch) -> str:
    return "package index" if held.source == "package index" else f"index for {held.build}"


def _of_vendor(recipe: Recipe, image: Image, held: ImageTorch) -> TorchBuild | None:
    """The nearest build for the base image: the same version, with the base's CUDA or ROCm or an older one."""
    facts = image.facts
    limit = facts.rocm if facts.vendor == "amd" else facts.cuda
    rows = [row for row in wheels_for(recipe.matrix, image.platform, python_of(image)) if row.origin != "pypi"]
    rows = [row for row in rows if (row.rocm if facts.vendor == "amd" else row.cuda)]
    same = [row for row in rows if row.version == held.version] or rows

    def fits(row: TorchBuild) -> tuple[bool, tuple[int, ...]]:
        own = row.rocm or row.cuda or ""
        return not limit or minor(own) <= minor(limit), figures(own)

    return max(same, key=fits, default=None)


_NAMED_FOR_CPUS = re.compile(r"(?<![a-z])cpu(only)?(?![a-z])", re.IGNORECASE)
_ASIDE = re.compile(r"(?<![a-z])(tests?|lint|docs?)(?![a-z])", re.IGNORECASE)
"""A stage that no GPU computes in."""


@check("GPD656", "image-torch-cpu-only", "image")
def cpu_only(recipe: Recipe) -> Verdicts:
    """The image is made for GPUs, and its torch is a CPU build.

    ## Why it matters
    A CPU build computes on the processor, and says only that no GPU is available. A project whose sources name the
    index for CPUs, or whose lock file was made with it, installs one wherever it is built.

    ## How it is judged
    The base image is for CUDA or ROCm, a service gives the image NVIDIA GPUs, or the image installs vLLM or xformers,
    whose wheels are compiled for CUDA; and a command, a lock file or uv's
    sources name the index for CPUs, without a variable that whoever builds the image may set. So does conda with
    pytorch of conda-forge: it sees no driver while an image is built. Nothing is reported if a name says that the
    image is for CPUs, or its stage for tests or documents, or if another framework may use the GPU. If GPUs are
    described, torch is checked against them instead.

    ## Fix safety
    The proposed index has the same release for the base image's vendor. CONDA_OVERRIDE_CUDA counts while conda
    chooses the packages.
    """
    for image in recipe.images:
        held, facts = recipe.torch(image), image.facts
        if held is None or held.build != "cpu" or held.asked is None or not facts.known or recipe.gpus:
            continue
        given = any(one.image is image and one.given_nvidia for one in recipe.services)
        named = _NAMED_FOR_CPUS.search(f"{image.name} {image.file}") or _ASIDE.search(image.name)
        steps = [step for step in image.steps if step.command.line == held.line]
        chosen = any("$" in step.command.written for step in steps)
        compiled = _compiled_for_gpus(recipe, image)
        if not (facts.cuda or facts.rocm or given or compiled) or named or chosen:
            continue
        if not all(one.cpu for one in recipe.frameworks(image)):
            continue
        if facts.has_torch and facts.origin == "ngc" and not held.asked.environment:
            continue  # image-torch-replaced reports it
        kind = "ROCm" if facts.rocm else "CUDA"
        row = _of_vendor(recipe, image, held)
        fixes: tuple[Fix, ...] = ()
        if not facts.rocm and any(step.pip.without_cuda for step in steps):
            setting = image.written_env(OVERRIDE_CUDA, facts.cuda or _oldest_cuda(recipe, image))
            line = f"{image.place(held.line)}: above it: {setting}"
            why = "nvidia-smi on the host prints the newest CUDA that its driver supports"
            fixes = (change("Tell conda which CUDA there will be", line, why=why),)
        elif row is not None:
            url = recipe.matrix.torch.index_url(row)
            line = (
                f"{image.place(held.line)}: name {url} in place of the index for CPUs"
                if held.asked.by
                else install_line(recipe, image, held.line, row.version, row.build, url)
            )
            fixes = (change(f"Install the {kind} build", line),)
        made = f"{compiled} is compiled for {kind}" if compiled else "A service gives the image GPUs"
        made = f"{image.base} is made for {kind}" if facts.cuda or facts.rocm else made
        version = f"torch {held.version}" if held.certain else "its torch"
        yield torch_finding(
            image, held.asked, "warning", f"{made}, and {version} is a CPU build: it does not use the GPU.",
            "a CPU build", f"a {kind} build", fixes, certain=False,
        )  # fmt: skip


def _compiled_for_gpus(recipe: Recipe, image: Image) -> str:
    """A package that the image installs and whose wheels need a torch for GPUs; "" if it installs none."""
    named = (one.name for step in image.steps if not step.command.maybe for one in step.pip.requirements)
    return next((name for name in named if pins_torch(name, recipe.matrix)), "")


def _oldest_cuda(recipe: Recipe, image: Image) -> str:
    """The CUDA that most drivers support, of those in the indexes of the newest torch."""
    wheels = wheels_for(recipe.matrix, image.platform, python_of(image))
    rows = [row for row in wheels if row.cuda and row.origin != "pypi"]
    return min((row.cuda or "" for row in rows if row.version == rows[0].version), key=minor, default="")


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
        if held is None or held.asked is None or not held.known or not facts.has_torch:
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
            kept = with_the_torch_of_its_base(recipe, image)
            advice = "\n".join(kept[1]) if kept is not None else ""
            if asked.by or not advice:
                what = f"{asked.by}, which requires that torch," if asked.by else "torch"
                own = f"install {what} into a virtual environment of its own."
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
        if held is None or held.asked is None or facts.origin != "jetson" or facts.has_torch:
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
    release = image.facts.release
    taken_back = "PIP_CONSTRAINT" in image.settings or any(
        "PIP_CONSTRAINT" in step.command.variables or "PIP_CONSTRAINT" in step.command.text for step in image.steps
    )
    return asked.tool == "pip" and figures(release or "") >= (25, 3) and not taken_back
