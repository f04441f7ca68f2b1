"""Recordings of real machines: GPUs, drivers and targets compared with values typed from the recordings.

`python -m tests.test_shared_gpus` prints what was read, by kind.
"""

from __future__ import annotations

import csv
import re
import shutil
import tarfile
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from gpudoctor.host.recorded_host import RecordedHost
from gpudoctor.machine import AmdStack, Gpu, NvidiaStack, NvmlDevice, System, absent, known, unknown
from gpudoctor.matrix.load import load_matrix
from gpudoctor.matrix.questions import Matrix
from gpudoctor.probes.amd_answers import parse_rocminfo
from gpudoctor.probes.amd_files import probe_amd
from gpudoctor.probes.gpus import assemble
from gpudoctor.probes.nvidia_files import parse_banner, probe_nvidia
from gpudoctor.probes.nvidia_gpus import identity_by_name
from gpudoctor.probes.nvidia_smi import parse_smi
from gpudoctor.probes.pci import probe_pci

FIXTURES = Path(__file__).parents[2] / "shared" / "fixtures"
pytestmark = pytest.mark.skipif(not FIXTURES.is_dir(), reason="the recordings are not beside this checkout")

LINUX = System(
    kernel=unknown("not recorded"), wsl=absent("x"), jetson=absent("x"), container=absent("x", "taken as bare metal")
)
GLS = "nvidia-smi/thamada__gls"
K8S = "nvidia-smi/NVIDIA__k8s-test-infra/tests/e2e/go/assertions/nvidiasmi/testdata"
TELEGRAF = "nvidia-smi/influxdata__telegraf/plugins/inputs/nvidia_smi/testdata"
CAPTURES = "nvidia-smi/utkuozdemir__nvidia_gpu_exporter/internal/captures"
LACT = "amd-sysfs/ilya-zlobintsev__LACT/tests/snapshots"
UDEV = "lspci/canonical__checkbox/checkbox-ng/checkbox_ng/support/parsers/tests/udevadm_data"
RCCL = "nccl-topo/ROCm__rccl/tools/topo_expl/models"
HWLOC = "hwloc/open-mpi__hwloc/tests/hwloc"
MOCKS = "nvml-profile/NVIDIA__k8s-test-infra/pkg/gpu/mocknvml/configs"
QUERIES = "devicequery/thamada__gls"


@cache
def matrix() -> Matrix:
    return load_matrix()


@cache
def index() -> tuple[dict[str, str], ...]:
    with (FIXTURES / "INDEX.tsv").open(newline="") as table:
        rows = list(csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE))
    return tuple({**row, "local path": row["local path"].rstrip("/")} for row in rows)


def read(path: str) -> str:
    return (FIXTURES / path).read_text(errors="replace")


def write(root: Path, path: str, content: str) -> None:
    place = root / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(content)


def on_bus(root: Path, bdf: str, **files: str) -> None:
    for name, content in files.items():
        write(root, f"/sys/bus/pci/devices/{bdf}/{name}", content)


def gpus(root: Path, system: System = LINUX) -> tuple[Gpu, ...]:
    host = RecordedHost(root)
    pci = probe_pci(host)

    nvidia = probe_nvidia(host, pci, system)
    return assemble(pci, probe_amd(host, pci, system), nvidia, system, matrix())[0]


# --- nvidia-smi: driver, CUDA, number of GPUs, first GPU's name, its architecture ------------------------

