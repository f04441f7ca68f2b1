"""Messages as the sources of programs have them: what a user is told who pastes one such line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudoctor.line_search import Words
from tests.support.judged_texts import judgement, problems

PRINTED = [
    tuple(line.split("\t"))
    for line in Path(__file__).with_name("cases").joinpath("printed_messages.txt").read_text().splitlines()
    if not line.startswith("#")
]
BUGS = [
    "CUDA error: an illegal memory access was encountered",
    "CUDA error: an illegal instruction was encountered",
    "CUDA error: device-side assert triggered",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    "RuntimeError: CUDA failed with error out of memory",
    "torch.cuda.OutOfMemoryError: Allocation on device",
    "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,000,000,000 bytes",
    "CUDA error: invalid argument",
    "CUDA error: invalid configuration argument",
    "CUDA error: operation not permitted when stream is capturing",
    "CUDA error: peer access is already enabled",
    "numba.cuda.cudadrv.driver.CudaAPIError: [1] Call to cuLaunchKernel results in CUDA_ERROR_INVALID_VALUE",
    "RuntimeError: connect to 10.0.0.2 failed : Connection refused",
]


def test_there_are_many_and_each_stands_once() -> None:
    assert len({message for _, message in PRINTED}) == len(PRINTED) >= 300


@pytest.mark.parametrize(("first", "message"), PRINTED)
def test_a_message_of_a_programs_source_is_known(first: str, message: str) -> None:
    found = judgement(message).findings
    assert (problems(message) or ["note"])[0] == first
    assert found or first == "note"


@pytest.mark.parametrize("message", BUGS)
def test_a_bug_of_a_program_is_no_fault_of_the_machine(message: str) -> None:
    assert problems(message) == []


@pytest.mark.parametrize(
    "message",
    ["RuntimeError: CUDA error: unspecified launch failure", "CUDA error: device kernel image is invalid"],
)
def test_a_message_that_says_cuda_is_nvidias_first(message: str) -> None:
    first = judgement(message).findings[0]
    assert first.slug in ("gpu-off-bus", "driver-too-old")
    assert "hsa-override-wrong" not in first.possible_causes[:3]


def test_where_the_text_names_an_amd_gpu_it_is_hips() -> None:
    text = "AMD Radeon RX 6700 XT (gfx1031)\nRuntimeError: CUDA error: unspecified launch failure\n"
    assert "gpu-off-bus" not in problems(text)


@given(st.text(max_size=200), st.text(max_size=20), st.text(max_size=200))
def test_the_words_of_a_text_hide_no_sign(before: str, sign: str, after: str) -> None:
    assert Words(before + sign + after).may_hold(sign)
    assert not Words("no kernel image is available").may_hold("CUDA_ERROR_NO_BINARY")
