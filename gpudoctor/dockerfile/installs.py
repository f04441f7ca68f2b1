"""What install commands add to an image: packages of pip, uv and conda, and of the distribution."""

from __future__ import annotations

import os.path
import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.dockerfile.bounds import Bounds
from gpudoctor.dockerfile.commands import Command
from gpudoctor.dockerfile.projects import Choice
from gpudoctor.dockerfile.requirements import Read, Requirement, RequirementCollector

WITH_VALUE = frozenset({
    "-i", "--index-url", "--extra-index-url", "-f", "--find-links", "-r", "--requirement", "-c", "--constraint", "-t",
    "--target", "--prefix", "--root", "--python", "-p", "--python-version", "--platform", "--trusted-host", "--proxy",
    "--timeout", "--retries", "--cache-dir", "--no-binary", "--only-binary", "--torch-backend", "--index",
    "--default-index", "--index-strategy", "--config-settings", "-e", "--editable", "--upgrade-strategy", "--group",
    "--extra", "--progress-bar", "--log", "--src", "--report", "--keyring-provider", "--global-option",
    "--implementation", "--abi", "--use-feature", "--use-deprecated", "--exists-action", "--cert", "--client-cert",
    "--python-platform", "--resolution", "--prerelease", "--link-mode", "--overrides",
    "--override", "--reinstall-package",
})  # fmt: skip


class PipInstall(Struct, frozen=True):
    """What one command installs: a `pip install`, with the indexes that it names, or one of uv, poetry or conda."""

    tool: str
    """pip, uv, poetry or conda."""
    requirements: tuple[Requirement, ...]
    index_urls: tuple[str, ...] = ()
    extra_urls: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    backend: str = ""
    """The build that it names apart from torch: with --torch-backend, or with conda's pytorch-cuda."""
    flags: tuple[str, ...] = ()
    incomplete: bool = False
    """Whether a file or text that also decides what is installed, and from where, is unknown."""
    unread: bool = False
    """Whether it also installs packages that are not known, such as those that a setup.py requires."""
    sourced: bool = False
    """Whether uv's sources in the project name the index of torch, over all other settings."""
    beside_torch: tuple[str, ...] = ()
    """Packages that uv builds without isolation, by the settings of the project."""
    folder: str = ""
    """The folder that it installs into, if that is not the Python's own: with --prefix or --target."""
    without_cuda: bool = False
    """Whether conda chooses a CPU build, because it sees no driver while an image is built."""
    channel: str = ""
    """The channel of conda that its torch comes from, if it is known."""
    locked: bool = False
    """Whether a lock file names exactly what is installed (`uv sync`); of its packages only torch is read."""
    elsewhere: bool = False
    """Whether it installs into a folder, or for another platform or Python than this image's."""

    def asks_for(self, name: str) -> Requirement | None:
        """The requirement of that name, if the command has one."""
        return next((requirement for requirement in self.requirements if requirement.name == name), None)


NOTHING = PipInstall("", ())
"""Of a command that installs nothing by pip or its like."""


def pip_install(command: Command, read: Read, bounds: Bounds, machine: str) -> PipInstall | None:
    """What a command installs by pip or uv. `read` gives a file of the image. Raises BoundError."""
    found = _pip_words(command.argv)
    if found is None:
        return None
    tool, verb, words = found
    plain, options, flags = split_options(words, WITH_VALUE)
    if "--dry-run" in flags:
        return None
    if verb == "sync":  # uv pip sync: its words are requirements files
        plain, options["-r"] = [], plain

    def given(*names: str) -> tuple[str, ...]:
        return tuple(value for name in names for value in options.get(name, ()))

    choice = Choice(
        extras=given("--extra"),
        groups=given("--group"),
        all_extras="--all-extras" in flags,
        sources="uv" if tool == "uv" and "--no-sources" not in flags else "",
    )
    collected = RequirementCollector(read, bounds, machine, choice)
    for path in (*given("-c", "--constraint"), *command.variables.get(f"{tool.upper()}_CONSTRAINT", "").split()):
        collected.constraint(path)
    for group in given("--group"):
        path, _, name = group.rpartition(":")
        collected.table(path or "pyproject.toml", replace(choice, groups=(name,), project=False))
    for word in (*plain, *given("-e", "--editable")):
        collected.word(word, alone="--no-deps" in flags)
    for path in given("-r", "--requirement"):
        collected.file(path)
    return install_of(tool, collected, command, options, flags)


