"""Compares `gpudoctor recommend` with the pick of uv's `--torch-backend=auto`, as a Markdown table.

    python benchmarks/uv_comparison.py RECORDING.json SCAN.json > table.md

RECORDING holds uv's answers: {"driver": [{"driver", "first"}], "gfx": [{"gfx", "first"}]}. SCAN holds the code of
wheels, read from their binaries: {"_torch_arch_by_version": {VERSION: {"cuda", "full_coverage_sass"}}}. Both picks
are judged by that list if the wheel was read, else by the matrix's row. The other rules are written down here again:
the driver floors of the CUDA majors, the branches that know a GPU, the BLAS of each ROCm.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from gpudoctor.intake.described import imagined_machine
from gpudoctor.intake.description import Description
from gpudoctor.matrix.load import load_matrix
from gpudoctor.matrix.questions import Matrix
from gpudoctor.matrix.rows import TorchBuild
from gpudoctor.matrix.versions import figures
from gpudoctor.recommend import Recommended, recommend
from gpudoctor.situation import Situation

PYTHON, PLATFORM = "3.12", "linux-x86_64"
FLOORS = {"10": "410.48", "11": "450.80.02", "12": "525.60.13", "13": "580"}
# GPU: capability, first driver that knows it, last branch that runs it.
GPUS = {
    "GTX 1080 Ti": ((6, 1), "378.13", 580),
    "RTX 3090": ((8, 6), "455.23.04", None),
    "RTX 5090": ((12, 0), "570.86.16", None),
}


class Comparison:
    """The two picks for each machine, and whether they run."""

    def __init__(self, matrix: Matrix, measured: dict[str, Any]) -> None:
        self.matrix = matrix
        self.measured = measured

    def of_driver(self, gpu: str, driver: str, index: str) -> tuple[str, str, str, str, str]:
        """uv's pick and its verdict, ours and its verdict, and why they differ."""
        theirs = self.newest(index)
        ours = self.pick(gpu, driver)
        uv = self.judged_cuda(gpu, driver, theirs.version, theirs.build) if theirs else f"no wheel for {PYTHON}"
        own = self.judged_cuda(gpu, driver, ours.torch or "", ours.build or "") if ours else self.nothing(gpu, driver)
        name = f"{theirs.version}+{theirs.build}" if theirs else f"none in {index}"
        return name, uv, named(ours), own, self.explained(uv, theirs, ours)

    def of_gfx(self, gfx: str, index: str | None) -> tuple[str, str, str, str, str]:
        """The same for an AMD GPU."""
        theirs = self.newest(index) if index else None
        ours = self.pick(gfx, "")
        uv = self.judged_gfx(gfx, theirs) if theirs else "no: a CPU torch, the name is not known to it"
        row = next((r for r in self.rows() if ours and (r.version, r.build) == (ours.torch, ours.build)), None)
        own = f"by {env(ours)}" if ours and ours.env else self.judged_gfx(gfx, row) if row else "no build has code"
        name = f"{theirs.version}+{theirs.build}" if theirs else "cpu"
        return name, uv, named(ours), own, self.explained(uv, theirs, ours)

    def pick(self, gpu: str, driver: str) -> Recommended | None:
        """recommend's first choice for a described machine; None if no build supports its GPU."""
        described = Description(gpus=(gpu,), driver=driver, python_version=PYTHON)
        answer = recommend(Situation(imagined_machine(described, {}, self.matrix), self.matrix))
        return next((choice for choice in answer.choices if choice.level != "cpu"), None)

    def rows(self) -> list[TorchBuild]:
        return [row for row in self.matrix.torch.builds(PLATFORM) if PYTHON in row.pythons]

    def newest(self, index: str) -> TorchBuild | None:
        """The newest torch of torch's own index of that name."""
        own = (row for row in self.rows() if row.build == index and row.origin == "download.pytorch.org")
        return next(own, None)

    def carried(self, version: str, build: str) -> tuple[list[str], str] | None:
        """The architectures of a build, and how they are known."""
        row = next((r for r in self.rows() if (r.version, r.build) == (version, build)), None)
        read = self.measured.get(version)
        if row and read and read["cuda"] == row.cuda:
            return [f"sm_{sm}" for sm in read["full_coverage_sass"]], "measured"
        if row and row.archs:
            return list(row.archs), row.basis
        # A release whose list nobody has read yet: use the newest list of that index.
        kin = next((r for r in self.rows() if r.build == build and r.archs), None)
        return (list(kin.archs or ()), f"list of {kin.version}+{build}") if kin else None

    def judged_cuda(self, gpu: str, driver: str, version: str, build: str) -> str:
        """Whether a CUDA build runs there, by the rules above."""
        (major, minor), first, last = GPUS[gpu]
        if figures(driver) < figures(first):
            return f"driver older than the GPU ({first})"
        if last is not None and figures(driver)[0] > last:
            return f"driver has dropped the GPU (last: {last})"
        if figures(driver) < figures(FLOORS[build[2:4]]):
            return f"driver below {FLOORS[build[2:4]]}"
        found = self.carried(version, build)
        if found is None:
            return "not known: list not read"
        fitting = [sm for sm in found[0] if int(sm[3:-1]) == major and int(sm[-1]) <= minor]
        return f"runs ({fitting[-1]}, {found[1]})" if fitting else f"no code for sm_{major}{minor} ({found[1]})"

    def judged_gfx(self, gfx: str, row: TorchBuild) -> str:
        """Whether a ROCm build runs there: in torch's list and in its BLAS."""
        if gfx not in (row.archs or ()):
            return f"no code for {gfx} ({row.basis})"
        blas = self.matrix.amd.blas(row.rocm or "")
        if not row.extra and blas and blas.rocblas is not None and gfx not in blas.rocblas:
            return f"no code for {gfx} in its rocBLAS ({blas.rocblas_basis})"
        return f"runs ({gfx}, {row.basis})"

    def nothing(self, gpu: str, driver: str) -> str:
        """The verdict on "none", if that is the right answer."""
        _, first, last = GPUS[gpu]
        if figures(driver) < figures(first):
            return "right: another driver first"
        if last is not None and figures(driver)[0] > last:
            return f"right: driver {last} first"
        oldest = min((row.cuda for row in self.rows() if row.cuda), key=figures)
        return f"right: CUDA {oldest} is the oldest for Python {PYTHON}"

    def explained(self, uv: str, theirs: TorchBuild | None, ours: Recommended | None) -> str:
        """Why the picks differ."""
        if ours is None:
            return "uv's pick cannot run" if theirs else "neither finds one"
        if theirs and (theirs.version, theirs.build) == (ours.torch, ours.build):
            return "same"
        if not theirs:
            return "uv looks for the name in a list of its own"
        if not uv.startswith("runs"):
            return "uv looks at the driver alone" if theirs.cuda else "uv does not look into the BLAS"
        if figures(ours.torch or "") > figures(theirs.version):
            return f"both run; {ours.torch} is newer, and not in that index"
        if theirs.rocm:
            return "both run; the newer ROCm of the same torch"
        return "both run; an older torch, whose list is known"


