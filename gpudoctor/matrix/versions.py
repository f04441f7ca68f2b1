"""Versions as drivers, kernels, ROCm and CUDA write them: compared number by number.

Driver 560.35.03, CUDA 12.8 and ROCm 7.14 (newer than 7.2) are plain numbers. In a kernel release the ABI number that
Ubuntu and Debian append is the fourth number: 6.8.0-44-generic is 6.8.0.44.
"""

from __future__ import annotations

import operator
import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

_PRE_RELEASE = r"(?:\.?dev|a|b|rc)\d{1,9}$"
_RELEASE = r"\d+(?:[.-]\d+)*"
COMPARE = {
    "===": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}

Figures = tuple[int, ...]


@lru_cache(maxsize=1024)  # every row is held against the same few versions
def figures(version: str) -> Figures:
    """The leading numbers of a version, without trailing zeros: "6.8.0-44-generic" is (6, 8, 0, 44); () if it has
    none."""
    parts = _parts(version)
    length = len(parts)
    while length > 1 and parts[length - 1] == 0:
        length -= 1
    return parts[:length]


def just_below(version: str) -> str:
    """A version just before another one: "1.99" for "2", "2.8.99" for "2.9.0"."""
    release = [int(number) for number in re.findall(r"\d+", version)]
    while release and release[-1] == 0:
        release.pop()
    return ".".join(map(str, [*release[:-1], release[-1] - 1, 99])) if release else version


def public_version(version: str) -> str:
    """A Python package's version without its local part: "2.9.1" of "2.9.1+cu128"."""
    return version.partition("+")[0]


def release_of(version: str) -> str:
    """The release as its wheel is named: "2.11.0" of "2.11+cu128"."""
    public = public_version(version)
    return f"{public}.0" if re.fullmatch(r"\d+\.\d+", public) else public


def local_version(version: str) -> str:
    """Its local part, which names a build: "cu128"; "" for none."""
    return version.partition("+")[2]


def at_least(version: str, floor: str) -> bool:
    """Whether a version is `floor` or newer."""
    return figures(version) >= figures(floor)


@lru_cache(maxsize=1024)
def minor(version: str) -> Figures:
    """Major and minor release: (6, 4) of "6.4.3"."""
    return first_figures(version, 2)


def first_of_series(version: str) -> str:
    """The release that its minor release began with: "2.3.0" of "2.3.1+cu121"."""
    return "{}.{}.0".format(*minor(version))


def major_of(version: str | None) -> int:
    """The major release: 12 of "12.8"; 0 for none."""
    return (*figures(version or ""), 0)[0]


def first_figures(version: str, count: int) -> Figures:
    """So many of its leading numbers; zeros follow those that it has."""
    return (*figures(version), *[0] * count)[:count]


def matches(specifier: str, version: str) -> bool:
    """Whether a version satisfies a PEP 440 specifier set such as ">=6.4,<7" or "==6.8.*"."""
    return all(_clause(clause, version) for clause in specifier.split(",") if clause.strip())


def package_matches(specifier: str, version: str) -> bool:
    """Whether a Python package's version satisfies a specifier set. The local part does not count; a pre-release does
    ("2.9.0a0+nv25.10" is older than 2.9.0). An invalid version satisfies nothing."""
    release = public_version(version)
    if is_plain(specifier, release):
        return matches(specifier, release)
    try:
        return bool(_specifiers(specifier).contains(release, prereleases=True))
    except ValueError:  # InvalidSpecifier, InvalidVersion, a number of thousands of digits
        return False


def is_plain(specifier: str, version: str) -> bool:
    """Whether both are plain numbers, which PEP 440 compares as `matches` does. Most are, and the import of
    packaging.specifiers costs as much as a tenth of a static check."""
    return are_figures(version) and all(_is_plain_clause(clause) for clause in specifier.split(","))


def _is_plain_clause(clause: str) -> bool:
    sign, wanted = _split(clause)
    if sign in ("==", "!="):
        wanted = wanted.removesuffix(".*")
    if sign in (">=", "<") and not are_figures(wanted):
        wanted = re.sub(_PRE_RELEASE, "", wanted)  # no release lies between them
    return sign not in ("", "===") and are_figures(wanted) and (sign != "~=" or "." in wanted)


def are_figures(version: str) -> bool:
    """Whether it is numbers with dots between them, and nothing else."""
    return all(0 < len(part) < 10 and part.isdecimal() for part in version.split("."))


def _split(clause: str) -> tuple[str, str]:
    """The comparison sign of a clause, and the version that it names; empty if it is none."""
    clause = clause.strip()
    wanted = clause.lstrip("<>=!~")
    sign = clause[: len(clause) - len(wanted)]
    wanted = wanted.lstrip()
    return (sign, wanted) if (sign in COMPARE or sign == "~=") and len(wanted.split()) == 1 else ("", "")


@lru_cache
def _specifiers(specifier: str) -> SpecifierSet:
    from packaging.specifiers import SpecifierSet

    return SpecifierSet(specifier)


def check_specifier(specifier: str) -> None:
    """Raise ValueError for a specifier set that `matches` could not read."""
    for clause in specifier.split(","):
        _, wanted = _split(clause)
        if not figures(wanted):
            raise ValueError(f"{specifier!r} is no version specifier")


def _clause(clause: str, version: str) -> bool:
    sign, wanted = _split(clause)
    if not sign:
        return False
    if wanted.endswith(".*"):
        prefix = _parts(wanted[:-2])
        same = first_figures(version, len(prefix)) == prefix
        return same if sign == "==" else not same
    have, want = figures(version), figures(wanted)
    if sign == "~=":
        prefix = _parts(wanted)[:-1]
        return have >= want and first_figures(version, len(prefix)) == prefix
    return bool(COMPARE[sign](have, want))


@lru_cache(maxsize=1024)
def _parts(version: str) -> Figures:
    """All leading numbers of a version; of one with thousands of digits only the first nine."""
    if are_figures(version):
        return tuple(map(int, version.split(".")))
    found = re.search(_RELEASE, version)
    return tuple(int(part[:9]) for part in found[0].replace("-", ".").split(".")) if found else ()
