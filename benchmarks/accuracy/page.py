"""The figures as a page of the documentation."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from benchmarks.accuracy.figures import FIGURES, Scored, confusion, figures

_HEAD = """# How often gpudoctor is right

Made by `python -m benchmarks.accuracy`; the figures are those of one run, none is estimated. Each is a count, a
share, and its 95 % interval (Wilson). The truth is what a maintainer or the reporter confirmed, or what the facts
say; never what gpudoctor says.

- *cause first*: the first cause that is named is the true one, or as good.
- *cause among the first three*: it is one of the first three.
- *another cause*: other causes are named. *not known*: no cause is named.
- *false alarms*: of the reports without a fault of the machine, those that get an error.

`report` is what `gpudoctor check` says of a text or of a described machine; `explain` is what `gpudoctor explain`
says of a text. Cases are *worked on* or *kept* by a hash of their name; kept ones are measured only, and not listed.
`texts`, `threads`, `issues` and `machines` lie in `tests/cases`; no rule was written from them before their first
run. Where something was repaired for one of them afterwards, that first run stands as *before repairs*. The shared
texts are not part of the repository.
"""


OTHER_TOOLS = "Other tools"
"""Title of the section that `benchmarks.accuracy.other_tools` measures."""
_ROW = re.compile(r"\| [^|]+ \| `(?:report|explain)` \|")
_SECTION = re.compile(rf"^## {OTHER_TOOLS}\n(?P<text>.*?)(?=^## )", re.M | re.S)


def page(results: Mapping[tuple[str, str, str], Sequence[Scored]], before: str = "") -> str:
    """The whole page: a table of all figures, then the misses of the cases that are not kept.

    A row of the page as it was `before` stays where this run did not measure it: kept cases are measured once.
    """
    parts = [_HEAD, "| cases | tool | " + " | ".join(FIGURES) + " |", "|---|---|" + "---|" * len(FIGURES)]
    rows = {" ".join(line.split("|")[1:3]): line for line in before.splitlines() if _ROW.match(line)}
    for (group, half, tool), scored in results.items():
        line = f"| {group}, {half} | `{tool}` | " + " | ".join(figures(scored).values()) + " |"
        rows[" ".join(line.split("|")[1:3])] = line
    parts += rows.values()
    parts.append("\n## Misses\n")
    for (group, half, tool), scored in results.items():
        if half == "kept":
            continue
        missed = [one for one in scored if one.score not in ("first", "silent")]
        parts.append(f"### {group}, {half}: `{tool}`\n")
        parts += [
            f"- {one.case.ref}: {one.case.cause}; {one.score}: {', '.join(one.answer.causes[:3]) or 'nothing'}"
            for one in missed
        ]
        parts.append("")
        parts += ["| true cause | named first | times |", "|---|---|---|"]
        parts += [f"| {true} | {named} | {times} |" for (true, named), times in confusion(scored).most_common()]
        parts.append("")
    made = "\n".join(parts).rstrip() + "\n"
    kept = _SECTION.search(before)
    return with_section(made, kept["text"].strip()) if kept else made


def with_section(page: str, text: str) -> str:
    """The page with this text as its section about other tools, before the misses."""
    made = f"## {OTHER_TOOLS}\n\n{text}\n\n"
    bare = _SECTION.sub("", page)
    return bare.replace("## Misses\n", f"{made}## Misses\n", 1)
