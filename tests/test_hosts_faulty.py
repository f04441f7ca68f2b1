"""Faulty machines, one root cause each: the first finding is the one to repair, the exit code is 1."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpudoctor.cli import gpudoctor
from tests.support.environments import shared_library, write_torch, write_venv
from tests.support.hosts import Host, first_fix

Setup = Callable[[Host], Host]
FAULTS: dict[str, tuple[str, str, Setup]] = {}
"""name: (slug of the first finding, text its best way out holds, the machine)"""


def fault(slug: str, fix: str = "") -> Callable[[Setup], Setup]:
    def register(function: Setup) -> Setup:
        FAULTS[function.__name__.replace("_", " ")] = (slug, fix, function)
        return function

    return register


def rtx_4090(host: Host, driver: str = "580.95.05", **options: str) -> Host:
    return host.ubuntu().nvidia_gpu("2684").nvidia_driver(driver, **options)  # type: ignore[arg-type]


# --- torch does not fit the GPU ----------------------------------------------------------------------


def with_glibc(host: Host, version: str) -> Host:
    content = shared_library(soname="libc.so.6", defines=("GLIBC_2.2.5", f"GLIBC_{version}", "GLIBC_PRIVATE"))
    return host.file(f"{host.lib}/libc.so.6", content)


def for_glibc(version: str, cxx: str = "3.4.9") -> dict[str, bytes]:
    """Libraries of a torch that asks for a C library, and a C++ one."""
    needs = {"libc.so.6": [f"GLIBC_{version}"], "libstdc++.so.6": [f"GLIBCXX_{cxx}"]}
    return {"libc10.so": shared_library(needed=("libc.so.6", "libstdc++.so.6"), needs=needs)}


@fault("torch-import-fails", "torch==2.6.0")
def torch_for_a_newer_glibc(host: Host) -> Host:
    return with_glibc(rtx_4090(host), "2.17").torch("2.9.1+cu128", libraries=for_glibc("2.28"))


@fault("torch-import-fails", "torch==2.6.0")
def torch_for_a_newer_glibc_and_libstdcxx(host: Host) -> Host:
    old = shared_library(soname="libstdc++.so.6", defines=("GLIBCXX_3.4.19",))
    with_glibc(rtx_4090(host), "2.17").file(f"{host.lib}/libstdc++.so.6", old)
    return host.torch("2.9.1+cu128", libraries=for_glibc("2.28", cxx="3.4.25"))


@fault("torch-import-fails", "python:3.12-slim")
def torch_wheel_on_musl(host: Host) -> Host:
    rtx_4090(host).remove(f"{host.lib}/libc.so.6").file("/lib/ld-musl-x86_64.so.1", shared_library())
    return host.torch("2.9.1+cu128", libraries=for_glibc("2.28"))


@fault("torch-no-arch-for-gpu", "glibc 2.28")
def rtx_5090_where_no_wheel_with_its_code_can_be_loaded(host: Host) -> Host:
    return with_glibc(host.ubuntu().nvidia_gpu("2b85").nvidia_driver("570.133.07"), "2.26").torch("2.6.0+cu124")


@fault("torch-no-arch-for-gpu", "torch==2.7.0+cu128")
def rtx_5090_with_cu124(host: Host) -> Host:
    return host.ubuntu().nvidia_gpu("2b85").nvidia_driver("570.133.07").torch("2.6.0+cu124")


@fault("torch-no-arch-for-gpu", "torch==2.9.1+cu130")  # the driver serves CUDA 13.0, so its nearest build
def rtx_5060_ti_with_the_cu126_build(host: Host) -> Host:
    return host.ubuntu().nvidia_gpu("2d04").nvidia_driver("580.95.05").torch("2.9.1+cu126")


@fault("torch-no-arch-for-gpu")
def rtx_4090_with_an_ancient_cu116(host: Host) -> Host:
    # sm_86 code runs on sm_89; sm_90 has nothing in a CUDA 11.6 build
    host.ubuntu("22.04").nvidia_gpu("2330", pci_class="0x030200").nvidia_driver("580.95.05")
    return host.torch("1.13.1+cu116", python="3.10")


@fault("torch-dropped-old-gpu", "cu126")
def gtx_1080_ti_with_cu128(host: Host) -> Host:
    host.ubuntu().nvidia_gpu("1b06").nvidia_driver("580.95.05", flavour="proprietary")
    return host.torch("2.9.1+cu128")


@fault("torch-dropped-old-gpu", "cu126")
def v100_with_cu130(host: Host) -> Host:
    host.ubuntu("22.04").nvidia_gpu("1db1", pci_class="0x030200").nvidia_driver("580.95.05", flavour="proprietary")
    return host.torch("2.13.0", cuda="13.0")


@fault("torch-dropped-old-gpu", "cu118")
def k80_with_cu121(host: Host) -> Host:
    host.ubuntu("20.04", kernel="5.4.0-150-generic").nvidia_gpu("102d", pci_class="0x030200")
    return host.nvidia_driver("470.239.06", flavour="proprietary").torch("2.1.2+cu121", python="3.10")


@fault("torch-rocm-no-arch-for-gpu", "device-gfx1031")
def rx_6700_xt_with_a_rocm_wheel(host: Host) -> Host:
    return host.ubuntu().amd_gpu("73df", 100301).torch("2.9.1+rocm6.4")


@fault("torch-rocm-no-arch-for-gpu")
def rx_5700_xt_with_a_rocm_wheel(host: Host) -> Host:
    return host.ubuntu().amd_gpu("731f", 100100, memory=8 << 30).torch("2.9.1+rocm6.4")


@fault("rocblas-no-arch", "rocm6.3")
def mi50_with_a_rocblas_that_dropped_it(host: Host) -> Host:
    return host.ubuntu("22.04").amd_gpu("66a1", 90006, memory=16 << 30).torch("2.9.1+rocm6.4")


@fault("torch-cpu-only", "torch==2.13.0+cu130")
def cpu_build_beside_an_rtx_4070(host: Host) -> Host:
    return host.ubuntu().nvidia_gpu("2786").nvidia_driver("580.95.05").torch("2.13.0+cpu")


@fault("torch-cpu-only", "rocm")
def cpu_build_beside_a_7900_xtx(host: Host) -> Host:
    return host.ubuntu().amd_gpu("744c", 110000, memory=24 << 30).torch("2.9.1+cpu")


@fault("cuda-torch-on-amd", "rocm")
def cuda_build_beside_a_7900_xtx(host: Host) -> Host:
    return host.ubuntu().amd_gpu("744c", 110000, memory=24 << 30).torch("2.9.1", cuda="12.8")


@fault("torch-wrong-build-or-cpu", "cu")
def rocm_build_beside_an_rtx_4090(host: Host) -> Host:
    return rtx_4090(host).torch("2.9.1+rocm6.4")


# --- overrides and other variables ------------------------------------------------------------------


@fault("hsa-override-wrong")
def an_override_across_generations(host: Host) -> Host:
    return host.ubuntu().amd_gpu("73df", 100301).torch("2.9.1+rocm6.4").environ(HSA_OVERRIDE_GFX_VERSION="11.0.0")


@fault("hsa-override-wrong")
def an_empty_override(host: Host) -> Host:
    return host.ubuntu().amd_gpu("744c", 110000).torch("2.9.1+rocm6.4").environ(HSA_OVERRIDE_GFX_VERSION="")


@fault("cuda-visible-devices")
def an_index_that_is_not_there(host: Host) -> Host:
    return rtx_4090(host).torch("2.9.1+cu128").environ(CUDA_VISIBLE_DEVICES="1")


@fault("cuda-visible-devices")
def an_empty_variable_outside_any_job(host: Host) -> Host:
    return rtx_4090(host).torch("2.9.1+cu128").environ(CUDA_VISIBLE_DEVICES="")


@fault("cuda-visible-devices")
def a_rocr_index_that_is_not_there(host: Host) -> Host:
    return host.ubuntu().amd_gpu("744c", 110000).torch("2.9.1+rocm6.4").environ(ROCR_VISIBLE_DEVICES="3")


@fault("torch-rocm-no-arch-for-gpu", "HIP_VISIBLE_DEVICES 0")
def a_variable_that_leaves_only_the_igpu(host: Host) -> Host:
    host.ubuntu().amd_gpu("744c", 110000).amd_gpu("164e", 100306, "0000:0f:00.0", node=2, render=129, simds=2)
    return host.torch("2.9.1+rocm6.4").environ(HIP_VISIBLE_DEVICES="1")


@fault("amd-igpu-interferes")
def an_igpu_that_comes_first(host: Host) -> Host:
    host.ubuntu().amd_gpu("164e", 100306, "0000:01:00.0", node=1, render=128, simds=2)
    return host.amd_gpu("744c", 110000, node=2, render=129).torch("2.9.1+rocm6.4")


# --- the NVIDIA driver ---------------------------------------------------------------------------------


@fault("driver-too-old", "torch==2.11.0+cu128")
def a_driver_below_the_floor_of_cuda_13(host: Host) -> Host:
    return host.ubuntu().nvidia_gpu("2b85").nvidia_driver("570.133.07").torch("2.13.0+cu130")


@fault("driver-too-old")
def a_driver_below_the_floor_of_cuda_12(host: Host) -> Host:
    host.ubuntu("22.04").nvidia_gpu("2204").nvidia_driver("470.256.02", flavour="proprietary")
    return host.torch("2.6.0+cu124")


@fault("driver-lib-mismatch")
def libraries_older_than_the_module(host: Host) -> Host:
    return rtx_4090(host, "580.95.05", libraries="580.65.06").torch("2.9.1+cu128")


@fault("driver-installed-no-reboot", "reboot")
def a_driver_update_without_a_reboot(host: Host) -> Host:
    rtx_4090(host, "575.64.03", libraries="580.95.05").torch("2.9.1+cu128")
    host.file("/var/lib/dkms/nvidia/580.95.05/6.8.0-60-generic/x86_64/module/nvidia.ko", "")
    return host.file(
        "/lib/modules/6.8.0-60-generic/updates/dkms/nvidia.ko", b"version=580.95.05\0license=Dual MIT/GPL\0"
    )


@fault("no-driver", "580")
def a_gpu_without_any_driver(host: Host) -> Host:
    host.ubuntu().nvidia_gpu("2684", driver=None).torch("2.9.1+cu128")
    host.path("/lib/modules/6.8.0-60-generic/kernel").mkdir(parents=True)
    return host


@fault("nouveau-conflict")
def nouveau_holds_the_gpu(host: Host) -> Host:
    return host.ubuntu().nvidia_gpu("2684", driver="nouveau").module("nouveau").torch("2.9.1+cu128")


@fault("nouveau-conflict")
def nova_core_holds_the_gpu(host: Host) -> Host:
    return host.ubuntu("26.04").nvidia_gpu("2684", driver="nova_core").module("nova_core").torch("2.9.1+cu128")


@fault("nvidia-driver-dropped-gpu", "580")
def a_590_driver_for_a_pascal_gpu(host: Host) -> Host:
    host.ubuntu().nvidia_gpu("1b06", driver=None).nvidia_driver("590.48.01", flavour="proprietary")
    return host.torch("2.9.1+cu126")


@fault("blackwell-open-module", "open")
def proprietary_modules_on_blackwell(host: Host) -> Host:
    host.ubuntu().nvidia_gpu("2b85", driver=None).nvidia_driver("580.95.05", flavour="proprietary")
    return host.torch("2.9.1+cu128")


@fault("open-module-unsupported-gpu")
def open_modules_on_pascal(host: Host) -> Host:
    host.ubuntu().nvidia_gpu("1b06", driver=None).nvidia_driver("580.95.05", flavour="open")
    return host.torch("2.9.1+cu126")


@fault("nvidia-dkms-kernel-mismatch")
def a_module_built_for_the_kernel_before(host: Host) -> Host:
    host.ubuntu(kernel="6.8.0-61-generic").nvidia_gpu("2684", driver=None).nvidia_libraries("580.95.05")
    host.file("/lib/modules/6.8.0-60-generic/updates/dkms/nvidia.ko", b"version=580.95.05\0")
    host.file("/lib/modules/6.8.0-61-generic/modules.dep", "")
    host.file("/var/lib/dkms/nvidia/580.95.05/6.8.0-60-generic/x86_64/module/nvidia.ko", "")
    return host.torch("2.9.1+cu128")


@fault("nvidia-dkms-kernel-mismatch", "dkms install nvidia/580.95.05 -k 6.8.0-62-generic")
def a_blackwell_gpus_module_built_for_the_kernel_before(host: Host) -> Host:
    # Nothing tells the module's flavour: it is not taken for one that the GPU refuses.
    host.ubuntu(kernel="6.8.0-62-generic").nvidia_gpu("2b85", driver=None).nvidia_libraries("580.95.05")
    host.file("/lib/modules/6.8.0-60-generic/updates/dkms/nvidia.ko", b"version=580.95.05\0")
    host.file("/lib/modules/6.8.0-62-generic/modules.dep", "")
    host.file("/var/lib/dkms/nvidia/580.95.05/6.8.0-60-generic/x86_64/module/nvidia.ko", "")
    return host.torch("2.9.1+cu128")


@fault("module-blacklisted")
def a_blacklisted_nvidia_module(host: Host) -> Host:
    host.ubuntu().nvidia_gpu("2684", driver=None).nvidia_libraries("580.95.05")
    host.file("/lib/modules/6.8.0-60-generic/updates/dkms/nvidia.ko", b"version=580.95.05\0")
    host.file("/etc/modprobe.d/local.conf", "blacklist nvidia\ninstall nvidia /bin/false\n")
    return host.torch("2.9.1+cu128")


@fault("secure-boot-module-rejected")
def an_unsigned_module_under_secure_boot(host: Host) -> Host:
    host.ubuntu().nvidia_gpu("2684", driver=None).nvidia_libraries("580.95.05")
    host.file("/lib/modules/6.8.0-60-generic/updates/dkms/nvidia.ko", b"version=580.95.05\0")
    host.file("/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c", b"\6\0\0\0\1")
    host.file("/var/log/dmesg", "[    5.100000] Loading of module with unavailable key is rejected\n")
    return host.torch("2.9.1+cu128")


@fault("nvidia-dkms-kernel-mismatch", "reboot")
def arch_before_the_reboot_into_its_new_kernel(host: Host) -> Host:
    """pacman has replaced the running kernel's modules; headers for it are in no repository any more."""
    host.ubuntu(kernel="6.16.3-arch1-1").nvidia_gpu("2684", driver=None).nvidia_libraries("580.95.05", "/usr/lib")
    host.file("/etc/os-release", 'ID=arch\nPRETTY_NAME="Arch Linux"\n')
    return host.file("/usr/lib/modules/6.17.1-arch1-1/extramodules/nvidia.ko.zst").torch("2.9.1+cu128")