def named(choice: Recommended | None) -> str:
    return f"{choice.torch}+{choice.build}" if choice else "none"


def env(choice: Recommended) -> str:
    return " ".join(f"{name}={value}" for name, value in choice.env.items())


def tables(recording: dict[str, Any], scan: dict[str, Any]) -> dict[str, list[tuple[str, ...]]]:
    """Rows by heading: (machine, uv's pick, its verdict, ours, its verdict, the difference)."""
    comparison = Comparison(load_matrix(()), scan["_torch_arch_by_version"])
    drivers = sorted(recording["driver"], key=lambda row: figures(row["driver"]), reverse=True)
    found: dict[str, list[tuple[str, ...]]] = {
        gpu: [(row["driver"], *comparison.of_driver(gpu, row["driver"], row["first"])) for row in drivers]
        for gpu in GPUS
    }
    found["AMD"] = [(row["gfx"], *comparison.of_gfx(row["gfx"], row["first"])) for row in recording["gfx"]]
    return found


def main() -> None:
    recording, scan = (json.loads(Path(name).read_text()) for name in sys.argv[1:3])
    for heading, rows in tables(recording, scan).items():
        served = [row for row in rows if row[4].startswith(("runs", "by "))]
        theirs = [row for row in rows if row[2].startswith("runs")]
        print(f"\n## {heading}\n")
        print(f"{len(rows)} machines: uv's pick runs on {len(theirs)}, recommend's on {len(served)}.\n")
        first = "gfx" if heading == "AMD" else "driver"
        print(f"| {first} | uv's torch | does it run? | recommend | does it run? | difference |")
        print("|---|---|---|---|---|---|")
        for row in rows:
            print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
