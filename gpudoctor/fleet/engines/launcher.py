"""Engines that are programs: they start a command on every node, and print what it prints."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from gpudoctor.fleet.engines.order import Answer, Order
from gpudoctor.fleet.frames import Frames
from gpudoctor.fleet.launch import by_line, launch
from gpudoctor.fleet.names import expanded
from gpudoctor.host import InputError
from gpudoctor.plain_text import without_controls


def answers_of(
    argv: Sequence[str], order: Order, label: str, names: Mapping[str, str] | None = None
) -> tuple[Answer, ...]:
    """Run an engine's program until it ends, or until the time is over.

    `label`: a pattern of the prefix that it gives to lines; `names`: the node of each prefix, where that is known.
    A node without an answer gets what the engine said of it.
    """
    frames, said = Frames(label), _Said()

    def take(line: str) -> None:
        frames.line(line)
        said.line(line)

    code = launch(argv, order.left, by_line(take), os.environ)
    answers = frames.answers(dict(names or {}))
    heard_of = {answer.node or answer.claimed for answer in answers}
    end = f"{argv[0]} ended with exit code {code}" if code else "it ended and sent no report"
    default = f"no answer within {order.seconds:g} s" if code is None else end
    own = f"; its last line was: {words}" if (words := frames.words.get("")) else ""
    for node in order.nodes:
        if node not in heard_of:
            answers.append(Answer(node=node, failure=said.of(node) or default + own))
    return tuple(answers)


class _Said:
    """What an engine itself printed, by the nodes that its lines name."""

    def __init__(self) -> None:
        self._lines: list[tuple[frozenset[str], str]] = []

    def line(self, line: str) -> None:
        if "gpudoctor-node" not in line and line.strip() and len(self._lines) < 10_000:
            self._lines.append((frozenset(_nodes_in(line)), without_controls(line, " ").strip()[:300]))

    def of(self, node: str) -> str:
        """The last line that names the node."""
        return next((line for nodes, line in reversed(self._lines) if node in nodes), "")


def _nodes_in(line: str) -> Iterable[str]:
    for word in line.replace(",", " ").split() if "[" not in line else line.split():
        bare = word.strip(":;,()'\"")
        try:
            yield from expanded(bare)[:1000]
        except InputError:
            yield bare
