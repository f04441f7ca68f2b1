"""The matrix against the collected facts and the recorded kernel logs, where they are there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from gpudoctor.matrix.load import load_matrix

SHARED = Path(__file__).parents[2] / "shared"
FACTS, LOGS = SHARED / "facts", SHARED / "fixtures" / "kernel-log"
MATRIX = load_matrix()

pytestmark = pytest.mark.skipif(not FACTS.is_dir(), reason="the collected facts are not beside this checkout")


def facts(name: str) -> dict[str, Any]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found: dict[str, Any] = yaml.load((FACTS / f"{name}.yaml").read_text(), Loader=loader)
    return found


def test_every_torch_build_is_as_collected() -> None:
    rows = {(row.version, row.build, row.origin, row.platform): row for row in MATRIX.tables.torch_builds}
    collected = facts("torch_builds")["builds"]
    assert len(collected) == 285
    for fact in collected:
        row = rows[fact["version"], fact["build"], fact["origin"].removesuffix("-pattern"), fact["platform"]]
        assert fact["archs"] is None or row.archs == tuple(fact["archs"]), fact  # not known then, it may be now
        assert (row.ptx or ()) == tuple(fact["ptx"] or ()), fact
        assert row.pythons == tuple(fact["pythons"]), fact
        assert (row.cuda, row.rocm) == (fact["cuda"], fact["rocm"]), fact


def test_every_pci_id_is_as_collected() -> None:
    for fact in facts("nvidia_gpus")["gpus"]:
        gpu = MATRIX.gpus.gpu_by_pci(fact["pci"])
        if fact["cc"] and "bridge" not in fact["name"]:
            assert gpu is not None and gpu.arch == "sm_" + fact["cc"].replace(".", ""), fact
    for fact in facts("amd_gpus")["devices"]:
        gpu = MATRIX.gpus.gpu_by_pci(fact["pci"])
        assert gpu is not None and gpu.arch == fact["gfx"], fact


def test_gaps_of_rocblas_follow_from_the_rows() -> None:
    for fact in facts("rocm_blas")["torch_gaps"]:
        blas = MATRIX.amd.blas(fact["rocm"])
        assert blas is not None
        if blas.rocblas is None or fact["basis"] == "unknown":
            continue
        build = next(
            row for row in MATRIX.tables.torch_builds if (row.version, row.build) == (fact["torch"], fact["build"])
        )
        missing = [gfx for gfx in build.archs or () if gfx not in blas.rocblas]
        assert missing == fact["missing_in_rocblas"], fact


def test_companions_are_as_collected() -> None:
    for fact in facts("torch_companions")["companions"]:
        for package in ("torchvision", "torchaudio"):
            assert MATRIX.torch.companion_fits(package, fact[package], fact["torch"]) is True, fact  # type: ignore[arg-type]


# What each recording shows, from its index: the kinds of lines in it that mean something.
RECORDINGS = {
    "Bumblebee-Project__Bumblebee/issue-554": {"nvidia-off-bus"},
    "Frogging-Family__nvidia-all/issue-394": {"nvidia-api-mismatch"},
    "NVIDIA__NVSentinel/issue-155": {"nvidia-off-bus", "nvidia-probe-failed"},
    "NVIDIA__gpu-operator/issue-610": set(),
    "NVIDIA__open-gpu-kernel-modules/issue-1151": {"nvidia-adapter-failed", "nvidia-init-mapping"},
    "NVIDIA__open-gpu-kernel-modules/issue-230": {
        *("nvidia-open-datacenter-only", "nvidia-init-failed", "nvidia-adapter-failed"),
    },
    "NVIDIA__open-gpu-kernel-modules/issue-789": {
        *("nvidia-init-gsp-firmware", "nvidia-init-gsp", "nvidia-adapter-failed"),
    },
    "NixOS__nixpkgs/issue-176915": {"amdgpu-reset"},
    "ROCm__amdgpu/issue-211": set(),
    "ROCm__legacy-rocm-build/issue-1214": {"kfd-rejects-atomics"},
    "ROCm__legacy-rocm-build/issue-2196": {"amdgpu-page-fault", "amdgpu-fault-status"},
    "ROCm__legacy-rocm-build/issue-2232": {"kfd-asic-unsupported"},
    "ROCm__legacy-rocm-build/issue-3265": {
        *("amdgpu-mes-hung", "amdgpu-reset", "amdgpu-page-fault", "amdgpu-fault-status"),
    },
    "ROCm__legacy-rocm-build/issue-4021": {"amdgpu-ras-uncorrectable"},
    "ROCm__legacy-rocm-build/issue-5745": {"amdgpu-page-fault"},
    "ROCm__legacy-rocm-build/issue-6127": {"amdgpu-ring-timeout", "amdgpu-page-fault", "amdgpu-reset"},
    "ROCm__legacy-rocm-build/issue-6273": {"amdgpu-ring-timeout", "amdgpu-reset", "amdgpu-mes-hung"},
    "ROCm__legacy-rocm-build/issue-827": {"kfd-rejects-atomics"},
    "acidanthera__bugtracker/issue-2237": {"module-key-rejected"},
    "beclab__Olares/issue-3963": {"nvidia-other-driver", "nvidia-nothing-found"},
    "leptonai__gpud/issue-500": {"nvidia-xid"},
    "leptonai__gpud/components/memory": {"nvidia-xid"},
    "leptonai__gpud/components/os": set(),
    "leptonai__gpud/pkg/pstore": {"module-unsigned-loaded"},
    "madMAx43v3r__chia-gigahorse/issue-301": {"nvidia-xid"},
    "mattshma__bigdata/issue-133": {"nvidia-probe-not-called"},
    "microsoft__WSL/issue-9099": {"wsl-dxg-ioctl"},
    "pop-os__cosmic-epoch/issue-3764": {"amdgpu-ring-timeout", "amdgpu-reset"},
    "pop-os__pop/issue-3811": {"nvidia-dkms-failed"},
}


@pytest.mark.parametrize("recording", sorted(RECORDINGS))
def test_recorded_logs(recording: str) -> None:
    folder = LOGS / recording
    if not folder.is_dir():
        pytest.skip("this recording is not there")
    patterns = [(row.id, re.compile(row.pattern)) for row in MATRIX.tables.log_patterns]
    seen = set()
    for file in folder.rglob("*"):
        if file.is_file():
            for line in file.read_text(errors="replace").splitlines():
                seen.update([id for id, pattern in patterns if pattern.search(line)][:1])
    assert seen == RECORDINGS[recording]


def test_every_recorded_xid_has_a_meaning() -> None:
    known = {row.xid for row in MATRIX.tables.xids}
    seen = set()
    for file in LOGS.rglob("*"):
        if file.is_file():
            seen.update(int(xid) for xid in re.findall(r"Xid \([^)]*\): (\d+)", file.read_text(errors="replace")))
    assert seen and seen <= known
