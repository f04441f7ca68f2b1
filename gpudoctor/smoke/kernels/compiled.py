"""Kernels that are compiled on this machine: torch.compile, and handwritten Triton."""

from __future__ import annotations

import importlib
import os
from typing import Any

from .basics import TF32_TOLERANCE
from .compare import Verdict, poisoned, tolerance
from .kernel import Outcome, Run, kernel
from .precision import capability, strict, tf32_forced
from .reference import Inputs, product


@kernel("compile", "full", dtypes=("float32",), seconds=600)
def compiled(run: Run) -> Outcome:
    """torch.compile of a function and of a module, forward and backward, against the same uncompiled in float64."""
    torch = run.torch
    _needs_compiler(run)
    inputs, verdict = Inputs(run), Verdict(run)
    x, bias = inputs.normal(96, 160), inputs.normal(160)
    module = torch.nn.Sequential(torch.nn.Linear(160, 64), torch.nn.GELU(), torch.nn.Linear(64, 32))
    exact_module = _copy_in_float64(torch, module)
    with strict(run):
        function = torch.compile(_function, fullgraph=True)
        got = function(torch, x.to(run.device), bias.to(run.device))
        want = _function(torch, x.double(), bias.double())
        verdict.close("function", got, want, tolerance(run, 160, rounding=8))

        layered = torch.compile(module.to(run.device), fullgraph=True)
        seen = x.to(run.device, copy=True).requires_grad_()
        layered(seen).square().sum().backward()
        exact = x.double().requires_grad_()
        exact_module(exact).square().sum().backward()
        allowed = TF32_TOLERANCE if run.on_gpu and tf32_forced() else tolerance(run, 160, rounding=16)
        verdict.close("gradient through the module", seen.grad, exact.grad, allowed)
    counted = importlib.import_module("torch._dynamo.utils").counters["stats"]["unique_graphs"]
    torch._dynamo.reset()
    if not counted:
        run.skip("torch.compile is switched off here (TORCHDYNAMO_DISABLE or TORCH_COMPILE_DISABLE)")
    return verdict.outcome(f"{counted} graphs")


def _function(torch: Any, x: Any, bias: Any) -> Any:
    scaled = torch.nn.functional.silu(x + bias) * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + 1e-6)
    return scaled.softmax(dim=-1)


def _copy_in_float64(torch: Any, module: Any) -> Any:
    copy = torch.nn.Sequential(torch.nn.Linear(160, 64), torch.nn.GELU(), torch.nn.Linear(64, 32)).double()
    copy.load_state_dict(module.state_dict())
    return copy


def _needs_compiler(run: Run) -> None:
    """Skip if this torch cannot compile under this Python. A missing compiler is a fault, and shows as one."""
    run.needs_torch(getattr(run.torch, "compile", None), "torch.compile")
    _needs_gpu_of_triton(run)
    # Workers of inductor's pool would outlive the kernel.
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    evaluation = importlib.import_module("torch._dynamo.eval_frame")
    try:
        evaluation.check_if_dynamo_supported()
    except RuntimeError as error:
        run.skip(f"torch {run.torch.__version__} cannot compile here: {error}")


def _needs_gpu_of_triton(run: Run) -> None:
    """Skip on GPUs that Triton never supported."""
    if run.on_gpu and not run.rocm and capability(run) < (7, 0):
        run.skip("Triton has no kernels for this GPU (it supports NVIDIA GPUs from sm_70 on)")


@kernel("triton", "full", dtypes=("float32", "float16"), seconds=120)
def triton(run: Run) -> Outcome:
    """A sum and a tiled matrix product written in Triton, compiled for this GPU."""
    run.needs_gpu("Triton compiles for GPUs only")
    _needs_gpu_of_triton(run)
    try:
        programs = importlib.import_module(".triton_programs", __package__)
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "triton":
            raise
        run.skip("Triton is not installed")
    inputs, verdict = Inputs(run), Verdict(run)
    with run.torch.cuda.device(run.device):
        a, b = inputs.normal(100_003), inputs.normal(100_003)
        out = poisoned(run, (100_003,))
        programs.launch_add(a.to(run.device), b.to(run.device), out)
        run.synchronize()
        verdict.close("sum", out, a.double() + b.double(), tolerance(run, 2))

        rows, inner, columns = 192, 224, 160
        a, b = inputs.normal(rows, inner), inputs.normal(inner, columns)
        out = poisoned(run, (rows, columns))
        programs.launch_matmul(a.to(run.device), b.to(run.device), out)
        run.synchronize()
        verdict.close("matrix product", out, product(run.torch, a, b), tolerance(run, inner))
    return verdict.outcome(f"Triton {programs.version()}")
