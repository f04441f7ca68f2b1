"""How deep a machine is looked at, and what of the smoke kernels is asked for: by GPUs, torch and level."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpudoctor.command_line import machine_source
from gpudoctor.command_line.arguments import ExaminationOptions
from gpudoctor.command_line.machine_source import Sources
from gpudoctor.host import Host as AnyHost
from gpudoctor.host.recorded_host import RecordedHost
from gpudoctor.intake.description import Description
from gpudoctor.machine import (
    ImportTrial,
    Level,
    NvidiaApi,
    NvmlDevice,
    PythonEnvironment,
    Smoke,
    SmokeKernel,
    known,
    unknown,
)
from gpudoctor.probes import nvidia_answers
from gpudoctor.smoke import session
from gpudoctor.smoke.session import Progress, Request, SessionResult
from gpudoctor.survey import Survey, survey
from tests.support.check_cases import matrix
from tests.support.hosts import Host
from tests.support.machines import no_gpu_machine, torch


class Running(RecordedHost):
    """A recorded machine that is taken for the running one; its drivers' tools answer what was recorded."""

    live = True


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """The requests that reach the session, which answers that every kernel is right."""
    requests: list[Request] = []

    def perform(host: AnyHost, environment: PythonEnvironment, request: Request, progress: Progress) -> SessionResult:
        requests.append(request)
        trial = known(ImportTrial(ok=True, version="2.9.1"), "made up")
        if request.level is None:
            return SessionResult(trial)
        kernel = SmokeKernel(name="matmul", device="cuda:0", dtype="float32")
        return SessionResult(trial, Smoke(level=request.level, kernels=(kernel,), asked=request.asked))

    monkeypatch.setattr(session, "perform", perform)
    return requests


def with_gpu(host: Host) -> None:
    host.nvidia_gpu("2684").nvidia_driver("580.95.05").torch("2.9.1+cu128")


def without_gpu(host: Host) -> None:
    host.torch("2.9.1+cu128")


def without_torch(host: Host) -> None:
    host.nvidia_gpu("2684").nvidia_driver("580.95.05").venv()


def surveyed(tmp_path: Path, build: Callable[[Host], None], level: Level | None = None, **options: object) -> Survey:
    host = Host(tmp_path).ubuntu()
    build(host)
    host.run()
    return survey(Running(tmp_path), matrix(), level=level, **options)  # type: ignore[arg-type]


def test_a_gpu_and_a_torch_are_tried_at_quick_without_being_asked(tmp_path: Path, asked: list[Request]) -> None:
    found = surveyed(tmp_path, with_gpu)
    (request,) = asked
    assert (request.level, request.asked, request.devices, request.kernels) == ("quick", False, (), ())
    assert not request.cpu_instead
    assert found.machine.level == "quick"
    assert found.machine.smoke is not None
    assert found.machine.torch is not None
    assert found.machine.torch.trial.value is not None
    assert "smoke" in found.timings_ms


