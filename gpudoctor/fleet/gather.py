"""From what engines bring back to exactly one document for each node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpudoctor.fleet.engines.order import Answer
from gpudoctor.fleet.node import failure, named


def documents(
    expected: Sequence[str], answers: Iterable[Answer], why_missing: Mapping[str, str], default: str
) -> list[dict[str, Any]]:
    """One document for each node: those expected in their order, then those that nobody expected.

    `why_missing`: what the engine says of a node that did not answer; else `default` is the reason.
    """
    by_node: dict[str, list[Answer]] = defaultdict(list)
    for answer in answers:
        by_node[_node(answer, expected)].append(answer)
    names = [*expected, *(node for node in by_node if node not in expected)]
    return [_document(node, by_node.get(node, []), expected, why_missing.get(node) or default) for node in names]


def _node(answer: Answer, expected: Sequence[str]) -> str:
    """Whose answer it is. Where the engine does not know, the answer's own name counts, with or without domain."""
    if answer.node or answer.claimed in expected:
        return answer.node or answer.claimed
    short = answer.claimed.partition(".")[0]
    return short if short in expected else answer.claimed


def _document(node: str, answers: list[Answer], expected: Sequence[str], why_missing: str) -> dict[str, Any]:
    if not answers:
        return failure(node, why_missing)
    if len(answers) > 1:
        return failure(node, f"{len(answers)} nodes answered with this name")
    (answer,) = answers
    # An alias may differ from the host's own name; the name of another node that was asked is a wrong answer.
    if answer.node and answer.claimed != node and answer.claimed in expected:
        return failure(node, f"answered with the name of another node: {answer.claimed}")
    if answer.document is None:
        return failure(node, answer.failure)
    return named(node, answer.document, answer.claimed)
