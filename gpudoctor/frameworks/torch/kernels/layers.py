"""Layers of networks: convolutions of every kind, normalisations, softmax, embedding."""

from __future__ import annotations

import math
from typing import Any

from .basics import TF32_TOLERANCE
from .compare import Verdict, poison, tolerance
from .kernel import Outcome, Run, kernel
from .precision import in_tf32, needs_bfloat16, strict
from .reference import Convolution, Inputs, product, softmax

_FLOATS = ("float32", "float16", "bfloat16")
_EPSILON = 1e-5

CONVOLUTION_TOLERANCE = {"float32": 2e-4, "float16": 8e-3, "bfloat16": 1.6e-2}
"""Winograd's transforms lose up to a hundred times more than a plain sum in float32, and some are kept in float16.
TF32 would be off by 1e-3."""


# Convolutions come last among the quick kernels: MIOpen compiles the first ones, for a minute or more.


@kernel("convolution", "quick", dtypes=("float32", "float16"), seconds=180.0)
def convolution(run: Run) -> Outcome:
    """Convolutions as in an image model: the first layer, and a 3 x 3 layer further in."""
    torch, inputs, verdict = run.torch, Inputs(run), Verdict(run)
    cases = (
        ("7 x 7 by steps of 2", (2, 3, 33, 35), (16, 3, 7, 7), {"stride": 2, "padding": 3}),
        ("3 x 3 of 32 channels", (2, 32, 17, 16), (48, 32, 3, 3), {"padding": 1}),
    )
    with strict(run):
        for name, image, weights, options in cases:
            x, weight = inputs.normal(*image), inputs.normal(*weights)
            how = Convolution(torch, **options)
            want = how.forward(x, weight)
            on_device = x.to(run.device), weight.to(run.device)
            poison(run, want.shape)
            got = torch.nn.functional.conv2d(*on_device, **how.options())
            verdict.close(name, got, want, convolution_tolerance(run))
    return verdict.outcome()


def convolution_tolerance(run: Run) -> float:
    """Largest error of a convolution on a correct device."""
    if in_tf32(run):
        return TF32_TOLERANCE
    return CONVOLUTION_TOLERANCE[run.dtype_name]


@kernel("convolution-kinds", "standard", dtypes=_FLOATS, seconds=180.0)
def convolution_kinds(run: Run) -> Outcome:
    """Convolutions of 1 x 1, strided, dilated, grouped, depthwise, and with channels last in memory."""
    torch, inputs, verdict = run.torch, Inputs(run), Verdict(run)
    needs_bfloat16(run)
    cases: tuple[tuple[str, tuple[int, ...], tuple[int, ...], dict[str, int], bool], ...] = (
        ("1 x 1", (2, 64, 9, 11), (40, 64, 1, 1), {}, False),
        ("3 x 3 by steps of 2", (2, 24, 19, 21), (32, 24, 3, 3), {"stride": 2, "padding": 1}, False),
        ("3 x 3 dilated", (2, 16, 19, 21), (16, 16, 3, 3), {"padding": 2, "dilation": 2}, False),
        ("3 x 3 in 4 groups", (2, 32, 15, 13), (64, 8, 3, 3), {"padding": 1, "groups": 4}, False),
        ("5 x 5 depthwise", (2, 24, 17, 15), (24, 1, 5, 5), {"padding": 2, "groups": 24}, False),
        ("3 x 3 with channels last", (2, 32, 17, 16), (48, 32, 3, 3), {"padding": 1}, True),
    )
    with strict(run):
        for name, image, weights, options, channels_last in cases:
            x, weight, bias = inputs.normal(*image), inputs.normal(*weights), inputs.normal(weights[0])
            how = Convolution(torch, **options)
            want = how.forward(x, weight) + bias.to(torch.float64)[None, :, None, None]
            on_device = [tensor.to(run.device) for tensor in (x, weight)]
            if channels_last:
                on_device = [tensor.contiguous(memory_format=torch.channels_last) for tensor in on_device]
            poison(run, want.shape)
            got = torch.nn.functional.conv2d(*on_device, bias.to(run.device), **how.options())
            verdict.close(name, got, want, convolution_tolerance(run))
    return verdict.outcome()


