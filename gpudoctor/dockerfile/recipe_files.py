"""Finds and reads the files of a recipe; the only module here that opens files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gpudoctor.dockerfile.bounds import BoundError, Bounds
from gpudoctor.dockerfile.compose import Service, read_compose
from gpudoctor.dockerfile.devcontainer import read_devcontainer
from gpudoctor.dockerfile.dockerignore import without_ignored
from gpudoctor.dockerfile.image import Image, Later
from gpudoctor.dockerfile.kubernetes import is_manifest, read_manifests
from gpudoctor.dockerfile.other_files import installing, other_kind
from gpudoctor.dockerfile.recipe import RecipeService
from gpudoctor.dockerfile.stages import read_dockerfile
from gpudoctor.dockerfile.syntax import RecipeError
from gpudoctor.dockerfile.variables import OF_THE_MACHINE, OVERRIDE_CUDA
from gpudoctor.host import InputError
from gpudoctor.host.input_file import read_given, read_input
from gpudoctor.matrix.rows import BaseImage

if TYPE_CHECKING:
    from gpudoctor.dockerfile.image import Read
    from gpudoctor.matrix.questions import Matrix

DOCKERFILES = ("Dockerfile", "Containerfile", "dockerfile")
COMPOSE = ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml")
DEFINITIONS = ("Singularity", "Apptainer", "apptainer.def", "singularity.def")
DEVCONTAINERS = ("devcontainer.json", ".devcontainer.json")
LISTS = (
    ("uv.lock", "poetry.lock", "pdm.lock", "pyproject.toml"),
    ("pixi.toml",),
    ("environment.yml", "environment.yaml"),
    ("Pipfile",),
    ("requirements.txt",),
)
"""Lists of packages that count where a folder has no recipe: the first of each row."""
_LIMIT = 1 << 20
_MOST_FILES = 1000
_MOST_IMAGES = 200
_COMPOSE_NAME = re.compile(r"(docker-)?compose[\w.-]*\.ya?ml$")

Parts = tuple[tuple[Image, ...], tuple[RecipeService, ...]]


def read_recipes(paths: Sequence[str], matrix: Matrix, arguments: Mapping[str, str], target: str) -> Parts:
    """Images and services of several recipes. What a compose file builds is not judged again as a Dockerfile."""
    images: tuple[Image, ...] = ()
    services: tuple[RecipeService, ...] = ()
    for path in sorted(paths, key=lambda path: not path.endswith((".yaml", ".yml"))):
        found, started = read_recipe(path, matrix, arguments, target)
        known = {image.file for image in images}
        images += tuple(image for image in found if image.file not in known)
        services += started
    return images, services


def read_recipe(path: str, matrix: Matrix, arguments: Mapping[str, str], target: str) -> Parts:
    """Images and services of a Dockerfile, an Apptainer definition, a compose file, a Kubernetes manifest, a
    devcontainer.json, a file that lists packages, or a folder. Raises InputError with file and line."""
    reader = _Reader(matrix, arguments)
    if os.path.isdir(path):
        places = [os.path.join(path, name) for name in (*COMPOSE, *DOCKERFILES, *DEFINITIONS)]
        files = [file for file in places if os.path.isfile(file)]
        inside = (os.path.join(path, name) for name in (".devcontainer/devcontainer.json", ".devcontainer.json"))
        development = next((file for file in inside if os.path.isfile(file)), None)
        manifests = _manifests_in(path)
        if not files and not manifests and development is not None:
            return reader.devcontainer(development)
        if not files and not manifests:
            rows = ([os.path.join(path, name) for name in row] for row in LISTS)
            lists = [file for row in rows if (file := next(filter(os.path.isfile, row), ""))]
            if found := tuple(image for file in lists if (image := reader.packages(file)) is not None):
                return found, ()
            raise InputError(
                f"{path}: holds no Dockerfile, Containerfile, compose.yaml, Kubernetes manifest or list of packages: "
                "give another file by its path"
            )
        composed = next((file for file in files if os.path.basename(file) in COMPOSE), None)
        images, services = reader.compose(composed) if composed else ((), ())
        for manifest in manifests:
            found_images, found_services = reader.compose(manifest)
            images, services = (*images, *found_images), (*services, *found_services)
        own = next((file for file in files if os.path.basename(file) in (*DOCKERFILES, *DEFINITIONS)), None)
        if own and _place(own) not in {image.file for image in images}:
            images = (*images, reader.image(own, path, arguments, target))
        return images, services
    if (packages := reader.packages(path)) is not None:
        return (packages,), ()
    if path.endswith((".yaml", ".yml")):
        return reader.compose(path)
    if os.path.basename(path) in DEVCONTAINERS:
        return reader.devcontainer(path)
    return (reader.image(path, os.path.dirname(path), arguments, target, or_here=True),), ()


class _Reader:
    """Reads the files of one recipe, all of them within the same bounds."""

    def __init__(self, matrix: Matrix, arguments: Mapping[str, str]) -> None:
        self._matrix, self._arguments = matrix, arguments
        self._bounds = Bounds()
        self._contexts: dict[str, Read] = {}
        self._built: dict[tuple[object, ...], Image] = {}

    def image(
        self,
        file: str,
        context: str,
        arguments: Mapping[str, str],
        target: str,
        or_here: bool = False,
        later: Later | None = None,
        given_in: Mapping[str, str] = {},
        inline: str = "",
    ) -> Image:
        """The image of a Dockerfile; the same arguments give the same image object. `or_here`: nothing names the
        context, so it may also be the working directory, as in `docker build -f docker/Dockerfile .` `inline` is the
        text of a Dockerfile within the file."""
        key = (file, context, frozenset(arguments.items()), target, inline)
        if key not in self._built:
            with _named(file):
                text = inline or self._text(file)
                read = self._either(context, file) if or_here else self._built_from(context, file)
                self._built[key] = read_dockerfile(
                    _place(file),
                    text,
                    self._matrix,
                    read,
                    arguments,
                    target,
                    self._bounds,
                    later,
                    given_in,
                )
        return self._built[key]

    def compose(self, file: str) -> Parts:
        """The images and services of a compose file, or the containers of a Kubernetes manifest."""
        folder = os.path.dirname(file)
        with _named(file):
            text = self._text(file)
            if is_manifest(text):
                services, elsewhere = read_manifests(_place(file), text, self._bounds), []
            else:
                services = read_compose(_place(file), text, self._bounds, self._variables(folder))
                elsewhere = self._elsewhere(file, folder)
        started: list[RecipeService] = []
        images: dict[tuple[object, ...], Image] = {}
        for found in services:
            service = self._with_files(found, folder) if found.env_files else found
            for other, always in elsewhere:
                service = _with_another(service, other, always) if other.name == found.name else service
            with _named(file):
                image = self._of_service(service, folder)
                if image is not None:
                    image = images.setdefault(_key(image), image)
                started.append(RecipeService(service, image))
                if len(images) > _MOST_IMAGES:
                    raise BoundError(f"more than {_MOST_IMAGES:,} images of services")
        return tuple(images.values()), tuple(started)

    def devcontainer(self, file: str) -> Parts:
        """The image of a devcontainer.json, or its services of a compose file."""
        folder = os.path.dirname(file)
        above = os.path.abspath(folder).split(os.sep)[-2:]
        up = len(above) - above.index(".devcontainer") if ".devcontainer" in above else 0
        root = os.path.normpath(os.path.join(folder, *[".."] * up))
        text = self._text(file).replace("${localWorkspaceFolder}", os.path.relpath(root, folder or "."))
        with _named(file):
            found = read_devcontainer(_place(file), text, self._bounds)
        if found.compose:
            parts = [self.compose(os.path.normpath(os.path.join(folder, name))) for name in found.compose[:1]]
            started = tuple(one for _, ones in parts for one in ones if one.service.name == found.service.name)
            images = {id(one.image): one.image for one in started if one.image is not None}
            return tuple(images.values()), started
        service = found.service
        if service.context is not None:  # a service has its Dockerfile relative to the context
            places = (os.path.join(folder, service.dockerfile), os.path.join(folder, service.context))
            service = replace(service, dockerfile=os.path.relpath(*places))
        later = Later(service.file, found.creating, self._context(root)) if found.creating else None
        with _named(file):
            image = self._of_service(service, folder, later)
        return ((image,) if image is not None else ()), (RecipeService(service, image),)

    def packages(self, file: str) -> Image | None:
        """What the command that installs a list of packages makes on a machine with a GPU, where conda takes builds
        for it, or a script that installs some; None for other files."""
        folder, name = os.path.split(file)
        if name in (*COMPOSE, *DOCKERFILES, *DEFINITIONS, *DEVCONTAINERS):
            return None
        command = installing(name, _text(file))
        if not command:
            return None
        later = Later(_place(file), ((0, command),), self._context(folder))
        with _named(file):
            text = f"FROM scratch\nENV {OVERRIDE_CUDA}={OF_THE_MACHINE}"
            found = read_dockerfile(_place(file), text, self._matrix, later.read, bounds=self._bounds, later=later)
        if command.startswith("bash ") and not any(step.installs for step in found.steps):
            return None  # a script that installs nothing that is read
        bare = BaseImage(pattern=command, example=command)
        return replace(found, base=command, facts=bare, bases=(), settings={}, form="packages")

    def _elsewhere(self, file: str, folder: str) -> list[tuple[Service, bool]]:
        """The services of the other compose files of a folder (compose.gpu.yaml, say), and whether compose adds them
        without being told, as it does with an override."""
        found: list[tuple[Service, bool]] = []
        stem, _ = os.path.splitext(os.path.basename(file))
        for name in sorted(os.listdir(folder or "."))[:_MOST_FILES]:
            other = os.path.join(folder, name)
            if name == os.path.basename(file) or not _COMPOSE_NAME.match(name) or not os.path.isfile(other):
                continue
            try:
                services = read_compose(_place(other), self._text(other), self._bounds)
            except (RecipeError, InputError):
                continue
            always = os.path.basename(file) in COMPOSE and os.path.splitext(name)[0] == f"{stem}.override"
            found += ((service, always) for service in services)
        return found

    def _of_service(self, service: Service, folder: str, later: Later | None = None) -> Image | None:
        """The image that a service builds, else the one that it names; None if neither is known. `later` runs in its
        container."""
        if service.context is not None and "://" not in service.context:
            context = os.path.normpath(os.path.join(folder, service.context))
            file = service.file if service.inline else os.path.join(context, service.dockerfile or "Dockerfile")
            if service.inline or os.path.isfile(file):
                arguments = {**service.arguments, **self._arguments}
                written = {
                    name: service.written_argument(name) for name in service.arguments.keys() - self._arguments.keys()
                }
                return self.image(
                    file, context, arguments, service.target, later=later, given_in=written, inline=service.inline
                )
            return None
        facts = self._matrix.images.base_image(service.image) if service.image else None
        if facts is None:
            return None
        if later is not None:
            text = "\n" * (service.line - 1) + f"FROM {service.image}"  # on the line that names it
            read = self._context(folder)
            found = read_dockerfile(service.file, text, self._matrix, read, bounds=self._bounds, later=later)
            return replace(found, form="service")
        bases = ((service.image or "", service.line),)
        return Image(
            service.file, "", service.image, service.line, facts, "linux-x86_64", bases=bases, form="service"
        )

    def _with_files(self, service: Service, folder: str) -> Service:
        """A service with the variables of its files, over which its own count. An unread one may set any."""
        read = self._context(folder)
        values: dict[str, str] = {}
        places: dict[str, str] = {}
        for name in service.env_files:
            text, place = read(name), _place(os.path.join(folder, name))
            if text is None:
                service = replace(service, by_variable=False)
                continue
            self._bounds.text.spend(len(text))
            for number, key, value in _assignments(text):
                values[key], places[key] = value, f"{place}:{number}"
        own = service.environment
        set_in = {name: place for name, place in places.items() if name not in own}
        return replace(service, environment={**values, **own}, set_in=set_in)

    def _variables(self, folder: str) -> dict[str, str]:
        """The values that compose uses for ${NAME}: those of its .env file."""
        return {name: value for _, name, value in _assignments(self._context(folder)(".env") or "")}

    def _text(self, path: str) -> str:
        text = _text(path)
        self._bounds.text.spend(len(text))
        return text

    def _built_from(self, context: str, file: str) -> Read:
        """Files of the build context of a Dockerfile, without those that its .dockerignore leaves out."""
        read, (folder, name) = self._context(context), os.path.split(file)
        ignored = self._context(folder)(f"{name}.dockerignore")  # where there is one, the other does not count
        ignored = read(".dockerignore") if ignored is None else ignored
        return without_ignored(read, ignored) if ignored else read

    def _either(self, folder: str, file: str) -> Read:
        """Files of a folder, else of the working directory, if the folder is below it."""
        own, here = self._built_from(folder, file), self._built_from("", file)
        place, working = os.path.realpath(folder or "."), os.path.realpath(".")
        if place == working or os.path.commonpath((place, working)) != working:
            return own

        def read(path: str) -> str | None:
            text = own(path)
            return text if text is not None else here(path)

        return read

    def _context(self, folder: str) -> Read:
        if folder not in self._contexts:
            self._contexts[folder] = cache(_files_in(folder))
        return self._contexts[folder]


def _with_another(service: Service, other: Service, always: bool) -> Service:
    """A service with what another compose file says of it. `always`: compose adds that file without being told."""
    if other.given_gpus:
        service = replace(service, open="another compose file of the folder gives it a GPU")
    if other.environment.get("NVIDIA_VISIBLE_DEVICES") or other.env_files:
        service = replace(service, by_variable=False)
    if not always:
        return service
    places = {name: other.place_of_variable(name) for name in other.environment}
    environment = {**service.environment, **other.environment}
    return replace(service, environment=environment, set_in={**service.set_in, **places})


def _assignments(text: str) -> Iterator[tuple[int, str, str]]:
    """The variables of a file such as .env, each with its line."""
    for number, line in enumerate(text.splitlines(), start=1):
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if equals and name[:1] != "#":
            yield number, name.strip(), re.sub(r"\s#.*", "", value).strip().strip("\"'")


def _manifests_in(folder: str) -> list[str]:
    """The Kubernetes manifests of a folder. A template of Helm or Jinja is none yet, nor is what cannot be read."""
    found = []
    for name in sorted(os.listdir(folder))[:_MOST_FILES]:
        file = os.path.join(folder, name)
        if not name.endswith((".yaml", ".yml")) or not os.path.isfile(file):
            continue
        try:
            text = _text(file)
        except InputError:
            continue
        if is_manifest(text) and "{{" not in text:
            found.append(file)
    return found


@contextmanager
def _named(file: str) -> Iterator[None]:
    """Report what is wrong with a file together with its name, or what it is if it is of another kind."""
    try:
        yield
    except BoundError as error:
        raise InputError(f"{file}: {error}") from None
    except RecipeError as error:
        own = os.path.basename(file) in (*COMPOSE, *DOCKERFILES, *DEVCONTAINERS)
        raise InputError(
            f"{file}: {(not own and other_kind(os.path.basename(file), _text(file))) or error}"
        ) from None


def _key(image: Image) -> tuple[object, ...]:
    """What distinguishes the images of services."""
    return image.file, image.name, image.base, frozenset(image.settings.values())


def _place(file: str) -> str:
    """The name of a file in findings: relative to the working directory if it is below that, for annotations."""
    below = os.path.relpath(os.path.realpath(file))
    return file if below.startswith("..") else below


def _text(path: str) -> str:
    content = read_input(path, _LIMIT, ": this is not a Dockerfile or compose file")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}:{content[: error.start].count(10) + 1}: not UTF-8 text") from None


def _files_in(context: str) -> Read:
    """A function that reads files of the build context, and nothing outside it."""
    root = os.path.realpath(context or ".")

    def read(path: str) -> str | None:
        try:
            place = os.path.realpath(os.path.join(root, path.lstrip("/")))
            if os.path.commonpath((place, root)) != root or not os.path.isfile(place):
                return None
            return read_given(place, _LIMIT)[:_LIMIT].decode("utf-8", "replace")
        except (OSError, ValueError):
            return None

    return read
