"""A training step, computed by hand."""

from __future__ import annotations

import math
from typing import Any, Callable

from .compare import Verdict, poison, tolerance
from .kernel import Outcome, Run, kernel
from .precision import in_tf32, strict
from .reference import Inputs, product, softmax

_STEPS = 3


@kernel("backward", "standard", dtypes=("float32", "float64"))
def backward(run: Run) -> Outcome:
    """Loss and gradients of a network of two layers, against the analytic gradient."""
    torch, inputs, verdict = run.torch, Inputs(run), Verdict(run)
    rows, width, hidden, classes = 48, 40, 56, 13
    x = inputs.normal(rows, width)
    weights = [
        inputs.normal(width, hidden),
        inputs.normal(hidden),
        inputs.normal(hidden, classes),
        inputs.normal(classes),
    ]
    for weight, terms in ((weights[0], width), (weights[2], hidden)):
        weight.div_(math.sqrt(terms))
    labels = inputs.integers(0, classes, rows)
    with strict(run):
        leaves = [weight.to(run.device).requires_grad_() for weight in weights]
        poison(run, *(weight.shape for weight in weights))
        first, first_bias, second, second_bias = leaves
        seen = torch.tanh(torch.matmul(x.to(run.device), first) + first_bias)
        loss = torch.nn.functional.cross_entropy(torch.matmul(seen, second) + second_bias, labels.to(run.device))
        loss.backward()
    want_loss, wanted = _gradients(torch, x, weights, labels)
    # Gradients pass three products; each adds the error of its sums.
    allowed = 4e-3 if in_tf32(run) else 4 * tolerance(run, hidden)
    verdict.close("loss", loss.reshape(1), want_loss, allowed)
    names = ("first weights", "first bias", "second weights", "second bias")
    for name, leaf, want in zip(names, leaves, wanted):
        verdict.close(f"gradient by the {name}", leaf.grad, want, allowed)
    return verdict.outcome()


def _gradients(torch: Any, x: Any, weights: list[Any], labels: Any) -> tuple[Any, list[Any]]:
    """Loss and gradients by the weights in float64, by the chain rule."""
    x, (first, first_bias, second, second_bias) = x.to(torch.float64), (w.to(torch.float64) for w in weights)
    seen = torch.tanh(product(torch, x, first) + first_bias)
    likely = softmax(torch, product(torch, seen, second) + second_bias)
    rows = x.shape[0]
    right = torch.zeros_like(likely)
    for row, label in enumerate(labels.tolist()):
        right[row, label] = 1.0
    loss = -(torch.log(likely) * right).sum().reshape(1) / rows
    by_scores = (likely - right) / rows
    by_hidden = product(torch, by_scores, second.t()) * (1 - seen * seen)
    return loss, [
        product(torch, x.t(), by_hidden),
        by_hidden.sum(dim=0),
        product(torch, seen.t(), by_scores),
        by_scores.sum(dim=0),
    ]


@kernel("optimizer-step", "standard", dtypes=("float32",))
def optimizer_step(run: Run) -> Outcome:
    """Steps of SGD with momentum and of Adam, against the same in Python's floats."""
    torch, inputs, verdict = run.torch, Inputs(run), Verdict(run)
    makers: tuple[tuple[str, Callable[[Any], Any], Callable[[float, list[float]], float]], ...] = (
        ("SGD", lambda leaves: torch.optim.SGD(leaves, lr=0.1, momentum=0.9, weight_decay=0.01), _sgd),
        ("Adam", lambda leaves: torch.optim.Adam(leaves, lr=0.1, betas=(0.9, 0.99), eps=1e-8), _adam),
    )
    for name, make, by_hand in makers:
        begun = [inputs.normal(37, 11), inputs.normal(101)]
        slopes = [[inputs.normal(*part.shape) for part in begun] for _ in range(_STEPS)]
        with strict(run):
            leaves = [part.to(run.device, copy=True).requires_grad_() for part in begun]
            optimizer = make(leaves)
            poison(run, *(part.shape for part in begun))
            for slope in slopes:
                for leaf, part in zip(leaves, slope):
                    leaf.grad = part.to(run.device)
                optimizer.step()
        for at, leaf in enumerate(leaves):
            columns = zip(*(slope[at].reshape(-1).tolist() for slope in slopes))
            values = [by_hand(p, list(s)) for p, s in zip(begun[at].reshape(-1).tolist(), columns)]
            want = torch.tensor(values, dtype=torch.float64).reshape(leaf.shape)
            verdict.close(f"weights after {_STEPS} steps of {name}", leaf, want, 2 * tolerance(run, 4))
    return verdict.outcome()


def _sgd(weight: float, slopes: list[float]) -> float:
    momentum = 0.0
    for slope in slopes:
        momentum = 0.9 * momentum + slope + 0.01 * weight
        weight -= 0.1 * momentum
    return weight


def _adam(weight: float, slopes: list[float]) -> float:
    mean = square = 0.0
    for step, slope in enumerate(slopes, 1):
        mean = 0.9 * mean + 0.1 * slope
        square = 0.99 * square + 0.01 * slope * slope
        weight -= 0.1 * (mean / (1 - 0.9**step)) / (math.sqrt(square / (1 - 0.99**step)) + 1e-8)
    return weight
