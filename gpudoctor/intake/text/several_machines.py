"""Texts that tell of more than one machine: where one ends, and which is judged."""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise

from gpudoctor.intake.text.facts import Facts
from gpudoctor.intake.text.gpus import identity_of
from gpudoctor.intake.text.lines import Line
from gpudoctor.matrix.questions import Matrix

_MOST = 20


def several(lines: tuple[Line, ...], facts: Facts, matrix: Matrix) -> tuple[tuple[Line, ...], tuple[str, ...]]:
    """The lines of the machine to judge, and each machine in a few words, that one first; no words for an only one.

    Two listings of GPUs that have none in common are of two machines. The first with an error message is judged."""
    starts, names = _starts(facts, matrix)
    if len(starts) < 2:
        return lines, ()
    cuts = [0, *(bisect_left(lines, (start,)) for start in starts[1:]), len(lines)]
    named = zip(names, pairwise(cuts), strict=True)
    parts = [(name, lines[start:end]) for name, (start, end) in named if start < end]
    if len(parts) < 2:  # both in one line
        return lines, ()
    wrong = {line.number for line in facts.errors}
    judged = next((place for place, (_, part) in enumerate(parts) if any(line.number in wrong for line in part)), 0)
    told = [f"{name} (lines {part[0].number} to {part[-1].number})" for name, part in parts]
    return parts[judged][1], (told[judged], *(one for one in told if one != told[judged]))


def _starts(facts: Facts, matrix: Matrix) -> tuple[list[int], list[str]]:
    """Where the report about each machine begins, and its GPU."""
    listings: dict[tuple[str, int], list[tuple[int, str, str, str]]] = {}
    for gpu in facts.gpus:
        identity = identity_of(gpu, matrix) if gpu.by in ("tool", "report") and gpu.name else None
        if identity is not None and identity.arch and len(listings) < _MOST:
            rows = listings.setdefault((gpu.by, gpu.block), [])
            rows.append((gpu.line, identity.vendor, identity.arch, gpu.name))
    starts: list[int] = []
    names: list[str] = []
    known: list[set[tuple[str, str]]] = []
    for rows, by in sorted((rows, by) for (by, _), rows in listings.items()):
        gpus = {(vendor, arch) for _, vendor, arch, _ in rows}
        same = [
            one for one in known if one & gpus or not {vendor for vendor, _ in one} & {vendor for vendor, _ in gpus}
        ]
        first = rows[0][0]
        heads = (*facts.reports, *facts.tables) if by == "tool" else facts.reports
        start = max((line for line in heads if line <= first), default=first)
        if same or start in starts:  # a report holds both
            (same[0] if same else known[starts.index(start)]).update(gpus)
            continue
        starts.append(start)
        names.append(rows[0][3])
        known.append(gpus)
    return starts, names