Smi = tuple[str | None, str | None, int, str, str | None]
SMI: dict[str, Smi] = {
    "nvidia-smi/danbev__learning-ai/gpu.nvidia-smi.txt": (
        "550.54.15",
        "12.4",
        1,
        "NVIDIA GeForce RTX 4080 ...",
        "sm_89",
    ),
    f"{GLS}/L40S_smi.out.txt": ("550.127.05", "12.4", 1, "NVIDIA L40S", "sm_89"),
    f"{GLS}/L40S_smi.out_a.txt": ("550.127.05", "12.4", 1, "NVIDIA L40S", "sm_89"),
    f"{GLS}/RTX4000Ada_smi.out.txt": ("550.90.07", "12.4", 1, "NVIDIA RTX 4000 Ada Gene...", "sm_89"),
    f"{GLS}/RTX4000Ada_smi.out_a.txt": ("550.90.07", "12.4", 1, "NVIDIA RTX 4000 Ada Generation", "sm_89"),
    f"{GLS}/RTX4060Ti_smi.out.txt": ("550.54.14", "12.4", 2, "NVIDIA GeForce RTX 4060 Ti", "sm_89"),
    f"{GLS}/RTX4060Ti_smi.out_a.txt": ("550.54.14", "12.4", 2, "NVIDIA GeForce RTX 4060 Ti", "sm_89"),
    f"{GLS}/RTX4090_smi.out.txt": ("550.127.05", "12.4", 8, "NVIDIA GeForce RTX 4090", "sm_89"),
    f"{GLS}/RTX4090_smi.out_a.txt": ("550.127.05", "12.4", 8, "NVIDIA GeForce RTX 4090", "sm_89"),
    f"{CAPTURES}/linux-x86_64__nvidia-geforce-rtx-4080-super__595.71.05.txt": (
        "595.71.05",
        "13.2",
        1,
        "NVIDIA GeForce RTX 4080 SUPER",
        "sm_89",
    ),
    f"{K8S}/hardware/qx-a100.xml": ("570.148.08", "12.8", 1, "NVIDIA A100-SXM4-40GB", "sm_80"),
    f"{K8S}/qx-a100-healthy.xml": ("550.163.01", "12.4", 2, "NVIDIA A100-SXM4-40GB", "sm_80"),
    "nvidia-smi/NVIDIA__nvidia-container-toolkit/issue-1227/container-vs-host.txt": (
        None,
        None,
        4,
        "NVIDIA A10",
        "sm_86",
    ),
    f"{TELEGRAF}/a100-sxm4-v12.xml": ("535.54.03", "12.2", 1, "NVIDIA A100-SXM4-80GB", "sm_80"),
    f"{TELEGRAF}/rtx-3060-v12.xml": ("570.124.04", "12.8", 1, "NVIDIA GeForce RTX 3060", "sm_86"),
    "nvidia-smi/leptonai__gpud/components/accelerator/nvidia/fabric-manager/testdata/nvidia-smi.nvlink.status.a100": (
        None,
        None,
        8,
        "NVIDIA A100-SXM4-80GB",
        "sm_80",
    ),
    "nvidia-smi/mahendrapaipuri__ceems/ceems.nvidia-smi.query.xml": (
        "535.129.03",
        "12.2",
        8,
        "NVIDIA A100-PCIE-40GB",
        "sm_80",
    ),
    f"{GLS}/A100SXMx4_smi.out.txt": ("555.42.02", "12.5", 4, "NVIDIA A100-SXM4-80GB", "sm_80"),
    f"{GLS}/A100SXMx4_smi.out_a.txt": ("555.42.02", "12.5", 4, "NVIDIA A100-SXM4-80GB", "sm_80"),
    f"{GLS}/A10_smi.out.txt": ("550.90.12", "12.4", 1, "NVIDIA A10", "sm_86"),
    f"{GLS}/A10_smi.out_a.txt": ("550.90.12", "12.4", 1, "NVIDIA A10", "sm_86"),
    f"{GLS}/RTX3090_smi.out.txt": ("560.35.03", "12.6", 2, "NVIDIA GeForce RTX 3090", "sm_86"),
    f"{GLS}/RTX3090_smi.out_a.txt": ("560.35.03", "12.6", 2, "NVIDIA GeForce RTX 3090", "sm_86"),
    f"{K8S}/hardware/qx-gb200.xml": ("580.173.02", "13.0", 4, "NVIDIA GB200", "sm_100"),
    f"{K8S}/qx-gb200-ecc-injected.xml": ("580.65.06", "13.0", 2, "NVIDIA GB200", "sm_100"),
    f"{K8S}/qx-gb200-fabric-degraded.xml": ("580.65.06", "13.0", 2, "NVIDIA GB200", "sm_100"),
    f"{K8S}/qx-gb200-healthy.xml": ("580.65.06", "13.0", 2, "NVIDIA GB200", "sm_100"),
    f"{K8S}/qx-gb200-lost.xml": ("580.65.06", "13.0", 2, "NVIDIA GB200", "sm_100"),
    f"{K8S}/qx-gb200-throttle-counters.xml": ("580.65.06", "13.0", 2, "NVIDIA GB200", "sm_100"),
    f"{GLS}/RTX5090_smi.out.txt": ("570.124.06", "12.8", 1, "NVIDIA GeForce RTX 5090", "sm_120"),
    f"{GLS}/RTX5090_smi.out_a.txt": ("570.124.06", "12.8", 1, "NVIDIA GeForce RTX 5090", "sm_120"),
    f"{TELEGRAF}/quadro-p2000-v12.xml": ("525.125.06", "12.0", 1, "Quadro P2000", "sm_61"),
    f"{TELEGRAF}/quadro-p400.xml": ("418.43", "10.1", 1, "Quadro P400", "sm_61"),
    f"{GLS}/GTX1050Ti_smi.out.txt": ("535.161.07", "12.2", 1, "NVIDIA GeForce GTX 1050 Ti", "sm_61"),
    f"{GLS}/GTX1050Ti_smi.out_a.txt": ("535.161.07", "12.2", 1, "NVIDIA GeForce GTX 1050 Ti", "sm_61"),
    f"{K8S}/hardware/qx-h100.xml": ("580.105.08", "13.0", 8, "NVIDIA H100 80GB HBM3", "sm_90"),
    f"{GLS}/H100NVLx2_smi.out.txt": ("550.54.14", "12.4", 2, "NVIDIA H100 NVL", "sm_90"),
    f"{GLS}/H100NVLx2_smi.out_a.txt": ("550.54.14", "12.4", 2, "NVIDIA H100 NVL", "sm_90"),
    f"{GLS}/H200_smi.out.txt": ("550.90.12", "12.4", 1, "NVIDIA H200", "sm_90"),
    f"{GLS}/H200_smi.out_a.txt": ("550.90.12", "12.4", 1, "NVIDIA H200", "sm_90"),
    f"{CAPTURES}/linux-x86_64__nvidia-h100-80gb-hbm3__590.48.01.txt": (
        "590.48.01",
        "13.1",
        1,
        "NVIDIA H100 80GB HBM3",
        "sm_90",
    ),
    f"{CAPTURES}/linux-x86_64__nvidia-h100-mig__590.48.01.txt": (
        "590.48.01",
        "13.1",
        1,
        "NVIDIA H100 80GB HBM3",
        "sm_90",
    ),
    f"{K8S}/hardware/qx-t4.xml": ("595.91.07", "13.2", 1, "Tesla T4", "sm_75"),
    "nvidia-smi/NVIDIA__nvidia-container-toolkit/issue-271/nvidia-smi-a-wsl.txt": (
        "510.06",
        "11.6",
        1,
        "NVIDIA GeForce GTX 1650 Ti with Max-Q Design",
        "sm_75",
    ),
    f"{TELEGRAF}/gtx-1660-ti.xml": ("418.43", "10.1", 1, "Graphics Device", "sm_75"),
    "nvidia-smi/utkuozdemir__nvidia_gpu_exporter/internal/exporter/testdata/query.txt": (
        "466.63",
        None,
        2,
        "NVIDIA GeForce RTX 2080 SUPER",
        "sm_75",
    ),
}
SMI_FAILURES = {
    "nvidia-smi/microsoft__WSL/issue-9134/nvidia-smi-wsl-fail.txt": 9,
    "nvidia-smi/canonical__nvidia-graphics-drivers/issue-61/secureboot-bundle.txt": 9,
}


