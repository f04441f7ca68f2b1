"""AMD machines: the RX 6000 story, several GPUs, overrides, AMD's own wheels, the kernel driver."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gpudoctor.cli import gpudoctor
from tests.support.environments import shared_library
from tests.support.hosts import Host, first_fix, slugs

WHEEL = "2.9.1+rocm6.4"
MULTI_ARCH = "https://repo.amd.com/rocm/whl-multi-arch"

Setup = Callable[[Host], Host]

ATOMICS = "kfd kfd: amdgpu: skipped device 1002:{}, PCI rejects atomics {}"


def rx_6700_xt(host: Host, torch: str = WHEEL, **options: Any) -> Host:
    return host.ubuntu().amd_gpu("73df", 100301).torch(torch, **options)


def rx_7900_xtx(host: Host, torch: str = WHEEL, **options: Any) -> Host:
    return host.ubuntu().amd_gpu("744c", 110000, revision="0xc8").torch(torch, **options)


def ryzen_graphics(host: Host, bdf: str = "0000:0f:00.0", *, node: int = 2, render: int = 129) -> Host:
    return host.amd_gpu("164e", 100306, bdf, node=node, render=render, simds=2)


def told(report: dict[str, Any]) -> list[tuple[str, str]]:
    return [(f["slug"], f["severity"]) for f in report["findings"]]


# --- the RX 6000 story ------------------------------------------------------------------------------------

RX_6000 = {
    "gfx1031": ("73df", 100301),  # RX 6700 XT
    "gfx1032": ("73ff", 100302),  # RX 6600 XT
    "gfx1034": ("743f", 100304),  # RX 6500 XT
    "gfx1035": ("1681", 100305),  # Radeon 680M
    "gfx1036": ("164e", 100306),  # Ryzen 7000
}


@pytest.mark.parametrize("torch", ["1.13.1+rocm5.2", WHEEL, "2.14.0+rocm7.2"])
def test_gfx1030_is_native_though_amd_lists_workstation_gpus_only(torch: str, tmp_path: Path) -> None:
    report = Host(tmp_path).ubuntu().amd_gpu("73bf", 100300).torch(torch, python="3.10").check()
    assert (report["verdict"], slugs(report, "error"), slugs(report, "warning")) == ("ok", [], [])
    if torch != "1.13.1+rocm5.2":  # of ROCm 5 no list is known
        note = next(f for f in report["findings"] if f["slug"] == "amd-card-not-listed")
        assert "RX 6800 XT" in note["message"] and "no override is needed" in note["message"]


@pytest.mark.parametrize("device", ["73a3", "73a1"])  # Radeon PRO W6800, Radeon Pro V620
def test_the_gfx1030_gpus_that_amd_lists(device: str, tmp_path: Path) -> None:
    report = Host(tmp_path).ubuntu().amd_gpu(device, 100300, revision="0x00").torch(WHEEL).check()
    assert told(report) == []


@pytest.mark.parametrize("gfx", RX_6000)
def test_the_others_are_not_native_and_have_three_ways_out(gfx: str, tmp_path: Path) -> None:
    report = Host(tmp_path).ubuntu().amd_gpu(*RX_6000[gfx]).torch(WHEEL).check()
    finding = report["findings"][0]
    assert (finding["slug"], finding["severity"]) == ("torch-rocm-no-arch-for-gpu", "error")
    assert gfx in finding["message"] and "AMD does not list this GPU" in finding["message"]
    native, override, cpu = (fix["steps"] for fix in finding["fixes"])
    assert native[0]["argv"] == [
        *("/opt/venv/bin/python", "-m", "pip", "install", "--index-url", MULTI_ARCH),
        f"torch[device-{gfx}]==2.11.0+rocm7.14.0",
    ]
    assert [(step["name"], step["value"]) for step in override] == [("HSA_OVERRIDE_GFX_VERSION", "10.3.0")]
    assert "AMD does not support" in override[0]["why"]
    assert cpu[0]["argv"][-3:] == ["--index-url", "https://download.pytorch.org/whl/cpu", "torch==2.9.1+cpu"]


def test_the_companions_come_along_with_their_device_code(tmp_path: Path) -> None:
    pair = {"torchvision": "0.24.1+rocm6.4", "torchaudio": "2.9.1+rocm6.4"}
    report = rx_6700_xt(Host(tmp_path), companions=pair).check()
    assert report["findings"][0]["fixes"][0]["steps"][0]["argv"][-3:] == [
        "torch[device-gfx1031]==2.11.0+rocm7.14.0",
        "torchvision[device-gfx1031]==0.26.0+rocm7.14.0",
        "torchaudio==2.11.0+rocm7.14.0",
    ]


def test_on_rocm_7_the_override_goes_back_to_rocm_6_where_it_is_not_known_to_fault(tmp_path: Path) -> None:
    report = rx_6700_xt(Host(tmp_path), "2.14.0+rocm7.2").check()
    override = report["findings"][0]["fixes"][1]["steps"]
    assert override[0]["argv"][-1] == "torch==2.9.1+rocm6.4"
    assert (override[1]["name"], override[1]["value"]) == ("HSA_OVERRIDE_GFX_VERSION", "10.3.0")


@pytest.mark.parametrize("torch", [WHEEL, "2.14.0+rocm7.2"])
def test_under_the_override_the_only_way_out_is_native_code_without_it(torch: str, tmp_path: Path) -> None:
    report = rx_6700_xt(Host(tmp_path), torch).environ(HSA_OVERRIDE_GFX_VERSION="10.3.0").check()
    finding = report["findings"][0]
    assert (report["verdict"], finding["slug"], finding["severity"]) == (
        "warning",
        "torch-rocm-no-arch-for-gpu",
        "warning",
    )
    (native,) = finding["fixes"]
    assert "device-gfx1031" in native["steps"][0]["argv"][-1]
    assert native["steps"][1]["text"].startswith("unset HSA_OVERRIDE_GFX_VERSION")


def test_the_native_build_is_silent(tmp_path: Path) -> None:
    host = rx_6700_xt(Host(tmp_path), "2.13.0+rocm7.14.0", hip="7.14.60850")
    report = host.package("amd-torch-device-gfx1031", "2.13.0+rocm7.14.0").check()
    assert (report["verdict"], slugs(report, "error")) == ("ok", [])


def test_an_override_left_over_from_before_keeps_the_native_code_from_the_gpu(tmp_path: Path) -> None:
    host = rx_6700_xt(Host(tmp_path), "2.13.0+rocm7.14.0", hip="7.14.60850")
    host.package("amd-torch-device-gfx1031", "2.13.0+rocm7.14.0").environ(HSA_OVERRIDE_GFX_VERSION="10.3.0")
    report = host.check()
    assert told(report)[0] == ("hsa-override-wrong", "error")
    assert slugs(report, "error") == ["hsa-override-wrong"]
    assert first_fix(report).startswith(" unset HSA_OVERRIDE_GFX_VERSION")


def test_device_code_for_another_gpu_is_completed_not_replaced(tmp_path: Path) -> None:
    host = rx_6700_xt(Host(tmp_path), "2.13.0+rocm7.14.0", hip="7.14.60850")
    report = host.package("amd-torch-device-gfx1030", "2.13.0+rocm7.14.0").check()
    assert told(report)[0] == ("torch-rocm-no-arch-for-gpu", "error")
    argv = report["findings"][0]["fixes"][0]["steps"][0]["argv"]
    assert argv[-1] == "torch[device-gfx1031]==2.13.0+rocm7.14.0"
    assert "--force-reinstall" not in argv


# --- machines that work -------------------------------------------------------------------------------------


def _device_and_family(host: Host) -> Host:
    host.ubuntu().amd_gpu("744c", 110000).torch("2.12.0+rocm7.14.0", hip="7.14.60850")
    host.package("amd-torch-device-gfx1100", "2.12.0+rocm7.14.0")
    return host.package("amd-torch-device-gfx11", "2.12.0+rocm7.14.0")


def _family_wheel(host: Host) -> Host:
    rx_6700_xt(host, "2.10.0a0+rocm7.10.0a20251101", hip="7.10.12345")
    return host.package("rocm-sdk-libraries-gfx103X-dgpu", "7.10.0a20251101")


def _partitions(host: Host) -> Host:
    host.ubuntu().amd_gpu("74a1", 90402, "0000:05:00.0", node=2, render=128)
    for n in range(1, 8):
        host._kfd_node(
            2 + n,
            f"cpu_cores_count 0\nsimd_count 152\ngfx_target_version 90402\nvendor_id 4098\ndevice_id 29857\n"
            f"location_id {n << 28 | 5 << 8}\ndomain 0\ndrm_render_minor {128 + n}\n",
        )
        host.node(f"/dev/dri/renderD{128 + n}", mode="0660", gid=992)
    return host.torch(WHEEL)


def _four_numa_nodes(host: Host) -> Host:
    for n in range(4):
        host._kfd_node(n, "cpu_cores_count 16\nsimd_count 0\n")
    return host.ubuntu().amd_gpu("740f", 90010, node=4).torch(WHEEL)


def _left_out_by_kfd(host: Host) -> Host:
    """An RX 580 for the screen beside an RX 7900 XTX; ROCm does not see it, for want of PCIe atomics."""
    rx_7900_xtx(host).amd_gpu("67df", 80003, "0000:0a:00.0", render=129, kfd=False, revision="0xe7")
    return host.file("/var/log/dmesg", f"[    4.1] {ATOMICS.format('67df', '730<0')}\n")


HEALTHY: dict[str, Setup] = {
    "Ryzen graphics, under the GPU's own override": lambda h: ryzen_graphics(rx_7900_xtx(h)).environ(
        HSA_OVERRIDE_GFX_VERSION="11.0.0"
    ),
    "Ryzen graphics first, hidden": lambda h: ryzen_graphics(
        h.ubuntu().amd_gpu("744c", 110000, node=2, render=129).torch(WHEEL), "0000:01:00.0", node=1, render=128
    ).environ(ROCR_VISIBLE_DEVICES="1"),
    "780M beside an RX 9070 XT": lambda h: (
        h.ubuntu(kernel="6.14.0-24-generic")
        .amd_gpu("7550", 120001)
        .amd_gpu("15bf", 110003, "0000:c9:00.0", node=2, render=129, simds=12)
        .torch("2.14.0+rocm7.2")
    ),
    "device code and the family's": _device_and_family,
    "a wheel of the GPU's family": _family_wheel,
    "AMD's own wheel for ROCm 6.4.1": lambda h: rx_7900_xtx(
        h,
        "2.6.0+rocm6.4.1.lw.git1ded221d",
        hip="6.4.43483",
        companions={"torchvision": "0.21.0+rocm6.4.1.git4040d51f"},
    ),
    "a source build": lambda h: rx_6700_xt(h, "2.9.0a0+gitabcdef1", hip="6.4.43483"),
    "eight partitions of an MI300X": _partitions,
    "two MI300X in a virtual machine of Hyper-V, a PCI domain each": lambda h: (
        h.ubuntu(kernel="6.8.0-1040-azure")
        .amd_gpu("74b5", 90402, "0002:00:00.0", node=1, render=128)
        .amd_gpu("74b5", 90402, "0003:00:00.0", node=2, render=129)
        .torch(WHEEL)
    ),
    "four NUMA nodes": _four_numa_nodes,
    "a gap in the KFD nodes": lambda h: h.ubuntu().amd_gpu("744c", 110000, node=5).torch(WHEEL),
    "an old NVIDIA display GPU with nouveau": lambda h: rx_7900_xtx(
        h.nvidia_gpu("128b", "0000:0a:00.0", driver="nouveau").module("nouveau")
    ),
    "a Polaris display GPU that ROCm does not see": _left_out_by_kfd,
    "and a variable that counts without it": lambda h: _left_out_by_kfd(h).environ(HIP_VISIBLE_DEVICES="0"),
    "a variable of OpenCL": lambda h: rx_7900_xtx(h).environ(GPU_DEVICE_ORDINAL="3"),
    "firmware that the GPU does without": lambda h: rx_7900_xtx(h).file(
        "/var/log/dmesg",
        "[    3.3] amdgpu 0000:03:00.0: Direct firmware load for amdgpu/vega20_ta.bin failed with error -2\n",
    ),
    "nodes open to all": lambda h: rx_7900_xtx(h).node("/dev/kfd").node("/dev/dri/renderD128"),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_a_working_amd_machine_is_silent(name: str, tmp_path: Path) -> None:
    report = HEALTHY[name](Host(tmp_path)).check()
    assert [found for found in told(report) if found[1] != "note"] == []
    assert [q["why"] for q in report["not_judged"] if q["matters"]] == []
    assert (report["verdict"], report["exit_code"]) == ("ok", 0)


# --- machines that do not ---------------------------------------------------------------------------------------


def _unlike(host: Host, first: tuple[str, int], second: tuple[str, int]) -> Host:
    host.ubuntu().amd_gpu(*first).amd_gpu(*second, "0000:09:00.0", node=2, render=129)
    return host.torch(WHEEL)


NAVI_31, NAVI_22, POLARIS, VEGA_20 = ("744c", 110000), ("73df", 100301), ("67df", 80003), ("66a1", 90006)


def _dkms_that_does_not_build(host: Host) -> Host:
    host.ubuntu(kernel="6.14.0-24-generic").amd_gpu("744c", 110000, driver=None, kfd=False).torch(WHEEL)
    tree = "/var/lib/dkms/amdgpu/6.12.12-2147987.24.04"
    return host.file(f"{tree}/6.8.0-60-generic/x86_64/module/amdgpu.ko")


def _old_dkms(host: Host) -> Host:
    return rx_7900_xtx(host, "2.14.0+rocm7.14").file("/sys/module/amdgpu/version", "6.8.5\n")


def _cuda_beside_a_gt_710(host: Host) -> Host:
    host.ubuntu().nvidia_gpu("128b", "0000:0a:00.0", driver="nouveau").module("nouveau")
    return host.amd_gpu("744c", 110000).torch("2.9.1", cuda="12.8")


def _without_atomics(host: Host, device: str, gfx: int, versions: str) -> Host:
    host.ubuntu().amd_gpu(device, gfx, kfd=False).node("/dev/kfd", mode="0660", gid=992).torch(WHEEL)
    host._kfd_node(0, "cpu_cores_count 32\nsimd_count 0\n")
    return host.file("/var/log/dmesg", f"[    4.1] {ATOMICS.format(device, versions)}\n")


def _not_started(host: Host, line: str) -> Host:
    host.ubuntu(kernel="6.14.0-24-generic").pci("0000:03:00.0", "1002", "7550", revision="0xc0").module("amdgpu")
    fatal = "amdgpu 0000:03:00.0: amdgpu: Fatal error during GPU init"
    return host.file("/var/log/dmesg", f"[    3.3] {line}\n[    3.4] {fatal}\n").torch(WHEEL)


def _wsl(host: Host, torch: str) -> Host:
    kernel = "6.6.87.2-microsoft-standard-WSL2"
    host.ubuntu(kernel=kernel).file("/proc/version", f"Linux version {kernel} (root@x) #1 SMP\n").node("/dev/dxg")
    host.file("/usr/lib/wsl/lib/libdxcore.so").file("/proc/sys/fs/binfmt_misc/WSLInterop", "enabled\n")
    return host.torch(torch, libraries={"libhsa-runtime64.so": shared_library()})


FAULTY: dict[str, tuple[str, str, str, Setup]] = {
    # name: slug and severity of the first finding, text that its best way out holds, the machine
    "RX 6700 XT beside Ryzen graphics": (
        *("torch-rocm-no-arch-for-gpu", "error", "torch[device-gfx1031]"),
        lambda h: ryzen_graphics(rx_6700_xt(h)),
    ),
    "RX 6700 XT first, RX 7900 second": (
        *("torch-rocm-no-arch-for-gpu", "error", "torch[device-gfx1031,device-gfx1100]"),
        lambda h: _unlike(h, NAVI_22, NAVI_31),
    ),
    "RX 7900 first, RX 6700 XT second": (
        *("amd-unsupported-second-gpu", "warning", "HIP_VISIBLE_DEVICES 0"),
        lambda h: _unlike(h, NAVI_31, NAVI_22),
    ),
    "RX 580 first, RX 7900 second": (
        *("torch-rocm-no-arch-for-gpu", "error", "HIP_VISIBLE_DEVICES 1"),
        lambda h: _unlike(h, POLARIS, NAVI_31),
    ),
    "MI50 second, without BLAS kernels": (
        *("amd-unsupported-second-gpu", "warning", "HIP_VISIBLE_DEVICES 0"),
        lambda h: _unlike(h, NAVI_31, VEGA_20),
    ),
    "a Strix Halo that works, an RX 6700 XT that does not": (
        *("amd-unsupported-second-gpu", "warning", "HIP_VISIBLE_DEVICES 0"),
        lambda h: (
            h.ubuntu(kernel="6.18.6-generic")
            .amd_gpu("1586", 110501)
            .amd_gpu("73df", 100301, "0000:09:00.0", node=2, render=129)
            .torch("2.11.0+rocm7.2")
        ),
    ),
    "780M first, without BLAS kernels, RX 9070 XT second": (
        *("amd-igpu-interferes", "error", "HIP_VISIBLE_DEVICES 1"),
        lambda h: (
            h.ubuntu(kernel="6.14.0-24-generic")
            .amd_gpu("15bf", 110003, "0000:01:00.0", simds=12)
            .amd_gpu("7550", 120001, "0000:09:00.0", node=2, render=129)
            .torch("2.14.0+rocm7.2")
        ),
    ),
    "an override for one of two unlike GPUs, set for both": (
        *("hsa-override-wrong", "error", "torch[device-gfx1031,device-gfx1100]"),
        lambda h: _unlike(h, NAVI_22, NAVI_31).environ(HSA_OVERRIDE_GFX_VERSION="10.3.0"),
    ),
    "an override that lends a GPU the BLAS kernels of another": (
        *("torch-rocm-no-arch-for-gpu", "warning", "torch==2.14.0+rocm7.14"),
        lambda h: (
            h.ubuntu(kernel="6.14.0-24-generic")
            .amd_gpu("15bf", 110003, simds=12)
            .torch("2.14.0+rocm7.2")
            .environ(HSA_OVERRIDE_GFX_VERSION="11.0.0")
        ),
    ),
    "an override across generations, where the GPU's own code lacks BLAS kernels": (
        *("hsa-override-wrong", "error", "torch==2.9.1+rocm6.3"),
        lambda h: h.ubuntu().amd_gpu("66af", 90006).torch(WHEEL).environ(HSA_OVERRIDE_GFX_VERSION="10.3.0"),
    ),
    "an override that the build has no code for": (
        *("hsa-override-wrong", "error", "unset HSA_OVERRIDE_GFX_VERSION"),
        lambda h: rx_7900_xtx(h).environ(HSA_OVERRIDE_GFX_VERSION="11.0.3"),
    ),
    "an override that is not needed": (
        *("hsa-override-wrong", "warning", "unset HSA_OVERRIDE_GFX_VERSION"),
        lambda h: rx_7900_xtx(h).environ(HSA_OVERRIDE_GFX_VERSION="11.0.1"),
    ),
    "an override with two figures": (
        *("hsa-override-wrong", "error", "unset HSA_OVERRIDE_GFX_VERSION"),
        lambda h: rx_7900_xtx(h).environ(HSA_OVERRIDE_GFX_VERSION="10.3"),
    ),
    "an override for the KFD node of the processor": (
        *("torch-rocm-no-arch-for-gpu", "error", "torch[device-gfx1031]"),
        lambda h: rx_6700_xt(h).environ(HSA_OVERRIDE_GFX_VERSION_0="10.3.0"),
    ),
    "a wheel of another family": (
        *("torch-rocm-no-arch-for-gpu", "error", "torch[device-gfx1031]"),
        lambda h: rx_6700_xt(h, "2.10.0a0+rocm7.10.0a20251101", hip="7.10.12345").package(
            "rocm-sdk-libraries-gfx110X-dgpu", "7.10.0a20251101"
        ),
    ),
    "RX 9060 XT on ROCm 6.2.4": (
        *("rocblas-no-arch", "error", "torch==2.7.1+rocm6.3"),
        lambda h: h.ubuntu(kernel="6.14.0-24-generic").amd_gpu("7590", 120000).torch("2.7.1+rocm6.2.4"),
    ),
    "a dkms that does not build on this kernel": (
        *("amd-dkms-kernel-mismatch", "error", "amdgpu-dkms"),
        _dkms_that_does_not_build,
    ),
    "a kernel driver too old for the wheel": ("rocm-version-mismatch", "error", "torch==2.9.1+rocm6.4", _old_dkms),
    "a wheel too old for the kernel driver": (
        *("rocm-version-mismatch", "error", "torch==2.5.1+rocm6.2"),
        lambda h: rx_7900_xtx(h, "2.5.1+rocm6.1").file("/sys/module/amdgpu/version", "6.12.12\n"),
    ),
    "a CUDA build, beside an NVIDIA GPU that no torch serves": (
        *("cuda-torch-on-amd", "error", "torch==2.9.1+rocm6.4"),
        _cuda_beside_a_gt_710,
    ),
    "an RX 7900 XTX in a slot without atomics, with old firmware": (
        *("amd-pcie-atomics", "error", "install -y linux-firmware"),
        lambda h: _without_atomics(h, "744c", 110000, "300<509"),
    ),
    "an RX 580 in a slot without atomics, which it always needs": (
        *("amd-pcie-atomics", "error", "no released torch has code for gfx803"),
        lambda h: _without_atomics(h, "67df", 80003, "730<0"),
    ),
    "a number that counts a GPU which ROCm does not see": (
        *("cuda-visible-devices", "error", "unset HIP_VISIBLE_DEVICES"),
        lambda h: _left_out_by_kfd(h).environ(HIP_VISIBLE_DEVICES="1"),
    ),
    "firmware older than the GPU": (
        *("no-driver", "error", "install -y linux-firmware"),
        lambda h: _not_started(
            h, "amdgpu 0000:03:00.0: Direct firmware load for amdgpu/psp_14_0_3_sos.bin failed with error -2"
        ),
    ),
    "a GPU that the loaded driver could not start": (
        *("no-driver", "error", "dmesg | grep -i -e amdgpu"),
        lambda h: _not_started(h, "amdgpu 0000:03:00.0: amdgpu: early_init of IP block <gmc_v12_0> failed -19"),
    ),
    "WSL, with a wheel whose runtime does not know it": (
        *("rocm-wsl-unsupported", "error", "torch/lib/libhsa-runtime64.so*"),
        lambda h: _wsl(h, "2.5.1+rocm6.2"),
    ),
    "page faults of a Strix Halo": (
        *("amd-firmware-regression", "warning", "linux-generic-hwe-24.04"),
        lambda h: (
            h.ubuntu(kernel="6.17.0-14-generic")
            .amd_gpu("1586", 110501)
            .torch("2.14.0+rocm7.2")
            .file(
                "/var/log/dmesg", "[  100.0] amdgpu 0000:c5:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:169)\n"
            )
        ),
    ),
}


@pytest.mark.parametrize("name", FAULTY)
def test_the_first_finding_is_the_cause(name: str, tmp_path: Path) -> None:
    slug, severity, fix, build = FAULTY[name]
    report = build(Host(tmp_path)).check()
    assert told(report)[0] == (slug, severity), told(report)
    assert len(slugs(report, "error")) == (severity == "error"), told(report)
    assert fix in first_fix(report)
    assert report["exit_code"] == (severity == "error")


def test_no_way_out_installs_what_is_installed(tmp_path: Path) -> None:
    builders = [build for *_, build in FAULTY.values()]
    for n, build in enumerate(builders):
        report = build(Host(tmp_path / str(n))).check()
        had = f"torch=={report['machine']['environment']['value']['frameworks']['torch']['value']['version']}"
        for finding in report["findings"]:
            assert had not in [
                word for fix in finding["fixes"] for step in fix["steps"] for word in step.get("argv", ())
            ]


def test_a_driver_of_another_age_asks_for_a_wheel_of_its_own(tmp_path: Path) -> None:
    report = _old_dkms(Host(tmp_path)).check()
    wheel, driver = report["findings"][0]["fixes"]
    assert "amdgpu" in str(driver["steps"])
    assert wheel["steps"][0]["argv"][-1] == "torch==2.9.1+rocm6.4"  # the last one within reach of ROCm 6.2's driver


@pytest.mark.parametrize(
    ("driver", "torch", "told_as"),
    [
        ("6.7.0", "2.10.0+rocm7.1", ["note"]),  # the driver of ROCm 6.1; AMD names 6.4 and later
        ("6.7.0", "2.14.0+rocm7.2", ["error"]),
        ("6.7.0", "2.9.1+rocm6.4", []),
        ("6.14.14", "2.14.0+rocm7.2", []),
        ("6.16.13", "2.14.1+rocm7.14", []),
    ],
)
def test_a_driver_older_than_all_that_amd_names_is_told(
    tmp_path: Path, driver: str, torch: str, told_as: list[str]
) -> None:
    host = Host(tmp_path).ubuntu("22.04").amd_gpu("74a1", 90402, memory=192 << 30)
    report = host.torch(torch).file("/sys/module/amdgpu/version", f"{driver}\n").check()
    assert [severity for slug, severity in told(report) if slug == "rocm-version-mismatch"] == told_as


def test_recommend_prefers_a_rocm_that_amd_tests_with_the_driver() -> None:
    arguments = ["recommend", "--gpu", "MI300X", "--driver", "6.7.0", "--os", "ubuntu-22.04", "--format", "json"]
    result = CliRunner().invoke(gpudoctor, [*arguments, "--python-version", "3.12", "--level", "static"])
    best = json.loads(result.stdout)["choices"][0]
    assert (best["torch"], best["build"]) == ("2.9.1", "rocm6.4")


def test_each_known_issue_is_told_once(tmp_path: Path) -> None:
    host = Host(tmp_path).ubuntu(kernel="6.18.6-generic").amd_gpu("1586", 110501).torch("2.14.0+rocm7.2")
    host.file(
        "/var/lib/dpkg/status", "Package: linux-firmware\nStatus: install ok installed\nVersion: 20251125-0\n\n"
    )
    assert told(host.check()) == [("amd-firmware-regression", "warning")]


def test_a_python_without_native_wheels_is_told_which_one_has_them(tmp_path: Path) -> None:
    report = Host(tmp_path).ubuntu("22.04").amd_gpu("73df", 100301).torch(WHEEL, python="3.10").check()
    native, override, _ = report["findings"][0]["fixes"]
    assert "Python 3.11" in native["steps"][0]["text"]
    assert f'--index-url {MULTI_ARCH} "torch[device-gfx1031]==2.11.0+rocm7.14.0"' in native["steps"][0]["text"]
    assert override["steps"][0]["name"] == "HSA_OVERRIDE_GFX_VERSION"


def test_a_cpu_build_on_a_strix_halo_is_a_note_that_names_the_other_build(tmp_path: Path) -> None:
    report = Host(tmp_path).ubuntu(kernel="6.18.6-generic").amd_gpu("1586", 110501).torch("2.10.0+cpu").check()
    assert told(report) == [("torch-cpu-only", "note")]
    assert "torch==2.11.0+rocm7.2" in first_fix(report)  # ROCm before 7.2 miscounts its registers


def test_inside_wsl_no_file_names_the_gpu(tmp_path: Path) -> None:
    report = _wsl(Host(tmp_path), "2.14.0+rocm7.2").environ(HSA_ENABLE_DXG_DETECTION="1").check()
    assert (report["verdict"], slugs(report, "error")) == ("unknown", [])


def test_the_runtime_that_amds_guide_deletes_is_no_damage(tmp_path: Path) -> None:
    host = _wsl(Host(tmp_path), "2.5.1+rocm6.2")
    assert host.site is not None
    (host.site / "torch/lib/libhsa-runtime64.so").unlink()
    assert slugs(host.check(), "error") == []


@pytest.mark.parametrize(("build", "expected"), [("rocm6.4", []), ("cu128", [("cuda-torch-on-amd", "error")])])
def test_a_recording_with_nothing_of_torch_but_its_record(
    build: str, expected: list[tuple[str, str]], tmp_path: Path
) -> None:
    host = Host(tmp_path).ubuntu().amd_gpu("744c", 110000, revision="0xc8").package("torch", f"2.9.1+{build}")
    record = f"/opt/venv/lib/python3.12/site-packages/torch-2.9.1+{build}.dist-info/RECORD"
    host.file(record, "torch/__init__.py,sha256=A,100\ntorch/version.py,sha256=A,100\n")
    assert told(host.check()) == expected


def test_a_render_node_that_is_gone_from_dev(tmp_path: Path) -> None:
    host = rx_7900_xtx(Host(tmp_path)).remove("/dev/dri/renderD128").node("/dev/dri/renderD128", "ENOENT")
    report = host.file("/dev/dri/card0").check()
    assert told(report) == [("amd-kfd-missing", "error")]
    assert "/dev/dri/renderD128 is missing" in report["findings"][0]["message"]
    assert "--subsystem-match=drm" in first_fix(report)


# --- a GPU that hung -----------------------------------------------------------------------------------------

HUNG = (
    "amdgpu 0000:0a:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=3, emitted seq=5",
    "amdgpu 0000:0a:00.0: amdgpu: GPU reset begin!",
    "amdgpu 0000:0a:00.0: amdgpu: MODE1 reset",
    "amdgpu 0000:0a:00.0: amdgpu: GPU reset succeeded, trying to resume",
)
FAILED = (*HUNG, "amdgpu 0000:0a:00.0: amdgpu: GPU reset end with ret = -62")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (FAILED, [("gpu-reset-needed", "warning")]),
        ((*HUNG, "amdgpu 0000:0a:00.0: amdgpu: GPU reset(1) failed"), [("gpu-reset-needed", "warning")]),
        ((*HUNG, "amdgpu 0000:0a:00.0: amdgpu: GPU reset(1) succeeded!"), [("amd-gpu-hang", "note")]),
        ((*FAILED, *HUNG, "amdgpu 0000:0a:00.0: amdgpu: GPU reset(2) succeeded!"), [("amd-gpu-hang", "note")]),
    ],
)
def test_one_of_two_gpus_hung_and_its_last_reset_counts(
    lines: tuple[str, ...], expected: list[tuple[str, str]], tmp_path: Path
) -> None:
    host = rx_7900_xtx(Host(tmp_path)).amd_gpu("744c", 110000, "0000:0a:00.0", node=2, render=129, revision="0xc8")
    host.file("/var/log/dmesg", "".join(f"[  {n + 100}.123456] {line}\n" for n, line in enumerate(lines)))
    report = host.check()
    assert told(report) == expected
    assert report["findings"][0]["device"]["bdf"] == "0000:0a:00.0"
    assert ("Reboot" in first_fix(report)) == (expected[0][0] == "gpu-reset-needed")


@pytest.mark.parametrize("content", ["", "nan\n", "cpu_cores_count 0\nsimd_"], ids=["empty", "garbage", "cut"])
def test_a_node_of_which_nothing_can_be_read_is_no_old_kernel(tmp_path: Path, content: str) -> None:
    host = Host(tmp_path).ubuntu(kernel="6.14.0-27-generic").amd_gpu("7550", 120001, revision="0xc0")
    report = host.file("/sys/class/kfd/kfd/topology/nodes/1/properties", content).torch("2.10.0+rocm7.1").check()
    assert [slug for slug, severity in told(report) if severity == "error"] == []
