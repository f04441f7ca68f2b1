"""Recorded systems of other projects, with values typed from the recordings by hand."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import pytest

from gpudoctor.host.recorded_host import RecordedHost
from gpudoctor.machine import KernelLog
from gpudoctor.matrix.load import load_matrix
from gpudoctor.probes.container import probe_container
from gpudoctor.probes.kernel_log import probe_kernel_log
from gpudoctor.probes.load_path import driver_libraries, userland_version
from gpudoctor.probes.system import probe_system

RECORDINGS = Path(__file__).parents[2] / "shared" / "fixtures"
pytestmark = pytest.mark.skipif(not RECORDINGS.exists(), reason="the collection of recorded machines is not here")

VIRT_WHAT = RECORDINGS / "container/zdyxry__virt-what/tests"
DISTROS = RECORDINGS / "os-facts/python-distro__distro/tests/resources/distros"
TOOLKIT = RECORDINGS / "driver-root/NVIDIA__nvidia-container-toolkit/testdata/lookup"
HWLOC = RECORDINGS / "hwloc/open-mpi__hwloc/tests/hwloc/linux"
LOGS = RECORDINGS / "kernel-log"


def lay_out(root: Path, recording: str, path: str) -> RecordedHost:
    place = root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(RECORDINGS / recording, place)
    return RecordedHost(root)


# --- containers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind"),
    [("docker", "docker"), ("crio", "kubernetes"), ("lxc", "lxc"), ("oci", "podman"), ("illumos-lx", "zone")],
)
def test_recorded_containers(name: str, kind: str) -> None:
    assert probe_container(RecordedHost(VIRT_WHAT / name)).value == kind


MACHINES = (
    "alibaba-cloud-x86 aws-kvm-arm aws-kvm-x86 baremetal esx4.1 hyperv kvm linux-vserver lkvm-arm parallels-desktop "
    "ppc64-lpar-shared qemu-smbios qemu-smbios-kvm rhel5-xen-domU-pv rhev vmm"
)


@pytest.mark.parametrize("name", MACHINES.split())
def test_recorded_machines_are_no_containers(name: str) -> None:
    assert not probe_container(RecordedHost(VIRT_WHAT / name)).known


def test_the_mount_table_of_a_gpu_node_shows_lxc(tmp_path: Path) -> None:
    host = lay_out(tmp_path, "container/leptonai__gpud/pkg/disk/testdata/mountinfo", "proc/self/mountinfo")
    assert probe_container(host).value == "lxc"


def test_the_mount_table_of_a_plain_machine_shows_none(tmp_path: Path) -> None:
    table = "os-facts/kellyjonbrazil__jc/tests/fixtures/linux-proc/pid_mountinfo"
    assert probe_container(lay_out(tmp_path, table, "proc/1/mountinfo")).absent


# --- systems -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind", "arch"),
    [
        ("rhel5-xen-domU-pv", "xen", "x86_64"),
        ("lkvm-arm", "kvm", "aarch64"),
        ("alibaba-cloud-x86", "unknown hypervisor", "x86_64"),
        ("rhev", "unknown hypervisor", "x86_64"),
        # Its firmware is not recorded, and its kernel did not show the processor's flag yet.
        ("esx4.1", None, "x86_64"),
        ("aws-kvm-arm", None, "aarch64"),
    ],
)
def test_recorded_hypervisors(name: str, kind: str | None, arch: str) -> None:
    found = probe_system(RecordedHost(VIRT_WHAT / name))
    assert (found.virtual_machine.value, found.arch.value) == (kind, arch)
    assert kind is not None or found.virtual_machine.state == "unknown"


@pytest.mark.parametrize(
    ("name", "id", "version", "like"),
    [
        ("ubuntu24", "ubuntu", "24.04", ("debian",)),
        ("ubuntu2604", "ubuntu", "26.04", ("debian",)),
        ("debiantesting", "debian", "", ()),
        ("rocky10", "rocky", "10.0", ("rhel", "centos", "fedora")),
        ("rhel7", "rhel", "7.0", ("fedora",)),
        ("centosstream9", "centos", "9", ("rhel", "fedora")),
        ("fedora42", "fedora", "42", ()),
        ("opensuse15", "opensuse-leap", "15.2", ("suse", "opensuse")),
        ("sles12", "sles", "12.1", ()),
        ("amazon2023", "amzn", "2023", ("fedora",)),
        ("arch", "arch", "", ()),
        ("gentoo", "gentoo", "", ()),
    ],
)
def test_recorded_distributions(name: str, id: str, version: str, like: tuple[str, ...]) -> None:
    found = probe_system(RecordedHost(DISTROS / name)).os.value
    assert found is not None and (found.id, found.version, found.like) == (id, version, like)


@pytest.mark.parametrize("name", ["rhel6", "cloudlinux6", "mandriva2011", "openbsd62", "aix72"])
def test_recordings_without_os_release_name_no_distribution(name: str) -> None:
    assert probe_system(RecordedHost(DISTROS / name)).os.value is None


@pytest.mark.parametrize(
    ("archive", "folder", "memory", "shm", "kernel"),
    [
        (
            "nvidiagpunumanodes",
            "nvidiagpunumanodes",
            358162944,
            131895552,
            "4.14.0-49.el7a.bz1553205.page_fault_hang.ppc64le",
        ),
        # Its table states no size: half of the memory.
        ("40intel64-2g2n4c+pcilocality", "40intel64-2g2n4c+pci", 529428392, 264714196, None),
    ],
)
def test_recorded_servers(
    tmp_path: Path, archive: str, folder: str, memory: int, shm: int, kernel: str | None
) -> None:
    with tarfile.open(HWLOC / f"{archive}.tar.bz2") as file:
        wanted = [member for member in file if "/proc/" in member.name]
        file.extractall(tmp_path, wanted, filter="data")
    found = probe_system(RecordedHost(tmp_path / folder))
    assert found.memory.value == memory * 1024
    assert found.shm.value == shm * 1024
    assert found.kernel.value == kernel
    assert not found.container.known and found.wsl.known is False and not found.jetson.known
    assert found.user.uid == -1


def test_the_device_tree_of_an_orin_names_a_jetson(tmp_path: Path) -> None:
    recording = "jetson/NVIDIA__jetson-gpio/issue-125/device-tree-compatible.txt"
    found = probe_system(lay_out(tmp_path, recording, "proc/device-tree/compatible")).jetson
    assert found.value is not None and "nvidia,tegra234" in found.value.compatible


# --- drivers -----------------------------------------------------------------------------------------


def test_a_driver_that_only_the_loaders_cache_leads_to() -> None:
    host = RecordedHost(TOOLKIT / "rootfs-2")
    found = driver_libraries(host, {})
    library = found.first("libcuda.so.1")
    assert library is not None
    assert (library.path, library.version) == ("/var/lib/nvidia/lib64/libcuda.so.1", "999.88.77")
    assert userland_version(host, found).value == "999.88.77"
    assert not found.complete.known


def test_an_orins_libraries_are_l4ts() -> None:
    host = RecordedHost(TOOLKIT / "rootfs-orin")
    found = driver_libraries(host, {}).first("libnvidia-ml.so.1")
    assert found is not None and (found.kind, found.version) == ("jetson", None)


@pytest.mark.parametrize("name", ["rootfs-drm", "rootfs-with-nvswitch", "csv-mode"])
def test_roots_without_libraries_say_nothing_about_the_driver(name: str) -> None:
    host = RecordedHost(TOOLKIT / name)
    assert userland_version(host, driver_libraries(host, {})).state == "unknown"


# --- kernel logs -------------------------------------------------------------------------------------


def kernel_log(root: Path, recording: str) -> KernelLog:
    found = probe_kernel_log(
        lay_out(root, f"kernel-log/{recording}", "var/log/dmesg"), load_matrix().tables.log_patterns
    )
    assert found.value is not None
    return found.value


@pytest.mark.parametrize(
    ("recording", "kind", "bdf", "xid", "seconds"),
    [
        ("Bumblebee-Project__Bumblebee/issue-554/dmesg.txt", "nvidia-off-bus", "0000:01:00.0", None, 49.261458),
        ("NVIDIA__NVSentinel/issue-155/dmesg.txt", "nvidia-off-bus", "0000:b3:00.0", None, 1843.308145),
        ("Frogging-Family__nvidia-all/issue-394/dmesg-api-mismatch.txt", "nvidia-api-mismatch", None, None, 9.42467),
        ("NVIDIA__open-gpu-kernel-modules/issue-1151/journal.txt", "nvidia-init-mapping", "0000:09:00.0", None, None),
        ("NVIDIA__open-gpu-kernel-modules/issue-789/dmesg.txt", "nvidia-init-gsp", "0000:98:00.0", None, 903.610907),
        ("beclab__Olares/issue-3963/dmesg-novacore.txt", "nvidia-other-driver", "0000:01:00.0", None, 201.910514),
        ("mattshma__bigdata/issue-133/dmesg-nouveau-owner.txt", "nvidia-probe-not-called", None, None, 188549.976351),
        ("leptonai__gpud/issue-500/xid-119.txt", "nvidia-xid", "0000:9b:00.0", 119, None),
        ("madMAx43v3r__chia-gigahorse/issue-301/dmesg.txt", "nvidia-xid", "0000:0a:00.0", 62, 14370.687545),
        ("leptonai__gpud/components/memory/testdata/dmesg.decode.iso.log", "nvidia-xid", "0000:38:00.0", 13, None),
        ("acidanthera__bugtracker/issue-2237/journal-key-rejected.txt", "module-key-rejected", None, None, None),
        ("pop-os__pop/issue-3811/apt-dkms.txt", "nvidia-dkms-failed", None, None, None),
        ("ROCm__legacy-rocm-build/issue-1214/dmesg-grep-kfd.txt", "kfd-rejects-atomics", None, None, 7.026427),
        ("ROCm__legacy-rocm-build/issue-827/dmesg.txt", "kfd-rejects-atomics", None, None, 9.298192),
        ("ROCm__legacy-rocm-build/issue-2232/dmesg-grep-kfd.txt", "kfd-asic-unsupported", None, None, 3.548555),
        ("ROCm__legacy-rocm-build/issue-2196/dmesg.txt", "amdgpu-page-fault", "0000:83:00.0", None, 111.406216),
        ("ROCm__legacy-rocm-build/issue-5745/dmesg-T.txt", "amdgpu-page-fault", "0000:c1:00.0", None, None),
        ("ROCm__legacy-rocm-build/issue-3265/journal.txt", "amdgpu-mes-hung", "0000:03:00.0", None, None),
        ("ROCm__legacy-rocm-build/issue-6127/dmesg.txt", "amdgpu-ring-timeout", "0000:03:00.0", None, 34.965321),
        ("ROCm__legacy-rocm-build/issue-6273/dmesg.txt", "amdgpu-reset", "0000:c5:00.0", None, 127035.492304),
        (
            "ROCm__legacy-rocm-build/issue-4021/dmesg.txt",
            "amdgpu-ras-uncorrectable",
            "0000:68:00.0",
            None,
            8390.785329,
        ),
        ("pop-os__cosmic-epoch/issue-3764/dmesg.txt", "amdgpu-ring-timeout", "0000:28:00.0", None, 312.522692),
        ("NixOS__nixpkgs/issue-176915/dmesg-T.txt", "amdgpu-reset", "0000:03:00.0", None, None),
    ],
)
def test_recorded_kernel_logs(
    tmp_path: Path, recording: str, kind: str, bdf: str | None, xid: int | None, seconds: float | None
) -> None:
    faults = kernel_log(tmp_path, recording).faults
    assert (kind, bdf, xid, seconds) in {(fault.kind, fault.bdf, fault.xid, fault.seconds) for fault in faults}


@pytest.mark.parametrize(
    "recording",
    [
        "leptonai__gpud/components/os/testdata/dmesg.decode.iso.log",
        "leptonai__gpud/components/accelerator/nvidia/nccl/testdata/dmesg.decode.iso.log",
        "leptonai__gpud/pkg/pstore/testdata/dmesg-erst.txt",
        "leptonai__gpud/pkg/kmsg/testdata/kmsg.2.peermem.log",
    ],
)
def test_logs_of_other_troubles_show_no_fault_of_a_gpu(tmp_path: Path, recording: str) -> None:
    assert kernel_log(tmp_path, recording).faults == ()
