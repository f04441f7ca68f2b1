"""Recordings of real machines, each laid out as a root folder and judged by `gpudoctor check --root`.

Whatever a recording lacks is unknown (exit 3) and never a fault; the errors that remain are typed here from what
the recording shows. `python -m tests.test_shared_recordings` prints what is found in each.
"""

from __future__ import annotations

import csv
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.hosts import Host, slugs

FIXTURES = Path(__file__).parents[2] / "shared" / "fixtures"
pytestmark = pytest.mark.skipif(not FIXTURES.is_dir(), reason="the recordings are not beside this checkout")

COMMANDS = {
    "nvidia-smi": "nvidia-smi",
    "devicequery": "deviceQuery",
    "rocminfo": "rocminfo",
    "rocm-smi": "rocm-smi",
    "lspci": "lspci",
}
TREES = ("driver-root", "container", "pci-sysfs", "os-facts")
CUDA, ROCM = "2.9.1+cu128", "2.9.1+rocm6.4"


@cache
def index() -> dict[str, str]:
    """Kind of each recording, by its path."""
    if not FIXTURES.is_dir():
        return {}
    with (FIXTURES / "INDEX.tsv").open(newline="") as table:
        rows = csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE)
        return {row["local path"].rstrip("/"): row["kind"] for row in rows}


# --- laying a root out of a recording ---------------------------------------------------------------------


def _has_a_place(kind: str, source: Path) -> bool:
    if kind in COMMANDS or kind == "kernel-log":
        return source.is_file()
    return kind == "kfd" or (kind in TREES and source.is_dir()) or (kind == "amd-sysfs" and bool(_slots(source)))


def _slots(source: Path) -> dict[str, Path]:
    """PCI address and folder of every GPU of a recording."""
    texts = {uevent.parent: uevent.read_text(errors="replace") for uevent in sorted(source.rglob("uevent"))}
    found = {folder: re.search(r"PCI_SLOT_NAME=(\S+)", text) for folder, text in texts.items()}
    return {slot[1]: folder for folder, slot in found.items() if slot}


def lay_out(path: str, host: Host) -> None:
    """As the collection's README says."""
    kind, source = index()[path], FIXTURES / path
    host.json.clear()
    host.json.update(environ={}, nodes={}, commands={})
    if kind in COMMANDS:
        host.command(COMMANDS[kind], source.read_text(errors="replace"))
    elif kind == "kernel-log":
        host.file("/var/log/dmesg", source.read_bytes())
    elif kind == "kfd":
        _kfd(source, host)
    elif kind == "amd-sysfs":
        _sysfs_gpus(source, host)
    else:
        shutil.copytree(source, host.root, symlinks=True, dirs_exist_ok=True)


def _kfd(source: Path, host: Host) -> None:
    if source.is_file():
        host.file("/sys/class/kfd/kfd/topology/nodes/5/properties", source.read_bytes())
    else:
        shutil.copytree(source / "topology", host.path("/sys/class/kfd/kfd/topology"))


def _sysfs_gpus(source: Path, host: Host) -> None:
    for number, (slot, folder) in enumerate(_slots(source).items()):
        shutil.copytree(folder, host.path(f"/sys/bus/pci/devices/{slot}"), dirs_exist_ok=True)
        host.link(f"/sys/class/drm/GPU{number}/device", f"../../../bus/pci/devices/{slot}")


# --- every recording, without and with a torch --------------------------------------------------------------

MI50 = ("rocblas-no-arch",)  # torch lists gfx900 and gfx906, and its rocBLAS has no kernels for them
NO_ROCM_CODE = ("torch-rocm-no-arch-for-gpu",)
PASCAL = ("torch-dropped-old-gpu",)
SNAPSHOTS = "amd-sysfs/ilya-zlobintsev__LACT/tests/snapshots/amd"
RX6700XT = "rocm-smi/influxdata__telegraf/plugins/inputs/amd_rocm_smi/testdata/rx6700xt"
TELEGRAF = "nvidia-smi/influxdata__telegraf/plugins/inputs/nvidia_smi/testdata"
K8S = "nvidia-smi/NVIDIA__k8s-test-infra/tests/e2e/go/assertions/nvidiasmi/testdata"
GLS = "nvidia-smi/thamada__gls"

