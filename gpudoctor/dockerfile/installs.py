"""What install commands add to an image: packages of pip, uv and conda, and of the distribution."""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Iterator
from functools import lru_cache

from msgspec import Struct

from gpudoctor.dockerfile.bounds import BoundError, Bounds
from gpudoctor.dockerfile.commands import Command

_WITH_VALUE = frozenset({
    "-i", "--index-url", "--extra-index-url", "-f", "--find-links", "-r", "--requirement", "-c", "--constraint", "-t",
    "--target", "--prefix", "--root", "--python", "-p", "--python-version", "--platform", "--trusted-host", "--proxy",
    "--timeout", "--retries", "--cache-dir", "--no-binary", "--only-binary", "--torch-backend", "--index",
    "--default-index", "--index-strategy", "--config-settings", "-e", "--editable", "--upgrade-strategy", "--group",
    "--extra", "--progress-bar", "--log", "--src", "--report", "--keyring-provider", "--global-option",
    "--implementation", "--abi", "--use-feature", "--use-deprecated", "--exists-action", "--cert", "--client-cert",
    "--python-platform", "--resolution", "--prerelease", "--link-mode", "--overrides",
    "--override", "--reinstall-package",
})  # fmt: skip
_REQUIREMENT = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*) ?(\[[^\]]*\])? ?(@ ?\S+|(?:[=<>!~][^;#]*)?) ?(;.*)?")
_OPTION = re.compile(r"(-i|--index-url|--extra-index-url|-f|--find-links|-r|--requirement)[ =]\s*(\S+)")
_LONGEST, _PARENTHESES = 1000, 10
"""Limits for a requirement without its hashes, and for its marker."""
_DEPTH = 16
_NAME = re.compile(r"[-_.]+")


class Requirement(Struct, frozen=True):
    """One requested package. `specifier` is "==2.6.0+cu124", "" or "@ URL"."""

    name: str
    specifier: str = ""
    extras: str = ""
    file: str = ""
    """The requirements file that names it, with the line."""

    @property
    def exact(self) -> str:
        """The version that it pins, with its local part; "" if it is open."""
        found = re.fullmatch(r"={2,3}([^*,]+)", self.specifier)
        return found[1] if found else ""


class PipInstall(Struct, frozen=True):
    """One `pip install` or `uv pip install`, with the indexes that it names."""

    tool: str
    """pip or uv."""
    requirements: tuple[Requirement, ...]
    index_urls: tuple[str, ...] = ()
    extra_urls: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    backend: str = ""
    flags: tuple[str, ...] = ()
    executable: str = ""
    incomplete: bool = False
    """Whether a file or text that also decides what is installed, and from where, is unknown."""
    locked: bool = False
    """Whether a lock file names exactly what is installed (`uv sync`); of its packages only torch is read."""
    elsewhere: bool = False
    """Whether it installs into a folder, or for another platform or Python than this image's."""

    def asks_for(self, name: str) -> Requirement | None:
        """The requirement of that name, if the command has one."""
        return next((requirement for requirement in self.requirements if requirement.name == name), None)


def pip_install(command: Command, read: Callable[[str], str | None], bounds: Bounds) -> PipInstall | None:
    """What a command installs by pip or uv. `read` gives a requirements file of the image. Raises BoundError."""
    found = _pip_words(command.argv)
    if found is None:
        return None
    tool, words = found
    options: dict[str, list[str]] = {}
    flags, requirements = [], []
    rest = iter(words)
    for word in rest:
        if not word.startswith("-") or word == "-":
            requirements += _requirement(word)
            continue
        name, equals, value = word.partition("=")
        if re.fullmatch(r"-[ifrcte].+", word) and not word.startswith("--"):
            name, equals, value = word[:2], "=", word[2:]
        if name in _WITH_VALUE:
            options.setdefault(name, []).append(value if equals else next(rest, ""))
        flags.append(name)
    files = _RequirementsFiles(requirements, options, read, bounds)
    missing = [path for path in (*options.get("-r", ()), *options.get("--requirement", ())) if not files.add(path)]
    return PipInstall(
        tool=tool,
        requirements=tuple(requirements),
        index_urls=(*options.get("-i", ()), *options.get("--index-url", ()), *options.get("--default-index", ())),
        extra_urls=(*options.get("--extra-index-url", ()), *options.get("--index", ())),
        find_links=(*options.get("-f", ()), *options.get("--find-links", ())),
        backend=next(iter(options.get("--torch-backend", ())), ""),
        flags=tuple(flags),
        executable=command.argv[0],
        incomplete="$" in command.text or bool(missing) or bool({"-c", "--constraint"} & options.keys()),
        elsewhere=any(name in options for name in ("-t", "--target", "--platform", "--python-version", "--root")),
    )


def _pip_words(argv: tuple[str, ...]) -> tuple[str, tuple[str, ...]] | None:
    """(tool, words after `install`) of a command that installs packages."""
    name = os.path.basename(argv[0])
    rest = argv[1:]
    if re.fullmatch(r"python[\d.]*", name) and rest[:1] in (("-m",), ("-mpip",)):
        rest = rest[1:] if rest[0] == "-mpip" else rest[2:] if rest[1:2] in (("pip",), ("uv",)) else ()
        name = "uv" if argv[2:3] == ("uv",) else "pip"
    if re.fullmatch(r"pip[\d.]*", name):
        while rest and rest[0].startswith("-"):
            rest = rest[1:]
        return ("pip", rest[1:]) if rest[:1] == ("install",) else None
    if name == "uv":
        while rest and rest[0].startswith("-"):
            rest = rest[1:]
        return ("uv", rest[2:]) if rest[:2] == ("pip", "install") else None
    return None


def torch_wheel(word: str) -> str:
    """The version in the name of a wheel file of torch: "2.2.0a0+git8ac9b20"; "" for any other word."""
    found = re.fullmatch(r"(?:.*/)?torch-(\d[^-/]*)-[^/]*\.whl", word)
    return found[1].replace("%2B", "+") if found else ""


def _requirement(word: str, file: str = "") -> list[Requirement]:
    if torch_wheel(word):
        return [Requirement("torch", f"@ {word}", file=file)]
    if "://" in word and "@" not in word.split("://", maxsplit=1)[0]:
        return []
    plain = " ".join(word.split())
    found = _REQUIREMENT.fullmatch(plain) if len(plain) <= _LONGEST else None
    if found is None or "/" in found[1] or word.endswith((".whl", ".txt", ".tar.gz")) or word in (".", ".."):
        return []
    return [Requirement(_NAME.sub("-", found[1]).lower(), found[3].replace(" ", ""), found[2] or "", file)]


class _RequirementsFiles:
    """Reads requirements files into the requirements of a command, each file once."""

    def __init__(
        self,
        requirements: list[Requirement],
        options: dict[str, list[str]],
        read: Callable[[str], str | None],
        bounds: Bounds,
    ) -> None:
        self._requirements, self._options, self._read, self._bounds = requirements, options, read, bounds
        self._seen: set[str] = set()

    def add(self, path: str, name: str = "", depth: int = 1) -> bool:
        """Add a file and the files that it includes; False if it cannot be read. `name` is its name in messages."""
        if path in self._seen:
            return True
        if depth > _DEPTH:
            raise BoundError(f"requirements files that include each other more than {_DEPTH} deep")
        text = self._read(path)
        if text is None:
            return False
        self._seen.add(path)
        for number, line in enumerate(text.splitlines(), start=1):
            bare = line.strip()
            if not bare or bare[0] == "#":
                continue
            words = re.sub(r"\s#.*", "", bare).strip().rstrip("\\").strip()
            if option := _OPTION.match(words):
                self._option(option[1], option[2], path, depth)
            elif words and not words.startswith("-"):
                self._bounds.requirements.spend()
                plain = re.sub(r"\s--hash=\S+.*", "", words)
                if len(plain) <= _LONGEST and not _excludes_linux(plain):
                    self._requirements += _requirement(plain, f"{name or path}:{number}")
        return True

    def _option(self, name: str, value: str, path: str, depth: int) -> None:
        self._bounds.requirements.spend()
        if name in ("-r", "--requirement"):
            self.add(os.path.normpath(os.path.join(os.path.dirname(path), value)), value, depth + 1)
        else:
            self._options.setdefault(name, []).append(value)


@lru_cache
def _excludes_linux(requirement: str) -> bool:
    """Whether a marker excludes Linux."""
    marker = requirement.partition(";")[2]
    if not marker or marker.count("(") > _PARENTHESES:
        return bool(marker)
    from packaging.markers import InvalidMarker, Marker

    try:
        return not Marker(marker).evaluate({"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"})
    except (InvalidMarker, ValueError, KeyError, RecursionError):
        return True


def system_packages(command: Command) -> Iterator[str]:
    """Packages of the distribution that a command installs, without their versions."""
    name, words = os.path.basename(command.argv[0]), [word for word in command.argv[1:] if not word.startswith("-")]
    verb = {"apk": "add", "zypper": "install", "zypp": "in"}.get(name, "install")
    if name not in ("apt", "apt-get", "aptitude", "dnf", "yum", "microdnf", "tdnf", "apk", "zypper"):
        return
    if verb in words:
        yield from (re.split(r"[=:/<>~]", word)[0] for word in words[words.index(verb) + 1 :])


def conda_packages(command: Command) -> tuple[str, ...]:
    """The packages that a conda, mamba or micromamba command installs."""
    words = [word for word in command.argv[1:] if not word.startswith("-")]
    if os.path.basename(command.argv[0]) not in ("conda", "mamba", "micromamba", "pixi"):
        return ()
    if not {"install", "create", "update", "add"} & set(words[:2]):
        return ()
    return tuple(re.split(r"::", re.split(r"[=<>! \[]", word)[0])[-1].lower() for word in words[1:])
