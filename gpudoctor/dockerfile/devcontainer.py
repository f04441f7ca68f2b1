"""devcontainer.json: the image of a development container, the GPUs that it is given, and what it installs."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Struct

from gpudoctor.dockerfile.bounds import Bounds
from gpudoctor.dockerfile.compose import Service
from gpudoctor.dockerfile.projects import strings
from gpudoctor.dockerfile.syntax import RecipeError

_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"?|//[^\n]*|/\*.*?(?:\*/|\Z)|,(?=\s*[}\]])', re.DOTALL)
"""What is read as one: a string, a comment, a trailing comma. One that is never closed goes to the end."""
_CREATING = ("onCreateCommand", "updateContentCommand", "postCreateCommand")
_MOST = 500


class DevContainer(Struct, frozen=True):
    """A development container. Its paths, also that of its Dockerfile, are relative to the folder of
    devcontainer.json. `compose` are the compose files that it is a service of, if it is one."""

    service: Service
    compose: tuple[str, ...] = ()
    creating: tuple[tuple[int, str], ...] = ()
    """The commands that run when it is created, with their lines."""


def read_devcontainer(file: str, text: str, bounds: Bounds) -> DevContainer:
    """What a devcontainer.json says. Raises RecipeError for any other text."""
    content = _json(text)
    if not isinstance(content, dict) or not {"image", "build", "dockerFile", "dockerComposeFile"} & content.keys():
        raise RecipeError("names no image, no build and no compose file: this is no devcontainer.json")
    build = content.get("build")
    build = build if isinstance(build, dict) else {}
    dockerfile = str(build.get("dockerfile") or content.get("dockerFile") or "")
    context = str(build.get("context") or content.get("context") or ".")
    arguments = build.get("args")
    lines = _Lines(text)
    run_args = strings(content.get("runArgs"))
    options = _options(run_args)
    devices = tuple(value.partition(":")[0] for value in options.get("--device", ()))
    environment = content.get("containerEnv")
    requirements = content.get("hostRequirements")
    gpu = requirements.get("gpu") if isinstance(requirements, dict) else None
    image = content.get("image")
    service = Service(
        file=file,
        name=str(content.get("service") or "devcontainer"),
        line=lines.of("image" if isinstance(image, str) else "build" if build else "dockerFile"),
        image=image if isinstance(image, str) and "$" not in image else None,
        context=context if dockerfile else None,
        dockerfile=dockerfile,
        target=str(build.get("target") or ""),
        arguments=_mapping(arguments),
        nvidia=bool(gpu) or "--gpus" in options or "nvidia" in options.get("--runtime", ()),
        kfd=any(device in ("/dev/kfd", "/dev/dxg") for device in devices),
        render=any(device.startswith("/dev/dri") for device in devices),
        devices=devices,
        shared_memory=bool(options.get("--shm-size")) or "host" in options.get("--ipc", ()),
        groups=tuple(options.get("--group-add", ())),
        user=str(content.get("containerUser") or ""),
        privileged=content.get("privileged") is True or "--privileged" in options,
        environment=_mapping(environment),
        development=True,
        run_args=tuple(run_args),
        run_args_line=lines.of("runArgs") if "runArgs" in content else 0,
    )
    creating = tuple((lines.of(name), command) for name in _CREATING for command in _commands(content.get(name)))
    bounds.commands.spend(len(creating))
    return DevContainer(service, tuple(strings(content.get("dockerComposeFile"))), creating)


def _json(text: str) -> Any:
    """The value of JSON with comments and trailing commas."""
    plain = _TOKEN.sub(lambda found: found[0] if found[0][0] == '"' else "", text.removeprefix("\ufeff"))
    try:
        return msgspec.json.decode(plain)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise RecipeError(f"not valid JSON: {str(error)[:100]}") from None


def _options(words: list[str]) -> dict[str, list[str]]:
    """The options of `docker run`, each with its values: `--gpus=all`, or `--gpus`, `all`."""
    found: dict[str, list[str]] = {}
    name = ""
    for word in words[:_MOST]:
        if word.startswith("-"):
            name, _, value = re.sub(r"^(--?[\w-]+) ", r"\1=", word).partition("=")
            found.setdefault(name, []).extend([value] if value else [])
        elif name:
            found[name].append(word)
    return found


def _commands(value: Any) -> list[str]:
    """A command is a text, a list of words, or several by their names."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [" ".join(one if re.fullmatch(r"[\w./=:,\[\]~+-]+", one) else f"'{one}'" for one in strings(value))]
    named = value.values() if isinstance(value, dict) else ()
    return [command for one in named if not isinstance(one, dict) for command in _commands(one)]


class _Lines:
    """The lines of the keys."""

    def __init__(self, text: str) -> None:
        self._text = text

    def of(self, key: str) -> int:
        found = re.search(rf'"{key}"\s*:', self._text)
        return self._text.count("\n", 0, found.start()) + 1 if found else 1


def _mapping(value: Any) -> dict[str, str]:
    pairs = value.items() if isinstance(value, dict) else ()
    return {str(key): str(one) for key, one in pairs if one is not None and "$" not in str(one)}