# Typed from the recordings: what is wrong with the machine, and with torch CUDA or ROCM on it.
ERRORS: dict[str, tuple[str, ...]] = {
    f"{SNAPSHOTS}/strixpoint/card1": NO_ROCM_CODE,
    f"{SNAPSHOTS}/vangogh/card0": NO_ROCM_CODE,
    f"{SNAPSHOTS}/rx5700xt": NO_ROCM_CODE,
    f"{SNAPSHOTS}/rx6600xt": NO_ROCM_CODE,
    f"{SNAPSHOTS}/vega56": MI50,
    f"{SNAPSHOTS}/hd7870": ("no-driver",),  # driven by radeon: ROCm needs amdgpu
    f"{SNAPSHOTS}/r9-280": NO_ROCM_CODE,
    "rocm-smi/sebhildebrandt__systeminformation/issue-960/rocm-smi-780M.json.txt": NO_ROCM_CODE,
    "rocm-smi/ROCm__rocm-systems/issue-2987/amd-smi-static.MI350X.txt": NO_ROCM_CODE,
    **{f"{RX6700XT}_rocm{release}.json": NO_ROCM_CODE for release in ("430", "571", "602", "612")},
    "rocm-smi/mahendrapaipuri__ceems/ceems.rocm-smi.json": MI50,
    "kfd/ilya-zlobintsev__LACT/tests/snapshots/amd/strixpoint/kfd": NO_ROCM_CODE,
    "kfd/ilya-zlobintsev__LACT/tests/snapshots/amd/vangogh/kfd": NO_ROCM_CODE,
    "rocminfo/Delaunay__regression/rocminfo.txt": MI50,
    "rocminfo/bankh__GPU_Compute/rocmInfo.txt": MI50,
    "kernel-log/ROCm__legacy-rocm-build/issue-1214/dmesg-grep-kfd.txt": NO_ROCM_CODE,  # RX 480: gfx803
    "kernel-log/ROCm__legacy-rocm-build/issue-827/dmesg.txt": NO_ROCM_CODE,
    "kernel-log/NVIDIA__open-gpu-kernel-modules/issue-230/dmesg.txt": ("no-driver",),  # which GPU, no line tells
    "kernel-log/NVIDIA__open-gpu-kernel-modules/issue-789/dmesg.txt": ("driver-init-failed-hw",),
    "kernel-log/NVIDIA__open-gpu-kernel-modules/issue-1151/journal.txt": ("driver-init-failed-bios",),
    f"{TELEGRAF}/quadro-p2000-v12.xml": PASCAL,
    f"{TELEGRAF}/quadro-p400.xml": PASCAL,
    f"{GLS}/GTX1050Ti_smi.out.txt": PASCAL,
    f"{GLS}/GTX1050Ti_smi.out_a.txt": PASCAL,
    f"{TELEGRAF}/gtx-1660-ti.xml": ("driver-too-old",),  # 418.43
    "nvidia-smi/NVIDIA__nvidia-container-toolkit/issue-271/nvidia-smi-a-wsl.txt": ("driver-too-old",),  # 510.06
    "nvidia-smi/utkuozdemir__nvidia_gpu_exporter/internal/exporter/testdata/query.txt": ("driver-too-old",),  # 466.63
    f"{GLS}/A100SXMx4_smi.out_a.txt": ("gpu-ecc",),  # a pending row remapping
    f"{K8S}/qx-gb200-ecc-injected.xml": ("gpu-ecc",),
    f"{K8S}/qx-gb200-lost.xml": ("gpu-off-bus", "gpu-ecc"),
    "nvidia-smi/microsoft__WSL/issue-9134/nvidia-smi-wsl-fail.txt": ("no-driver",),
    "nvidia-smi/canonical__nvidia-graphics-drivers/issue-61/secureboot-bundle.txt": ("no-driver",),
}
OF_THE_MACHINE = ("gpu-ecc", "gpu-off-bus", "driver-init-failed-hw", "driver-init-failed-bios")
"""Errors that need no torch."""


