"""A report as a page: how it stands, each problem with its fix, the machine as a picture, what was computed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from gpudoctor.privacy import pseudonyms, public_text
from gpudoctor.render.certainty import certainty
from gpudoctor.render.headline import could_not_check, headline
from gpudoctor.render.html.kernels import kernel_plots, rate_plots
from gpudoctor.render.html.markup import Markup, element, fragment, prose
from gpudoctor.render.html.page import copied, fix_element, page, section, spans, tone
from gpudoctor.render.html.picture import picture
from gpudoctor.render.inventory import system_text
from gpudoctor.render.lines import Line
from gpudoctor.render.next_command import next_lines
from gpudoctor.render.plain import found_and_needed

if TYPE_CHECKING:
    from gpudoctor.check import Check
    from gpudoctor.render.style import ReportStyle
    from gpudoctor.report import Report, ReportedFinding

_MARKS = {"error": "✗ Problem", "warning": "! Warning", "note": "· Note"}


def report_page(report: Report, look: ReportStyle, checks: Sequence[Check[Any]] = ()) -> str:
    """The document. `report` is shareable: what is private was left out before."""
    problems = [finding for finding in report.findings if finding.severity != "note"]
    notes = [finding for finding in report.findings if finding.severity == "note"]
    head = headline(report, look)
    smoke = report.machine.smoke
    return page(
        f"gpudoctor: {''.join(text for text, _ in head)}",
        _header(report, head, look),
        section("Problems", *(_problem(number, one, report) for number, one in enumerate(problems, 1))),
        section("Could not check", _questions(report)),
        section("Next", *_next(report, look)),
        section("Image" if look.about == "image" else "Machine", *_machine(report, look, problems, checks)),
        section("Smoke kernels", *(kernel_plots(smoke) if smoke else ())),
        section("Measured rates", *(rate_plots(smoke, look.rates) if smoke else ())),
        section("Notes", *(_problem(None, one, report) for one in notes)),
        section("Ignored", _list(f"{one.id}{f' ({one.why})' if one.why else ''}" for one in report.ignored)),
    )


def _header(report: Report, head: Line, look: ReportStyle) -> Markup:
    told = (f"level {report.machine.level}", report.created, f"gpudoctor {report.gpudoctor}")
    about = (child for text in told for child in (" · ", element("span", text)))
    return element(
        "header",
        element("h1", spans(head)),
        element("p", report.subject.name, *about, class_="about"),
        element("p", prose(look.note), class_="about") if look.note else None,
        class_=tone(head),
    )


def _problem(number: int | None, finding: ReportedFinding, report: Report) -> Markup:
    """One finding; a problem has a number, to which the picture leads."""
    title = element(
        "h3",
        element("span", _MARKS[finding.severity], class_="badge"),
        element("span", finding.slug),
        element("span", f"[{finding.id}]", class_="dim"),
        element("span", finding.subject, class_="dim") if finding.subject else None,
    )
    facts = [(label, value) for label, value in found_and_needed(finding)]
    if finding.confidence != "certain":
        facts.append(("certainty", certainty(finding, report)))
    first, others = finding.fixes[:1], finding.fixes[1:]
    return element(
        "article",
        title,
        element("p", prose(finding.message), class_="message"),
        *(fix_element(fix, "Fix") for fix in first),
        _folding_section("Alternatives", *(fix_element(fix, "Alternative") for fix in others)),
        _pairs(facts),
        _folding_section("Evidence", _evidence(finding)),
        class_=f"problem {finding.severity}",
        id=f"problem-{number}" if number else None,
    )


def _folding_section(title: str, *children: Markup) -> Markup:
    content = fragment(children)
    return element("details", element("summary", title), content) if content else Markup()


def _pairs(rows: Sequence[tuple[str, str]]) -> Markup:
    pairs = (child for label, value in rows for child in (element("dt", label), element("dd", value)))
    return element("dl", *pairs) if rows else Markup()


def _evidence(finding: ReportedFinding) -> Markup:
    rows = [(one.fact, f"{one.value}{f'  ({one.source})' if one.source else ''}") for one in finding.evidence]
    if finding.refs:
        rows.append(("see", ", ".join(finding.refs)))
    return _pairs(rows)


def _questions(report: Report) -> Markup:
    return _list(f"{could_not_check(question)} [{question.id}]" for question in report.open_questions)


def _list(texts: Iterator[str]) -> Markup:
    items = [element("li", prose(text)) for text in texts]
    return element("ul", *items) if items else Markup()


def _next(report: Report, look: ReportStyle) -> Iterator[Markup]:
    """The command to type next and why; and the build to install where there is none."""
    clean = str if look.private else public_text(os.path.expanduser("~"), pseudonyms(report.machine))
    if look.best:
        yield element("p", "Best build here: ", look.best[0])
        yield copied(clean(look.best[1]))
    *why, last = list(next_lines(report, look))
    yield from (element("p", spans(line)) for line in why)
    command, style = last[-1]
    yield copied(clean(command)) if style == "command" else element("p", spans(last))


def _machine(
    report: Report, look: ReportStyle, problems: Sequence[ReportedFinding], checks: Sequence[Check[Any]]
) -> Iterator[Markup]:
    if look.about == "image":
        yield from (element("p", spans(line)) for line in look.table)
        return
    yield element("p", system_text(report.machine), class_="dim")
    from gpudoctor.suites import machine_checks

    # A problem may be told under the id of a check that did not run itself.
    yield picture(report, problems, {check.id: check.layer for check in (*machine_checks(), *checks)})
    if report.machine.assumed:
        assumed = ", ".join(report.machine.assumed)
        yield element("p", f"Assumed: {assumed}; everything else is taken as healthy.", class_="dim")
