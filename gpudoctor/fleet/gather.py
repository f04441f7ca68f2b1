"""Makes exactly one document for each node from what engines bring back."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any

from gpudoctor.fleet.engines.order import Answer
from gpudoctor.fleet.node import document_of, failure


def documents(expected: Sequence[str], answers: Iterable[Answer]) -> list[dict[str, Any]]:
    """One document for each node: those expected in their order, then those that nobody expected."""
    by_node: dict[str, list[Answer]] = {node: [] for node in expected}
    for answer in answers:
        by_node.setdefault(_node(answer, by_node), []).append(answer)
    return [_document(node, came, frozenset(expected)) for node, came in by_node.items()]


def _node(answer: Answer, expected: Container[str]) -> str:
    """Whose answer it is. Where the engine does not know, the answer's own name counts, with or without domain."""
    if answer.node or answer.claimed in expected:
        return answer.node or answer.claimed
    short = answer.claimed.partition(".")[0]
    return short if short in expected else answer.claimed


def _document(node: str, answers: list[Answer], expected: Container[str]) -> dict[str, Any]:
    if not answers:
        return failure(node, "no answer came from it")
    if len(answers) > 1:
        return failure(node, f"{len(answers)} nodes answered with this name")
    (answer,) = answers
    # An alias may differ from the host's own name; the name of another node that was asked is a wrong answer.
    if answer.node and answer.claimed != node and answer.claimed in expected:
        return failure(node, f"answered with the name of another node: {answer.claimed}")
    if answer.document is None:
        return failure(node, answer.failure)
    return document_of(node, answer.document, answer.claimed)
