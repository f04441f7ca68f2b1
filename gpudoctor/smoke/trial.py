"""What an import did in a child: that of torch is the first thing that a child for kernels does."""

from __future__ import annotations

import re
import time

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.host import Host
from gpudoctor.host.interrupts import deferred
from gpudoctor.host.supervision import supervising
from gpudoctor.host.temporary import temporary_folder
from gpudoctor.machine import NOT_STARTED, Fact, ImportTrial, StartVariable, known, unknown
from gpudoctor.records import view_as
from gpudoctor.smoke.child import Child, Lost
from gpudoctor.smoke.plan import KERNELS, Limits

_ERROR_LIMIT = 600
_LIMITS = Limits()
_PRINTED_ERROR = r"^\w*Error: .+"
_PROGRESS_SECONDS = 20.0
"""An import that began to load another library this recently is slow and does not hang."""


class _Report(Struct):
    """A message of the import: `event` is importing, loading, raised, imported or counted."""

    event: str
    path: str = ""
    error: str = ""
    root: str = ""
    files: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    module: str = ""
    seconds: float = 0.0
    version: str = ""
    cuda: str = ""
    hip: str = ""
    arch_list: tuple[str, ...] = ()
    device_count: int | None = None
    device_error: str = ""
    variables: tuple[StartVariable, ...] = ()


def try_import(
    child: Child,
    interpreter: str,
    limits: Limits,
    *,
    count: bool = False,
    module: str = "torch",
    serving: bool = False,
) -> tuple[Fact[ImportTrial], Lost | None]:
    """Follow a child through the import and, with `count`, the counting of devices. Also returns what happened to a
    lost child: it may be lost after an import that worked. With `serving` the child has run Python already."""
    source = f"import {module} in {interpreter}"
    report, loading = _Report(event="importing" if serving else ""), _Loading()
    trial, lost = _try_to_count(child, report, loading, limits, source, count=count)
    if trial.value is not None and loading.variables:
        trial = replace(trial, value=replace(trial.value, variables=loading.variables))
    return trial, lost


def _try_to_count(
    child: Child, report: _Report, loading: _Loading, limits: Limits, source: str, *, count: bool
) -> tuple[Fact[ImportTrial], Lost | None]:
    try:
        report = _finished_import(child, report, loading, limits.importing)
        if report.event == "imported" and count:
            report = _next(child, report, limits.counting)
    except Lost as lost:
        return _without_answer(lost, report if report.event else loading.report, loading, limits, source), lost
    if report.event == "raised":
        return known(_exception(report, child.said), source), None
    return known(_success(report, report.device_error), source), None


class _Loading:
    """How far an import has come: its last message, and the library that it began to load last."""

    def __init__(self) -> None:
        self.report = _Report(event="")
        self.path = ""
        self.since = 0.0
        self.variables: tuple[StartVariable, ...] = ()

    def note(self, report: _Report) -> None:
        self.report = report
        self.variables = self.variables or report.variables
        if report.event == "loading":
            self.path, self.since = report.path, time.monotonic()


def _finished_import(child: Child, report: _Report, loading: _Loading, seconds: float) -> _Report:
    """The message that ends the import. Raises Lost."""
    deadline = time.monotonic() + seconds
    while report.event not in ("raised", "imported"):
        report = _next(child, report, deadline - time.monotonic())
        loading.note(report)
    return report


def _exception(report: _Report, said: str) -> ImportTrial:
    # What a compiled module prints, and raises without a word: NumPy's own error is told only there.
    printed = re.findall(_PRINTED_ERROR, said, flags=re.M) if ":" not in report.error else []
    root = (report.root or (printed[-1] if printed else ""))[:_ERROR_LIMIT]
    return view_as(ImportTrial, report, ok=False, error=report.error[:_ERROR_LIMIT], root=root)


def not_started(interpreter: str, why: str) -> Fact[ImportTrial]:
    """A venv outlives the Python that it was made with; an interpreter may be for another processor."""
    return known(ImportTrial(ok=False, error=f"{NOT_STARTED}: {interpreter} {why}"), f"import torch in {interpreter}")


