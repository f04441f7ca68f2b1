"""What installed distributions require of one another: Requires-Dist lines, their markers, and the closure.

Markers are evaluated for the examined Python and platform. packaging is imported only for what these few comparisons
cannot decide: most environments need none of it, and its import costs a tenth of a static check.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct

from gpudoctor.machine import Distribution
from gpudoctor.matrix.versions import COMPARE, are_figures, figures, is_plain, matches, public_version

_LINE = r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[([^\]]*)\])?\s*(@\s*[^;\s]+|\(?[^;()]*\)?)\s*(?:;(.*))?$"
_COMPARISON = r"""(\w+)\s*(==|!=|<=|>=|<|>)\s*(["'])([^"']*)\3"""
_TOKEN = r"""[()]|\b(?:and|or)\b|"[^"]*"|'[^']*'"""
_LONGEST = 1000
_NESTED = 5
_MOST = 2000
"""Distributions in one closure."""
_NONE: frozenset[str] = frozenset()

TRITONS = ("triton", "pytorch-triton", "pytorch-triton-rocm", "triton-rocm")
"""One package under the names that torch's indexes gave it: all of them own the folder triton/."""

Environment = tuple[tuple[str, str], ...]
"""Values of the marker variables (PEP 508)."""


class Dependency(Struct, frozen=True):
    """One Requires-Dist line; `name` and `extras` are normalised (PEP 503)."""

    name: str
    extras: tuple[str, ...] = ()
    specifier: str = ""
    marker: str = ""

    def admits(self, version: str) -> bool:
        """Whether a version satisfies the specifier. What neither side says counts as satisfied."""
        if not self.specifier or not version:
            return True
        return _admits(self.specifier, version)


def joined_specifiers(specifiers: Iterable[str]) -> str:
    """Several specifiers as one: of its bounds only the tightest ("<2,<3,>=1.2" becomes "<2,>=1.2")."""
    clauses = list(dict.fromkeys(clause for one in specifiers for clause in one.split(",") if clause))
    for signs, tighter in ((">", 1), ("<", -1)):
        bounds = [clause for clause in clauses if clause.startswith(signs)]
        if len(bounds) < 2 or not all(re.fullmatch(r"[<>]=?\d+(\.\d+)*", clause) for clause in bounds):
            continue
        versions = {clause: figures(clause.lstrip("<>=")) for clause in bounds}
        tightest = max(versions.values()) if tighter > 0 else min(versions.values())
        kept = min((clause for clause in bounds if versions[clause] == tightest), key=lambda clause: "=" in clause)
        clauses = [clause for clause in clauses if clause == kept or clause not in versions]
    return ",".join(clauses)


def is_empty(specifier: str) -> bool:
    """Whether no version is at once above the lower bounds, below the upper ones, and in each release that is named
    ("==25.10.*")."""
    ends: dict[str, list[tuple[int, ...]]] = {"<": [], ">": [], "=": []}
    for clause in specifier.split(","):
        if clause[:1] in ends:
            ends[clause[0]].append(_without_zeros(figures(clause.lstrip("<>=").removesuffix(".*"))))
    lows = (*ends[">"], *ends["="])
    above = any(low > high for low in lows for high in ends["<"])
    return above or any(low[: len(pin)] > pin for low in lows for pin in ends["="])


def _without_zeros(version: tuple[int, ...]) -> tuple[int, ...]:
    """ "2.0" is "2"."""
    while version[-1:] == (0,):
        version = version[:-1]
    return version


class Required(Struct, frozen=True):
    """A dependency that applies here, and the installed distribution that states it."""

    by: Distribution
    what: Dependency


@lru_cache(maxsize=2048)
def normalised(name: str) -> str:
    """A distribution's name as PEP 503 compares it."""
    plain = name.lower().replace("_", "-").replace(".", "-")
    while "--" in plain:
        plain = plain.replace("--", "-")
    return plain


@lru_cache(maxsize=2048)
def parsed(line: str) -> Dependency | None:
    """A Requires-Dist line; None for one that is none. An URL in place of a version admits every version."""
    found = re.match(_LINE, line) if len(line) <= _LONGEST else None
    if found is None:
        return None
    name, extras, specifier, marker = found.groups()
    plain = "" if specifier.startswith("@") else specifier.strip("() ")
    return Dependency(
        name=normalised(name),
        extras=tuple(normalised(extra.strip()) for extra in (extras or "").split(",") if extra.strip()),
        specifier="".join(plain.split()),
        marker=(marker or "").strip(),
    )


def marker_environment(python: str | None, arch: str) -> Environment:
    """The marker variables of a CPython on Linux: `python` is "3.12" or "3.13t", None where it is unknown."""
    return (
        *((("python_version", python.removesuffix("t")),) if python else ()),
        ("platform_machine", arch),
        ("platform_system", "Linux"),
        ("sys_platform", "linux"),
        ("os_name", "posix"),
        ("implementation_name", "cpython"),
        ("platform_python_implementation", "CPython"),
    )


def applies(marker: str, environment: Environment, extras: Iterable[str] = ()) -> bool:
    """Whether a marker holds, for any of the extras that were asked for. One that hangs on something unknown, such as
    the patch release of Python, does not."""
    if not marker:
        return True
    asked, variables = frozenset(("", *extras)), dict(environment)
    holds, possible = _answer(_read(marker), variables, asked)
    # An extra that it does not name is as good as none.
    return bool(holds) or any(_evaluated(marker, variables, one) for one in possible if one in normalised(marker))


def _named(text: str, extras: Collection[str]) -> list[str]:
    """Those of the extras that a text names, and perhaps others whose name is a part of one."""
    plain = normalised(text) if extras else ""
    return [extra for extra in extras if extra in plain]


if TYPE_CHECKING:
    _Comparison = tuple[str, str, str]
    """Variable, operator and text."""
    _Part = _Comparison | list[list["_Part"]] | None
    """A comparison, or what `or` joins of what `and` joins; None for what takes more than this to read."""
    _Extras = frozenset[str]


@lru_cache(maxsize=1024)
def _read(marker: str, depth: int = 0) -> _Part:
    parts: list[list[_Part]] = [[]]
    begin = opened = 0
    for found in re.finditer(_TOKEN, marker):
        token = found.group()
        opened += (token == "(") - (token == ")")
        if opened < 0:
            return None
        if not opened and token in ("and", "or"):
            parts[-1].append(_operand(marker[begin : found.start()], depth))
            begin = found.end()
            if token == "or":
                parts.append([])
    parts[-1].append(_operand(marker[begin:], depth))
    for joined_by_and in parts:  # what is quickly compared comes first: mostly it is an extra that nobody asked for
        joined_by_and.sort(key=lambda one: isinstance(one, list))
    return None if opened else parts


def _operand(text: str, depth: int) -> _Part:
    text = text.strip()
    if text.startswith("(") and text.endswith(")") and depth < _NESTED:
        return _read(text[1:-1], depth + 1)
    found = re.fullmatch(_COMPARISON, text)
    return (found[1], found[2], found[4]) if found else None


def _answer(part: _Part, variables: Mapping[str, str], extras: _Extras) -> tuple[_Extras, _Extras]:
    """The extras with which it holds, and those with which it may: it takes more than this to decide it."""
    if not isinstance(part, list):
        return _compare(part, variables, extras)
    holds = possible = _NONE
    for joined_by_and in part:
        all_hold = all_possible = extras
        for one in joined_by_and:
            if not all_possible:
                break
            one_holds, one_possible = _answer(one, variables, all_possible)
            all_hold, all_possible = all_hold & one_holds, one_possible
        holds, possible = holds | all_hold, possible | all_possible
        if holds == extras:
            break
    return holds, possible


def _compare(
    comparison: _Comparison | None, variables: Mapping[str, str], extras: _Extras
) -> tuple[_Extras, _Extras]:
    answer = None
    if comparison is not None:
        variable, operator, text = comparison
        if variable == "extra" and operator in ("==", "!="):
            same = extras & {normalised(text)}
            found = same if operator == "==" else extras - same
            return found, found
        answer = _known(variables.get(variable), variable, operator, text)
    return (extras if answer else _NONE), (_NONE if answer is False else extras)


def _known(value: str | None, variable: str, operator: str, text: str) -> bool | None:
    if value is None:
        return None
    if variable == "python_version":
        return bool(COMPARE[operator](figures(value), figures(text))) if are_figures(text) else None
    return {"==": value == text, "!=": value != text}.get(operator)


def _evaluated(marker: str, variables: Mapping[str, str], extra: str) -> bool:
    from packaging.markers import InvalidMarker, Marker, UndefinedComparison, UndefinedEnvironmentName

    python = variables.get("python_version")
    if python is None and "python" in marker:
        return False
    try:
        asked = Marker(marker)
        return all(
            asked.evaluate(
                {
                    **variables,
                    "python_full_version": f"{python}.{patch}",
                    "implementation_version": f"{python}.{patch}",
                    "platform_release": "",
                    "platform_version": "",
                    "extra": extra,
                }
            )
            for patch in (0, 99)
        )
    except (InvalidMarker, UndefinedComparison, UndefinedEnvironmentName, ValueError):
        return False


@lru_cache(maxsize=2048)
def _admits(specifier: str, version: str) -> bool:
    if "+" not in specifier and is_plain(specifier, public_version(version)):
        return matches(specifier, public_version(version))
    from packaging.specifiers import SpecifierSet
    from packaging.version import Version

    try:
        return SpecifierSet(specifier).contains(Version(version), prereleases=True)
    except ValueError:  # InvalidSpecifier, InvalidVersion
        return True


Find = Callable[[str], Distribution | None]
"""The installed distribution of a normalised name, with its requirements."""


def closure(roots: Iterable[str], find: Find, environment: Environment) -> tuple[Required, ...]:
    """Every dependency that applies, of the installed `roots` and of what they require in turn, nearest first. What
    is installed in a release that nobody asked for goes: what that release requires is no dependency."""
    found: dict[tuple[str, Dependency], Required] = {}
    done: dict[str, set[str]] = {}
    pending = deque((name, frozenset[str]()) for name in roots)
    while pending and len(done) < _MOST:
        name, extras = pending.popleft()
        distribution = find_one(name, find)
        if distribution is None or (name in done and done[name] >= extras):
            continue
        asked = done.setdefault(name, set())
        asked |= extras
        for dependency in requirements_here(distribution, environment, asked):
            if (name, dependency) not in found:
                found[name, dependency] = Required(by=distribution, what=dependency)
                there = find_one(dependency.name, find)
                if there is not None and dependency.admits(there.version):
                    pending.append((dependency.name, frozenset(dependency.extras)))
    return tuple(found.values())


def requirements_here(
    distribution: Distribution, environment: Environment, extras: Iterable[str] = ()
) -> tuple[Dependency, ...]:
    """What a distribution requires here, with these of its extras."""
    return _required(distribution.requires, environment, frozenset(extras))


@lru_cache(maxsize=512)  # a probe asks first, then the checks
def _required(lines: tuple[str, ...], environment: Environment, extras: frozenset[str]) -> tuple[Dependency, ...]:
    found = []
    for line in lines:
        if "extra ==" in line and " or " not in line and not _named(line, extras):
            continue  # most lines: not worth a closer look
        dependency = parsed(line)
        if dependency is not None and applies(dependency.marker, environment, extras):
            found.append(dependency)
    return tuple(found)


def find_one(name: str, find: Find) -> Distribution | None:
    """The distribution of that name; a triton under any of its names."""
    names = (name, *TRITONS) if name in TRITONS else (name,)
    return next((found for alias in names if (found := find(alias)) is not None), None)
