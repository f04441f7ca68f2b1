"""The forms of a fleet's report; only the chosen writer is imported."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from gpudoctor.fleet.records import FleetReport

FORMATS = ("text", "json", "junit", "openmetrics", "markdown", "html")


def write_fleet(report: FleetReport, style: str, out: TextIO, *, color: bool = False, verbose: bool = False) -> None:
    """Write a fleet's report to `out` in one of FORMATS."""
    if style == "text":
        from gpudoctor.render.fleet.text import fleet_lines
        from gpudoctor.render.lines import print_lines

        print_lines(fleet_lines(report, verbose=verbose), out, color=color)
    elif style == "json":
        from gpudoctor.render.json import to_json

        out.write(to_json(report))
    else:
        out.write(import_module(f"gpudoctor.render.fleet.{style}").text_of(report))
