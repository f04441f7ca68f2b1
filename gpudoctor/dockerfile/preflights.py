"""`gpudoctor preflight` among the words of a container: what it starts, and what it requires."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from gpudoctor.dockerfile.commands import behind_wrapper, text_for_shell
from gpudoctor.dockerfile.image import Start
from gpudoctor.requirement import Requirement, RequirementError, parse, split_requirements

_FLAGS = ("-q", "-v", "-qv", "-vq", "--quiet", "--verbose", "--set-env")
"""Options of a preflight that take no value."""
_LENIENT = re.compile(r"--fail-on|--select|--ignore.*(?:910|requirement-not-met)")
"""Options after which what is required may be missing."""


class NeededGpus(Struct, frozen=True):
    """How many GPUs a preflight requires at least, and by which requirement."""

    count: int
    requirement: str


def is_preflight(words: Sequence[str]) -> bool:
    """Whether the words are a `gpudoctor preflight`."""
    own = behind_wrapper(words)[:4]
    return any(
        word == "preflight" and re.fullmatch(r"gpudoctor(-cli|\.pyz)?", posixpath.basename(before))
        for before, word in pairwise(own)
    )


def started_by_preflight(words: Sequence[str]) -> list[str]:
    """The command of a preflight: after `--`, else the first word that is no option; [] without one."""
    return _parted(words)[1]


def words_before(entrypoint: Start | None, words: Sequence[str]) -> tuple[str, ...]:
    """The words of an ENTRYPOINT such as `sh -c`, for whose shell the words of CMD are a text; () for another one."""
    if entrypoint is None or entrypoint.shell or text_for_shell(entrypoint.words) is not None:
        return ()
    return entrypoint.words if text_for_shell((*entrypoint.words, *words)) is not None else ()


def runs_preflight(start: Start | None) -> bool:
    """Whether an ENTRYPOINT or CMD runs a preflight, itself or in a script."""
    if start is None:
        return False
    return is_preflight(start.words) or any(is_preflight(step.command.argv) for step in start.steps)


def needed_gpus(starts: Sequence[Start | None], variables: Mapping[str, str]) -> NeededGpus | None:
    """The GPUs that a container needs for its preflight to pass; None without one that surely runs."""
    preflights = [words for one in starts if one is not None for words in _sure_preflights(one)]
    if not preflights or variables.get("GPUDOCTOR_SKIP") or variables.get("GPUDOCTOR_FAIL_ON"):
        return None
    found = None
    for words in preflights:
        options = _parted(words)[0]
        if _LENIENT.search(" ".join(options)):
            continue
        pairs = pairwise((*options, ""))
        texts = [after if name == "--require" else name[10:] for name, after in pairs if name[:9] == "--require"]
        for text in (*texts, *variables.get("GPUDOCTOR_REQUIRE", "").split(";")):
            for one in _requirements(text):
                count = int(one.values[0]) + (one.operator == ">") if one.name == "gpu" else 1
                if one.needs_gpu and (found is None or count > found.count):
                    found = NeededGpus(max(count, 1) if one.operator in (">=", "==", ">") else 1, one.text)
    return found


def _sure_preflights(start: Start) -> Iterator[Sequence[str]]:
    if is_preflight(start.words):
        yield start.words
        return
    for step in start.steps:
        if is_preflight(step.command.argv) and not step.command.maybe and not step.command.tolerated:
            yield step.command.argv


def _requirements(text: str) -> Iterator[Requirement]:
    for one in split_requirements(text) if text.strip() and "$" not in text else ():
        try:
            yield parse(one)
        except RequirementError:
            continue


def _parted(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The options of a preflight, and its command."""
    rest = list(words)[list(words).index("preflight") + 1 :]
    options: list[str] = []
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option == "--":
            break
        options.append(option)
        if option not in _FLAGS and "=" not in option:
            options += rest[:1]
            rest = rest[1:]
    return options, rest
