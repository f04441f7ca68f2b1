"""Smoke kernels of level full: they pass on a CPU, find planted faults, and leave nothing behind."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from gpudoctor.frameworks.torch.kernels import all_kernels
from gpudoctor.frameworks.torch.kernels.all_reduce_worker import expected_pattern, pattern
from gpudoctor.frameworks.torch.kernels.several_gpus import judge, judge_both
from gpudoctor.frameworks.torch.kernels.torchrun import Launch, Worker
from gpudoctor.host import LiveHost
from gpudoctor.machine import PythonEnvironment, SmokeKernel
from gpudoctor.smoke.session import Request, perform
from tests.support.smoke_children import processes_with

TORCH_PYTHON = os.environ.get("GPUDOCTOR_TEST_PYTHON", "")
with_torch = pytest.mark.skipif(not TORCH_PYTHON, reason="GPUDOCTOR_TEST_PYTHON names no interpreter with torch")
MOMENT = 0.01
"""Minutes of a soak."""
PLAIN_CODE = {"TORCHINDUCTOR_VEC_ISA_OK": "0", "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0"}
"""torch.compile writes C++ without vector instructions, which is compiled in half the time."""


def run(
    root: Path,
    *names: str,
    minutes: float = 0.0,
    seconds: float | None = None,
    fault: str = "",
    around: Mapping[str, str] = {},
) -> list[SmokeKernel]:
    """Run kernels on the CPU, in an interpreter where `fault` runs before anything else. Nothing stays behind."""
    (root / "sitecustomize.py").write_text(fault)
    (root / "tmp").mkdir()
    variables: Mapping[str, str] = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        "PYTHONPATH": str(root),
        "TMPDIR": str(root / "tmp"),
        **around,
    }
    before = shared_memory()
    request = Request(level="full", devices=("cpu",), kernels=names, minutes=minutes, seconds=seconds)
    performed = perform(LiveHost(variables), PythonEnvironment(interpreter=TORCH_PYTHON), request)
    assert performed.smoke is not None
    assert performed.smoke.why == ""
    assert processes_with(str(root)) == []
    assert os.listdir(root / "tmp") == []
    assert shared_memory() <= before
    return list(performed.smoke.kernels)


def shared_memory() -> set[str]:
    """What torch and NCCL put there; other programs run, too."""
    return {name for name in os.listdir("/dev/shm") if name.startswith(("nccl-", "torch_", "gloo"))}


# --- with torch ----------------------------------------------------------------------------------------


@with_torch
def test_level_full_passes_on_a_cpu(tmp_path: Path) -> None:
    """Also inside of a job: its variables do not reach the workers of the all-reduce."""
    names = [kernel.name for kernel in all_kernels() if kernel.level == "full"]
    job = {"PET_NNODES": "4", "PET_RDZV_BACKEND": "etcd", "WORLD_SIZE": "9", "RANK": "3", "MASTER_PORT": "1"}
    results = run(tmp_path, *names, minutes=MOMENT, around={**job, **PLAIN_CODE})
    told = {(kernel.name, kernel.status, kernel.detail, kernel.message) for kernel in results}
    assert {kernel.status for kernel in results} <= {"pass", "skipped"}, told
    assert {"memory-rate", "matmul-rate", "all-reduce", "soak"} <= {k.name for k in results if k.status == "pass"}, (
        told
    )
    for kernel in results:
        assert kernel.detail or kernel.status == "pass"
        assert not kernel.name.endswith("-rate") or kernel.status == "skipped" or min(kernel.measures.values()) > 0


@with_torch
def test_a_soak_lasts_only_as_long_as_asked(tmp_path: Path) -> None:
    (soak,) = run(tmp_path, "soak")
    assert soak.status == "skipped"
    assert "--minutes" in soak.detail


FLIPPED = """
import torch
real, calls = torch.matmul, [0]
def matmul(*arguments):
    result = real(*arguments)
    calls[0] += 1
    if calls[0] > 2:
        result.view(torch.int32)[3, 4] ^= 1
    return result
torch.matmul = matmul
"""


@with_torch
def test_one_bit_that_flips_in_a_soak_is_found(tmp_path: Path) -> None:
    (soak,) = run(tmp_path, "soak", minutes=MOMENT, fault=FLIPPED)
    assert soak.status == "wrong"
    assert soak.detail.startswith("product: 1 of ")


WRONG_IN_RANK_1 = """
import os
if os.environ.get("RANK") == "1":
    import torch.distributed
    real = torch.distributed.all_reduce
    def all_reduce(tensor):
        real(tensor); tensor[5] += 1; tensor[9] = float('nan')
    torch.distributed.all_reduce = all_reduce
