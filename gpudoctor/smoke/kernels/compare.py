"""Compares every element that a device computed with a float64 reference, including NaN and unwritten elements.

An element's error is its deviation divided by its expected magnitude, or by the root mean square of all expected
elements if that is larger. So it is relative where a result is large, and does not explode where terms cancel. A
result in a half type is rounded once (eps/2) from sums in float32. A sum of k terms of random sign deviates by about
eps * sqrt(k/6) of its root mean square, and the worst of 1e5 elements by 4.5 times that: `tolerance` allows twice as
much. TF32 in place of float32 (2^-11 for each factor) and sums kept in a half type are far beyond it.
"""

from __future__ import annotations

import math
from typing import Any, Iterable, Sequence

from .kernel import Outcome, Run

_POISON = 255
"""Bytes of 0xff are a NaN in every float type, but not the NaN that arithmetic gives: 0x7fff... or 0x7fc0..."""


def tolerance(run: Run, terms: int = 1, dtype: Any = None, rounding: float = 1.25) -> float:
    """Largest error of a correct device: `rounding` eps of the result's type, and a sum of so many `terms`."""
    finfo = run.torch.finfo
    dtype = run.dtype if dtype is None else dtype
    summed = finfo(run.torch.float32).eps if finfo(dtype).bits < 32 else finfo(dtype).eps
    return float(rounding * finfo(dtype).eps + 4 * summed * math.sqrt(terms))


def poisoned(run: Run, shape: Sequence[int], dtype: Any = None) -> Any:
    """A tensor on the device for an `out=`, each byte 0xff."""
    out = run.torch.empty(tuple(shape), dtype=run.dtype if dtype is None else dtype, device=run.device)
    size = out.numel() * out.element_size()
    flat = run.torch.full((size,), _POISON, dtype=run.torch.uint8, device=run.device)
    out.view(-1).copy_(flat.view(out.dtype))
    return out


def poison(run: Run, *shapes: Sequence[int], dtype: Any = None) -> None:
    """Fill memory and free it, so that the caching allocator reuses it for results of these shapes."""
    torch = run.torch
    width = torch.empty((), dtype=run.dtype if dtype is None else dtype).element_size()
    for shape in shapes:
        size = math.prod(shape) * width
        # More than one block: operations take workspaces of the same size before their result.
        blocks = [torch.full((size,), _POISON, dtype=torch.uint8, device=run.device) for _ in range(3)]
        del blocks


