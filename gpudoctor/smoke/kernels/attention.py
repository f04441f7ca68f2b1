"""Scaled dot product attention: with the backend that torch chooses, and with each backend that it has."""

from __future__ import annotations

import contextlib
import importlib
import warnings
from typing import Any, ContextManager, Iterator, NamedTuple

from .compare import Verdict, poison, tolerance
from .kernel import Outcome, Run, kernel
from .precision import needs_bfloat16, strict, tf32_forced
from .reference import Inputs, attention, product, softmax

_HALVES = ("float16", "bfloat16")


class _Case(NamedTuple):
    """Sizes as in real models; none of the lengths is a multiple of a tile's."""

    what: str
    batch: int
    heads: int
    queries: int
    keys: int
    size: int
    see: str = "all"
    """all; causal; mask: booleans, other ones for each of the batch; bias: added numbers, some at minus infinity."""


_QUICK = (
    _Case("a text encoder, causal", 2, 3, 77, 77, 64, "causal"),
    _Case("an image model's heads of 40", 2, 2, 333, 77, 40),
)
_STANDARD = (
    *_QUICK,
    _Case("an image model's heads of 80", 2, 2, 145, 145, 80),
    _Case("an image model's heads of 160", 2, 2, 65, 65, 160),
    _Case("a language model's heads of 128, causal", 2, 2, 461, 461, 128, "causal"),
    _Case("image and text together", 2, 2, 709, 709, 64),
    _Case("a batch with padding", 2, 3, 187, 187, 64, "mask"),
    _Case("a batch with numbers added to its scores", 2, 2, 93, 131, 64, "bias"),
)
_REFERENCE_LIMIT = 16_000_000
"""Limit for a reference's multiplications; in longer cases only some 48 queries of each head are compared."""


_ROUNDING = 8.0
"""Weights and result are rounded to a half type; older code also rounds intermediate values."""
_MATH_ROUNDING = 16.0
"""Before torch 2.5 plain products also round the scores, and an error of a score of 4 is four times that of its
weight."""
_CANNOT = ("no available kernel", "not correctly aligned", "no execution plans support the graph")
"""What torch and cuDNN say about a case that a backend does not support."""


class _Refused(Exception):  # noqa: N818 - torch's answer, no error
    """The backend does not support this case; the text is torch's."""


@kernel("attention", "quick", dtypes=("float32", *_HALVES))
def default_attention(run: Run) -> Outcome:
    """Attention with the backend that torch chooses."""
    return _attend(run, _QUICK, contextlib.nullcontext(), _default_rounding(run))


@kernel("attention-math", "standard", dtypes=("float32", *_HALVES))
def math_attention(run: Run) -> Outcome:
    """Attention with plain matrix products."""
    return _attend(run, _STANDARD, _backend(run, "MATH", "enable_math"), _MATH_ROUNDING)


@kernel("attention-flash", "standard", dtypes=_HALVES)
def flash_attention(run: Run) -> Outcome:
    """Attention with the flash backend."""
    return _attend(run, _STANDARD, _backend(run, "FLASH_ATTENTION", "enable_flash"))


@kernel("attention-memory-efficient", "standard", dtypes=("float32", *_HALVES))
def memory_efficient_attention(run: Run) -> Outcome:
    """Attention with the memory-efficient backend."""
    run.needs_gpu("the memory-efficient backend is for GPUs only")
    return _attend(run, _STANDARD, _backend(run, "EFFICIENT_ATTENTION", "enable_mem_efficient"))


@kernel("attention-cudnn", "standard", dtypes=_HALVES, seconds=60.0)
def cudnn_attention(run: Run) -> Outcome:
    """Attention with cuDNN."""
    run.needs_gpu("cuDNN is for GPUs only")
    if run.rocm:
        run.skip("cuDNN is for NVIDIA GPUs only")
    return _attend(run, _STANDARD, _backend(run, "CUDNN_ATTENTION", ""))