@pytest.mark.parametrize("path", SMI)
def test_nvidia_smi(path: str) -> None:
    driver, cuda, count, name, arch = SMI[path]
    api = parse_smi(read(path))
    assert api is not None
    devices = api.devices or ()
    assert (api.status, api.driver_version, api.cuda_version, len(devices)) == (0, driver, cuda, count)
    assert devices[0].name == name
    found = assemble(known((), "bus"), AmdStack(), NvidiaStack(smi=known(api, "nvidia-smi")), LINUX, matrix())[0]
    assert len(found) == count
    assert found[0].arch.value == arch


@pytest.mark.parametrize(("path", "status"), SMI_FAILURES.items())
def test_nvidia_smi_that_failed(path: str, status: int) -> None:
    api = parse_smi(read(path))
    assert api is not None
    assert (api.status, api.devices) == (status, None)


def smi_devices(path: str) -> tuple[NvmlDevice, ...]:
    api = parse_smi(read(path))
    assert api is not None
    return api.devices or ()


def test_details_of_some_gpus() -> None:
    first, second = smi_devices(f"{K8S}/qx-gb200-lost.xml")
    assert (first.ecc_uncorrectable, first.ecc_uncorrectable_ever, first.remap_failed, first.lost) == (
        5,
        8,
        True,
        False,
    )
    assert second.lost
    assert [gpu.remap_pending for gpu in smi_devices(f"{GLS}/A100SXMx4_smi.out_a.txt")][:2] == [False, True]
    (h200,) = smi_devices(f"{GLS}/H200_smi.out_a.txt")
    assert (h200.fabric, h200.memory, h200.pci_id) == ("completed", 143771 << 20, "10de:2335")
    (mig,) = smi_devices(f"{CAPTURES}/linux-x86_64__nvidia-h100-mig__590.48.01.txt")
    assert [(slice.profile, (slice.memory or 0) >> 20) for slice in mig.mig_devices] == [
        ("3g.40gb", 40448),
        ("2g.20gb", 20096),
        ("1g.10gb", 9984),
        ("1g.10gb", 9984),
    ]
    (old_mig,) = smi_devices(f"{TELEGRAF}/a100-sxm4-v12.xml")
    assert (old_mig.mig, len(old_mig.mig_devices)) == (True, 4)


