"""What `import torch` did in a child: the first thing that every child does."""

from __future__ import annotations

import time

import msgspec
from msgspec import Struct

from gpudoctor.machine import NOT_STARTED, Fact, ImportTrial, known, unknown
from gpudoctor.smoke.child import Child, Lost
from gpudoctor.smoke.plan import Limits

_ERROR_LIMIT = 600


class _Report(Struct):
    """A message of the import: `event` is importing, raised, imported or counted."""

    event: str
    error: str = ""
    seconds: float = 0.0
    version: str = ""
    cuda: str = ""
    hip: str = ""
    arch_list: tuple[str, ...] = ()
    device_count: int | None = None
    device_error: str = ""


def try_import(
    child: Child, interpreter: str, limits: Limits, *, count: bool
) -> tuple[Fact[ImportTrial], Lost | None]:
    """Follow a child through the import and, with `count`, the counting of devices.

    Also returns what happened to a lost child: it may be lost after an import that worked.
    """
    source = f"import torch in {interpreter}"
    deadline = time.monotonic() + limits.importing
    report = _Report(event="")
    try:
        while report.event not in ("raised", "imported"):
            report = _next(child, report, deadline - time.monotonic())
        if report.event == "imported" and count:
            report = _next(child, report, limits.counting)
    except Lost as lost:
        return _lost(lost, report, limits, source), lost
    if report.event == "raised":
        return known(ImportTrial(ok=False, error=report.error[:_ERROR_LIMIT], seconds=report.seconds), source), None
    return known(_imported(report, report.device_error), source), None


def not_started(interpreter: str) -> Fact[ImportTrial]:
    """A venv outlives the Python that it was made with."""
    error = f"{NOT_STARTED}: {interpreter} leads to no Python"
    return known(ImportTrial(ok=False, error=error), f"import torch in {interpreter}")


def _next(child: Child, before: _Report, seconds: float) -> _Report:
    message = child.receive(seconds)
    try:
        report = msgspec.convert(message, _Report)
    except msgspec.ValidationError:
        raise child.lost("garbled") from None
    if report.event == "counted":
        return msgspec.structs.replace(
            before, event="counted", device_count=report.device_count, device_error=report.device_error
        )
    return report


def _lost(lost: Lost, report: _Report, limits: Limits, source: str) -> Fact[ImportTrial]:
    if report.event == "imported":  # it was lost while counting the devices: no fault of the import
        return known(_imported(report, f"the devices could not be counted: {lost.sentence(limits.counting)}"), source)
    if lost.how == "silent":
        began = "import torch gave " if report.event else ""
        return unknown(began + lost.sentence(limits.importing), source)
    said = (lost.last_line or (lost.place and f"at {lost.place}"))[:_ERROR_LIMIT]
    if not report.event:
        how = NOT_STARTED + ("" if lost.signal else f" (status {lost.status})")
    elif lost.signal:
        return known(ImportTrial(ok=False, error=said, signal=lost.signal), source)
    elif lost.how == "garbled":
        how = "the import wrote into gpudoctor's channel"
    else:
        how = f"the process ended with status {lost.status} during the import"
    return known(ImportTrial(ok=False, error=f"{how}: {said}" if said else how, signal=lost.signal), source)


def _imported(report: _Report, error: str) -> ImportTrial:
    return ImportTrial(
        ok=True,
        version=report.version,
        cuda=report.cuda,
        hip=report.hip,
        arch_list=report.arch_list,
        device_count=report.device_count,
        seconds=round(report.seconds, 3),
        error=error,
    )
