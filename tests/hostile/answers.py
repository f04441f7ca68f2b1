"""What gpudoctor answers to a pasted text, in all its forms, and what may not be in it."""

from __future__ import annotations

import io
import json
import re
import shlex
import time
from collections.abc import Callable, Collection, Iterator
from html.parser import HTMLParser
from typing import NamedTuple
from xml.etree import ElementTree

from markdown_it import MarkdownIt

from gpudoctor.cli.explain import message_explained, titles_of
from gpudoctor.intake.text.reading import read_text
from gpudoctor.planner.script import shell_script
from gpudoctor.render.formats import FORMATS, report_text
from gpudoctor.render.json import to_json
from gpudoctor.render.lines import print_lines
from gpudoctor.render.plan import Around, plan_data, plan_lines
from gpudoctor.render.steps import step_spans
from gpudoctor.report import Report, Subject, make_report
from gpudoctor.step import EnvStep, ManualStep, RunStep
from gpudoctor.suites import machine_checks
from tests.hostile.pasted import MARK
from tests.support.check_cases import matrix
from tests.support.judging import judged, plan_of

_COMMAND = re.compile(r"\s*::[a-z-]+(?: [^:]*)?::|.*##\w*\[", re.I)
"""A line that a CI runs."""
_OWN = re.compile(r"::(?:error|warning|notice) (?:file=[^,:]*,line=\d+,)?title=[^,:]*::")
_RUNS = re.compile(r"[$`;&|<>]\s*(?:\(?touch|sh\b)")
"""What was planted to be run, as it would run."""
_TAGS = frozenset(("details", "summary", "code"))
"""HTML that a comment may hold."""
_MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable("table")


class Answer(NamedTuple):
    """All forms of an answer, and how long it took to read and judge."""

    report: Report
    forms: dict[str, str]
    seconds: float


def answer(content: bytes, styles: Collection[str] = FORMATS, *, planned: bool = True) -> Answer:
    """What is said of a text, in these formats, and as a plan."""
    started = time.process_time()
    machine = read_text(content, matrix())
    seconds = time.process_time() - started
    judgement = judged(machine)
    report = make_report(machine, matrix(), judgement, subject=Subject(kind="text", label="issue.md"))
    forms = {style: report_text(report, style) for style in styles}
    text = content.decode("utf-8", "replace")
    titles = titles_of(machine_checks())
    messages = (*matrix().errors.log_messages_in(text), *matrix().errors.messages_in(text))
    forms["explain"] = "\n\n".join(message_explained(message, titles) for message in messages)
    if planned:
        plan = plan_of(machine)
        out = io.StringIO()
        lines = plan_lines(plan, judgement.findings, Around("the machine of issue.md", here=False))
        print_lines(lines, out, color=False)
        forms["plan"] = out.getvalue()
        forms["plan as JSON"] = to_json(plan_data(plan))
        forms["script"] = shell_script(plan, version="1", subject="issue.md")
    return Answer(report, forms, seconds)


def wrong_with_answer(given: Answer) -> Iterator[str]:
    """What a terminal, a CI, a browser or a shell would take for more than text."""
    for style, text in given.forms.items():
        if odd := {char for char in text if not char.isprintable() and char not in "\n\t"}:
            yield f"{style}: control characters {odd!r}"
        for line in text.split("\n"):
            if _COMMAND.match(line) and not (style == "github" and _OWN.match(line)):
                yield f"{style}: a command to a CI: {line[:120]!r}"
    for style, reader in _READERS.items():
        if style in given.forms:
            yield from reader(given.forms[style])
    for slug in (finding.slug for finding in given.report.findings):
        if slug == "check-crashed":
            yield "a check crashed"
    yield from _wrong_with_steps(given.report)


def _wrong_with_markdown(text: str) -> Iterator[str]:
    """Whatever stands outside code: planted text, or an element that is not ours."""
    depth = 0
    for block in _MARKDOWN.parse(text):
        for token in (*(block.children or ()), *([] if block.type == "inline" else [block])):
            if token.type in ("html_inline", "html_block"):
                tags = re.findall(r"</?\s*([^\s>/]*)", token.content)
                if not _TAGS.issuperset(tags):
                    yield f"markdown: HTML {token.content[:100]!r}"
                depth += token.content.count("<code>") - token.content.count("</code>")
            elif token.type in ("link_open", "image"):
                yield f"markdown: a link {token.attrs}"
            elif token.type not in ("code_inline", "fence") and not depth and MARK in token.content:
                yield f"markdown: {token.type} {token.content[:100]!r}"


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.wrong: list[str] = []
        self.scripts = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        for name, value in attrs:
            active = name.startswith("on") or name in ("src", "href", "style", "action")
            if MARK in name or (active and MARK in (value or "")):
                self.wrong.append(f"html: <{tag} {name}={value!r}>")
        if MARK in tag:
            self.wrong.append(f"html: <{tag}>")


def _wrong_with_page(text: str) -> Iterator[str]:
    page = _Page()
    page.feed(text)
    yield from page.wrong
    if page.scripts > 1:
        yield "html: a script that is not ours"


def _wrong_with_steps(report: Report) -> Iterator[str]:
    """Commands that hold anything of the text that a shell, pip or apt would take for more than one plain word."""
    for step in (step for finding in report.findings for fix in finding.fixes for step in fix.steps):
        if isinstance(step, RunStep):
            for word in (*step.argv, *step.env.values(), step.cwd or ""):
                if MARK in word and (word.startswith("-") or re.search(r"[\s;&|$`<>*'\"\\]", word)):
                    yield f"a command: {step.argv}"
        elif isinstance(step, EnvStep) and not re.fullmatch(r"[A-Z_][A-Z0-9_]*", step.name):
            yield f"a variable: {step.name!r}"
        elif isinstance(step, ManualStep):
            commands = (line for line, style in step_spans(step) if style == "command")
            yield from (f"an instruction: {line!r}" for line in commands if MARK in line and _RUNS.search(line))


def _wrong_with_script(text: str) -> Iterator[str]:
    """Lines of a script whose words are not those of a plain command."""
    for line in text.split("\n"):
        if MARK in line and not line.startswith("#") and "touch" in shlex.split(line):
            yield f"script: {line!r}"


def _wrong_with_json(text: str) -> Iterator[str]:
    if not json.loads(text):
        yield "JSON: nothing is said"


def _wrong_with_xml(text: str) -> Iterator[str]:
    if MARK in {element.tag for element in ElementTree.fromstring(text).iter()}:
        yield "XML: a tag that is not ours"


_READERS: dict[str, Callable[[str], Iterator[str]]] = {
    "markdown": _wrong_with_markdown,
    "html": _wrong_with_page,
    "json": _wrong_with_json,
    "sarif": _wrong_with_json,
    "junit": _wrong_with_xml,
    "script": _wrong_with_script,
}
"""What reads each form as its users do; what is not well-formed raises."""