# --- rocminfo: targets of the GPU agents in order, or the refusal -----------------------------------------

ROCMINFO: dict[str, tuple[int, tuple[str, ...], str]] = {
    "rocminfo/ROCm__ROCm/issue-4452/rocminfo.txt": (1, ("gfx1030",), "0000:0c:00.0"),
    "rocminfo/ROCm__ROCm/issue-5041/rocminfo.txt": (1, ("gfx1201", "gfx12-generic"), "0000:03:00.0"),
    "rocminfo/Delaunay__regression/rocminfo.txt": (8, ("gfx906",), "0000:07:00.0"),
    "rocminfo/bankh__GPU_Compute/rocmInfo.txt": (7, ("gfx900:xnack-",), "0000:63:00.0"),
}
ROCMINFO_FAILURES = {
    "rocminfo/ROCm__ROCm-docker/issue-116/container-rocminfo-vs-smi.txt": "Permission denied",
    "rocminfo/ROCm__legacy-rocm-build/issue-4043/rocminfo-fail.txt": "Invalid argument",
    "rocminfo/ROCm__legacy-rocm-build/issue-2232/rocminfo-fail.txt": "Cannot allocate memory",
    "rocminfo/ROCm__legacy-rocm-build/issue-2767/rocminfo-fail.txt": "NOT loaded",
}


@pytest.mark.parametrize("path", ROCMINFO)
def test_rocminfo(path: str) -> None:
    count, isa, bdf = ROCMINFO[path]
    api = parse_rocminfo(read(path))
    assert api is not None
    agents = [agent for agent in api.agents if agent.kind == "gpu"]
    assert (len(agents), agents[0].isa, agents[0].bdf) == (count, isa, bdf)
    stack = AmdStack(hsa=known(api, "rocminfo"))
    found = assemble(unknown("no bus"), stack, NvidiaStack(), LINUX, matrix())[0]
    assert [gpu.arch.value for gpu in found] == [isa[0].partition(":")[0]] * count


@pytest.mark.parametrize(("path", "sign"), ROCMINFO_FAILURES.items())
def test_rocminfo_that_failed(path: str, sign: str) -> None:
    api = parse_rocminfo(read(path))
    assert api is not None
    assert api.status != 0
    assert sign in api.message


# --- KFD topology -----------------------------------------------------------------------------------------

# Node, target, address, PCI id, render minor of each GPU node.
KFD: dict[str, list[tuple[int, str, str, str, int]]] = {
    "kfd/ilya-zlobintsev__LACT/tests/snapshots/amd/strixpoint/kfd": [
        (1, "gfx1150", "0000:c1:00.0", "1002:150e", 128)
    ],
    "kfd/ilya-zlobintsev__LACT/tests/snapshots/amd/vangogh/kfd": [(1, "gfx1033", "0000:04:00.0", "1002:163f", 128)],
}
MI308 = "kfd/ROCm__k8s-device-plugin/testdata/topology-parsing-mi308"
MI350 = "kfd/ROCm__rocm-systems/issue-10274/node5.properties.partial.txt"


def kfd_root(root: Path, path: str) -> Path:
    place = root / "sys/class/kfd/kfd"
    place.mkdir(parents=True)
    shutil.copytree(FIXTURES / path / "topology", place / "topology")
    return root


@pytest.mark.parametrize("path", KFD)
def test_kfd_topology(path: str, tmp_path: Path) -> None:
    found = gpus(kfd_root(tmp_path, path))
    assert [(c.kfd_node, c.arch.value, c.bdf, c.pci_id, int(c.nodes[0].rpartition("D")[2])) for c in found] == KFD[
        path
    ]
    assert all(gpu.integrated for gpu in found)


def test_kfd_of_eight_gpus_in_four_partitions_each(tmp_path: Path) -> None:
    found = gpus(kfd_root(tmp_path, MI308))
    assert [gpu.kfd_node for gpu in found] == list(range(2, 34))
    assert {gpu.arch.value for gpu in found} == {"gfx942"}
    assert {gpu.name for gpu in found} == {"AMD Instinct MI308X"}
    assert [gpu.bdf for gpu in found[:5]] == [
        "0000:0a:00.0",
        "0000:0a:00.1",
        "0000:0a:00.2",
        "0000:0a:00.3",
        "0000:80:00.0",
    ]
    assert (found[-1].bdf, found[-1].nodes) == ("0001:c9:00.3", ("/dev/dri/renderD187",))
    assert found[1].memory.value == 51539607552


def test_kfd_node_without_a_target(tmp_path: Path) -> None:
    write(tmp_path, "/sys/class/kfd/kfd/topology/nodes/5/properties", read(MI350))
    (gpu,) = gpus(tmp_path)
    assert (gpu.kfd_node, gpu.arch.value, gpu.bdf) == (5, None, None)


