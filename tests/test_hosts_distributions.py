"""Machines of distributions and platforms whose commands differ from those of their kin."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.hosts import Host, first_fix, slugs

DEBIAN = 'ID=debian\nVERSION_ID="13"\nVERSION_CODENAME=trixie\nPRETTY_NAME="Debian GNU/Linux 13 (trixie)"\n'
ARCH = 'ID=arch\nPRETTY_NAME="Arch Linux"\n'
ORACLE = 'ID="ol"\nID_LIKE="fedora"\nVERSION_ID="9.6"\nPRETTY_NAME="Oracle Linux Server 9.6"\n'
TUMBLEWEED = 'ID="opensuse-tumbleweed"\nID_LIKE="opensuse suse"\nVERSION_ID="20251120"\n'
AMAZON = 'ID="amzn"\nID_LIKE="fedora"\nVERSION_ID="2023"\nPRETTY_NAME="Amazon Linux 2023"\n'
UBUNTU = 'ID=ubuntu\nID_LIKE=debian\nVERSION_ID="22.04"\nPRETTY_NAME="Ubuntu 22.04"\n'


def machine(path: Path, release: str, kernel: str) -> Host:
    host = Host(path).ubuntu(kernel=kernel).file("/etc/os-release", release)
    return host.file(f"/lib/modules/{kernel}/modules.dep")


def proxmox_container(host: Host) -> Host:
    """An unprivileged one, seen from inside by its root."""
    host.file("/run/systemd/container", "lxc\n").file("/proc/1/environ", "container=lxc\0")
    host.file("/proc/self/uid_map", "         0     100000      65536\n")
    host.json["user"] = {"uid": 0, "gids": [0]}
    return host


@pytest.mark.parametrize(
    ("release", "kernel", "package"),
    [
        (DEBIAN, "6.14.11-4-pve", "proxmox-headers-6.14.11-4-pve"),
        (DEBIAN, "6.12.57+deb13-amd64", "linux-headers-6.12.57+deb13-amd64"),
        (ARCH, "6.17.8-arch1-1", "linux-headers"),
        (ARCH, "6.12.65-1-lts", "linux-lts-headers"),
        (ARCH, "6.17.8-zen1-1-zen", "linux-zen-headers"),
        (ARCH.replace("arch", "cachyos\nID_LIKE=arch"), "6.18.2-2-cachyos-lts", "linux-cachyos-lts-headers"),
        (ARCH.replace("arch", "manjaro\nID_LIKE=arch"), "6.12.48-1-MANJARO", "linux612-headers"),
        (ORACLE, "6.12.0-103.40.el9uek.x86_64", "kernel-uek-devel-6.12.0-103.40.el9uek.x86_64"),
        (ORACLE, "5.14.0-570.el9_6.x86_64", "kernel-devel-5.14.0-570.el9_6.x86_64"),
        (AMAZON, "6.1.158-178.288.amzn2023.x86_64", "kernel-devel-6.1.158-178.288.amzn2023.x86_64"),
        (AMAZON, "6.12.53-69.119.amzn2023.x86_64", "kernel6.12-devel-6.12.53-69.119.amzn2023.x86_64"),
        (AMAZON, "6.18.44-99.149.amzn2023.x86_64", "kernel6.18-devel-6.18.44-99.149.amzn2023.x86_64"),
        (TUMBLEWEED, "6.17.8-1-default", "kernel-default-devel"),
        (TUMBLEWEED, "6.12.60-1-longterm", "kernel-longterm-devel"),
    ],
)
def test_dkms_builds_against_the_headers_of_that_very_kernel(tmp_path, release, kernel, package):
    host = machine(tmp_path, release, kernel).nvidia_gpu("2204", driver=None).nvidia_libraries("580.173.02")
    host.file("/var/lib/dkms/nvidia/580.173.02/1.2.3-old/x86_64/module/nvidia.ko")
    host.file("/lib/modules/1.2.3-old/updates/dkms/nvidia.ko", b"version=580.173.02\0")
    report = host.torch("2.9.1+cu128").check()
    assert report["findings"][0]["slug"] == "nvidia-dkms-kernel-mismatch"
    install, build, _ = first_fix(report).split("\n")
    assert install.split()[-1] == package
    assert build == f"dkms install nvidia/580.173.02 -k {kernel}"


@pytest.mark.parametrize(("release", "tree"), [(DEBIAN, "nvidia-current"), (UBUNTU, "nvidia-srv")])
def test_a_dkms_tree_may_have_another_name_than_the_module(tmp_path, release, tree):
    host = machine(tmp_path, release, "6.12.57-generic").nvidia_gpu("2204", driver=None)
    host.file(f"/var/lib/dkms/{tree}/550.163.01/6.1.0-30-generic/x86_64/module/nvidia.ko")
    host.file("/lib/modules/6.1.0-30-generic/updates/dkms/nvidia.ko", b"version=550.163.01\0")
    report = host.nvidia_libraries("550.163.01").torch("2.6.0+cu124").check()
    assert f"dkms install {tree}/550.163.01 -k 6.12.57-generic" in first_fix(report)


@pytest.mark.parametrize(
    ("folder", "package"),
    [
        ("nvidia-570srv", "linux-modules-nvidia-570-server-6.8.0-1041-azure"),
        ("nvidia-570srv-open", "linux-modules-nvidia-570-server-open-6.8.0-1041-azure"),
        ("nvidia-580-open", "linux-modules-nvidia-580-open-6.8.0-1041-azure"),
    ],
)
def test_modules_that_ubuntu_built_come_from_its_packages(tmp_path, folder, package):
    host = machine(tmp_path, UBUNTU, "6.8.0-1041-azure").nvidia_gpu("20b5", driver=None, pci_class="0x030200")
    host.file(f"/lib/modules/6.8.0-1036-azure/kernel/{folder}/nvidia.ko", b"version=570.195.03\0")
    report = host.nvidia_libraries("570.195.03").torch("2.9.1+cu128").check()
    assert first_fix(report).split("\n") == [f"apt-get install -y {package}", "modprobe nvidia"]


@pytest.mark.parametrize("vendor", ["nvidia", "amd"])
def test_a_system_container_is_never_removed(tmp_path, vendor):
    """An LXC container is no throwaway: what is in it would be lost."""
    host = proxmox_container(machine(tmp_path, DEBIAN, "6.14.11-4-pve"))
    if vendor == "nvidia":
        host.nvidia_gpu("2204").nvidia_driver("580.95.05").torch("2.9.1+cu128")
        nodes, device = ("/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm"), "--dev2 /dev/nvidia-uvm"
    else:
        host.amd_gpu("747e", 110001).torch("2.10.0+rocm7.1")
        nodes, device = ("/dev/kfd", "/dev/dri/renderD128"), "--dev0 /dev/kfd"
    for node in nodes:
        host.node(node, "EPERM")
    report = host.check()
    assert report["findings"][0]["slug"] == "container-cgroup-revoked"
    every = str(report["findings"][0]["fixes"])
    assert "pct set ID" in every and device in every
    assert "Remove this container" not in every and " rm " not in every


def test_a_node_that_does_not_open_is_tried_anew_before_the_host_is_rebooted(tmp_path):
    host = proxmox_container(machine(tmp_path, DEBIAN, "6.14.11-4-pve")).amd_gpu("7550", 120001, revision="0xc0")
    report = host.node("/dev/kfd", "EINVAL").torch("2.10.0+rocm7.1").check()
    assert [f["slug"] for f in report["findings"]] == ["no-gpu"]
    assert "pct reboot ID" in first_fix(report) and "reboot the host" in first_fix(report)


def test_nspawn_gets_lines_of_its_own(tmp_path):
    host = machine(tmp_path, DEBIAN, "6.12.57+deb13-amd64").file("/run/systemd/container", "systemd-nspawn\n")
    host.nvidia_gpu("2204").nvidia_driver("580.95.05").environ(container="systemd-nspawn").torch("2.9.1+cu128")
    for node in ("/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm"):
        host.node(node, "EPERM")
    fix = first_fix(host.check())
    assert "systemd-nspawn --bind=/dev/nvidia0" in fix and "docker" not in fix


def test_a_log_line_without_an_address_is_about_the_gpu_that_the_others_name(tmp_path):
    """ "NVRM: GPU6 RmInitAdapter: Cannot initialize GSP firmware RM" on a machine with four."""
    host = machine(tmp_path, UBUNTU, "6.8.0-60-generic")
    for number, bus in enumerate(("21", "41", "61", "81")):
        host.nvidia_gpu("2bb5", f"0000:{bus}:00.0", pci_class="0x030200", minor=number)
    lines = (
        "NVRM: GPU2 RmInitAdapter: Cannot initialize GSP firmware RM",
        "NVRM: GPU 0000:61:00.0: RmInitAdapter failed! (0x62:0x40:2168)",
    )
    host.nvidia_driver("595.71.05").file("/var/log/dmesg", "".join(f"[    5.1] {line}\n" for line in lines))
    report = host.torch("2.9.1+cu130").check()
    broken = [f["device"]["bdf"] for f in report["findings"] if f["slug"] == "driver-init-failed-hw"]
    assert broken == ["0000:61:00.0"]


def test_a_kernel_update_took_the_running_kernels_modules_away(tmp_path):
    """Arch removes the modules of the kernel that still runs."""
    host = Host(tmp_path).ubuntu(kernel="6.17.8-arch1-1").file("/etc/os-release", ARCH)
    host.file("/lib/modules/6.17.9-arch1-1/kernel/drivers/gpu/drm/amd/amdgpu/amdgpu.ko.zst")
    report = host.amd_gpu("744c", 110000, driver=None, kfd=False).torch("2.9.1+rocm6.4").check()
    assert report["findings"][0]["slug"] == "no-driver"
    assert report["findings"][0]["fixes"][0]["title"] == "Reboot into kernel 6.17.9-arch1-1"


def test_truenas_brings_its_own_driver(tmp_path):
    """Its os-release is Debian's, and apt is switched off."""
    kernel = "6.12.105-production+truenas"
    host = machine(tmp_path / "old", DEBIAN, kernel).file("/etc/version", "25.10.7").torch("2.7.1+cu126")
    host.nvidia_gpu("1bb3", pci_class="0x030200").nvidia_driver("580.178.04")
    refused = ("The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:1bb3)", "installed in this system is not supported by open")
    host.file("/var/log/dmesg", "".join(f"[   87.3] NVRM: {line}\n" for line in refused))
    report = host.check()
    assert report["findings"][0]["slug"] == "open-module-unsupported-gpu"
    assert "release 25.04" in first_fix(report) and "apt" not in first_fix(report)
    host = machine(tmp_path / "new", DEBIAN, kernel).file("/etc/version", "25.10.7").torch("2.9.1+cu128")
    report = host.nvidia_gpu("2504", driver=None).check()
    assert "Install NVIDIA Drivers" in first_fix(report) and "apt" not in first_fix(report)


