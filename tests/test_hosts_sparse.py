"""Recordings that hold little: what is missing is unknown, never a fault; what is there counts all the same.

And what the driver's own tools said, where that is nearly all there is.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.hosts import Host, first_fix, slugs

GPU = "/sys/bus/pci/devices/0000:01:00.0"
NODES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm")
BANNER = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs-builder@U22)\n"
LOST_RIGHTS = "Failed to initialize NVML: Unknown Error\n"


def bare(tmp_path: Path, *, torch: str = "2.9.1+cu128") -> Host:
    """An RTX 4090 by the fewest files: the bus, the driver's banner, plain files for nodes, a venv."""
    host = Host(tmp_path)
    host.file(f"{GPU}/vendor", "0x10de\n").file(f"{GPU}/device", "0x2684\n").file(f"{GPU}/class", "0x030000\n")
    host.file("/proc/driver/nvidia/version", BANNER)
    for path in NODES:
        host.file(path)
    return host.torch(torch)


def test_a_handful_of_files_is_enough(tmp_path: Path) -> None:
    report = bare(tmp_path).check()
    assert (report["verdict"], report["findings"]) == ("ok", [])


def _no_class(host: Host) -> Host:
    return host.remove(f"{GPU}/class")


def _a_dangling_driver_link(host: Host) -> Host:
    host.file(f"{GPU}/uevent", "PCI_CLASS=30000\nPCI_ID=10DE:2684\nPCI_SLOT_NAME=0000:01:00.0\n")
    return host.link(f"{GPU}/driver", "../../../../bus/pci/drivers/nvidia")


def _a_link_that_became_a_file(host: Host) -> Host:
    return host.file(f"{GPU}/driver", "../../../../bus/pci/drivers/nvidia")


def _bound_by_proc_alone(host: Host) -> Host:
    host.file(f"{GPU}/uevent", "PCI_CLASS=30000\nPCI_ID=10DE:2684\nPCI_SLOT_NAME=0000:01:00.0\n")
    return host.file("/proc/driver/nvidia/gpus/0000:01:00.0/information", "Device Minor: \t 0\n")


def _nodes_by_name_alone(host: Host) -> Host:
    for path in NODES:
        host.remove(path).json["nodes"][path] = {"open": "ok"}
    return host


def _no_nodes_at_all(host: Host) -> Host:
    for path in NODES:
        host.remove(path)
    return host


@pytest.mark.parametrize(
    "change",
    [
        _no_class,
        _a_dangling_driver_link,
        _a_link_that_became_a_file,
        _bound_by_proc_alone,
        _nodes_by_name_alone,
        _no_nodes_at_all,
    ],
)
def test_the_same_gpu_told_otherwise(tmp_path: Path, change: Callable[[Host], Host]) -> None:
    report = change(bare(tmp_path)).check()
    assert (report["verdict"], report["findings"]) == ("ok", [])
    assert report["machine"]["gpus"][0]["name"] == "NVIDIA GeForce RTX 4090"


def test_another_driver_by_a_dangling_link(tmp_path: Path) -> None:
    host = bare(tmp_path).remove("/proc/driver/nvidia/version").link(f"{GPU}/driver", "../../../drivers/nouveau")
    assert slugs(host.check(), "error")[0] == "nouveau-conflict"


def test_nouveau_among_the_modules_of_a_gpu_whose_driver_was_not_recorded(tmp_path: Path) -> None:
    host = bare(tmp_path).remove("/proc/driver/nvidia/version").module("nouveau", "ttm")
    assert slugs(host.check(), "error")[0] == "nouveau-conflict"


# --- what the tools said ----------------------------------------------------------------------------


def test_no_devices_were_found_is_not_well(tmp_path: Path) -> None:
    report = bare(tmp_path).command("nvidia-smi", "No devices were found\n", rc=6).check()
    assert slugs(report, "error") == ["no-driver"]
    assert "does not find the GPU" in report["findings"][0]["message"]


def test_nvml_says_that_a_gpu_is_lost(tmp_path: Path) -> None:
    text = "Failed to initialize NVML: GPU is lost.  Reboot the system to recover this GPU\n"
    assert slugs(bare(tmp_path).command("nvidia-smi", text, rc=15).check(), "error")[0] == "gpu-off-bus"


