"""Images on the GPUs and the driver that `--gpu` and `--driver` describe, where the image's torch is not known.

An image whose torch is known is checked as a machine."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gpudoctor.check import Verdicts, check
from gpudoctor.dockerfile.conda import conda_packages
from gpudoctor.dockerfile.cuda_compat import compat_library
from gpudoctor.dockerfile.image import Image
from gpudoctor.dockerfile.recipe import Recipe, about_line, change, line_of
from gpudoctor.dockerfile.unreadable_commands import copies_environment, installs_unread
from gpudoctor.finding import Finding, NotJudged
from gpudoctor.frameworks.torch.coverage import toolkit_knows
from gpudoctor.isa import Answer, cuda_runs
from gpudoctor.machine import OVERRIDE, PLATFORMS, Gpu, Torch

if TYPE_CHECKING:
    from gpudoctor.matrix.nvidia import DriverVerdict
    from gpudoctor.matrix.rows import BaseImage


@check("GPD611", "image-too-new-for-driver", "image")
def too_new_for_driver(recipe: Recipe) -> Verdicts:
    """The image's CUDA needs a newer driver than the described one.

    ## Why it matters
    NVIDIA's images set NVIDIA_REQUIRE_CUDA. The container toolkit refuses to start them on a driver that is too old
    for their CUDA, whatever torch they contain.

    ## How it is judged
    The check compares the CUDA of the base image with the driver of `--driver`, by CUDA's minimum drivers.
    On data-centre GPUs the compatibility library of these images counts, on the driver branches that NVIDIA supports
    it on. On GeForce GPUs the images start only with a driver of their CUDA, or of the branches that their
    NVIDIA_REQUIRE_CUDA names, unless NVIDIA_DISABLE_REQUIRE is set. A torch image is judged by its torch; an NGC
    image by its CUDA, if the matrix knows it.

    ## Fix safety
    An older base image takes nothing from torch: torch's wheels bring their own CUDA.
    """
    gpus = [gpu for gpu in recipe.gpus if gpu.vendor == "nvidia"]
    for image in recipe.images:
        facts = image.facts
        if not (gpus and recipe.driver and facts.cuda):
            continue
        ngc = facts.origin == "ngc" and _keeps_its_torch(recipe, image)
        if facts.has_torch and not ngc:
            continue
        floor = recipe.matrix.nvidia.floor(facts.cuda) or f"one for CUDA {facts.cuda}"
        if not ngc and _refuses_geforce(recipe, image, facts.cuda):
            floor = recipe.matrix.nvidia.bundled_driver(facts.cuda) or floor
        elif recipe.matrix.nvidia.driver_for_cuda(_loaded_driver(recipe, image), facts.cuda) != "too-old":
            continue
        fails = "is too old for its torch" if ngc else "is too old to start its containers"
        yield Finding(
            severity="error",
            message=f"{image.base} contains CUDA {facts.cuda}: driver {recipe.driver} {fails}.",
            saw=f"driver {recipe.driver}",
            want=f"driver {floor} or newer",
            subject=image.place(image.base_line),
            evidence=(line_of(image, image.base_line, image.written_from(image.base or "")),),
            fixes=(
                change(
                    "Use an older base image",
                    image.on_base("an image with a CUDA for that driver"),
                ),
            ),
        )


def _refuses_geforce(recipe: Recipe, image: Image, cuda: str) -> bool:
    """Whether the container toolkit refuses the image for what its NVIDIA_REQUIRE_CUDA says of GeForce GPUs."""
    asks = image.facts.compat and image.variable("NVIDIA_DISABLE_REQUIRE") is None
    consumer = any(gpu.vendor == "nvidia" and re.search("GeForce|TITAN", gpu.name) for gpu in recipe.gpus)
    return asks and consumer and not recipe.matrix.nvidia.image_admits(cuda, recipe.driver)


def _loaded_driver(recipe: Recipe, image: Image) -> str:
    """The driver of the libcuda that containers of the image load on the described GPUs."""
    library = compat_library(image, recipe.matrix, recipe.gpus, recipe.driver)
    return (library.version if library else None) or recipe.driver


@check("GPD612", "image-for-other-cards", "image")
def for_other_gpus(recipe: Recipe) -> Verdicts:
    """The image is made for other GPUs than the described ones.

    ## Why it matters
    A ROCm image has nothing for an NVIDIA GPU, a CUDA image nothing for an AMD GPU. NGC images drop old
    architectures.

    ## How it is judged
    The check reads the base image: its vendor, for NGC images the architectures that the release was built for, and
    for AMD's images those of their ROCm, or those that the matrix names for the image at least. If the file installs
    a known torch, that torch is judged instead. If it installs one that gpudoctor cannot identify, the result is
    unknown.

    ## Fix safety
    Another base image, or an exact torch from a named index, changes nothing on the host.
    """
    for started in recipe.services:
        if started.image is None and started.service.given_gpus:
            name = started.service.image or "an unknown image"
            yield from _unknown(recipe, f"which torch {name} of {started.service.subject} contains")
    for image in recipe.images:
        held = recipe.torch(image)
        if recipe.gpus and not (held is not None and held.known) and not _without_gpu(recipe, image):
            yield from _by_its_base(recipe, image)


def _by_its_base(recipe: Recipe, image: Image) -> Iterator[Finding | NotJudged]:
    vendor, facts = recipe.vendor(image), image.facts
    unsupported = [gpu for gpu in recipe.gpus if vendor is not None and gpu.vendor != vendor]
    if vendor is not None and len(unsupported) == len(recipe.gpus):
        held = recipe.torch(image)
        product = f"The torch of line {held.line}" if held and held.asked else f"{image.base}"
        text = f"{product} is made for {PLATFORMS[vendor]}: it cannot use {unsupported[0].name}."
        yield _not_for(image, unsupported[0], text, PLATFORMS[vendor], PLATFORMS[unsupported[0].vendor])
        return
    if facts.origin == "ngc" and facts.release and _keeps_its_torch(recipe, image):
        yield from _by_its_release(recipe, image, facts.release)
    elif vendor == "amd" and _tells_its_targets(recipe, image, facts):
        yield from _by_its_targets(recipe, image, facts)
    elif why := _why_unknown(recipe, image):
        yield from _unknown(recipe, why)


def _by_its_release(recipe: Recipe, image: Image, release: str) -> Iterator[Finding | NotJudged]:
    """An NGC image: NVIDIA publishes its architectures and its CUDA."""
    cuda = image.facts.cuda
    torch = Torch(version=f"0+0.nv{release}", origin="ngc", cuda=cuda, source="")
    row = recipe.matrix.torch.published_archs(torch)
    verdict: DriverVerdict = "serves"  # what is not described is healthy
    if recipe.driver:
        verdict = recipe.matrix.nvidia.driver_for_cuda(_loaded_driver(recipe, image), cuda) if cuda else "unknown"
    for gpu in recipe.gpus:
        sm = gpu.arch.value or ""
        chip = recipe.matrix.gpus.capability(sm)
        newer = toolkit_knows(recipe.matrix, torch, gpu) == "not-yet"
        answer = Answer("unknown", "no-list")
        if row is not None:
            readable = None if verdict == "unknown" else verdict == "serves"
            tegra = bool(chip and chip.tegra)
            answer = cuda_runs(sm, row.archs, row.ptx or (), ptx_readable=readable, tegra=tegra)
        if answer.runs == "no" and row is not None:
            text = f"{image.base} has no code for {gpu.name} ({gpu.arch.value})."
            yield _not_for(image, gpu, text, " ".join(row.archs), gpu.arch.value or "")
        elif row is not None and answer.runs == "yes" and not answer.native and newer:
            text = (
                f"{image.base} has only PTX for {gpu.name} ({sm}), which the driver compiles at first start; the "
                f"libraries of CUDA {cuda} are older than this GPU."
            )
            yield replace(_not_for(image, gpu, text, " ".join(row.archs), sm), severity="warning")
        elif answer.runs == "unknown":
            yield from _unknown(recipe, f"whether {image.base} has code for {gpu.name}")
    if verdict == "unknown":
        yield from _unknown(recipe, f"whether driver {recipe.driver} supports the CUDA of {image.base}")


def _by_its_targets(recipe: Recipe, image: Image, facts: BaseImage) -> Iterator[Finding | NotJudged]:
    """An image of AMD whose torch has no known version, or a program for ROCm: its ROCm tells the GPUs, or the matrix
    those that it is made for at least."""
    known, unsure = recipe.matrix.amd.image_targets(facts.rocm) if facts.origin == "amd" and facts.rocm else ((), ())
    values = recipe.overrides(image).values()
    for gpu in recipe.gpus:
        own = gpu.arch.value or ""
        policy = recipe.matrix.amd.override(own)
        named = recipe.matrix.amd.gfx_of_override(next(iter(values), ""))
        same = policy is not None and policy.value in values
        if {own, *((named,) if same else ())} & {*known, *facts.archs}:
            continue
        if not known or values or own in unsure:
            yield from _unknown(recipe, f"whether {image.base} has code for {gpu.name}")
            continue
        found = _not_for(image, gpu, f"{image.base} has no code for {gpu.name} ({own}).", " ".join(known), own)
        if policy is not None and policy.value and recipe.matrix.amd.gfx_of_override(policy.value) in known:
            text = f"{image.place(image.base_line)}: below it: {image.written_env(OVERRIDE, policy.value)}"
            found = replace(
                found, fixes=(change(f"Work around it with {OVERRIDE}={policy.value}", text), *found.fixes)
            )
        yield found


def _not_for(image: Image, gpu: Gpu, text: str, saw: str, want: str) -> Finding:
    return about_line(
        image,
        image.base_line,
        image.written_from(image.base or ""),
        severity="error",
        message=text,
        saw=saw,
        want=want,
        fixes=(change("Use another base image", image.on_base(f"an image for {gpu.name}")),),
    )


def _unknown(recipe: Recipe, why: str) -> Iterator[NotJudged]:
    if recipe.gpus:
        yield NotJudged(why, matters=True)


def _without_gpu(recipe: Recipe, image: Image) -> bool:
    """Whether only services without a GPU run the image, and nothing says that it is made for one."""
    services = [started.service for started in recipe.services if started.image is image]
    given = any(service.given_gpus or service.privileged or service.open for service in services)
    return bool(services) and not given and recipe.vendor(image) is None


def _tells_its_targets(recipe: Recipe, image: Image, facts: BaseImage) -> bool:
    """Whether the base image, and nothing that was installed in it, decides about the GPUs."""
    if not facts.archs and not (facts.origin == "amd" and facts.rocm):
        return False
    return _keeps_its_torch(recipe, image) if facts.has_torch else not _why_unknown(recipe, image)


def _keeps_its_torch(recipe: Recipe, image: Image) -> bool:
    held = recipe.torch(image)
    return held is not None and held.asked is None


def _why_unknown(recipe: Recipe, image: Image) -> str:
    """Why gpudoctor cannot tell which torch an image contains; "" if it contains none."""
    held = recipe.torch(image)
    if held is not None:
        return f"which torch line {held.line} installs" if held.asked else f"which torch {image.base} contains"
    if not image.facts.known and image.base != "scratch":
        return f"which torch {image.base or 'an unknown image'} contains"
    if image.facts.has_torch:
        return f"which torch remains of that in {image.base}"
    dependents = {row.package for row in recipe.matrix.tables.torch_dependents}
    dependents |= {row.package for row in recipe.matrix.tables.torch_users}
    for step in image.steps:
        named = {one.name for one in step.pip.requirements}
        conda = {name for name in conda_packages(step.command) if "torch" in name}
        if "torch" in named or conda or named & dependents or installs_unread(image, step):
            return f"which torch line {step.command.line} installs ({step.command.shown[:60]})"
    line = copies_environment(image)
    return f"which torch line {line} copies" if line is not None else ""
