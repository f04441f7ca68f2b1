"""A second environment in which the GPU works, and with which a text compares the one that it asks about."""

from __future__ import annotations

from gpudoctor.intake.text.facts import Facts
from gpudoctor.intake.text.lines import Line
from gpudoctor.late_regex import late

_ANOTHER = late(
    r"(?i)\b(?:an ?other|(?:the|my) (?:other|second)|a (?:second|different)) (?:[\w-]+ ){0,3}?"
    r"(?:containers?|images?|env(?:ironment)?s?|venvs?|machine|computer|pc|server|board|node)\b"
)
_NOT_TO_COMPARE = late(
    r"(?i)\bbut (?:in|on|with)\b|\bthere (?:it|i|torch)\b.{0,20}(?:n't|\bnot|\bfails?)\b"
    r"|\bnow\b|\b(?:solved|fixed|made|created|set up|installed|new)\b"
)
"""With these words a text comes to the faulty one, or tells how it was mended."""
_OF_TORCH = ("torch", "available", "archs", "python", "package ")


def leave_out_compared(lines: tuple[Line, ...], facts: Facts) -> None:
    """Nothing of what the text says of an environment that serves only to compare: torch saw no GPU before it is
    named, and sees one in it."""
    answers = [one for one in facts.said if one.what == "available"]
    failed = next((one.line for one in answers if one.value == "False"), None)
    worked = answers[-1].line if answers and answers[-1].value == "True" else None
    if failed is None or worked is None:
        return
    between = (line for line in lines if failed < line.number <= worked)
    start = next(
        (line.number for line in between if _ANOTHER.search(line.text) and not _NOT_TO_COMPARE.search(line.text)),
        None,
    )
    if start is not None:
        facts.said = [one for one in facts.said if one.line < start or not one.what.startswith(_OF_TORCH)]
