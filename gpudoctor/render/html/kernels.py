"""Smoke kernels as plots: how near each came to its tolerance, and what was measured beside the data sheet."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from gpudoctor.machine import Smoke, SmokeKernel
from gpudoctor.render.html.markup import Markup, element
from gpudoctor.render.smoke import (
    device_title,
    dtype_names,
    equal_results,
    figure_text,
    rate_on_paper,
    said_by,
    unit_of,
    worst_error,
)

if TYPE_CHECKING:
    from gpudoctor.matrix.rows import GpuRates

_LIMIT, _DECADE = 75, 15
"""Where the tolerance is on the scale of errors, and how far a factor of ten reaches, in percent."""
_ORDER = ("pass", "skipped")
"""After what failed."""
_STATES = {"pass": "ok", "skipped": "neutral"}


def kernel_plots(smoke: Smoke) -> Iterator[Markup]:
    """A table for each device: kernel, outcome, error, time."""
    for device in dict.fromkeys(kernel.device for kernel in smoke.kernels):
        groups = list(equal_results(kernel for kernel in smoke.kernels if kernel.device == device))
        groups.sort(key=lambda group: _ORDER.index(group[0].status) if group[0].status in _ORDER else -1)
        head = element(
            "thead",
            element(
                "tr",
                element("th", "Kernel", scope="col"),
                element("th", "Result", scope="col"),
                element("th", "Error (line: tolerance)", scope="col"),
                element("th", "ms", scope="col", class_="figure"),
            ),
        )
        body = element("tbody", *(_row(group) for group in groups))
        yield element("table", element("caption", device_title(device, smoke.devices)), head, body)
    if smoke.why:
        yield element("p", smoke.why)


def _row(group: tuple[SmokeKernel, ...]) -> Markup:
    first = group[0]
    took = [kernel.ms for kernel in group if kernel.ms is not None]
    error = worst_error(group)
    told = ": ".join(filter(None, (error, said_by(first))))
    return element(
        "tr",
        element("th", f"{first.name} ", element("span", dtype_names(group), class_="dim"), scope="row"),
        element("td", first.status, class_=f"state {_STATES.get(first.status, 'error')}"),
        element("td", told, _error_bar(group) if error else None, class_="plot"),
        element("td", f"{sum(took):.1f}" if took else "", class_="figure"),
    )


def _error_bar(group: tuple[SmokeKernel, ...]) -> Markup:
    shares = [k.error / k.tolerance for k in group if k.error is not None and k.tolerance]
    share = max(shares, default=0.0)
    if share <= 0:
        return _bar(0, _LIMIT)
    place = _LIMIT + _DECADE * math.log10(share) if share < math.inf else 100
    return _bar(place, _LIMIT, wrong=share > 1 or math.isnan(share))


def rate_plots(smoke: Smoke, rates: Mapping[str, GpuRates]) -> Iterator[Markup]:
    """A bar for each measured rate; a line where the data sheet has it."""
    found: dict[str, list[tuple[SmokeKernel, str, float, float | None]]] = {}
    for kernel in smoke.kernels:
        row = rates.get(kernel.device)
        for number, (name, value) in enumerate(kernel.measures.items()):
            paper = rate_on_paper(kernel, row) if row and number == 0 else None
            found.setdefault(unit_of(name), []).append((kernel, name, value, paper))
    for unit, measured in found.items():
        widest = max(max(value, paper or 0.0) for _, _, value, paper in measured) or 1.0
        rows = (_rate_row(one, widest) for one in measured)
        yield element("table", element("caption", f"{unit} (line: data sheet)"), element("tbody", *rows))


def _rate_row(measured: tuple[SmokeKernel, str, float, float | None], widest: float) -> Markup:
    kernel, name, value, paper = measured
    title = " ".join(filter(None, (kernel.device, kernel.name)))
    share = f", {value / paper:.0%} of {paper:g} on paper" if paper else ""
    limit = None if paper is None else 100 * paper / widest
    return element(
        "tr",
        element("th", f"{title} ", element("span", dtype_names((kernel,)), class_="dim"), scope="row"),
        element("td", f"{figure_text(name, value)}{share}"),
        element("td", _bar(100 * value / widest, limit), class_="plot"),
    )


def _bar(percent: float, limit: float | None, *, wrong: bool = False) -> Markup:
    """A bar whose meaning stands as a figure beside it."""
    width = 0.0 if math.isnan(percent) else min(100.0, max(0.0, percent))
    kind = "wrong" if wrong else "right"
    bar = f'<rect class="{kind}" width="{width:.1f}%" height="100%"/>'
    line = "" if limit is None else f'<line x1="{limit:.1f}%" x2="{limit:.1f}%" y1="0" y2="100%"/>'
    return Markup(f'<svg aria-hidden="true">{bar}{line}</svg>')
