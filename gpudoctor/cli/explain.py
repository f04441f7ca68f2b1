"""`explain`: what a problem means, or an error message that somebody saw."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from gpudoctor.check import Check
from gpudoctor.cli.command import command
from gpudoctor.cli.completion import checks
from gpudoctor.cli.options import data_option, matrix_option, plugin_option
from gpudoctor.engine import Suite
from gpudoctor.host import InputError
from gpudoctor.host.input_file import STDIN, read_given, reason_of
from gpudoctor.matrix.names import loose_key
from gpudoctor.plain_text import enumeration, is_command, questions
from gpudoctor.render.explanation import print_explanation
from gpudoctor.render.lines import print_lines, printable
from gpudoctor.render.next_command import next_line
from gpudoctor.situation import Situation

if TYPE_CHECKING:
    from gpudoctor.matrix.errors import Message
    from gpudoctor.matrix.gpu_models import Identity
    from gpudoctor.matrix.questions import Matrix

_LIMIT = 1 << 20
_LINE = 300
_UNKNOWN = 3
_UNQUOTED = re.compile(r"\b(No module named|cannot import name|has no attribute) (\w[\w.]*)")
"""Words of Python's that a shell took the quotes of."""
_GPU = 60
"""Characters of the longest name of a GPU."""
_NAME = re.compile(r"(?i)[a-z]{2,8}\d{1,3}|\d+|\w+(-\w+)+")
"""How an id or a slug looks; any other word is a text that says what it is about."""
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@command()
@click.argument("words", metavar="ID|SLUG|TEXT", nargs=-1, required=True, shell_complete=checks)
@data_option
@matrix_option
@plugin_option
def explain(words: tuple[str, ...], style: str | None, overlays: tuple[str, ...], plugins: tuple[str, ...]) -> int:
    """Tell what a problem or an error message means.

    A problem is named by its id or slug. An error message is given as it was printed, or read from stdin (-): what it
    means, its causes with the likeliest first, and what decides between them.

    \b
    Examples:
      gpudoctor explain GPD402
      gpudoctor explain torch-no-arch-for-gpu
      gpudoctor explain "no kernel image is available"
      python train.py 2>&1 | gpudoctor explain -
    """
    from gpudoctor.matrix.load import load_matrix
    from gpudoctor.suites import image_checks, machine_checks

    suite, matrix = machine_checks(plugins), load_matrix(overlays)
    name = " ".join(words)  # a message that was not quoted
    if name != "-" and (found := _checks_of(name, suite)):
        return _tell_checks(found, style)
    text = _ESCAPES.sub("", _from_stdin() if name == "-" else name)
    messages = matrix.errors.messages_named(name) or _messages_in(text, matrix)
    word = name if name != "-" and re.fullmatch(r"[\w.-]+", name) else ""
    if not messages and (naming := _with_slugs_of(word, suite)):
        return _tell_naming(word, naming, style)
    messages = messages or _messages_in(_UNQUOTED.sub(r"\1 '\2'", text), matrix)
    if not messages and (gpu := _gpu_of(name, matrix)):
        return _tell_gpu(name, gpu, style)
    messages = messages or matrix.errors.messages_like(text) or _complaints(text, matrix)
    if not messages and word:
        said = re.compile(rf"\b{re.escape(word)}\b", re.IGNORECASE)
        every: tuple[Check[Any], ...] = (*suite, *image_checks())
        if naming := [one for one in every if said.search(one.explanation)]:
            return _tell_naming(word, naming, style)
        if _NAME.fullmatch(word):
            suite.named(word)  # raises: what is near to it
    return _tell_messages(text, messages, suite, style)


def _checks_of(name: str, suite: Suite[Situation]) -> list[Check[Any]]:
    """The check of an id or slug, or those that a prefix names. Raises InputError where a prefix names several."""
    try:
        named = suite.named(name)
    except InputError:
        return []
    found = [check for check in named if check.id in (name.upper(), f"GPD{name}") or name == check.slug]
    if not found:
        ids = enumeration([check.id for check in named], 6)
        raise InputError(f"{name!r} names several checks ({ids}): give one id or slug")
    return found


def _with_slugs_of(word: str, suite: Suite[Situation]) -> list[Check[Situation]]:
    """The checks whose slugs have a word: "igpu", or CUDA_VISIBLE_DEVICES."""
    part = f"-{word.lower().replace('_', '-')}-"
    return [one for one in suite if word and part in f"-{one.slug}-"]


