"""What conda, mamba and micromamba install: the torch of their words or of environment.yml."""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.bounded_yaml import YamlError, read_yaml
from gpudoctor.dockerfile.bounds import Bounds
from gpudoctor.dockerfile.commands import Command
from gpudoctor.dockerfile.environments import CONDA_ROOT, CONDAS
from gpudoctor.dockerfile.installs import PipInstall, install_of, split_options
from gpudoctor.dockerfile.projects import Choice
from gpudoctor.dockerfile.requirements import Read, Requirement, RequirementCollector
from gpudoctor.dockerfile.variables import OVERRIDE_CUDA
from gpudoctor.machine.torch import TORCH_AND_COMPANIONS

_FILE = ("-f", "--file", "--name-file")
_CHANNEL = ("-c", "--channel")
_WITH_VALUE = frozenset({*_FILE, *_CHANNEL, "-n", "--name", "-p", "--prefix", "--solver", "--repodata-fn", "-r"})
_NAME = ("-n", "--name")
_VERBS = ("install", "create", "update")
_FOR_CPUS = ("cpuonly", "pytorch-cpu")
_TORCHES = {
    "pytorch": "torch",
    "pytorch-cpu": "torch",
    "pytorch-gpu": "torch",
    "torchvision": "torchvision",
    "torchaudio": "torchaudio",
}
_BESIDE_TORCH = ("numpy",)
"""Packages of the same name in conda, of which not every release works with every torch."""
_FOR_CUDA = re.compile(r"pytorch-gpu|cuda|\bgpu|\*$")
"""A build of conda-forge that its spec asks for, or may ask for."""
_BRINGS_TORCH = re.compile(r"torch|lightning|fastai|timm|accelerate|transformers")
_SPEC = re.compile(r"(?:([\w./-]+)::)?([\w.-]+) ?(\[[^\]]*\])?(={1,2}[^=<>! ]+|[<>!~][^ ]*)?(?:[= ]([^= ]+))?")
_OF_PIP = "pypi"
"""How the build begins that `conda list --export` writes for a package of pip, which no channel of conda has."""
_LONGEST = 200


class Spec(Struct, frozen=True):
    """One package of conda: `pytorch::pytorch=2.1.0=py3.10_cuda11.8_cudnn8.7.0_0`."""

    name: str
    specifier: str = ""
    """As pip writes it."""
    build: str = ""
    channel: str = ""
    place: str = ""


def conda_installs(command: Command, read: Read, bounds: Bounds, machine: str) -> tuple[PipInstall, ...]:
    """The torch that a command of conda installs, and what pip installs for its environment.yml."""
    if os.path.basename(command.argv[0]) not in CONDAS:
        return ()
    words, options, flags = split_options(command.argv[1:], _WITH_VALUE)
    words = words[1:] if words[:1] == ["env"] else words
    if not words or words[0] not in _VERBS:
        return ()
    channels = [value for name in _CHANNEL for value in options.get(name, ())]
    specs = [spec for word in words[1:] if (spec := _spec(word, command.script)) is not None]
    pip: list[PipInstall] = []
    incomplete = "$" in command.text
    for path in (value for name in _FILE for value in options.get(name, ())):
        text = read(path)
        environment = _environment(read.shown(path), text) if text is not None else None
        incomplete |= environment is None
        if environment is not None:
            channels += environment.channels
            specs += environment.specs
            pip += _by_pip(environment, os.path.dirname(path), command, read, bounds, machine)
    by_pip = any(spec.name in TORCH_AND_COMPANIONS and spec.build.startswith(_OF_PIP) for spec in specs)
    torches = [spec for spec in specs if spec.name in _TORCHES and not by_pip]
    channel = next((_channel(spec, channels) for spec in torches if spec.name.startswith("pytorch")), "")
    install = PipInstall(
        tool="conda",
        requirements=tuple(
            Requirement(_TORCHES.get(one.name, one.name), one.specifier, file=one.place)
            for one in (*torches, *(one for one in specs if torches and one.name in _BESIDE_TORCH))
        ),
        backend=_build(specs, channels),
        flags=flags,
        incomplete=incomplete,
        unread=by_pip or (not torches and any(_BRINGS_TORCH.search(spec.name) for spec in specs)),
        without_cuda=channel == "conda-forge"
        and not command.variables.get(OVERRIDE_CUDA)
        and not any(_FOR_CUDA.search(f"{spec.name} {spec.build}") for spec in torches),
        channel=channel,
    )
    return (*((install,) if torches or incomplete or install.unread else ()), *pip)