def failed_build(host: Host, tree: str) -> Host:
    """DKMS leaves the log of a build that failed where it was built."""
    name, _, version = tree.partition("/")
    kernel = host.json["uname"]["release"]
    log = f"DKMS make.log for {name}-{version} for kernel {kernel} (x86_64)\nmake: *** [Makefile:115] Error 2\n"
    return host.file(f"/var/lib/dkms/{tree}/build/make.log", log).file(f"/lib/modules/{kernel}/modules.dep")


@fault("nvidia-dkms-kernel-mismatch", "nvidia-driver-580-open")
def a_driver_whose_build_failed_on_the_new_kernel(host: Host) -> Host:
    host.ubuntu(kernel="6.17.0-8-generic").nvidia_gpu("2504", driver=None).nvidia_libraries("550.120")
    host.file("/lib/modules/6.8.0-60-generic/updates/dkms/nvidia.ko", b"version=550.120\0")
    return failed_build(host, "nvidia/550.120").torch("2.6.0+cu124")


@fault("nvidia-dkms-kernel-mismatch", "dkms install nvidia/580.95.05 -k 6.8.0-62-generic")
def a_build_that_failed_for_another_kernel_than_the_running_one(host: Host) -> Host:
    host.ubuntu(kernel="6.17.0-8-generic").nvidia_gpu("2684", driver=None).nvidia_libraries("580.95.05")
    host.file("/lib/modules/6.8.0-60-generic/updates/dkms/nvidia.ko", b"version=580.95.05\0")
    failed_build(host, "nvidia/580.95.05").json["uname"]["release"] = "6.8.0-62-generic"
    return host.file("/lib/modules/6.8.0-62-generic/modules.dep").torch("2.9.1+cu128")