@pytest.mark.parametrize("left", [0, 1])
def test_a_gpu_that_the_driver_was_told_to_leave_out_cannot_be_used(tmp_path, left):
    host = machine(tmp_path, UBUNTU, "6.8.0-60-generic").nvidia_gpu("2684").nvidia_driver("580.95.05")
    text = "Bus Location: \t 0000:01:00.0\nDevice Minor: \t 0\nGPU Excluded:\t Yes\n"
    host.file("/proc/driver/nvidia/gpus/0000:01:00.0/information", text).torch("2.9.1+cu128")
    if left:
        host.nvidia_gpu("2684", "0000:02:00.0", minor=1)
    report = host.check()
    assert [(f["slug"], f["severity"]) for f in report["findings"]] == ([] if left else [("no-gpu", "error")])
    assert left or "NVreg_ExcludedGpus" in first_fix(report)


@pytest.mark.parametrize("torch", ["2.9.1+cu128", "2.9.1+rocm6.4"])
def test_the_virtual_machine_of_docker_desktop_has_no_gpu(tmp_path, torch):
    report = machine(tmp_path, UBUNTU, "6.12.54-linuxkit").docker().torch(torch).check()
    assert [finding["slug"] for finding in report["findings"]] == ["no-gpu"]
    assert "Docker Desktop" in report["findings"][0]["message"]
    assert "docker context use default" in first_fix(report)