def run_in_environment(command: Command) -> tuple[Command, str]:
    """The command behind `conda run`, and the environment that it runs in; else the command itself, and ""."""
    if os.path.basename(command.argv[0]) not in CONDAS or command.argv[1:2] != ("run",):
        return command, ""
    rest, place = list(command.argv[2:]), ""
    while rest and rest[0].startswith("-"):
        option, equals, value = rest.pop(0).partition("=")
        if option in _WITH_VALUE or option == "--cwd":
            value = value if equals else rest.pop(0) if rest else ""
            place = (
                value if option in ("-p", "--prefix") else f"{CONDA_ROOT}/envs/{value}" if option in _NAME else place
            )
    return (replace(command, argv=tuple(rest)), place) if rest else (command, "")


def conda_packages(command: Command) -> tuple[str, ...]:
    """The packages that a command of conda or pixi names."""
    if os.path.basename(command.argv[0]) not in (*CONDAS, "pixi"):
        return ()
    words, _, _ = split_options(command.argv[1:], _WITH_VALUE)
    if not {*_VERBS, "add"} & set(words[:2]):
        return ()
    return tuple(re.split(r"::", re.split(r"[=<>! \[]", word)[0])[-1].lower() for word in words[1:])


class _Environment(Struct, frozen=True):
    """An environment.yml."""

    specs: tuple[Spec, ...] = ()
    channels: tuple[str, ...] = ()
    pip: tuple[tuple[str, str], ...] = ()
    """The lines of its pip list, with their places."""


def _environment(path: str, text: str) -> _Environment | None:
    """An environment.yml, or a list of specs; None if it is neither."""
    if not path.endswith((".yml", ".yaml")):
        lines = [line.partition("#")[0].strip() for line in text.splitlines()]
        specs = (_spec(line, f"{path}:{number}") for number, line in enumerate(lines, start=1) if line)
        return _Environment(tuple(spec for spec in specs if spec is not None))
    try:
        content = read_yaml(text).value
    except YamlError:
        return None
    if not isinstance(content, dict) or not isinstance(content.get("dependencies"), list):
        return None
    places = _places(path, text)
    specs_, pip = [], []
    for one in content["dependencies"]:
        if isinstance(one, str) and (spec := _spec(one, places.get(one, path))) is not None:
            specs_.append(spec)
        elif isinstance(one, dict):
            pip += [(line, places.get(line, path)) for line in _strings(one.get("pip"))]
    return _Environment(tuple(specs_), tuple(_strings(content.get("channels"))), tuple(pip))


def _places(path: str, text: str) -> dict[str, str]:
    """The line of each entry of the lists: "environment.yml:7"."""
    entries = ((number, line.strip()) for number, line in enumerate(text.splitlines(), start=1))
    found: dict[str, str] = {}
    for number, line in entries:
        if line.startswith("- "):
            found.setdefault(re.sub(r"\s#.*", "", line[2:]).strip().strip("\"'"), f"{path}:{number}")
    return found


def _by_pip(
    environment: _Environment, folder: str, command: Command, read: Read, bounds: Bounds, machine: str
) -> Iterator[PipInstall]:
    if not environment.pip:
        return
    collected = RequirementCollector(read, bounds, machine, Choice())
    for line, place in environment.pip:
        collected.line(line, place, folder)
    yield install_of("pip", collected, command)


def _spec(word: str, place: str) -> Spec | None:
    if "$" in word or len(word) > _LONGEST or (found := _SPEC.fullmatch(word.strip())) is None:
        return None
    channel, name, bracket, version, build = found.groups()
    asked = re.search(r"build=[\"']?([^\"',\]]+)", bracket or "")
    build = build or (asked[1] if asked else "")
    return Spec(name.lower(), _specifier((version or "").strip()), build, channel or "", place)


def _specifier(version: str) -> str:
    """ "==2.1.*" for conda's "=2.1", and "==2.1.0" for "=2.1.0" or "==2.1.0"."""
    if found := re.fullmatch(r"={1,2}(\d+(?:\.\d+)*?)\.?\*|=(\d+(?:\.\d+)?)", version):
        return f"=={found[1] or found[2]}.*"
    return f"={version}" if re.match(r"=[^=]", version) else version


def _channel(spec: Spec, channels: list[str]) -> str:
    """The channel that a package of torch comes from; "" if it is not known."""
    named = spec.channel or next((one for one in channels if one in ("pytorch", "conda-forge")), "")
    return named.rpartition("/")[2]


def _build(specs: list[Spec], channels: list[str]) -> str:
    """The build that the channel of PyTorch has for these specs: cu121, cpu; "" for another channel, or if open."""
    for spec in specs:
        exact = re.match(r"==?(\d+)\.(\d)", spec.specifier)
        torch = spec.name == "pytorch" and re.search(r"cuda(\d+)\.(\d)_cudnn", spec.build)
        if torch:
            return f"cu{torch[1]}{torch[2]}"
        if spec.name in _FOR_CPUS or (spec.name == "pytorch" and spec.build.startswith("cpu")):
            return "cpu"
        if exact and (spec.name == "pytorch-cuda" or (spec.name == "cudatoolkit" and "pytorch" in channels)):
            return f"cu{exact[1]}{exact[2]}"
    return ""


def _strings(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