def test_nvml_says_that_rights_are_missing(tmp_path: Path) -> None:
    text = "Failed to initialize NVML: Insufficient Permissions\n"
    assert slugs(bare(tmp_path).command("nvidia-smi", text, rc=4).check(), "error") == ["gpu-device-permission"]


def test_unknown_error_in_a_container_is_a_lost_right(tmp_path: Path) -> None:
    report = bare(tmp_path).file("/.dockerenv").command("nvidia-smi", LOST_RIGHTS, rc=255).check()
    assert slugs(report, "error") == ["container-cgroup-revoked"]
    assert "create it again" in first_fix(report)


def test_unknown_error_on_bare_metal_is_no_matter_of_containers(tmp_path: Path) -> None:
    host = bare(tmp_path).file("/proc/1/cgroup", "0::/init.scope\n").command("nvidia-smi", LOST_RIGHTS, rc=255)
    assert slugs(host.check(), "error") == ["no-driver"]


def test_gpus_that_wait_for_their_fabric(tmp_path: Path) -> None:
    host = bare(tmp_path).file(f"{GPU}/device", "0x2330\n").file(f"{GPU}/class", "0x030200\n")
    host.command(
        "nvidia-smi -q",
        "==============NVSMI LOG==============\n\nDriver Version      : 580.95.05\nCUDA Version        : 13.0\n\n"
        "Attached GPUs       : 1\nGPU 00000000:01:00.0\n    Product Name    : NVIDIA H100 80GB HBM3\n"
        "    Fabric\n        State       : In Progress\n        Status      : N/A\n",
    )
    assert slugs(host.check(), "error") == ["fabric-manager-not-running"]


# --- MIG ------------------------------------------------------------------------------------------------

MIG_TABLE = """\
| NVIDIA-SMI 580.95.05              Driver Version: 580.95.05      CUDA Version: 13.0     |
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:01:00.0 Off |                   On |
| N/A   35C    P0             70W /  700W |      44MiB /  81559MiB |     N/A      Default |
|                                         |                        |              Enabled |
+-----------------------------------------+------------------------+----------------------+
| MIG devices:                                                                            |
| GPU  GI  CI  MIG |              Shared Memory-Usage |        Vol|        Shared         |
|      ID  ID  Dev |                Shared BAR1-Usage | SM     Unc| CE ENC  DEC  OFA  JPG |
|==================+==================================+===========+=======================|
"""
MIG_ROW = """\
|  0    1   0   0  |              44MiB / 40448MiB    | 60      0 |  3   0    3    0    3 |
|                  |               0MiB / 65535MiB    |           |                       |
"""
MIG_LIST = """\
GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0a0a0a0a-1111-2222-3333-444444444444)
  MIG 3g.40gb     Device  0: (UUID: MIG-0b0b0b0b-1111-2222-3333-444444444444)
"""


def h100(tmp_path: Path) -> Host:
    return bare(tmp_path).file(f"{GPU}/device", "0x2330\n").file(f"{GPU}/class", "0x030200\n")


def test_a_slice_in_the_table_is_a_slice(tmp_path: Path) -> None:
    assert h100(tmp_path).command("nvidia-smi", MIG_TABLE + MIG_ROW).check()["verdict"] == "ok"


def test_a_table_without_slices(tmp_path: Path) -> None:
    none = "|  No MIG devices found                                                                   |\n"
    report = h100(tmp_path).command("nvidia-smi", MIG_TABLE + none).check()
    assert slugs(report, "error") == ["mig-confusion"]


def test_a_mode_with_a_star_counts_only_after_a_reset(tmp_path: Path) -> None:
    """nvidia-smi writes a star behind the mode that MIG will have: a GPU at "Enabled*" still computes as a whole."""
    for star, severity in (("Enabled*", "note"), ("Disabled*", "error")):
        table = MIG_TABLE.partition("| MIG devices:")[0].replace(" Enabled |", f"{star} |")
        assert star in table
        report = h100(tmp_path / star).command("nvidia-smi", table).check()
        (mig,) = [one for one in report["findings"] if one["slug"] == "mig-confusion"]
        assert mig["severity"] == severity and "--gpu-reset -i 0" in str(mig["fixes"][0]["steps"])


