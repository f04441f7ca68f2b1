"""Real wheels, read inside their zip, carry what was measured with NVIDIA's and LLVM's own tools.

Wheels are not fetched: those in the folder that GPUDOCTOR_TEST_WHEELS names are read, the others skipped.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from gpudoctor.cli import gpudoctor
from gpudoctor.host import LiveHost
from gpudoctor.scan.target import scan

MEASURED = Path(__file__).parents[2] / "shared" / "wheels" / "scan_results.json"
WHEELS = Path(os.environ.get("GPUDOCTOR_TEST_WHEELS") or "/nonexistent")

if not MEASURED.is_file():
    pytest.skip("the measured wheels are not here", allow_module_level=True)
TRUTH: dict[str, dict[str, Any]] = json.loads(MEASURED.read_text())
NAMES = sorted(name for name in TRUTH if name.endswith(".whl") and (WHEELS / name).is_file())
if not NAMES:
    pytest.skip("no measured wheel in GPUDOCTOR_TEST_WHEELS", allow_module_level=True)


@pytest.mark.parametrize("wheel", NAMES)
def test_a_wheel_carries_what_was_measured(wheel: str) -> None:
    scanned = scan([str(WHEELS / wheel)], LiveHost(), None)[0]
    found = {library.path: library.code for library in scanned.libraries if library.kind == "library"}
    measured = {path: row for path, row in TRUTH[wheel].items() if path != "_meta"}
    assert set(found) == set(measured)
    for path, row in measured.items():
        code, where = found[path], f"{wheel}: {path}"
        assert code.reason is None, where
        assert [arch.removeprefix("sm_") for arch in code.sass] == row["sass"], where
        assert [arch.removeprefix("compute_") for arch in code.ptx] == row["ptx"], where
        assert sorted(code.gfx) == sorted(row["gfx"]), where
        assert code.containers == row["containers"], where


@pytest.mark.parametrize("wheel", [name for name in NAMES if name.startswith("torch-")])
def test_the_row_of_a_torch_wheel_says_what_was_measured(wheel: str) -> None:
    version = wheel.split("-")[1]
    measured = TRUTH["_torch_arch_by_version"][f"{version}-aarch64" if "aarch64" in wheel else version]
    result = CliRunner().invoke(gpudoctor, ["scan", "--matrix-row", str(WHEELS / wheel)], standalone_mode=False)
    rows = yaml.safe_load(result.stdout)
    row = rows["torch_builds"][0]["rows"][0]
    assert [arch.removeprefix("sm_") for arch in row["archs"]] == measured["full_coverage_sass"]
    assert {arch.removeprefix("sm_") for arch in row.get("partial", ())} == set(measured["partial_sass"])
    published = json.loads((MEASURED.parent / "torch_pypi_meta.json").read_text()).get(version)
    if published is None:
        return
    release = rows["torch_releases"]["rows"][0]
    requires = " ".join(published["linux_x86_64_cp311"]["requires_dist"])
    assert str(release["version"]) == version
    for field in ("cudnn", "nccl"):
        assert (f"nvidia-{field}-cu" in requires) == (field in release)
        assert str(release.get(field, "")) in requires
    assert str(release.get("triton", "")) in requires
