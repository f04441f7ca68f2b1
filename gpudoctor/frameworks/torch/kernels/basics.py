"""Memory, arithmetic and the basic operations of every model."""

from __future__ import annotations

import math
from typing import Any, Callable

from .compare import Verdict, poison, poisoned, tolerance
from .kernel import Outcome, Run, kernel
from .precision import in_tf32, needs_bfloat16, strict
from .reference import Inputs, product

_FLOATS = ("float32", "float16", "bfloat16")

TF32_TOLERANCE = 4e-3
"""Factors are rounded to 2^-11 each: a sum deviates by 3e-4 of its root mean square, the worst of 1e5 by 1.3e-3."""


@kernel("copy", "quick")
def copy(run: Run) -> Outcome:
    """Memory is allocated, copied to the device, within it and back, and comes back bit by bit."""
    torch, inputs, verdict = run.torch, Inputs(run), Verdict(run)
    for count in (1, 1023, 262_147):
        sent = inputs.integers(0, 256, count, dtype=torch.uint8)
        there, moved = (poisoned(run, (count,), torch.uint8) for _ in range(2))
        there.copy_(sent)
        moved.copy_(there)
        back = torch.full((count,), 255, dtype=torch.uint8)
        back.copy_(moved)
        verdict.exact(f"{count} bytes there and back", back, sent.tolist())
    sent = inputs.integers(-(2**31), 2**31, 65, 129, dtype=torch.int32)
    turned = sent.to(run.device).t().contiguous()
    verdict.exact("a transposed copy", turned, [list(row) for row in zip(*sent.tolist())])
    return verdict.outcome()


@kernel("integers", "quick")
def integers(run: Run) -> Outcome:
    """Integer arithmetic, comparisons and bit operations are exact."""
    torch, inputs, verdict = run.torch, Inputs(run), Verdict(run)
    drawn = inputs.integers(-(2**31), 2**31, 2, 2003)
    a, b = drawn[0].tolist(), drawn[1].tolist()
    x, y = drawn[0].to(run.device), drawn[1].to(run.device)
    poison(run, (2003,), dtype=torch.int64)
    verdict.exact("sum", torch.add(x, y), [p + q for p, q in zip(a, b)])
    verdict.exact("product", torch.mul(x, y), [p * q for p, q in zip(a, b)])
    verdict.exact("exclusive or", torch.bitwise_xor(x, y), [p ^ q for p, q in zip(a, b)])
    verdict.exact("comparison", torch.lt(x, y), [p < q for p, q in zip(a, b)])
    verdict.exact("choice", torch.where(x < y, x, y), [min(p, q) for p, q in zip(a, b)])
    verdict.exact("32 bits", x.to(torch.int32), a)
    return verdict.outcome()


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


@kernel("elementwise", "quick", dtypes=_FLOATS)
def elementwise(run: Run) -> Outcome:
    """Elementwise arithmetic and functions agree with Python's own."""
    torch, inputs, verdict = run.torch, Inputs(run), Verdict(run)
    functional = torch.nn.functional
    needs_bfloat16(run)
    allowed = tolerance(run, terms=16)  # functions of GPUs are off by some units in the last place
    x, y = inputs.uniform(-4, 4, 1501), inputs.uniform(0.25, 4, 1501)
    one: dict[str, tuple[Callable[[Any], Any], Callable[[float], float]]] = {
        "exp": (torch.exp, math.exp),
        "tanh": (torch.tanh, math.tanh),
        "sin": (torch.sin, math.sin),
        "sigmoid": (torch.sigmoid, _sigmoid),
        "relu": (torch.relu, lambda p: max(p, 0.0)),
        "silu": (functional.silu, lambda p: p * _sigmoid(p)),
        "gelu": (functional.gelu, lambda p: 0.5 * p * (1 + math.erf(p / math.sqrt(2)))),
    }
    two: dict[str, tuple[Callable[[Any, Any], Any], Callable[[float, float], float]]] = {
        "sum": (torch.add, lambda p, q: p + q),
        "product": (torch.mul, lambda p, q: p * q),
        "quotient": (torch.div, lambda p, q: p / q),
        "log of the second": (lambda _p, q: torch.log(q), lambda _p, q: math.log(q)),
        "root of the second": (lambda _p, q: torch.sqrt(q), lambda _p, q: math.sqrt(q)),
        "power": (lambda p, q: torch.pow(q, p), lambda p, q: q**p),
    }
    p, q = x.to(torch.float64).tolist(), y.to(torch.float64).tolist()
    on_x, on_y = x.to(run.device), y.to(run.device)
    with strict(run):
        poison(run, (1501,))
        for name, (function, plain) in one.items():
            verdict.close(name, function(on_x), _doubles(torch, [plain(v) for v in p]), allowed)
        for name, (binary, plain2) in two.items():
            want = _doubles(torch, [plain2(v, w) for v, w in zip(p, q)])
            verdict.close(name, binary(on_x, on_y), want, allowed)
        column, row = on_x[:37, None], on_y[None, :41]
        want = _doubles(torch, [[v + w for w in q[:41]] for v in p[:37]])
        verdict.close("sum of a column and a row", column + row, want, allowed)
    return verdict.outcome()


