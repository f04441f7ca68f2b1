"""For many drivers and gfx targets: never a build that the driver or the GPU cannot run."""

from __future__ import annotations

import pytest

from gpudoctor.intake.described import imagined_machine
from gpudoctor.intake.description import Description
from gpudoctor.matrix.load import load_matrix
from gpudoctor.matrix.rows import TorchBuild
from gpudoctor.matrix.versions import figures
from gpudoctor.recommend import Recommendation, Recommended, recommend
from gpudoctor.situation import Situation

MATRIX = load_matrix(())
BUILDS = {(row.version, row.build, row.origin): row for row in MATRIX.torch.builds("linux-x86_64")}
FLOORS = {"11": "450.80.02", "12": "525.60.13", "13": "580"}
"""First driver of each CUDA generation."""
# Capability, first driver, last branch; from NVIDIA's release notes.
GPUS = {
    "GTX 1080 Ti": ((6, 1), "378.13", 580),
    "RTX 3090": ((8, 6), "455.23.04", 10_000),
    "RTX 5090": ((12, 0), "570.86.16", 10_000),
}
# One or more of each branch, also those that came before a build's floor and those that are yet to come.
DRIVERS = (
    "418.39 440.33 450.36.06 450.80.02 460.27.04 470.129.06 495.29.05 510.39.01 515.43.04 520.61.05 525.60.13 "
    "530.30.02 535.104.05 545.23.06 550.54.14 555.42.02 560.28.03 565.57.01 570.26 570.124.06 570.133.07 575.51.03 "
    "575.57.08 580.65.06 580.126.09 590.44.01 595.10 610.43 620.1"
)
GFX = (
    "gfx900 gfx906 gfx908 gfx90a gfx90c gfx942 gfx950 gfx1010 gfx1012 gfx1030 gfx1031 gfx1032 gfx1034 gfx1035 "
    "gfx1036 gfx1100 gfx1101 gfx1102 gfx1103 gfx1150 gfx1151 gfx1152 gfx1153 gfx1200 gfx1201 gfx1250"
)
# Of the builds on the package index: the targets of at least half of the kernels, as read from the libraries.
MEASURED = {
    ("1.13", "2.0"): "37 50 60 70 75 80 86",
    ("2.1", "2.6"): "50 60 70 75 80 86 90",
    ("2.7", "2.7"): "50 60 70 75 80 86 90",
    ("2.8", "2.10"): "70 75 80 86 90 100 120",
    ("2.11", "2.15"): "75 80 86 90 100 120",
}


def answer(gpu: str, driver: str = "", python: str = "3.12") -> Recommendation:
    described = Description(gpus=(gpu,), driver=driver, python_version=python)
    return recommend(Situation(imagined_machine(described, {}, MATRIX), MATRIX))


def row_of(choice: Recommended) -> TorchBuild:
    key = (choice.torch, choice.build, choice.origin)
    assert key in BUILDS, f"{key} is no build that is known"
    return BUILDS[key]


def archs_of(row: TorchBuild) -> tuple[str, ...]:
    if row.origin == "pypi":
        release = figures(row.version)[:2]
        for (first, last), targets in MEASURED.items():
            if figures(first) <= release <= figures(last):
                return tuple(f"sm_{target}" for target in targets.split())
    return row.archs or ()


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("driver", DRIVERS.split())
def test_no_build_that_driver_or_gpu_cannot_run(gpu: str, driver: str) -> None:
    (major, minor), first, last = GPUS[gpu]
    for python in ("3.10", "3.12", "3.14"):
        choices = [choice for choice in answer(gpu, driver, python).choices if choice.level != "cpu"]
        if figures(driver) < figures(first) or figures(driver)[0] > last:
            assert choices == []
        for row in map(row_of, choices):
            assert python in row.pythons
            assert row.cuda is not None and figures(driver) >= figures(FLOORS[row.cuda.partition(".")[0]])
            assert any(int(sm[3:-1]) == major and int(sm[-1]) <= minor for sm in archs_of(row)), (python, row)


@pytest.mark.parametrize(
    ("gpu", "driver", "build"),
    [
        ("GTX 1080 Ti", "580.126.09", "cu126"),
        ("GTX 1080 Ti", "525.60.13", "cu126"),
        ("GTX 1080 Ti", "470.129.06", "cu118"),
        ("RTX 3090", "580.126.09", "cu132"),
        ("RTX 3090", "550.54.14", "cu126"),
        ("RTX 3090", "460.27.04", "cu118"),
        ("RTX 5090", "570.133.07", "cu128"),
        ("RTX 5090", "580.126.09", "cu132"),
    ],
)
def test_the_first_choice(gpu: str, driver: str, build: str) -> None:
    assert answer(gpu, driver).choices[0].build == build


@pytest.mark.parametrize("gfx", GFX.split())
def test_no_rocm_build_without_code_or_blas_for_the_gpu(gfx: str) -> None:
    found = answer(gfx)
    for choice in (choice for choice in found.choices if choice.level == "native"):
        if choice.origin == "amd":  # its device code comes as distributions of their own
            assert f"torch[device-{gfx}]" in choice.commands["pip"][-1]
            continue
        row = row_of(choice)
        assert gfx in (row.archs or ())
        blas = MATRIX.amd.blas(row.rocm or "")
        assert blas is None or blas.rocblas is None or gfx in blas.rocblas
    assert found.exit_code == (1 if gfx == "gfx1250" else 0)
    levels = [choice.level for choice in found.choices]
    assert levels == sorted(levels, key=["native", "override", "cpu"].index)
