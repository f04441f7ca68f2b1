"""For the drivers and gfx names that uv was asked about: never a build that the driver or the GPU cannot run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpudoctor.intake.described import imagined
from gpudoctor.intake.description import Description
from gpudoctor.matrix.load import load_matrix
from gpudoctor.matrix.versions import figures
from gpudoctor.recommend import Recommendation, recommend
from gpudoctor.situation import Situation

SHARED = Path(__file__).parents[2] / "shared"
RECORDED = SHARED / "wheels" / "uv_backend.json"
if not RECORDED.is_file():
    pytest.skip("the recorded answers of uv are not here", allow_module_level=True)

UV: dict[str, Any] = json.loads(RECORDED.read_text())
MEASURED: dict[str, Any] = json.loads((SHARED / "wheels" / "scan_results.json").read_text())["_torch_arch_by_version"]
MATRIX = load_matrix(())
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
FACTS = yaml.load((SHARED / "facts" / "torch_builds.yaml").read_text(), LOADER)["builds"]
BLAS = yaml.load((SHARED / "facts" / "rocm_blas.yaml").read_text(), LOADER)["rocm_blas"]
FLOORS = {"11": "450.80.02", "12": "525.60.13", "13": "580"}
# Capability, first driver, last branch; from NVIDIA's release notes.
GPUS = {
    "GTX 1080 Ti": ((6, 1), "378.13", 580),
    "RTX 3090": ((8, 6), "455.23.04", 10_000),
    "RTX 5090": ((12, 0), "570.86.16", 10_000),
}


def answer(gpu: str, driver: str = "", python: str = "3.12") -> Recommendation:
    described = Description(gpus=(gpu,), driver=driver, python_version=python)
    return recommend(Situation(imagined(described, {}, MATRIX), MATRIX))


def fact(version: str | None, build: str | None, origin: str) -> dict[str, Any]:
    key = (version, build, origin, "linux-x86_64")
    rows = [r for r in FACTS if (r["version"], r["build"], r["origin"], r["platform"]) == key]
    assert rows, f"{key} is no build that is known"
    row: dict[str, Any] = rows[0]
    return row


def test_all_drivers_and_names_are_recorded() -> None:
    assert (len(UV["driver"]), len(UV["gfx"])) == (29, 26)


@pytest.mark.parametrize("python", ["3.10", "3.12", "3.14"])
@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("driver", [row["driver"] for row in UV["driver"]])
def test_no_build_that_driver_or_gpu_cannot_run(gpu: str, driver: str, python: str) -> None:
    (major, minor), first, last = GPUS[gpu]
    served = [choice for choice in answer(gpu, driver, python).choices if choice.level != "cpu"]
    if figures(driver) < figures(first) or figures(driver)[0] > last:
        assert served == []
    for choice in served:
        row = fact(choice.torch, choice.build, choice.origin)
        assert python in row["pythons"]
        assert figures(driver) >= figures(FLOORS[row["cuda"].partition(".")[0]])
        read = MEASURED.get(row["version"])
        archs = row["archs"]
        if read and read["cuda"] == row["cuda"]:
            archs = [f"sm_{sm}" for sm in read["full_coverage_sass"]]
        assert any(int(sm[3:-1]) == major and int(sm[-1]) <= minor for sm in archs)


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


@pytest.mark.parametrize("gfx", [row["gfx"] for row in UV["gfx"]])
def test_no_rocm_build_without_code_or_blas_for_the_gpu(gfx: str) -> None:
    found = answer(gfx)
    native = [choice for choice in found.choices if choice.level == "native"]
    for choice in native:
        if choice.origin == "amd":  # its device code comes as distributions of their own
            assert f"torch[device-{gfx}]" in choice.commands["pip"][-1]
            continue
        row = fact(choice.torch, choice.build, choice.origin)
        assert gfx in row["archs"]
        blas = next((r for r in BLAS if str(r["rocm"]) == row["rocm"]), None)
        assert blas is None or blas["rocblas"] is None or gfx in blas["rocblas"]
    assert found.exit_code == (1 if gfx == "gfx1250" else 0)
    levels = [choice.level for choice in found.choices]
    assert levels == sorted(levels, key=["native", "override", "cpu"].index)
