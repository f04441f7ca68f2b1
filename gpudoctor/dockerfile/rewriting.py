"""Install commands as they should be written: torch and its index change, every other word stays."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile

import msgspec
from msgspec import Struct

from gpudoctor.dockerfile.alignment import Piece, aligned
from gpudoctor.dockerfile.bounds import Bounds
from gpudoctor.dockerfile.commands import Command
from gpudoctor.dockerfile.definitions import written_values
from gpudoctor.dockerfile.image import Image, Step
from gpudoctor.dockerfile.installs import WITH_VALUE
from gpudoctor.dockerfile.requirements import requirement
from gpudoctor.dockerfile.torch_requests import build_of_index
from gpudoctor.dockerfile.words import Token, plain_words

_GAP = r"(?:[ \t]|[\\`][ \t]*\n(?:[ \t]*(?:#[^\n]*)?\n)*)+"
"""What separates two words in a Dockerfile: blanks, continued lines, and comments between them."""
_END = rf"(?=(?:{_GAP})?(?:[;&|)\"'\n]|\Z))"
"""What follows the last word of a command."""
_LONGEST = 500
"""Lines of one instruction."""
_VERBS = ("install", "add", "create", "update")
_INDEX = ("-i", "--index-url", "--default-index")
_EXTRA_INDEX = ("--extra-index-url", "--index")
_SOURCES = ("-r", "--requirement", "-e", "--editable", "--group")
"""Options that name packages, too."""
_OF_CONDA = ("pytorch", "pytorch-gpu", "pytorch-cuda", "pytorch-mutex", "cpuonly", "torchvision", "torchaudio")
_ENVIRONMENT = ("-n", "--name", "-p", "--prefix")
_REDIRECTED = re.compile(r"[\d&]*[<>]")


class TorchIndex(Struct, frozen=True):
    """Where the packages come from that are written anew: the index of a build of torch, or "" for the package
    index."""

    url: str
    build: str


class _Word(Struct, frozen=True):
    """A word as it is written, and what it says. An option has its value in the same word."""

    written: str
    text: str
    value: str = ""

    @property
    def package(self) -> str:
        """The name of the package that it asks for."""
        found = requirement(self.text) if self.text[:1] != "-" and not _REDIRECTED.match(self.text) else None
        return found[0].name if found else ""


def rewritten(
    step: Step, packages: Mapping[str, str], index: TorchIndex | None = None, also: Iterable[str] = ()
) -> str:
    """The command of a step with other requirements for some of its packages, and with more requirements at its end.
    `index` is where these come from."""
    head, words = _parts(step.command, tuple(packages))
    choosing = next((at for at, word in enumerate(words) if _chooses_torch(word)), None)
    chosen = words[choosing].written if choosing is not None else ""
    if index is not None:
        words = [word for word in words if not _chooses_torch(word)]
    shown = [one for word in words if (one := packages.get(word.package, word.written))]
    shown += also
    named = [*filter(None, (packages.get(word.package) for word in words)), *also]
    others = [word for word in words if _brings_others(word) and word.package not in packages]
    if index is None or not named:
        return " ".join((*head, *shown))
    if others and index.url and not _backend(step) and not all("+" in one for one in named):
        # The same version is on both indexes: only a command of its own decides.
        plain = [word.written for word in words if not _brings_others(word)]
        own = (*head, *plain, "--index-url", index.url, *named)
        return f"{' '.join(own)} && {' '.join((*head, *(one for one in shown if one not in named)))}"
    before = words[:choosing] if choosing is not None else ()
    at = (
        sum(1 for word in before if packages.get(word.package, word.written))
        if choosing is not None
        else min(shown.index(one) for one in named)
    )
    assigned = [word for word in head if word.startswith("UV_TORCH_BACKEND=")]
    options = "" if assigned and _backend(step) else " ".join(_index_options(step, index, bool(others)))
    head = tuple(f"UV_TORCH_BACKEND={index.build}" if word in assigned and index.url else word for word in head)
    if choosing is not None and "=" in chosen.partition(" ")[0]:
        options = re.sub(r"(?<=url) ", "=", options)
    return " ".join(filter(None, (*head, *shown[:at], options, *shown[at:])))


def split_off(step: Step, name: str, package: str, option: str) -> str:
    """The command without one package, and then that package alone with an option."""
    head, words = _parts(step.command, (name,))
    mine = any(word.package == name for word in words)
    others = [word.written for word in words if word.package != name]
    beside = [word.written for word in words if not _brings_others(word)]
    text = shlex.quote(package) if set(package) & set("[]<>*") else package
    own = " ".join((*head, *beside, option, text))
    if mine and not any(_brings_others(word) and word.package != name for word in words):
        return own
    return f"{' '.join((*head, *others))} && {own}"


def install_words(step: Step) -> tuple[str, ...]:
    """The beginning of a command, up to its verb."""
    return _parts(step.command, ())[0]


def without_conda(step: Step, words: Iterable[str]) -> str:
    """A command of conda without its torch, and the command of pip after it that takes its place in the same
    environment."""
    head, own = _parts(step.command, ())
    kept = [word for word in own if re.split(r"[=<>! \[]", word.text.rpartition("::")[2])[0] not in _OF_CONDA]
    environment = [word.written for word in own if word.text.partition("=")[0] in _ENVIRONMENT]
    within = (step.command.argv[0], "run", *environment) if environment else ()
    pip = " ".join((*within, "pip install", *words))
    installs = head[-1] == "create" or any(word.text[:1] != "-" for word in kept)
    return f"{' '.join((*head, *(one.written for one in kept)))} && {pip}" if installs else pip


def in_place(image: Image, command: Command, new: str) -> str:
    """What to write for another text of one command: see `changed_lines`."""
    return "\n".join(changed_lines(image, command, new))


def changed_lines(image: Image, command: Command, new: str) -> Iterator[str]:
    """The lines of the Dockerfile with another text for one command: what the text shares with the command stays as
    written. Variables get other values where these make the difference. Only the text for a command of a script."""
    if command.script:
        yield f"{command.script}: {new}"
        return
    source = "\n".join(image.source[command.line - 1 : command.line - 1 + _LONGEST])
    old = tuple(plain_words(command.written, Bounds())) if command.written else ()
    found = re.search(_pattern(command, old), source)
    if found is None:
        yield f"{image.place(command.line)}: write in place of this command:\n{new}"
        return
    stages = (one for one in image.builders if any(step.command == command for step in one.steps))
    definitions = next(stages, image).definitions  # those of the stage that the command stands in
    pieces, values = aligned(definitions, command, old, new)
    yield from written_values(image.file, image.source, values, definitions.given_in)
    new = "".join(_spaced(pieces, found)) if pieces else new
    if new == found[0]:
        return
    begin, end = source.rfind("\n", 0, found.start()) + 1, source.find("\n", found.end())
    text = source[begin : found.start()] + new + (source[found.end() : end] if end >= 0 else source[found.end() :])
    first = command.line + source.count("\n", 0, begin)
    last = first + found[0].count("\n")
    place = image.place(first) + (f"-{last}" if last > first else "")
    whole = re.match(r"\s*RUN\s", text, re.IGNORECASE) and not re.search(r"[\\`]\s*$|<<|\n", text)
    yield f"{place}: {text.strip()}" if whole else f"{place}: write:\n{text}"


def _spaced(pieces: Sequence[Piece], found: re.Match[str]) -> Iterator[str]:
    """A command with the gaps that its words have in the file. Those of words that are gone go, too."""
    for number, (text, at) in enumerate(pieces):
        if number:
            yield " " if at is None or at == 0 else found[2 * at]
        yield text


def _pattern(command: Command, old: Sequence[Token]) -> str:
    """What finds a command in the text of its file: a group for each word, and for each gap between two."""
    if old:
        words = (_GAP.join(re.escape(part) for part in command.written[one.start : one.end].split()) for one in old)
        return f"({_GAP})".join(f"({word})" for word in words) + _END
    shown = r"\s*,\s*".join(re.escape(msgspec.json.encode(word).decode()) for word in command.argv)
    return rf"\[\s*{shown}\s*\]"


def _parts(command: Command, names: tuple[str, ...]) -> tuple[tuple[str, ...], list[_Word]]:
    """The words up to the verb, and those after it: as written, or with the values of variables if these name the
    packages."""
    written = [
        (command.written[token.start : token.end], token.word) for token in plain_words(command.written, Bounds())
    ]
    expanded = [(word if re.fullmatch(r"[^\s'\"\\*?<>|&;()#~\[\]]+", word) else shlex.quote(word), word)
                for word in command.argv]  # fmt: skip
    for words in (written, expanded):
        at = next((number for number, (_, text) in enumerate(words) if text in _VERBS), None)
        if at is not None:
            found = list(takewhile(lambda word: not word.text.startswith("#"), _with_values(words[at + 1 :])))
            there = {word.package for word in found}
            asked = {name for name in names if any(word.package == name for word in _with_values(expanded))}
            index_known = not any("$" in word.value for word in found if word.text in (*_INDEX, *_EXTRA_INDEX))
            if words is expanded or (asked <= there and index_known):
                return tuple(one for one, _ in words[: at + 1]), found
    return command.argv, []


def _with_values(words: list[tuple[str, str]]) -> Iterator[_Word]:
    rest = iter(words)
    for written, text in rest:
        name, equals, value = text.partition("=")
        if text.startswith("-") and not equals and (name in WITH_VALUE or name in _ENVIRONMENT):
            after = next(rest, ("", ""))
            yield _Word(f"{written} {after[0]}".rstrip(), name, after[1])
        elif re.match(r"-i.", text):
            yield _Word(written, "-i", text[2:])
        elif _REDIRECTED.fullmatch(text):
            yield _Word(f"{written} {next(rest, ('', ''))[0]}".rstrip(), text)
        else:
            yield _Word(written, name if text.startswith("-") and equals else text, value)


def _chooses_torch(word: _Word) -> bool:
    """Whether an option says which build of torch is taken."""
    if word.text in (*_INDEX, *_EXTRA_INDEX):
        return bool(build_of_index(word.value))
    return word.text == "--torch-backend" or (
        word.text in ("-f", "--find-links") and "download.pytorch.org" in word.value
    )


def _brings_others(word: _Word) -> bool:
    """Whether a word asks for packages, or names an index for them."""
    if word.text.startswith("-"):
        return word.text in (*_SOURCES, *_INDEX)
    return not _REDIRECTED.match(word.text)


def _backend(step: Step) -> bool:
    """Whether uv is told the build of torch, which counts more than any index."""
    return step.pip.tool == "uv" and bool(step.pip.backend or step.command.variables.get("UV_TORCH_BACKEND"))


def _index_options(step: Step, index: TorchIndex, shared: bool) -> tuple[str, ...]:
    """The options that choose the index. `shared`: other packages of the command come from another one. uv then has
    to compare both indexes, as pip does: it takes a package from the first one that has it."""
    if not index.url:
        return ()
    if _backend(step):
        return (f"--torch-backend={index.build}",)
    if not shared:
        return "--index-url", index.url
    strategy = ("--index-strategy", "unsafe-best-match") if step.pip.tool == "uv" else ()
    return "--extra-index-url", index.url, *strategy