@kernel("convolution-backward", "standard", dtypes=("float32", "float16"), seconds=180.0)
def convolution_backward(run: Run) -> Outcome:
    """Gradients of a convolution with respect to its image and its weights."""
    torch, inputs, verdict = run.torch, Inputs(run), Verdict(run)
    x, weight = inputs.normal(2, 16, 15, 17), inputs.normal(24, 16, 3, 3)
    how = Convolution(torch, stride=1, padding=1)
    slope = inputs.normal(2, 24, 15, 17)
    by_x, by_weight = how.gradients(x, weight, slope)
    with strict(run):
        leaves = [tensor.to(run.device).requires_grad_() for tensor in (x, weight)]
        poison(run, x.shape, weight.shape)
        torch.nn.functional.conv2d(*leaves, **how.options()).backward(slope.to(run.device))
    verdict.close("gradient by the image", leaves[0].grad, by_x, convolution_tolerance(run))
    verdict.close("gradient by the weights", leaves[1].grad, by_weight, convolution_tolerance(run))
    return verdict.outcome()


@kernel("linear", "standard", dtypes=_FLOATS)
def linear(run: Run) -> Outcome:
    """Linear layers with a bias."""
    torch, inputs, verdict = run.torch, Inputs(run), Verdict(run)
    needs_bfloat16(run)
    forced = in_tf32(run)
    with strict(run):
        for rows, terms, columns in ((96, 256, 320), (33, 301, 77)):
            x, weight, bias = inputs.normal(rows, terms), inputs.normal(columns, terms), inputs.normal(columns)
            on_device = [tensor.to(run.device) for tensor in (x, weight, bias)]
            poison(run, (rows, columns))
            got = torch.nn.functional.linear(*on_device)
            want = product(torch, x, weight.t()) + bias.to(torch.float64)
            # A bias may be added to a sum that is already rounded.
            allowed = 4e-3 if forced else tolerance(run, terms, rounding=2)
            verdict.close(f"{terms} to {columns}", got, want, allowed)
    return verdict.outcome()


@kernel("layer-norm", "standard", dtypes=_FLOATS)
def layer_norm(run: Run) -> Outcome:
    """Layer normalisation with weight and bias."""
    torch, inputs, verdict = run.torch, Inputs(run), Verdict(run)
    needs_bfloat16(run)
    with strict(run):
        for rows, width in ((65, 768), (33, 1031)):
            x, weight, bias = inputs.normal(rows, width), inputs.normal(width), inputs.normal(width)
            on_device = [tensor.to(run.device) for tensor in (x, weight, bias)]
            poison(run, (rows, width))
            got = torch.nn.functional.layer_norm(on_device[0], (width,), *on_device[1:], eps=_EPSILON)
            want = _normal(torch, x, (1,)) * weight.to(torch.float64) + bias.to(torch.float64)
            verdict.close(f"{rows} rows of {width}", got, want, tolerance(run, 16, rounding=2))
    return verdict.outcome()


@kernel("group-norm", "standard", dtypes=_FLOATS)
def group_norm(run: Run) -> Outcome:
    """Group normalisation of images."""
    torch, inputs, verdict = run.torch, Inputs(run), Verdict(run)
    needs_bfloat16(run)
    x, weight, bias = inputs.normal(2, 32, 15, 17), inputs.normal(32), inputs.normal(32)
    grouped = x.reshape(2, 8, 4, 15, 17)
    scaled = _normal(torch, grouped, (2, 3, 4)).reshape(x.shape)
    want = scaled * _by_channel(torch, weight) + _by_channel(torch, bias)
    with strict(run):
        on_device = [tensor.to(run.device) for tensor in (x, weight, bias)]
        poison(run, x.shape)
        got = torch.nn.functional.group_norm(on_device[0], 8, *on_device[1:], eps=_EPSILON)
    verdict.close("8 groups of 32 channels", got, want, tolerance(run, 16, rounding=4))
    return verdict.outcome()


