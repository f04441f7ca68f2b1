"""The syntax of a Dockerfile: instructions with their lines, flags and here-documents."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property

import msgspec
from msgspec import Struct

from gpudoctor.dockerfile.bounds import BoundError, Bounds

INSTRUCTIONS = frozenset(
    [
        "ADD",
        "ARG",
        "CMD",
        "COPY",
        "ENTRYPOINT",
        "ENV",
        "EXPOSE",
        "FROM",
        "HEALTHCHECK",
        "LABEL",
        "MAINTAINER",
        "ONBUILD",
        "RUN",
        "SHELL",
        "STOPSIGNAL",
        "USER",
        "VOLUME",
        "WORKDIR",
    ]
)
_HEREDOC = re.compile(r"(?<!<)<<(?!<)(-?)[ \t]*(['\"]?)([A-Za-z_][A-Za-z0-9_.]*)\2")
"""Builders accept blanks before the word since BuildKit 0.22 (moby/buildkit#5817)."""
_WITH_HEREDOC = ("RUN", "COPY", "ADD")
_FLAG = re.compile(r"\s*(--[a-z-]+(?:=(?:\"[^\"]*\"|\S)*)?)(?=\s|$)")


class RecipeError(Exception):
    """A file that no builder accepts, or of another kind; the text says where and why."""


class HereDocument(Struct, frozen=True):
    """A here-document of an instruction: its body, and the line where the body begins."""

    line: int
    text: str


class Instruction(Struct, frozen=True):
    """One instruction. `text` keeps a line break where a line was continued, so that lines can be counted."""

    line: int
    name: str
    text: str
    flags: tuple[str, ...] = ()
    """`--from=builder`, `--mount=...`, without the words after them."""
    argv: tuple[str, ...] | None = None
    """The words of the exec form."""
    documents: tuple[HereDocument, ...] = ()

    def flag(self, name: str) -> str | None:
        """Value of a flag such as "from"; None if it is not given."""
        found = (flag.partition("=") for flag in self.flags)
        return next((value for key, _, value in found if key == f"--{name}"), None)


def parse(text: str, bounds: Bounds | None = None) -> tuple[Instruction, ...]:
    """The instructions of a Dockerfile, in order. Raises RecipeError with a line for any other text."""
    bounds = bounds or Bounds()
    lines = text.removeprefix("\ufeff").splitlines()
    found: list[Instruction] = []
    for one in _instructions(lines, _escape(lines)):
        try:
            bounds.instructions.spend()
        except BoundError as error:
            raise RecipeError(f"line {one.line}: {error}") from None
        found.append(one)
    first = next((one for one in found if one.name != "ARG"), None)
    if first is None:
        raise RecipeError("has no FROM: this is not a Dockerfile")
    if first.name != "FROM":
        raise RecipeError(f"line {first.line}: {first.name} before the first FROM: this is not a Dockerfile")
    return tuple(found)


def _escape(lines: list[str]) -> str:
    """The escape character. A parser directive at the top of the file may change it."""
    for line in lines:
        directive = re.match(r"\s*#\s*(\w+)\s*=\s*(\S+)\s*$", line)
        if directive is None:
            break
        if directive[1].lower() == "escape" and directive[2] in ("\\", "`"):
            return directive[2]
    return "\\"


def _instructions(lines: list[str], escape: str) -> Iterator[Instruction]:
    continued = re.compile(re.escape(escape) + r"[ \t]*$")
    bodies = _Bodies(lines)
    number = 0
    while number < len(lines):
        if not lines[number].strip() or lines[number].lstrip().startswith("#"):
            number += 1
            continue
        first = number
        parts: list[str] = []
        while number < len(lines):
            line = lines[number]
            number += 1
            if parts and (not line.strip() or line.lstrip().startswith("#")):
                parts.append("")  # a comment between continued lines
                continue
            parts.append(continued.sub("", line))
            if not continued.search(line):
                break
        name, rest = _name(" \n".join(parts), first + 1)
        documents, number = bodies.opened_by(number, rest) if name in _WITH_HEREDOC else ((), number)
        yield _instruction(name, rest, first + 1, documents)


def _name(text: str, line: int) -> tuple[str, str]:
    found = re.match(r"\s*([A-Za-z]+)(?=\s|$)", text)
    if found is None or found[1].upper() not in INSTRUCTIONS:
        word = text.split(maxsplit=1)[0][:40] if text.split() else ""
        raise RecipeError(f"line {line}: {word!r} is not an instruction of a Dockerfile")
    return found[1].upper(), text[found.end() :]


class _Bodies:
    """The bodies of here-documents. Their ends are indexed, so a here-document that is never closed costs nothing."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines

    def opened_by(self, number: int, text: str) -> tuple[tuple[HereDocument, ...], int]:
        """The here-documents that an instruction opens, and the number of the line after them."""
        found = []
        for opened in _HEREDOC.finditer(text):
            ends = (self._ends_of_dashed if opened[1] else self._ends)[opened[3]]
            at = bisect_left(ends, number)
            if at == len(ends):
                return (), number  # never closed: a shift operator, or a builder without here-documents
            found.append(HereDocument(line=number + 1, text="\n".join(self._lines[number : ends[at]])))
            number = ends[at] + 1
        return tuple(found), number

    @cached_property
    def _ends(self) -> dict[str, list[int]]:
        return self._numbers("")

    @cached_property
    def _ends_of_dashed(self) -> dict[str, list[int]]:
        return self._numbers("\t")

    def _numbers(self, stripped: str) -> dict[str, list[int]]:
        """The line numbers of each distinct line."""
        found: dict[str, list[int]] = defaultdict(list)
        for number, line in enumerate(self._lines):
            found[line.lstrip(stripped) if stripped else line].append(number)
        return found


def _instruction(name: str, text: str, line: int, documents: tuple[HereDocument, ...]) -> Instruction:
    flags = []
    end = 0
    while found := _FLAG.match(text, end):
        flags.append(found[1])
        end = found.end()
    # The line breaks of the removed flags stay, so that lines can be counted.
    rest = "\n" * text.count("\n", 0, end) + text[end:]
    return Instruction(line, name, rest, tuple(flags), _exec_form(rest), documents)


def _exec_form(text: str) -> tuple[str, ...] | None:
    if not text.lstrip().startswith("["):
        return None
    try:
        return msgspec.json.decode(text, type=tuple[str, ...])
    except (msgspec.DecodeError, UnicodeError):
        return None
