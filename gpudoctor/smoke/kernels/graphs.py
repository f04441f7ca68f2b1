"""Kernels that change how work reaches the GPU: captured graphs, and the search for the fastest convolution."""

from __future__ import annotations

from typing import Any

from .basics import TF32_TOLERANCE
from .compare import Verdict, poison, tolerance
from .kernel import Outcome, Run, kernel
from .layers import convolution_tolerance
from .precision import strict, tf32_forced
from .reference import Convolution, Inputs, product


@kernel("graph", "full", dtypes=("float32",), seconds=60)
def graph(run: Run) -> Outcome:
    """A CUDA or HIP graph: captured once, replayed with new inputs."""
    run.needs_gpu("graphs are captured on GPUs only")
    torch = run.torch
    run.needs_torch(getattr(torch.cuda, "CUDAGraph", None), "torch.cuda.CUDAGraph")
    inputs, verdict = Inputs(run), Verdict(run)
    weight = inputs.normal(128, 96)
    with strict(run), torch.cuda.device(run.device):
        static, on_gpu = torch.zeros(64, 128, device=run.device), weight.to(run.device)
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):  # libraries initialise before the capture, not during it
            for _ in range(3):
                _step(torch, static, on_gpu)
        torch.cuda.current_stream().wait_stream(aside)
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            result = _step(torch, static, on_gpu)
        for replay in range(3):
            x = inputs.normal(64, 128)
            static.copy_(x)
            result.fill_(float("nan"))
            captured.replay()
            run.synchronize()
            want = torch.relu(product(torch, x, weight)) + 1.0
            allowed = TF32_TOLERANCE if tf32_forced() else tolerance(run, 128, rounding=4)
            verdict.close(f"replay {replay + 1}", result, want, allowed)
    return verdict.outcome()


def _step(torch: Any, x: Any, weight: Any) -> Any:
    return torch.relu(x @ weight) + 1.0


@kernel("conv-benchmark", "full", dtypes=("float32", "float16"), seconds=180)
def conv_benchmark(run: Run) -> Outcome:
    """Convolution, forward and backward, with the implementation that cuDNN or MIOpen finds fastest."""
    run.needs_gpu("cuDNN and MIOpen search on GPUs only")
    torch = run.torch
    cudnn = torch.backends.cudnn
    if not cudnn.is_available():
        run.skip("this torch was built without cuDNN or MIOpen")
    inputs, verdict = Inputs(run), Verdict(run)
    convolution = Convolution(torch, padding=1)
    x, weight = inputs.normal(4, 16, 28, 28), inputs.normal(24, 16, 3, 3)
    slope = inputs.normal(4, 24, 28, 28)
    by_x, by_weight = convolution.gradients(x, weight, slope)
    before = cudnn.benchmark
    cudnn.benchmark = True
    try:
        with strict(run):
            poison(run, (4, 24, 28, 28), (4, 16, 28, 28))
            seen, kernels = x.to(run.device).requires_grad_(), weight.to(run.device).requires_grad_()
            got = torch.nn.functional.conv2d(seen, kernels, **convolution.options())
            got.backward(slope.to(run.device))
            run.synchronize()
    finally:
        cudnn.benchmark = before
    allowed = convolution_tolerance(run)
    verdict.close("result", got, convolution.forward(x, weight), allowed)
    verdict.close("gradient of the input", seen.grad, by_x, allowed)
    verdict.close("gradient of the weights", kernels.grad, by_weight, allowed)
    return verdict.outcome()
