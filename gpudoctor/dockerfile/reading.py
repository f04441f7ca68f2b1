"""Finding and reading the files of a recipe: the only module here that opens any."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gpudoctor.dockerfile.case import Started
from gpudoctor.dockerfile.compose import Service, read_compose
from gpudoctor.dockerfile.image import Image, read_dockerfile
from gpudoctor.dockerfile.syntax import RecipeError
from gpudoctor.host import InputError

if TYPE_CHECKING:
    from gpudoctor.dockerfile.image import Read
    from gpudoctor.matrix.questions import Matrix

DOCKERFILES = ("Dockerfile", "Containerfile", "dockerfile")
COMPOSE = ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml")
_LIMIT = 1 << 20
_MOST_FILES = 1000
_COMPOSE_NAME = re.compile(r"(docker-)?compose[\w.-]*\.ya?ml$")

Recipe = tuple[tuple[Image, ...], tuple[Started, ...]]


def read_recipe(path: str, matrix: Matrix, arguments: Mapping[str, str], target: str) -> Recipe:
    """Images and services of a Dockerfile, a compose file or a folder. Raises InputError with file and line."""
    if os.path.isdir(path):
        found = [os.path.join(path, name) for name in (*COMPOSE, *DOCKERFILES)]
        files = [file for file in found if os.path.isfile(file)]
        if not files:
            raise InputError(f"{path}: holds no Dockerfile, Containerfile or compose.yaml")
        composed = next((file for file in files if os.path.basename(file) in COMPOSE), None)
        images, services = _compose(composed, matrix, arguments) if composed else ((), ())
        own = next((file for file in files if os.path.basename(file) in DOCKERFILES), None)
        if own and all(image.file != _place(own) for image in images):
            images = (*images, _image(own, path, matrix, arguments, target))
        return images, services
    if path.endswith((".yaml", ".yml")):
        return _compose(path, matrix, arguments)
    return (_image(path, os.path.dirname(path), matrix, arguments, target),), ()


def _image(file: str, context: str, matrix: Matrix, arguments: Mapping[str, str], target: str) -> Image:
    try:
        return read_dockerfile(_place(file), _text(file), matrix, _files_in(context), arguments, target)
    except RecipeError as error:
        raise InputError(f"{file}: {error}") from None


def _compose(file: str, matrix: Matrix, arguments: Mapping[str, str]) -> Recipe:
    folder = os.path.dirname(file)
    try:
        services = read_compose(_place(file), _text(file), _variables(folder))
    except RecipeError as error:
        raise InputError(f"{file}: {error}") from None
    elsewhere = _given_elsewhere(file, folder)
    started: list[Started] = []
    images: list[Image] = []
    for found in services:
        given = found.name in elsewhere
        service = replace(found, open="another compose file of the folder gives it one") if given else found
        image = _of_service(service, folder, matrix, arguments)
        image = next((other for other in images if image is not None and _same(image, other)), image)
        started.append(Started(service, image))
        if image is not None and all(not _same(image, other) for other in images):
            images.append(image)
    return tuple(images), tuple(started)


def _given_elsewhere(file: str, folder: str) -> set[str]:
    """Services to which another compose file of the folder gives a GPU (compose.gpu.yaml, compose.override.yaml)."""
    names: set[str] = set()
    for name in sorted(os.listdir(folder or "."))[:_MOST_FILES]:
        other = os.path.join(folder, name)
        if name == os.path.basename(file) or not _COMPOSE_NAME.match(name) or not os.path.isfile(other):
            continue
        try:
            found = read_compose(other, _text(other))
        except (RecipeError, InputError):
            continue
        names |= {service.name for service in found if service.nvidia or service.kfd}
    return names


def _place(file: str) -> str:
    """How a file is named in findings: from the working directory where it is below it, as annotations need it."""
    below = os.path.relpath(os.path.realpath(file))
    return file if below.startswith("..") else below


def _same(one: Image, other: Image) -> bool:
    return (one.file, one.name, one.base, one.settings) == (other.file, other.name, other.base, other.settings)


def _of_service(service: Service, folder: str, matrix: Matrix, arguments: Mapping[str, str]) -> Image | None:
    """The image that a service builds, else one that is only named; None where neither is known."""
    if service.context is not None and "://" not in service.context:
        context = os.path.normpath(os.path.join(folder, service.context))
        file = os.path.join(context, service.dockerfile or "Dockerfile")
        if os.path.isfile(file):
            return _image(file, context, matrix, {**service.arguments, **arguments}, service.target)
        return None
    facts = matrix.base_image(service.image) if service.image else None
    if facts is None:
        return None
    return Image(service.file, "", service.image, service.line, facts, "linux-x86_64")


def _variables(folder: str) -> dict[str, str]:
    """What compose takes for ${NAME}: its .env file."""
    text = _files_in(folder)(".env") or ""
    pairs = (line.strip().removeprefix("export ").partition("=") for line in text.splitlines())
    return {name.strip(): value.strip().strip("\"'") for name, equals, value in pairs if equals and name[:1] != "#"}


def _text(path: str) -> str:
    try:
        if not os.path.isfile(path):
            raise InputError(f"{path}: no such file")
        with open(path, "rb") as file:
            content = file.read(_LIMIT + 1)
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{path}: cannot be read: {said.lower()}") from None
    if len(content) > _LIMIT:
        raise InputError(f"{path}: larger than {_LIMIT >> 20} MiB: this is no Dockerfile or compose file")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}:{content[: error.start].count(10) + 1}: not UTF-8 text") from None


def _files_in(context: str) -> Read:
    """A reader of files of the build context, and of nothing outside it."""
    root = os.path.realpath(context or ".")

    def read(path: str) -> str | None:
        try:
            place = os.path.realpath(os.path.join(root, path.lstrip("/")))
            if os.path.commonpath((place, root)) != root or not os.path.isfile(place):
                return None
            with open(place, encoding="utf-8", errors="replace") as file:
                return file.read(_LIMIT)
        except (OSError, ValueError):
            return None

    return read
