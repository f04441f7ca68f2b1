"""The commands of a RUN instruction: the argument list of each command that the shell starts, with its line."""

from __future__ import annotations

import itertools
import os.path
import re
from collections import ChainMap
from collections.abc import Iterator, Mapping, MutableMapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.dockerfile.bounds import Bounds
from gpudoctor.dockerfile.conditions import KEYWORDS, Conditions
from gpudoctor.dockerfile.syntax import Instruction
from gpudoctor.dockerfile.variables import OF_PROGRAMS, OVERRIDE_CUDA, partly_expanded
from gpudoctor.dockerfile.words import Quoted, Sign, Token, UnclosedError, shell_words

SHELLS = ("sh", "bash", "dash", "ash", "zsh")
INDEX_VARIABLES = (
    "PIP_INDEX_URL",
    "UV_INDEX_URL",
    "UV_DEFAULT_INDEX",
    "UV_INDEX",
    "PIP_CONFIG_FILE",
    "UV_CONFIG_FILE",
)
EXTRA_VARIABLES = ("PIP_EXTRA_INDEX_URL", "UV_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "UV_FIND_LINKS")
_OF_INSTALLERS = (
    *INDEX_VARIABLES,
    *EXTRA_VARIABLES,
    "PIP_CONSTRAINT",
    "UV_CONSTRAINT",
    "UV_TORCH_BACKEND",
    "UV_INDEX_STRATEGY",
    "UV_SYSTEM_PYTHON",
    "PIP_BREAK_SYSTEM_PACKAGES",
    "UV_BREAK_SYSTEM_PACKAGES",
    "FLASH_ATTENTION_FORCE_BUILD",
    "PATH",
    "VIRTUAL_ENV",
    "UV_PROJECT_ENVIRONMENT",
    "POETRY_VIRTUALENVS_IN_PROJECT",
    "PIPENV_VENV_IN_PROJECT",
    OVERRIDE_CUDA,
)
_WRAPPERS = ("env", "exec", "nice", "nohup", "stdbuf", "timeout", "numactl", "tini", "dumb-init", "catatonit",
             "docker-init", "nvidia_entrypoint.sh", "xvfb-run")  # fmt: skip
"""Programs that become, or start, the program after their options."""
_AS_A_USER = ("gosu", "su-exec", "s6-setuidgid", "setuidgid")
"""Those whose first word is the user that the program runs as."""
_OPTION = re.compile(r"-|\d|[A-Za-z_]\w*=|[A-Z_\d]+$")
"""An option of a wrapper, or its value: a number, a variable, the name of a signal."""
_WORDS = (*KEYWORDS, "!", "exec", "sudo", "command", "set")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_NEVER_FAIL = ("true", ":", "echo", "printf")
_DEPTH = 4
_SIGN = re.compile(r"&&|\|\||\|&|[;&|()]")


class Command(Struct, frozen=True):
    """One command. `maybe`: it runs only under a condition."""

    argv: tuple[str, ...]
    line: int
    maybe: bool = False
    tolerated: bool = False
    """Whether the build goes on if it fails: `|| true` comes after it."""
    variables: dict[str, str] = {}
    """Variables that decide what is installed or compiled, or what a program sees: set by ENV, ARG or export, or for
    this command alone."""
    set_at: dict[str, str] = {}
    """Where commands before it set its variables: "build.sh:3", or the line of the file, "12"."""
    text: str = ""
    """The command as written, its words separated by single spaces."""
    writes: str = ""
    """The file that its output goes to."""
    script: str = ""
    """The place in the script that it stands in, such as "install.sh:12"; `line` is where the build runs that."""
    written: str = ""
    """The command as it stands in the file, with its quotes and variables; "" for the words of the exec form."""

    @property
    def shown(self) -> str:
        """The command, with its place in a script."""
        return f"{self.script.replace(':', ', line ')}: {self.text}" if self.script else self.text


def commands(
    run: Instruction, variables: Mapping[str, str], bounds: Bounds, names: Sequence[str] = ()
) -> Iterator[Command]:
    """The commands that a RUN starts. `variables` are the known values of ENV and ARG, `names` those that commands
    keep besides what installers read. A text that no shell accepts yields nothing. Raises BoundError."""
    shell = _Shell(variables, bounds, names)
    if run.argv is not None:
        yield from shell.called(run.argv, run.line, False, 0)
        return
    yield from shell.of_text(run.text, run.line, False, 0, Conditions())
    for document in run.documents:
        yield from shell.of_script(document.text, document.line)


def script_commands(
    text: str, path: str, run: Command, variables: Mapping[str, str], bounds: Bounds, names: Sequence[str] = ()
) -> Iterator[Command]:
    """The commands of a script that a command runs. What its arguments and functions decide is unknown. Raises
    BoundError."""
    for one in _Shell(variables, bounds, names).of_script(text, 1):
        set_at = {**run.set_at, **{name: f"{path}:{at}" for name, at in one.set_at.items()}}
        yield replace(one, line=run.line, maybe=one.maybe or run.maybe, script=f"{path}:{one.line}", set_at=set_at)


class _List:
    """The commands of one list of `&&` and `||`, of which it is known at the end whether the build tolerates that
    they fail."""

    def __init__(self) -> None:
        self.commands: list[Command] = []
        self._starts = [0]
        """Where the list begins: that of each open group, too."""
        self._after_or = False

    @property
    def ended(self) -> bool:
        return self._starts == [len(self.commands)]

    def command(self, name: str) -> None:
        """A command begins. What comes before `||` and one that never fails is tolerated."""
        if self._after_or and name in _NEVER_FAIL:
            start = self._starts[-1]
            self.commands[start:] = [replace(one, tolerated=True) for one in self.commands[start:]]
        self._after_or = False

    def sign(self, sign: str) -> None:
        self._after_or = sign == "||"
        if sign == "(":
            self._starts.append(len(self.commands))
        elif sign == ")" and len(self._starts) > 1:
            self._starts.pop()
        elif sign in (";", "&"):
            self._starts[-1] = len(self.commands)

    def taken(self) -> Iterator[Command]:
        yield from self.commands
        self.commands, self._starts = [], [0]


class _Shell:
    """The shell that runs the commands, with the known variables and those that the commands export."""

    def __init__(self, variables: Mapping[str, str], bounds: Bounds, names: Sequence[str]) -> None:
        self._known: ChainMap[str, str] = ChainMap({}, variables)  # type: ignore[arg-type]
        self._bounds, self._names = bounds, (*_OF_INSTALLERS, *names)
        self._set_at: dict[str, str] = {}
        self._of_programs = {name for name in OF_PROGRAMS if name in variables}
        """Variables of programs that are surely set here: not under a condition, nor for the shell alone."""

    def of_script(self, text: str, line: int) -> Iterator[Command]:
        """A script, in which a line break ends a command."""
        if text.startswith("#!") and not re.match(r"#!\S*(?:/|env )\w*sh\b", text):
            return
        pending: list[str] = []
        first, conditions = line, Conditions()
        for number, part in enumerate(text.split("\n"), start=line):
            if not pending:
                first = number
            code = "" if part.lstrip().startswith("#") else part
            pending.append(code.removesuffix("\\") + (" \n" if code.endswith("\\") else ""))
            if code.endswith("\\"):
                continue
            whole = "".join(pending)
            pending = []
            if whole.strip():
                yield from self.of_text(whole, first, False, 0, conditions)

    def of_text(self, text: str, line: int, maybe: bool, level: int, conditions: Conditions) -> Iterator[Command]:
        words: list[str] = []
        listed = _List()
        at, start, end = line, 0, 0
        last = Token(Sign(), line, len(text), len(text))
        tokens = itertools.chain(shell_words(text, line, self._bounds), (last,))
        try:
            for token, place, begins, ends in tokens:
                if not isinstance(token, Sign) or not set(token) <= set(";&|()"):
                    if isinstance(token, Sign) and words and end == begins and words[-1].isdigit():
                        words.pop()  # the 2 of `2>&1` is no word
                    if not words:
                        at, start = place, begins
                    words.append(token)
                    end = ends
                    continue
                if words:
                    listed.command(words[0])
                    conditions.command(words, [self._whole(word) for word in words])
                    if conditions.runs is not False:
                        for one in self._simple(tuple(words), at, maybe or conditions.runs is None, level):
                            listed.commands.append(replace(one, written=one.written or text[start:end]))
                    words = []
                signs = _SIGN.findall(token)
                self._bounds.words.spend(len(signs))
                for sign in signs:
                    conditions.sign(sign)
                    listed.sign(sign)
                if listed.ended:
                    yield from listed.taken()
        except UnclosedError:
            pass
        yield from listed.taken()
        conditions.sign(";")

    def _simple(self, words: tuple[str, ...], line: int, maybe: bool, level: int) -> Iterator[Command]:
        """One simple command, without the keywords, redirections and assignments before it."""
        assigned: dict[str, str] = {}
        rest = list(_without_redirections(words))
        first = 0
        while first < len(rest) and (
            rest[first] in _WORDS or _ASSIGNMENT.match(rest[first]) or (rest[first].startswith("-") and not assigned)
        ):
            if rest[first] in ("for", "case", "set"):
                return
            if _ASSIGNMENT.match(rest[first]):
                self._assign(rest[first], assigned)
            first += 1
        keyword = next(iter(rest[first:]), "")
        if keyword in ("export", "env"):
            first += 1
            while first < len(rest) and _ASSIGNMENT.match(rest[first]):
                self._assign(rest[first], assigned)
                first += 1
        if keyword in ("", "export"):
            self._known.update(assigned)
            self._set_at.update(dict.fromkeys(assigned, str(line)))
            if keyword == "export" and not maybe:
                self._of_programs.update(name for name in (*assigned, *rest[first:]) if name in OF_PROGRAMS)
            else:
                self._of_programs -= assigned.keys()
            return
        scope = ChainMap(assigned, self._known) if assigned else self._known
        if keyword == "unset":
            self._of_programs.difference_update(rest[first:])
        argv = tuple(part for word in rest[first:] for part in self._parts(word, scope))
        own = tuple(name for name in assigned if name in OF_PROGRAMS)
        for command in self.called(argv, line, maybe, level):
            kept = self._kept(scope, own)
            set_at = {name: at for name, at in self._set_at.items() if name in kept and name not in assigned}
            yield replace(command, variables=kept, set_at=set_at, writes=_written(words))

    def _whole(self, word: str) -> str:
        return partly_expanded(word, self._known, self._bounds)

    def _parts(self, word: str, scope: Mapping[str, str]) -> tuple[str, ...]:
        """The words that a word becomes: what a variable holds is split at blanks, unless it is quoted."""
        text = partly_expanded(word, scope, self._bounds)
        if isinstance(word, Quoted) or text == word:
            return (text,)
        parts = tuple(text.split())
        self._bounds.words.spend(len(parts))
        return parts

    def _assign(self, word: str, assigned: MutableMapping[str, str]) -> None:
        name, _, value = word.partition("=")
        assigned[name] = self._whole(value)

    def called(self, argv: tuple[str, ...], line: int, maybe: bool, level: int) -> Iterator[Command]:
        """The command itself, or the commands of the text that it passes to a shell."""
        if not argv:
            return
        text = text_for_shell(argv) if level < _DEPTH else None
        if text is not None:
            yield from self.of_text(text, line, maybe, level + 1, Conditions())
            return
        self._bounds.commands.spend()
        yield Command(argv, line, maybe, variables=self._kept(self._known), text=" ".join(argv))

    def _kept(self, known: Mapping[str, str], own: tuple[str, ...] = ()) -> dict[str, str]:
        return {name: known[name] for name in (*self._names, *self._of_programs, *own) if name in known}


def _without_redirections(words: tuple[str, ...]) -> Iterator[str]:
    skip = False
    for word in words:
        if isinstance(word, Sign) and set(word) <= set("<>&"):
            skip = True
        elif skip:
            skip = False
        else:
            yield word


def _written(words: tuple[str, ...]) -> str:
    return next((target for sign, target in itertools.pairwise(words) if sign in (">", ">>")), "")


def behind_wrapper(argv: Sequence[str]) -> tuple[str, ...]:
    """The program behind `tini --`, `env A=b`, `gosu USER` and their like; () where nothing is behind."""
    at = 0
    while at < len(argv) and (name := os.path.basename(argv[at])) in (*_WRAPPERS, *_AS_A_USER):
        at += 1 + (name in _AS_A_USER)
        while at < len(argv) and _OPTION.match(argv[at]):
            at += 1
    return tuple(argv[at:])


def text_for_shell(argv: Sequence[str]) -> str | None:
    """The text of `sh -c TEXT`, also behind `tini --` and its like; None for other commands."""
    words = behind_wrapper(argv)
    if not words or os.path.basename(words[0]) not in SHELLS:
        return None
    pairs = itertools.pairwise(words)
    return next((text for word, text in pairs if re.fullmatch(r"-[a-z]*c", word)), None)


def found_in_turn(text: str, *patterns: re.Pattern[str]) -> bool:
    """Whether each pattern is found after the one before. One pattern with `.*` would search a long text
    repeatedly."""
    end = 0
    for pattern in patterns:
        if (found := pattern.search(text, end)) is None:
            return False
        end = found.end()
    return True
