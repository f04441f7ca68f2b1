"""What a tool answers for a case: the causes that it names, the first one first."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec import Struct

from benchmarks.accuracy.cases import Case
from benchmarks.accuracy.wheels import NO_CODE
from tests.cases import fresh
from tests.support.in_process import gpudoctor

_NO_CAUSE = ("error-seen", "smoke-crash")
"""Problems that say what was seen, and not why."""


class Answer(Struct, frozen=True):
    """Causes by their slugs, likeliest first; and whether the tool calls the machine faulty."""

    causes: tuple[str, ...] = ()
    alarm: bool = False


def by_report(case: Case) -> Answer | None:
    """gpudoctor's report of the text or the machine."""
    with TemporaryDirectory() as folder:
        arguments = _arguments(case, Path(folder))
        done = gpudoctor(*arguments, "--format", "json") if arguments else None
    if done is None or done.returncode not in (0, 1, 3):
        return None
    if case.argv[:1] == ("scan",):
        return Answer((NO_CODE,), alarm=True) if done.returncode == 1 else Answer()
    findings: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    findings.sort(key=lambda finding: finding["severity"] == "note")
    causes = dict.fromkeys(finding["slug"] for finding in findings if finding["slug"] not in _NO_CAUSE)
    return Answer(tuple(causes), any(finding["severity"] == "error" for finding in findings))


def _arguments(case: Case, folder: Path) -> Sequence[str]:
    if case.state:
        return fresh.arguments(case.state, folder, fuller=True)
    return case.argv or given(case.text, folder)


def given(text: str, folder: Path) -> list[str]:
    """The arguments that give gpudoctor a pasted text."""
    file = folder / "text.txt"
    file.write_text(text)
    return ["check", "--from", str(file)]


def by_explain(case: Case) -> Answer | None:
    """What `gpudoctor explain` says of the text: the first cause of each message, then the others."""
    if not case.text:
        return None
    done = gpudoctor("explain", "--format", "json", "--", case.text)
    matches: list[dict[str, Any]] = json.loads(done.stdout)["matches"] if done.stdout else []
    longest = max((len(match["causes"]) for match in matches), default=0)
    ranked = (match["causes"][rank] for rank in range(longest) for match in matches if rank < len(match["causes"]))
    causes = tuple(dict.fromkeys(ranked))
    return Answer(causes, bool(causes))


TOOLS: dict[str, Callable[[Case], Answer | None]] = {"report": by_report, "explain": by_explain}
"""None: the tool cannot be given the case."""
