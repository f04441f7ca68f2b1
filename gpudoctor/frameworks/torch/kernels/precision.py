"""torch's precision settings while a kernel runs, and what then cannot run."""

from __future__ import annotations

import contextlib
import os
import warnings
from typing import Any, Iterator

from .kernel import Run

_CPU_LACKS = ("not implemented for", "could not run 'aten::", "not compiled with")
_GPU_LACKS = ("only supported on", "not compiled for this platform", "not compiled with")


@contextlib.contextmanager
def strict(run: Run, tf32: bool = False) -> Iterator[None]:
    """Compute in the given types: TF32 only if asked for, sums of half types in float32.

    Restores the settings afterwards. If torch's CPU code lacks an operation for a type, the kernel is skipped; on a
    GPU every error is passed on.
    """
    cuda, cudnn = run.torch.backends.cuda.matmul, run.torch.backends.cudnn
    wanted = [(cuda, "allow_tf32", tf32), (cudnn, "allow_tf32", tf32)]
    for name in ("fp16_reduced_precision_reduction", "bf16_reduced_precision_reduction", "fp16_accumulation"):
        wanted.append((cuda, "allow_" + name, False))
    with contextlib.ExitStack() as restored, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # torch 2.9 and newer also keep this setting as a word, which the old switches do not restore.
        for owner in (cudnn, cuda):
            word = _setting(owner, "fp32_precision")
            if word is not None:
                restored.callback(setattr, owner, "fp32_precision", word)
        for owner, name, value in wanted:
            before = _setting(owner, name)
            if before is None:
                continue
            # Newer torch keeps a second switch with these, which a single value would set, too.
            split = _setting(owner, name + "_split_k")
            restored.callback(setattr, owner, name, before if split is None else (before, split))
            setattr(owner, name, value)
        with cpu_may_lack(run):
            yield


def _setting(owner: Any, name: str) -> Any:
    """A setting, None if this torch has none of that name: 1.13 says so with an assertion."""
    try:
        return getattr(owner, name)
    except (AttributeError, AssertionError):
        return None


def tf32_forced() -> bool:
    """Whether a variable makes NVIDIA's libraries use TF32 whatever torch is told."""
    return os.environ.get("NVIDIA_TF32_OVERRIDE", "") == "1"


def in_tf32(run: Run) -> bool:
    """Whether float32 is rounded to TF32 here, although torch is told not to."""
    return run.dtype_name == "float32" and run.on_gpu and tf32_forced()


@contextlib.contextmanager
def cpu_may_lack(run: Run) -> Iterator[None]:
    """Skip if torch's CPU code has no such operation for this type."""
    try:
        yield
    except (RuntimeError, NotImplementedError) as error:
        message = str(error).splitlines()[0] if str(error) else ""
        if not run.on_gpu and any(words in message.lower() for words in _CPU_LACKS):
            run.skip(f"torch {run.torch.__version__} cannot do this with {run.dtype_name or 'this type'} on a CPU")
        raise


@contextlib.contextmanager
def gpu_may_lack(run: Run) -> Iterator[None]:
    """Skip if torch itself says that it lacks an operation for this GPU: some formats exist only on some GPUs."""
    try:
        yield
    except (RuntimeError, NotImplementedError) as error:
        message = str(error).splitlines()[0] if str(error) else ""
        if any(words in message.lower() for words in _GPU_LACKS):
            run.skip(f"torch says: {message}")
        raise


def needs_bfloat16(run: Run) -> None:
    """Skip bfloat16 if an NVIDIA GPU has no arithmetic for it: libraries refuse some operations there."""
    if run.dtype_name != "bfloat16":
        return
    if not run.on_gpu and str(run.torch.__version__).startswith("1."):
        run.skip("torch 1 keeps intermediate values in bfloat16 on a CPU: too coarse to judge")
    if run.on_gpu and not run.rocm and capability(run) < (8, 0):
        run.skip("this GPU has no bfloat16 arithmetic (NVIDIA GPUs have it from sm_80 on)")


def capability(run: Run) -> tuple[int, int]:
    """An NVIDIA GPU's compute capability: (9, 0) for sm_90."""
    major, minor = run.torch.cuda.get_device_capability(run.device)
    return int(major), int(minor)


def architecture(run: Run) -> str:
    """An AMD GPU's gfx name without its features: "gfx942"."""
    properties: Any = run.torch.cuda.get_device_properties(run.device)
    return str(getattr(properties, "gcnArchName", "")).split(":")[0]