@pytest.mark.parametrize(
    ("line", "slug", "fix"),
    [
        (
            "[drm:amdgpu_get_bios [amdgpu]] *ERROR* Unable to locate a BIOS ROM",
            "no-driver",
            "romfile=",
        ),
        ("[drm:amdgpu_device_init [amdgpu]] *ERROR* hw_init of IP block <smu> failed -62", "no-driver", "disconnect"),
        ("amdgpu 0000:03:00.0: amdgpu: PSP load tmr failed!", "no-driver", "disconnect"),
        (
            "amdgpu 0000:03:00.0: amdgpu: RAS records:261 exceed threshold:256, GPU will not be initialized. Replace "
            "this GPU or increase the threshold",
            "gpu-ecc",
            "have it replaced",
        ),
    ],
)
def test_what_amdgpu_says_of_a_gpu_that_it_does_not_start_is_the_reason(tmp_path, line, slug, fix):
    host = machine(tmp_path, UBUNTU, "6.14.0-27-generic").amd_gpu("740f", 90010, driver=None, kfd=False)
    lines = (line, "amdgpu 0000:03:00.0: amdgpu: Fatal error during GPU init")
    host.module("amdgpu").file("/var/log/dmesg", "".join(f"[    5.1] {one}\n" for one in lines))
    report = host.torch("2.9.1+rocm6.4").check()
    assert [(f["slug"], f["severity"]) for f in report["findings"]] == [(slug, "error")]
    assert fix in first_fix(report)