@fault("nvidia-dkms-kernel-mismatch", "reboot")
def a_newer_driver_that_was_built_where_an_older_one_failed(host: Host) -> Host:
    host.ubuntu(kernel="6.14.0-37-generic").nvidia_gpu("2684", driver=None).nvidia_libraries("580.95.05")
    failed_build(host, "nvidia/550.120").json["uname"]["release"] = "6.8.0-62-generic"
    host.file("/lib/modules/6.8.0-62-generic/modules.dep")
    host.file("/lib/modules/6.14.0-37-generic/updates/dkms/nvidia.ko", b"version=580.95.05\0")
    return host.torch("2.9.1+cu128")


@fault("nvidia-dkms-kernel-mismatch", "dkms install nvidia/580.95.05 -k 6.14.0-37-generic")
def a_newer_driver_that_was_never_built_where_an_older_one_failed(host: Host) -> Host:
    host.ubuntu(kernel="6.14.0-37-generic").nvidia_gpu("2684", driver=None).nvidia_libraries("580.95.05")
    host.file("/var/lib/dkms/nvidia/580.95.05/source/dkms.conf")
    host.file("/lib/modules/6.8.0-60-generic/updates/dkms/nvidia.ko", b"version=580.95.05\0")
    return failed_build(host, "nvidia/550.120").torch("2.9.1+cu128")