def install_of(
    tool: str,
    collected: RequirementCollector,
    command: Command,
    options: Mapping[str, list[str]] = {},
    flags: tuple[str, ...] = (),
) -> PipInstall:
    """What a command installs, by its options and those of the files that it names."""

    def given(*names: str) -> tuple[str, ...]:
        texts = (text for name in names for text in (*options.get(name, ()), *collected.options.get(name, ())))
        return tuple(texts)

    return PipInstall(
        tool=tool,
        requirements=tuple(replace(one, file=one.file or command.script) for one in collected.requirements()),
        index_urls=collected.torch_index or given("-i", "--index-url", "--default-index"),
        extra_urls=(*given("--extra-index-url", "--index"), *collected.extra_indexes),
        sourced=bool(collected.torch_index),
        find_links=given("-f", "--find-links"),
        backend=next(iter(given("--torch-backend")), ""),
        flags=flags,
        incomplete="$" in command.text or collected.missing,
        unread=collected.unread,
        beside_torch=collected.beside_torch,
        folder=next(iter(given("--prefix", "-t", "--target", "--root")), ""),
        elsewhere=any(name in options for name in ("-t", "--target", "--platform", "--python-version", "--root")),
    )


def split_options(
    words: Sequence[str], with_value: Collection[str]
) -> tuple[list[str], dict[str, list[str]], tuple[str, ...]]:
    """The plain words of a command, its options with their values, and all its options."""
    plain: list[str] = []
    options: dict[str, list[str]] = {}
    flags: list[str] = []
    rest = iter(words)
    for word in rest:
        if not word.startswith("-") or word == "-":
            plain.append(word)
            continue
        name, equals, value = word.partition("=")
        if re.fullmatch(r"-[ifrcte].+", word) and not word.startswith("--"):
            name, equals, value = word[:2], "=", word[2:]
        if name in with_value:
            options.setdefault(name, []).append(value if equals else next(rest, ""))
        flags.append("--no-deps" if name == "--no-dependencies" else name)
    return plain, options, tuple(flags)


_VERBS = {("pip", "install"): "install", ("pip", "sync"): "sync", ("add",): "add"}
"""What uv says for an installation into the environment."""


def _pip_words(argv: tuple[str, ...]) -> tuple[str, str, tuple[str, ...]] | None:
    """(tool, verb, words after it) of a command that installs packages."""
    name = os.path.basename(argv[0])
    rest = argv[1:]
    if re.fullmatch(r"python[\d.]*|\$\{?\w*PY\w*\}?", name) and rest[:1] in (("-m",), ("-mpip",)):
        rest = rest[1:] if rest[0] == "-mpip" else rest[2:] if rest[1:2] in (("pip",), ("uv",)) else ()
        name = "uv" if argv[2:3] == ("uv",) else "pip"
    while rest and rest[0].startswith("-"):
        rest = rest[1:]
    if re.fullmatch(r"pip[\d.]*|\$\{?\w*PIP\w*\}?", name):
        return ("pip", "install", rest[1:]) if rest[:1] == ("install",) else None
    if name == "uv":
        found = next((words for words in _VERBS if rest[: len(words)] == words), None)
        return ("uv", _VERBS[found], rest[len(found) :]) if found else None
    return None


def system_packages(command: Command) -> Iterator[str]:
    """Packages of the distribution that a command installs, without their versions."""
    name, words = os.path.basename(command.argv[0]), [word for word in command.argv[1:] if not word.startswith("-")]
    verb = {"apk": "add", "zypper": "install", "zypp": "in"}.get(name, "install")
    if name not in ("apt", "apt-get", "aptitude", "dnf", "yum", "microdnf", "tdnf", "apk", "zypper"):
        return
    if verb in words:
        yield from (re.split(r"[=:/<>~]", word)[0] for word in words[words.index(verb) + 1 :])
