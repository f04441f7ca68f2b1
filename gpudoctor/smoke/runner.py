"""Runs jobs one by one in a child; if the child is lost, the kernel is named and the child replaced."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Literal

import msgspec
from msgspec import Struct

from gpudoctor.frameworks.torch.kernels.channel import Message
from gpudoctor.machine import Fact, ImportTrial, SmokeKernel, unknown
from gpudoctor.records import view_as
from gpudoctor.smoke.child import Child, Lost
from gpudoctor.smoke.plan import Job, Limits
from gpudoctor.smoke.trial import try_import

FAILED_STARTS = 3
"""After this many replacements in a row that do not even import torch, no more are tried."""
LOST_KERNELS = 4
"""After this many different kernels in a row that end or hang the process, the device is given up."""


class Starting(Struct, frozen=True):
    """A kernel is about to run."""

    name: str
    device: str
    dtype: str


class _Finished(Struct):
    """What a child reports of a kernel that returned."""

    status: Literal["pass", "wrong", "error", "skipped"]
    ms: float | None = None
    error: float | None = None
    tolerance: float | None = None
    detail: str = ""
    message: str = ""
    measures: dict[str, float] = {}
    sticky: bool = False


Progress = Callable[[SmokeKernel | Starting], None]


class Runner:
    """Holds one child at a time; leaving the `with` block ends it."""

    def __init__(self, start: Callable[[], Child], interpreter: str, limits: Limits) -> None:
        """`start` starts a child that counts no devices; it may raise OSError."""
        self._start, self._interpreter, self._limits = start, interpreter, limits
        self._child: Child | None = None
        self._failed_starts = 0
        self._job = 0
        self._lost_in: dict[str, set[str]] = {}
        self._given_up: dict[str, str] = {}
        self.why = ""
        """Why not everything ran."""

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        self.drop(patient=kind is None)

    def adopt(self, child: Child) -> Child:
        """Hold this child, which has imported torch already."""
        self._child = child
        return child

    def drop(self, patient: bool = False) -> bool:
        """End the child, if there is one. False if it cannot be ended."""
        child, self._child = self._child, None
        return child is None or child.end(patient)

    def ask(self, message: Message, event: str, seconds: float) -> Message:
        """One answer of the child. If the child is lost, it is dropped, and Lost is raised."""
        child = self.ready()
        if child is None:
            raise Lost("ended", None, self.why, "", gil=False)
        try:
            child.forget_words()
            child.send(message)
            return self._await(child, event, message.get("job"), seconds)
        except Lost:
            self.drop()
            raise

    def ready(self) -> Child | None:
        """The child, replaced if it is gone; None if that fails again and again."""
        while self._child is None and self._failed_starts < FAILED_STARTS:
            self._failed_starts += 1
            try:
                child = self.adopt(self._start())
            except OSError as error:
                self.why = f"no new process could be started: {error}"
                continue
            trial, _ = try_import(child, self._interpreter, self._limits)
            if trial.value is not None and trial.value.ok:
                self._failed_starts = 0
                return child
            said = trial.why if trial.value is None else trial.value.signal or trial.value.error
            self.why = f"torch was imported before, and now its import fails: {said}"
            self.drop()
        return self._child

    def try_module(self, name: str) -> Fact[ImportTrial]:
        """Import a module beside torch. If the child is lost, it is dropped."""
        child = self.ready()
        if child is None:
            return unknown(self.why)
        child.forget_words()
        child.send({"do": "import", "module": name})
        trial, lost = try_import(child, self._interpreter, self._limits, module=name, serving=True)
        if lost is not None:
            self.drop()
        return trial

    def run(self, jobs: Sequence[Job], seconds: float, progress: Progress) -> tuple[SmokeKernel, ...]:
        """Every job in order; none starts after `seconds`."""
        end = time.monotonic() + seconds
        results = []
        for job in jobs:
            why = job.skip or self._given_up.get(job.device, "")
            if not why and time.monotonic() > end:
                why = self.why = f"not started within the {seconds:g} s that all kernels have together"
            if not why:
                progress(Starting(job.kernel, job.device, job.dtype))
            result = self._skip(job, why) if why else self._run(job)
            progress(result)
            results.append(result)
        return tuple(results)

    def _skip(self, job: Job, why: str) -> SmokeKernel:
        return SmokeKernel(name=job.kernel, device=job.device, dtype=job.dtype, status="skipped", detail=why)

    def _run(self, job: Job) -> SmokeKernel:
        """One job; tried again in a new child if the old one was lost before the kernel began."""
        for last_try in (False, True):
            child = self.ready()
            if child is None:
                return self._skip(job, self.why)
            self._job += 1
            began = False
            try:
                child.forget_words()
                child.send(self._command(job))
                self._await(child, "started", self._job, self._limits.beginning)
                began = True
                finished = self._await_result(child, job.seconds)
            except Lost as lost:
                ended = self.drop()
                if began or last_try:
                    return self._note_loss(job, lost, ended)
            else:
                self._lost_in.pop(job.device, None)
                if finished.sticky:
                    self.drop()
                return view_as(SmokeKernel, finished, name=job.kernel, device=job.device, dtype=job.dtype)
        raise AssertionError("the second try ends it")

    def _command(self, job: Job) -> Message:
        return {
            "do": "run",
            "job": self._job,
            "kernel": job.kernel,
            "device": job.device,
            "dtype": job.dtype,
            "seed": int.from_bytes(os.urandom(4), "big") >> 1,
            "seconds": job.seconds,
            "minutes": job.minutes,
        }

    def _await(self, child: Child, event: str, job: Any, seconds: float) -> Message:
        message = child.receive(seconds)
        if message.get("event") != event or message.get("job") != job:
            raise child.lost("garbled")
        return message

    def _await_result(self, child: Child, seconds: float) -> _Finished:
        message = self._await(child, "finished", self._job, seconds)
        try:
            return msgspec.convert(message, _Finished)
        except msgspec.ValidationError:
            raise child.lost("garbled") from None

    def _note_loss(self, job: Job, lost: Lost, ended: bool) -> SmokeKernel:
        """The result of a job whose child was lost; a device that loses every child is given up."""
        where = self._lost_in.setdefault(job.device, set())
        where.add(job.kernel)
        if not ended:
            self._given_up[job.device] = "a process on it cannot be ended: it waits in the driver"
        elif len(where) >= LOST_KERNELS:
            self._given_up[job.device] = f"given up: {LOST_KERNELS} kernels in a row ended or hung the process"
        self.why = self._given_up.get(job.device, self.why)
        return loss(job.kernel, job.device, job.dtype, lost, job.seconds, ended)


def loss(name: str, device: str, dtype: str, lost: Lost, seconds: float, ended: bool = True) -> SmokeKernel:
    """The result if the child was lost."""
    return SmokeKernel(
        name=name,
        device=device,
        dtype=dtype,
        status="timeout" if lost.how == "silent" else "crash",
        detail=lost.sentence(seconds) + ("" if ended else "; it cannot be ended: it waits in the driver"),
        message=lost.said,
        signal=lost.signal,
    )