@fault("amd-dkms-kernel-mismatch", "apt-get remove -y amdgpu-dkms")
def an_amdgpu_dkms_whose_build_failed_on_the_new_kernel(host: Host) -> Host:
    host.ubuntu(kernel="6.14.0-27-generic").amd_gpu("744c", 110000, driver=None, kfd=False)
    return failed_build(host, "amdgpu/6.12.13-2194681.24.04").torch("2.9.1+rocm6.4")


@fault("fabric-manager-not-running")
def an_nvswitch_machine_without_its_fabric_manager(host: Host) -> Host:
    host.ubuntu("22.04").nvidia_driver("570.133.20")
    for n in range(8):
        host.nvidia_gpu("2330", f"0000:{0x10 + n:02x}:00.0", minor=n, pci_class="0x030200")
    for n in range(4):
        host.pci(f"0000:0{n + 1}:00.0", "10de", "22a3", pci_class="0x068000", driver="nvidia-nvswitch")
        host.node(f"/dev/nvidia-nvswitch{n}")
    return host.node("/dev/nvidia-nvswitchctl").file("/proc/1/comm", "systemd\n").torch("2.9.1+cu128")


@fault("fabric-manager-not-running", "systemctl enable --now nvidia-fabricmanager")
def a_stopped_fabric_manager_whose_version_nothing_tells(host: Host) -> Host:
    for number in range(4):
        host.pci(f"0000:{number + 0x80:02x}:00.0", "10de", "22a3", pci_class="0x068000")
    host.ubuntu("22.04").nvidia_gpu("2330", pci_class="0x030200").nvidia_driver("580.95.05")
    return host.file("/usr/bin/nv-fabricmanager").file("/proc/1/comm", "systemd\n").torch("2.9.1+cu128")


