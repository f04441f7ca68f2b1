"""The requirements of one command: its words, and the files and projects that it names."""

from __future__ import annotations

import os.path
import re
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.dependencies import normalised
from gpudoctor.dockerfile.bounds import BoundError, Bounds
from gpudoctor.dockerfile.markers import applies
from gpudoctor.dockerfile.projects import UNKNOWN, Choice, Project, read_project
from gpudoctor.dockerfile.setup_files import read_setup
from gpudoctor.matrix.versions import package_matches, release_of

_REQUIREMENT = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*) ?(\[[^\]]*\])? ?(@ ?\S+|(?:\(?[=<>!~][^;#]*)?) ?(;.*)?")
_OPTION = re.compile(
    r"(-i|--index-url|--extra-index-url|-f|--find-links|-r|--requirement|-c|--constraint|-e|--editable)[ =]\s*(\S+)"
)
_LONGEST = 1000
"""Characters of a requirement without its hashes."""
_DEPTH = 16


class Read(Protocol):
    """Reads the files of an image."""

    def __call__(self, path: str) -> str | None:
        """The text of a file; None if it is not known."""

    def shown(self, path: str) -> str:
        """The name of a file that was read, for people."""


class Requirement(Struct, frozen=True):
    """One requested package. `specifier` is "==2.6.0+cu124", "" or "@ URL"."""

    name: str
    specifier: str = ""
    extras: str = ""
    file: str = ""
    """The file that names it, with the line."""
    excluded_by: str = ""
    """What a constraint says of it, if that excludes the version that it pins."""

    @property
    def exact(self) -> str:
        """The version that it pins, with its local part; "" if it is open."""
        found = re.fullmatch(r"={2,3}([^*,]+)", self.specifier)
        return found[1] if found else ""

    @property
    def release(self) -> str:
        """The release that it pins, as its wheel is named: "2.11.0" for `==2.11`; "" if it is open."""
        return release_of(self.exact)


def torch_wheel(word: str) -> str:
    """The version in the name of a wheel file of torch: "2.2.0a0+git8ac9b20"; "" for any other word."""
    found = re.fullmatch(r"(?:.*/)?torch-(\d[^-/]*)-[^/]*\.whl", word)
    return found[1].replace("%2B", "+") if found else ""


def requirement(word: str, file: str = "") -> tuple[Requirement, str] | None:
    """A requirement with its marker; None for an address, a file or a folder."""
    if torch_wheel(word):
        return Requirement("torch", f"@ {word}", file=file), ""
    if "://" in word and "@" not in word.split("://", maxsplit=1)[0]:
        return None
    plain = " ".join(word.split())
    found = _REQUIREMENT.fullmatch(plain) if len(plain) <= _LONGEST else None
    if found is None or "/" in found[1] or word.endswith((".whl", ".txt", ".tar.gz", ".zip")) or word in (".", ".."):
        return None
    name, specifier = normalised(found[1]), found[3].replace(" ", "").strip("()")
    return Requirement(name, specifier, found[2] or "", file), (found[4] or "")[1:]


class RequirementCollector:
    """What one command installs, as far as its words and files tell."""

    def __init__(self, read: Read, bounds: Bounds, machine: str, choice: Choice) -> None:
        self._read, self._bounds, self._machine, self._choice = read, bounds, machine, choice
        self._found: list[tuple[Requirement, bool]] = []
        """Each with whether its marker holds for every Python."""
        self._constraints: dict[str, str] = {}
        self._seen: set[str] = set()
        self.options: dict[str, list[str]] = {}
        """Index options of requirements files."""
        self.torch_index: tuple[str, ...] = ()
        self.extra_indexes: tuple[str, ...] = ()
        self.beside_torch: tuple[str, ...] = ()
        self.missing = False
        """Whether a requirements file, which may also name an index, is not known."""
        self.unread = False
        """Whether it also installs packages that are not known."""

    def word(self, word: str, alone: bool = False) -> None:
        """A word of the command: a requirement, a project, or an address. `alone`: without what that requires."""
        if alone and requirement(word) is None:
            return
        if (
            re.match(r"(?!.*\.whl$)((\.{1,2})?/|\.{1,2}(\[|$)|[\w.-]+/)", word)
            and "://" not in word.partition("[")[0]
        ):
            folder, _, extras = word.removesuffix("]").partition("[")
            own = tuple(one.strip() for one in extras.split(",") if one.strip())
            path = os.path.normpath(os.path.join(folder, "pyproject.toml"))
            self.table(path, replace(self._choice, extras=(*self._choice.extras, *own)))
        else:
            self._add(word, "")

    def table(self, path: str, choice: Choice) -> None:
        """What a pyproject.toml requires, or the setup.py and setup.cfg beside it."""
        text, folder = self._read(path), os.path.dirname(path)
        name = self._read.shown(path)
        found = read_project(text, name, choice, self._machine) if text is not None else UNKNOWN
        if found is UNKNOWN:
            script, config = (self._read(os.path.join(folder, one)) for one in ("setup.py", "setup.cfg"))
            found = read_setup(script, config, name.removesuffix("pyproject.toml"), choice)
        self._take(found, folder)

    def _take(self, found: Project, folder: str) -> None:
        self.unread |= found.unread
        self.torch_index += found.torch_index
        self.extra_indexes += found.extra_indexes
        self.beside_torch += found.beside_torch
        for text, place in found.texts:
            self._add(text, place)
        for file in found.files:
            self.unread |= not self._file(os.path.normpath(os.path.join(folder, file)), 1)

    def file(self, path: str) -> None:
        """A requirements file, with those that it includes."""
        if os.path.basename(path) == "pyproject.toml":
            self.table(path, self._choice)
        elif not self._file(path, 1):
            self.missing = True

    def constraint(self, path: str) -> None:
        """A file of constraints: it installs nothing, and narrows what is installed."""
        text = self._read(path)
        if text is None:
            self.missing = True
        for line in (text or "").splitlines():
            self._bounds.requirements.spend()
            found = requirement(_bare(line))
            if found is not None and applies(found[1], self._machine) is not False:
                self._constraints.setdefault(found[0].name, found[0].specifier)

    def requirements(self) -> tuple[Requirement, ...]:
        """The requirements. Of a package that several markers choose from by the Python, none is known."""
        names = [one.name for one, _ in self._found]
        open_ = {one.name for one, certain in self._found if not certain and names.count(one.name) > 1}
        self.unread |= bool(open_)
        found: dict[str, Requirement] = {}
        for one, _ in self._found:
            if one.name not in open_:
                found[one.name] = _both(found[one.name], one) if one.name in found else one
        return tuple(self._constrained(one) for one in found.values())

    def _constrained(self, one: Requirement) -> Requirement:
        limit = self._constraints.get(one.name, "")
        if not limit or one.specifier.startswith("@"):
            return one
        if one.exact:
            version, public = one.exact.partition("+")[0], re.sub(r"\+[\w.]+", "", limit)
            excludes = public[0] in "=<>!~" and not package_matches(public, version)
            return replace(one, excluded_by=limit) if excludes else one
        exact = Requirement(one.name, limit).exact or not one.specifier
        return replace(one, specifier=limit if exact else f"{one.specifier},{limit}")

    def _add(self, text: str, place: str) -> None:
        self._bounds.requirements.spend(3 if "python" in text.partition(";")[2] else 1)
        found = requirement(text, place)
        if found is None:
            self.unread |= bool(text)
            return
        holds = applies(found[1], self._machine)
        if holds is not False:
            self._found.append((found[0], holds is True))

    def _file(self, path: str, depth: int) -> bool:
        """Add a file and the files that it includes; False if it cannot be read."""
        if path in self._seen:
            return True
        if depth > _DEPTH:
            raise BoundError(f"requirements files that include each other more than {_DEPTH} deep")
        text = self._read(path)
        if text is None:
            return False
        self._seen.add(path)
        name = self._read.shown(path)
        for number, line in enumerate(text.splitlines(), start=1):
            self.line(line, f"{name}:{number}", os.path.dirname(path), depth)
        return True

    def line(self, line: str, place: str, folder: str, depth: int = 0) -> None:
        """A line of a requirements file, or of a list of the same form. What it names lies beside its folder."""
        bare = _bare(line)
        if option := _OPTION.match(bare):
            self._option(option[1], option[2], folder, depth)
        elif bare and not bare.startswith("-") and len(bare) <= _LONGEST:
            self._add(bare, place)

    def _option(self, name: str, value: str, folder: str, depth: int) -> None:
        self._bounds.requirements.spend()
        beside = os.path.normpath(os.path.join(folder, value))
        if name in ("-r", "--requirement"):
            self.missing |= not self._file(beside, depth + 1)
        elif name in ("-c", "--constraint"):
            self.constraint(beside)
        elif name in ("-e", "--editable"):
            self.word(value)
        else:
            self.options.setdefault(name, []).append(value)


def _both(one: Requirement, other: Requirement) -> Requirement:
    """Two requirements of one package: the one that decides, or both together."""
    for decides in (one, other):
        if decides.exact or decides.specifier.startswith("@"):
            return decides
    return replace(one, specifier=",".join(filter(None, (one.specifier, other.specifier))))


def _bare(line: str) -> str:
    """A line of a requirements file without its comment and its hashes."""
    bare = line.strip()
    if not bare or bare[0] == "#":
        return ""
    words = re.sub(r"\s#.*", "", bare).strip().rstrip("\\").strip()
    return re.sub(r"\s--hash=\S+.*", "", words)