NO_SPACE = "pci 0000:03:00.0: BAR 0: no space for [mem size 0x1000000000 64bit pref]"
NO_SPACE_NEWER = "pci 0000:03:00.0: BAR 5 [mem size 0x00080000]: can't assign; no space"
GIVEN_UP = "amdgpu: probe of 0000:03:00.0 failed with error -12"
UNCORRECTABLE = "amdgpu 0000:03:00.0: uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!"


@pytest.mark.parametrize(
    ("lines", "guest", "first", "fix"),
    [
        ((NO_SPACE, GIVEN_UP), False, "driver-init-failed-bios", "Above 4G Decoding"),
        ((NO_SPACE_NEWER, GIVEN_UP), False, "driver-init-failed-bios", "Above 4G Decoding"),
        ((NO_SPACE, GIVEN_UP), True, "driver-init-failed-bios", "OVMF"),
        ((UNCORRECTABLE, GIVEN_UP), False, "driver-init-failed-hw", "disconnect its power"),
        ((NO_SPACE.replace("03:00", "25:00"), GIVEN_UP), False, "no-driver", "dmesg"),
        ((NO_SPACE.replace("BAR 0", "BAR 7"), GIVEN_UP), False, "no-driver", "dmesg"),
    ],
)
def test_why_amdgpu_gives_an_instinct_up(tmp_path, lines, guest, first, fix):  # ROCm/legacy-rocm-build#6281, #2927
    host = machine(tmp_path, UBUNTU, "6.8.0-60-generic").amd_gpu("740f", 90010, driver=None, kfd=False)
    host.module("amdgpu").file("/var/log/dmesg", "".join(f"[    5.1] {one}\n" for one in lines))
    if guest:
        host.file("/sys/class/dmi/id/sys_vendor", "QEMU\n")
    report = host.torch("2.9.1+rocm6.4").check()
    assert [f["slug"] for f in report["findings"] if f["severity"] == "error"] == [first]
    assert fix in first_fix(report)


@pytest.mark.parametrize("line", [NO_SPACE, NO_SPACE_NEWER, UNCORRECTABLE])
def test_lines_about_a_gpu_that_amdgpu_has_are_no_error(tmp_path, line):
    host = (
        machine(tmp_path, UBUNTU, "6.8.0-60-generic")
        .amd_gpu("740f", 90010)
        .file("/var/log/dmesg", f"[    5.1] {line}\n")
    )
    report = host.torch("2.9.1+rocm6.4").check()
    assert [f["slug"] for f in report["findings"] if f["severity"] != "note"] == []


def test_a_worn_out_gpu_beside_the_one_that_is_meant_is_a_note(tmp_path):
    host = machine(tmp_path, UBUNTU, "6.14.0-27-generic").nvidia_gpu("2684").nvidia_driver("580.95.05")
    host.amd_gpu("740f", 90010, driver=None, kfd=False).module("amdgpu")
    host.file("/var/log/dmesg", "[    5.1] amdgpu 0000:03:00.0: amdgpu: RAS records:261 exceed threshold:256\n")
    report = host.torch("2.9.1+cu128").check()
    assert [(f["slug"], f["severity"]) for f in report["findings"]] == [("gpu-ecc", "note")]
    assert report["verdict"] == "ok"