@fault("cuda-compat-on-geforce")
def compat_libraries_before_a_geforces_driver(host: Host) -> Host:
    rtx_4090(host, "550.163.01").torch("2.9.1+cu128")
    host.nvidia_libraries("575.57.08", "/usr/local/cuda/compat")
    return host.environ(LD_LIBRARY_PATH="/usr/local/cuda/compat")


@fault("no-driver", "libnvidia-compute-580")
def a_driver_without_its_libraries(host: Host) -> Host:
    host.ubuntu().nvidia_gpu("2684").nvidia_driver("580.95.05", libraries=None)
    host.file("/usr/lib/x86_64-linux-gnu/libc.so.6", shared_library(soname="libc.so.6"))
    return host.torch("2.9.1+cu128")


def jetson(root: Path) -> Host:
    """An Orin with NVIDIA's own torch, and no CUDA library on the load path."""
    host = Host(root, arch="aarch64").ubuntu("22.04", kernel="5.15.148-tegra").module("nvgpu")
    host.file("/proc/device-tree/compatible", b"nvidia,p3737-0000+p3701-0005\0nvidia,tegra234\0")
    host.file("/etc/nv_tegra_release", "# R36 (release), REVISION: 4.3, GCID: 38968081, BOARD: generic\n")
    for node in ("/dev/nvhost-gpu", "/dev/nvmap", "/dev/nvidia0", "/dev/nvidiactl"):
        host.node(node)
    return host.torch("2.5.0a0+872d972e41.nv24.08", cuda="12.6", python="3.10")