def torch_for(path: str) -> str:
    if path.startswith("kernel-log"):
        return ROCM if "amdgpu" in (FIXTURES / path).read_text(errors="replace") else CUDA
    return ROCM if path.startswith(("amd-sysfs", "kfd", "rocm")) and "/nvidia/" not in path else CUDA


def recordings() -> list[str]:
    """Those that are, or go into, a part of a root."""
    return [path for path, kind in index().items() if _has_a_place(kind, FIXTURES / path)]


@pytest.mark.parametrize("path", recordings())
def test_what_a_recording_lacks_is_no_fault(path: str, tmp_path: Path) -> None:
    expected = ERRORS.get(path, ())
    host = Host(tmp_path)
    lay_out(path, host)
    alone = host.check()
    told = (*OF_THE_MACHINE, "no-driver") if path.startswith("kernel-log") else OF_THE_MACHINE
    assert tuple(slugs(alone, "error")) == tuple(slug for slug in expected if slug in told)
    assert alone["exit_code"] in (0, 1, 3)
    together = host.torch(torch_for(path)).check()
    assert tuple(slugs(together, "error")) == expected
    if not together["machine"].get("gpus") and not expected:
        assert together["verdict"] == "unknown"


def test_the_recordings_are_all_there() -> None:
    assert len(recordings()) >= 200
    assert not ERRORS.keys() - set(recordings())


# --- kernel logs on the machine that wrote them -------------------------------------------------------------


def nvidia(device: str, bdf: str, driver: str = "580.95.05", *, bound: bool = True, **options: Any) -> Any:
    def build(host: Host) -> Host:
        host.ubuntu().nvidia_gpu(device, bdf, driver="nvidia" if bound else None)
        return host.nvidia_driver(driver, **options).torch("2.9.1+cu128")

    return build


def unloaded(device: str, bdf: str) -> Callable[[Host], Host]:
    """The module is installed and not loaded."""

    def build(host: Host) -> Host:
        host.ubuntu().nvidia_gpu(device, bdf, driver=None).nvidia_libraries("580.95.05")
        host.file("/lib/modules/6.8.0-60-generic/updates/dkms/nvidia.ko", b"version=580.95.05\0")
        return host.torch("2.9.1+cu128")

    return build


def amd(device: str, version: int, bdf: str, build: str = ROCM) -> Callable[[Host], Host]:
    return lambda host: host.ubuntu().amd_gpu(device, version, bdf).torch(build)


def without_kfd(device: str, version: int) -> Callable[[Host], Host]:
    def build(host: Host) -> Host:
        host.ubuntu().amd_gpu(device, version, kfd=False).node("/dev/kfd", mode="0660", gid=992)
        host.file("/sys/class/kfd/kfd/topology/nodes/0/properties", "cpu_cores_count 32\nsimd_count 0\n")
        return host.torch(ROCM)

    return build


def wsl(host: Host) -> Host:
    host.ubuntu(kernel="5.15.167.4-microsoft-standard-WSL2").node("/dev/dxg")
    host.file("/etc/ld.so.conf.d/ld.wsl.conf", "/usr/lib/wsl/lib\n").nvidia_libraries("566.36", "/usr/lib/wsl/lib")
    return host.torch(CUDA)


