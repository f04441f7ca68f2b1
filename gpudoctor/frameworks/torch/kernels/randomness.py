"""Random numbers drawn by a device."""

from __future__ import annotations

import math
from typing import Any

from .compare import Verdict, poison
from .kernel import Outcome, Run, kernel
from .precision import strict

_COUNT = 200_003
_SIGMAS = 8.0
"""A correct generator is this far from its mean once in 1e15 draws."""


@kernel("random-numbers", "standard", dtypes=("float32",))
def random_numbers(run: Run) -> Outcome:
    """Random numbers have the right range, moments and independence; a seed repeats them, another seed does not."""
    torch, verdict = run.torch, Verdict(run)
    with strict(run):
        poison(run, (_COUNT,))
        even, again, other = (_even(run, seed) for seed in (run.seed, run.seed, run.seed + 1))
        normal = torch.randn(_COUNT, generator=_generator(run, run.seed), device=run.device, dtype=run.dtype)
        whole = torch.randint(0, 10, (_COUNT,), generator=_generator(run, run.seed), device=run.device)
        order = torch.randperm(10_007, generator=_generator(run, run.seed), device=run.device)
    verdict.exact("the same seed again", again, even.to("cpu"))
    equal = int((other.to("cpu") == even.to("cpu")).sum())
    verdict.holds("numbers that two seeds share", float(equal), 100.0)
    drawn = even.to("cpu").to(torch.float64)
    verdict.holds("a number outside 0 to 1", float(((drawn < 0) | (drawn >= 1)).sum()), 0.0)
    _moments(verdict, "even numbers", (drawn - 0.5) * math.sqrt(12), fourth=1.8)
    _moments(verdict, "normal numbers", normal.to("cpu").to(torch.float64), fourth=3.0)
    faces = torch.bincount(whole.to("cpu").clamp(-1, 10) + 1, minlength=12).tolist()
    verdict.holds("whole numbers outside 0 to 9", float(faces[0] + faces[-1]), 0.0)
    expected = _COUNT / 10
    spread = math.sqrt(expected * 0.9)
    verdict.holds("whole numbers, sigmas", max(abs(face - expected) / spread for face in faces[1:-1]), _SIGMAS)
    order = order.to("cpu")
    verdict.exact("a permutation, sorted", order.new_tensor(sorted(order.tolist())), list(range(10_007)))
    left = int((order == torch.arange(10_007)).sum())
    verdict.holds("numbers that a permutation left in place", float(left), 30.0)
    return verdict.outcome()


def _generator(run: Run, seed: int) -> Any:
    return run.torch.Generator(device=run.device).manual_seed(seed)


def _even(run: Run, seed: int) -> Any:
    return run.torch.rand(_COUNT, generator=_generator(run, seed), device=run.device, dtype=run.dtype)


def _moments(verdict: Verdict, what: str, drawn: Any, fourth: float) -> None:
    """Mean 0, variance 1 and independent neighbours, each in standard deviations; `fourth` is E x^4."""
    root = math.sqrt(drawn.numel())
    figures = {
        "mean": drawn.mean().item() * root,
        "variance": ((drawn * drawn).mean().item() - 1) * root / math.sqrt(fourth - 1),
        "product of neighbours": (drawn[1:] * drawn[:-1]).mean().item() * root,
        "product over half": (drawn[: drawn.numel() // 2] * drawn[-(drawn.numel() // 2) :]).mean().item()
        * root
        / 1.42,
    }
    for name, sigmas in figures.items():
        verdict.holds(f"{what}: {name}, sigmas", abs(sigmas), _SIGMAS)