def _from_stdin() -> str:
    try:
        return read_given(STDIN, _LIMIT, pipes=True)[:_LIMIT].decode("utf-8", "replace")
    except (OSError, ValueError) as error:
        raise InputError(f"stdin: cannot be read: {reason_of(error)}") from None


_LOOKS_FOR = {"GPD5": ("smoke",), "GPD6": ("dockerfile", "."), "GPD7": ("fleet", "check", "--help")}
"""The command that looks for a problem, by the first characters of its id; of the others it is `check`."""

# --- checks -----------------------------------------------------------------------------------------


def _tell_checks(found: Sequence[Check[Any]], style: str | None) -> int:
    if style == "json":
        return _print_json([(check.id, check.title, (check.slug,), "") for check in found])
    then = _LOOKS_FOR.get(found[0].id[:4], ("check",))
    text = "\n\n".join(f"# {check.id} {check.slug}\n\n{check.explanation}" for check in found)
    print_explanation(text, sys.stdout, ("gpudoctor", *then))
    return 0


def _tell_naming(name: str, found: Sequence[Check[Any]], style: str | None) -> int:
    """The checks that have a word in their slugs or explanations, such as a variable."""
    if style == "json":
        return _tell_checks(found, style)
    click.echo("\n".join((f"{name} is named by:", *(f"  {one.id} {one.slug}: {one.title}" for one in found))))
    print_lines([next_line(("gpudoctor", "explain", found[0].id))], sys.stdout, color=True)
    return 0


def _gpu_of(name: str, matrix: Matrix) -> Identity | None:
    """The GPU that a text is no more than the name of: "RX 6700 XT", gfx1036."""
    found = matrix.gpus.gpus_by_name(name) if len(name) <= _GPU else ()
    return next((gpu for gpu in found if name.lower() == gpu.arch or loose_key(name) in loose_key(gpu.name)), None)


def _tell_gpu(name: str, gpu: Identity, style: str | None) -> int:
    """What to ask about a GPU: it is neither a problem nor a message."""
    if style == "json":
        _print_json([])
    else:
        click.echo(
            f"{name} is a GPU ({gpu.arch}), neither a problem nor an error message. Its torch, and how a build fits "
            f"it:\n  gpudoctor recommend --gpu {quote(name)}\n  gpudoctor whatif --gpu {quote(name)} --torch VERSION"
        )
    return _UNKNOWN


# --- messages ---------------------------------------------------------------------------------------


def _messages_in(text: str, matrix: Matrix) -> tuple[Message, ...]:
    """The known messages in the order of the text; a line of the kernel log is marked as one."""
    logged = matrix.errors.log_messages_in(text)
    numbers = {message.number for message in logged}
    errors = (message for message in matrix.errors.messages_in(text) if message.number not in numbers)
    return tuple(sorted((*logged, *errors), key=lambda message: message.number))


def _complaints(text: str, matrix: Matrix) -> tuple[Message, ...]:
    """What a text says in other words, where no program's message is known: what torch answered, or a complaint."""
    from gpudoctor.intake.text.reading import read_text
    from gpudoctor.matrix.errors import Message

    machine = read_text(text.encode(), matrix)
    if answered := matrix.errors.messages_in("\n".join(machine.errors)):
        return answered
    rows = {row.id: row for row in matrix.tables.told_circumstances}
    return tuple(Message(rows[one.circumstance], one.text, one.line) for one in machine.text.told if one.complains)


def _tell_messages(text: str, messages: tuple[Message, ...], suite: Suite[Situation], style: str | None) -> int:
    if style == "json":
        _print_json([(one.id, one.meaning, one.causes, one.ask) for one in messages])
    elif len(messages) > 1 and all(message.row.slug == text != message.id for message in messages):
        then = ("gpudoctor", "explain", messages[0].id)
        print_explanation(cause_explained(text, messages, titles_of(suite)), sys.stdout, then)
    elif messages:
        titles = titles_of(suite)
        lines = Counter(message.number for message in messages)
        told = (message_explained(one, titles, of_vendor=lines[one.number] > 1) for one in messages)
        print_explanation("\n\n".join(told), sys.stdout, ("gpudoctor", "check"))
    else:
        click.echo(_unknown(text, suite))
    return 0 if messages else _UNKNOWN


def titles_of(suite: Suite[Situation]) -> dict[str, str]:
    """What each cause is, by its slug."""
    return OTHER_CAUSES | {check.slug: check.title for check in suite}


