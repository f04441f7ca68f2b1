"""Reading and writing by index, sorting, running sums: a right result here is right to the bit."""

from __future__ import annotations

import itertools
from typing import Any

from .compare import Verdict, poison
from .kernel import Outcome, Run, kernel
from .precision import strict
from .reference import Inputs

_TYPES = ("float32", "float16", "int64")


@kernel("gather", "standard", dtypes=_TYPES)
def gather(run: Run) -> Outcome:
    """Elements are read by index, by mask and by position."""
    torch, inputs, verdict = run.torch, Inputs(run), Verdict(run)
    x = inputs.integers(-1000, 1001, 301, 67).to(run.dtype)
    rows, values = inputs.integers(0, 301, 401), x.tolist()
    places = inputs.integers(0, 67, 301, 29)
    on_device, on_rows = x.to(run.device), rows.to(run.device)
    with strict(run):
        poison(run, (401, 67), (301, 29))
        picked = torch.index_select(on_device, 0, on_rows)
        gathered = torch.gather(on_device, 1, places.to(run.device))
        indexed = on_device[on_rows, on_rows % 67]
        masked = torch.masked_select(on_device, on_device > 500)
        positions = torch.nonzero(on_device > 900)
    verdict.exact("rows by number", picked, [values[row] for row in rows.tolist()])
    wanted = [[line[place] for place in row] for line, row in zip(values, places.tolist())]
    verdict.exact("elements of each row", gathered, wanted)
    verdict.exact("elements by row and column", indexed, [values[row][row % 67] for row in rows.tolist()])
    verdict.exact("elements above 500", masked, [value for line in values for value in line if value > 500])
    wanted = [[i, j] for i, line in enumerate(values) for j, value in enumerate(line) if value > 900]
    verdict.exact("positions above 900", positions, wanted)
    return verdict.outcome()


@kernel("scatter", "standard", dtypes=_TYPES)
def scatter(run: Run) -> Outcome:
    """Elements are written and added by index, also where many have the same index."""
    torch, inputs, verdict = run.torch, Inputs(run), Verdict(run)
    count, width, slots = 3001, 5, 41
    # Whole numbers small enough for float16 to hold each partial sum: the order of additions cannot matter.
    added = inputs.integers(-3, 4, count, width).to(run.dtype)
    numbers = inputs.integers(0, slots, count)
    columns = numbers[:, None].expand(count, width)
    on_device, on_numbers, on_columns = added.to(run.device), numbers.to(run.device), columns.to(run.device)
    order = inputs.permutation(count)
    with strict(run):
        zeros = [torch.zeros((slots, width), dtype=run.dtype, device=run.device) for _ in range(3)]
        zeros[0].index_add_(0, on_numbers, on_device)
        zeros[1].scatter_add_(0, on_columns, on_device)
        zeros[2].index_put_((on_numbers,), on_device, accumulate=True)
        moved = torch.full((count, width), -1, dtype=run.dtype, device=run.device)
        moved.scatter_(0, order.to(run.device)[:, None].expand(count, width), on_device)
        copied = torch.full((count, width), -1, dtype=run.dtype, device=run.device)
        copied.index_copy_(0, order.to(run.device), on_device)
    sums = [[0] * width for _ in range(slots)]
    for number, values in zip(numbers.tolist(), added.tolist()):
        sums[number] = [a + b for a, b in zip(sums[number], values)]
    for what, got in zip(("index_add", "scatter_add", "index_put with sums"), zeros):
        verdict.exact(what, got, sums)
    placed: list[Any] = [None] * count
    for place, values in zip(order.tolist(), added.tolist()):
        placed[place] = values
    verdict.exact("scatter", moved, placed)
    verdict.exact("index_copy", copied, placed)
    return verdict.outcome()


@kernel("sort", "standard", dtypes=("float32", "int64"))
def sort(run: Run) -> Outcome:
    """Sorting short and long rows, with the original positions; the greatest few."""
    torch, inputs, verdict = run.torch, Inputs(run), Verdict(run)
    with strict(run):
        for rows, length in ((5, 1025), (1, 40_009)):
            x = torch.stack([inputs.permutation(length) for _ in range(rows)]).sub_(length // 2).to(run.dtype)
            values = x.tolist()
            on_device = x.to(run.device)
            poison(run, (rows, length))
            got, places = torch.sort(on_device, dim=1)
            top, top_places = torch.topk(on_device, 17, dim=1)
            verdict.exact(f"{length} sorted", got, [sorted(row) for row in values])
            verdict.exact(f"places of {length} sorted", places, [_places(row, length) for row in values])
            verdict.exact(f"greatest of {length}", top, [sorted(row, reverse=True)[:17] for row in values])
            wanted = [_places(row, length)[:-18:-1] for row in values]
            verdict.exact(f"places of the greatest of {length}", top_places, wanted)
        few = inputs.integers(0, 7, 2003)
        places = torch.sort(few.to(run.device).to(run.dtype), stable=True)[1]
        listed = few.tolist()
        verdict.exact("stable sort of equal elements", places, _places(listed, len(listed)))
    return verdict.outcome()


def _places(row: list[Any], length: int) -> list[int]:
    return sorted(range(length), key=row.__getitem__)


@kernel("running-sums", "standard", dtypes=("float32", "int64"))
def running_sums(run: Run) -> Outcome:
    """Running sums over a long row and down short columns."""
    torch, inputs, verdict = run.torch, Inputs(run), Verdict(run)
    long = inputs.integers(-8, 9, 70_001).to(run.dtype)
    table = inputs.integers(-8, 9, 131, 37).to(run.dtype)
    with strict(run):
        poison(run, (70_001,), (131, 37))
        along = torch.cumsum(long.to(run.device), dim=0)
        down = torch.cumsum(table.to(run.device), dim=0)
    verdict.exact("along a row", along, list(itertools.accumulate(long.tolist())))
    columns = [list(itertools.accumulate(column)) for column in zip(*table.tolist())]
    verdict.exact("down columns", down, [list(row) for row in zip(*columns)])
    return verdict.outcome()
