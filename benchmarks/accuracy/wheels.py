"""Cases of a library and a GPU: whether an installed wheel has code for the GPU, as NVIDIA's cuobjdump tells.

    python -m benchmarks.accuracy.wheels CUOBJDUMP ENVIRONMENT ... > FOLDER/wheels.yaml
    python -m benchmarks.accuracy FOLDER

cuobjdump is in the package nvidia-cuda-cuobjdump. It takes minutes for a torch of a gigabyte: its answers are kept.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import yaml
from msgspec import Struct

from benchmarks.accuracy.libraries import cuda_listing

LIBRARIES = (
    "torch/lib/libtorch_cuda.so",
    "torchvision/_C.so",
    "xformers/_C.so",
    "nvidia/nccl/lib/libnccl.so.2",
    "nvidia/cublas/lib/libcublas.so.12",
)
GPUS = {
    "Tesla M10": 50, "GTX 980": 52, "Tesla P100": 60, "GTX 1080 Ti": 61, "TITAN V": 70, "V100": 70, "T4": 75,
    "RTX 2080 Ti": 75, "A100": 80, "RTX 3060": 86, "RTX A6000": 86, "RTX 4090": 89, "L40S": 89, "H100": 90,
    "B200": 100, "B300": 103, "RTX 5060 Ti": 120, "RTX PRO 6000 Blackwell": 120,
}  # fmt: skip
"""Their compute capability."""
DRIVER = "580.95.05"
"""Runs all of them, and compiles PTX of every CUDA 12."""
TORCH_NO_CODE, NO_CODE = "torch-no-arch-for-gpu", "no-code"
"""The cause where it is torch that has no code, and where it is another library."""
_ARCHITECTURE = re.compile(r"(sm|compute)_(\d{2,3})([af]?)")


class Code(Struct, frozen=True):
    """Code objects of a library by architecture."""

    sass: Counter[tuple[int, str]]
    ptx: Counter[tuple[int, str]]

    def runs_on(self, capability: int, *, most: bool) -> bool:
        """Whether the GPU runs this library; with `most`, half of its code objects at least."""
        fewest = max([*self.sass.values(), *self.ptx.values()], default=0) / 2 if most else 1
        sass = any(_sass_runs(*arch, capability) for arch, count in self.sass.items() if count >= fewest)
        return sass or any(
            not suffix and number <= capability for (number, suffix), count in self.ptx.items() if count >= fewest
        )


def _sass_runs(number: int, suffix: str, capability: int) -> bool:
    """CUDA's rule: machine code runs on GPUs of its major version with the same or a later minor version."""
    if suffix == "a":
        return number == capability
    return number // 10 == capability // 10 and number <= capability


def code_of(listing: Iterable[str]) -> Code:
    """Code objects by their architectures: "sm_90a", "compute_90"."""
    found = {"sm": Counter[tuple[int, str]](), "compute": Counter[tuple[int, str]]()}
    for kind, number, suffix in _ARCHITECTURE.findall(" ".join(listing)):
        found[kind][int(number), suffix] += 1
    return Code(found["sm"], found["compute"])


def rows(environment: Path, cuobjdump: str, kept: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """The cases of an environment by their names."""
    packages = next(environment.glob("lib/python3*/site-packages"))
    for library in LIBRARIES:
        if not (packages / library).exists():
            continue
        listing = _listed(packages / library, cuobjdump, kept / f"{environment.stem}-{library.replace('/', '-')}.txt")
        if not listing:
            continue
        code, is_torch = code_of(listing), library.startswith("torch/")
        for gpu, capability in GPUS.items():
            fault = TORCH_NO_CODE if is_torch else NO_CODE
            row = {"gpu": gpu, "cause": "healthy" if code.runs_on(capability, most=is_torch) else fault}
            where = {"python": str(environment)} if is_torch else {"library": str(packages / library)}
            yield f"{environment.stem} {library} {gpu}", {**row, **where}


def _listed(library: Path, cuobjdump: str, kept: Path) -> list[str]:
    """The architectures that cuobjdump lists; none where it failed."""
    if not kept.exists():
        kept.write_text("\n".join(cuda_listing(cuobjdump, library) or ()))
    return kept.read_text().split()


def arguments(row: dict[str, str]) -> tuple[str, ...]:
    """The command that answers a case: of torch, whether it has code for the GPU, and nothing else."""
    if library := row.get("library"):
        return ("scan", library, "--gpu", row["gpu"])
    machine = ("--python", row["python"], "--gpu", row["gpu"], "--driver", DRIVER, "--level", "static")
    return ("check", *machine, "--select", TORCH_NO_CODE, "--select", "torch-dropped-old-gpu")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("cuobjdump")
    parser.add_argument("environments", nargs="+", type=Path)
    parser.add_argument("--kept", type=Path, default=Path(), help="the folder of cuobjdump's answers")
    options = parser.parse_args()
    cases = {
        name: row
        for environment in options.environments
        for name, row in rows(environment, options.cuobjdump, options.kept)
    }
    yaml.safe_dump(cases, sys.stdout, sort_keys=False)


if __name__ == "__main__":
    main()