def cause_explained(slug: str, messages: tuple[Message, ...], titles: dict[str, str]) -> str:
    """A cause that several messages have, in Markdown: what it is, and these messages in short."""
    listed = "\n".join(f"- `{message.id}`: {message.meaning}" for message in messages)
    more = "`gpudoctor explain` with the name of a message tells what decides and what helps."
    return "\n\n".join([f"# {slug}", titles.get(slug, ""), "## Messages with this cause", listed, more])


def message_explained(message: Message, titles: dict[str, str], *, of_vendor: bool = False) -> str:
    """A message in Markdown: what it means, its causes, what decides, what helps; with `of_vendor` also whose GPUs
    print it."""
    whose = _WHOSE.get(message.vendor, "") if of_vendor else ""
    parts = [f"# {message.id}{whose}", f"    {printable(message.line)[:_LINE]}", f"It means: {message.meaning}."]
    if message.causes:
        heading = "Possible causes, most likely first" if len(message.causes) > 1 else "The cause"
        causes = "\n".join(
            f"{number}. `{slug}`: {titles.get(slug, '')}" for number, slug in enumerate(message.causes, 1)
        )
        parts += [f"## {heading}", causes]
    if message.ask:
        parts.append("## To be sure")
        for commands, asked in groupby(questions(message.ask), is_command):
            parts.append("\n".join(f"{'    ' if commands else '- '}{one}" for one in asked))
    if message.help:
        parts += ["## What helps", message.help]
    return "\n\n".join(parts)


_ORDINARY = frozenset((
    "after", "and", "another", "back", "both", "build", "built", "down", "each", "failed", "fails", "for", "found",
    "from", "known", "needed", "not", "off", "older", "only", "other", "run", "second", "seen", "several", "than",
    "too", "two", "with", "without",
))  # fmt: skip
"""Words of slugs that are in any text."""
_ALIKE = 0.25
"""The weight of one word that four checks have."""


def _unknown(text: str, suite: Suite[Situation]) -> str:
    """A text for an unknown message, with the checks whose names share most with it: a rare word weighs more, and one
    that many names have, or that names nothing, is chance."""
    having = Counter(word for check in suite for word in _words(check.slug))
    words = (_words(text) & having.keys()) - _ORDINARY
    shared = {check: sum(1 / having[word] for word in words & _words(check.slug)) for check in suite}
    telling = (check for check in suite if shared[check] >= _ALIKE or len(words & _words(check.slug)) > 1)
    near = sorted(telling, key=lambda check: -shared[check])[:3]
    lines = ["gpudoctor knows no error message in this text."]
    if near:
        lines += ["The nearest problems that it checks for:", *(f"  {check.slug}: {check.title}" for check in near)]
    lines.append("`gpudoctor list` lists all; `gpudoctor check` examines this machine.")
    return "\n".join(lines)


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]{3,}", text.lower()))


_WHOSE = {"nvidia": " (NVIDIA GPUs)", "amd": " (AMD GPUs)"}
"""By vendor, where one line means something else on each vendor's GPUs."""
OTHER_CAUSES = {
    "c-compiler-missing": "There is no C or C++ compiler, which Triton and torch.compile need.",
    "cuda-toolkit-mismatch": "The CUDA toolkit does not match torch, the GPU or the compiler.",
    "cuda-toolkit-missing": "A package compiles CUDA code, and there is no CUDA toolkit.",
    "extension-abi": "A compiled package was built for another torch.",
    "glibc-too-old": "The system's C library is older than a program needs.",
    "gpu-too-old-for-feature": "The GPU is older than one function of the program needs.",
    "harmless": "Nothing is wrong.",
    "imex-not-running": "NVIDIA's IMEX service does not connect the nodes of one NVLink domain.",
    "mps-not-answering": "The CUDA MPS server does not answer, or refuses the program.",
    "nccl-network": "NCCL cannot reach the other processes over the network.",
    "numpy-mismatch": "A package was built for another NumPy than the installed one.",
    "package-wheel-missing": "The index has no wheel of a GPU package for this Python and platform.",
    "triton-missing": "Triton is missing, or of another release than the program needs.",
}
"""Causes that only error messages name: no check looks for them."""


# --- JSON -------------------------------------------------------------------------------------------


def _print_json(matches: list[tuple[str, str, tuple[str, ...], str]]) -> int:
    from gpudoctor.render.documents import Explanation, Match
    from gpudoctor.render.json import to_json

    sys.stdout.write(to_json(Explanation(matches=tuple(Match(*match) for match in matches))))
    return 0
