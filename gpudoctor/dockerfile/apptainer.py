"""Definition files of Apptainer and Singularity, read as the instructions of a Dockerfile that says the same."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping

from msgspec import Struct

from gpudoctor.dockerfile.bounds import BoundError, Bounds
from gpudoctor.dockerfile.syntax import HereDocument, Instruction, RecipeError

_HEADER = re.compile(r"[ \t]*(Bootstrap|From|Stage)[ \t]*:(.*)$", re.IGNORECASE)
_SECTION = re.compile(r"%(\w+)(.*)$")
_PLACEHOLDER = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_REGISTRIES = ("docker", "docker-daemon")
_EXPORT = re.compile(r"(?:export[ \t]+)?([A-Za-z_]\w*=\S.*)$")
_LONGEST_VALUE = 200


class _Section(Struct):
    """A section of a stage: its name ("files"), the words after that, and its lines. `line` is the first of these."""

    name: str
    words: str
    line: int
    lines: list[str]


class _Stage(Struct):
    line: int
    bootstrap: str
    image: str = ""
    name: str = ""
    sections: list[_Section] = []

    def named(self, name: str) -> list[_Section]:
        return [one for one in self.sections if one.name == name]


def is_definition(text: str) -> bool:
    """Whether a text is a definition file: its first line that is no comment is a header."""
    lines = (line for line in text.removeprefix("\ufeff").splitlines() if line.strip() and line.lstrip()[:1] != "#")
    return _HEADER.match(next(lines, "")) is not None


def parse_definition(text: str, arguments: Mapping[str, str], bounds: Bounds) -> tuple[Instruction, ...]:
    """The instructions that a definition file stands for. `arguments` are those of --build-arg. Raises RecipeError
    with a line."""
    stages = _stages(text.removeprefix("\ufeff").splitlines())
    given = {
        name: value for name, value in {**_defaults(stages), **arguments}.items() if len(value) <= _LONGEST_VALUE
    }
    found: list[Instruction] = []
    for stage in stages:
        for one in _instructions(stage, given):
            try:
                bounds.instructions.spend()
            except BoundError as error:
                raise RecipeError(f"line {one.line}: {error}") from None
            found.append(one)
    return tuple(found)


def _stages(lines: list[str]) -> list[_Stage]:
    stages: list[_Stage] = []
    section: _Section | None = None
    for number, line in enumerate(lines, start=1):
        opened, header = _SECTION.match(line), _HEADER.match(line)
        if header is not None and header[1].lower() == "bootstrap":
            section = None  # another stage begins
            stages.append(_Stage(number, header[2].strip().lower()))
        elif opened is not None and stages:
            section = _Section(opened[1].lower(), opened[2].strip(), number + 1, [])
            stages[-1].sections.append(section)
        elif section is not None:
            section.lines.append(line)
        elif header is not None and header[1].lower() == "from" and stages:
            stages[-1].image, stages[-1].line = header[2].strip(), number
        elif header is not None and stages:
            stages[-1].name = header[2].strip()
    if not stages:
        raise RecipeError("has no Bootstrap: this is not a definition file of Apptainer")
    return stages


def _defaults(stages: list[_Stage]) -> dict[str, str]:
    """The values of %arguments."""
    lines = (line for stage in stages for one in stage.sections if one.name == "arguments" for line in one.lines)
    pairs = (line.strip().partition("=") for line in lines)
    return {name.strip(): value.strip().strip("\"'") for name, equals, value in pairs if equals and name[:1] != "#"}


def _instructions(stage: _Stage, given: Mapping[str, str]) -> Iterator[Instruction]:
    """The instructions of a stage, in the order in which it is built. Its %environment is set in containers only."""

    def filled(text: str) -> str:
        return _PLACEHOLDER.sub(lambda found: given.get(found[1], found[0]), text)

    image = filled(stage.image).removeprefix("docker://").strip()
    if stage.bootstrap not in _REGISTRIES or not image or re.search(r"\s", image):
        image = "".join(f"{stage.bootstrap}://{image}".split())  # nothing is known of it
    yield Instruction(stage.line, "FROM", f"{image} AS {stage.name}" if re.fullmatch(r"\S+", stage.name) else image)
    for one in stage.named("files"):
        origin = re.match(r"from\s+(\S+)", one.words)
        flags = (f"--from={origin[1]}",) if origin else ()
        for number, line in enumerate(one.lines, start=one.line):
            names = _words(filled(line))
            if names:
                target = names[1] if len(names) > 1 else "/" + names[0].lstrip("./")
                yield Instruction(number, "COPY", f"{names[0]} {target}", flags)
    for one in stage.named("post"):
        body = filled("\n".join(one.lines))
        yield Instruction(one.line - 1, "RUN", "", documents=(HereDocument(one.line, body),))
    for one in stage.named("runscript"):
        body = filled("\n".join(one.lines))
        yield Instruction(one.line - 1, "ENTRYPOINT", "", documents=(HereDocument(one.line, body),))
    for one in stage.named("environment"):
        for number, line in enumerate(one.lines, start=one.line):
            found = _EXPORT.match(filled(line).strip().rstrip(";"))
            if found is not None:
                yield Instruction(number, "ENV", found[1])


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line, comments=True)
    except ValueError:
        return line.split()
