"""Kernels that go wrong with a real torch; GPUDOCTOR_TEST_PYTHON names an interpreter that has one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpudoctor.smoke.session import Limits, Request
from tests.support.smoke_children import results, session, write_kernels

INTERPRETER = os.environ.get("GPUDOCTOR_TEST_PYTHON", "")
pytestmark = pytest.mark.skipif(not INTERPRETER, reason="GPUDOCTOR_TEST_PYTHON names no interpreter with torch")

KERNELS = """
def product(run):
    left = run.torch.rand(64, 64, dtype=run.torch.float64, device=run.device)
    difference = (left.float() @ left.float()).double() - left @ left
    return Outcome(float(difference.abs().max()), 1e-3)

@kernel("first", "quick")
def first(run):
    "Right."
    return product(run)

@kernel("wrong matmul", "quick")
def wrong(run):
    "A torch whose matmul is wrong."
    right = run.torch.Tensor.__matmul__
    run.torch.Tensor.__matmul__ = lambda a, b: right(a, b) + (a.dtype == run.torch.float32)
    try:
        return product(run)
    finally:
        run.torch.Tensor.__matmul__ = right

@kernel("out of memory", "quick")
def too_much(run):
    "More than there is."
    return Outcome(float(run.torch.empty(1 << 50, device=run.device)[0]), 1.0)

@kernel("crashes in C++", "quick")
def crashes(run):
    "Reads where nothing is."
    run.torch.frombuffer((ctypes.c_char * 99).from_address(8), dtype=run.torch.uint8).sum()

@kernel("corrupts the heap", "quick")
def corrupts(run):
    "Frees what was never allocated."
    ctypes.CDLL(None).free(ctypes.c_void_p(run.torch.rand(99).data_ptr() + 8))
    return product(run)

@kernel("last", "quick")
def last(run):
    "Right."
    return product(run)
"""


def test_faults_under_a_real_torch(tmp_path: Path) -> None:
    performed = session(
        INTERPRETER,
        write_kernels(tmp_path / "kernels", KERNELS),
        request=Request(level="quick", devices=("cpu",)),
        limits=Limits(),
    )
    assert performed.trial.value is not None
    assert performed.trial.value.ok, performed.trial
    found = results(performed)
    statuses = {name: kernel.status for name, kernel in found.items()}
    assert statuses == {
        "first": "pass",
        "wrong matmul": "wrong",
        "out of memory": "error",
        "crashes in C++": "crash",
        "corrupts the heap": "crash",
        "last": "pass",
    }
    assert found["out of memory"].detail == "ran out of memory"
    assert found["crashes in C++"].signal == "SIGSEGV"
    assert found["corrupts the heap"].signal in ("SIGABRT", "SIGSEGV")