# --- sysfs of GPUs ---------------------------------------------------------------------------------------

# Address, PCI id, driver, architecture (None instead of all: the GPU is too old to count).
SYSFS: dict[str, tuple[str, str, str, str | None] | None] = {
    f"{LACT}/amd/strixpoint/card1": ("0000:c1:00.0", "1002:150e", "amdgpu", "gfx1150"),
    f"{LACT}/amd/vangogh/card0": ("0000:04:00.0", "1002:163f", "amdgpu", "gfx1033"),
    f"{LACT}/amd/hd7870": ("0000:01:00.0", "1002:6818", "radeon", "gfx601"),
    f"{LACT}/amd/r9-280": ("0000:01:00.0", "1002:679a", "amdgpu", "gfx600"),
    f"{LACT}/amd/rx5700xt": ("0000:28:00.0", "1002:731f", "amdgpu", "gfx1010"),
    f"{LACT}/amd/rx6600xt": ("0000:0b:00.0", "1002:73ff", "amdgpu", "gfx1032"),
    f"{LACT}/amd/rx7600s": ("0000:03:00.0", "1002:7480", "amdgpu", "gfx1102"),
    f"{LACT}/amd/rx7800xt": ("0000:03:00.0", "1002:747e", "amdgpu", "gfx1101"),
    f"{LACT}/amd/rx9070xt": ("0000:0f:00.0", "1002:7550", "amdgpu", "gfx1201"),
    f"{LACT}/amd/vega56": ("0000:0b:00.0", "1002:687f", "amdgpu", "gfx900"),
    f"{LACT}/nvidia/rtx4080": ("0000:09:00.0", "10de:2704", "nvidia", "sm_89"),
}


@pytest.mark.parametrize("path", SYSFS)
def test_sysfs_of_a_gpu(path: str, tmp_path: Path) -> None:
    (device,) = (FIXTURES / path).glob("device" if (FIXTURES / path / "device").is_dir() else "card*/device")
    slot = re.search(r"PCI_SLOT_NAME=(\S+)", (device / "uevent").read_text())
    assert slot
    place = tmp_path / "sys/bus/pci/devices" / slot[1]
    shutil.copytree(device, place)
    expected = SYSFS[path]
    found = [(gpu.bdf, gpu.pci_id, gpu.driver.value, gpu.arch.value) for gpu in gpus(tmp_path)]
    assert found == ([] if expected is None else [expected])


PCI_SYSFS = "pci-sysfs/kubernetes-sigs__node-feature-discovery/testdata/source/pci"


def test_a_server_without_a_gpu() -> None:
    for root in sorted((FIXTURES / PCI_SYSFS).glob("rootfs-*")):
        assert gpus(root) == ()


# --- buses in other tools' words: laid out as sysfs, then read -------------------------------------------

# GPU by GPU: PCI id, architecture (None: no row), driver where the text has it.
Bus = list[tuple[str, str | None, str | None]]
UDEVADM: dict[str, Bus] = {
    f"{UDEV}/CAPTURE_METADATA.txt": [("1002:6900", "gfx802", "amdgpu")],
    f"{UDEV}/HOME_MADE.txt": [],
    f"{UDEV}/REALTEK_CARD_READER_AND_NVME.txt": [("1002:6820", "gfx601", "fglrx_pci")],
    f"{UDEV}/XEON.txt": [],
    f"{UDEV}/NVIDIA_DGX_STATION.txt": [("10de:1db2", "sm_70", "nvidia")] * 4,
    f"{UDEV}/CAPTURE_METADATA_2.txt": [("10de:1c90", "sm_61", None)],
    f"{UDEV}/DISK_SAMSUNG_KIOXIA.txt": [("10de:2901", "sm_100", None)] * 8,
    f"{UDEV}/HP_ENVY_15_MEDIATEK_BT.txt": [("10de:1292", "sm_35", None)],
    f"{UDEV}/MELLANOX_40GBPS.txt": [("10de:15f9", "sm_60", None)] * 2,
    f"{UDEV}/QEMU_KVM.txt": [],
}


@pytest.mark.parametrize("path", UDEVADM)
def test_a_bus_as_udevadm_lists_it(path: str, tmp_path: Path) -> None:
    (tmp_path / "sys/bus/pci/devices").mkdir(parents=True)
    for block in read(path).split("\n\n"):
        lines = re.findall(r"^E: (\w+=.*)$", block, re.M)
        slot = re.search(r"^E: PCI_SLOT_NAME=(\S+)", block, re.M)
        if slot and re.search(r"^E: SUBSYSTEM=pci$", block, re.M):
            on_bus(tmp_path, slot[1], uevent="\n".join(lines) + "\n")
    found = [(gpu.pci_id, gpu.arch.value, gpu.driver.value) for gpu in gpus(tmp_path)]
    assert found == UDEVADM[path]