class Verdict:
    """The worst of a kernel's comparisons."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._torch = run.torch
        self._worst = Outcome(0.0, 0.0)

    def close(self, what: str, got: Any, want: Any, tolerance: float, scale: float | None = None) -> None:
        """Compare floats; `want` is float64 on the CPU. `scale` replaces the root mean square of `want`."""
        got = got.detach().to("cpu")
        if tuple(got.shape) != tuple(want.shape):
            self._take(math.nan, tolerance, f"{what}: shape {tuple(got.shape)}, expected {tuple(want.shape)}")
            return
        if got.is_complex():
            got, want = self._torch.view_as_real(got.resolve_conj()), self._torch.view_as_real(want)
        got = got.contiguous()
        exact = got.to(self._torch.float64)
        finite = self._torch.isfinite(exact)
        if not bool(finite.all()):
            self._take(math.nan, tolerance, self._not_finite(what, got, finite))
            return
        size = math.sqrt((want * want).mean().item()) if scale is None else scale
        if not (size > 0 and math.isfinite(size)):
            self._take(math.nan, tolerance, f"{what}: the reference itself is {size}")
            return
        errors = (exact - want).abs() / want.abs().clamp(min=size)
        at = int(errors.argmax())
        error = errors.reshape(-1)[at].item()
        detail = ""
        if not error <= tolerance:
            beyond = int((errors > tolerance).sum())
            detail = _wrong(what, got, at, want.reshape(-1)[at].item(), beyond)
        self._take(error, tolerance, detail)

    def exact(self, what: str, got: Any, want: Any) -> None:
        """Compare results that must be equal to the bit; `want` is a tensor on the CPU or nested lists of numbers."""
        got = got.detach().to("cpu")
        if not isinstance(want, self._torch.Tensor):
            want = self._torch.tensor(want, dtype=got.dtype)
        if tuple(got.shape) != tuple(want.shape):
            self._take(math.nan, 0.0, f"{what}: shape {tuple(got.shape)}, expected {tuple(want.shape)}")
            return
        got = got.contiguous()
        finite = self._torch.isfinite(got)
        if not bool(finite.all()):
            self._take(math.nan, 0.0, self._not_finite(what, got, finite))
            return
        wrong = (got != want).reshape(-1)
        count = int(wrong.sum())
        if count:
            at = int(wrong.to(self._torch.uint8).argmax())
            wanted = want.reshape(-1)[at].item()
            error = float(abs(got.reshape(-1)[at].item() - wanted))  # as integers: no float can hold 2^62 + 1
            self._take(error, 0.0, _wrong(what, got, at, wanted, count))

    def finite(self, what: str, got: Any) -> None:
        """Record NaN, infinities and unwritten elements of a result that is then computed with."""
        got = got.detach().to("cpu").contiguous()
        finite = self._torch.isfinite(got)
        if not bool(finite.all()):
            self._take(math.nan, 0.0, self._not_finite(what, got, finite))

    def holds(self, what: str, error: float, tolerance: float) -> None:
        """Record a number that a property of the result bounds; `what` describes it for a person."""
        self._take(error, tolerance, "" if error <= tolerance else f"{what}: {error:.6g}, at most {tolerance:.3g}")

    def outcome(self, detail: str = "", measures: dict[str, float] | None = None) -> Outcome:
        """The worst comparison, with the place that is wrong, or with `detail` if all is right."""
        return self._worst._replace(detail=self._worst.detail or detail, measures=measures or {})

    def _take(self, error: float, tolerance: float, detail: str) -> None:
        if _badness(error, tolerance) > _badness(self._worst.error or 0.0, self._worst.tolerance or 0.0):
            self._worst = Outcome(error, tolerance, detail)

    def _not_finite(self, what: str, got: Any, finite: Any) -> str:
        flat, bad = got.reshape(-1), ~finite.reshape(-1)
        unwritten = self._torch.zeros_like(bad)
        if got.is_floating_point():
            words = {1: "int8", 2: "int16", 4: "int32", 8: "int64"}[got.element_size()]
            unwritten = flat.view(getattr(self._torch, words)) == -1
        counts = (
            (int(unwritten.sum()), "never written"),
            (int((self._torch.isnan(flat.to(self._torch.float64)) & ~unwritten).sum()), "NaN"),
            (int(self._torch.isinf(flat.to(self._torch.float64)).sum()), "infinite"),
        )
        summary = ", ".join(f"{count} {word}" for count, word in counts if count)
        at = int(bad.to(self._torch.uint8).argmax())
        return f"{what}: of {flat.numel()} elements {summary}, the first at {_position(got.shape, at)}"


def _badness(error: float, tolerance: float) -> tuple[bool, float]:
    """Orders comparisons: NaN worst, then by how far an error is from its tolerance."""
    if math.isnan(error):
        return True, math.inf
    if tolerance == 0:
        return False, math.inf if error else 0.0
    return False, error / tolerance


def _wrong(what: str, got: Any, at: int, want: float, count: int) -> str:
    value = got.reshape(-1)[at].item()
    place = _position(got.shape, at)
    rest = f"; {count} of {got.numel()} elements are wrong" if count > 1 else ""
    return f"{what}: element {place} is {value:.9g}, expected {want:.9g}{rest}"


def _position(shape: Iterable[int], at: int) -> list[int]:
    """Index of an element in a tensor of this shape, from its place in memory order."""
    index: list[int] = []
    for size in reversed(tuple(shape)):
        at, rest = divmod(at, size)
        index.insert(0, rest)
    return index
