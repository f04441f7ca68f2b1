"""The commands of a RUN: what a shell would start, one argument list each, with its line."""

from __future__ import annotations

import itertools
import os.path
import re
import shlex
from collections.abc import Iterator, Mapping

from msgspec import Struct

from gpudoctor.dockerfile.syntax import Instruction
from gpudoctor.dockerfile.variables import partly_expanded

SHELLS = ("sh", "bash", "dash", "ash", "zsh")
_OPENING, _CLOSING = ("if", "for", "while", "until", "case"), ("fi", "done", "esac")
_WORDS = (*_OPENING, *_CLOSING, "then", "else", "elif", "do", "!", "{", "}", "time", "exec", "sudo", "command", "set")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_DEPTH = 4
_TESTS = ("[", "[[", "test")
_SIGN = re.compile(r"&&|\|\||\|&|[;&|()]")


class Command(Struct, frozen=True):
    """One command. `maybe`: it runs only under a condition. `variables` are set for it alone or by an export."""

    argv: tuple[str, ...]
    line: int
    maybe: bool = False
    variables: dict[str, str] = {}
    text: str = ""
    """As written, the words parted by single spaces."""
    writes: str = ""
    """The file that its output goes to."""


def commands(run: Instruction, variables: Mapping[str, str]) -> tuple[Command, ...]:
    """What a RUN starts. `variables` are the ENV and ARG values that are known; of a text that no shell would take,
    nothing."""
    known = dict(variables)
    if run.argv is not None:
        return tuple(_called(run.argv, run.line, known, False, 0))
    documents = tuple(
        command for document in run.documents for command in _of_script(document.text, document.line, known)
    )
    return (*_of_text(run.text, run.line, known, False, 0), *documents)


def _of_script(text: str, line: int, known: dict[str, str]) -> Iterator[Command]:
    """A script, in which a line break ends a command."""
    if text.startswith("#!") and not re.match(r"#!\S*(?:/|env )\w*sh\b", text):
        return
    pending, first, depth = "", line, 0
    for number, part in enumerate(text.split("\n"), start=line):
        if not pending:
            first = number
        code = "" if part.lstrip().startswith("#") else part
        pending += code.removesuffix("\\") + (" \n" if code.endswith("\\") else "")
        if code.endswith("\\"):
            continue
        words = re.findall(r"(?:^|[;&|]\s*)(\w+)", pending)
        opened = depth + sum(word in _OPENING for word in words)
        yield from _of_text(pending, first, known, opened > 0, 0)
        depth = max(0, opened - sum(word in _CLOSING for word in words))
        pending = ""


def _of_text(text: str, line: int, known: dict[str, str], maybe: bool, level: int) -> Iterator[Command]:
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";&|()<>")
    lexer.whitespace_split = True
    lexer.commenters = ""
    lexer.lineno = line
    words: list[str] = []
    at, depth, lists = line, 0, _Lists()
    try:
        while True:
            token = lexer.get_token()
            if token is not None and not set(token) <= set(";&|()"):
                if not words:
                    at = lexer.lineno
                words.append(token)
                continue
            if words:
                depth += words[0] in _OPENING
                lists.command(words)
                yield from _simple(tuple(words), at, known, maybe or depth > 0 or lists.conditional, level)
                depth = max(0, depth - (words[0] in _CLOSING))
                words = []
            if token is None:
                return
            for sign in _SIGN.findall(token):
                lists.sign(sign)
    except ValueError:  # a quote that is never closed
        return


class _Lists:
    """Where in lists of `&&`, `||` and `;`, and in groups of these, the next command stands."""

    def __init__(self) -> None:
        self._test = self._after_or = self._after_test = False
        self._groups: list[tuple[bool, bool]] = []

    @property
    def conditional(self) -> bool:
        """Whether the command runs only if others fail, or if a test holds. What follows `a || b &&` runs whichever
        of them did: where both fail, so does the build."""
        return self._after_or or self._after_test or any(map(any, self._groups))

    def command(self, words: list[str]) -> None:
        """A command begins or, with braces alone, a group."""
        if words[0] == "{":
            self.sign("(")
        elif words[0] == "}":
            self.sign(")")
        self._test = next((word for word in words if word != "!"), "") in _TESTS

    def sign(self, sign: str) -> None:
        """An operator or a parenthesis."""
        if sign == "(":
            self._groups.append((self._after_or, self._after_test))
            self._after_or = self._after_test = False
        elif sign == ")":
            self._after_or, self._after_test = self._groups.pop() if self._groups else (False, False)
        elif sign == "&&":
            self._after_or, self._after_test = False, self._after_test or self._test
        elif sign == "||":
            self._after_or, self._after_test = True, False
        elif sign in (";", "&"):
            self._after_or = self._after_test = False


def _simple(words: tuple[str, ...], line: int, known: dict[str, str], maybe: bool, level: int) -> Iterator[Command]:
    """One simple command: keywords, redirections and assignments before it taken off."""
    own: dict[str, str] = {}
    rest = list(_without_redirections(words))
    while rest and (rest[0] in _WORDS or _ASSIGNMENT.match(rest[0]) or (rest[0].startswith("-") and not own)):
        word = rest.pop(0)
        if _ASSIGNMENT.match(word):
            name, _, value = word.partition("=")
            own[name] = partly_expanded(value, known)
        elif word in ("for", "case", "set"):
            return
    if not rest:
        known.update(own)
        return
    if rest[0] in ("export", "env"):
        is_export = rest[0] == "export"
        while len(rest) > 1 and _ASSIGNMENT.match(rest[1]):
            name, _, value = rest.pop(1).partition("=")
            own[name] = partly_expanded(value, known)
        if is_export:
            known.update(own)
            return
        rest = rest[1:]
    argv = tuple(partly_expanded(word, {**known, **own}) for word in rest)
    for command in _called(argv, line, known, maybe, level):
        yield Command(command.argv, command.line, command.maybe, {**known, **own}, command.text, _written(words))


def _without_redirections(words: tuple[str, ...]) -> Iterator[str]:
    skip = False
    for word in words:
        if set(word) <= set("<>&"):
            skip = True
        elif skip:
            skip = False
        else:
            yield word


def _written(words: tuple[str, ...]) -> str:
    return next((target for sign, target in itertools.pairwise(words) if sign in (">", ">>")), "")


def _called(argv: tuple[str, ...], line: int, known: dict[str, str], maybe: bool, level: int) -> Iterator[Command]:
    """The command itself, or those of the text that it gives to a shell."""
    if not argv:
        return
    if os.path.basename(argv[0]) in SHELLS and level < _DEPTH:
        for number, word in enumerate(argv[1:], start=1):
            if re.fullmatch(r"-[a-z]*c", word) and number + 1 < len(argv):
                yield from _of_text(argv[number + 1], line, known, maybe, level + 1)
                return
    yield Command(argv, line, maybe, known, " ".join(argv))
