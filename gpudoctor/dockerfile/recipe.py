"""The input of the image checks. Checking a machine neither runs nor imports them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from gpudoctor.dockerfile.bounds import BoundError, Bounds
from gpudoctor.dockerfile.commands import Command, commands, text_for_shell
from gpudoctor.dockerfile.compose import Service
from gpudoctor.dockerfile.frameworks import ImageFramework, frameworks_of
from gpudoctor.dockerfile.image import Image, ImageVariable, Start, Step
from gpudoctor.dockerfile.preflights import NeededGpus, needed_gpus, words_before
from gpudoctor.dockerfile.syntax import HereDocument, Instruction
from gpudoctor.dockerfile.torch import torch_of
from gpudoctor.dockerfile.torch_wheels import ImageTorch
from gpudoctor.dockerfile.variables import NO_GPU, OVERRIDE
from gpudoctor.finding import Evidence, Finding, Fix, Manual

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpudoctor.machine import Gpu, Vendor
    from gpudoctor.matrix.questions import Matrix


class RecipeService(Struct, frozen=True):
    """A service with the image that it runs, if that is known."""

    service: Service
    image: Image | None = None

    @property
    def given_nvidia(self) -> bool:
        """Whether it is given NVIDIA GPUs. What the image itself sets is the image's fault, if it is one."""
        if not self.service.by_variable:
            return self.service.nvidia
        image = self.image
        for_cpus = image is not None and image.facts.known and image.facts.vendor is None
        of_image = image is not None and "NVIDIA_VISIBLE_DEVICES" in image.settings
        unset = "" if for_cpus and not of_image else "all"
        return self.service.environment.get("NVIDIA_VISIBLE_DEVICES", unset) not in NO_GPU


class Recipe:
    """Images and services of a recipe, the described GPUs and driver, and the matrix."""

    def __init__(
        self,
        matrix: Matrix,
        images: tuple[Image, ...],
        services: tuple[RecipeService, ...] = (),
        gpus: tuple[Gpu, ...] = (),
        driver: str = "",
    ) -> None:
        self.matrix, self.images, self.services, self.gpus, self.driver = matrix, images, services, gpus, driver
        self._variables: dict[Image, dict[str, ImageVariable]] = {}
        self._started: dict[Image | None, list[Service]] = {}
        for one in services:
            self._started.setdefault(one.image, []).append(one.service)
        self._torches: dict[Image, ImageTorch | None] = {}
        self._frameworks: dict[Image, tuple[ImageFramework, ...]] = {}

    def torch(self, image: Image) -> ImageTorch | None:
        if image not in self._torches:
            self._torches[image] = torch_of(image, self.matrix)
        return self._torches[image]

    def frameworks(self, image: Image) -> tuple[ImageFramework, ...]:
        """The frameworks beside torch that an image installs."""
        if image not in self._frameworks:
            self._frameworks[image] = tuple(frameworks_of(image, self.matrix))
        return self._frameworks[image]

    def vendor(self, image: Image) -> Vendor | None:
        """The vendor whose GPUs an image is made for; None if that is unknown, or if there is none."""
        held = self.torch(image)
        if held is not None and held.vendor:
            return held.vendor
        if held is not None and held.build == "cpu":
            return None
        return image.facts.vendor

    def starts(self, image: Image | None) -> Iterator[tuple[Service | None, Start | None, Start | None]]:
        """The ways in which containers of an image are started, each with its service: ENTRYPOINT and CMD. None is
        the image of services whose image is unknown."""
        services = self._started.get(image, [])
        for service in services:
            yield service, *_started(service, image)
        if image is not None and not services:
            yield None, image.entrypoint, image.command

    def needed_gpus(self, started: RecipeService) -> NeededGpus | None:
        """The GPUs that the preflight of a service requires."""
        service, image = started.service, started.image
        known = {name: one.value or "" for name, one in self.variables(image).items()} if image is not None else {}
        entrypoint, command = _started(service, image)
        return needed_gpus((entrypoint, command), {**known, **service.environment})

    def variables(self, image: Image) -> dict[str, ImageVariable]:
        """The variables that programs of the image see: those of ENV, and what its start scripts export."""
        if image not in self._variables:
            found = self._variables[image] = dict(image.settings)
            for _, *started in self.starts(image):
                for one in started:
                    found.update(one.exports if one is not None else {})
        return self._variables[image]

    def overrides(self, image: Image) -> dict[str, str]:
        """HSA_OVERRIDE_GFX_VERSION as containers of the image have it: what its services agree on, over its own
        ENV."""
        values = self.variables(image).values()
        own = {one.name: one.value for one in values if OVERRIDE.match(one.name) and one.value}
        services = [one.environment for one in self._started.get(image, [])]
        given = [{name: value for name, value in one.items() if OVERRIDE.match(name)} for one in services]
        agreed = given[0] if given and all(one == given[0] for one in given) else {}
        return {**own, **{name: value for name, value in agreed.items() if "$" not in value}}


def _started(service: Service, image: Image | None) -> tuple[Start | None, Start | None]:
    """ENTRYPOINT and CMD of a service: its own, or those of its image."""
    entrypoint, own = (image.entrypoint, image.command) if image is not None else (None, None)
    if service.entrypoint is not None:
        entrypoint, own = start_of(service, service.entrypoint), None
    if service.command is not None:
        own = start_of(service, service.command, words_before(entrypoint, service.command))
    return entrypoint, own


def start_of(service: Service, words: tuple[str, ...], before: tuple[str, ...] = ()) -> Start:
    """What a service has in place of ENTRYPOINT or CMD, with its commands. `before`: see `words_before`."""
    whole = (*before, *words)
    text = text_for_shell(whole) or ""
    documents = (HereDocument(service.line, text),) if "\n" in text else ()
    one = Instruction(service.line, "CMD", "", argv=None if documents else whole, documents=documents)
    try:
        steps = tuple(Step(command) for command in commands(one, {}, Bounds()))
    except BoundError:
        steps = ()
    return Start(words, service.line, steps=steps)


def line_of(image: Image, line: int, text: str) -> Evidence:
    """The line that a finding is based on."""
    return Evidence("instruction", text, image.place(line))


def command_of(image: Image, command: Command) -> Evidence:
    """The command that a finding is based on."""
    return line_of(image, command.line, command.shown)


def change(title: str, *lines: str, why: str = "") -> Fix:
    """A fix that a person writes into a file."""
    return Fix(title=title, remedies=(Manual(text="\n".join(lines), why=why),))


def about_line(image: Image, line: int, text: str, **parts: Any) -> Finding:
    """A likely finding about an instruction or a command; `parts` are the other fields of a Finding."""
    evidence = (line_of(image, line, text),)
    return Finding(confidence="likely", subject=image.place(line), evidence=evidence, **parts)


def about_service(service: Service, at: str = "", **parts: Any) -> Finding:
    """A finding about a service, or about one of its keys; `parts` are the other fields of a Finding."""
    evidence = (Evidence(service.kind, service.name, service.place_of(at)),)
    return Finding(subject=service.subject, evidence=evidence, **parts)
