"""The machine as a picture: GPU, driver, access, libraries, framework, packages, kernels; where they fit and where
they do not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from gpudoctor.finding import Layer
from gpudoctor.machine import Gpu, Machine
from gpudoctor.render.headline import usable
from gpudoctor.render.html.markup import Markup, element, fragment
from gpudoctor.render.inventory import drivers, equal_gpus, frameworks, no_gpus, numbers, place_text, python_text
from gpudoctor.render.plain import found_and_needed
from gpudoctor.render.smoke import smoke_summary
from gpudoctor.situation.usable_gpus import standings

if TYPE_CHECKING:
    from gpudoctor.report import Report, ReportedFinding

_UNKNOWN = "unknown"
State = Literal["error", "warning", "unknown", "ok", "neutral"]


class Part(Struct, frozen=True):
    """One box of the picture, and the layers whose problems belong to it."""

    name: str
    icon: str
    lines: tuple[str, ...]
    layers: tuple[Layer, ...]
    missing: bool = False
    says: str = ""
    """What is said of it where no problem was found."""


_ICONS = {
    "gpu": "M2 6h19v10H2zM5 16v3M9 16v3M13 16v3M8 11a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0-5 0M17 9v4",
    "driver": "M12 8a4 4 0 1 0 0 8a4 4 0 1 0 0-8M12 2v4M12 18v4M2 12h4M18 12h4M5 5l3 3M16 16l3 3M19 5l-3 3M8 16l-3 3",
    "access": "M6 11h12v10H6zM9 11V7a3 3 0 0 1 6 0v4",
    "library": "M4 4h4v16H4zM10 4h4v16h-4zM16 5l4-1l2 15l-4 1z",
    "framework": "M12 2l9 5v10l-9 5l-9-5V7zM3 7l9 5l9-5M12 12v10",
    "packages": "M3 8l9-5l9 5v9l-9 5l-9-5zM8 5l9 5",
    "kernels": "M3 19l5-7l4 4l8-11",
}
"""Paths on a grid of 24."""
_STATES: dict[State, str] = {
    "error": "✗ problem",
    "warning": "! warning",
    "unknown": "? could not check",
    "ok": "✓ no problem found",
    "neutral": "no problem found",
}


def picture(report: Report, problems: Sequence[ReportedFinding], layers: Mapping[str, Layer]) -> Markup:
    """Boxes from the GPU to what computed on it; `layers` tells by id where a problem lies."""
    numbered = dict(enumerate(problems, 1))
    healthy = report.ok and bool(usable(report)) and _has_framework(report.machine)
    boxes: list[Markup] = []
    broken = ""
    for part in _parts(report, {layers.get(finding.id) for finding in problems}):
        own = {number: one for number, one in numbered.items() if layers.get(one.id) in part.layers}
        asked = any(one.matters and layers.get(one.id) in part.layers for one in report.not_judged)
        state = _state(own.values(), asked=asked, healthy=healthy and not part.missing and not part.says)
        boxes.append(_box(part, state, own, waits_for=broken if state in ("ok", "neutral") else ""))
        broken = broken or (part.name if state == "error" else "")
    return element("ol", *boxes, class_="stack")


def _state(findings: Iterable[ReportedFinding], *, asked: bool, healthy: bool) -> State:
    severities = {finding.severity for finding in findings}
    if "error" in severities:
        return "error"
    if asked:
        return "unknown"
    if "warning" in severities:
        return "warning"
    return "ok" if healthy else "neutral"


def _box(part: Part, state: State, own: Mapping[int, ReportedFinding], waits_for: str) -> Markup:
    said = _STATES[state]
    if state in ("ok", "neutral"):
        said = part.says or ("not there" if part.missing else said)
    if waits_for and not part.missing:
        said = f"waits for: {waits_for}"
    icon = Markup(f'<svg viewBox="0 0 24 24" aria-hidden="true"><path d="{_ICONS[part.icon]}"/></svg>')
    return element(
        "li",
        element("h3", icon, part.name),
        *(element("p", line) for line in part.lines),
        element("p", said, class_="state"),
        *(_link(number, finding) for number, finding in own.items()),
        class_=f"part {state}{' waits' if waits_for else ''}",
    )


def _link(number: int, finding: ReportedFinding) -> Markup:
    """The problem by name, with what was found and what is needed."""
    facts = [element("span", f"{label}: {value} ", class_="dim") for label, value in found_and_needed(finding)]
    name = element("a", finding.slug, href=f"#problem-{number}")
    return element("p", name, Markup("<br>") if facts else None, fragment(facts))


def _parts(report: Report, hurt: set[Layer | None]) -> Iterator[Part]:
    """The boxes, from the metal up; some are there only where they tell something."""
    machine = report.machine
    kernel_drivers = tuple(value for name, value in drivers(machine) if name == "Driver")
    no_hardware = not machine.gpus and not kernel_drivers
    count, all_of = len(usable(report)), len(machine.gpus)
    says = "" if count == all_of else f"{count} of {all_of} usable" if count else "not usable"
    layers: tuple[Layer, ...] = ("driver",) if no_hardware else ()
    unread = not machine.gpus and not machine.buses.known
    yield Part(
        "GPU", "gpu", tuple(_gpus(machine)), layers, missing=not machine.gpus, says=_UNKNOWN if unread else says
    )
    if not no_hardware:
        yield Part("Driver", "driver", kernel_drivers or ("none",), ("driver",), missing=not kernel_drivers)
    place = place_text(machine)
    if place or "access" in hurt:
        yield Part("Access", "access", (place or "bare metal",), ("access",))
    libraries = tuple(_libraries(machine))
    if libraries or "runtime" in hurt:
        vendors = {line.partition(" ")[0] for line in libraries} or {"Libraries"}
        yield Part(" and ".join(sorted(vendors)), "library", libraries, ("runtime",), missing=not libraries)
    missing = not machine.environment.known
    yield Part("Python", "packages", (python_text(machine),), ("packages",), missing=missing)
    installed = [] if missing else [f"{name} {value}" for name, value in frameworks(machine.examined)]
    has = _has_framework(machine)
    says = "" if has or machine.examined.torch.absent else _UNKNOWN
    lines = tuple(installed) or (says or "none",)
    yield Part("Framework", "framework", lines, ("framework",), missing=not has, says=says)
    if machine.smoke is not None:
        summary = smoke_summary(machine.smoke, report.timings_ms.get("smoke"))
        yield Part("Kernels", "kernels", (summary,), ("smoke",), missing=not machine.smoke.kernels)


def _gpus(machine: Machine) -> Iterator[str]:
    reasons = {id(standing.gpu): standing.why for standing in standings(machine)}
    for text, gpus in equal_gpus(machine.gpus).items():
        count = f"{len(gpus)} x " if len(gpus) > 1 else ""
        which = f"GPU {numbers(gpus)}: " if numbers(gpus) else ""
        yield f"{which}{count}{text}{_count_of_unusable(gpus, reasons)}"
    if not machine.gpus:
        yield no_gpus(machine)


def _count_of_unusable(gpus: Sequence[Gpu], reasons: Mapping[int, str]) -> str:
    """ "; 2 not usable: its device node does not open"."""
    why = [reasons[id(gpu)] for gpu in gpus if reasons[id(gpu)]]
    if not why:
        return ""
    count = f"{len(why)} " if len(gpus) > 1 else ""
    return f"; {count}not usable: {', '.join(dict.fromkeys(why))}"


def _libraries(machine: Machine) -> Iterator[str]:
    torch = machine.torch
    if torch is not None and torch.cuda:
        yield f"CUDA {torch.cuda}, which torch was built with"
    if torch is not None and torch.hip:
        yield f"ROCm {torch.rocm or torch.hip}, which torch was built with"
    yield from (f"ROCm {value}" for name, value in drivers(machine) if name == "ROCm")


def _has_framework(machine: Machine) -> bool:
    return bool(machine.torch or machine.examined.frameworks.others)
