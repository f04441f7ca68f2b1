"""What is known of the image that a Dockerfile builds."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from gpudoctor.dockerfile.commands import Command
from gpudoctor.dockerfile.definitions import Definitions
from gpudoctor.dockerfile.installs import NOTHING, PipInstall
from gpudoctor.dockerfile.scripts import Script
from gpudoctor.wheel_tags import WheelFile, wheel_file

if TYPE_CHECKING:
    from gpudoctor.matrix.rows import BaseImage


Read = Callable[[str], "str | None"]
"""Reads a file of the build context; None if that is not possible."""


class Later(Struct, frozen=True):
    """Commands that run once in a container, in a folder of the host that is mounted there."""

    file: str
    commands: tuple[tuple[int, str], ...]
    """Each with its line in the file; 0: it stands in none."""
    read: Read
    """Reads the files of that folder."""


class ImageVariable(Struct, frozen=True):
    """A variable that the image sets. `value` is None if it depends on something unknown."""

    name: str
    value: str | None
    line: int
    script: str = ""
    """The place in a start script that exports it, such as "start.sh:3"; "" for one of ENV."""


class CopyInstruction(Struct, frozen=True):
    """A COPY or ADD: from the build context, or from a stage or image."""

    sources: tuple[str, ...]
    target: str
    """Its path below the root of the image."""
    line: int
    origin: str | None = None
    followed: bool = False
    """Whether it is a Python environment of a stage whose commands count as the image's own."""

    def moved(self, path: str) -> str | None:
        """Where a path of the stage lies in the image; None if it is not copied as a whole."""
        for source in self.sources:
            whole = source.rstrip("/")
            if path == whole or path.startswith(whole + "/"):
                return (self.target.rstrip("/") + path[len(whole) :]) or "/"
        return None


class Step(Struct, frozen=True):
    """One command of the build, with what it installs by pip, or the script that may install anything."""

    command: Command
    pip: PipInstall = NOTHING
    script: Script | None = None
    environment: str | None = ""
    """The environment that it makes or installs into; "": none but the image's own Python; None: unknown."""
    user: str = ""
    python: str = ""
    """The Python that the project asks of uv for it: a version, or what versions must meet."""
    copied: bool = False
    """Whether it runs in another stage, and the image copies what it installs."""

    @property
    def installs(self) -> bool:
        """Whether it is a command of pip, uv, poetry or conda that installs something."""
        return bool(self.pip.tool)

    @property
    def wheels(self) -> dict[str, WheelFile]:
        """The wheel files that it installs by pip or uv, by their paths or addresses."""
        words = self.command.argv[1:] if self.pip.tool in ("pip", "uv") else ()
        files = (one.specifier.lstrip("@ ") for one in self.pip.requirements if one.specifier.startswith("@"))
        return {word: wheel for word in (*words, *files) if (wheel := wheel_file(word)) is not None}

    @property
    def brings_torch(self) -> bool:
        return self.pip.asks_for("torch") is not None and not self.pip.elsewhere


class Start(Struct, frozen=True):
    """An ENTRYPOINT or a CMD, or what a file of services has in its place."""

    words: tuple[str, ...]
    """Those of the exec form; `/bin/sh -c TEXT` for the shell form."""
    line: int
    shell: bool = False
    steps: tuple[Step, ...] = ()
    """Every command that it runs, with those of scripts."""
    exports: dict[str, ImageVariable] = {}
    """What it sets for the program that it starts."""
    text: str = ""
    """The script that it runs."""


class Image(Struct, frozen=True, eq=False):
    """What is known of the image of one stage, parent stages included. An image equals only itself, so that answers
    about it can be cached."""

    file: str
    name: str
    """Name of the stage; "" if it has none."""
    base: str | None
    """The image that it is built on; None if unknown."""
    base_line: int
    facts: BaseImage
    """What that holds; of an unknown one, a record that says nothing."""
    platform: str
    """linux-x86_64 or linux-aarch64, as torch wheels name it."""
    settings: dict[str, ImageVariable] = {}
    steps: tuple[Step, ...] = ()
    copied: tuple[CopyInstruction, ...] = ()
    folder: str = "/"
    """The working directory of its containers."""
    user: str = ""
    made: dict[str, str] = {}
    """The folders that WORKDIR made, each with the user at that time, whose it is for BuildKit."""
    entrypoint: Start | None = None
    """The file's own; that of the base image is not known."""
    command: Start | None = None
    bases: tuple[tuple[str, int], ...] = ()
    """Every image that the build starts from or copies from, with its line: also those of other stages."""

    builders: tuple[Image, ...] = ()
    """The images of the stages from which something is copied into this one."""
    source: tuple[str, ...] = ()
    """The lines of the file."""
    definitions: Definitions = Definitions()
    form: Literal["dockerfile", "definition", "service", "packages"] = "dockerfile"
    """What the file is: a definition of Apptainer, and a file of services that names the image, have other words for
    the same. "packages": it lists packages, and `base` is the command that installs them."""

    def place(self, line: int) -> str:
        """A place in the file: "Dockerfile:12"."""
        return f"{self.file}:{line}"

    def place_of(self, setting: ImageVariable) -> str:
        """Where a variable is set: an instruction of several lines has each of its variables on one."""
        return setting.script or self.place(self._line_of(setting))

    def _line_of(self, setting: ImageVariable) -> int:
        sets = re.compile(rf"\b{re.escape(setting.name)}(=| )")
        for number, line in enumerate(self.source[setting.line - 1 :], start=setting.line):
            if sets.search(line):
                return number
            if not line.rstrip().endswith("\\") and not line.lstrip().startswith("#"):
                break
        return setting.line

    def alone(self, setting: ImageVariable) -> bool:
        """Whether its instruction sets no other variable."""
        own = [one for one in self.settings.values() if one.line == setting.line and not one.script]
        return len(own) == 1

    def written(self, setting: ImageVariable) -> str:
        """The line that sets a variable, as it stands there."""
        return self.written_env(setting.name, setting.value, bool(setting.script))

    def written_from(self, image: str) -> str:
        """The line that names the base image."""
        words = {"dockerfile": "FROM ", "definition": "From: ", "service": "image: ", "packages": ""}
        return words[self.form] + image

    def on_base(self, image: str) -> str:
        """The same, with its place."""
        return f"{self.place(self.base_line)}: {self.written_from(image)}"

    def written_env(self, name: str, value: str | None, in_script: bool = False) -> str:
        """The line that sets a variable."""
        word = "export" if in_script or self.form == "definition" else "ENV"
        return f"{word} {name}={value}"

    def written_copy(self, origin: str | None, sources: Sequence[str], target: str) -> str:
        """The lines that copy from a stage or image."""
        if self.form == "definition":
            return "\n".join((f"%files from {origin}", *(f"    {source} {target}" for source in sources)))
        return f"COPY --from={origin} {' '.join(sources)} {target}"

    def written_run(self, command: str) -> str:
        return command if self.form == "definition" else f"RUN {command}"

    def variable(self, name: str) -> str | None:
        """Value of a variable, if it is set and known."""
        setting = self.settings.get(name)
        return setting.value if setting else None