@fault("no-driver", "apt-get install nvidia-l4t-cuda")
def a_jetson_without_its_cuda_library(host: Host) -> Host:
    return jetson(host.root)


@fault("no-driver", "LD_LIBRARY_PATH /usr/lib/aarch64-linux-gnu/tegra")  # NVIDIA/nvidia-docker#1709
def a_jetson_whose_cuda_library_the_loader_does_not_look_for(host: Host) -> Host:
    host = jetson(host.root)
    return host.file(f"{host.lib}/tegra/libcuda.so.1", shared_library(soname="libcuda.so.1", arch="aarch64"))


@fault("container-no-gpu", "docker run --runtime nvidia")
def a_container_on_a_jetson_that_was_started_without_its_gpu(host: Host) -> Host:
    host = jetson(host.root).docker()
    for node in tuple(host.json["nodes"]):
        host.remove(node)
    host.json["nodes"].clear()
    return host


@fault("no-gpu", "reboot")
def a_gpu_whose_node_fails_where_nobody_may_read_the_log(host: Host) -> Host:
    return rtx_4090(host).node("/dev/nvidia0", "EIO").torch("2.9.1+cu128")


@fault("no-gpu", "reboot; the kernel log")
def a_gpu_whose_node_fails_beside_one_that_a_virtual_machine_has(host: Host) -> Host:
    host.ubuntu().nvidia_gpu("2504", "0000:09:00.0", driver="vfio-pci").amd_gpu("73bf", 100300)
    return host.node("/dev/dri/renderD128", "EIO").torch("2.9.1+rocm6.4")


@fault("no-gpu", "reboot")
def a_laptop_whose_nvidia_node_fails_beside_amds_graphics(host: Host) -> Host:
    rtx_4090(host).amd_gpu("15bf", 110003, "0000:65:00.0", simds=24).node("/dev/nvidia0", "EIO")
    return host.torch("2.9.1+cu128")


@fault("no-gpu", "reboot the host")  # ROCm/legacy-rocm-build#4043
def a_container_in_which_kfd_fails(host: Host) -> Host:
    host.ubuntu().amd_gpu("74a1", 90402).docker().node("/dev/kfd", "EINVAL", gid=109)
    return host.torch("2.9.1+rocm6.4")


@fault("amd-kfd-missing", "the kernel log")
def one_of_two_equal_gpus_that_kfd_does_not_list(host: Host) -> Host:
    host.ubuntu("22.04").amd_gpu("740f", 90010).torch("2.9.1+rocm6.4")
    return host.amd_gpu("740f", 90010, "0000:43:00.0", render=129, kfd=False)


@fault("driver-lib-mismatch", "unset LD_LIBRARY_PATH")  # llm-d/llm-d#706
def compat_libraries_that_are_older_than_the_driver(host: Host) -> Host:
    host.ubuntu("22.04").nvidia_gpu("20b2", pci_class="0x030200").nvidia_driver("550.163.01")
    host.nvidia_libraries("520.61.05", "/usr/local/cuda-11.8/compat").torch("2.6.0+cu124")
    return host.environ(LD_LIBRARY_PATH="/usr/local/cuda-11.8/compat")


@fault("libcuda-stub", "LD_LIBRARY_PATH /usr/local/cuda/lib64")
def the_toolkits_stub_beside_the_toolkit_itself(host: Host) -> Host:
    rtx_4090(host).torch("2.9.1+cu128")
    host.file("/usr/local/cuda/lib64/stubs/libcuda.so.1", shared_library(soname="libcuda.so.1"))
    return host.environ(LD_LIBRARY_PATH="/usr/local/cuda/lib64/stubs:/usr/local/cuda/lib64")


@fault("libcuda-stub")
def the_toolkits_stub_before_the_driver(host: Host) -> Host:
    rtx_4090(host).torch("2.9.1+cu128")
    host.file("/usr/local/cuda/lib64/stubs/libcuda.so.1", shared_library(soname="libcuda.so.1"))
    return host.environ(LD_LIBRARY_PATH="/usr/local/cuda/lib64/stubs")


# --- access ------------------------------------------------------------------------------------------------


