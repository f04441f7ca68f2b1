"""Probes a host as deep as the level says, and makes a Machine of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast, get_args

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.finding import NotJudged
from gpudoctor.host.linux import require_linux
from gpudoctor.machine import Level, Machine, Smoke
from gpudoctor.situation.usable_gpus import has_usable_gpu

if TYPE_CHECKING:
    from gpudoctor.host import Host
    from gpudoctor.matrix.questions import Matrix
    from gpudoctor.smoke.plan import Request, SmokeLevel
    from gpudoctor.smoke.session import Progress

COMPILED_FOR_TORCH = ("torchvision", "torchaudio", "torchcodec")
"""Packages whose import is tried beside that of torch."""
_DEPTH: tuple[Level, ...] = get_args(Level)


class Survey(Struct, frozen=True):
    """A probed machine, what its probes could not answer, and what each took (milliseconds)."""

    machine: Machine
    open_questions: tuple[NotJudged, ...]
    timings_ms: dict[str, float]


def _untold(_: str) -> None:
    """Nobody is told what begins."""


def survey(
    host: Host,
    matrix: Matrix,
    *,
    python: str | None = None,
    level: Level | None = None,
    drivers: bool = True,
    kernels: bool = True,
    imports: bool = True,
    request: Request | None = None,
    framework: str = "torch",
    progress: Progress | None = None,
    stage: Callable[[str], None] = _untold,
) -> Survey:
    """Probe a host. Without a level, `quick` where a usable GPU and a torch are, else `driver`, and torch
    is started once where there is one; a host that is not live is always read at level static.

    `drivers` false: no driver is asked. `kernels` false: no smoke kernel is run, however deep the level. `imports`
    false: where torch is imported, nothing else is. With another `framework` than torch, that one computes instead.
    `request` names kernels, devices and limits (the rest of it is filled in here); `progress` is told of each kernel,
    `stage` of what begins.
    Raises InputError on another system than Linux, if `python` is no Python environment, or for a device that torch
    does not see.
    """
    require_linux()
    from gpudoctor.survey.files import read_files  # all probes: who reads a snapshot or a text needs none
    from gpudoctor.survey.probing import Probing

    probing = Probing()
    stage("reading the machine's files")
    machine = read_files(host, matrix, python, probing)
    if not host.live:
        from gpudoctor.survey.drivers import with_recorded_answers

        machine = with_recorded_answers(host, matrix, machine, probing)
        return Survey(machine, tuple(probing.open_questions), probing.timings_ms)
    depth = level or ("quick" if has_usable_gpu(machine) and machine.torch is not None else "driver")
    if drivers and _reaches(depth, "driver"):
        from gpudoctor.survey.drivers import ask_drivers

        stage("asking the driver")
        machine = replace(ask_drivers(host, matrix, machine, probing), level="driver")
    if framework != "torch":
        from gpudoctor.survey.imports import compute_with

        stage(f"computing with {framework}")
        devices = request.devices if request else ()
        machine = compute_with(framework, devices, host, machine, probing)
    elif level is None or _reaches(depth, "quick"):
        from gpudoctor.survey.imports import import_others, start_torch, with_emptied_files

        asked = level is not None
        stage("importing torch")
        run = Smoke(level=cast("SmokeLevel", depth), asked=asked) if kernels and _reaches(depth, "quick") else None
        beside = COMPILED_FOR_TORCH if imports else ()
        machine = start_torch(host, machine, run, request, beside, progress, probing)
        if imports:
            machine = import_others(host, matrix, machine, probing, stage)
            machine = with_emptied_files(host, matrix, machine, probing)
    return Survey(machine, tuple(probing.open_questions), probing.timings_ms)


def _reaches(level: Level, wanted: Level) -> bool:
    return _DEPTH.index(level) >= _DEPTH.index(wanted)