def _next(child: Child, before: _Report, seconds: float) -> _Report:
    message = child.receive(seconds)
    try:
        report = msgspec.convert(message, _Report)
    except msgspec.ValidationError:
        raise child.lost("garbled") from None
    if report.event == "counted":
        return replace(before, event="counted", device_count=report.device_count, device_error=report.device_error)
    return report


def _without_answer(lost: Lost, report: _Report, loading: _Loading, limits: Limits, source: str) -> Fact[ImportTrial]:
    if report.event == "imported":  # it was lost while counting the devices: no fault of the import
        return known(_success(report, f"the devices could not be counted: {lost.sentence(limits.counting)}"), source)
    if lost.how == "silent":
        return _gave_no_answer(lost, report, loading, limits, source)
    if lost.how == "stopped":
        what = source.partition(" in ")[0]
        return unknown(f"{what} could not be tried: {lost.sentence(limits.importing)}", source)
    said = (lost.last_line or (lost.place and f"at {lost.place}"))[:_ERROR_LIMIT]
    signal = ""
    if not report.event:
        how = NOT_STARTED + ("" if lost.signal else f" (status {lost.status})")
        fatal = re.search(r"^Fatal Python error: (.+)", lost.said, flags=re.M)
        said = fatal[1][:_ERROR_LIMIT] if fatal else said
    elif lost.signal:
        how, signal = "", lost.signal
    elif lost.how == "garbled":
        how = "the import wrote into gpudoctor's channel"
    else:
        how = f"the process ended with status {lost.status} during the import"
    error = f"{how}: {said}" if how and said else how or said
    files = _printed_files(lost.said) or lost.files
    return known(ImportTrial(ok=False, error=error, signal=signal, files=files, loading=loading.path), source)


def _gave_no_answer(lost: Lost, report: _Report, loading: _Loading, limits: Limits, source: str) -> Fact[ImportTrial]:
    """A hang is a fault. A process that still loads libraries is only slow: from a cold network disk, say."""
    if loading.path and time.monotonic() - loading.since < min(_PROGRESS_SECONDS, limits.importing / 2):
        what = source.partition(" in ")[0]
        why = f"{what} still loaded libraries after {limits.importing:g} s, the last one {loading.path}"
        return unknown(why, source)
    own = ", called from "  # a line of gpudoctor's
    error = ("" if report.event else f"{NOT_STARTED}: ") + lost.sentence(limits.importing).partition(own)[0]
    hung = ImportTrial(ok=False, error=error, hung=True, files=lost.files, loading=loading.path)
    return known(hung, source)


def _printed_files(said: str) -> tuple[str, ...]:
    """The files of a traceback that Python itself printed, innermost first."""
    return tuple(dict.fromkeys(reversed(re.findall(r'^File "([^"<]+)", line \d+', said, flags=re.M))))


def _success(report: _Report, error: str) -> ImportTrial:
    return view_as(ImportTrial, report, ok=True, seconds=round(report.seconds, 3), error=error)


def try_module(host: Host, interpreter: str, module: str, *, limits: Limits = _LIMITS) -> Fact[ImportTrial]:
    """What became of an import; nothing is left behind. A signal that comes meanwhile (Ctrl-C, SIGTERM) takes effect
    when the child is gone."""
    source = f"import {module} in {interpreter}"
    with deferred() as interruptions, supervising(limits.importing):
        try:
            with temporary_folder("import") as folder:
                child = Child(interpreter, host.environ, folder, KERNELS, interruptions, module=module)
                return _import_and_end(child, interpreter, module, limits)
        except (OSError, ValueError) as error:  # no process, no temporary folder: nothing is known of the module
            return unknown(f"import {module} could not be tried: {error}", source)


def _import_and_end(child: Child, interpreter: str, module: str, limits: Limits) -> Fact[ImportTrial]:
    patient = False
    try:
        trial, lost = try_import(child, interpreter, limits, module=module)
        patient = lost is None
        return trial
    finally:
        child.end(patient)