@pytest.mark.parametrize(("name", "expected"), [("MIG-0b0b0b0b", []), ("MIG-0c0c0c0c", ["mig-confusion"])])
@pytest.mark.parametrize("table", [True, False])
def test_the_name_of_a_slice(tmp_path: Path, name: str, expected: list[str], table: bool) -> None:
    host = h100(tmp_path).command("nvidia-smi -L", MIG_LIST)
    if table:
        host.command("nvidia-smi", MIG_TABLE + MIG_ROW)
    host.environ(CUDA_VISIBLE_DEVICES=f"{name}-1111-2222-3333-444444444444")
    assert slugs(host.check(), "error") == expected


# --- names of GPUs -------------------------------------------------------------------------------------

OWN = "GPU-0a0a0a0a-1111-2222-3333-444444444444"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (OWN, []),
        ("GPU-0a0a", []),
        ("GPU-0c0c0c0c-1111-2222-3333-444444444444", ["cuda-visible-devices"]),
        ("MIG-0b0b0b0b-1111-2222-3333-444444444444", []),  # only the driver could tell
    ],
)
def test_a_gpu_chosen_by_its_uuid(tmp_path: Path, value: str, expected: list[str]) -> None:
    information = f"GPU UUID: \t {OWN}\nDevice Minor: \t 0\n"
    host = bare(tmp_path).file("/proc/driver/nvidia/gpus/0000:01:00.0/information", information)
    assert slugs(host.environ(CUDA_VISIBLE_DEVICES=value).check(), "error") == expected


def test_a_uuid_that_the_kernel_does_not_tell(tmp_path: Path) -> None:
    information = "GPU UUID: \t GPU-????????-????-????-????-????????????\nDevice Minor: \t 0\n"
    host = bare(tmp_path).file("/proc/driver/nvidia/gpus/0000:01:00.0/information", information)
    assert slugs(host.environ(CUDA_VISIBLE_DEVICES=OWN).check(), "error") == []


# --- refused nodes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ({}, "container-cgroup-revoked"),  # not known where this is: EPERM is a device cgroup's answer all the same
        ({"/.dockerenv": ""}, "container-cgroup-revoked"),
        ({"/proc/1/cgroup": "0::/init.scope\n"}, "gpu-device-permission"),
    ],
)
def test_a_device_cgroup_by_the_place_it_is_met_in(tmp_path: Path, place: dict[str, str], expected: str) -> None:
    host = bare(tmp_path)
    for path, text in place.items():
        host.file(path, text)
    for path in NODES:
        host.node(path, "EPERM")
    assert slugs(host.check(), "error") == [expected]


def test_the_owning_group_is_in_the_lines_for_the_container(tmp_path: Path) -> None:
    host = bare(tmp_path).file("/.dockerenv")
    for path in NODES:
        host.node(path, "EACCES", mode="0660", gid=44)
    host.json["user"]["gids"] = [1000]
    report = host.check()
    assert slugs(report, "error") == ["gpu-device-permission"]
    assert "docker run --gpus all --group-add 44 ..." in first_fix(report)


# --- what is on disk -------------------------------------------------------------------------------------


def _updated(tmp_path: Path) -> Host:
    """Libraries of a newer driver than the module that runs."""
    return bare(tmp_path).nvidia_libraries("580.105.08")


def test_a_dkms_tree_alone_tells_that_only_the_boot_is_missing(tmp_path: Path) -> None:
    host = _updated(tmp_path).file("/var/lib/dkms/nvidia/580.105.08/6.8.0-60-generic/x86_64/module/nvidia.ko.zst")
    assert slugs(host.check(), "error") == ["driver-installed-no-reboot"]


def test_a_module_file_of_which_only_the_strings_were_kept(tmp_path: Path) -> None:
    strings = b"version=580.105.08\0license=Dual MIT/GPL\0"
    host = _updated(tmp_path).file("/lib/modules/6.8.0-60-generic/updates/dkms/nvidia.ko", strings)
    assert slugs(host.check(), "error") == ["driver-installed-no-reboot"]


def test_a_module_file_that_does_not_tell_its_version(tmp_path: Path) -> None:
    report = _updated(tmp_path).file("/lib/modules/6.8.0-60-generic/updates/dkms/nvidia.ko", b"\x7fELF").check()
    assert slugs(report, "error") == ["driver-lib-mismatch"]
    assert "reboot" in first_fix(report).lower(), "the cheapest repair first: an update may wait for it"