"""


@with_torch
def test_wrong_sums_of_one_worker_are_counted(tmp_path: Path) -> None:
    (result,) = run(tmp_path, "all-reduce", fault=WRONG_IN_RANK_1)
    assert (result.status, "2 of " in result.detail) == ("wrong", True), result


NO_TORCH_IN_WORKERS = """
import os
if "RANK" in os.environ:
    import sys, time, types
    def meet(backend):
        if os.environ["RANK"] == "0":
            time.sleep(600)
        {fault}
    sys.modules["torch"] = types.ModuleType("torch")
    sys.modules["torch.distributed"] = types.SimpleNamespace(init_process_group=meet)
"""
"""How a worker ends is told by torchrun and by its files; a torch of its own would only take time to import."""


@with_torch
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("os._exit(7)", "rank 1 exited with status 7"),
        ("sys.stderr.write('out of luck\\n'); sys.stderr.flush(); os.abort()", "rank 1 ended by SIGABRT"),
        ("raise RuntimeError('no such GPU')", "rank 1 RuntimeError: no such GPU"),
    ],
)
def test_an_all_reduce_that_ends_early_is_told_with_the_worker(tmp_path: Path, fault: str, words: str) -> None:
    (result,) = run(tmp_path, "all-reduce", fault=NO_TORCH_IN_WORKERS.format(fault=fault))
    assert result.status == "error", result
    assert words in result.message


@with_torch
def test_an_all_reduce_that_hangs_ends_with_its_workers(tmp_path: Path) -> None:
    hang = NO_TORCH_IN_WORKERS.format(fault="time.sleep(600)")
    (result,) = run(tmp_path, "all-reduce", seconds=12, fault=hang)
    assert result.status == "error", result
    assert "was still" in result.message


# --- the verdict ----------------------------------------------------------------------------------------


def launched(*stages: str, wrong: int = 0, timed_out: bool = False, error: str = "") -> Launch:
    """Two workers that came as far as told."""
    result = {"wrong": wrong, "elements": 100, "gb_per_s": 2.0}
    workers = [Worker(rank, stage, result if stage == "done" else {}, error) for rank, stage in enumerate(stages)]
    return Launch(tuple(workers), timed_out, 60.0, "torchrun's last line")


def test_a_hang_that_ends_without_peer_transfers_is_named() -> None:
    first = launched("reduce", "reduce", timed_out=True)
    with pytest.raises(
        RuntimeError, match=r"^all-reduce hangs with peer-to-peer transfers and works with NCCL_P2P_DISABLE=1"
    ):
        judge_both(first, launched("done", "done"))


def test_a_hang_that_stays_is_not_blamed_on_peer_transfers() -> None:
    first = launched("reduce", "reduce", timed_out=True)
    with pytest.raises(RuntimeError, match="after 60 s rank 0, 1 was still in the all-reduce") as raised:
        judge_both(first, launched("reduce", "reduce", timed_out=True))
    assert "NCCL_P2P_DISABLE" not in str(raised.value)


def test_wrong_sums_that_are_right_without_peer_transfers_stay_wrong() -> None:
    outcome = judge_both(launched("done", "done", wrong=3), launched("done", "done"))
    assert outcome.error == pytest.approx(0.03)
    assert outcome.tolerance == 0
    assert "right with NCCL_P2P_DISABLE=1" in outcome.detail


def test_who_is_late_is_told_with_what_it_does() -> None:
    with pytest.raises(RuntimeError, match="rank 1 was still importing torch"):
        judge(launched("done", "import torch", timed_out=True), "NCCL")


def test_a_torchrun_that_does_not_start_is_told_in_its_own_words() -> None:
    with pytest.raises(RuntimeError, match="torchrun's last line"):
        judge(launched("start", "start"), "NCCL")


def test_the_expected_sum_is_that_of_all_workers_and_exact_in_float32() -> None:
    workers = [pattern(7, rank) for rank in range(8)]
    assert workers[0] != workers[1]
    sums = expected_pattern(7, 8)
    assert sums[11] == sum(numbers[11] for numbers in workers)
    assert max(map(abs, sums)) < 2**24