@kernel("matmul", "quick", dtypes=_FLOATS)
def matmul(run: Run) -> Outcome:
    """Matrix products of even and odd sizes, in a batch, and transposed."""
    torch, inputs, verdict = run.torch, Inputs(run), Verdict(run)
    needs_bfloat16(run)
    with strict(run):
        for m, k, n in ((128, 512, 192), (67, 513, 129), (1, 768, 256)):
            a, b = inputs.normal(m, k), inputs.normal(k, n)
            out = poisoned(run, (m, n))
            torch.matmul(a.to(run.device), b.to(run.device), out=out)
            verdict.close(f"({m}, {k}) times ({k}, {n})", out, product(torch, a, b), _allowed(run, k))
        a, b = inputs.normal(3, 50, 96), inputs.normal(3, 70, 96)
        out = poisoned(run, (3, 50, 70))
        torch.bmm(a.to(run.device), b.to(run.device).transpose(1, 2), out=out)
        want = product(torch, a, b.transpose(1, 2))
        verdict.close("a batch of 3, the second transposed", out, want, _allowed(run, 96))
    forced = in_tf32(run)
    return verdict.outcome("the variable NVIDIA_TF32_OVERRIDE forces TF32" if forced else "")


def _allowed(run: Run, terms: int) -> float:
    forced = in_tf32(run)
    return TF32_TOLERANCE if forced else tolerance(run, terms)


@kernel("reduction", "quick", dtypes=("float32", "float16"))
def reduction(run: Run) -> Outcome:
    """Sums, means and extremes over rows, columns and the whole agree with Python's exact sums."""
    torch, inputs, verdict = run.torch, Inputs(run), Verdict(run)
    rows, columns = 67, 1025
    x = inputs.normal(rows, columns)
    values = x.to(torch.float64).tolist()
    turned = list(zip(*values))
    along, down, whole = (_doubles(torch, sums) for sums in _sums(values, turned))
    on_device = x.to(run.device)
    with strict(run):
        poison(run, (rows,), (columns,), (1,))
        spread = math.sqrt(columns)
        verdict.close("sum of rows", torch.sum(on_device, dim=1), along, tolerance(run, columns, rounding=2), spread)
        spread = math.sqrt(rows)
        verdict.close("sum of columns", torch.sum(on_device, dim=0), down, tolerance(run, rows, rounding=2), spread)
        spread = math.sqrt(rows * columns)
        verdict.close("sum", torch.sum(on_device), whole, tolerance(run, rows * columns, rounding=2), spread)
        spread = 1 / math.sqrt(columns)
        verdict.close(
            "mean of rows", torch.mean(on_device, dim=1), along / columns, tolerance(run, columns, rounding=2), spread
        )
        verdict.exact("greatest of rows", torch.amax(on_device, dim=1), [max(row) for row in values])
        verdict.exact("least of columns", torch.amin(on_device, dim=0), [min(row) for row in turned])
        positions = torch.argmax(on_device, dim=1).to("cpu").tolist()
        # For equal values any of their positions is right.
        found = torch.tensor([row[at] if 0 <= at < columns else math.nan for row, at in zip(values, positions)])
        verdict.exact("position of the greatest", found, [max(row) for row in values])
        verdict.exact("any above 2", torch.any(on_device > 2, dim=0), [max(row) > 2 for row in turned])
    return verdict.outcome()


def _sums(values: Any, turned: Any) -> tuple[list[float], list[float], float]:
    along = [math.fsum(row) for row in values]
    return along, [math.fsum(row) for row in turned], math.fsum(along)


def _doubles(torch: Any, values: Any) -> Any:
    return torch.tensor(values, dtype=torch.float64)
