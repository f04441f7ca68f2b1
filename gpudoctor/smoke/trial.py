"""What `import torch` did in a child: the first thing that every child does."""

from __future__ import annotations

import time

import msgspec
from msgspec import Struct

from gpudoctor.machine import NOT_STARTED, Fact, ImportTrial, known, unknown
from gpudoctor.smoke.child import Child, Lost
from gpudoctor.smoke.plan import Limits

_ERROR_LIMIT = 600


class _Told(Struct):
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

    With what became of the child where it is of no use any more: it may be lost after an import that worked.
    """
    source = f"import torch in {interpreter}"
    deadline = time.monotonic() + limits.importing
    told = _Told(event="")
    try:
        while told.event not in ("raised", "imported"):
            told = _next(child, told, deadline - time.monotonic())
        if told.event == "imported" and count:
            told = _next(child, told, limits.counting)
    except Lost as lost:
        return _lost(lost, told, limits, source), lost
    if told.event == "raised":
        return known(ImportTrial(ok=False, error=told.error[:_ERROR_LIMIT], seconds=told.seconds), source), None
    return known(_imported(told, told.device_error), source), None


def not_started(interpreter: str) -> Fact[ImportTrial]:
    """A venv outlives the Python that it was made with."""
    error = f"{NOT_STARTED}: {interpreter} leads to no Python"
    return known(ImportTrial(ok=False, error=error), f"import torch in {interpreter}")


def _next(child: Child, before: _Told, seconds: float) -> _Told:
    message = child.receive(seconds)
    try:
        told = msgspec.convert(message, _Told)
    except msgspec.ValidationError:
        raise child.lost("garbled") from None
    if told.event == "counted":
        return msgspec.structs.replace(
            before, event="counted", device_count=told.device_count, device_error=told.device_error
        )
    return told


def _lost(lost: Lost, told: _Told, limits: Limits, source: str) -> Fact[ImportTrial]:
    if told.event == "imported":  # it was lost in counting the devices: no fault of the import
        return known(_imported(told, f"the devices could not be counted: {lost.sentence(limits.counting)}"), source)
    if lost.how == "silent":
        began = "import torch gave " if told.event else ""
        return unknown(began + lost.sentence(limits.importing), source)
    said = (lost.last_line or (lost.place and f"at {lost.place}"))[:_ERROR_LIMIT]
    if not told.event:
        how = NOT_STARTED + ("" if lost.signal else f" (status {lost.status})")
    elif lost.signal:
        return known(ImportTrial(ok=False, error=said, signal=lost.signal), source)
    elif lost.how == "garbled":
        how = "the import wrote into gpudoctor's channel"
    else:
        how = f"the process ended with status {lost.status} during the import"
    return known(ImportTrial(ok=False, error=f"{how}: {said}" if said else how, signal=lost.signal), source)


def _imported(told: _Told, error: str) -> ImportTrial:
    return ImportTrial(
        ok=True,
        version=told.version,
        cuda=told.cuda,
        hip=told.hip,
        arch_list=told.arch_list,
        device_count=told.device_count,
        seconds=round(told.seconds, 3),
        error=error,
    )