def _backend(run: Run, name: str, switch: str) -> ContextManager[Any]:
    """Use only this backend: by sdpa_kernel (from 2.3), or by the switches of sdp_kernel (2.0 to 2.2)."""
    run.needs_torch(_function(run), "scaled_dot_product_attention")
    try:
        chosen = importlib.import_module("torch.nn.attention")
        sdpa_kernel, backends = chosen.sdpa_kernel, chosen.SDPBackend
    except (ImportError, AttributeError):
        if not switch:
            run.skip(f"torch {run.torch.__version__} has no attention with cuDNN")
        switches = {"enable_flash": False, "enable_math": False, "enable_mem_efficient": False, switch: True}
        old: ContextManager[Any] = run.torch.backends.cuda.sdp_kernel(**switches)
        return old
    backend = getattr(backends, name, None)
    run.needs_torch(backend, f"attention with {name}")
    new: ContextManager[Any] = sdpa_kernel(backend)
    return new


def _function(run: Run) -> Any:
    return getattr(run.torch.nn.functional, "scaled_dot_product_attention", None)


def _attend(run: Run, cases: tuple[_Case, ...], backend: ContextManager[Any], rounding: float = _ROUNDING) -> Outcome:
    needs_bfloat16(run)
    if not run.on_gpu and run.dtype_name == "float16" and _older_than_2_5(run):
        run.skip("torch before 2.5 sums batches of float16 in float16 on a CPU: too coarse to judge")
    verdict, inputs, refused = Verdict(run), Inputs(run), {}
    with strict(run), backend:
        for situation in cases:
            try:
                _judge(run, situation, inputs, verdict, rounding)
            except _Refused as why:
                refused[situation.what] = str(why)
    if len(refused) == len(cases):
        run.skip(f"torch has no such attention for this device: {next(iter(refused.values()))}")
    return verdict.outcome(f"not for: {'; '.join(refused)}" if refused else "")


def _default_rounding(run: Run) -> float:
    """torch may choose plain products: always if it has no other backend for the GPU."""
    return _MATH_ROUNDING if _older_than_2_5(run) else _ROUNDING


def _older_than_2_5(run: Run) -> bool:
    major, minor = str(run.torch.__version__).split(".")[:2]
    return (int(major), int(minor)) < (2, 5)


def _judge(run: Run, situation: _Case, inputs: Inputs, verdict: Verdict, rounding: float) -> None:
    # As in models: heads are cut from a tensor (batch, length, heads, size), so memory is strided.
    q, k, v = (
        inputs.normal(situation.batch, length, situation.heads, situation.size).transpose(1, 2)
        for length in (situation.queries, situation.keys, situation.keys)
    )
    keep, bias = _seen(run, situation, inputs)
    poison(run, q.shape)
    with _refusals():
        got = _computed(run, situation, q, k, v, keep, bias).to("cpu")
    if tuple(got.shape) != tuple(q.shape):
        verdict.close(situation.what, got, q, 0.0)
        return
    rows = _checked(situation, inputs)
    want = attention(
        run.torch,
        q[:, :, rows],
        k,
        v,
        None if keep is None else keep[..., rows, :],
        None if bias is None else bias[..., rows, :],
    )
    verdict.close(situation.what, got[:, :, rows], want, _allowed(run, situation.size, rounding))
    whole = got.to(run.torch.float64)
    if not bool(run.torch.isfinite(whole).all()):
        verdict.close(situation.what, got, whole, 0.0)


def _checked(situation: _Case, inputs: Inputs) -> list[int]:
    """Queries to compare with the reference: all, or the first, the last, those at tiles' edges and random ones."""
    if situation.batch * situation.heads * situation.queries * situation.keys * situation.size <= _REFERENCE_LIMIT:
        return list(range(situation.queries))
    edges = [0, 15, 16, 63, 64, 127, 128, situation.queries - 2, situation.queries - 1]
    return sorted({*edges, *inputs.permutation(situation.queries)[:40].tolist()})


def _allowed(run: Run, size: int, rounding: float = _ROUNDING) -> float:
    """In float32 exp and the running sums of a tiled softmax cost a few more bits; TF32 would be off by 1e-3."""
    if run.dtype_name != "float32":
        return tolerance(run, size, rounding=rounding)
    return 4e-3 if run.on_gpu and tf32_forced() else 16 * tolerance(run, size)