LSPCI: dict[str, tuple[list[tuple[str, str]], int]] = {
    "lspci/leptonai__gpud/components/accelerator/nvidia/fabric-manager/testdata/lspci.nn.a100": (
        [("10de:20b2", "sm_80")] * 8,
        6,
    ),
    "lspci/clbr__radeontop/issue-159/lspci-nn.txt": ([("1002:744c", "gfx1100")], 0),
    "lspci/kellyjonbrazil__jc/tests/fixtures/ubuntu-20.10/lspci-nnmmv.out": ([], 0),
}


@pytest.mark.parametrize("path", LSPCI)
def test_a_bus_as_lspci_lists_it(path: str, tmp_path: Path) -> None:
    (tmp_path / "sys/bus/pci/devices").mkdir(parents=True)
    pattern = r"^(\S*\d\d:\d\d\.\d) .*?\[(\d{4})\]: .*\[([0-9a-f]{4}):([0-9a-f]{4})\]"
    for bdf, code, vendor, device in re.findall(pattern, read(path), re.M):
        full = bdf if bdf.count(":") == 2 else f"0000:{bdf}"
        on_bus(tmp_path, full, vendor=f"0x{vendor}", device=f"0x{device}", **{"class": f"0x{code}00"})
    expected, switches = LSPCI[path]
    assert [(gpu.pci_id, gpu.arch.value) for gpu in gpus(tmp_path)] == expected
    assert sum(device.is_nvswitch for device in probe_pci(RecordedHost(tmp_path)).value or ()) == switches


HWLOC_XML: dict[str, list[tuple[str, str | None]]] = {
    f"{HWLOC}/xml/32em64t-2n8c2t-pci-wholeio.xml": [("10de:1094", "sm_20")] * 3 + [("1002:6798", "gfx600")],
    f"{HWLOC}/xml/power8gpudistances.xml": [("10de:15f9", "sm_60")] * 4,
    f"{HWLOC}/xml/96em64t-4n4d3ca2co-pci.xml": [],
}
HWLOC_TAR = {
    f"{HWLOC}/linux/40intel64-2g2n4c+pcilocality.tar.bz2": 0,
    f"{HWLOC}/linux/nvidiagpunumanodes.tar.bz2": 6,
}


@pytest.mark.parametrize("path", HWLOC_XML)
def test_a_bus_as_hwloc_describes_it(path: str, tmp_path: Path) -> None:
    (tmp_path / "sys/bus/pci/devices").mkdir(parents=True)
    pattern = r'pci_busid="([^"]+)" pci_type="(\w{4}) \[(\w{4}):(\w{4})\]'
    for bdf, code, vendor, device in re.findall(pattern, read(path)):
        on_bus(tmp_path, bdf, vendor=f"0x{vendor}", device=f"0x{device}", **{"class": f"0x{code}00"})
    assert [(gpu.pci_id, gpu.arch.value) for gpu in gpus(tmp_path)] == HWLOC_XML[path]


@pytest.mark.parametrize("path", HWLOC_TAR)
def test_a_root_that_hwloc_packed(path: str, tmp_path: Path) -> None:
    with tarfile.open(FIXTURES / path) as archive:
        wanted = [member for member in archive if "/sys/devices/system/" not in member.name]
        archive.extractall(tmp_path, wanted, filter="tar")
    (root,) = tmp_path.iterdir()
    found = gpus(root)
    assert len(found) == HWLOC_TAR[path]
    assert {gpu.vendor for gpu in found} <= {"nvidia"}


RCCL_MODELS: dict[str, tuple[str, str, int]] = {
    f"{RCCL}/topo_4p4h.xml": ("1002:738c", "gfx908", 16),
    f"{RCCL}/topo_8p_rome_4n_1.xml": ("1002:738c", "gfx908", 8),
    f"{RCCL}/topo_8p_rome_4n_2.xml": ("1002:738c", "gfx908", 8),
    f"{RCCL}/topo_8p_rome_vm1.xml": ("1002:738c", "gfx908", 8),
    f"{RCCL}/topo_16p1h.xml": ("1002:740c", "gfx90a", 16),
    f"{RCCL}/topo_16p1h_vm.xml": ("1002:740c", "gfx90a", 16),
    f"{RCCL}/topo_3p_pcie.xml": ("1002:740f", "gfx90a", 3),
    f"{RCCL}/topo_3p_pcie_1.xml": ("1002:740f", "gfx90a", 3),
    f"{RCCL}/topo_8p1h_n1.xml": ("1002:740c", "gfx90a", 8),
    f"{RCCL}/topo_8p_90a_1.xml": ("1002:7408", "gfx90a", 8),
    # An engineering sample of MI300A called itself gfx940; those that were sold are gfx942.
    f"{RCCL}/topo_4p_940.xml": ("1002:74a0", "gfx942", 4),
    f"{RCCL}/topo_8p_940vm.xml": ("1002:74b5", "gfx942", 8),
}