LOGS: dict[str, tuple[Callable[[Host], Host], str]] = {
    # a line of the past about a GPU that works now
    "Bumblebee-Project__Bumblebee/issue-554/dmesg.txt": (nvidia("2684", "0000:01:00.0"), "note gpu-off-bus"),
    "leptonai__gpud/issue-500/xid-119.txt": (nvidia("2330", "0000:9b:00.0"), "note gpu-reset-needed"),
    "leptonai__gpud/components/memory/testdata/dmesg.decode.iso.log": (nvidia("2330", "0000:38:00.0"), ""),
    "madMAx43v3r__chia-gigahorse/issue-301/dmesg.txt": (nvidia("2204", "0000:0a:00.0"), "note gpu-reset-needed"),
    "ROCm__legacy-rocm-build/issue-2196/dmesg.txt": (amd("744c", 110000, "0000:83:00.0"), ""),
    "ROCm__legacy-rocm-build/issue-3265/journal.txt": (
        amd("744c", 110000, "0000:03:00.0"),
        "warning amd-gpu-hang",  # MES does not answer, and no reset succeeds in this part of the log
    ),
    "ROCm__legacy-rocm-build/issue-6127/dmesg.txt": (amd("7550", 120001, "0000:03:00.0"), "note amd-gpu-hang"),
    "microsoft__WSL/issue-9099/dmesg-dxg.txt": (wsl, ""),
    # what keeps the GPU from working
    "NVIDIA__NVSentinel/issue-155/dmesg.txt": (
        nvidia("26b5", "0000:b3:00.0", "570.158.01", bound=False),
        "error gpu-off-bus",
    ),
    "Frogging-Family__nvidia-all/issue-394/dmesg-api-mismatch.txt": (
        nvidia("2684", "0000:01:00.0", "595.80", libraries="595.84"),
        "error driver-lib-mismatch",
    ),
    "NVIDIA__open-gpu-kernel-modules/issue-1151/journal.txt": (
        nvidia("2c02", "0000:09:00.0"),
        "error driver-init-failed-bios",
    ),
    "NVIDIA__open-gpu-kernel-modules/issue-789/dmesg.txt": (
        nvidia("2204", "0000:98:00.0", "550.144.03"),
        "error driver-init-failed-hw",
    ),
    "NVIDIA__open-gpu-kernel-modules/issue-230/dmesg.txt": (
        nvidia("2206", "0000:04:00.0", "515.43.04"),
        "error open-module-unsupported-gpu",
    ),
    "acidanthera__bugtracker/issue-2237/journal-key-rejected.txt": (
        unloaded("2684", "0000:01:00.0"),
        "error secure-boot-module-rejected",
    ),
    "ROCm__legacy-rocm-build/issue-1214/dmesg-grep-kfd.txt": (without_kfd("67df", 80003), "error amd-pcie-atomics"),
    "ROCm__legacy-rocm-build/issue-827/dmesg.txt": (without_kfd("699f", 80003), "error amd-pcie-atomics"),
}


@pytest.mark.parametrize("path", LOGS)
def test_a_kernel_log_on_its_machine(path: str, tmp_path: Path) -> None:
    build, expected = LOGS[path]
    host = build(Host(tmp_path)).file("/var/log/dmesg", (FIXTURES / "kernel-log" / path).read_bytes())
    report = host.check()
    told = [f"{finding['severity']} {finding['slug']}" for finding in report["findings"]]
    serious = [line for line in told if line != "note driver-too-old"]
    assert (serious[0] if serious else "") == expected


def table() -> None:
    for path in recordings():
        with tempfile.TemporaryDirectory() as folder:
            host = Host(Path(folder))
            lay_out(path, host)
            report = host.torch(torch_for(path)).check()
        told = " ".join(f"{f['severity']}:{f['slug']}" for f in report["findings"])
        why = "; ".join(question["why"] for question in report["not_judged"] if question["matters"])
        print(f"{index()[path]}\t{path}\t{report['verdict']}\t{told}\t{why}")


if __name__ == "__main__":
    sys.exit(table())
