"""Formats that only some GPUs have: TF32, 8-bit floats, 8-bit integers."""

from __future__ import annotations

from typing import Any

from .basics import TF32_TOLERANCE
from .compare import Verdict, poison, tolerance
from .kernel import Outcome, Run, kernel
from .precision import architecture, capability, cpu_may_lack, gpu_may_lack, strict, tf32_forced
from .reference import Inputs, product

_FP8_FNUZ = ("gfx940", "gfx941", "gfx942")
_FP8_OCP = ("gfx950", "gfx1200", "gfx1201")
_INT8 = ("gfx90a", *_FP8_FNUZ, *_FP8_OCP)


@kernel("tf32", "standard", dtypes=("float32",))
def tf32(run: Run) -> Outcome:
    """float32 products are exact to float32 with TF32 off, and within TF32's bounds with TF32 on."""
    torch, inputs, verdict = run.torch, Inputs(run), Verdict(run)
    m, k, n = 192, 512, 160
    a, b = inputs.normal(m, k), inputs.normal(k, n)
    want = product(torch, a, b)
    on_device = a.to(run.device), b.to(run.device)
    plain, allowed = Verdict(run), Verdict(run)
    for asked, into in ((False, plain), (True, allowed)):
        with strict(run, tf32=asked):
            poison(run, (m, n))
            got = torch.matmul(*on_device)
        into.close("TF32 on" if asked else "TF32 off", got, want, tolerance(run, k))
        bound = TF32_TOLERANCE if asked or (run.on_gpu and tf32_forced()) else tolerance(run, k)
        verdict.close("TF32 on" if asked else "TF32 off", got, want, bound)
    on = allowed.outcome().error or 0.0
    used = not on <= tolerance(run, k)
    return verdict.outcome("TF32 is used where it is allowed" if used else "TF32 is not used, allowed or not")


@kernel("matmul-fp8", "standard")
def matmul_fp8(run: Run) -> Outcome:
    """Matrix products of 8-bit floats with their scales."""
    torch = run.torch
    form = eight_bit_form(run)
    inputs, verdict = Inputs(run), Verdict(run)
    m, k, n = 48, 128, 32
    a, b = inputs.normal(m, k, dtype=torch.float32).to(form), inputs.normal(n, k, dtype=torch.float32).to(form)
    want = product(torch, a.to(torch.float32), b.to(torch.float32).t()) * 0.5 * 0.25
    scales = {name: torch.tensor(value, device=run.device) for name, value in (("scale_a", 0.5), ("scale_b", 0.25))}
    with strict(run), gpu_may_lack(run):
        poison(run, (m, n), dtype=torch.bfloat16)
        got = eight_bit_product(torch, a.to(run.device), b.to(run.device).t(), scales)
    # Hopper and Ada sum 8-bit products in some 14 bits, not in float32.
    verdict.close(f"{m} x {k} x {n}", got, want, tolerance(run, k, dtype=torch.bfloat16, rounding=2))
    return verdict.outcome(f"{form}".replace("torch.", ""))


def eight_bit_form(run: Run) -> Any:
    """The type of 8-bit floats that the device multiplies; skips if there is none."""
    torch = run.torch
    run.needs_torch(getattr(torch, "float8_e4m3fn", None), "8-bit floats")
    run.needs_torch(getattr(torch, "_scaled_mm", None), "products of 8-bit floats")
    if run.on_gpu and run.rocm:
        name = architecture(run)
        if name not in _FP8_FNUZ + _FP8_OCP:
            run.skip(f"this GPU ({name or 'unknown'}) has no products of 8-bit floats that torch uses")
        return torch.float8_e4m3fnuz if name in _FP8_FNUZ else torch.float8_e4m3fn
    if run.on_gpu and capability(run) < (8, 9):
        run.skip("this GPU has no 8-bit floats (NVIDIA GPUs have them from sm_89 on)")
    return torch.float8_e4m3fn


def eight_bit_product(torch: Any, a: Any, b: Any, scales: dict[str, Any]) -> Any:
    """a · b in bfloat16; `b` is stored by columns."""
    got: Any = torch._scaled_mm(a, b, out_dtype=torch.bfloat16, **scales)
    return got[0] if isinstance(got, tuple) else got  # before torch 2.5, with the greatest element


@kernel("matmul-int8", "standard")
def matmul_int8(run: Run) -> Outcome:
    """Matrix products of 8-bit integers, summed in 32 bits, are exact."""
    torch = run.torch
    run.needs_torch(getattr(torch, "_int_mm", None), "products of 8-bit integers")
    if run.on_gpu and run.rocm and architecture(run) not in _INT8:
        run.skip(f"torch has no products of 8-bit integers for {architecture(run) or 'this GPU'}")
    if run.on_gpu and not run.rocm and capability(run) < (7, 5):
        run.skip("this GPU has no products of 8-bit integers that torch uses (NVIDIA GPUs have them from sm_75 on)")
    inputs, verdict = Inputs(run), Verdict(run)
    m, k, n = 96, 256, 80
    a, b = inputs.integers(-128, 128, m, k, dtype=torch.int8), inputs.integers(-128, 128, n, k, dtype=torch.int8)
    with cpu_may_lack(run), gpu_may_lack(run):
        poison(run, (m, n), dtype=torch.int32)
        got = torch._int_mm(a.to(run.device), b.to(run.device).t())
    verdict.exact(f"{m} x {k} x {n}", got, product(torch, a, b.t()).to(torch.int32))
    return verdict.outcome()