@fault("container-no-gpu", "--gpus")
def a_container_started_without_gpus(host: Host) -> Host:
    host.ubuntu().docker().pci("0000:01:00.0", "10de", "2684", driver="nvidia").torch("2.9.1+cu128")
    return host.file("/sys/module/nvidia/version", "580.95.05\n")


@fault("container-no-gpu", "/dev/kfd")
def a_container_started_without_kfd(host: Host) -> Host:
    host.ubuntu().docker().pci("0000:03:00.0", "1002", "744c", driver="amdgpu").torch("2.9.1+rocm6.4")
    return host.file("/sys/module/amdgpu/refcnt", "3\n")


@fault("container-cgroup-revoked", "create it again")
def a_revoked_device_cgroup(host: Host) -> Host:
    host.ubuntu().docker().nvidia_gpu("2684").nvidia_driver("580.95.05").torch("2.9.1+cu128")
    return host.node("/dev/nvidiactl", "EPERM").node("/dev/nvidia0", "EPERM").node("/dev/nvidia-uvm", "EPERM")


@fault("nvidia-uvm-missing")
def a_container_without_the_uvm_node(host: Host) -> Host:
    host.ubuntu().docker().nvidia_gpu("2684").nvidia_driver("580.95.05", uvm=False)
    return host.torch("2.9.1+cu128")


@fault("gpu-device-permission")
def nodes_for_a_group_one_is_not_in(host: Host) -> Host:
    rtx_4090(host).torch("2.9.1+cu128")
    return host.node("/dev/nvidiactl", "EACCES", mode="0660", gid=44).node(
        "/dev/nvidia0", "EACCES", mode="0660", gid=44
    )


@fault("amd-device-permission", "render")
def kfd_for_a_group_one_is_not_in(host: Host) -> Host:
    host.ubuntu().amd_gpu("744c", 110000).torch("2.9.1+rocm6.4")
    host.json["user"]["gids"] = [1000]
    host.node("/dev/kfd", "EACCES", mode="0660", gid=992)
    return host.node("/dev/dri/renderD128", "EACCES", mode="0660", gid=992)


@fault("amd-kfd-missing")
def amdgpu_without_kfd(host: Host) -> Host:
    host.ubuntu().amd_gpu("744c", 110000, kfd=False).torch("2.9.1+rocm6.4")
    host.path("/sys/class/kfd").mkdir(parents=True, exist_ok=True)
    return host


@fault("amd-pcie-atomics")
def a_slot_without_pcie_atomics(host: Host) -> Host:
    host.ubuntu().amd_gpu("73ff", 100302, kfd=False).torch("2.9.1+rocm6.4").node("/dev/kfd", mode="0660", gid=992)
    host.path("/sys/class/kfd/kfd/topology/nodes/0").mkdir(parents=True)
    host.file("/sys/class/kfd/kfd/topology/nodes/0/properties", "cpu_cores_count 32\nsimd_count 0\n")
    return host.file(
        "/var/log/dmesg", "[    4.123456] kfd kfd: amdgpu: skipped device 1002:73ff, PCI rejects atomics 730<0\n"
    )


# --- packages ------------------------------------------------------------------------------------------------


@fault("torchvision-mismatch", "torchvision==0.24.1")
def a_torchvision_of_another_torch(host: Host) -> Host:
    return rtx_4090(host).torch("2.9.1+cu128", companions={"torchvision": "0.21.0+cu124"})


@fault("torchaudio-mismatch")
def a_torchaudio_of_another_torch(host: Host) -> Host:
    return rtx_4090(host).torch("2.9.1+cu128", companions={"torchaudio": "2.6.0+cu124"})


@fault("numpy2-old-torch", "numpy")
def numpy_2_with_an_old_torch(host: Host) -> Host:
    return rtx_4090(host).torch("2.2.2+cu121", python="3.11").package("numpy", "2.1.3")


@fault("torch-install-damaged")
def a_truncated_library(host: Host) -> Host:
    rtx_4090(host).torch("2.9.1+cu128")
    assert host.site is not None
    library = host.site / "torch/lib/libtorch_cuda.so"
    library.write_bytes(library.read_bytes()[:100])
    return host


@fault("torch-shadowed")
def another_torch_on_pythonpath(host: Host) -> Host:
    rtx_4090(host).torch("2.9.1+cu128")
    host.file("/srv/old/torch/version.py", "__version__ = '1.13.1+cu117'\ncuda = '11.7'\nhip = None\n")
    host.file("/srv/old/torch/__init__.py", "")
    return host.environ(PYTHONPATH="/srv/old")


