"""A torch of which only the name is known: one that a person describes, or one that a fix installs."""

from __future__ import annotations

from gpudoctor.machine import Torch, TorchCopy, TorchOrigin
from gpudoctor.matrix.torch_builds import cuda_of, rocm_of


def torch_of_build(version: str, origin: TorchOrigin, source: str, build: str) -> Torch:
    """A torch of one of the builds that an index has: "cu128", "rocm6.4", "cpu"; "": nothing names it."""
    return named_torch(version, origin, source, build=build or None, cuda=cuda_of(build), rocm=rocm_of(build))


def named_torch(
    version: str,
    origin: TorchOrigin,
    source: str,
    *,
    build: str | None = None,
    cuda: str | None = None,
    rocm: str | None = None,
) -> Torch:
    """A whole torch, alone in its environment, whose code is what the matrix says of the build."""
    return Torch(
        version=version,
        build=build,
        cuda=cuda,
        hip=rocm,
        rocm=rocm,
        origin=origin,
        copies=(TorchCopy(path="torch", version=version, via="site"),),
        has_cuda_libraries=build not in ("cpu", "xpu"),
        own_hsa_runtime=True if rocm else None,
        source=source,
    )
