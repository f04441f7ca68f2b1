"""Which commands of a shell text run: `if`, loops, lists with `&&` and `||`, and tests of known values."""

from __future__ import annotations

from collections.abc import Sequence
from operator import eq, ge, gt, le, lt, ne

from msgspec import Struct

_OPENING, _CLOSING = ("if", "for", "while", "until", "case"), ("fi", "done", "esac")
KEYWORDS = (*_OPENING, *_CLOSING, "then", "else", "elif", "do", "{", "}", "time")
_COMPARISONS = {"-eq": eq, "-ne": ne, "-lt": lt, "-le": le, "-gt": gt, "-ge": ge}
_TESTS = ("[", "[[", "test")

Answer = bool | None
"""Whether a command runs, or a test is true; None: unknown."""


class _Construct(Struct):
    """An open `if`, loop or `case`."""

    runs: Answer = None
    """Its current branch."""
    done: Answer = False
    """Whether one of its branches before was the one that runs."""
    testing: bool = False
    """The commands between `if` and `then`."""
    body: Answer = None
    """Whether what `do` opens runs."""
    body_if: Answer = None
    """The answer of a loop's first test for which its body runs; None: it has none, or not any more."""


class Conditions:
    """The position of the next command in constructs, and in lists of `&&`, `||` and `;`."""

    def __init__(self) -> None:
        self._open: list[_Construct] = []
        self._test: Answer = True
        self._is_test = self._after_or = False
        self._after_test: Answer = True
        self._groups: list[tuple[bool, Answer]] = []
        self._around: list[Answer] = [True]
        """For each open group, whether what is around it runs."""
        self._last_sign = ""
        self._function = False
        """Whether the next `{` opens a function, of which it is unknown whether it is called."""

    @property
    def runs(self) -> Answer:
        """Whether the next command runs and has to succeed. One after `a || b &&` does: if both fail, the build
        fails, too. One between `if` and `then` may fail."""
        answers = [None if one.testing else one.runs for one in self._open]
        answers += [self._around[-1], *_of((self._after_or, self._after_test))]
        return False if False in answers else None if None in answers else True

    def command(self, words: list[str], expanded: Sequence[str]) -> None:
        """A command begins; `expanded` are its words with the known variables replaced."""
        self._last_sign = ""
        self._function = self._function and words[:1] == ["{"]
        if words and words[0] == "function":
            self._function, words, expanded = True, words[2:], expanded[2:]
        while words and words[0] in KEYWORDS:
            word, words, expanded = words[0], words[1:], expanded[1:]
            self._keyword(word, words, expanded)
        negated = False
        while words and words[0] == "!":
            negated, words, expanded = not negated, words[1:], expanded[1:]
        self._is_test = bool(words) and words[0] in _TESTS
        answer = _tested(expanded) if self._is_test else None
        self._test = answer if answer is None else answer is not negated
        one = self._open[-1] if self._open and words else _Construct()
        if one.testing:
            one.runs = self._test if one.runs is True else None
        elif (one.body_if is not None and one.body_if is self._test) or words[:1] == ["seq"]:
            one.body = True  # the first pass; `for i in $(seq 5)`

    def _keyword(self, word: str, words: Sequence[str], expanded: Sequence[str]) -> None:
        """A keyword, and the words behind it."""
        if word == "if":
            self._open.append(_Construct(runs=True, testing=True))
        elif word == "for":
            self._open.append(_Construct(body=_has_values(expanded[2:]) or None))
        elif word in ("until", "while"):
            again = word == "until" or words[:1] == ["!"]  # it is tried until it succeeds
            self._open.append(_Construct(runs=True if again else None, body_if=word == "while"))
        elif word in _OPENING:
            self._open.append(_Construct())
        elif word in _CLOSING and self._open:
            self._open.pop()
        elif word == "{":
            self.sign("(")
            if self._function:
                self._function, self._around[-1] = False, _both(self._around[-1], None)
        elif word == "}":
            self.sign(")")
        elif self._open:
            one = self._open[-1]
            if word == "then" and one.testing:
                one.testing = False
                one.runs, one.done = _but_not(one.runs, one.done), _either(one.runs, one.done)
            elif word == "elif":
                one.runs, one.testing = True, True
            elif word == "else":
                one.runs = _but_not(True, one.done)
            elif word == "do":
                one.runs, one.body_if = one.body, None

    def sign(self, sign: str) -> None:
        """An operator or a parenthesis."""
        self._function |= sign == ")" and self._last_sign == "("
        self._last_sign = sign
        if sign == "(":
            self._groups.append((self._after_or, self._after_test))
            here, test = _of((self._after_or, self._after_test))
            self._around.append(_both(self._around[-1], _both(here, test)))
            self._after_or, self._after_test = False, True
        elif sign == ")":
            self._after_or, self._after_test = self._groups.pop() if self._groups else (False, True)
            del self._around[len(self._groups) + 1 :]
        elif sign == "&&":
            test = self._test if self._is_test else True
            self._after_or, self._after_test = False, _both(self._after_test, test)
        elif sign == "||":
            self._after_or, self._after_test = True, True
        elif sign in (";", "&"):
            self._after_or, self._after_test = False, True
        if sign in ("&&", "||", ";", "&"):
            self._is_test = False


def _of(pair: tuple[bool, Answer]) -> tuple[Answer, Answer]:
    after_or, after_test = pair
    return (None if after_or else True), after_test


def _both(one: Answer, other: Answer) -> Answer:
    return False if False in (one, other) else None if None in (one, other) else True


def _either(one: Answer, other: Answer) -> Answer:
    return True if True in (one, other) else None if None in (one, other) else False


def _but_not(one: Answer, other: Answer) -> Answer:
    return _both(one, None if other is None else not other)


def _has_values(words: Sequence[str]) -> bool:
    """Whether a list of a loop surely has a value: a plain word, or the numbers of `seq`."""
    return any(word.startswith(("$(seq ", "`seq ")) or not set(word) & set("$`*?[") for word in words)


def _tested(words: Sequence[str]) -> Answer:
    """Whether a test of strings is true; None for other tests, unknown values and patterns."""
    inner = list(words[1:-1] if words[0] in ("[", "[[") else words[1:])
    if any(set(word) & set("$`*?") for word in inner):
        return None
    if len(inner) == 2 and inner[0] in ("-n", "-z"):
        return (inner[1] == "") is (inner[0] == "-z")
    if len(inner) == 3 and inner[1] in ("=", "==", "!="):
        return (inner[0] == inner[2]) is (inner[1] != "!=")
    if len(inner) == 3 and inner[1] in _COMPARISONS and inner[0].isdecimal() and inner[2].isdecimal():
        return bool(_COMPARISONS[inner[1]](int(inner[0]), int(inner[2])))
    return None
