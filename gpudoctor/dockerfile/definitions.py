"""Where the variables of a Dockerfile get their values, and which values make a text say something else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import Struct

from gpudoctor.dockerfile.bounds import Bounds
from gpudoctor.dockerfile.variables import partly_expanded

_REFERENCE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
_NAME = re.compile(r"\$\{?([A-Za-z_]\w*)")
_DEPTH = 8
"""Variables that are defined by others."""
_LONGEST = 100
"""Lines of one ARG or ENV."""


class Definition(Struct, frozen=True):
    """One name of an ARG or ENV, with its value as written, without quotes; None if it has none there."""

    name: str
    line: int
    written: str | None
    kind: Literal["ARG", "ENV"]
    before_from: bool = False
    """Whether it stands before the first FROM, whose image it may decide."""
    given: bool = False
    """Whether what starts the build gives it another value."""


class Definitions(Struct, frozen=True):
    """The definitions of a stage and of those that it is built from, in their order. `given_in` says how to write a
    value that the build is given: "compose.yaml:7: CUDA: {}"."""

    all: tuple[Definition, ...] = ()
    given: Mapping[str, str] = {}
    given_in: Mapping[str, str] = {}
    in_from: frozenset[str] = frozenset()
    """The variables that name base images."""

    def at(self, name: str, line: int) -> Definition | None:
        """The definition that counts on a line. ENV takes precedence over ARG, which without a value takes that of
        the one before the first FROM."""
        own = [one for one in self.all if one.name == name and one.line < line and not one.before_from]
        found = next((one for one in reversed(own) if one.kind == "ENV"), own[-1] if own else None)
        if found is None or found.written is not None or found.given:
            return found
        return next((one for one in reversed(self.all) if one.name == name and one.before_from), found)

    def value(self, text: str, line: int, bounds: Bounds, depth: int = _DEPTH) -> str:
        """A text with the values that its variables have on a line. Unknown ones stay as written."""
        known = {}
        for name in names_in(text):
            found = self.at(name, line) if depth else None
            if found is not None and found.given:
                known[name] = self.given[name]
            elif found is not None and found.written is not None:
                whole = self.value(found.written, found.line, bounds, depth - 1)
                if "$" not in whole:
                    known[name] = whole
        return partly_expanded(text, known, bounds)

    def solved(self, template: str, wanted: str, line: int, depth: int = _DEPTH) -> dict[Definition, str] | None:
        """The values that make a text with variables say something else; None if there are none, or several, or if
        another image would be built on."""
        if "$" not in template:
            return {} if template == wanted else None
        found = re.fullmatch(_pattern(template), wanted) if depth else None
        values: dict[Definition, str] = {}
        for name, value in found.groupdict().items() if found is not None else ():
            definition = self.at(name, line)
            if definition is None:
                return None
            if definition.given or "$" not in (definition.written or ""):
                fixed = definition.written is None and not definition.given
                if fixed or (definition.before_from and name in self.in_from):
                    return None
                values[definition] = value
                continue
            deeper = self.solved(definition.written or "", value, definition.line, depth - 1)
            if deeper is None:
                return None
            values.update(deeper)
        return values or None


def names_in(text: str) -> tuple[str, ...]:
    """The variables that a text refers to."""
    return tuple(_NAME.findall(text))


def references(template: str) -> Iterator[tuple[str, str]]:
    """The variables of a text, each with its reference as written."""
    yield from ((found[1] or found[2], found[0]) for found in _REFERENCE.finditer(template))


def _pattern(template: str) -> str:
    """What matches the texts that a template may become. A form that says more than a name matches nothing."""
    parts, end, seen = [], 0, set[str]()
    for found in _REFERENCE.finditer(template):
        name, before = found[1] or found[2], template[end : found.start()]
        if end and not before:
            return r"(?!)"  # two variables side by side
        parts.append(re.escape(before))
        parts.append(f"(?P={name})" if name in seen else f"(?P<{name}>\\S+)")
        seen.add(name)
        end = found.end()
    other = "$" in _REFERENCE.sub("", template)  # ${NAME:-default}
    return r"(?!)" if other else "".join((*parts, re.escape(template[end:])))


def written_values(
    file: str, source: tuple[str, ...], values: Mapping[Definition, str], given_in: Mapping[str, str]
) -> Iterator[str]:
    """The lines that give variables other values: those of the file as they stand there, or those of what starts the
    build."""
    lines: dict[int, str] = {}
    for one, value in sorted(values.items(), key=lambda pair: pair[0].line):
        if one.given:
            yield given_in.get(one.name, f"build it with --build-arg {one.name}={{}}").replace("{}", value)
            continue
        old = re.compile(
            rf"(?<=\b{re.escape(one.name)})([= ][ \t]*[\"']?){re.escape(one.written or '')}(?=[\"'\s]|$)"
        )
        numbers = range(one.line, min(one.line + _LONGEST, len(source) + 1))
        number = next((at for at in numbers if old.search(lines.get(at, source[at - 1]))), one.line)
        line = lines.get(number, source[number - 1])
        found = old.search(line)
        replaced = line[: found.end(1)] + value + line[found.end() :] if found is not None else ""
        lines[number] = replaced or f"{one.kind} {one.name}={value}"
    for number, line in sorted(lines.items()):
        whole = re.match(r"\s*(ARG|ENV)\s", line, re.IGNORECASE) and not re.search(r"[\\`]\s*$", line)
        yield f"{file}:{number}: {line.strip()}" if whole else f"{file}:{number}: write:\n{line}"