@pytest.mark.parametrize(("opens", "slug"), [("EPERM", "job-without-gpu"), ("ok", "container-no-gpu")])
def test_a_container_of_a_job_without_gpus_is_no_fault_of_the_container(tmp_path, opens, slug):
    """Slurm with pyxis: the nodes are there, the job's control group closes them, and nothing mounts libraries. A
    site whose jobs do not ask for GPUs leaves the nodes open."""
    host = machine(tmp_path, UBUNTU, "6.8.0-60-generic").nvidia_gpu("2330", pci_class="0x030200")
    host.nvidia_driver("580.95.05", libraries=None).environ(SLURM_JOB_ID="7", NVIDIA_VISIBLE_DEVICES="void")
    host.file("/proc/self/mountinfo", "500 400 0:60 /enroot/data/pyxis_7.0 / rw - overlay overlay rw\n")
    for node in ("/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm"):
        host.node(node, opens)
    report = host.torch("2.9.1+cu128").check()
    assert [f["slug"] for f in report["findings"]] == [slug]


def test_wsl_1_has_no_gpu_whatever_the_windows_driver(tmp_path):
    report = machine(tmp_path, UBUNTU, "4.4.0-22621-Microsoft").torch("2.9.1+cu128").check()
    assert report["findings"][0]["slug"] == "wsl-driver"
    assert "WSL 1" in report["findings"][0]["message"] and "--set-version" in first_fix(report)
    report = machine(tmp_path / "2", UBUNTU, "6.6.87.2-microsoft-standard-WSL2").torch("2.9.1+cu128").check()
    assert "/dev/dxg" in report["findings"][0]["message"]


@pytest.mark.parametrize(
    ("device", "words"), [("2531", "the Open Source Driver of branch 580"), ("1bb3", "is not the Open")]
)
def test_on_unraid_a_plugin_brings_the_driver(tmp_path, device, words):
    release = 'NAME="Unraid OS"\nID="unraid-os"\nVERSION_ID="7.2.2"\nPRETTY_NAME="Unraid OS 7.2 x86_64"\n'
    report = machine(tmp_path, release, "6.12.54-Unraid").nvidia_gpu(device, driver=None).torch("2.7.1+cu126").check()
    assert report["findings"][0]["slug"] == "no-driver"
    assert "plugin Nvidia-Driver" in first_fix(report) and words in first_fix(report)


def login_node(tmp_path, torch):
    host = Host(tmp_path).ubuntu("22.04").file("/etc/slurm/slurm.conf", "ClusterName=tux\n")
    return host.torch(torch) if torch else host.venv()


@pytest.mark.parametrize("torch", ["2.9.1+cu128", "2.9.1+rocm6.4"])
def test_on_a_login_node_a_job_is_what_helps_not_another_build(tmp_path, torch):
    report = login_node(tmp_path, torch).check()
    assert (slugs(report), report["verdict"]) == (["no-gpu"], "error")
    assert "--gres=gpu:1" in first_fix(report) and "CPU" not in first_fix(report)


@pytest.mark.parametrize("torch", ["2.9.1+cu128", "2.13.0+cpu", ""])
def test_from_a_login_node_the_next_check_is_one_in_a_job(tmp_path, torch):
    assert login_node(tmp_path, torch).run().stdout.endswith(": srun --gres=gpu:1 gpudoctor check\n")


@pytest.mark.parametrize(
    "change",
    [
        lambda host: host.remove("/etc/slurm/slurm.conf"),
        lambda host: host.nvidia_libraries("580.95.05"),  # a node whose GPU is no longer on the bus
        lambda host: host.environ(SLURM_JOB_ID="7", SLURM_GPUS_ON_NODE="0", SLURMD_NODENAME="n1"),
        lambda host: host.nvidia_gpu("2684", driver=None),
        lambda host: host.amd_gpu("744c", 110000),
    ],
)
def test_a_machine_that_only_looks_like_a_login_node(tmp_path, change):
    assert "srun" not in change(login_node(tmp_path, "2.9.1+cu128")).run().stdout
