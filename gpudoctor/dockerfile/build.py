"""The instructions of stages, applied one after the other: what an image gets by them."""

from __future__ import annotations

import posixpath
import re
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.dockerfile.bounds import BoundError, Bounds, path
from gpudoctor.dockerfile.commands import Command, commands, script_commands
from gpudoctor.dockerfile.conda import conda_installs, run_in_environment
from gpudoctor.dockerfile.copied_files import CopiedFiles
from gpudoctor.dockerfile.definitions import Definition
from gpudoctor.dockerfile.environments import environment_of, makes_one
from gpudoctor.dockerfile.image import CopyInstruction, ImageVariable, Later, Read, Start, Step
from gpudoctor.dockerfile.installs import NOTHING, PipInstall, pip_install
from gpudoctor.dockerfile.locks import project_install
from gpudoctor.dockerfile.preflights import words_before
from gpudoctor.dockerfile.scripts import Script, for_a_shell, installing_script, installs_torch, script_path
from gpudoctor.dockerfile.start import unwrapped
from gpudoctor.dockerfile.syntax import Instruction, RecipeError
from gpudoctor.dockerfile.variables import OF_PROGRAMS, expanded, partly_expanded, without
from gpudoctor.dockerfile.words import UnclosedError, words

_WORKSPACE = "/workspaces/project"
_DEPTH = 3
"""Scripts that run scripts."""
_LONGEST_SCRIPT, _SCRIPT_TEXT = 32 << 10, 128 << 10
"""Characters of one script whose commands are followed, and of all."""


class Stage(Struct):
    """A stage with its instructions, none of them applied yet."""

    line: int
    name: str
    image: str | None
    """The image that it is built on; None if unknown."""
    platform: str
    parent: Stage | None
    instructions: list[Instruction]


@contextmanager
def with_line(one: Instruction) -> Iterator[None]:
    """Report an exceeded bound with its line."""
    try:
        yield
    except BoundError as error:
        raise RecipeError(f"line {one.line}: {error}") from None