def _seen(run: Run, situation: _Case, inputs: Inputs) -> tuple[Any, Any]:
    """The keys that each query sees, as booleans and as numbers to add; either may be None."""
    torch = run.torch
    if situation.see == "causal":
        return torch.ones(situation.queries, situation.keys, dtype=torch.bool).tril(), None
    lengths = [situation.keys - 50, situation.keys - 3]
    padded = torch.arange(situation.keys)[None, :] < torch.tensor(lengths)[:, None]
    keep = padded[:, None, None, :].expand(situation.batch, 1, situation.queries, situation.keys)
    if situation.see == "mask":
        return keep, None
    if situation.see == "bias":
        return keep, inputs.normal(situation.batch, 1, situation.queries, situation.keys)
    return None, None


def _computed(run: Run, situation: _Case, q: Any, k: Any, v: Any, keep: Any, bias: Any) -> Any:
    function = _function(run)
    q, k, v = (tensor.to(run.device) for tensor in (q, k, v))
    mask = keep
    if bias is not None:
        mask = bias.masked_fill(~keep, float("-inf"))
    if mask is not None:
        mask = mask.to(run.device)
    if function is None:
        # Before torch 2.0 models wrote it themselves.
        return _by_hand(run, q, k, v, mask)
    if situation.see == "causal":
        return function(q, k, v, is_causal=True)
    if mask is not None:
        # One mask for all heads, with a stride of 0 and not copied, as models pass it.
        mask = mask.expand(situation.batch, situation.heads, situation.queries, situation.keys)
    return function(q, k, v, attn_mask=mask)


def _by_hand(run: Run, q: Any, k: Any, v: Any, mask: Any) -> Any:
    scores = run.torch.matmul(q, k.transpose(-1, -2)) / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return run.torch.matmul(run.torch.softmax(scores, dim=-1), v)


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """Raise torch's own reason, from its warnings, if a forced backend does not support a case."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            yield
        except RuntimeError as error:
            if not any(words in str(error).lower() for words in _CANNOT):
                raise
            reasons = [str(warning.message).split(" (Triggered")[0] for warning in said]
            reasons = [reason for reason in reasons if not reason.endswith("because:")]
            raise _Refused(reasons[0] if reasons else "no available kernel") from None


@kernel("attention-backward", "standard", dtypes=("float32", *_HALVES))
def attention_backward(run: Run) -> Outcome:
    """Gradients of attention with the backend that torch chooses."""
    needs_bfloat16(run)
    run.needs_torch(_function(run), "scaled_dot_product_attention")
    torch, inputs, verdict = run.torch, Inputs(run), Verdict(run)
    queries, keys, size = 77, 93, 64
    q, k, v = (inputs.normal(2, length, 2, size).transpose(1, 2) for length in (queries, keys, keys))
    slope = inputs.normal(2, 2, queries, size)
    with strict(run):
        leaves = [tensor.to(run.device).requires_grad_() for tensor in (q, k, v)]
        poison(run, q.shape, k.shape)
        _function(run)(*leaves).backward(slope.to(run.device))
    weights = softmax(torch, product(torch, q, k.transpose(-1, -2)) / size**0.5)
    by_weights = product(torch, slope, v.transpose(-1, -2))
    by_scores = weights * (by_weights - (weights * by_weights).sum(dim=-1, keepdim=True)) / size**0.5
    wanted = {
        "queries": product(torch, by_scores, k),
        "keys": product(torch, by_scores.transpose(-1, -2), q),
        "values": product(torch, weights.transpose(-1, -2), slope),
    }
    for leaf, (name, want) in zip(leaves, wanted.items()):
        # Gradients pass through a rounded result and rounded weights: twice the rounding of the forward pass.
        verdict.close(f"gradient by {name}", leaf.grad, want, 2 * _allowed(run, size, _default_rounding(run)))
    return verdict.outcome()