@fault("xformers-mismatch")
def xformers_of_another_torch(host: Host) -> Host:
    return rtx_4090(host).torch("2.9.1+cu128").package("xformers", "0.0.28.post3", requires=["torch==2.5.1"])


@fault("no-gpu")
def a_cuda_build_on_a_computer_without_a_gpu(host: Host) -> Host:
    return host.ubuntu().torch("2.9.1+cu128")


@fault("job-without-gpu")
def a_slurm_job_that_was_given_no_gpu(host: Host) -> Host:
    host.ubuntu("22.04").nvidia_driver("580.95.05").nvidia_gpu("20b2", pci_class="0x030200")
    host.environ(SLURM_JOB_ID="77", SLURM_JOB_PARTITION="gpu", SLURM_GPUS_ON_NODE="0")
    host.node("/dev/nvidia0", "EPERM")
    return host.torch("2.9.1+cu128")


@pytest.mark.parametrize("name", FAULTS)
def test_the_first_finding_is_the_cause(name: str, tmp_path: Path) -> None:
    slug, fix, build = FAULTS[name]
    report = build(Host(tmp_path)).check()
    told = [(f["slug"], f["severity"], f["message"]) for f in report["findings"]]
    assert told, "nothing was found"
    assert told[0][:2] == (slug, "error"), told
    assert (report["verdict"], report["exit_code"]) == ("error", 1)
    assert report["findings"][0]["fixes"], "a fault without a way out"
    assert fix.lower() in first_fix(report).lower()


def test_there_are_enough_of_them() -> None:
    assert len(FAULTS) >= 40
    assert len({slug for slug, _, _ in FAULTS.values()}) >= 30


def test_a_needed_override_is_a_warning_not_an_error(tmp_path: Path) -> None:
    host = Host(tmp_path).ubuntu().amd_gpu("73df", 100301).torch("2.9.1+rocm6.4")
    report = host.environ(HSA_OVERRIDE_GFX_VERSION="10.3.0").check()
    first = report["findings"][0]
    assert (first["slug"], first["severity"]) == ("torch-rocm-no-arch-for-gpu", "warning")
    assert (report["verdict"], report["exit_code"]) == ("warning", 0)


@pytest.mark.parametrize("file", ["torch.py", "torch/__init__.py"])
def test_a_torch_in_the_working_folder_is_named(tmp_path, monkeypatch, file):
    """The checkout of PyTorch that somebody builds from, or a script called torch.py."""
    site = write_venv(tmp_path / "venv")
    write_torch(site, version="2.9.1+cu128", cuda="12.8")
    (tmp_path / "work" / file).parent.mkdir(parents=True)
    (tmp_path / "work" / file).write_text("")
    arguments = ["check", "--level", "static", "--gpu", "RTX 4090", "--driver", "580.95.05", "--format", "json"]
    for folder, expected in (("work", True), ("venv", False)):
        monkeypatch.chdir(tmp_path / folder)
        result = CliRunner().invoke(gpudoctor, [*arguments, "--python", str(tmp_path / "venv")])
        findings = json.loads(result.stdout)["findings"]
        assert ("torch-shadowed" in [f["slug"] for f in findings if f["severity"] == "warning"]) is expected


@pytest.mark.parametrize(
    ("file", "weight"), [("580.95.05/gsp_ga10x.bin", None), ("570.86.15/gsp_ga10x.bin", "error")]
)
def test_the_drivers_firmware_is_looked_for_where_the_kernel_looks(tmp_path, file, weight):
    host = Host(tmp_path / "host").ubuntu().nvidia_gpu("2684").nvidia_driver("580.95.05").torch("2.9.1+cu128")
    host.file(f"/lib/firmware/nvidia/{file}", b"x").file("/lib/firmware/regulatory.db", b"x")
    load = "nvidia 0000:01:00.0: Direct firmware load for nvidia/580.95.05/gsp_ga10x.bin failed with error -2"
    host.file("/var/log/dmesg", f"[    5.1] {load}\n")
    findings = {finding["slug"]: finding["severity"] for finding in host.check()["findings"]}
    assert findings.get("nvidia-firmware-missing") == weight
