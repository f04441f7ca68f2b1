"""Problems as plain lines, for the forms that carry text of their own: JUnit, annotations, Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpudoctor.finding import SEEN
from gpudoctor.plain_text import TO_BE_SURE
from gpudoctor.render.steps import step_lines, telling_steps
from gpudoctor.step import ManualStep, PlannedFix

if TYPE_CHECKING:
    from gpudoctor.report import Report, ReportedFinding

_OTHER_CAUSES = r"(?:Other p|P)ossible causes, most likely first:"
_PARTS = re.compile(rf" ({_OTHER_CAUSES}|{TO_BE_SURE}|{SEEN}) ")
"""What begins the parts of a message behind the problem itself."""
_USER_SITE = r"/\.local/lib/python[\d.]+/site-packages$"
_PLACE = r"([^/\s:][^\n:]*):(\d{1,7})"


def finding_lines(finding: ReportedFinding) -> Iterator[str]:
    """What a problem is, and its first fix."""
    yield finding.message
    yield from (f"{label}: {value}" for label, value in found_and_needed(finding))
    if finding.confidence != "certain":
        yield f"{finding.confidence}, not certain"
    for fix in finding.fixes[:1]:
        yield f"Fix: {fix.title}"
        for step in telling_steps(fix):
            yield from (f"  {line}" for line in step_lines(step))


def message_parts(message: str) -> tuple[str, dict[str, str]]:
    """The problem itself, and, each under the words before it, the other causes, what decides, and what was seen."""
    problem, *parts = _PARTS.split(message)
    return problem, dict(zip(parts[::2], parts[1::2], strict=True))


def found_and_needed(finding: ReportedFinding) -> Iterator[tuple[str, str]]:
    """What was found and what is needed, where that has a value (a version, a path, a setting) that neither the
    message nor its first fix tells."""
    steps = [step for fix in finding.fixes[:1] for step in fix.steps]
    told = _words(" ".join((finding.message, *(line for step in steps for line in step_lines(step)))))
    for label, value in (("found", finding.saw), ("needed", finding.want)):
        if any(re.search(r"[\d/_.=]", word) for word in _words(value) - told):
            yield label, value


def origins(finding: ReportedFinding, report: Report) -> Iterator[str]:
    """Where packages come from that lie outside of the environment: "torchvision 0.20.1 comes from ~/.local ..."."""
    prefix, named = report.machine.examined.prefix, report.machine.variables.get("PYTHONPATH", "").split(":")
    if not prefix:
        return
    for package in finding.evidence:
        folder, _, record = package.source.rpartition("/")
        own = folder.startswith(f"{prefix.rstrip('/')}/")
        if own or not record.endswith((".dist-info", ".egg-info")):
            continue
        where = (
            "~/.local (pip install --user)" if re.search(_USER_SITE, folder)
            else f"{folder} (PYTHONPATH)" if folder in named
            else f"{folder}, outside of this environment"
        )  # fmt: skip
        yield f"{package.fact.removesuffix('.version')} {package.value} comes from {where}"


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w(?:[\w./+=-]*\w)?", text.lower()))


def runs_in_a_shell(fix: PlannedFix) -> bool:
    """Whether a shell could take every step of it."""
    return not any(isinstance(step, ManualStep) for step in fix.steps)


def one_line(text: str) -> str:
    """A text without line breaks."""
    return " ".join(text.split())


def place_in_project(finding: ReportedFinding) -> tuple[str, int] | None:
    """(file, line) of a finding that was read from a file of the project: "Dockerfile:12"."""
    for evidence in finding.evidence:
        if found := re.fullmatch(_PLACE, evidence.source):
            return found[1], int(found[2])
    return None
