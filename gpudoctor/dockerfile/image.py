"""What a Dockerfile makes: the image of its last (or chosen) stage, with the stages that it grows from."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from gpudoctor.dockerfile.commands import Command, commands
from gpudoctor.dockerfile.installs import PipInstall, pip_install
from gpudoctor.dockerfile.scripts import Script, installing_script
from gpudoctor.dockerfile.syntax import Instruction, RecipeError, parse
from gpudoctor.dockerfile.variables import expanded, partly_expanded

if TYPE_CHECKING:
    from gpudoctor.matrix.questions import Matrix
    from gpudoctor.matrix.rows import BaseImage

Read = Callable[[str], "str | None"]
"""A file of the build context as a text; None where it cannot be had."""


class Setting(Struct, frozen=True):
    """A variable that the image sets. `value` None: it hangs on something that is not known."""

    name: str
    value: str | None
    line: int


class Copied(Struct, frozen=True):
    """A COPY or ADD: from the build context, or from a stage or image."""

    sources: tuple[str, ...]
    target: str
    line: int
    origin: str | None = None


class Step(Struct, frozen=True):
    """One command of the build with what it installs by pip, or the script that may install anything."""

    command: Command
    pip: PipInstall | None = None
    script: Script | None = None


class Image(Struct, frozen=True):
    """What is known of the image of one stage, its parent stages included."""

    file: str
    name: str
    """Name of the stage, "" without one."""
    base: str | None
    """The image that it begins with; None: not known."""
    base_line: int
    facts: BaseImage | None
    platform: str
    """linux-x86_64 or linux-aarch64, as torch wheels name it."""
    settings: dict[str, Setting] = {}
    steps: tuple[Step, ...] = ()
    copied: tuple[Copied, ...] = ()
    user: str = ""

    def at(self, line: int) -> str:
        """A place in the file: "Dockerfile:12"."""
        return f"{self.file}:{line}"

    def variable(self, name: str) -> str | None:
        """Value of a variable, where it is set and known."""
        setting = self.settings.get(name)
        return setting.value if setting else None


class _Stage:
    """A stage while it is read."""

    def __init__(self, line: int, name: str, base: str | None, parent: _Stage | None, platform: str) -> None:
        self.line, self.name, self.base, self.platform = line, name, base, platform
        self.base_line: int = parent.base_line if parent else line
        self.settings: dict[str, Setting] = dict(parent.settings) if parent else {}
        self.steps: list[Step] = list(parent.steps) if parent else []
        self.copied: list[Copied] = list(parent.copied) if parent else []
        self.folder: str = parent.folder if parent else "/"
        self.user: str = parent.user if parent else ""
        self.arguments: dict[str, str] = {}
        self.declared: set[str] = set()
        """Every ARG, also one that has no value until somebody gives it one."""

    @property
    def known(self) -> dict[str, str]:
        """ENV goes before ARG."""
        return {**self.arguments, **{one.name: one.value for one in self.settings.values() if one.value is not None}}


def read_dockerfile(
    file: str, text: str, matrix: Matrix, read: Read, arguments: Mapping[str, str] = {}, target: str = ""
) -> Image:
    """The image of a Dockerfile. `arguments` are those of --build-arg, `target` a stage ("": the last).

    Raises RecipeError for what no builder would take.
    """
    general: dict[str, str] = {}
    stages: list[_Stage] = []
    for one in parse(text):
        if one.name == "FROM":
            stages.append(_from(one, general, stages))
        elif not stages:
            _argument(one, general, {}, arguments)
        else:
            _apply(one, stages[-1], general, arguments, read)
    stage = _chosen(stages, target)
    return Image(
        file=file,
        name=stage.name,
        base=stage.base,
        base_line=stage.base_line,
        facts=matrix.base_image(stage.base) if stage.base else None,
        platform=stage.platform,
        settings=stage.settings,
        steps=tuple(stage.steps),
        copied=tuple(stage.copied),
        user=stage.user,
    )


def _chosen(stages: list[_Stage], target: str) -> _Stage:
    if not target:
        return stages[-1]
    for number, stage in enumerate(stages):
        if target.lower() == stage.name.lower() or target == str(number):
            return stage
    names = ", ".join(stage.name for stage in stages if stage.name) or "none has a name"
    raise RecipeError(f"has no stage {target!r} (stages: {names})")


def _from(one: Instruction, general: dict[str, str], stages: list[_Stage]) -> _Stage:
    words = one.text.split()
    if not words or (len(words) != 1 and (len(words) != 3 or words[1].upper() != "AS")):
        raise RecipeError(f"line {one.line}: FROM is followed by an image, and by AS and a name")
    image = expanded(words[0], general)
    platform = expanded(one.flag("platform") or "", general) or ""
    arch = "linux-aarch64" if re.search(r"arm64|aarch64", platform) else "linux-x86_64"
    parent = next((stage for stage in stages if image and stage.name.lower() == image.lower()), None)
    name = words[2] if len(words) == 3 else ""
    if parent is not None:
        return _Stage(one.line, name, parent.base, parent, parent.platform)
    return _Stage(one.line, name, image or None, None, arch)


def _argument(one: Instruction, into: dict[str, str], general: dict[str, str], given: Mapping[str, str]) -> None:
    for word in _words(one.text):
        name, equals, default = word.partition("=")
        value = expanded(default, {**general, **into}) if equals else general.get(name)
        if name in given:
            into[name] = given[name]
        elif value is not None:
            into[name] = value
        else:
            into.pop(name, None)


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text, posix=True)
    except ValueError:
        return []


def _apply(one: Instruction, stage: _Stage, general: dict[str, str], given: Mapping[str, str], read: Read) -> None:
    if one.name == "ARG":
        _argument(one, stage.arguments, general, given)
        stage.declared |= {word.partition("=")[0] for word in _words(one.text)}
    elif one.name == "ENV":
        for name, value in _pairs(one.text):
            stage.settings[name] = Setting(name, _setting(name, value, stage), one.line)
    elif one.name == "WORKDIR":
        stage.folder = posixpath.join(stage.folder, partly_expanded(one.text.strip(), stage.known))
    elif one.name == "USER":
        stage.user = one.text.strip()
    elif one.name in ("COPY", "ADD") and not one.documents:
        words = [partly_expanded(word, stage.known) for word in (one.argv or _words(one.text))]
        if len(words) > 1:
            stage.copied.append(Copied(tuple(words[:-1]), words[-1], one.line, one.flag("from")))
    elif one.name == "RUN":
        for command in commands(one, stage.known):
            files = _Files(stage, one, read)
            stage.steps.append(Step(command, pip_install(command, files), installing_script(command, files)))


def _pairs(text: str) -> list[tuple[str, str]]:
    """`NAME=VALUE ...`, or the old form `NAME VALUE`."""
    words = _words(text)
    if words and "=" in words[0]:
        return [(name, value) for name, equals, value in (word.partition("=") for word in words) if equals]
    name, _, value = text.strip().partition(" ")
    return [(name, value.strip())] if name else []


def _setting(name: str, value: str, stage: _Stage) -> str | None:
    """The value; an unknown variable of the base image that only adds to a path is left out of it."""
    text = partly_expanded(value, stage.known)
    if name not in stage.declared and re.search(r"\$\{?" + re.escape(name) + r"\b", text):
        text = re.sub(r"\$\{?" + re.escape(name) + r"\b(?:[^}$]*\})?", "", text)
    return None if "$" in text else text


class _Files:
    """Requirements files of a RUN, found in the build context by the COPY that brought them."""

    def __init__(self, stage: _Stage, run: Instruction, read: Read) -> None:
        self._stage, self._run, self._read = stage, run, read

    def __call__(self, path: str) -> str | None:
        if "$" in path or "://" in path:
            return None
        for mount in self._run.flags:
            options = dict(part.partition("=")[::2] for part in mount.removeprefix("--mount=").split(","))
            if options.get("type") == "bind" and "from" not in options:
                target = options.get("target") or options.get("dst") or options.get("destination") or ""
                if _same(target, path, self._stage.folder):
                    return self._read(options.get("source") or options.get("src") or target)
        for copied in reversed(self._stage.copied):
            if copied.origin is None and (text := self._from_copy(copied, path)) is not None:
                return text
        return None

    def _from_copy(self, copied: Copied, path: str) -> str | None:
        folder = self._stage.folder
        whole, target = posixpath.join(folder, path), posixpath.normpath(posixpath.join(folder, copied.target))
        whole = posixpath.normpath(whole)
        for source in copied.sources:
            candidates = []
            if whole in (target, posixpath.join(target, posixpath.basename(source.rstrip("/")))):
                candidates.append(source)
            if whole.startswith(target.rstrip("/") + "/"):
                candidates.append(posixpath.join(source, whole[len(target.rstrip("/")) + 1 :]))
            for candidate in candidates:
                if (text := self._read(candidate)) is not None:
                    return text
        return None


def _same(one: str, other: str, folder: str) -> bool:
    return posixpath.normpath(posixpath.join(folder, one)) == posixpath.normpath(posixpath.join(folder, other))