def test_a_module_of_the_old_version_on_disk_asks_for_the_driver(tmp_path: Path) -> None:
    host = _updated(tmp_path).file("/lib/modules/6.8.0-60-generic/updates/dkms/nvidia.ko", b"version=580.95.05\0")
    report = host.check()
    assert slugs(report, "error") == ["driver-lib-mismatch"]
    assert report["findings"][0]["fixes"][0]["title"].startswith(
        "Install kernel module and libraries of NVIDIA driver"
    )


def test_a_linux_driver_inside_wsl(tmp_path: Path) -> None:
    host = Host(tmp_path).file("/dev/dxg").torch("2.9.1+cu128")
    host.json["uname"]["release"] = "5.15.167.4-microsoft-standard-WSL2"
    host.file("/usr/lib/wsl/lib/libcuda.so.1").file("/usr/lib/wsl/lib/libdxcore.so")
    assert slugs(host.check(), "error") == []
    assert slugs(host.nvidia_libraries("550.54.15").check(), "error") == ["wsl-driver"]


def test_a_gpu_without_address_space(tmp_path: Path) -> None:
    lines = (
        "[    5.0] NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:\n"
        "               NVRM: BAR1 is 0M @ 0x0 (PCI:0000:01:00.0)\n"
        "[    5.1] nvidia: probe of 0000:01:00.0 failed with error -1\n"
    )
    assert slugs(bare(tmp_path).file("/var/log/dmesg", lines).check(), "error") == ["driver-init-failed-bios"]


def test_a_cpu_build_on_a_jetson(tmp_path: Path) -> None:
    host = Host(tmp_path, arch="aarch64").file("/dev/nvhost-gpu").torch("2.9.1+cpu")
    host.file("/proc/device-tree/compatible", "nvidia,p3737-0000+p3701-0005\0nvidia,tegra234\0")
    assert slugs(host.check(), "error") == ["torch-cpu-only"]


def test_a_container_that_sees_only_the_release_of_jetson_linux(tmp_path: Path) -> None:
    """R38 is for Thor alone: the ordinary wheel for aarch64 and CUDA 13 serves it."""
    host = Host(tmp_path, arch="aarch64").file("/dev/nvhost-gpu").torch("2.9.1+cu128")
    host.file("/etc/nv_tegra_release", "# R38 (release), REVISION: 2.0, GCID: 41844464, BOARD: generic\n")
    report = host.check()
    assert slugs(report, "error") == ["torch-no-arch-for-gpu"]
    assert "sm_110" in report["findings"][0]["message"]
    assert report["findings"][0]["fixes"][0]["steps"][0]["argv"][-1] == "torch==2.12.0"


@pytest.mark.parametrize(
    ("release", "names"),
    [("R36 (release), REVISION: 4.3", "Orin"), ("R35 (release), REVISION: 4.1", "NVIDIA Jetson")],
)
def test_the_release_names_the_board_where_it_is_for_one_chip(tmp_path: Path, release: str, names: str) -> None:
    host = Host(tmp_path, arch="aarch64").file("/dev/nvhost-gpu").file("/etc/nv_tegra_release", f"# {release}\n")
    (gpu,) = host.check()["machine"]["gpus"]
    assert names in gpu["name"] and gpu["arch"].get("value") == ("sm_87" if names == "Orin" else None)


def test_an_orin_with_the_cuda_of_servers_is_not_judged_by_a_servers_wheel(tmp_path: Path) -> None:
    """Reports differ whether sm_80 code runs on Orin with JetPack 7.2; with JetPack 6 it does not."""
    for release, verdict in (("R39 (release), REVISION: 2.0", "unknown"), ("R36 (release), REVISION: 4.3", "error")):
        host = Host(tmp_path / release[:3], arch="aarch64").file("/dev/nvhost-gpu").torch("2.12.1", cuda="13.0")
        host.file("/proc/device-tree/compatible", b"nvidia,p3701-0005\0nvidia,tegra234\0")
        assert host.file("/etc/nv_tegra_release", f"# {release}\n").check()["verdict"] == verdict


