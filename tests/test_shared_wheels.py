"""Real wheels carry what was measured with NVIDIA's and LLVM's own tools.

Wheels are not fetched: those in the folder that GPUDOCTOR_TEST_WHEELS names are read, the others skipped.
"""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

from gpudoctor.codeobjects import Code
from gpudoctor.codeobjects.library import read_code
from gpudoctor.frameworks.torch.probes.code import read_torch_code
from gpudoctor.host import LiveHost
from gpudoctor.machine import PythonEnvironment

MEASURED = Path(__file__).parents[2] / "shared" / "wheels" / "scan_results.json"
WHEELS = Path(os.environ.get("GPUDOCTOR_TEST_WHEELS") or "/nonexistent")

if not MEASURED.is_file():
    pytest.skip("the measured wheels are not here", allow_module_level=True)
TRUTH: dict[str, dict[str, Any]] = json.loads(MEASURED.read_text())
NAMES = sorted(name for name in TRUTH if name.endswith(".whl") and (WHEELS / name).is_file())
if not NAMES:
    pytest.skip("no measured wheel in GPUDOCTOR_TEST_WHEELS", allow_module_level=True)


def libraries(wheel: str) -> dict[str, dict[str, Any]]:
    return {path: row for path, row in TRUTH[wheel].items() if path != "_meta"}


def scanned(wheel: str, path: str, folder: Path) -> Code:
    """Read one library of a wheel, which is unpacked for as long as that takes."""
    place = folder / "library"
    with zipfile.ZipFile(WHEELS / wheel) as archive, archive.open(path) as packed, place.open("wb") as unpacked:
        shutil.copyfileobj(packed, unpacked, 1 << 20)
    with place.open("rb") as handle:
        return read_code(handle)


@pytest.mark.parametrize("wheel", NAMES)
def test_every_library_carries_what_was_measured(wheel: str, tmp_path: Path) -> None:
    for path, row in libraries(wheel).items():
        code = scanned(wheel, path, tmp_path)
        where = f"{wheel}: {path}"
        assert code.reason is None, where
        assert [arch.removeprefix("sm_") for arch in code.sass] == row["sass"], where
        assert [arch.removeprefix("compute_") for arch in code.ptx] == row["ptx"], where
        assert sorted(code.gfx) == sorted(row["gfx"]), where
        assert code.containers == row["containers"], where
        linked = row.get("relocatable", {})
        expected = {f"sm_{arch}" for arch in linked.get("sass", ())}
        assert set(code.relocatable) == expected | {f"compute_{arch}" for arch in linked.get("ptx", ())}, where
        for arch, share in row.get("sass_coverage", {}).items():
            assert code.share[f"sm_{arch}"] == pytest.approx(share, abs=6e-4), where


@pytest.mark.parametrize("wheel", [name for name in NAMES if name.startswith("torch-")])
def test_the_torch_table_is_reproduced(wheel: str, tmp_path: Path) -> None:
    version = wheel.split("-")[1]
    key = f"{version}-aarch64" if "aarch64" in wheel else version
    row = TRUTH["_torch_arch_by_version"][key]
    with zipfile.ZipFile(WHEELS / wheel) as archive:
        archive.extractall(tmp_path, [path for path in libraries(wheel) if "libtorch_cuda" in path])
    found = read_torch_code(LiveHost(), PythonEnvironment(prefix=str(tmp_path)), str(tmp_path / "torch"))
    shutil.rmtree(tmp_path / "torch")
    assert found.value is not None, found.why
    assert [arch.removeprefix("sm_") for arch in found.value.sass] == row["full_coverage_sass"]
    assert {arch.removeprefix("sm_") for arch in found.value.partial} == set(row["partial_sass"])
    assert found.value.ptx == ()
