"""The smoke run: imports torch once in a child of the examined interpreter, then runs kernel by kernel."""

from __future__ import annotations

import errno
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from gpudoctor.host import Host
from gpudoctor.host.interrupts import Interruptions, deferred
from gpudoctor.host.supervision import supervising
from gpudoctor.host.temporary import temporary_folder
from gpudoctor.machine import LISTING, Fact, ImportTrial, PythonEnvironment, Smoke, SmokeDevice, SmokeKernel, unknown
from gpudoctor.smoke import plan
from gpudoctor.smoke.child import Child, Lost
from gpudoctor.smoke.plan import KERNELS, Limits, Request
from gpudoctor.smoke.runner import Progress, Runner, Starting, loss
from gpudoctor.smoke.trial import not_started, try_import

if TYPE_CHECKING:
    from gpudoctor.frameworks.torch.kernels.kernel import Kernel

__all__ = ["Limits", "Progress", "Request", "SessionResult", "Starting", "ignore", "perform"]

_LIMITS = Limits()
_OF_THE_INTERPRETER = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EISDIR, errno.ELOOP, errno.ENOEXEC)
"""Errors of execve(2) that tell of the file, not of the system's state."""


class SessionResult(Struct, frozen=True):
    """The result of the import and, if a level was asked for, of the kernels."""

    trial: Fact[ImportTrial]
    smoke: Smoke | None = None
    beside: tuple[Fact[ImportTrial], ...] = ()
    """The trials of modules beside torch, in their order; none if torch itself cannot be imported."""


def ignore(_: SmokeKernel | Starting) -> None:
    """Progress that nobody watches."""


def perform(
    host: Host,
    environment: PythonEnvironment,
    request: Request,
    progress: Progress = ignore,
    *,
    kernels: Path = KERNELS,
    limits: Limits = _LIMITS,
) -> SessionResult:
    """Import torch in the environment's interpreter and run what is asked for; nothing is left behind.

    Raises InputError for an unknown kernel or device. A signal that comes meanwhile (Ctrl-C, SIGTERM) takes effect
    when the children are gone.
    """
    plan.check_device_names(request)
    chosen = plan.choose_kernels(request, plan.declared_kernels(kernels)) if request.level else ()
    refusal = "" if environment.interpreter else "the environment has no interpreter"
    refusal = refusal if host.live else "nothing runs below a root"
    if refusal:
        return _not_run(unknown(refusal), request, refusal)
    performed: SessionResult | None = None
    seconds = limits.importing * (1 + len(request.beside)) + (limits.in_all(request, 1) if request.level else 0.0)
    with deferred() as interruptions, supervising(seconds), ExitStack() as stack:
        try:
            folder = stack.enter_context(temporary_folder("smoke"))
        except OSError as error:
            why = f"no temporary folder: {error.strerror}"
            return _not_run(unknown(why, f"import torch in {environment.interpreter}"), request, why)
        session = _Session(host, environment.interpreter, request, progress, limits, chosen)
        performed = session.perform(folder, kernels, interruptions)
    assert performed is not None
    return performed


def _not_run(trial: Fact[ImportTrial], request: Request, why: str) -> SessionResult:
    if request.level is None:
        return SessionResult(trial)
    return SessionResult(trial, _result(request, why=why))


def _result(
    request: Request, devices: tuple[SmokeDevice, ...] = (), kernels: tuple[SmokeKernel, ...] = (), why: str = ""
) -> Smoke:
    assert request.level is not None
    return Smoke(
        level=request.level,
        devices=devices,
        kernels=kernels,
        why=why,
        asked=request.asked,
        gpu_asked=request.asked and request.gpu_asked,
        cpu_asked=request.asked and request.cpu_asked,
    )


class _Listed(Struct):
    devices: tuple[SmokeDevice, ...] = ()
    error: str = ""