@pytest.mark.parametrize("path", RCCL_MODELS)
def test_a_bus_as_rccl_models_it(path: str, tmp_path: Path) -> None:
    pattern = r'<pci busid="([^"]+)" class="(0x(?:03|12)\w+)" vendor="(0x\w+)" device="(0x\w+)"'
    for bdf, code, vendor, device in re.findall(pattern, read(path)):
        on_bus(tmp_path, bdf, vendor=vendor, device=device, **{"class": code})
    pci_id, arch, count = RCCL_MODELS[path]
    assert [(gpu.pci_id, gpu.arch.value) for gpu in gpus(tmp_path)] == [(pci_id, arch)] * count


# --- names and capabilities that the driver itself printed ------------------------------------------------

DEVICE_QUERY = {
    "L40S": ("NVIDIA L40S", "sm_89", 1),
    "RTX4000Ada": ("NVIDIA RTX 4000 Ada Generation", "sm_89", 1),
    "RTX4060Ti": ("NVIDIA GeForce RTX 4060 Ti", "sm_89", 2),
    "RTX4090": ("NVIDIA GeForce RTX 4090", "sm_89", 8),
    "A100SXMx4": ("NVIDIA A100-SXM4-80GB", "sm_80", 4),
    "A10": ("NVIDIA A10", "sm_86", 1),
    "RTX3090": ("NVIDIA GeForce RTX 3090", "sm_86", 2),
    "RTX5090": ("NVIDIA GeForce RTX 5090", "sm_120", 1),
    "GTX1050Ti": ("NVIDIA GeForce GTX 1050 Ti", "sm_61", 1),
    "H100NVLx2": ("NVIDIA H100 NVL", "sm_90", 2),
    "H200": ("NVIDIA H200", "sm_90", 1),
}


@pytest.mark.parametrize("machine", DEVICE_QUERY)
def test_the_matrix_knows_the_driver_s_name_of_a_gpu(machine: str) -> None:
    name, arch, count = DEVICE_QUERY[machine]
    text = read(f"{QUERIES}/{machine}_deviceQuery.out.txt")
    assert text.count(f'"{name}"') >= count
    assert f"version number:    {arch[3:-1]}.{arch[-1]}" in text
    identity = identity_by_name(matrix(), name)
    assert identity is not None
    assert identity.arch == arch


PROFILES = {"a100": ("10de:20b0", "sm_80"), "h100": ("10de:2330", "sm_90"), "t4": ("10de:1eb8", "sm_75")}


@pytest.mark.parametrize("profile", PROFILES)
def test_nvml_profiles(profile: str) -> None:
    pci_id, arch = PROFILES[profile]
    text = read(f"{MOCKS}/mock-nvml-config-{profile}.yaml")
    assert f"device_id: 0x{pci_id[5:].upper()}10DE" in text
    name = re.search(r'^  name: "([^"]+)"', text, re.M)
    assert name
    by_id = matrix().gpus.gpu_by_pci(pci_id)
    by_name = identity_by_name(matrix(), name[1])
    assert by_id is not None
    assert by_name is not None
    assert (by_id.arch, by_name.arch) == (arch, arch)


# --- roots of the driver, Jetson, the module's banner -----------------------------------------------------

ROOTS = "driver-root/NVIDIA__nvidia-container-toolkit/testdata/lookup"
DRIVER_ROOTS: dict[str, tuple[list[str], int]] = {
    f"{ROOTS}/csv-mode": (["/dev/nvidia0"], 0),
    f"{ROOTS}/rootfs-orin": (["/dev/nvidia0"], 0),
    f"{ROOTS}/rootfs-drm": ([], 0),
    f"{ROOTS}/rootfs-with-nvswitch": (
        ["/dev/nvidia-nvswitch0", "/dev/nvidia-nvswitch1", "/dev/nvidia-nvswitchctl"],
        2,
    ),
}


@pytest.mark.parametrize("path", DRIVER_ROOTS)
def test_nodes_below_a_driver_root(path: str) -> None:

    host = RecordedHost(FIXTURES / path)
    nodes, switches = DRIVER_ROOTS[path]
    stack = probe_nvidia(host, probe_pci(host), LINUX)
    assert [node.path for node in stack.nodes.value or ()] == nodes
    assert (stack.fabric.switches.value or 0) == switches


