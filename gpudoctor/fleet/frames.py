"""A node's document as lines of a log.

What a node prints passes through srun, mpiexec, ssh or a container's log. These add a prefix, cut long lines, mix the
lines of several nodes, and other programs print between them. So a document travels compressed in short lines, each
with the node's name and its number: "gpudoctor-node n03 2/7 BASE64".
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from collections.abc import Iterator

from gpudoctor.fleet.engines.order import Answer
from gpudoctor.plain_text import without_controls

WIDTH = 600
MOST_BYTES = 64 << 20
"""A document is not unpacked beyond this."""
_MOST_LINES = MOST_BYTES // WIDTH
_FRAME = re.compile(r"gpudoctor-node (\S{1,253}) (\d{1,6})/(\d{1,6}) ([A-Za-z0-9+/=]+)\s*$")
_WORDS = 200
"""How many characters of other lines are kept: a node's last words."""


def frames(node: str, document: bytes) -> Iterator[str]:
    """The lines of a document."""
    text = base64.b64encode(zlib.compress(document)).decode()
    parts = [text[at : at + WIDTH] for at in range(0, len(text), WIDTH)]
    for number, part in enumerate(parts, 1):
        yield f"gpudoctor-node {node} {number}/{len(parts)} {part}"


class Frames:
    """Collects the lines that arrive, whatever their order."""

    def __init__(self, label: str = "") -> None:
        """`label`: a pattern of the engine's prefix; its first group tells which node, or task, printed the line."""
        self._label = re.compile(label) if label else None
        self._label_before = re.compile(f"{label}$") if label else None
        self._parts: dict[tuple[str, str], _Parts] = {}
        self.words: dict[str, str] = {}
        """The last other line of each label; "" has the engine's own."""

    def line(self, line: str) -> None:
        frame = _FRAME.search(line)
        prefix = self._label.match(line) if self._label else None
        if frame and self._label_before:  # behind what another node printed without a line break
            prefix = self._label_before.search(line[: frame.start()]) or prefix
        label = prefix[1] if prefix else ""
        if frame is None:
            words = line[prefix.end() :] if prefix else line
            if words.strip():
                self.words[label] = without_controls(words, " ").strip()[:_WORDS]
        else:
            parts = self._parts.setdefault((label, frame[1]), _Parts())
            parts.take(int(frame[2]), int(frame[3]), frame[4])

    @property
    def answered(self) -> frozenset[str]:
        """The labels of which some line of a document came."""
        return frozenset(label for label, _ in self._parts)

    def answers(self, names: dict[str, str]) -> list[Answer]:
        """An answer for each label and name that came. `names`: label → name of the node, where the engine knows."""
        found = []
        for (label, claimed), parts in self._parts.items():
            document, failure = parts.document()
            found.append(Answer(node=names.get(label, ""), claimed=claimed, document=document, failure=failure))
        for label, node in names.items():
            if label not in self.answered and label in self.words:
                found.append(Answer(node=node, failure=f"sent no report; it printed: {self.words[label]}"))
        return found


class _Parts:
    """The parts of one document."""

    def __init__(self) -> None:
        self._total = 0
        self._parts: dict[int, str] = {}
        self._contradictory = False

    def take(self, number: int, total: int, part: str) -> None:
        self._total = self._total or total
        if self._parts.setdefault(number, part) != part or total != self._total or total > _MOST_LINES:
            self._contradictory = True

    def document(self) -> tuple[bytes | None, str]:
        """The document, or why there is none."""
        if self._contradictory:
            return None, "more than one node answered with this name"
        if len(self._parts) < self._total or not all(n in self._parts for n in range(1, self._total + 1)):
            return None, f"sent an incomplete report: {len(self._parts)} of {self._total} lines"
        try:
            packed = base64.b64decode("".join(self._parts[n] for n in range(1, self._total + 1)), validate=True)
            unpack = zlib.decompressobj()
            document = unpack.decompress(packed, MOST_BYTES)
        except (binascii.Error, zlib.error) as error:
            return None, f"sent a damaged report: {error}"
        return (document, "") if unpack.eof else (None, "sent a report that is cut off or too large")
