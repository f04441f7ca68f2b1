"""How often gpudoctor is right: cases with a known cause are put to it and counted.

    python -m benchmarks.accuracy [FOLDER ...]          by default tests/cases; ../shared/cases where it is there
    python -m benchmarks.accuracy --half kept           the totals of the kept cases: once, when the work is done
    python -m benchmarks.accuracy --page docs/accuracy.md

A folder may hold `texts.yaml`, `threads.yaml`, `issues.yaml` and `cases.jsonl` (pasted texts), `fresh_reports.yaml`
(machines), and `wheels.yaml` (libraries and GPUs, made by `benchmarks.accuracy.wheels`).
The file of a kept case is not to be read by whoever works on the rules; of these only totals are printed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.accuracy.answers import TOOLS
from benchmarks.accuracy.cases import Case, read
from benchmarks.accuracy.figures import Scored, confusion, figures, score
from benchmarks.accuracy.page import page

_UNTOUCHED = ("texts", "threads", "issues", "machines", "wheels")
"""Groups that no rule was written from: they have no halves."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folders", nargs="*", type=Path, default=[Path("tests/cases")])
    parser.add_argument("--half", choices=("worked on", "kept", "both"), default="worked on")
    parser.add_argument("--group", help="cases of this file only: texts, threads, shared texts, machines")
    parser.add_argument("--run", default="all", help="what the run over cases without halves is called on the page")
    parser.add_argument("--tool", choices=tuple(TOOLS), action="append")
    parser.add_argument("--page", type=Path, help="write the figures as a page, too")
    options = parser.parse_args()
    cases = [case for folder in options.folders for case in read(folder) if options.group in (None, case.group)]
    groups: dict[tuple[str, str], list[Case]] = {}
    for case in cases:
        half = options.run if case.group in _UNTOUCHED else case.half
        if case.group in _UNTOUCHED or options.half in (half, "both"):
            groups.setdefault((case.group, half), []).append(case)
    results = {}
    for (group, half), members in groups.items():
        for tool in options.tool or TOOLS:
            scored = _scored(members, tool)
            if scored:
                results[group, half, tool] = scored
                _print(f"{group}, {half}: {tool}", scored, listed=half != "kept")
    if options.page:
        options.page.write_text(page(results, options.page.read_text() if options.page.exists() else ""))


def _scored(cases: list[Case], tool: str) -> list[Scored]:
    answers = ((case, TOOLS[tool](case)) for case in cases)
    return [Scored(case, answer, score(case, answer)) for case, answer in answers if answer is not None]


def _print(title: str, scored: list[Scored], *, listed: bool) -> None:
    print(f"\n{title}")
    for name, figure in figures(scored).items():
        print(f"  {name:28} {figure}")
    if not listed:
        return
    for one in scored:
        if one.score not in ("first", "silent"):
            causes = ", ".join(one.answer.causes[:3]) or "nothing"
            print(f"    {one.score:12} {one.case.name}: {one.case.cause} <- {causes}")
    for (true, named), times in confusion(scored).most_common(10):
        print(f"    {times} x {true} <- {named}")


if __name__ == "__main__":
    main()
