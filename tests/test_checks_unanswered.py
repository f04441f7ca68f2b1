"""Drivers that were asked and did not answer: never a clean bill, never a word where nobody needs them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gpudoctor.machine import Fact, HsaAgent, HsaApi, Machine, NvidiaApi, absent, known, unknown
from tests.support.judging import judged, questions, told
from tests.support.machines import amd_machine, nvidia_machine, torch, with_stack

HUNG = unknown("cuInit: gave no answer within 20 s", "libcuda.so.1")
GPU = HsaAgent(name="gfx1100", kind="gpu", isa=("gfx1100",))


def asked(machine: Machine, **answers: Fact[object]) -> Machine:
    return with_stack(replace(machine, level="driver"), **answers)


def hsa(status: int = 0, *agents: HsaAgent) -> Fact[HsaApi]:
    return known(HsaApi(status=status, library="libhsa-runtime64.so.1", agents=agents), "libhsa-runtime64.so.1")


@pytest.mark.parametrize("why", ["cuInit: gave no answer within 20 s", "cuInit: crashed (SIGABRT)", "file too short"])
def test_a_driver_that_does_not_answer_is_not_known_to_work(why: str) -> None:
    machine = asked(nvidia_machine(), cuda=unknown(why, "libcuda.so.1"))
    assert judged(machine).verdict == "unknown"
    assert [why in question.why for question in questions(machine)] == [True]


def test_a_driver_that_starts_and_never_lists_its_gpus_is_not_known_to_work() -> None:
    cuda = known(
        NvidiaApi(status=0, message="asking libcuda for its GPUs: gave no answer within 20 s"), "libcuda.so.1"
    )
    assert judged(asked(nvidia_machine(), cuda=cuda)).verdict == "unknown"


@pytest.mark.parametrize(
    "machine",
    [
        nvidia_machine(),
        asked(nvidia_machine(), cuda=absent("libcuda.so.1")),
        asked(nvidia_machine(torch=torch("2.9.1+cpu")), cuda=HUNG),
        asked(nvidia_machine(), cuda=known(NvidiaApi(status=0, devices=()), "libcuda.so.1")),
        asked(amd_machine(), hsa=hsa(0, GPU)),
        asked(amd_machine(), hsa=absent("libhsa-runtime64.so.1")),
        asked(amd_machine(variables={"ROCR_VISIBLE_DEVICES": "0"}), hsa=hsa(0)),
    ],
)
def test_nobody_asked_or_nobody_needs_it(machine: Machine) -> None:
    assert questions(machine) == []


@pytest.mark.parametrize(
    "machine", [asked(nvidia_machine(torch=None), cuda=HUNG), asked(amd_machine(torch=None), hsa=HUNG)]
)
def test_without_a_torch_another_framework_may_need_the_driver(machine: Machine) -> None:
    assert judged(machine).verdict == "unknown"


def test_a_cause_that_is_known_is_told_instead() -> None:
    machine = asked(nvidia_machine(driver="470.256.02"), cuda=HUNG)
    assert told(machine)[0][1] == "error"
    assert judged(machine).verdict == "error"


def test_a_rocm_runtime_that_hangs_is_not_known_to_work() -> None:
    assert judged(asked(amd_machine(), hsa=HUNG)).verdict == "unknown"


@pytest.mark.parametrize("answer", [hsa(0x1008), hsa(0), hsa(0, HsaAgent(name="cpu", kind="cpu"))])
def test_a_rocm_runtime_that_refuses_or_finds_no_gpu(answer: Fact[HsaApi]) -> None:
    assert told(asked(amd_machine(), hsa=answer)) == [("no-driver", "error")]


STARTS = known(NvidiaApi(status=0, devices=()), "libcuda.so.1")
CRASHED = unknown("nvmlInit: crashed (SIGSEGV)", "libnvidia-ml.so.1")
HANGING = unknown("nvmlInit: gave no answer within 20 s", "libnvidia-ml.so.1")


@pytest.mark.parametrize(
    "nvml",
    [
        CRASHED,
        HANGING,
        unknown("libnvidia-ml.so.1: file too short", "libnvidia-ml.so.1"),
        known(NvidiaApi(status=999, message="Unknown Error"), "libnvidia-ml.so.1"),
        known(NvidiaApi(status=0, message="asking NVML for GPU 1: gave no answer"), "libnvidia-ml.so.1"),
    ],
)
def test_a_pass_that_rests_on_cuda_alone_says_so(nvml: Fact[NvidiaApi]) -> None:
    machine = asked(nvidia_machine(), nvml=nvml, cuda=STARTS)
    assert told(machine) == [("nvml-not-answering", "warning")]
    (finding,) = judged(machine).findings
    assert "CUDA alone" in finding.message
    assert judged(machine).verdict == "warning"


@pytest.mark.parametrize("nvml", [CRASHED, HANGING])
def test_nvml_that_hangs_or_crashes_beside_a_cuda_that_hangs_is_not_known_to_work(nvml: Fact[NvidiaApi]) -> None:
    assert judged(asked(nvidia_machine(), nvml=nvml, cuda=HUNG)).verdict == "unknown"


@pytest.mark.parametrize(
    "machine",
    [
        asked(nvidia_machine(), nvml=absent("libnvidia-ml.so.1"), cuda=STARTS),
        asked(nvidia_machine(), nvml=unknown("not asked"), cuda=STARTS),
        asked(nvidia_machine(), nvml=known(NvidiaApi(status=0, devices=()), "libnvidia-ml.so.1"), cuda=STARTS),
        with_stack(nvidia_machine(), nvml=CRASHED, cuda=STARTS),
    ],
    ids=["not given", "not asked", "answers", "a recording"],
)
def test_nvml_that_was_not_there_to_be_asked_is_no_fault(machine: Machine) -> None:
    assert told(machine) == []