def test_a_cpu_build_on_a_dgx_spark(tmp_path: Path) -> None:
    host = bare(tmp_path, torch="2.9.1+cpu").file(f"{GPU}/device", "0x2e12\n")
    host.json["uname"]["machine"] = "aarch64"
    assert slugs(host.check(), "error") == ["torch-cpu-only"]


# --- nothing, or next to nothing --------------------------------------------------------------------------------

NO_ANSWER = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n"


def test_an_empty_folder_is_unknown(tmp_path: Path) -> None:
    report = Host(tmp_path).check()
    assert (report["verdict"], report["exit_code"], report["findings"]) == ("unknown", 3, [])


def test_a_driver_that_lists_no_gpu_does_not_make_the_machine_one_without_gpus(tmp_path: Path) -> None:
    report = Host(tmp_path).torch("2.9.1+cu128").command("nvidia-smi", "No devices were found\n", rc=6).check()
    assert (report["verdict"], slugs(report)) == ("unknown", [])


def test_nvidia_smi_reaches_no_driver_and_nothing_else_was_recorded(tmp_path: Path) -> None:
    with_torch = Host(tmp_path / "a").torch("2.9.1+cu128").command("nvidia-smi", NO_ANSWER, rc=9).check()
    assert slugs(with_torch, "error") == ["no-driver"]
    without = Host(tmp_path / "b").command("nvidia-smi", NO_ANSWER, rc=9).check()
    assert (without["verdict"], slugs(without)) == ("unknown", [])


def test_a_driver_without_its_cuda_library(tmp_path: Path) -> None:
    host = Host(tmp_path).ubuntu().nvidia_gpu("2684").nvidia_driver("580.95.05").torch("2.9.1+cu128")
    for name in ("libcuda.so.1", "libcuda.so.580.95.05"):
        host.remove(f"{host.lib}/{name}")
    report = host.check()
    assert slugs(report, "error") == ["no-driver"]
    assert "libnvidia-compute-580" in first_fix(report)


def test_a_gpu_that_the_loaded_driver_says_has_fallen_off(tmp_path: Path) -> None:
    host = Host(tmp_path).ubuntu().nvidia_gpu("26b5", "0000:b3:00.0", driver=None).nvidia_driver("570.158.01")
    host.file(
        "/var/log/dmesg",
        "[ 1843.3] NVRM: The NVIDIA GPU 0000:b3:00.0\n"
        "           NVRM: (PCI ID: 10de:26b5) installed in this system has\n"
        "           NVRM: fallen off the bus and is not responding to commands.\n",
    )
    assert slugs(host.torch("2.9.1+cu128").check()) == ["gpu-off-bus"]


@pytest.mark.parametrize(
    ("folder", "container"),
    [("/run/opengl-driver/lib", False), ("/usr/local/nvidia/lib64", True)],
    ids=["NixOS", "GKE"],
)
def test_a_cuda_library_where_the_loader_does_not_look(tmp_path: Path, folder: str, container: bool) -> None:
    host = Host(tmp_path).ubuntu().nvidia_gpu("2684").nvidia_driver("580.95.05", libraries=None).torch("2.9.1+cu128")
    host = (host.docker() if container else host).nvidia_libraries("580.95.05", folder)
    report = host.check()
    assert slugs(report, "error") == ["container-no-gpu" if container else "no-driver"]
    assert f"{folder}/libcuda.so.1" in report["findings"][0]["message"]
    assert first_fix(report) == f"LD_LIBRARY_PATH {folder}"
    assert slugs(host.environ(LD_LIBRARY_PATH=folder).check(), "error") == []


def test_a_made_up_host_writes_nothing_into_the_real_machine(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/null").write_text("kept")
    host = Host(tmp_path / "host").link("/etc/masked.service", str(tmp_path / "real/null"))
    host.link("/dev", str(tmp_path / "real")).link("/etc/masked.service", str(tmp_path / "real/null"))
    for write in (
        lambda: host.file("/etc/masked.service", "x"),
        lambda: host.file("/dev/new", "x"),
        lambda: host.link("/dev/null", "/usr/bin/true"),
        lambda: host.remove("/dev/null"),
    ):
        with pytest.raises(AssertionError, match="leads out of"):
            write()
    assert [(one.name, one.read_text()) for one in (tmp_path / "real").iterdir()] == [("null", "kept")]