class Build:
    """The image so far: the effect of the instructions of a stage, after those of its parents."""

    def __init__(self, given: Mapping[str, str], read: Read, bounds: Bounds, names: Sequence[str]) -> None:
        self._given, self._read, self._bounds = given, read, bounds
        self._names = names
        """Variables that decide what commands compile."""
        self.general: dict[str, str] = {}
        """Every ARG before the first FROM."""
        self.arguments: dict[str, str] = {}
        self._declared: set[str] = set()
        """Every ARG, with or without a value."""
        self.definitions: list[Definition] = []
        self.settings: dict[str, ImageVariable] = {}
        self._values: dict[str, str] = {}
        """Those of the settings whose values are known."""
        self._known = ChainMap(self._values, self.arguments)
        self.steps: list[Step] = []
        self.copied: list[CopyInstruction] = []
        self.folder, self.user, self.machine = "/", "", "x86_64"
        self.made: dict[str, str] = {}
        self._shell: tuple[str, ...] = ("/bin/sh", "-c")
        self._environments: set[str] = set()
        """Those that commands made so far."""
        self._locks: dict[str, str | None] = {}
        self._pythons: dict[str, str] = {}
        """What the projects in folders ask of uv."""
        self._scripts: dict[str, str | None] = {}
        self._texts: dict[str, str] = {}
        """The scripts whose commands are followed, by their names in the build context."""
        self._script_text, self._script_bounds = _SCRIPT_TEXT, Bounds()
        self.entrypoint: Start | None = None
        self.command: Start | None = None
        self._entrypoint: Instruction | None = None
        self._command: Instruction | None = None
        self._own_command = False
        """Whether the stage itself has a CMD. All else it inherits from its parent, the ARGs, too."""

    def run(self, chain: list[Stage]) -> None:
        """Apply a stage, after those that it is built from. Raises RecipeError."""
        self.machine = chain[0].platform.partition("-")[2]
        for stage in reversed(chain):
            self._own_command = False
            for one in stage.instructions:
                with with_line(one):
                    self.apply(one)
        if self._entrypoint is not None:
            self.entrypoint = self._started(self._entrypoint)
        if self._command is not None:
            before = words_before(self.entrypoint, self._command.argv) if self._command.argv is not None else ()
            self.command = self._started(self._command, before)

    def another(self) -> Build:
        """An empty image of the same build."""
        other = Build(self._given, self._read, self._bounds, self._names)
        other.general.update(self.general)
        other.definitions += (one for one in self.definitions if one.before_from)
        return other

    def declare(self, one: Instruction, into: dict[str, str]) -> list[str]:
        """The names in an ARG instruction. Known values are put into a mapping."""
        names = []
        for word in self._words(one.text):
            name, equals, default = word.partition("=")
            known = ChainMap(into, self.general)
            value = expanded(default, known, self._bounds) if equals else self.general.get(name)
            value, given = self._given.get(name, value), name in self._given
            written = default if equals else None
            self.definitions.append(Definition(name, one.line, written, "ARG", into is self.general, given))
            if value is not None:
                into[name] = value
            else:
                into.pop(name, None)
            names.append(name)
        return names

    def apply(self, one: Instruction) -> None:
        """Apply one instruction. Raises BoundError."""
        if one.name == "ARG":
            self._declared.update(self.declare(one, self.arguments))
        elif one.name == "ENV":
            for name, value in self._pairs(one.text):
                known = self._setting(name, value)
                self.settings[name] = ImageVariable(name, known, one.line)
                if known is None:
                    self._values.pop(name, None)
                else:
                    self._values[name] = known
                self.definitions.append(Definition(name, one.line, value, "ENV"))
        elif one.name == "WORKDIR":
            self.folder = path(posixpath.join(self.folder, self._expanded(one.text.strip())))
            there = any(f"{copied.target}/".startswith(f"{self.folder}/") for copied in self.copied)
            self.made.setdefault(self.folder, "" if there else self.user)
        elif one.name == "SHELL":
            self._shell = one.argv or self._shell
        elif one.name == "USER":
            self.user = one.text.strip()
        elif one.name in ("COPY", "ADD") and not one.documents:
            words = [path(self._expanded(word)) for word in (one.argv or self._words(one.text))]
            if len(words) > 1:
                target = posixpath.normpath(posixpath.join(self.folder, words[-1]))
                self.copied.append(CopyInstruction(tuple(words[:-1]), path(target), one.line, one.flag("from")))
        elif one.name == "ENTRYPOINT":
            self._entrypoint = one
            if not self._own_command:  # it takes away the CMD of the base image and of stages before
                self._command = None
        elif one.name == "CMD":
            self._command, self._own_command = one, True
        elif one.name == "RUN":
            files = CopiedFiles(self.folder, self.copied, one, self._read, self._bounds)
            self._take(commands(one, self._known, self._bounds, self._names), files, 0)

    def _take(self, found: Iterator[Command], files: CopiedFiles, depth: int) -> None:
        """The commands of a RUN, and those of the shell scripts that they run."""
        for whole in found:
            command, inside = run_in_environment(whole)
            if command.argv[0] == "cd":
                files.enter(command)
            script = script_path(unwrapped(command.argv))
            files.activate(script)
            activated = inside or files.activated
            environment = environment_of(command, files.folder, activated, self._environments)
            if environment and makes_one(command.argv):
                self._environments.add(environment)
            text = self._script(script, files) if script else None
            name = files.shown(script)
            followed = self._followed(name, text, command) if text is not None and depth < _DEPTH else None
            if text is not None and followed is not None:
                folder, activated, before = files.folder, files.activated, len(self.steps)
                self._take(iter(followed), files, depth + 1)
                files.folder, files.activated = folder, activated
                seen = any(step.pip.asks_for("torch") for step in self.steps[before:])
                missed = not seen and installs_torch(text)
                unread = Script(names_torch=True) if missed else None
                self.steps.append(Step(command, script=unread, environment=environment, user=self.user))
                continue
            for install in self._installs(command, files):
                if install.asks_for("torch") and not install.locked:
                    self._bounds.torches.spend()
                python = self._asked_of_uv(files) if environment and makes_one(command.argv) else ""
                script_ = installing_script(script, text)
                self.steps.append(Step(command, install, script_, environment, self.user, python))

    def _asked_of_uv(self, files: CopiedFiles) -> str:
        """The Python that the project in the working directory asks for: by .python-version, else by pyproject.toml.
        Each is read once."""
        if files.folder not in self._pythons:
            pinned = re.match(r"\s*(?:cpython-)?(3\.\d+)", files.lock(".python-version") or "")
            project = "" if pinned else files.lock("pyproject.toml") or ""
            named = re.search(r"""^requires-python\s*=\s*["']([^"']{1,100})""", project, re.MULTILINE)
            self._pythons[files.folder] = pinned[1] if pinned else named[1] if named else ""
        return self._pythons[files.folder]

    def _script(self, path: str, files: CopiedFiles) -> str | None:
        """The text of a script. Each is read once."""
        whole = files.whole(path)
        if whole not in self._scripts:
            self._scripts[whole] = files(path)
        return self._scripts[whole]

    def _followed(self, name: str, text: str, command: Command) -> tuple[Command, ...] | None:
        """The commands of a shell script, by its name in the build context; None for another script, or one that is
        over a bound. Scripts have bounds of their own: a long one, such as `configure`, is no reason to refuse the
        Dockerfile that runs it."""
        self._script_text -= len(text)
        if not for_a_shell(name, text) or len(text) > _LONGEST_SCRIPT or self._script_text < 0:
            return None
        self._texts[name] = text
        known = ChainMap(command.variables, self._known)
        try:
            return tuple(script_commands(text, name, command, known, self._script_bounds, self._names))
        except BoundError:
            return None

    def _installs(self, command: Command, files: CopiedFiles) -> tuple[PipInstall, ...]:
        """What a command installs. With environment.yml both conda and pip install something."""
        of_conda = conda_installs(command, files, self._bounds, self.machine)
        if of_conda:
            return of_conda
        return (pip_install(command, files, self._bounds, self.machine) or self._synced(command, files) or NOTHING,)

    def _started(self, one: Instruction, before: tuple[str, ...] = ()) -> Start:
        """What a container runs when it starts. What it surely installs by pip belongs to the image."""
        run = replace(one, argv=(*before, *one.argv)) if before and one.argv else one
        files = CopiedFiles(self.folder, self.copied, one, self._read, self._bounds)
        earlier = len(self.steps)
        with with_line(one):
            self._take(commands(run, self._known, self._bounds, self._names), files, 0)
        steps = tuple(self.steps[earlier:])
        self.steps[earlier:] = [step for step in steps if step.installs and not step.command.maybe]
        written = one.documents[0].text if one.documents else one.text
        words = one.argv or (*self._shell, written.strip())
        script = next((step.command.script.rpartition(":")[0] for step in steps if step.command.script), "")
        text = self._texts.get(script, "")
        return Start(words, one.line, one.argv is None, steps, self._exports(steps), text)

    def _exports(self, steps: tuple[Step, ...]) -> dict[str, ImageVariable]:
        """What a start sets for the last command of its script, or for its own, that the image does not have."""
        sure = [step.command for step in steps if not step.command.maybe]
        if not sure:
            return {}
        last = next((one for one in reversed(sure) if one.script), sure[-1])
        found = {}
        for name in OF_PROGRAMS:
            value, own = last.variables.get(name), self.settings.get(name)
            if value is None or (own is not None and own.value == value):
                continue
            path, _, number = last.script.rpartition(":")
            lines = self._texts.get(path, "").split("\n")[: int(number or 0)]
            sets = (at for at in range(len(lines), 0, -1) if f"{name}=" in lines[at - 1])
            place = f"{path}:{next(sets, number)}" if path else ""
            found[name] = ImageVariable(name, value, last.line, place)
        return found

    def run_later(self, later: Later, stage: Stage) -> None:
        """Commands that run in a container of the image, whose places are in another file."""
        mount = CopyInstruction((".",), _WORKSPACE, stage.line)
        for line, text in later.commands:
            one = Instruction(stage.line, "RUN", text)
            files = CopiedFiles(_WORKSPACE, [mount], one, later.read, self._bounds)
            found = commands(one, self._known, self._bounds, self._names)
            with with_line(one):
                place = f"{later.file}:{line}" if line else later.file
                self._take((replace(command, script=place) for command in found), files, 0)

    def _synced(self, command: Command, files: CopiedFiles) -> PipInstall | None:
        """What a `uv sync` or `poetry install` installs. Each lock file is read once."""

        def read(path: str) -> str | None:
            whole = files.whole(path)
            if whole not in self._locks:
                self._bounds.locks.spend()
                self._locks[whole] = files.lock(path)
            if self._locks[whole] is not None:
                self._bounds.torches.spend()
            return self._locks[whole]

        return project_install(command, files, read, self._bounds, self.machine)

    def _expanded(self, text: str) -> str:
        return partly_expanded(text, self._known, self._bounds)

    def _words(self, text: str) -> list[str]:
        try:
            return words(text, self._bounds)
        except UnclosedError:
            return []

    def _pairs(self, text: str) -> list[tuple[str, str]]:
        """`NAME=VALUE ...`, or the old form `NAME VALUE`."""
        words = self._words(text)
        if words and "=" in words[0]:
            return [(name, value) for name, equals, value in (word.partition("=") for word in words) if equals]
        name, _, value = text.strip().partition(" ")
        return [(name, value.strip())] if name else []

    def _setting(self, name: str, value: str) -> str | None:
        """The value of a variable. If it extends an unknown variable of the base image, that part is left out."""
        text = self._expanded(value)
        if name not in self._declared and "$" in text:
            text = without(text, name)
        return None if "$" in text else text
