"""A command and the text that takes its place: which words of the command stay as they are written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from gpudoctor.dockerfile.bounds import Bounds
from gpudoctor.dockerfile.commands import Command
from gpudoctor.dockerfile.definitions import Definition, Definitions, references
from gpudoctor.dockerfile.requirements import requirement
from gpudoctor.dockerfile.torch_requests import build_of_index
from gpudoctor.dockerfile.words import Quoted, Token, plain_words

_INDEX, _PACKAGE = "an index of torch", "package "
_BACKEND = ("--torch-backend", "UV_TORCH_BACKEND")
_QUOTES = "\"'"
_ROLES = {
    "-i": "--index-url", "--index-url": "--index-url", "--default-index": "--index-url",
    "--extra-index-url": "--extra-index-url", "--index": "--extra-index-url",
}  # fmt: skip
"""The options that mean the same."""
_MOST_WORDS = 400
"""A longer command is written anew."""


class Piece(NamedTuple):
    """A word of the new command, and the number of the word whose place it takes; None for one in between."""

    text: str
    at: int | None


class _Old(NamedTuple):
    """A word of a command: as written, as the shell reads it, with its variables, and with their values."""

    written: str
    template: str
    text: str
    line: int


def aligned(
    definitions: Definitions, command: Command, old: Sequence[Token], new: str
) -> tuple[list[Piece], dict[Definition, str]]:
    """The words of a new command in place of those of the old one, and other values of variables. No pieces: all is
    written anew."""
    words = [_old(definitions, command, token) for token in old]
    tokens = [_known(definitions, command, token) for token in plain_words(new, Bounds())] if words else []
    if not words or max(len(words), len(tokens)) > _MOST_WORDS or not _as_run(words, old):
        return [], {}
    pairs = _pairs([_key(one.text) for one in words], [_key(one.word) for one in tokens])
    plain = _index_alone(tokens) and any("$" in one.template and _of_torch(one.text) for one in words)
    wanted = {to: _base(tokens[to].word, words[at], plain) for at, to in pairs.items()}
    values = _values(definitions, ((words[at], wanted[to][0]) for at, to in pairs.items()))
    places = {to: at for at, to in pairs.items()}
    pieces = []
    for number, token in enumerate(tokens):
        text, at = new[token.start : token.end], places.get(number)
        pieces.append(Piece(text if at is None else _text(definitions, words[at], *wanted[number], text, values), at))
    comment = next((at for at, one in enumerate(words) if one.written.startswith("#")), len(words))
    pieces += (Piece(one.written, at) for at, one in enumerate(words) if at >= comment and at not in pairs)
    return pieces, values


def _known(definitions: Definitions, command: Command, token: Token) -> Token:
    """A word of the new command with the values of its variables: it may be one of the old words, as written."""
    return token._replace(word=definitions.value(token.word, command.line, Bounds()))


def _old(definitions: Definitions, command: Command, token: Token) -> _Old:
    written = command.written[token.start : token.end]
    text = token.word if "'" in written else definitions.value(token.word, command.line, Bounds())
    return _Old(written, token.word, text, command.line)


def _as_run(words: Sequence[_Old], old: Sequence[Token]) -> bool:
    """Whether each word is one word for the shell, too: a variable that is not quoted may hold several."""
    whole = (
        isinstance(token.word, Quoted) or len(one.text.split()) == 1 for one, token in zip(words, old, strict=True)
    )
    return all(whole)


def _key(text: str) -> str:
    """What makes two words the same, but for a version or a build."""
    name, equals, value = text.partition("=")
    if name in _BACKEND:
        return name
    if text[:1] == "-":
        return f"{_ROLES.get(name, name)}{equals}{_key(value) if value else ''}"
    if build_of_index(text):
        return _INDEX
    found = requirement(text) if text[:1] not in "/.<>" else None
    return _PACKAGE + found[0].name if found is not None and found[0].specifier else text


def _pairs(old: Sequence[str], new: Sequence[str]) -> dict[int, int]:
    """The longest sequence of equal keys: the number of each in the old words, and in the new ones."""
    best = [[0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for at in range(len(old) - 1, -1, -1):
        for to in range(len(new) - 1, -1, -1):
            same = best[at + 1][to + 1] + 1 if old[at] == new[to] else 0
            best[at][to] = max(best[at + 1][to], best[at][to + 1], same)
    at = to = 0
    found = {}
    while at < len(old) and to < len(new):
        if old[at] == new[to] and best[at][to] == best[at + 1][to + 1] + 1:
            found[at] = to
            at, to = at + 1, to + 1
        elif best[at + 1][to] >= best[at][to + 1]:
            at += 1
        else:
            to += 1
    return found


def _values(definitions: Definitions, pairs: Iterable[tuple[_Old, str]]) -> dict[Definition, str]:
    """The values of variables on which all the words agree."""
    found: dict[Definition, set[str]] = {}
    for one, wanted in pairs:
        for definition, value in (definitions.solved(one.template, wanted, one.line) or {}).items():
            found.setdefault(definition, set()).add(value)
    agreed = {one: next(iter(values)) for one, values in found.items() if len(values) == 1}
    return {one: value for one, value in agreed.items() if value != _value(definitions, one)}


def _value(definitions: Definitions, one: Definition) -> str | None:
    return definitions.given.get(one.name) if one.given else one.written


def _index_alone(tokens: Sequence[Token]) -> bool:
    """Whether one index has all the packages, and so decides which build of torch is taken."""
    roles = {_ROLES.get(name := one.word.partition("=")[0], name) for one in tokens}
    return bool({"--index-url", *_BACKEND} & roles) and not {"--extra-index-url", "&&"} & roles


def _of_torch(text: str) -> bool:
    """Whether a word names a package, or an index of torch."""
    return _key(text).rpartition("=")[2] == _INDEX or _key(text).startswith(_PACKAGE)


def _base(wanted: str, one: _Old, plain: bool) -> tuple[str, str]:
    """What a word is to say, and the build after that, if the word names none. `plain`: an index says which one."""
    version, plus, build = wanted.partition("+")
    if not plus or "+" in one.text:
        return wanted, ""
    if plain:
        return version, ""
    alone = one.template in (reference for _, reference in references(one.template))
    return (wanted, "") if alone else (version, plus + build)


def _text(
    definitions: Definitions, one: _Old, base: str, build: str, new: str, values: Mapping[Definition, str]
) -> str:
    """A word as it is to be written: as it was, if its variables then say what is wanted."""
    if _key(one.text) == _key(base) in _ROLES.values() or (one.text == base and not build):
        return one.written
    if "$" not in one.template:
        return new if build or "+" in one.text else re.sub(r"\+[\w.]+", "", new)
    solved = definitions.solved(one.template, base, one.line)
    if solved is not None and all(values.get(each, _value(definitions, each)) == to for each, to in solved.items()):
        return _with_build(one.written, build)
    text = new
    for name, reference in references(one.template):
        definition = definitions.at(name, one.line)
        value = values.get(definition, _value(definitions, definition)) if definition is not None else None
        if value and "$" not in value and text.count(value) == 1:
            text = text.replace(value, reference)
    return text


def _with_build(written: str, build: str) -> str:
    quote = written[-1:] if written[-1:] in _QUOTES else ""
    return f"{written.removesuffix(quote)}{build}{quote}" if quote else written + build
