"""Real machines with values of variables that were tried on them: what then failed there is an error here."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudoctor.intake.machine_file import read_machine
from gpudoctor.machine import Machine, unknown
from tests.support.check_cases import matrix
from tests.support.judging import judged
from tests.support.machines import change, with_stack, with_torch

H100 = Path(__file__).parent / "recorded" / "h100.json"
ALL = ("cupy", "jax", "torch")

# What torch, JAX and CuPy did on the H100: {} computed, the named ones did not.
TRIED: list[tuple[str, str, tuple[str, ...]]] = [
    ("CUDA_VISIBLE_DEVICES", "", ALL),
    ("CUDA_VISIBLE_DEVICES", "1", ALL),
    ("CUDA_VISIBLE_DEVICES", "1,0", ALL),
    ("CUDA_VISIBLE_DEVICES", "0,0", ALL),
    ("CUDA_VISIBLE_DEVICES", "-1", ALL),
    ("CUDA_VISIBLE_DEVICES", "none", ALL),
    ("CUDA_VISIBLE_DEVICES", "all", ALL),
    ("CUDA_VISIBLE_DEVICES", '"0"', ALL),
    ("CUDA_VISIBLE_DEVICES", "NoDevFiles", ALL),
    ("CUDA_VISIBLE_DEVICES", "GPU-00000000-1111-2222-3333-444444444444", ALL),
    ("CUDA_VISIBLE_DEVICES", "0", ()),
    ("CUDA_VISIBLE_DEVICES", "0,", ()),
    ("CUDA_VISIBLE_DEVICES", " 0", ()),
    ("CUDA_VISIBLE_DEVICES", "0x0", ()),
    ("CUDA_DEVICE_ORDER", "BOGUS", ALL),
    ("CUDA_DEVICE_ORDER", "PCI_BUS_ID", ()),
    ("CUDA_FORCE_PTX_JIT", "1", ALL),
    ("CUDA_DISABLE_PTX_JIT", "1", ()),
    ("CUDA_CACHE_PATH", "/proc/nope", ()),
    ("CUDA_CACHE_DISABLE", "1", ()),
    ("CUDA_MODULE_LOADING", "EAGER", ()),
    ("CUDA_MODULE_LOADING", "BOGUS", ()),
    ("CUDA_MPS_PIPE_DIRECTORY", "/nonexistent", ()),
    ("CUBLAS_WORKSPACE_CONFIG", "bogus", ()),
    ("NVIDIA_TF32_OVERRIDE", "0", ()),
    ("PYTORCH_CUDA_ALLOC_CONF", "bogus:1", ("torch",)),
    ("PYTORCH_ALLOC_CONF", "bogus:1", ("torch",)),
    ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments", ("torch",)),
    ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True;max_split_size_mb:512", ("torch",)),
    ("PYTORCH_CUDA_ALLOC_CONF", '"expandable_segments:True"', ("torch",)),
    ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:true", ("torch",)),
    ("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:10", ("torch",)),
    ("PYTORCH_CUDA_ALLOC_CONF", "garbage_collection_threshold:1.5", ("torch",)),
    ("PYTORCH_CUDA_ALLOC_CONF", "backend:none", ("torch",)),
    ("PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync", ()),
    ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True", ()),
    ("PYTORCH_NVML_BASED_CUDA_CHECK", "1", ()),
    ("TORCH_CUDA_ARCH_LIST", "bogus", ()),
    ("JAX_PLATFORMS", "rocm", ("jax",)),
    ("JAX_PLATFORMS", "tpu", ("jax",)),
    ("JAX_PLATFORMS", "gpu", ("jax",)),
    ("JAX_PLATFORMS", "cuda", ()),
    ("JAX_PLATFORMS", "cuda,cpu", ()),
    ("XLA_PYTHON_CLIENT_MEM_FRACTION", "abc", ("jax",)),
    ("XLA_PYTHON_CLIENT_MEM_FRACTION", "1.5", ()),
    ("XLA_FLAGS", "--xla_gpu_cuda_data_dir=/nope", ()),
    ("HSA_OVERRIDE_GFX_VERSION", "10.3.0", ()),
    ("HIP_VISIBLE_DEVICES", "1", ()),
    ("ROCR_VISIBLE_DEVICES", "", ()),
    ("TRITON_PTXAS_PATH", "/nope/ptxas", ()),
    ("LD_PRELOAD", "/nonexistent.so", ()),
]


def failing(machine: Machine) -> tuple[str, ...]:
    """The frameworks that an error is about; one that names none is about them all."""
    errors = [one for one in judged(machine).findings if one.severity == "error"]
    everywhere = any(one.framework is None or one.layer in ("driver", "access") for one in errors)
    return ALL if everywhere else tuple(sorted({one.framework for one in errors if one.framework}))


def h100() -> Machine:
    return read_machine(str(H100), matrix())[0]


def from_files(machine: Machine, name: str, value: str) -> Machine:
    """The machine at level static with one variable more: nothing was started, nothing computed."""
    machine = with_stack(machine, cuda=unknown("not started"))
    machine = with_torch(machine, trial=unknown("not started"))
    return change(machine, smoke=None, variables={**machine.variables, name: value})


def test_the_recorded_machine_has_no_problem() -> None:
    assert failing(h100()) == ()


@pytest.mark.parametrize(("name", "value", "fails"), TRIED, ids=[f"{name}={value}" for name, value, _ in TRIED])
def test_an_error_is_told_where_the_frameworks_failed(name: str, value: str, fails: tuple[str, ...]) -> None:
    assert failing(from_files(h100(), name, value)) == fails
