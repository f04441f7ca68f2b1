"""The checks, one module per layer of the stack. Each is a pure function over a `Case`.

A judgement imports a module only where its subject is there: most machines have no torch for ROCm, and have run no
kernels. `NEEDS` says what the checks of a module look at first; a module that is not named is always asked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpudoctor.check import Case


def _torch(case: Case) -> bool:
    return case.torch is not None


def _rocm_torch(case: Case) -> bool:
    return case.built_for == "amd"


def _kernels(case: Case) -> bool:
    return case.machine.smoke is not None


def _requirements(case: Case) -> bool:
    return bool(case.required)


NEEDS: dict[str, Callable[[Case], bool]] = {
    "bitsandbytes": _torch,
    "companions": _torch,
    "cudnn": _torch,
    "extensions": _torch,
    "failed_kernels": _kernels,
    "kernel_repairs": _kernels,
    "libraries": _torch,
    "packages": _torch,
    "shadowing": _torch,
    "torch_build": _torch,
    "torch_import": _torch,
    "torch_kind": _torch,
    "rocm_build": _rocm_torch,
    "rocm_runtime": _rocm_torch,
    "requirement": _requirements,
    "smoke": _kernels,
}
