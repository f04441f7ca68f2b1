"""Checks of images against the GPUs and the driver that `--gpu` and `--driver` describe.

They say what can be told of an image whose torch is not known; one whose torch is known is judged as a machine."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpudoctor.check import Verdicts, check
from gpudoctor.dockerfile.commands import in_turn
from gpudoctor.dockerfile.image import Image
from gpudoctor.dockerfile.installs import conda_packages
from gpudoctor.dockerfile.recipe import Recipe, change, line_of
from gpudoctor.finding import Finding, NotJudged
from gpudoctor.isa import Answer, cuda_runs
from gpudoctor.machine import Gpu, Torch

_KIND = {"nvidia": "CUDA", "amd": "ROCm"}
_PIP = re.compile(r"\bpip[\d.]* install\b")
_CONDA = re.compile(r"\b(conda|mamba|micromamba)\b")
_LOCKED = (
    (re.compile(r"\b(poetry|pdm|pipenv) (install|sync)\b|\bpixi install\b"),),
    (re.compile(r"\bsetup\.py (install|develop|bdist_wheel)\b"),),
    (_PIP, re.compile(r"\.whl( |$)| (\.|\./\S+|-e|--editable)( |\[|$)")),
    (_CONDA, re.compile(r" (env|-f|--file)\b")),
)
"""Commands that install what another file names, by the patterns that follow each other in them."""


@check("GPD611", "image-too-new-for-driver", "image")
def too_new_for_driver(recipe: Recipe) -> Verdicts:
    """The image's CUDA needs a newer driver than the described one.

    ## Why it matters
    NVIDIA's images carry NVIDIA_REQUIRE_CUDA: the container toolkit refuses to start them on a driver that is older
    than their CUDA allows, whatever torch they hold.

    ## How it is judged
    The CUDA of the base image and the driver of `--driver`, by CUDA's floors. Silent for data-centre GPUs, which
    the compatibility library of these images serves. An image that is a torch image is judged by its torch; one of
    NGC by its CUDA, where the matrix has that.

    ## Fix safety
    An older base image loses nothing for torch: its wheels bring their own CUDA.
    """
    gpus = [gpu for gpu in recipe.gpus if gpu.vendor == "nvidia" and not gpu.datacenter]
    for image in recipe.images:
        facts = image.facts
        if not (gpus and recipe.driver and facts and facts.cuda):
            continue
        ngc = facts.origin == "ngc" and _keeps_its_torch(recipe, image)
        if facts.has_torch and not ngc:
            continue
        if recipe.matrix.driver_for_cuda(recipe.driver, facts.cuda) != "too-old":
            continue
        floor = recipe.matrix.floor(facts.cuda) or f"one for CUDA {facts.cuda}"
        fails = "does not serve its torch" if ngc else "does not let its containers start"
        yield Finding(
            severity="error",
            message=f"{image.base} holds CUDA {facts.cuda}: driver {recipe.driver} {fails}.",
            saw=f"driver {recipe.driver}",
            want=f"driver {floor} or newer",
            subject=image.at(image.base_line),
            evidence=(line_of(image, image.base_line, f"FROM {image.base}"),),
            fixes=(
                change("Take an older base", f"{image.at(image.base_line)}: FROM an image of a CUDA for that driver"),
            ),
        )


@check("GPD612", "image-for-other-cards", "image")
def for_other_gpus(recipe: Recipe) -> Verdicts:
    """The image is made for other GPUs than the described ones.

    ## Why it matters
    A ROCm image has nothing for an NVIDIA GPU, a CUDA image nothing for an AMD GPU; NVIDIA's own torch images leave
    old architectures out.

    ## How it is judged
    By the base image: its vendor, and for NGC images what their release was built for. Where the file installs a
    torch that is known, that is judged instead. Where it brings one that cannot be told, that is unknown.

    ## Fix safety
    Another base image, or an exact torch from a named index, changes nothing on the host.
    """
    for started in recipe.services:
        if started.image is None and (started.service.nvidia or started.service.kfd):
            named = started.service.image or "an image that is not known"
            yield from _unknown(recipe, f"which torch {named} of service {started.service.name} holds")
    for image in recipe.images:
        held = recipe.torch(image)
        if recipe.gpus and not (held is not None and held.known) and not _without_gpu(recipe, image):
            yield from _by_its_base(recipe, image)


def _by_its_base(recipe: Recipe, image: Image) -> Iterator[Finding | NotJudged]:
    vendor, facts = recipe.vendor(image), image.facts
    strange = [gpu for gpu in recipe.gpus if vendor is not None and gpu.vendor != vendor]
    if vendor is not None and len(strange) == len(recipe.gpus):
        held = recipe.torch(image)
        made = f"The torch of line {held.line}" if held and held.asked else f"{image.base}"
        text = f"{made} is made for {_KIND[vendor]}: it cannot use {strange[0].name}."
        yield _not_for(image, strange[0], text, _KIND[vendor], _KIND[strange[0].vendor])
        return
    if facts is not None and facts.origin == "ngc" and facts.release and _keeps_its_torch(recipe, image):
        yield from _by_its_release(recipe, image, facts.release)
    elif why := _open(recipe, image):
        yield from _unknown(recipe, why)


def _by_its_release(recipe: Recipe, image: Image, release: str) -> Iterator[Finding | NotJudged]:
    """An NGC image: its architectures are published; its CUDA is not in its name, a row of the matrix may tell."""
    row = recipe.matrix.published_archs(Torch(version=f"0+0.nv{release}", origin="ngc", source=""))
    for gpu in recipe.gpus:
        answer = cuda_runs(gpu.arch.value or "", row.archs, row.ptx or ()) if row else Answer("unknown", "no-list")
        if answer.runs == "no" and row is not None:
            text = f"{image.base} has no code for {gpu.name} ({gpu.arch.value})."
            yield _not_for(image, gpu, text, " ".join(row.archs), gpu.arch.value or "")
        elif answer.runs == "unknown":
            yield from _unknown(recipe, f"whether {image.base} has code for {gpu.name}")
    cuda = image.facts.cuda if image.facts else None
    if recipe.driver and (cuda is None or recipe.matrix.driver_for_cuda(recipe.driver, cuda) == "unknown"):
        yield from _unknown(recipe, f"whether driver {recipe.driver} serves the CUDA of {image.base}")


def _not_for(image: Image, gpu: Gpu, text: str, saw: str, want: str) -> Finding:
    return Finding(
        severity="error",
        confidence="likely",
        message=text,
        saw=saw,
        want=want,
        subject=image.at(image.base_line),
        evidence=(line_of(image, image.base_line, f"FROM {image.base}"),),
        fixes=(change("Take another base", f"{image.at(image.base_line)}: FROM an image for {gpu.name}"),),
    )


def _unknown(recipe: Recipe, why: str) -> Iterator[NotJudged]:
    if recipe.gpus:
        yield NotJudged(why, matters=True)


def _without_gpu(recipe: Recipe, image: Image) -> bool:
    """Whether it is only run by services that are given no GPU, and nothing says that it is made for one."""
    services = [started.service for started in recipe.services if started.image is image]
    given = any(service.nvidia or service.kfd or service.privileged or service.open for service in services)
    return bool(services) and not given and recipe.vendor(image) is None


def _keeps_its_torch(recipe: Recipe, image: Image) -> bool:
    held = recipe.torch(image)
    return held is not None and held.asked is None


def _open(recipe: Recipe, image: Image) -> str:
    """Why it cannot be told which torch an image holds; "" where it holds none."""
    held = recipe.torch(image)
    if held is not None:
        where = f"line {held.line}" if held.asked else f"{image.base}"
        return f"which torch {where} brings"
    if image.facts is None and image.base != "scratch":
        return f"which torch {image.base or 'an image that is not known'} holds"
    if image.facts is not None and image.facts.has_torch:
        return f"which torch is left of that of {image.base}"
    dependents = {row.package for row in recipe.matrix.tables.torch_dependents}
    for step in image.steps:
        named = {one.name for one in step.pip.requirements} if step.pip else set()
        conda = {name for name in conda_packages(step.command) if "torch" in name}
        unread = step.pip is not None and step.pip.incomplete and not step.pip.elsewhere
        locked = _syncs(step.command.text) or any(in_turn(step.command.text, *patterns) for patterns in _LOCKED)
        if "torch" in named or conda or unread or named & dependents or locked or step.script:
            return f"which torch line {step.command.line} brings ({step.command.text[:60]})"
    for copied in image.copied:
        if copied.origin and re.search(r"venv|site-packages|conda", " ".join((*copied.sources, copied.target))):
            return f"which torch line {copied.line} copies"
    return ""


def _syncs(text: str) -> bool:
    """Whether it is a `uv sync`, options between the two or not."""
    after_uv = False
    for word in text.split():
        if after_uv and word == "sync":
            return True
        after_uv = word == "uv" or word.endswith("/uv") or (after_uv and word.startswith("-"))
    return False
