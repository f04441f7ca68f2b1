"""The skeleton of every page: styles and script inside, and a policy that lets nothing else in."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from importlib.resources import files
from itertools import groupby

from gpudoctor.render.html.markup import Child, Markup, element, fragment, prose
from gpudoctor.render.layout import Line, Span
from gpudoctor.render.steps import step_spans, telling_steps
from gpudoctor.step import EnvStep, PlannedFix

_COLORS = {"red": "error", "yellow": "warning", "magenta": "unknown", "green": "ok"}
"""What the colours of a terminal say."""


def page(title: str, *parts: Child, style: str = "") -> str:
    """A whole document; `style` names a style sheet beside the common one."""
    styles = _resource("page.css") + (_resource(style) if style else "")
    script = _resource("copy.js")
    policy = (
        f"default-src 'none'; style-src {_hash(styles)}; script-src {_hash(script)}; base-uri 'none'; "
        "form-action 'none'"
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        Markup(f"<style>{styles}</style>"),
    )
    body = element("body", element("main", *parts), Markup(f"<script>{script}</script>"))
    return "<!DOCTYPE html>\n" + element("html", head, body, lang="en") + "\n"


def section(title: str, *children: Child, class_: str | None = None) -> Markup:
    """A part of a page with its heading; nothing where it holds nothing."""
    content = fragment(children)
    return element("section", element("h2", title), content, class_=class_) if content else Markup()


def copied(text: str) -> Markup:
    """Commands, or the content of a file, with a button that copies them."""
    button = element("button", "Copy", type="button", class_="copy", hidden=True)
    return element("div", element("pre", element("code", text)), button, class_="command")


def fix_element(fix: PlannedFix, label: str) -> Markup:
    """A fix: its title, what is to be done, and what is to be typed."""
    parts: list[Markup] = []
    before = ""
    for style, group in groupby(_fix_spans(fix), key=lambda span: span[1]):
        texts = [text for text, _ in group]
        if style == "command" or (style == "verbatim" and before.endswith(":")):
            parts.append(copied("\n".join(texts)))
        elif style == "verbatim":  # other ways to write the same
            parts.append(element("pre", element("code", "\n".join(texts)), class_="other"))
        else:
            parts += (element("p", prose(text), class_=style or None) for text in texts)
        before = texts[-1] if not style else ""
    title = element("p", element("strong", f"{label}: "), prose(fix.title))
    return element("div", title, *parts, class_="fix")


def _fix_spans(fix: PlannedFix) -> Iterator[Span]:
    for step in telling_steps(fix):
        yield from step_spans(step)
        if isinstance(step, EnvStep) and step.why:
            yield step.why, "dim"


def spans(line: Line) -> Markup:
    """A line of the text report, its colours as classes."""
    return fragment(element("span", text, class_="dim") if style == "dim" else prose(text) for text, style in line)


def tone(line: Line) -> str:
    """The meaning of a line's colour: error, warning, unknown, ok, or none ("neutral")."""
    words = line[0][1].split() if line else []
    return next((_COLORS[word] for word in words if word in _COLORS), "neutral")


def _resource(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
