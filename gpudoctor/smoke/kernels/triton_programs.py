"""Programs in Triton. Imported only if Triton is installed: it reads their source from this file."""

# mypy: disable-error-code="import-untyped,import-not-found,untyped-decorator,misc,no-untyped-def"
# No `from __future__ import annotations` here: old Tritons read the annotations literally.

from typing import Any

import triton
import triton.language as tl

BLOCK = 1024
TILE = 32


def version() -> str:
    """Triton's own version."""
    return str(triton.__version__)


@triton.jit
def _add(a, b, out, count, BLOCK: tl.constexpr):  # noqa: N803
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    tl.store(out + at, tl.load(a + at, mask=inside) + tl.load(b + at, mask=inside), mask=inside)


@triton.jit
def _matmul(a, b, out, inner, columns, TILE: tl.constexpr):  # noqa: N803
    rows_at = tl.program_id(0) * TILE + tl.arange(0, TILE)
    columns_at = tl.program_id(1) * TILE + tl.arange(0, TILE)
    inner_at = tl.arange(0, TILE)
    total = tl.zeros((TILE, TILE), dtype=tl.float32)
    for start in range(0, inner, TILE):
        left = tl.load(a + rows_at[:, None] * inner + start + inner_at[None, :])
        right = tl.load(b + (start + inner_at[:, None]) * columns + columns_at[None, :])
        total += tl.dot(left, right, allow_tf32=False)
    tl.store(out + rows_at[:, None] * columns + columns_at[None, :], total.to(out.dtype.element_ty))


def launch_add(a: Any, b: Any, out: Any) -> None:
    """out = a + b, of any length."""
    _add[(triton.cdiv(a.numel(), BLOCK),)](a, b, out, a.numel(), BLOCK=BLOCK)


def launch_matmul(a: Any, b: Any, out: Any) -> None:
    """out = a · b; every size is a multiple of TILE."""
    rows, inner = a.shape
    columns = b.shape[1]
    _matmul[(rows // TILE, columns // TILE)](a, b, out, inner, columns, TILE=TILE)
