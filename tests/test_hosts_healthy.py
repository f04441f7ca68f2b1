"""Healthy machines: no error, no warning, exit code 0. A false alarm weighs as much as a miss.

Every setup that must stay silent is here.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.environments import shared_library, write_conda, write_conda_record, write_torch
from tests.support.hosts import Host, slugs

Setup = Callable[[Host], Host]
SETUPS: dict[str, Setup] = {}


def setup(function: Setup) -> Setup:
    SETUPS[function.__name__.replace("_", " ")] = function
    return function


# --- plain NVIDIA boxes ----------------------------------------------------------------------------


@setup
def rtx_4090_with_cu128(host: Host) -> Host:
    return host.ubuntu().nvidia_gpu("2684").nvidia_driver("580.95.05").torch("2.9.1+cu128")


@setup
def rtx_5090_on_570_with_cu128(host: Host) -> Host:
    return host.ubuntu().nvidia_gpu("2b85").nvidia_driver("570.133.07").torch("2.9.1+cu128")


@setup
def rtx_4070_with_the_package_indexs_own_build(host: Host) -> Host:
    return host.ubuntu().nvidia_gpu("2786").nvidia_driver("580.95.05").torch("2.9.1", cuda="12.8")


@setup
def ada_with_the_proprietary_modules(host: Host) -> Host:
    return host.ubuntu().nvidia_gpu("2684").nvidia_driver("550.163.01", flavour="proprietary").torch("2.6.0+cu124")


@setup
def gtx_1080_ti_on_its_last_branch(host: Host) -> Host:
    host.ubuntu().nvidia_gpu("1b06").nvidia_driver("580.95.05", flavour="proprietary")
    return host.torch("2.9.1+cu126")


@setup
def v100_with_a_build_that_kept_volta(host: Host) -> Host:
    host.ubuntu("22.04").nvidia_gpu("1db1", pci_class="0x030200")
    return host.nvidia_driver("570.133.20", flavour="proprietary").torch("2.9.1", cuda="12.8")


@setup
def k80_on_470_with_an_old_torch(host: Host) -> Host:
    host.ubuntu("20.04", kernel="5.4.0-150-generic").nvidia_gpu("102d", pci_class="0x030200")
    return host.nvidia_driver("470.239.06", flavour="proprietary").torch("1.13.1+cu117", python="3.9")


@setup
def an_older_driver_by_minor_version_compatibility(host: Host) -> Host:
    host.ubuntu("22.04").nvidia_gpu("20b2", pci_class="0x030200")
    return host.nvidia_driver("535.183.01", flavour="proprietary").torch("2.6.0+cu124")


@setup
def a_driver_newer_than_anything_torch_needs(host: Host) -> Host:
    return host.ubuntu().nvidia_gpu("2b85").nvidia_driver("595.71.05").torch("2.9.1+cu128")


@setup
def two_equal_gpus(host: Host) -> Host:
    host.ubuntu().nvidia_gpu("2204").nvidia_gpu("2204", "0000:02:00.0", minor=1)
    return host.nvidia_driver("580.95.05").torch("2.9.1+cu128")


@setup
def uvm_node_before_its_first_use_on_bare_metal(host: Host) -> Host:
    return host.ubuntu().nvidia_gpu("2684").nvidia_driver("580.95.05", uvm=False).torch("2.9.1+cu128")


@setup
def nvswitch_machine_with_its_fabric_manager(host: Host) -> Host:
    host.ubuntu("22.04").nvidia_driver("570.133.20")
    for n in range(8):
        host.nvidia_gpu("2330", f"0000:{0x10 + n:02x}:00.0", minor=n, pci_class="0x030200")
    for n in range(4):
        host.pci(f"0000:0{n + 1}:00.0", "10de", "22a3", pci_class="0x068000", driver="nvidia-nvswitch")
        host.node(f"/dev/nvidia-nvswitch{n}")
    host.node("/dev/nvidia-nvswitchctl").file("/usr/bin/nv-fabricmanager", "")
    host.file("/run/nvidia-fabricmanager/nv-fabricmanager.pid", "900\n").file("/proc/900/comm", "nv-fabricmanager\n")
    host.file(
        "/var/lib/dpkg/status",
        "Package: nvidia-fabricmanager-570\nStatus: install ok installed\nVersion: 570.133.20-1\n\n",
    )
    return host.torch("2.9.1+cu128")


@setup
def a_dgx_spark(host: Host) -> Host:
    host.ubuntu("24.04", kernel="6.14.0-1013-nvidia").nvidia_gpu("2e12", "000f:01:00.0")
    return host.nvidia_driver("580.95.05").torch("2.11.0+cu130")


# --- plain AMD boxes --------------------------------------------------------------------------------


@setup
def rx_6800_xt_is_native_though_not_listed(host: Host) -> Host:
    return host.ubuntu().amd_gpu("73bf", 100300).torch("2.9.1+rocm6.4")


@setup
def rx_7900_xtx(host: Host) -> Host:
    return host.ubuntu().amd_gpu("744c", 110000, memory=24 << 30).torch("2.9.1+rocm6.4")


@setup
def rx_9070_xt(host: Host) -> Host:
    return host.ubuntu(kernel="6.14.0-24-generic").amd_gpu("7550", 120001).torch("2.9.1+rocm6.4")


@setup
def eight_mi300x(host: Host) -> Host:
    host.ubuntu("22.04", kernel="5.15.0-140-generic")
    for n in range(8):
        host.amd_gpu("74a1", 90402, f"0000:{0x05 + 0x10 * n:02x}:00.0", node=n + 2, render=128 + n, memory=192 << 30)
    return host.torch("2.9.1+rocm6.4")


@setup
def mi210_beside_a_system_rocm_of_another_version(host: Host) -> Host:
    host.ubuntu("22.04").amd_gpu("740f", 90010).file("/opt/rocm-6.2.4/.info/version", "6.2.4-139\n")
    return host.link("/opt/rocm", "/opt/rocm-6.2.4").torch("2.9.1+rocm6.4")


@setup
def ryzen_igpu_beside_a_gpu(host: Host) -> Host:
    host.ubuntu().amd_gpu("744c", 110000)
    return host.amd_gpu("164e", 100306, "0000:0f:00.0", node=2, render=129, simds=2).torch("2.9.1+rocm6.4")


@setup
def ryzen_igpu_beside_an_nvidia_gpu(host: Host) -> Host:
    host.ubuntu().nvidia_gpu("2684").nvidia_driver("580.95.05")
    return host.amd_gpu("164e", 100306, "0000:0f:00.0", simds=2).torch("2.9.1+cu128")


@setup
def old_display_gpu_beside_a_working_one(host: Host) -> Host:
    host.ubuntu().nvidia_gpu("2684").nvidia_gpu("1287", "0000:02:00.0", driver=None)  # GeForce GT 730
    return host.nvidia_driver("580.95.05").torch("2.9.1+cu128")


# --- places ------------------------------------------------------------------------------------------


@setup
def wsl2(host: Host) -> Host:
    host.ubuntu(kernel="5.15.167.4-microsoft-standard-WSL2").node("/dev/dxg")
    for name in ("libcuda.so.1.1", "libnvidia-ml.so.1", "libdxcore.so"):
        host.file(f"/usr/lib/wsl/lib/{name}", shared_library())
    host.link("/usr/lib/wsl/lib/libcuda.so.1", "libcuda.so.1.1").link("/usr/lib/wsl/lib/libcuda.so", "libcuda.so.1.1")
    host.file("/etc/ld.so.conf.d/ld.wsl.conf", "/usr/lib/wsl/lib\n").file(
        "/proc/version", "Linux version 5.15 microsoft\n"
    )
    host.command(
        "nvidia-smi",
        "Sat Nov 21 12:00:00 2026\n"
        "| NVIDIA-SMI 560.35.02              Driver Version: 560.94         CUDA Version: 12.6     |\n"
        "|   0  NVIDIA GeForce RTX 4070        On  |   00000000:01:00.0  On |                  N/A |\n",
    )
    return host.torch("2.9.1+cu126")


@setup
def jetson_orin_with_nvidias_wheel(host: Host) -> Host:
    host.ubuntu("22.04", kernel="5.15.148-tegra")
    host.file("/proc/device-tree/compatible", b"nvidia,p3737-0000+p3701-0005\0nvidia,p3701-0005\0nvidia,tegra234\0")
    host.file("/proc/device-tree/model", b"NVIDIA Jetson AGX Orin Developer Kit\0")
    host.file(
        "/etc/nv_tegra_release", "# R36 (release), REVISION: 4.3, GCID: 38968081, BOARD: generic, EABI: aarch64\n"
    )
    host.file(f"{host.lib}/nvidia/libcuda.so.1.1", shared_library(arch=host.arch))
    host.link(f"{host.lib}/nvidia/libcuda.so.1", "libcuda.so.1.1")
    host.file("/etc/ld.so.conf.d/nvidia-tegra.conf", f"{host.lib}/nvidia\n").module("nvgpu")
    for node in ("/dev/nvhost-gpu", "/dev/nvhost-ctrl", "/dev/nvmap", "/dev/nvidia0", "/dev/nvidiactl"):
        host.node(node)
    return host.torch("2.5.0a0+872d972e41.nv24.08", cuda="12.6", python="3.10")


@setup
def jetson_thor_with_the_wheel_of_the_index(host: Host) -> Host:
    """JetPack 7: the driver of servers, the GPU on a PCI bus, and the ordinary wheel for aarch64."""
    host.ubuntu("24.04", kernel="6.8.12-tegra").nvidia_gpu("2b00", pci_class="0x030200").nvidia_driver("580.00")
    host.file("/proc/device-tree/compatible", b"nvidia,p4071-0000+p3834-0008\0nvidia,p3834-0008\0nvidia,tegra264\0")
    host.file("/proc/device-tree/model", b"NVIDIA Jetson AGX Thor Developer Kit\0")
    host.file(
        "/etc/nv_tegra_release", "# R38 (release), REVISION: 2.0, GCID: 41844464, BOARD: generic, EABI: aarch64\n"
    )
    return host.torch("2.12.1", cuda="13.0")


@setup
def dgx_spark_with_the_wheel_of_the_index(host: Host) -> Host:
    host.ubuntu("24.04", kernel="6.14.0-1013-nvidia").nvidia_gpu("2e12", pci_class="0x030000")
    return host.nvidia_driver("580.95.05").torch("2.12.1", cuda="13.0")


@setup
def ngc_image(host: Host) -> Host:
    host.ubuntu().docker().nvidia_gpu("2330", pci_class="0x030200").nvidia_driver("580.95.05")
    host.environ(
        NVIDIA_VISIBLE_DEVICES="all",
        NVIDIA_PYTORCH_VERSION="25.10",
        NVIDIA_DRIVER_CAPABILITIES="compute,utility",
        LD_LIBRARY_PATH="/usr/local/cuda/compat/lib:/usr/local/nvidia/lib:/usr/local/nvidia/lib64",
    )
    host.file("/usr/local/cuda/compat/lib.real/libcuda.so.580.82.07", shared_library(soname="libcuda.so.1"))
    return host.torch("2.9.0a0+145a3a7bda.nv25.10", cuda="13.0")


@setup
def kubernetes_operator_with_cdi(host: Host) -> Host:
    host.ubuntu().docker().nvidia_gpu("2330", pci_class="0x030200").nvidia_driver("580.95.05")
    host.file("/var/run/secrets/kubernetes.io/serviceaccount/namespace", "default")
    return host.environ(NVIDIA_VISIBLE_DEVICES="void", KUBERNETES_SERVICE_HOST="10.0.0.1").torch("2.9.1+cu128")


@setup
def one_gpu_of_eight_granted(host: Host) -> Host:
    host.ubuntu().docker().nvidia_driver("580.95.05")
    for n in range(8):
        bdf = f"0000:{0x10 + n:02x}:00.0"
        if n == 3:
            host.nvidia_gpu("20b2", bdf, minor=3, pci_class="0x030200")
        else:
            host.pci(bdf, "10de", "20b2", driver="nvidia", pci_class="0x030200")
    return host.torch("2.9.1+cu128")


@setup
def one_amd_gpu_of_two_granted(host: Host) -> Host:
    host.ubuntu().docker().amd_gpu("744c", 110000)
    host.amd_gpu("73df", 100301, "0000:09:00.0", node=2, render=129)
    host.remove("/dev/dri/renderD129")
    host.node("/dev/dri/renderD129", "ENOENT")
    host.node("/sys/class/kfd/kfd/topology/nodes/2/properties", "EPERM")
    return host.torch("2.9.1+rocm6.4")


@setup
def a_mig_slice(host: Host) -> Host:
    host.ubuntu().docker().nvidia_gpu("20b2", pci_class="0x030200").nvidia_driver("580.95.05")
    host.node("/dev/nvidia-caps/nvidia-cap12").node("/dev/nvidia-caps/nvidia-cap13")
    host.environ(NVIDIA_VISIBLE_DEVICES="MIG-5c89852c-d268-c3f3-1b07-005d5ae1dc3f")
    return host.torch("2.9.1+cu128")


@setup
def vgpu_guest(host: Host) -> Host:
    host.ubuntu("22.04").nvidia_gpu("2236", pci_class="0x030200").nvidia_driver("570.133.20")
    host.file("/sys/class/dmi/id/sys_vendor", "QEMU\n").file("/sys/class/dmi/id/product_name", "Standard PC (Q35)\n")
    return host.file("/etc/nvidia/gridd.conf", "ServerAddress=\n").torch("2.9.1+cu128")


@setup
def hybrid_laptop_with_a_sleeping_gpu(host: Host) -> Host:
    host.ubuntu().pci("0000:00:02.0", "8086", "a7a0", driver="i915", boot_vga=True)
    host.nvidia_gpu("28e0").nvidia_driver("580.95.05").torch("2.9.1+cu128")
    return host.file("/sys/bus/pci/devices/0000:01:00.0/power/runtime_status", "suspended\n")


@setup
def prime_select_integrated(host: Host) -> Host:
    host.ubuntu().pci("0000:00:02.0", "8086", "a7a0", driver="i915", boot_vga=True).nvidia_gpu("28e0", driver=None)
    host.file("/etc/prime-discrete", "off\n")
    host.file(
        "/lib/modprobe.d/blacklist-nvidia.conf", "# made by prime-select\nblacklist nvidia\nblacklist nvidia-drm\n"
    )
    return host.torch("2.9.1+cpu")


@setup
def vfio_host(host: Host) -> Host:
    host.ubuntu().nvidia_gpu("2684", driver="vfio-pci").nvidia_gpu("2684", "0000:02:00.0", driver="vfio-pci")
    return host.module("vfio_pci").torch("2.9.1+cpu")


@setup
def one_gpu_for_a_virtual_machine_one_for_us(host: Host) -> Host:
    host.ubuntu().nvidia_gpu("2684").nvidia_gpu("1b06", "0000:02:00.0", driver="vfio-pci")
    return host.nvidia_driver("580.95.05").torch("2.9.1+cu128")


@setup
def nix(host: Host) -> Host:
    host.ubuntu().nvidia_gpu("2684").nvidia_driver("580.95.05", libraries=None)
    host.nvidia_libraries("580.95.05", "/run/opengl-driver/lib")
    return host.environ(LD_LIBRARY_PATH="/run/opengl-driver/lib").torch("2.9.1+cu128")


@setup
def hpc_modules(host: Host) -> Host:
    host.ubuntu("22.04").nvidia_gpu("20b2", pci_class="0x030200").nvidia_driver("580.95.05")
    for name, version in (("libcudart", "12.8.90"), ("libcublas", "12.8.4.1")):
        host.file(f"/apps/cuda/12.8/lib64/{name}.so.{version}", shared_library(soname=f"{name}.so.12"))
        host.link(f"/apps/cuda/12.8/lib64/{name}.so.12", f"{name}.so.{version}")
    host.environ(LD_LIBRARY_PATH="/apps/cuda/12.8/lib64", CUDA_HOME="/apps/cuda/12.8")
    return host.torch("2.9.1+cu128")


@setup
def slurm_cpu_task(host: Host) -> Host:
    host.ubuntu("22.04").nvidia_gpu("20b2", pci_class="0x030200").nvidia_driver("580.95.05")
    return host.environ(SLURM_JOB_ID="77", SLURM_CPUS_ON_NODE="8", CUDA_VISIBLE_DEVICES="").torch("2.9.1+cu128")


@setup
def ray_cpu_task(host: Host) -> Host:
    host.ubuntu("22.04").nvidia_gpu("20b2", pci_class="0x030200").nvidia_driver("580.95.05")
    return host.environ(RAY_JOB_ID="01000000", RAY_RAYLET_PID="12", CUDA_VISIBLE_DEVICES="").torch("2.9.1+cu128")


@setup
def a_deliberate_subset_of_gpus(host: Host) -> Host:
    host.ubuntu().nvidia_gpu("2204").nvidia_gpu("2204", "0000:02:00.0", minor=1)
    return host.nvidia_driver("580.95.05").environ(CUDA_VISIBLE_DEVICES="1").torch("2.9.1+cu128")


@setup
def old_xid_of_a_gpu_that_works_now(host: Host) -> Host:
    host.ubuntu().nvidia_gpu("2684").nvidia_driver("580.95.05").torch("2.9.1+cu128")
    return host.file(
        "/var/log/dmesg", "[  100.000000] NVRM: Xid (PCI:0000:01:00): 31, pid=4242, name=python, Ch 00000008\n"
    )


@setup
def aggregate_ecc_counts(host: Host) -> Host:
    host.ubuntu().nvidia_gpu("20b2", pci_class="0x030200").nvidia_driver("580.95.05").torch("2.9.1+cu128")
    return host.command(
        "nvidia-smi",
        "==============NVSMI LOG==============\n\n"
        "Driver Version                            : 580.95.05\nCUDA Version                              : 13.0\n"
        "Attached GPUs                             : 1\nGPU 00000000:01:00.0\n"
        "    Product Name                          : NVIDIA A100-SXM4-80GB\n"
        "    ECC Errors\n        Volatile\n            SRAM Uncorrectable            : 0\n"
        "            DRAM Uncorrectable            : 0\n        Aggregate\n"
        "            SRAM Uncorrectable            : 0\n            DRAM Uncorrectable            : 2\n",
    )


@setup
def a_mig_slice_in_a_container_of_which_only_the_list_was_recorded(host: Host) -> Host:
    host.ubuntu("22.04").nvidia_gpu("20b2", pci_class="0x030200").nvidia_driver("570.133.20").docker()
    return host.torch("2.7.1+cu128").command(
        "nvidia-smi -L",
        "GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-5a1b2c3d-0000-1111-2222-333344445555)\n"
        "  MIG 3g.40gb     Device  0: (UUID: MIG-6a1b2c3d-0000-1111-2222-333344445555)\n",
    )


@setup
def a_real_h100_in_a_micro_vm(host: Host) -> Host:
    """Recorded on 2026-11-27: 15 kernels of level quick and 82 of level standard computed right there."""
    host.ubuntu(kernel="6.18.44-fc-v657-gpu").nvidia_gpu("2330", "0000:00:06.0", pci_class="0x030200").docker()
    host.nvidia_driver("580.159.04").torch("2.11.0+cu130")
    query = (
        "==============NVSMI LOG==============\n\n"
        "Driver Version                                         : 580.159.04\n"
        "CUDA Version                                           : 13.0\n\n"
        "Attached GPUs                                          : 1\nGPU 00000000:00:06.0\n"
        "    Product Name                                       : NVIDIA H100 80GB HBM3\n"
        "    MIG Mode\n"
        "        Current                                        : Disabled\n"
        "        Pending                                        : Disabled\n"
        "    GPU UUID                                           : GPU-18181818-1818-1818-1818-181818181818\n"
        "    FB Memory Usage\n"
        "        Total                                          : 81559 MiB\n"
        "        Used                                           : 0 MiB\n"
    )
    listed = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-18181818-1818-1818-1818-181818181818)\n"
    return host.command("nvidia-smi -q", query).command("nvidia-smi -L", listed)


@setup
def hybrid_laptop_whose_graphics_have_no_kfd_node(host: Host) -> Host:
    host.ubuntu(kernel="6.14.0-27-generic").nvidia_gpu("28e0").nvidia_driver("580.95.05")
    host.amd_gpu("15bf", 110003, "0000:65:00.0", simds=24).remove("/dev/kfd").json["nodes"].pop("/dev/kfd")
    return host.torch("2.9.1+cu128")


# --- builds of torch ---------------------------------------------------------------------------------


@setup
def nightly(host: Host) -> Host:
    return host.ubuntu().nvidia_gpu("2b85").nvidia_driver("595.71.05").torch("2.15.0.dev20260821+cu130")


@setup
def conda_forge(host: Host) -> Host:
    host.ubuntu().nvidia_gpu("2684").nvidia_driver("580.95.05")
    prefix = host.path("/opt/conda/envs/ml")
    site = write_conda(prefix, python="3.12")
    write_conda_record(prefix, "pytorch", "2.7.1", "cuda128_mkl_py312_h1_300")
    write_torch(site, version="2.7.1", cuda="12.8", installer="conda")
    return host.environ(CONDA_PREFIX="/opt/conda/envs/ml")


@setup
def distribution_torch_for_cpu_without_a_gpu(host: Host) -> Host:
    host.ubuntu()
    host.file("/usr/bin/python3.12").link("/usr/bin/python3", "python3.12")
    write_torch(host.path("/usr/lib/python3/dist-packages"), version="2.6.0+debian", cuda=None, installer="debian")
    return host.environ(PATH="/usr/bin")


@setup
def no_gpu_and_no_torch(host: Host) -> Host:
    return host.ubuntu().venv()


@setup
def no_gpu_and_a_cpu_build(host: Host) -> Host:
    return host.ubuntu().torch("2.13.0+cpu", companions={"torchvision": "0.28.0+cpu"})


@setup
def companions_that_pair(host: Host) -> Host:
    host.ubuntu().nvidia_gpu("2684").nvidia_driver("580.95.05")
    return host.torch("2.9.1+cu128", companions={"torchvision": "0.24.1+cu128", "torchaudio": "2.9.1+cu128"})


@setup
def the_last_torchaudio_beside_a_newer_torch(host: Host) -> Host:
    host.ubuntu().nvidia_gpu("2684").nvidia_driver("580.95.05")
    return host.torch("2.13.0", cuda="13.0", companions={"torchvision": "0.28.0", "torchaudio": "2.11.0"})


@pytest.mark.parametrize("name", SETUPS)
def test_a_healthy_machine_is_silent(name: str, tmp_path: Path) -> None:
    report = SETUPS[name](Host(tmp_path, arch=arch_of_gpu(name))).check()
    told = [(f["slug"], f["severity"], f["message"]) for f in report["findings"] if f["severity"] != "note"]
    assert told == []
    open_questions = [(q["id"], q["why"]) for q in report["not_judged"] if q["matters"]]
    assert open_questions == []
    assert (report["verdict"], report["exit_code"]) == ("ok", 0)


def arch_of_gpu(name: str) -> str:
    return "aarch64" if "jetson" in name or "spark" in name else "x86_64"


def test_there_are_enough_of_them() -> None:
    assert len(SETUPS) >= 30


def test_notes_of_healthy_machines_are_not_shown_as_faults(tmp_path: Path) -> None:
    report = ryzen_igpu_beside_a_gpu(Host(tmp_path)).check()
    assert "error" not in {f["severity"] for f in report["findings"]}
    assert slugs(report, "warning") == []