@kernel("batch-norm", "standard", dtypes=("float32", "float16"))
def batch_norm(run: Run) -> Outcome:
    """Batch normalisation in training and afterwards, with its running mean and variance."""
    torch, inputs, verdict = run.torch, Inputs(run), Verdict(run)
    x = inputs.normal(4, 24, 13, 11)
    weight, bias, mean, variance = (inputs.uniform(0.5, 2, 24, dtype=torch.float32) for _ in range(4))
    shift, scale = _by_channel(torch, bias), _by_channel(torch, weight)
    exact = x.to(torch.float64)
    count = exact.numel() // 24
    seen, spread = exact.mean(dim=(0, 2, 3)), exact.var(dim=(0, 2, 3), unbiased=True)
    with strict(run):
        # Copies, on a CPU too: the running statistics are changed in place.
        on_device = [tensor.to(run.device, copy=True) for tensor in (x, mean, variance, weight, bias)]
        poison(run, x.shape)
        trained = torch.nn.functional.batch_norm(*on_device, training=True, momentum=0.1, eps=_EPSILON)
        applied = torch.nn.functional.batch_norm(
            on_device[0], mean.to(run.device), variance.to(run.device), *on_device[3:], training=False, eps=_EPSILON
        )
    allowed = tolerance(run, 16, rounding=2)
    verdict.close("training", trained, _normal(torch, x, (0, 2, 3)) * scale + shift, allowed)
    root = torch.sqrt(_by_channel(torch, variance) + _EPSILON)
    verdict.close("applied", applied, (exact - _by_channel(torch, mean)) / root * scale + shift, allowed)
    small = tolerance(run, count, dtype=torch.float32)
    verdict.close("running mean", on_device[1], 0.9 * mean.to(torch.float64) + 0.1 * seen, small)
    verdict.close("running variance", on_device[2], 0.9 * variance.to(torch.float64) + 0.1 * spread, small)
    return verdict.outcome()


@kernel("softmax", "standard", dtypes=_FLOATS)
def softmax_layer(run: Run) -> Outcome:
    """Softmax and its logarithm over rows of several widths."""
    torch, inputs, verdict = run.torch, Inputs(run), Verdict(run)
    needs_bfloat16(run)
    with strict(run):
        for rows, width in ((129, 77), (17, 1000), (3, 20_011)):
            x = inputs.normal(rows, width)
            want = softmax(torch, x.to(torch.float64))
            on_device = x.to(run.device)
            poison(run, (rows, width))
            verdict.close(
                f"softmax of {width}", torch.softmax(on_device, dim=-1), want, tolerance(run, 16, rounding=2)
            )
            got = torch.log_softmax(on_device, dim=-1)
            verdict.close(
                f"logarithm of the softmax of {width}", got, torch.log(want), tolerance(run, 16, rounding=2)
            )
    return verdict.outcome()


@kernel("embedding", "standard", dtypes=_FLOATS)
def embedding(run: Run) -> Outcome:
    """Rows of a table by their numbers, and the gradient where numbers occur more than once."""
    torch, inputs, verdict = run.torch, Inputs(run), Verdict(run)
    # Whole numbers, so that sums of gradients are exact in every type and order.
    table = inputs.integers(-8, 9, 1009, 96).to(run.dtype)
    numbers = inputs.integers(0, 1009, 3, 211)
    numbers[:, ::7] = 5
    slope = inputs.integers(-1, 2, 3, 211, 96).to(run.dtype)
    with strict(run):
        leaf = table.to(run.device).requires_grad_()
        poison(run, (3, 211, 96), (1009, 96))
        got = torch.nn.functional.embedding(numbers.to(run.device), leaf)
        got.backward(slope.to(run.device))
    rows = table.tolist()
    verdict.exact("rows", got, [[rows[number] for number in line] for line in numbers.tolist()])
    sums = [[0.0] * 96 for _ in range(1009)]
    for number, values in zip(numbers.reshape(-1).tolist(), slope.reshape(-1, 96).tolist()):
        sums[number] = [a + b for a, b in zip(sums[number], values)]
    verdict.exact("gradient", leaf.grad, sums)
    return verdict.outcome()


def _normal(torch: Any, x: Any, dims: tuple[int, ...]) -> Any:
    """x minus its mean over `dims`, divided by the root of its variance."""
    x = x.to(torch.float64)
    count = math.prod(x.shape[dim] for dim in dims)
    centred = x - x.sum(dim=dims, keepdim=True) / count
    return centred / torch.sqrt((centred * centred).sum(dim=dims, keepdim=True) / count + _EPSILON)


def _by_channel(torch: Any, values: Any) -> Any:
    return values.to(torch.float64)[None, :, None, None]
