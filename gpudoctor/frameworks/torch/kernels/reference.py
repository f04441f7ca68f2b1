"""Fresh random inputs, and float64 arithmetic to compare results with.

References use only elementwise multiplications and additions on the CPU. They never use the operation under test, nor
a library behind it (BLAS, LAPACK, oneDNN), which may be the broken part.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any, Iterator, Sequence

from .kernel import Run


class Inputs:
    """Random tensors on the CPU from a run's seed; a run makes one and draws everything from it."""

    def __init__(self, run: Run) -> None:
        self._torch = run.torch
        self._run = run
        self._generator = run.torch.Generator().manual_seed(run.seed)

    def normal(self, *shape: int, dtype: Any = None) -> Any:
        """Normal values, rounded to the run's dtype or another."""
        drawn = self._torch.randn(shape, generator=self._generator, dtype=self._torch.float64)
        return drawn.to(self._run.dtype if dtype is None else dtype)

    def uniform(self, low: float, high: float, *shape: int, dtype: Any = None) -> Any:
        """Uniform values of an interval, rounded to the run's dtype or another."""
        drawn = self._torch.rand(shape, generator=self._generator, dtype=self._torch.float64)
        return (low + (high - low) * drawn).to(self._run.dtype if dtype is None else dtype)

    def integers(self, low: int, high: int, *shape: int, dtype: Any = None) -> Any:
        """Whole numbers from `low` to `high` - 1, int64 or of another dtype."""
        drawn = self._torch.randint(low, high, shape, generator=self._generator)
        return drawn if dtype is None else drawn.to(dtype)

    def permutation(self, count: int) -> Any:
        """The numbers below `count`, shuffled."""
        return self._torch.randperm(count, generator=self._generator)


@contextlib.contextmanager
def one_thread(torch: Any) -> Iterator[None]:
    """Use one thread for many small operations. Several threads would wait for each other, ten times as long on a
    busy machine, or where a container may use fewer processors than torch counts."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def product(torch: Any, a: Any, b: Any) -> Any:
    """Matrix product a (..., m, k) · b (..., k, n) in float64, term by term."""
    a, b = a.to(torch.float64), b.to(torch.float64)
    out = torch.zeros_like(a[..., :, :1] * b[..., :1, :])  # torch.broadcast_shapes would import sympy
    with one_thread(torch):
        for k in range(a.shape[-1]):
            out.addcmul_(a[..., :, k : k + 1], b[..., k : k + 1, :])
    return out


def softmax(torch: Any, x: Any) -> Any:
    """Softmax over the last dimension in float64."""
    raised = torch.exp(x - x.amax(dim=-1, keepdim=True))
    return raised / raised.sum(dim=-1, keepdim=True)


def attention(torch: Any, q: Any, k: Any, v: Any, keep: Any = None, bias: Any = None) -> Any:
    """Attention of queries q (..., m, d) over k, v (..., n, d), scaled by 1/sqrt(d).

    keep: booleans (..., m, n), False where a query does not see a key; bias: added to the scores.
    """
    scores = product(torch, q, k.transpose(-1, -2)) / math.sqrt(q.shape[-1])
    if bias is not None:
        scores = scores + bias.to(torch.float64)
    if keep is not None:
        scores = scores.masked_fill(~keep, -math.inf)
    return product(torch, softmax(torch, scores), v)


class Convolution:
    """A convolution in two dimensions, of x (n, c, h, w) by weights (o, c / groups, kh, kw), with its gradients."""

    def __init__(self, torch: Any, stride: int = 1, padding: int = 0, dilation: int = 1, groups: int = 1) -> None:
        self._torch = torch
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.groups = groups

    def options(self) -> dict[str, int]:
        """The options as keywords of torch.nn.functional.conv2d."""
        return {name: getattr(self, name) for name in ("stride", "padding", "dilation", "groups")}

    def forward(self, x: Any, weight: Any) -> Any:
        """Result in float64 on the CPU."""
        torch = self._torch
        padded, weight = self._pad(x), weight.to(torch.float64)
        outputs, channels, kh, kw = weight.shape
        rows, columns = self._size(padded.shape, (kh, kw))
        out = torch.zeros((x.shape[0], outputs, rows, columns), dtype=torch.float64)
        step = outputs // self.groups
        with one_thread(torch):
            for group, c, i, j in self._terms(weight.shape):
                mine = slice(group * step, (group + 1) * step)
                seen = padded[:, group * channels + c, None][self._window(i, j, rows, columns)]
                out[:, mine].addcmul_(seen, weight[None, mine, c, i, j, None, None])
        return out

    def gradients(self, x: Any, weight: Any, slope: Any) -> tuple[Any, Any]:
        """Gradients of sum(slope * result) with respect to x and the weights, in float64."""
        torch = self._torch
        padded, weight, slope = self._pad(x), weight.to(torch.float64), slope.to(torch.float64)
        outputs, channels, _, _ = weight.shape
        by_x, by_weight = torch.zeros_like(padded), torch.zeros_like(weight)
        step = outputs // self.groups
        with one_thread(torch):
            for group, c, i, j in self._terms(weight.shape):
                mine = slice(group * step, (group + 1) * step)
                window = self._window(i, j, *slope.shape[-2:])
                seen = padded[:, group * channels + c, None]
                by_weight[mine, c, i, j] = (slope[:, mine] * seen[window]).sum(dim=(0, 2, 3))
                part = (slope[:, mine] * weight[None, mine, c, i, j, None, None]).sum(dim=1)
                by_x[:, group * channels + c, None][window] += part[:, None]
        edge = self.padding
        return by_x[:, :, edge : edge + x.shape[2], edge : edge + x.shape[3]], by_weight

    def _pad(self, x: Any) -> Any:
        edge = self.padding
        n, c, h, w = x.shape
        padded = self._torch.zeros((n, c, h + 2 * edge, w + 2 * edge), dtype=self._torch.float64)
        padded[:, :, edge : edge + h, edge : edge + w] = x.to(self._torch.float64)
        return padded

    def _terms(self, shape: Sequence[int]) -> list[tuple[int, int, int, int]]:
        _, channels, kh, kw = shape
        return [
            (group, c, i, j)
            for group in range(self.groups)
            for c in range(channels)
            for i in range(kh)
            for j in range(kw)
        ]

    def _size(self, padded: Sequence[int], kernel: tuple[int, int]) -> tuple[int, int]:
        reach = [self.dilation * (size - 1) + 1 for size in kernel]
        return (padded[2] - reach[0]) // self.stride + 1, (padded[3] - reach[1]) // self.stride + 1

    def _window(self, i: int, j: int, rows: int, columns: int) -> tuple[slice, ...]:
        """The padded input that a weight at (i, j) sees, one element for each of the result."""
        top, left, step = i * self.dilation, j * self.dilation, self.stride
        whole = slice(None)
        return whole, whole, slice(top, top + step * rows, step), slice(left, left + step * columns, step)
