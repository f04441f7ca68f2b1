"""What install commands put into an image: packages of pip, uv and conda, packages of the distribution."""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Iterator

from msgspec import Struct

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
_REQUIREMENT = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*(\[[^\]]*\])?\s*(@\s*\S+|(?:[=<>!~][^;#]*)?)\s*(;.*)?")
_NAME = re.compile(r"[-_.]+")


class Requirement(Struct, frozen=True):
    """One package that is asked for: `specifier` "==2.6.0+cu124", "" or "@ URL"."""

    name: str
    specifier: str = ""
    extras: str = ""
    file: str = ""
    """The requirements file that asks, with its line."""


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
    """A file or a text that also says what is installed, and from where, is not known."""
    elsewhere: bool = False
    """Into a folder or for another platform or Python: says nothing of this image's Python."""

    def asks_for(self, name: str) -> Requirement | None:
        """The requirement of that name, if it asks for one."""
        return next((requirement for requirement in self.requirements if requirement.name == name), None)


def pip_install(command: Command, read: Callable[[str], str | None] = lambda path: None) -> PipInstall | None:
    """What a command installs by pip or uv; `read` gives a requirements file of the image, None where it cannot be
    had."""
    found = _pip_words(command.argv)
    if found is None:
        return None
    tool, words = found
    options: dict[str, list[str]] = {}
    flags, requirements = [], []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") or word == "-":
            requirements += _requirement(word)
            continue
        name, equals, value = word.partition("=")
        if re.fullmatch(r"-[ifrcte].+", word) and not word.startswith("--"):
            name, equals, value = word[:2], "=", word[2:]
        if name in _WITH_VALUE:
            options.setdefault(name, []).append(value if equals else rest.pop(0) if rest else "")
        flags.append(name)
    incomplete = "$" in command.text or bool({"-c", "--constraint"} & options.keys())
    for path in (*options.get("-r", ()), *options.get("--requirement", ())):
        text = read(path)
        if text is None:
            incomplete = True
        else:
            _read_file(path, text, requirements, options, read)
    return PipInstall(
        tool=tool,
        requirements=tuple(requirements),
        index_urls=(*options.get("-i", ()), *options.get("--index-url", ()), *options.get("--default-index", ())),
        extra_urls=(*options.get("--extra-index-url", ()), *options.get("--index", ())),
        find_links=(*options.get("-f", ()), *options.get("--find-links", ())),
        backend=next(iter(options.get("--torch-backend", ())), ""),
        flags=tuple(flags),
        executable=command.argv[0],
        incomplete=incomplete,
        elsewhere=any(name in options for name in ("-t", "--target", "--platform", "--python-version", "--root")),
    )


def _pip_words(argv: tuple[str, ...]) -> tuple[str, tuple[str, ...]] | None:
    """(tool, words after `install`) of an installing command."""
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


def _requirement(word: str, file: str = "") -> list[Requirement]:
    if "://" in word and "@" not in word.split("://", maxsplit=1)[0]:
        wheel = re.search(r"/(torch)-(\d[^-/]*)-[^/]*\.whl", word)
        return [Requirement("torch", f"@ {word}", file=file)] if wheel else []
    found = _REQUIREMENT.fullmatch(word.strip())
    if found is None or "/" in found[1] or word.endswith((".whl", ".txt", ".tar.gz")) or word in (".", ".."):
        return []
    return [Requirement(_NAME.sub("-", found[1]).lower(), found[3].replace(" ", ""), found[2] or "", file)]


def _read_file(
    path: str,
    text: str,
    requirements: list[Requirement],
    options: dict[str, list[str]],
    read: Callable[[str], str | None],
    level: int = 0,
) -> None:
    for number, line in enumerate(text.splitlines(), start=1):
        words = re.sub(r"(^|\s)#.*", "", line).strip().rstrip("\\").strip()
        option = re.match(r"(-i|--index-url|--extra-index-url|-f|--find-links|-r|--requirement)[ =]\s*(\S+)", words)
        if option and option[1] in ("-r", "--requirement"):
            other = read(os.path.join(os.path.dirname(path), option[2]))
            if other is not None and level < 4:
                _read_file(option[2], other, requirements, options, read, level + 1)
        elif option:
            options.setdefault(option[1], []).append(option[2])
        elif words and not words.startswith("-"):
            plain = re.sub(r"\s--hash=\S+.*", "", words)
            if not _is_for_elsewhere(plain):
                requirements += _requirement(plain, f"{path}:{number}")


def _is_for_elsewhere(requirement: str) -> bool:
    """Whether a marker leaves Linux out."""
    marker = requirement.partition(";")[2]
    if not marker:
        return False
    from packaging.markers import InvalidMarker, Marker

    try:
        return not Marker(marker).evaluate({"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"})
    except (InvalidMarker, ValueError, KeyError):
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
    """Names that a conda, mamba or micromamba command installs."""
    words = [word for word in command.argv[1:] if not word.startswith("-")]
    if os.path.basename(command.argv[0]) not in ("conda", "mamba", "micromamba", "pixi"):
        return ()
    if not {"install", "create", "update", "add"} & set(words[:2]):
        return ()
    return tuple(re.split(r"::", re.split(r"[=<>! \[]", word)[0])[-1].lower() for word in words[1:])
