"""A page for each check: what its docstring says, a machine on which it finds something, the messages it explains."""

from __future__ import annotations

import io
from functools import cache
from typing import Any

from gpudoctor.check import Check
from gpudoctor.engine import judge, judge_recipe
from gpudoctor.intake.text.reading import read_text
from gpudoctor.machine import Machine
from gpudoctor.render.style import PLAIN, ReportStyle
from gpudoctor.render.text import print_report
from gpudoctor.report import Report, Subject, make_report
from gpudoctor.suites import image_checks, machine_checks
from tests.documentation.site.links import between, check_page, checks, message_page
from tests.documentation.site.markdown import code, page, screen, table
from tests.support.check_cases import matrix
from tests.support.faulty_files import COMPOSE_FILES, DESCRIBED, DOCKERFILES, MANIFESTS, TEXTS, recipe
from tests.support.faulty_machines import MACHINES

LAYERS = {
    "driver": "Hardware, kernel and driver",
    "access": "Access to the GPU: device nodes, containers, jobs, variables",
    "runtime": "CUDA and ROCm libraries",
    "framework": "PyTorch and other frameworks",
    "packages": "Packages beside the framework",
    "smoke": "Kernels that failed",
    "image": "Dockerfiles and compose files",
    "fleet": "Nodes of a cluster",
    "gpudoctor": "Requirements, texts, and gpudoctor itself",
}

_HERE = Subject("machine", "this machine")


@cache
def pages() -> dict[str, str]:
    """By name."""
    return {check_page(check.slug): _page(check) for check in checks()}


def overview() -> str:
    """All checks, in a table for each layer."""
    parts = []
    for layer, heading in LAYERS.items():
        rows = [(code(check.slug), check.id, check.title) for check in checks() if check.layer == layer]
        if rows:
            parts += [
                f"## {heading}",
                table([("problem", "id", "what is wrong"), *rows], filtered="Filter the checks"),
            ]
    return "\n\n".join(parts)


def example(check: Check[Any]) -> tuple[str, str] | None:
    """A command and what it prints where this check finds something; None for a check without an example."""
    if check.slug in MACHINES:
        # What is only a note may stand in the headline without its id.
        printed = _on_machine(MACHINES[check.slug], check)
        if check.id in printed:
            return f"gpudoctor check --select {check.id}", printed
        printed = _on_machine(MACHINES[check.slug], check, look=ReportStyle(verbose=True))
        return f"gpudoctor check --select {check.id} -v", printed
    if any(check.slug in files for files in (DOCKERFILES, COMPOSE_FILES, MANIFESTS)):
        return f"gpudoctor dockerfile .{_described(check.slug)} --select {check.id}", _on_image(check)
    if check.slug in TEXTS:
        machine = read_text(TEXTS[check.slug].encode(), matrix())
        command = f"gpudoctor check --from issue.md --select {check.id} -v"
        return command, _on_machine(machine, check, Subject("text", "issue.md"), ReportStyle(verbose=True))
    return None


def _page(check: Check[Any]) -> str:
    facts = f"[Checks](README.md) · {LAYERS[check.layer]} · {check.id} · {code(check.slug)}"
    why, judged, safety = check.explanation.partition("\n")[2].partition("## How it is judged")
    description = f"{check.title} {check.slug} ({check.id}): why it matters, how it is judged, how it is fixed."
    title = check.title.rstrip(".")
    return page(title, description, facts, why.strip(), *_example(check), judged + safety, *_messages(check))


def _example(check: Check[Any]) -> tuple[str, ...]:
    found = example(check)
    if found is None:
        return ()
    return ("## Example and fix", _given(check.slug), screen(*found))


def _given(slug: str) -> str:
    """What an example judges: a machine, or a file."""
    files = (
        ("Dockerfile", "dockerfile", DOCKERFILES),
        ("compose.yaml", "yaml", COMPOSE_FILES),
        ("pod.yaml", "yaml", MANIFESTS),
        ("issue.md", "text", TEXTS),
    )
    shown = [
        f"With this `{name}`:\n\n```{language}\n{texts[slug].strip()}\n```"
        for name, language, texts in files
        if slug in texts
    ]
    return "\n\n".join(shown) or "On a made-up machine with this problem:"


def _described(slug: str) -> str:
    gpu, driver = DESCRIBED.get(slug, ("", ""))
    return (f' --gpu "{gpu}"' if gpu else "") + (f" --driver {driver}" if driver else "")


def _messages(check: Check[Any]) -> tuple[str, ...]:
    """The error messages that may mean this problem."""
    here = check_page(check.slug)
    rows = [row for row in matrix().tables.error_patterns if check.slug in (row.slug, *row.also)]
    lines = [f"- [{code(row.example.splitlines()[0][:120])}]({between(here, message_page(row.id))})" for row in rows]
    return ("## Error messages that it may print", "\n".join(lines)) if lines else ()


# --- the screens -----------------------------------------------------------------------------------------


def _on_machine(machine: Machine, check: Check[Any], subject: Subject = _HERE, look: ReportStyle = PLAIN) -> str:
    judgement = judge(machine, matrix(), machine_checks(), select=(check.slug,))
    return _printed(make_report(machine, matrix(), judgement, subject=subject), look)


def _on_image(check: Check[Any]) -> str:
    judgement = judge_recipe(recipe(check.slug), image_checks(), select=(check.slug,))
    report = make_report(Machine(), matrix(), judgement, subject=Subject("whatif", "."))
    return _printed(report, ReportStyle(about="image"))


def _printed(report: Report, look: ReportStyle) -> str:
    out = io.StringIO()
    print_report(report, out, look)
    return out.getvalue()