class _Session:
    def __init__(
        self,
        host: Host,
        interpreter: str,
        request: Request,
        progress: Progress,
        limits: Limits,
        kernels: tuple[Kernel, ...],
    ) -> None:
        self._host, self._interpreter, self._request = host, interpreter, request
        self._progress, self._limits, self._kernels = progress, limits, kernels

    def perform(self, folder: Path, kernels: Path, interruptions: Interruptions) -> SessionResult:
        def start(count: bool = False) -> Child:
            return Child(self._interpreter, self._host.environ, folder, kernels, interruptions, count=count)

        with Runner(start, self._interpreter, self._limits) as runner:
            try:
                child = runner.adopt(start(count=True))
            except (OSError, ValueError) as error:
                return self._no_child(error)
            trial, lost = try_import(child, self._interpreter, self._limits, count=True)
            if lost is not None:
                runner.drop()
            if trial.value is None or not trial.value.ok:
                said = trial.why if trial.value is None else trial.value.signal or trial.value.error
                return _not_run(trial, self._request, f"torch cannot be imported: {said}")
            smoke = self._smoke(runner, trial.value, lost) if self._request.level else None
            return SessionResult(trial, smoke, tuple(map(runner.try_module, self._request.beside)))

    def _no_child(self, error: Exception) -> SessionResult:
        """The interpreter's own fault, or one of this system at this moment."""
        number = error.errno if isinstance(error, OSError) else None
        said = (error.strerror if isinstance(error, OSError) else "") or str(error)
        if number in _OF_THE_INTERPRETER:
            why = "leads to no Python" if number == errno.ENOENT else f"cannot be started ({said})"
            trial = not_started(self._interpreter, why)
            return _not_run(trial, self._request, trial.value.error if trial.value else "")
        why = f"{self._interpreter} cannot be started: {said}"
        return _not_run(unknown(why, f"import torch in {self._interpreter}"), self._request, why)

    def _smoke(self, runner: Runner, trial: ImportTrial, lost: Lost | None) -> Smoke:
        """List the devices and run the kernels. `lost` says what happened to the first child in counting them."""
        request = self._request
        gpu_build = bool(trial.cuda or trial.hip)
        if request.devices == () and (not gpu_build or (request.cpu_instead and not trial.device_count)):
            request = msgspec.structs.replace(request, devices=("cpu",))
        gpus: tuple[SmokeDevice, ...] = ()
        failed: SmokeKernel | None = None
        if plan.wants_gpus(request):
            try:
                if lost is not None:
                    raise lost
                gpus = self._list(runner)
            except Lost as now:
                seconds = self._limits.counting if lost else self._limits.listing
                failed = loss(LISTING, "cuda", "", now, seconds)
            except _ListingError as error:
                failed = SmokeKernel(name=LISTING, device="cuda", status="error", message=str(error))
        if failed is not None:
            self._progress(failed)
            devices: tuple[SmokeDevice, ...] = (self._cpu(),) if plan.wants_cpu(request) else ()
        else:
            devices = plan.choose_devices(request, gpus, self._cpu())
        jobs = plan.jobs(request, self._kernels, devices, len(gpus))
        results = runner.run(jobs, self._limits.in_all(request, len(devices)), self._progress)
        none = "torch sees no GPU" if plan.wants_gpus(request) and not gpus else ""
        why = runner.why or ("torch could not list its devices" if failed else none)
        return _result(self._request, devices, (*((failed,) if failed else ()), *results), why)

    def _cpu(self) -> SmokeDevice:
        uname = self._host.uname().value
        return SmokeDevice(name="cpu", arch=uname.machine if uname else "")

    def _list(self, runner: Runner) -> tuple[SmokeDevice, ...]:
        """Every GPU that torch sees. Raises Lost, or _ListingError if torch raises."""
        command = {"do": "list", "untouched": list(self._request.blocked)}
        answer = runner.ask(command, "devices", self._limits.listing)
        try:
            listed = msgspec.convert(answer, _Listed)
        except msgspec.ValidationError as error:
            raise _ListingError(f"torch's list of devices cannot be read: {error}") from None
        if listed.error:
            raise _ListingError(listed.error)
        return listed.devices


class _ListingError(Exception):
    """torch raised when it was asked for its devices."""
