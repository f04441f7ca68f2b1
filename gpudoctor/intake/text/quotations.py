"""Messages of others that a person quotes in a reply: they tell of another machine than the reply does."""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.late_regex import late

_QUOTED = late(r"\s{0,3}>(?!>> )")
_ATTRIBUTION = late(r"\bwrote:\s*$|^\W{0,4}@[\w-]{2,39}\b.{0,40}$")
"""What stands above the words of another person."""
_OF_ONESELF = late(r"\bI(?:'\w+)?\b(?!/)|\b(?:[Mm]y|me|[Mm]ine|[Ww]e|[Oo]urs?)\b")
_FORM_HEADING = late(r"\s*(?:#{1,6} |\*\*)")
"""A field that the person filled in, with a quote."""
_IS_WELL = late(
    r"(?i)\bworks? (?:\w+ )?for me\b|\b(?:cannot|can ?not|can't|could(?: not|n't)|unable to) reproduce\b"
    r"|\b(?:months?|years?) ago\b|\b(?:went away|is gone|(?:got|is|was) (?:solved|fixed|resolved))\b"
)


def without_messages_of_others(lines: list[str]) -> list[str]:
    """The lines; where the rest tells of the writer's own machine, quoted messages of other people are empty. A quote
    of bare output is the writer's own, unless it stands first and the reply says that all is well."""
    quoted = [_QUOTED.match(line) is not None for line in lines]
    rest = "\n".join(line for line, of_quote in zip(lines, quoted, strict=True) if not of_quote)
    if not _OF_ONESELF.search(rest):
        return lines
    kept = list(lines)
    for first, end in _blocks(quoted):
        before = next(filter(str.strip, reversed(lines[:first])), "")
        answered = any(map(str.strip, lines[end:])) and not _FORM_HEADING.match(before)
        words = "\n".join(lines[first:end])
        of_another = _ATTRIBUTION.search(before) or _OF_ONESELF.search(words)
        if answered and (of_another or (not before and _IS_WELL.search(rest))):
            kept[first:end] = [""] * (end - first)
    return kept


def _blocks(quoted: list[bool]) -> Iterator[tuple[int, int]]:
    """The first line of each quote, and the one behind its last."""
    start = -1
    for place, of_quote in enumerate([*quoted, False]):
        if of_quote and start < 0:
            start = place
        elif not of_quote and start >= 0:
            yield start, place
            start = -1
