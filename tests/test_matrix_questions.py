"""What the matrix answers about drivers, targets, ROCm, torch builds and companions."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudoctor.machine import Torch
from gpudoctor.matrix.load import load_matrix
from gpudoctor.matrix.questions import Matrix
from gpudoctor.matrix.rows import WheelIndexOverride
from gpudoctor.matrix.versions import figures

MATRIX = load_matrix()
X86, ARM = "linux-x86_64", "linux-aarch64"


# --- cuDNN -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cudnn", "sm", "oldest"),
    [
        ("8.7.0.84", "sm_37", None),
        ("9.1.0.70", "sm_37", "sm_50"),
        ("9.10.2.21", "sm_70", None),
        ("9.11.0.98", "sm_70", "sm_75"),
        ("9.26.0.51", "sm_75", None),
        ("9.26.0.51", "sm_103", None),
        ("8.8.1.3", "sm_37", None),
        ("9.26.0.51", "", None),
    ],
)
def test_the_oldest_gpu_of_a_cudnn(cudnn, sm, oldest):
    """As read from the wheels; 8.8 was not read, and of an unknown GPU nothing is said."""
    assert MATRIX.nvidia.cudnn_lacks(cudnn, sm) == oldest


def test_the_cudnn_that_comes_with_a_build():
    pinned = {(b.version, b.build): MATRIX.torch.cudnn_of(b) for b in MATRIX.torch.builds(X86) if b.origin != "pypi"}
    assert pinned["2.7.1", "cu118"] == "9.1.0.70"
    assert pinned["2.9.1", "cu128"] == "9.10.2.21"
    assert pinned["2.14.1", "cu126"] == "9.10.2.21"  # it has kernels for Pascal and Volta
    assert pinned["2.14.1", "cu132"] is None  # not the CUDA of the package index's own build


# --- NVIDIA drivers --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("driver", "cuda", "verdict"),
    [
        ("570.133.07", "12.8", "serves"),
        ("570.133.07", "12.4", "serves"),
        ("570.133.07", "13.0", "too-old"),
        ("570.26", "12.8", "serves"),
        ("535.104.05", "12.8", "minor-version"),
        ("525.60.13", "12.9", "minor-version"),
        ("525.60.11", "12.0", "too-old"),
        ("470.239.06", "11.7", "minor-version"),
        ("470.239.06", "12.1", "too-old"),
        ("450.80.02", "11.8", "minor-version"),
        ("450.51.06", "11.1", "too-old"),
        ("580.65.06", "13.0", "serves"),
        ("580.65.06", "13.2", "minor-version"),
        ("595.71.05", "13.2", "serves"),
        ("610.43.02", "11.7", "serves"),
        ("440.33", "10.2", "serves"),
        ("418.39", "10.2", "too-old"),
        ("610.43.02", "13.9", "minor-version"),
        ("610.43.02", "14.0", "unknown"),
        ("", "12.8", "unknown"),
    ],
)
def test_does_this_driver_run_this_cuda(driver: str, cuda: str, verdict: str) -> None:
    assert MATRIX.nvidia.driver_for_cuda(driver, cuda) == verdict


@given(
    st.integers(390, 700), st.integers(390, 700), st.sampled_from(["11.6", "11.8", "12.1", "12.8", "13.0", "13.2"])
)
def test_a_newer_driver_never_runs_less(one: int, other: int, cuda: str) -> None:
    rank = {"too-old": 0, "minor-version": 1, "serves": 2}
    older, newer = sorted((one, other))
    assert (
        rank[MATRIX.nvidia.driver_for_cuda(f"{older}.0", cuda)]
        <= rank[MATRIX.nvidia.driver_for_cuda(f"{newer}.0", cuda)]
    )


@pytest.mark.parametrize(
    ("sm", "branch"),
    [
        ("sm_21", "390"),
        ("sm_35", "470"),
        ("sm_52", "580"),
        ("sm_61", "580"),
        ("sm_70", "580"),
        ("sm_75", None),
        ("sm_120", None),
    ],
)
def test_the_last_branch_of_old_gpus(sm: str, branch: str | None) -> None:
    assert MATRIX.nvidia.last_branch(sm) == branch


@pytest.mark.parametrize(
    ("sms", "at_least", "branch"),
    [
        (("sm_120",), None, "580"),
        (("sm_89",), "525.60.13", "580"),
        (("sm_61",), "580.65.06", "580"),
        (("sm_61",), "595.45.04", None),
        (("sm_61", "sm_89"), None, "580"),
        (("sm_89",), "590.44.01", "595"),
        (("sm_35",), None, "470"),
        (("sm_35",), "525.60.13", None),
        (("sm_35", "sm_120"), None, None),
        (("sm_35", "sm_86"), None, "470"),
        (("sm_35", "sm_89"), None, None),
        (("sm_21", "sm_75"), None, None),
        (("sm_21",), None, "390"),
        (("sm_89",), "999.1", None),
    ],
)
def test_which_branch_to_install(sms: tuple[str, ...], at_least: str | None, branch: str | None) -> None:
    found = MATRIX.nvidia.branch_to_install(sms, at_least)
    assert (found and found[0]) == branch


def test_the_smallest_release_of_a_branch_is_named_where_it_matters() -> None:
    assert MATRIX.nvidia.branch_to_install(("sm_61",), "580.65.06") == ("580", "580.65.06")
    assert MATRIX.nvidia.branch_to_install(("sm_61",), "570.26") == ("580", "580")


@given(
    st.lists(st.sampled_from(["sm_35", "sm_52", "sm_61", "sm_70", "sm_75", "sm_89", "sm_90", "sm_120"]), min_size=1),
    st.sampled_from([None, "450.80.02", "525.60.13", "570.26", "580.65.06", "590.44.01", "595.45.04", "610.43.02"]),
)
def test_no_driver_newer_than_a_gpus_last_branch_is_ever_advised(sms: list[str], at_least: str | None) -> None:
    found = MATRIX.nvidia.branch_to_install(tuple(sms), at_least)
    if found is None:
        return
    branch, minimum = found
    for sm in sms:
        last, first = MATRIX.nvidia.last_branch(sm), MATRIX.nvidia.first_driver(sm)
        assert last is None or int(branch) <= int(last)
        assert first is None or int(branch) >= figures(first)[0]
    assert figures(minimum)[0] == int(branch)
    assert at_least is None or int(branch) >= figures(at_least)[0]


@pytest.mark.parametrize(
    ("sm", "name", "flavour"),
    [
        ("sm_61", "NVIDIA GeForce GTX 1080", "refused"),
        ("sm_70", "Tesla V100-SXM2-16GB", "refused"),
        ("sm_75", "Tesla T4", "supported"),
        ("sm_90", "NVIDIA H100 80GB HBM3", "supported"),
        ("sm_90", "NVIDIA GH200 480GB", "required"),
        ("sm_120", "NVIDIA GeForce RTX 5090", "required"),
        ("sm_121", "NVIDIA GB10", "required"),
        ("sm_999", "", None),
    ],
)
def test_which_kernel_module_a_gpu_takes(sm: str, name: str, flavour: str | None) -> None:
    assert MATRIX.nvidia.module_flavour(sm, name) == flavour


def test_first_drivers() -> None:
    assert MATRIX.nvidia.first_driver("sm_120", "GB207") == "570.158.01"
    assert MATRIX.nvidia.first_driver("sm_120") == "570.86.16"
    assert MATRIX.nvidia.first_driver("sm_89", "AD102") == "520.56.06"
    assert MATRIX.nvidia.first_driver("sm_89", "AD106") == "525.47.11"
    assert MATRIX.nvidia.first_driver("sm_86", "GA107") == "455.23.04", (
        "no row: not before the first chip of its kind"
    )
    assert MATRIX.nvidia.first_driver("sm_75") == "410.48", "the driver of CUDA 10.0, the first for Turing"
    assert MATRIX.nvidia.first_driver("sm_61") is None


def test_drivers_that_break_on_a_kernel() -> None:
    assert MATRIX.nvidia.kernel_limits("470.239.06", "6.12.5-amd64")
    assert not MATRIX.nvidia.kernel_limits("470.239.06", "6.8.0-45-generic")
    assert MATRIX.nvidia.kernel_limits("580.119.02", "7.0.0-14-generic")
    assert not MATRIX.nvidia.kernel_limits("580.126.09", "7.0.0-14-generic")
    assert MATRIX.nvidia.kernel_limits("580.142", "7.1.0-1")
    assert not MATRIX.nvidia.kernel_limits("580.142", "7.0.12-1")


@pytest.mark.parametrize(
    ("breaks", "builds"),
    [
        ("550.163.01", "620.70.06"),
        ("580.173.02", "580.178.04"),
        ("595.71.05", "595.91.07"),
        ("610.43.02", "610.57.04"),
    ],
)
def test_linux_7_2_needs_a_driver_that_knows_it(breaks: str, builds: str) -> None:
    assert MATRIX.nvidia.kernel_limits(breaks, "7.2.8-200.fc44.x86_64")
    assert not MATRIX.nvidia.kernel_limits(breaks, "6.17.0-8-generic")
    assert not MATRIX.nvidia.kernel_limits(builds, "7.2.8-200.fc44.x86_64")


@pytest.mark.parametrize("branch", ["580", "595", "620"])
def test_the_newest_release_of_a_maintained_branch_builds_on_the_newest_kernels(branch: str) -> None:
    release = MATRIX.nvidia.release_of_branch(branch)
    assert release and not MATRIX.nvidia.kernel_limits(release, "7.2.8-200.fc44.x86_64")


# --- AMD -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "gfx"),
    [
        ("10.3.0", "gfx1030"),
        ("11.0.0", "gfx1100"),
        ("9.0.10", "gfx90a"),
        ("9.0.12", "gfx90c"),
        ("9.4.2", "gfx942"),
        ("11.5.1", "gfx1151"),
        ("", None),
        ("10.3", None),
        ("gfx1030", None),
        ("10.9.9", None),
        ("10.3.0 ", "gfx1030"),
        ("-1.0.0", None),
    ],
)
def test_what_an_override_names(value: str, gfx: str | None) -> None:
    assert MATRIX.amd.gfx_of_override(value) == gfx


@pytest.mark.parametrize(
    ("gfx", "value", "safety"),
    [
        ("gfx1031", "10.3.0", "safe-class"),
        ("gfx1032", "10.3.0", "safe-class"),
        ("gfx1034", "10.3.0", "safe-class"),
        ("gfx1033", "10.3.0", "risky"),
        ("gfx1030", None, "none"),
        ("gfx1010", "10.3.0", "unsafe"),
        ("gfx1101", "11.0.0", "safe-class"),
        ("gfx1151", None, "none"),
        ("gfx90a", None, "none"),
    ],
)
def test_override_policy(gfx: str, value: str | None, safety: str) -> None:
    override = MATRIX.amd.override(gfx)
    assert override is not None
    assert (override.value, override.safety) == (value, safety)


def test_gfx1030_is_official_for_two_workstation_gpus_only() -> None:
    target = MATRIX.gpus.target("gfx1030")
    assert target is not None
    assert "W6800" in target.official_products and "V620" in target.official_products
    assert MATRIX.gpus.target("gfx1031").official_from is None  # type: ignore[union-attr]


def test_blas_coverage() -> None:
    def lacks(rocm: str, gfx: str) -> bool:
        row = MATRIX.amd.blas(rocm)
        assert row is not None and row.rocblas is not None
        return gfx not in row.rocblas

    assert not lacks("6.3", "gfx906")
    assert lacks("6.4", "gfx906") and lacks("6.4", "gfx900")
    assert lacks("6.4.43482", "gfx906")
    assert lacks("7.2", "gfx1103") and not lacks("7.14", "gfx1103")
    assert lacks("6.2.4", "gfx1201")
    assert not lacks("7.14.0", "gfx1031")
    assert not lacks("7.0", "gfx942") and lacks("7.0", "gfx906")
    assert MATRIX.amd.blas("8.1") is None


def test_hipblaslt_is_asked_on_some_targets_only() -> None:
    assert MATRIX.amd.hipblaslt_asked("gfx942", "6.0")
    assert not MATRIX.amd.hipblaslt_asked("gfx1100", "6.2.4")
    assert MATRIX.amd.hipblaslt_asked("gfx1100", "6.3")
    assert not MATRIX.amd.hipblaslt_asked("gfx1030", "7.2")


@pytest.mark.parametrize(
    ("user_space", "driver", "fits"),
    [
        ("6.2.4", "6.2.4", True),
        ("6.2", "6.0", True),
        ("6.0", "5.4", False),
        ("5.7", "6.1", True),
        ("5.5", "6.2", False),
        ("6.4", "6.3", True),
        ("7.2", "6.4", True),
        ("7.2", "30.10", True),
        ("7.2", "6.1", False),
        ("7.14", "30.20.1", True),
        ("10.0", "6.3", False),
        ("6.4", "30.10.1", True),
        ("6.2", "30.10.1", True),
        ("6.3", "30.30.3", True),
        ("6.3", "7.2.1", True),
        ("6.1", "7.0.2", False),
        ("5.1.1", "30.20", False),
        ("6.3", "30.20", True),
        ("6.2", "30.20.1", None),
        ("6.1", "30.30", False),
        ("9.9", "6.4", None),
    ],
)
def test_user_space_and_kernel_driver_of_different_rocm(user_space: str, driver: str, fits: bool | None) -> None:
    assert MATRIX.amd.rocm_driver_fits(user_space, driver) is fits


def test_dkms_limits() -> None:
    assert MATRIX.amd.dkms_limits("6.12.12", "6.4.1", "6.14.0-24-generic")
    assert MATRIX.amd.dkms_limits("6.12.12", None, "6.17.0-6-generic")
    assert not MATRIX.amd.dkms_limits("6.16.6", "7.1.1", "6.17.0-6-generic")
    assert not MATRIX.amd.dkms_limits("6.12.12", "6.4.1", "6.8.0-60-generic")
    assert MATRIX.amd.dkms_limits("6.8.5", "6.2.0", "6.8.0-45-generic")
    assert not MATRIX.amd.dkms_limits("6.8.5", "6.2.0", "6.8.0-41-generic")
    assert not MATRIX.amd.dkms_limits(None, None, "7.0.0-1-generic")


# --- torch -----------------------------------------------------------------------------------------


def archs(
    version: str, origin: str = "unknown", platform: str = X86, build: str | None = None
) -> tuple[str, ...] | None:
    row = MATRIX.torch.build_of(Torch(version=version, build=build, origin=origin), platform)  # type: ignore[arg-type]
    return None if row is None else row.archs


def test_the_builds_of_the_six_scenarios() -> None:
    assert archs("2.6.0+cu124") == ("sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90")
    assert "sm_120" in (archs("2.9.1+cu128") or ())
    assert "sm_120" in (archs("2.13.0+cu130") or ())
    rocm = archs("2.9.1+rocm6.4") or ()
    assert "gfx1030" in rocm and "gfx1031" not in rocm


def test_a_build_is_known_by_its_origin() -> None:
    pypi = MATRIX.torch.build_of(Torch(version="2.9.1+cu128", build="cu128", origin="pypi"), X86)
    index = MATRIX.torch.build_of(Torch(version="2.9.1+cu128", build="cu128", origin="download.pytorch.org"), X86)
    assert pypi is not None and pypi.origin == "pypi"
    assert index is not None and index.origin == "download.pytorch.org"
    for origin in ("ngc", "conda-forge", "source", "distribution"):
        assert MATRIX.torch.build_of(Torch(version="2.9.1", build="cu128", origin=origin), X86) is None  # type: ignore[arg-type]


def test_platforms_differ() -> None:
    assert archs("2.9.1+cu128", platform=ARM) == ("sm_80", "sm_90", "sm_100", "sm_120")
    assert archs("2.6.0+cu124", platform=ARM) is None
    assert archs("2.10.0", "pypi", ARM, "cpu") == ()


def test_nightlies_match_their_pattern() -> None:
    row = MATRIX.torch.build_of(Torch(version="2.15.0.dev20260821+cu130", build="cu130", origin="nightly"), X86)
    assert row is not None and row.ptx == ("compute_120",)
    assert archs("2.9.0a0+145a3a7bda.nv25.10", "ngc") is None


def test_turing_has_no_linear_algebra_in_some_releases() -> None:
    for version in ("2.11.0", "2.12.0", "2.12.1", "2.13.0", "2.14.0", "2.14.1"):
        row = MATRIX.torch.build_of(Torch(version=f"{version}+cu130", build="cu130", origin="pypi"), X86)
        assert row is not None and row.linalg is not None
        assert row.linalg[0] == "sm_80" and "sm_75" in (row.archs or ()), version


def test_amds_own_index_carries_gfx1031() -> None:
    rows = [row for row in MATRIX.torch.builds(X86) if row.origin == "amd" and "gfx1031" in (row.archs or ())]
    assert {row.version for row in rows} >= {"2.12.0"}
    for row in rows:
        assert row.extra == "device-{gfx}"
        assert MATRIX.torch.index_url(row) == "https://repo.amd.com/rocm/whl-multi-arch"


def test_builds_come_newest_first_and_without_nightlies() -> None:
    rows = MATRIX.torch.builds()
    assert all(row.origin != "nightly" and "*" not in row.version for row in rows)
    versions = [figures(row.version) for row in rows]
    assert versions == sorted(versions, reverse=True)
    assert {row.platform for row in MATRIX.torch.builds(ARM)} == {ARM}
    assert MATRIX.torch.newest_torch() == rows[0].version


def test_index_urls_and_a_mirror() -> None:
    row = MATRIX.torch.build_of(Torch(version="2.9.1+rocm6.4", build="rocm6.4", origin="download.pytorch.org"), X86)
    pypi = MATRIX.torch.build_of(Torch(version="2.9.1+cu128", build="cu128", origin="pypi"), X86)
    assert row is not None and pypi is not None
    assert MATRIX.torch.index_url(row) == "https://download.pytorch.org/whl/rocm6.4"
    assert MATRIX.torch.index_url(pypi) == ""
    from msgspec.structs import replace

    mirror = Matrix(replace(MATRIX.tables, wheel_index=WheelIndexOverride(base="https://mirror.example/torch/")))
    assert mirror.torch.index_url(row) == "https://mirror.example/torch/rocm6.4"


@pytest.mark.parametrize(
    ("package", "version", "torch", "fits"),
    [
        ("torchvision", "0.24.1", "2.9.1", True),
        ("torchvision", "0.24.1+cu128", "2.9.1+cu128", True),
        ("torchvision", "0.21.0", "2.6.0", True),
        ("torchvision", "0.23.0", "2.6.0", False),
        ("torchvision", "0.24.0", "2.9.1", None),
        ("torchvision", "0.29.2", "2.15.0", True),
        ("torchvision", "0.29.2", "2.13.0", False),
        ("torchvision", "0.29.0", "2.14.0", True),
        ("torchvision", "0.28.0", "2.14.0", False),
        ("torchvision", "0.24.0a0+094e7af5", "2.9.0a0+nv25.10", None),
        ("torchvision", "0.26.0", "9.9.0", None),
        ("torchaudio", "2.11.0", "2.14.0", True),
        ("torchaudio", "2.11.0", "2.15.0", True),
        ("torchaudio", "2.11.0", "2.10.0", False),
        ("torchaudio", "2.9.1", "2.9.1", True),
        ("torchaudio", "2.8.0", "2.9.1", False),
        ("torchaudio", "2.0.2", "2.1.0", False),
    ],
)
def test_companions(package: str, version: str, torch: str, fits: bool | None) -> None:
    assert MATRIX.torch.companion_fits(package, version, torch) is fits  # type: ignore[arg-type]


def test_every_release_has_its_companions() -> None:
    for row in MATRIX.tables.torch_releases:
        companion = MATRIX.torch.companion(row.version + "+cu128")
        assert companion is not None and companion.torchvision and companion.torchaudio
        assert MATRIX.torch.release(row.version + "+cpu") == row


# --- the kernel log --------------------------------------------------------------------------------


def first_pattern(line: str) -> tuple[str, str | None] | None:
    for row in MATRIX.tables.log_patterns:
        found = re.search(row.pattern, line)
        if found:
            return row.id, found.groupdict().get("bdf")
    return None


@pytest.mark.parametrize(
    ("line", "id", "bdf"),
    [
        ("NVRM: Xid (PCI:0000:0a:00): 31, pid=13332, name=cuda_plot_k32_v, Ch 00000010", "nvidia-xid", "0000:0a:00"),
        ("[    3.8] NVRM: GPU at 0000:01:00.0 has fallen off the bus.", "nvidia-off-bus", "0000:01:00.0"),
        ("               NVRM: fallen off the bus and is not responding to commands.", "nvidia-off-bus", None),
        (
            "May 27 kernel: NVRM: GPU 0000:09:00.0: RmInitAdapter failed! (0x22:0x56:894)",
            "nvidia-init-mapping",
            "0000:09:00.0",
        ),
        ("NVRM: GPU 000f:01:00.0: RmInitAdapter failed! (0x62:0x1a:2631)", "nvidia-init-gsp", "000f:01:00.0"),
        ("NVRM: GPU 0000:04:00.0: RmInitAdapter failed! (0x63:0x0:1905)", "nvidia-init-failed", "0000:04:00.0"),
        (
            "[    9.298192] kfd kfd: amdgpu: skipped device 1002:699f, PCI rejects atomics 730<0",
            "kfd-rejects-atomics",
            None,
        ),
        ("kern  :err   : kfd kfd: skipped device 1002:67df, PCI rejects atomics", "kfd-rejects-atomics", None),
        (
            "[127033.2] amdgpu 0000:c5:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=1",
            "amdgpu-ring-timeout",
            "0000:c5:00.0",
        ),
        ("[  312.5] amdgpu 0000:28:00.0: ring sdma0 timeout, signaled seq=5", "amdgpu-sdma-timeout", "0000:28:00.0"),
        (
            "[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx_0.0.0 timeout, signaled seq=5",
            "amdgpu-ring-timeout",
            None,
        ),
        (
            "[ 8390.7] amdgpu 0000:68:00.0: {1}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!",
            "amdgpu-ras-uncorrectable",
            "0000:68:00.0",
        ),
        ("May 26 fedora kernel: amdgpu 0000:03:00.0: amdgpu: GPU reset begin!", "amdgpu-reset", "0000:03:00.0"),
        (
            "nvidia: module verification failed: signature and/or required key missing - tainting kernel",
            "module-unsigned-loaded",
            None,
        ),
    ],
)
def test_lines_of_real_logs(line: str, id: str, bdf: str | None) -> None:
    assert first_pattern(line) == (id, bdf)


@pytest.mark.parametrize(
    "line",
    [
        "[   32.842548] Lockdown: systemd-logind: hibernation is restricted; see man kernel_lockdown.7",
        "[127037.960564] amdgpu 0000:c5:00.0: amdgpu: ring gfx_0.0.0 uses VM inv eng 0 on hub 0",
        "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.158.01  Release Build",
        "nvidia: loading out-of-tree module taints kernel.",
        "NVRM: GPU 0000:01:00.0 is already bound to vfio-pci.",
        "amdgpu 0000:03:00.0: amdgpu: Trusted Memory Zone (TMZ) feature not supported",
        "amdgpu 0000:68:00.0: amdgpu: 0 correctable hardware errors detected in total in umc block",
        "sched: RT throttling activated",
    ],
)
def test_lines_of_working_machines_mean_nothing(line: str) -> None:
    assert first_pattern(line) is None


def test_patterns_keep_the_gpu_of_their_example() -> None:
    for row in MATRIX.tables.log_patterns:
        found = re.search(row.pattern, row.example)
        if (
            found
            and "bdf" in found.re.groupindex
            and re.search(r"\b[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}", row.example)
        ):
            assert found["bdf"], row.id


def test_no_pattern_takes_long_on_a_long_line() -> None:
    begun = time.process_time()
    for line in ("NVRM: " * 1000, "amdgpu " * 1000, "amdgpu: ring " * 600, "[" * 7000):
        first_pattern(line)
    assert time.process_time() - begun < 20


def test_issues_that_decide_by_facts_alone_are_exact() -> None:
    for issue in MATRIX.tables.known_issues:
        if issue.trigger == "facts":
            when = issue.when
            assert (
                when.packages or when.env or when.torch or when.rocm or when.kernel or when.firmware or when.driver
            ), issue.id
        assert issue.workaround.endswith("."), issue.id
