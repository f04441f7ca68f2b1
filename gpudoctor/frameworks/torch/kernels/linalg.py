"""Fourier transforms and linear algebra: each through a library of its own (cuFFT, cuSOLVER, MAGMA, rocSOLVER).

Decompositions are not unique: they are checked against their definition, with float64 products made on the CPU.
"""

from __future__ import annotations

import math
from typing import Any, Callable

from .compare import Verdict, poison, tolerance
from .kernel import Outcome, Run, kernel
from .precision import strict
from .reference import Inputs, product

_TYPES = ("float32", "float64")
_SHAPES = ((1, 80), (3, 33))
"""Matrices in a batch and their size: libraries have other code for several small ones."""


@kernel("fft", "standard", dtypes=_TYPES)
def fft(run: Run) -> Outcome:
    """Fourier transforms of even, odd and prime lengths, of real input, in two dimensions, and back."""
    torch, inputs, verdict = run.torch, Inputs(run), Verdict(run)
    with strict(run):
        for length in (128, 120, 97):
            real, imaginary = inputs.normal(4, length), inputs.normal(4, length)
            x = torch.complex(real, imaginary).to(run.device)
            allowed = tolerance(run, 64)
            poison(run, (4, length, 2))
            forward = torch.fft.fft(x)
            verdict.close(f"{length} points", forward, _transform(torch, real, imaginary), allowed)
            halved = torch.fft.rfft(real.to(run.device))
            want = _transform(torch, real, torch.zeros_like(real))[:, : length // 2 + 1]
            verdict.close(f"{length} real points", halved, want, allowed)
            back = torch.fft.ifft(forward)
            want = torch.complex(real.to(torch.float64), imaginary.to(torch.float64))
            verdict.close(f"{length} points and back", back, want, allowed)
        plane = inputs.normal(24, 30)
        rows = _transform(torch, plane, torch.zeros_like(plane))
        want = _transform(torch, rows.real.t(), rows.imag.t()).t()
        got = torch.fft.fft2(plane.to(run.device))
        verdict.close("24 x 30 points", got, want, tolerance(run, 64))
    return verdict.outcome()


def _transform(torch: Any, real: Any, imaginary: Any) -> Any:
    """Discrete Fourier transform of each row, from its definition."""
    n = real.shape[-1]
    cosines = [math.cos(2 * math.pi * k / n) for k in range(n)]
    sines = [math.sin(2 * math.pi * k / n) for k in range(n)]
    turns = [[(row * column) % n for column in range(n)] for row in range(n)]
    cos = torch.tensor([[cosines[turn] for turn in row] for row in turns], dtype=torch.float64)
    sin = torch.tensor([[sines[turn] for turn in row] for row in turns], dtype=torch.float64)
    along = product(torch, real, cos) + product(torch, imaginary, sin)
    across = product(torch, imaginary, cos) - product(torch, real, sin)
    return torch.complex(along, across)


@kernel("linalg-solve", "standard", dtypes=_TYPES)
def solve(run: Run) -> Outcome:
    """Systems of linear equations, and the inverse."""
    torch = run.torch

    def judge(inputs: Inputs, batch: int, size: int, verdict: Verdict) -> None:
        a, b = _matrix(inputs, batch, size, 2 * math.sqrt(size)), inputs.normal(batch, size, 7)
        poison(run, b.shape, a.shape)
        x = torch.linalg.solve(a.to(run.device), b.to(run.device))
        inverse = torch.linalg.inv(a.to(run.device))
        verdict.finite("solution", x)
        verdict.finite("inverse", inverse)
        _holds(run, verdict, "equations", _times(run, a, x), b)
        _holds(run, verdict, "matrix times its inverse", _times(run, a, inverse), _unit(run, batch, size))

    return _each(run, judge)


@kernel("linalg-cholesky", "standard", dtypes=_TYPES)
def cholesky(run: Run) -> Outcome:
    """Cholesky's decomposition of positive matrices."""
    torch = run.torch

    def judge(inputs: Inputs, batch: int, size: int, verdict: Verdict) -> None:
        root = inputs.normal(batch, size, size)
        a = (product(torch, root, root.transpose(1, 2)) + size * torch.eye(size)).to(run.dtype)
        poison(run, a.shape)
        lower = torch.linalg.cholesky(a.to(run.device))
        verdict.finite("factor", lower)
        _holds(run, verdict, "factor times its transpose", _times(run, lower, lower.transpose(1, 2)), a)
        verdict.exact("above the diagonal", torch.triu(lower, 1).to("cpu"), torch.zeros_like(a))

    return _each(run, judge)


@kernel("linalg-qr", "standard", dtypes=_TYPES)
def qr(run: Run) -> Outcome:
    """The decomposition into an orthogonal and a triangular matrix."""
    torch = run.torch

    def judge(inputs: Inputs, batch: int, size: int, verdict: Verdict) -> None:
        a = inputs.normal(batch, size + 11, size)
        poison(run, a.shape)
        q, r = torch.linalg.qr(a.to(run.device))
        verdict.finite("orthogonal factor", q)
        verdict.finite("triangular factor", r)
        _holds(run, verdict, "orthogonal times triangular", _times(run, q, r), a)
        _orthogonal(run, verdict, q)
        verdict.exact("below the diagonal", torch.tril(r, -1).to("cpu"), torch.zeros(r.shape, dtype=r.dtype))

    return _each(run, judge)


@kernel("linalg-svd", "standard", dtypes=_TYPES)
def svd(run: Run) -> Outcome:
    """Singular values and vectors."""
    torch = run.torch

    def judge(inputs: Inputs, batch: int, size: int, verdict: Verdict) -> None:
        a = inputs.normal(batch, size + 11, size)
        poison(run, a.shape)
        u, values, v = torch.linalg.svd(a.to(run.device), full_matrices=False)
        for what, part in (("left vectors", u), ("singular values", values), ("right vectors", v)):
            verdict.finite(what, part)
        _holds(run, verdict, "factors together", _times(run, u * values[:, None, :], v), a)
        _orthogonal(run, verdict, u)
        _orthogonal(run, verdict, v.transpose(1, 2))
        _ordered(verdict, "singular values", values.flip(-1), floor=0.0)

    return _each(run, judge)


@kernel("linalg-eigh", "standard", dtypes=_TYPES)
def eigh(run: Run) -> Outcome:
    """Eigenvalues and eigenvectors of symmetric matrices."""
    torch = run.torch

    def judge(inputs: Inputs, batch: int, size: int, verdict: Verdict) -> None:
        root = inputs.normal(batch, size, size)
        a = root + root.transpose(1, 2)
        poison(run, a.shape)
        values, vectors = torch.linalg.eigh(a.to(run.device))
        verdict.finite("eigenvalues", values)
        verdict.finite("eigenvectors", vectors)
        turned = _times(run, vectors * values[:, None, :], vectors.transpose(1, 2))
        _holds(run, verdict, "factors together", turned, a)
        _orthogonal(run, verdict, vectors)
        _ordered(verdict, "eigenvalues", values)

    return _each(run, judge)


def _each(run: Run, judge: Callable[[Inputs, int, int, Verdict], None]) -> Outcome:
    verdict, inputs = Verdict(run), Inputs(run)
    with strict(run):
        for batch, size in _SHAPES:
            judge(inputs, batch, size, verdict)
    return verdict.outcome()


def _matrix(inputs: Inputs, batch: int, size: int, diagonal: float) -> Any:
    """Random matrices that are far from singular."""
    a = inputs.normal(batch, size, size)
    a.diagonal(dim1=1, dim2=2).add_(diagonal)
    return a


def _times(run: Run, a: Any, b: Any) -> Any:
    return product(run.torch, a.detach().to("cpu"), b.detach().to("cpu"))


def _unit(run: Run, batch: int, size: int) -> Any:
    return run.torch.eye(size, dtype=run.torch.float64).expand(batch, size, size)


def _holds(run: Run, verdict: Verdict, what: str, made: Any, want: Any) -> None:
    """Compare relative to a column's norm: backward stable methods promise no more.

    LAPACK's own tests accept 30 roundings for each row; a healthy H100 needs up to 4 (torch 2.11.0, November 2026).
    """
    scale = math.sqrt((want.to(run.torch.float64) ** 2).sum().item() / want.shape[0] / want.shape[-1])
    allowed = 30 * run.torch.finfo(run.dtype).eps * want.shape[-2]
    verdict.close(f"{what}, {tuple(want.shape)}", made, want.to(run.torch.float64), allowed, scale)


def _orthogonal(run: Run, verdict: Verdict, q: Any) -> None:
    batch, _, size = q.shape
    _holds(run, verdict, "orthogonal columns", _times(run, q.transpose(1, 2), q), _unit(run, batch, size))


def _ordered(verdict: Verdict, what: str, values: Any, floor: float = -math.inf) -> None:
    """Each row of values is ascending and starts at `floor` or above."""
    for row in values.to("cpu").tolist():
        fall = max([floor - row[0]] + [a - b for a, b in zip(row, row[1:])])
        verdict.holds(f"{what} are out of order by", max(fall, 0.0), 0.0)
