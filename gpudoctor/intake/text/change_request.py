"""Texts that propose a change of a program: what they quote is what the change is about, and no complaint."""

from __future__ import annotations

import re

from gpudoctor.intake.text.lines import Line, text_of
from gpudoctor.late_regex import late

_TITLE = late(
    r"\s*#?\s*(?:\[[A-Z]{2,10}-\d{1,6}\] )?"
    r"(?:(?:fix|feat|docs?|chore|refactor|tests?|ci|perf|build|style|revert)(?:\([^)\n]{1,60}\))?!?: \S"
    r"|(?:[Aa]dd|[Dd]ocument|[Ee]xplain|[Mm]ention|[Uu]pdate|[Ii]mprove)\b.{0,60}\b(?:note|section|docs?|documentation"
    r"|troubleshooting|readme|FAQ)\b)"
)
"""As people write the first line of a commit."""
_COMMIT = late(
    r"\s*#?\s*(?:fix|feat|docs?|chore|refactor|tests?|ci|perf|build|style|revert)(?:\([^)\n]{1,60}\))?!?: "
    r"(?P<rest>\S.*)"
)
"""A title that begins with the kind of a commit."""
_OF_A_DOCUMENT = late(
    r"\s*#?\s*(?:[Aa]dd|[Cc]orrect|[Ff]ix|[Ii]mprove|[Rr]emove|[Rr]ename|[Uu]pdate) (?:the )?"
    r"[\w./-]{1,60}\.(?:rst|md|adoc)\b(?!.*(?:\b(?:fail|error|not|wrong|broken)|n't\b))"
)
"""A title that tells what to do with a file of the documentation."""
_TAGGED = late(
    r"\s*#?\s*(?:\[[\w ./&-]{1,20}\]\s*){0,3}"
    r"(?:\[(?:ci|docs?|fix|bug-?fix|build|tests?|core|misc|minor|major|chore|refactor|perf|wip|rfc|frontend|kernels?"
    r"|model|deps?|release)(?:[ /:_-][\w ./-]{1,30})?\]\s*)+(?P<rest>\S.*)",
    re.I,
)
"""The same, with tags in brackets that no report of a fault carries."""
_DOES = late(
    r"(?i)(?:add|allow|automate|avoid|bump|change|cleanup|correct|detect|disable|drop|enable|enhance|ensure|expose|extend"
    r"|fix|guard|handle|implement|improve|introduce|load|make|migrate|move|pin|port|prevent|refactor|remove|rename|replace"
    r"|respect|revert|skip|support|switch|unify|update|upgrade|use)(?:e?s|ed)?\b"
)
"""How such a title begins."""
_SIGNS = late(
    r"(?im)^#{1,6} {0,3}(?:summary|test plan|testing|changes|what changed|validation|motivation|related issue"
    r"|description of changes|things done)\b"
    r"|\bthis (?:pr|pull request|commit|patch)\b|^(?:closes|fixes|resolves):? (?:#|https://github\.com/)"
    r"|\b(?:before|after) this pr\b|contributor licen[cs]e agreement|^pull request #\d"
    r"|\badr-\d{3,4}\b|^#{0,4} {0,3}(?:decision|consequences|considered (?:options|alternatives))$"
    r"|^(?:this|it) (?:adds|fixes|changes|removes|implements|introduces|moves)\b|(?-i:^Adds\b)"
    r"|\b(?:document|mention|explain)\b[^\n]{0,60}\b(?:in|to) (?:the |your )?(?:FAQ|docs?|documentation|readme)\b"
    r"|\bthis implementation\b|\b(?:similar to|follow-?up (?:to|of)|re-?land(?:s|ing)? of|as in)\b[^\n]{0,80}/pull/\d"
    r"|\b\d{1,6} passed\b|\bbehaviou?r (?:is|stays|remains) unchanged\b|\bno functional changes?\b"
    r"|\bwill (?:fix|resolve|address) th(?:e|is) (?:issue|problem|error|failure)\b"
    r"|^#{1,4} {0,3}(?:pull request|purpose|test result|why are these changes needed|what this pr does)\b"
)
_MOST_BEFORE = 5
"""Lines before the title."""
_MOST_LINES = 200
"""Lines in which a change is described."""
_ENOUGH = 2
"""Signs that need no title."""


def is_change_request(lines: tuple[Line, ...]) -> bool:
    """Whether the text is a pull request, the message of a commit, or the record of a decision."""
    signs = {sign[0].lower() for sign in _SIGNS.finditer(text_of(lines[:_MOST_LINES]))}
    if len(signs) >= _ENOUGH:
        return True
    first = [line.text for line in lines[:_MOST_BEFORE]]
    tagged = next(filter(None, map(_TAGGED.match, first)), None)
    commit = next(filter(None, map(_COMMIT.match, first[:1])), None)
    if any(title and _DOES.match(title["rest"]) for title in (tagged, commit)):
        return True
    if first and _OF_A_DOCUMENT.match(next(filter(str.strip, first), "")):
        return True
    return bool(signs) and (tagged is not None or any(map(_TITLE.match, first)) or _is_order(first))


def _is_order(first: list[str]) -> bool:
    """Whether the title says what to do: "Bump torch to 2.8"."""
    title = next(filter(None, map(str.strip, first)), "").lstrip("# ")
    return (
        re.match(r"[A-Z]|(?:added|fixed|removed|updated)\b", title) is not None
        and _DOES.match(title) is not None
        and not title.endswith("?")
    )
