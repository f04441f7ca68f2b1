"""Sentences that name several releases of torch: which of them is the present one, if the words say so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import NamedTuple

from gpudoctor.intake.text.circumstances import is_sentence
from gpudoctor.intake.text.facts import Facts
from gpudoctor.intake.text.lines import Line
from gpudoctor.late_regex import late
from gpudoctor.matrix.questions import Matrix

_BUILD = r"(?:cu\d{2,3}|rocm\d\.\d(?:\.\d)?|cpu)"
_NAMED = late(
    rf"(?i)(?<![\w.+=/-])(?:(?:py)?torch[ `]{{0,2}}v?(?P<torch>\d\.\d{{1,2}}(?:\.\d{{1,2}})?(?:\+{_BUILD})?)"
    r"(?:(?:[ (,/+]{1,3}| (?:built )?(?:with|for|from|of) (?:the )?)"
    r"(?P<build>cu1[0-3]\d|rocm\d\.\d|cuda ?1[1-3](?:\.\d)?))?"
    rf"|(?P<alone>[1-9]\.\d{{1,2}}\.\d{{1,2}}\+{_BUILD}))"
    r"(?![\w+]|\.\d)"
)
_ELSEWHERE = late(
    r"(?i)(?:\b(?:requires?|needs?|(?:built|compiled) (?:for|with|against)|compatible with|supports?|latest|try|tried"
    r"|(?:want(?:s|ed)?|would like|plan|going) to \w+|(?:an|the )?other (?:machine|computer|pc|server|env)\b.{0,40}"
    r"|should|if|since|until|up to|older than|newer than)\b|[<>=])[^,;]{0,12}$"
)
"""What stands before a release that nobody says to have or to have had."""
_WORDS = late(
    r"(?i)(?P<now>\b(?:now|currently|(?:(?:up|down)grad|updat|switch|mov)\w+ to)\b)"
    r"|(?P<present>\b(?:uses?|using|have|am on|running|installed|kept|keeps?)\b|[-=]>|\u2192)"
    r"|(?P<past>\b(?:from|instead of|rather than|(?<!is )(?<!was )replac(?:e|es|ed|ing)|had|first|previously"
    r"|originally|earlier|old|uninstall(?:ed|ing)|remov(?:ed|ing)|yesterday|unlike)\b)"
)
"""Words before a release: of several the last one counts, but for "first" and "now"."""
_BEHIND = late(
    r"(?i)^[^,;]{0,24}?\b(?:before|by mistake|earlier|previously|(?:is|was) replaced|dropped|(?:did|could) ?n[o']t)\b"
)
"""Words behind a release that was replaced."""
_ENDS = late(r"(?<=[.!?;])\s+")
_MOST = 100
"""Mentions of a text that are looked at."""
_CUDA_BESIDE = "cuda"
"""Label of a release beside which a CUDA is named."""
_STATES = ("now", "present", "", "past", "elsewhere")
"""From what tells most that a release is the present one."""
_OF_NOW = ("now", "present", "")
_SEVERAL = 2
_PLATFORM = "linux-x86_64"


class _Mention(NamedTuple):
    version: str
    state: str
    line: int


def read_replaced(lines: Iterable[Line], facts: Facts, matrix: Matrix) -> None:
    """Where sentences alone tell the torch: the one that they call the present one, else none. Of a single one they
    must name the build, too."""
    found = list(islice(chain.from_iterable(map(_mentions, lines)), _MOST))
    found = [_of_published_build(mention, matrix) for mention in found]
    spoken = {mention.line for mention in found}
    others = [one for one in facts.said if one.what.startswith("torch")]
    if len(_apart(found)) < _SEVERAL:
        one = found[0] if found else None
        if one and not others and one.state in _OF_NOW and "+" in one.version:
            facts.say("torch", one.version, one.line, "prose")
        return
    others = [one for one in others if one.what == "torch"]
    if any(one.line not in spoken or one.by not in ("prose", "program") for one in others):
        return
    facts.said = [one for one in facts.said if one.what not in ("torch", "torch cuda") or one.line not in spoken]
    best = min((mention.state for mention in found), key=_STATES.index)
    chosen = _apart([mention for mention in found if mention.state == best])
    if len(chosen) == 1 and best in _OF_NOW:
        facts.say("torch", chosen[0].version, chosen[0].line, "prose")


def _mentions(line: Line) -> Iterator[_Mention]:
    """The releases that a sentence names, each with what the words around it say of it."""
    if not ("orch" in line.text or "+" in line.text) or "==" in line.text:
        return
    if not (is_sentence(line.text) or _NAMED.fullmatch(line.text.strip("-* "))):
        return
    for sentence in _ENDS.split(line.text):
        places = list(_NAMED.finditer(sentence))
        for number, place in enumerate(places):
            before = sentence[places[number - 1].end() if number else 0 : place.start()]
            after = sentence[place.end() : places[number + 1].start() if number + 1 < len(places) else None]
            version = place["torch"] or place["alone"]
            if place["build"]:
                version = f"{version if version.count('.') > 1 else f'{version}.0'}+{_label(place['build'].lower())}"
            yield _Mention(version, _state(before, after), line.number)


def _label(build: str) -> str:
    """ "cu121" of "cuda 12.1", and "cu130" of "cuda 13"."""
    numbers = build.removeprefix("cuda").strip()
    if numbers == build:
        return build
    return f"{_CUDA_BESIDE}{numbers if '.' in numbers else f'{numbers}.0'}"


def _of_published_build(mention: _Mention, matrix: Matrix) -> _Mention:
    """A mention without the CUDA that stands beside it where torch was never built for that: it is the toolkit's."""
    release, _, numbers = mention.version.partition(f"+{_CUDA_BESIDE}")
    build = f"cu{numbers.replace('.', '')}"
    if not numbers:
        return mention
    published = build in matrix.torch.published_builds(release, _PLATFORM)
    return mention._replace(version=f"{release}+{build}" if published else release)


def _state(before: str, after: str) -> str:
    words = [found.lastgroup or "" for found in _WORDS.finditer(before)]
    if _ELSEWHERE.search(before):
        return "elsewhere"
    if "now" in words:
        return "now"
    if _BEHIND.match(after) or "first" in before.lower().split():
        return "past"
    return words[-1] if words else ""


def _apart(found: list[_Mention]) -> list[_Mention]:
    """One mention of each release; the one that tells most of it."""
    kept: list[_Mention] = []
    for mention in sorted(found, key=lambda one: -len(one.version)):
        if not any(one.version.startswith(mention.version) for one in kept):
            kept.append(mention)
    return kept