def test_a_described_machine_is_tried_on_the_cpu_without_a_person_asking_for_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A GPU build without a GPU is no healthier for it."""
    requests = list[Request | None]()

    def noted(*_: object, request: Request | None = None, **__: object) -> Survey:
        requests.append(request)
        return Survey(no_gpu_machine(torch=torch()), (), {})

    monkeypatch.setattr(machine_source, "survey", noted)
    described = Description(driver="580.95.05")
    machine_source.examine_quietly(Sources(ExaminationOptions(level="quick"), {}, description=described), matrix())
    (request,) = requests
    assert request is not None
    assert (request.devices, request.cpu_asked) == (("cpu",), False)


def test_without_a_gpu_torch_is_only_imported(tmp_path: Path, asked: list[Request]) -> None:
    found = surveyed(tmp_path, without_gpu)
    assert [request.level for request in asked] == [None]
    assert (found.machine.level, found.machine.smoke) == ("driver", None)
    assert found.machine.torch is not None
    assert found.machine.torch.trial.known


@pytest.mark.parametrize("level", ["static", "driver"])
def test_a_lower_level_starts_no_python(tmp_path: Path, asked: list[Request], level: Level) -> None:
    assert surveyed(tmp_path, with_gpu, level).machine.smoke is None
    assert asked == []


@pytest.mark.parametrize("level", ["quick", "standard", "full"])
def test_a_level_asked_for_without_a_gpu_proves_torch_on_the_cpu(
    tmp_path: Path, asked: list[Request], level: Level
) -> None:
    assert surveyed(tmp_path, without_gpu, level).machine.level == level
    assert [(request.level, request.asked, request.cpu_instead) for request in asked] == [(level, True, True)]


def test_where_there_is_no_torch_nothing_is_started_and_why_is_told(tmp_path: Path, asked: list[Request]) -> None:
    machine = surveyed(tmp_path, without_torch, "quick").machine
    assert asked == []
    assert machine.level == "driver"
    assert machine.smoke == Smoke(level="quick", why="no torch is installed", asked=True)
    on_gpu = Request(level=None, devices=("cuda:0",))
    smoke = surveyed(tmp_path, lambda host: None, "quick", request=on_gpu).machine.smoke
    assert smoke is not None
    assert smoke.gpu_asked


def test_what_was_chosen_reaches_the_session_and_the_level_is_filled_in(tmp_path: Path, asked: list[Request]) -> None:
    chosen = Request(level=None, devices=("cuda:0",), kernels=("matmul",), seconds=3.0)
    surveyed(tmp_path, with_gpu, "standard", request=chosen)
    (request,) = asked
    assert (request.level, request.devices, request.kernels) == ("standard", ("cuda:0",), ("matmul",))
    assert (request.seconds, request.asked) == (3.0, True)


def test_without_kernels_a_deep_level_still_imports_torch(tmp_path: Path, asked: list[Request]) -> None:
    assert surveyed(tmp_path, with_gpu, "quick", kernels=False).machine.smoke is None
    assert [request.level for request in asked] == [None]


def test_a_level_at_which_nothing_computed_is_not_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    busy = SmokeKernel(name="matmul", device="cuda:0", status="skipped", detail="its memory is full")
    answer = SessionResult(known(ImportTrial(ok=True), "made up"), Smoke(level="quick", kernels=(busy,)))
    monkeypatch.setattr(session, "perform", lambda *_: answer)
    assert surveyed(tmp_path, with_gpu).machine.level == "driver"


def test_a_session_that_crashes_is_told_and_matters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "perform", lambda *_: 1 / 0)
    found = surveyed(tmp_path, with_gpu)
    assert [(question.id, question.matters) for question in found.open_questions] == [("GPD902", True)]
    assert found.machine.smoke is not None
    assert (found.machine.smoke.kernels, found.machine.smoke.why) == ((), "the smoke session crashed")


def test_a_gpu_that_is_full_is_named_to_the_session(
    tmp_path: Path, asked: list[Request], monkeypatch: pytest.MonkeyPatch
) -> None:
    full = NvmlDevice(index=0, bdf="0000:01:00.0", uuid="GPU-1234abcd", memory=24 << 30, memory_used=24 << 30)
    nvml = known(NvidiaApi(status=0, devices=(full,)), "NVML")
    silent = unknown("not asked")
    monkeypatch.setattr(nvidia_answers, "ask_nvidia", lambda *_: (nvml, silent, silent))
    surveyed(tmp_path, with_gpu, "quick")
    assert asked[0].blocked == {"0000:01:00.0": "its memory is full", "GPU-1234abcd": "its memory is full"}


def test_below_a_root_nothing_is_started(tmp_path: Path, asked: list[Request]) -> None:
    with_gpu(host := Host(tmp_path).ubuntu())
    host.run()
    assert survey(RecordedHost(tmp_path), matrix(), level="quick").machine.smoke is None
    assert asked == []