TREE = "jetson/NVIDIA__jetson-gpio/issue-125/device-tree-compatible.txt"
BANNER = "os-facts/NVIDIA__open-gpu-kernel-modules/issue-326/lsmod-and-proc-version.txt"


def test_a_device_tree_whose_separators_were_lost() -> None:
    identity = matrix().gpus.gpu_by_device_tree(read(TREE))
    assert identity is not None
    assert identity.arch == "sm_87"


def test_a_banner_with_a_german_date() -> None:
    module = parse_banner(read(BANNER))
    assert module is not None
    assert (module.version, module.flavour) == ("515.57", "open")


# --- the whole index --------------------------------------------------------------------------------------

NOT_APPLICABLE = {
    f"{LACT}/amd/strixpoint/clinfo.json": "output of clinfo, which gpudoctor does not run",
    "amd-sysfs/ROCm__k8s-device-plugin/testdata/debugfs-parsing": "debugfs, which only root can read",
    f"{K8S}/hardware/README.md": "a note on other recordings",
    "nvidia-smi/NVIDIA__nccl-tests/issue-78/topo-m.partial.txt": "nvidia-smi topo, which gpudoctor does not run",
    "nvidia-smi/deepseek-ai__DeepEP/issue-128/topo-m.partial.txt": "nvidia-smi topo, which gpudoctor does not run",
    "nvidia-smi/mahendrapaipuri__ceems/ceems.nvidia-smi.vgpu.txt": "nvidia-smi vgpu, which gpudoctor does not run",
    f"{MOCKS}/mock-nvml-config-gb200.yaml": "its PCI id is a placeholder (that of an H100), as it says itself",
    f"{ROOTS}/rootfs-2": "libraries only: read by the load path's tests",
    "jetson/balena-os__balena-jetson-orin/issue-464/dmesg-nvgpu.txt": "a kernel log: read by the log's tests",
    "nccl-topo/aws__aws-ofi-nccl/topology/g5.48xl-topo.xml": "names no GPU and no PCI id",
}
KINDS_NOT_APPLICABLE = {
    "rocm-smi": "gpudoctor does not run rocm-smi or amd-smi: KFD and libhsa tell more",
    "lspci": "names without PCI ids; gpudoctor reads sysfs, not lspci",
    "nccl-topo": "the model gives no PCI id",
    "k-labels": "expected labels of another program",
    "container": "read by the tests of the system probe",
    "os-facts": "read by the tests of the system probe",
    "kernel-log": "read by the tests of the kernel log",
}
READ = frozenset(
    (
        *SMI,
        *SMI_FAILURES,
        *ROCMINFO,
        *ROCMINFO_FAILURES,
        *KFD,
        MI308,
        MI350,
        *SYSFS,
        PCI_SYSFS,
        *UDEVADM,
        *LSPCI,
        *HWLOC_XML,
        *HWLOC_TAR,
        *RCCL_MODELS,
        *(f"{QUERIES}/{machine}_deviceQuery.out.txt" for machine in DEVICE_QUERY),
        *(f"{MOCKS}/mock-nvml-config-{profile}.yaml" for profile in PROFILES),
        *DRIVER_ROOTS,
        TREE,
        BANNER,
    )
)


def standing(row: dict[str, str]) -> str:
    """ "read", or why a recording is not for the GPU probes; "" where nobody has said."""
    path = row["local path"]
    if path in READ:
        return "read"
    return NOT_APPLICABLE.get(path) or KINDS_NOT_APPLICABLE.get(row["kind"], "")


def table() -> str:
    """Kind, recordings, read here, and the others with their reasons."""
    kinds = sorted({row["kind"] for row in index()})
    lines = [f"{'kind':<13} {'recordings':>10} {'read':>5}  not applicable"]
    for kind in kinds:
        standings = [standing(row) for row in index() if row["kind"] == kind]
        others = Counter(reason for reason in standings if reason != "read")
        reasons = "; ".join(f"{count} {reason}" for reason, count in others.most_common())
        lines.append(f"{kind:<13} {len(standings):>10} {standings.count('read'):>5}  {reasons}".rstrip())
    return "\n".join(lines)


def test_every_recording_is_read_or_not_applicable_for_a_reason() -> None:
    assert [row["local path"] for row in index() if not standing(row)] == []
    paths = {row["local path"] for row in index()}
    assert paths >= READ, "a path in this module is not in the index"
    assert set(NOT_APPLICABLE) <= paths


def test_the_table_counts_every_recording() -> None:
    counts = [int(line.split()[1]) for line in table().splitlines()[1:]]
    assert sum(counts) == len(index())


if __name__ == "__main__":
    print(table())
