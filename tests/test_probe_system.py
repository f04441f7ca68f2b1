"""The system probe: each fact from the file that a machine keeps it in, and an honest answer without it."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudoctor.host import LiveHost
from gpudoctor.host.recorded_host import RecordedHost
from gpudoctor.machine import Fact, Jetson, Os, System
from gpudoctor.probes.system import probe_system
from tests.support.environments import shared_library

Files = dict[str, "str | bytes"]


def host(root: Path, files: Files, **host_file: Any) -> RecordedHost:
    for path, content in files.items():
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
    if host_file:
        (root / "gpudoctor-host.json").write_text(json.dumps(host_file))
    return RecordedHost(root)


def system(root: Path, files: Files, **host_file: Any) -> System:
    return probe_system(host(root, files, **host_file))


# --- kernel, architecture, distribution --------------------------------------------------------------


def test_kernel_and_architecture_from_uname_else_from_proc(tmp_path: Path) -> None:
    stated = system(tmp_path, {}, uname={"release": "6.11.0-26-generic", "machine": "aarch64"})
    assert (stated.kernel.value, stated.arch.value) == ("6.11.0-26-generic", "aarch64")


def test_kernel_and_architecture_of_a_folder_without_uname(tmp_path: Path) -> None:
    version = "Linux version 5.15.0-101-generic (b@h) (gcc (Ubuntu 11.4.0) 11.4.0) #111-Ubuntu SMP Tue Mar 5 2024\n"
    found = system(tmp_path, {"/proc/version": version, "/proc/cpuinfo": "flags\t\t: fpu lm sse2\n"})
    assert (found.kernel.value, found.kernel.source) == ("5.15.0-101-generic", "/proc/version")
    assert found.arch.value == "x86_64"


def test_an_image_that_is_not_running_tells_its_architecture_by_its_programs(tmp_path: Path) -> None:
    elf = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00" + (183).to_bytes(2, "little")
    found = system(tmp_path, {"/bin/sh": elf})
    assert found.arch.value == "aarch64"
    assert found.kernel.state == found.memory.state == found.cpu_flags.state == "unknown"


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        (
            "/etc/os-release",
            'NAME="Ubuntu"\nVERSION_ID="24.04"\nID=ubuntu\nID_LIKE=debian\nPRETTY_NAME="Ubuntu 24.04.3 LTS"\n',
            Os(id="ubuntu", version="24.04", like=("debian",), name="Ubuntu 24.04.3 LTS"),
        ),
        (
            "/usr/lib/os-release",
            '# a remark\nID=\'rocky\'\nVERSION_ID="9.4"\nID_LIKE="rhel centos fedora"\nNAME="Rocky Linux"\n',
            Os(id="rocky", version="9.4", like=("rhel", "centos", "fedora"), name="Rocky Linux"),
        ),
        ("/etc/os-release", 'ID=arch\nPRETTY_NAME="Arch \\"x\\" \\$Linux"\n', Os(id="arch", name='Arch "x" $Linux')),
    ],
)
def test_distribution(tmp_path: Path, path: str, text: str, expected: Os) -> None:
    found = system(tmp_path, {path: text}).os
    assert (found.value, found.source) == (expected, path)


def test_a_distribution_that_is_not_stated_is_not_guessed(tmp_path: Path) -> None:
    assert system(tmp_path, {"/etc/os-release": "nonsense\n=\n"}).os.value is None


@settings(max_examples=50)
@given(content=st.binary(max_size=400))
def test_garbage_costs_its_fact_and_no_more(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    names = (
        "/etc/os-release /etc/group /proc/cmdline /proc/cpuinfo /proc/meminfo /proc/version /proc/mounts "
        "/proc/1/cgroup /proc/1/mountinfo /proc/sys/kernel/osrelease /sys/power/suspend_stats/success "
        "/etc/nv_tegra_release "
        "/sys/firmware/efi/efivars/SecureBoot-8be4df61 /proc/device-tree/compatible /proc/1/environ"
    )
    root = tmp_path_factory.mktemp("garbage")
    found = system(root, dict.fromkeys(names.split(), content), uname={"release": "6.8.0", "machine": "x86_64"})
    assert found.kernel.value == "6.8.0"


# --- C library ---------------------------------------------------------------------------------------


def libc(*versions: str) -> bytes:
    return shared_library(soname="libc.so.6", defines=[f"GLIBC_{version}" for version in (*versions, "PRIVATE")])


X86 = {"machine": "x86_64", "release": "6.8.0"}


@pytest.mark.parametrize("folder", ["/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/usr/lib"])
def test_the_c_library_of_a_recording_is_known_by_its_symbol_versions(tmp_path: Path, folder: str) -> None:
    path = f"{folder}/libc.so.6"
    found = system(tmp_path, {path: libc("2.2.5", "2.9", "2.17")}, uname=X86).libc
    assert (found.value, found.source) == ("glibc 2.17", path)


def test_musl_is_the_c_library_where_there_is_no_glibc(tmp_path: Path) -> None:
    loader: Files = {"/lib/ld-musl-x86_64.so.1": shared_library()}
    assert system(tmp_path / "alpine", loader, uname=X86).libc.value == "musl"
    beside: Files = {**loader, "/lib/x86_64-linux-gnu/libc.so.6": libc("2.36")}
    assert system(tmp_path / "debian", beside, uname=X86).libc.value == "glibc 2.36"


@pytest.mark.parametrize("content", [None, b"", b"\x7fELF" + bytes(60), shared_library(soname="libc.so.6")])
def test_a_c_library_that_tells_nothing_is_unknown(tmp_path: Path, content: bytes | None) -> None:
    files: Files = {"/lib64/libc.so.6": content} if content is not None else {}
    assert system(tmp_path, files, uname=X86).libc.state == "unknown"


def test_the_running_system_names_its_own_c_library() -> None:
    name, version = platform.libc_ver()
    expected = f"glibc {version}" if name == "glibc" else "musl"
    assert probe_system(LiveHost()).libc.value == expected


# --- memory ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mounts", "size"),
    [
        ("shm /dev/shm tmpfs rw,nosuid,nodev,noexec,relatime,size=65536k,inode64 0 0", 64 << 20),
        ("tmpfs /dev/shm tmpfs rw,size=8g 0 0", 8 << 30),
        ("tmpfs /dev/shm tmpfs rw,nosuid 0 0", 16 << 30),
        ("tmpfs /dev/shm tmpfs rw,size=25% 0 0", 8 << 30),
        ("tmpfs /dev/shm tmpfs rw,size=0 0 0", 32 << 30),
        ("tmpfs /dev/shm tmpfs rw,size=8g 0 0\nshm /dev/shm tmpfs rw,size=1048576k 0 0", 1 << 30),
    ],
)
def test_size_of_shared_memory_in_a_recording(tmp_path: Path, mounts: str, size: int) -> None:
    files: Files = {"/proc/mounts": mounts + "\n", "/proc/meminfo": f"MemTotal: {32 << 20} kB\nMemFree: 1 kB\n"}
    found = system(tmp_path, files)
    assert (found.shm.value, found.memory.value) == (size, 32 << 30)


def test_shared_memory_of_a_mount_table_with_escapes(tmp_path: Path) -> None:
    table = (
        "1 0 0:1 / / rw - overlay overlay rw\n2 1 0:2 / /mnt/a\\040b rw - ext4 /dev/sda rw\n"
        "3 1 0:3 / /dev/shm rw,nosuid - tmpfs shm rw,size=65536k\n"
    )
    assert system(tmp_path, {"/proc/1/mountinfo": table}).shm.value == 64 << 20


def test_without_a_mount_table_the_size_is_unknown(tmp_path: Path) -> None:
    assert system(tmp_path, {"/etc/os-release": "ID=debian\n"}).shm.state == "unknown"
    assert system(tmp_path, {"/proc/mounts": "proc /proc proc rw 0 0\n"}).shm.absent


# --- Secure Boot -------------------------------------------------------------------------------------

GLOBAL = "8be4df61-93ca-11d2-aa0d-00e098032b8c"
SHIM = "605dab50-e046-4300-abb6-3dd810dd8b23"
VARIABLES = "/sys/firmware/efi/efivars"
ON, OFF = b"\x06\0\0\0\x01", b"\x06\0\0\0\0"


@pytest.mark.parametrize(
    ("files", "state", "value"),
    [
        ({f"{VARIABLES}/SecureBoot-{GLOBAL}": ON}, "known", True),
        ({f"{VARIABLES}/SecureBoot-{GLOBAL}": OFF}, "known", False),
        ({f"{VARIABLES}/SecureBoot-{GLOBAL}": ON, f"{VARIABLES}/SetupMode-{GLOBAL}": OFF}, "known", True),
        ({f"{VARIABLES}/SecureBoot-{GLOBAL}": ON, f"{VARIABLES}/SetupMode-{GLOBAL}": ON}, "known", False),
        ({f"{VARIABLES}/SecureBoot-{GLOBAL}": ON, f"{VARIABLES}/MokSBStateRT-{SHIM}": ON}, "known", False),
        ({f"{VARIABLES}/SecureBoot-{GLOBAL}": b"\x01"}, "unknown", None),
        ({f"{VARIABLES}/SecureBoot-{GLOBAL}": b"\x06\0\0\0\x07"}, "unknown", None),
        ({f"{VARIABLES}/BootOrder-{GLOBAL}": ON}, "absent", None),
        ({"/sys/firmware/acpi/tables/FACP": b"x"}, "absent", None),
        ({"/sys/firmware/efi/runtime": b"x"}, "unknown", None),
        ({"/etc/os-release": b"ID=debian"}, "unknown", None),
    ],
)
def test_secure_boot(tmp_path: Path, files: dict[str, bytes], state: str, value: bool | None) -> None:
    found = system(tmp_path, dict(files)).secure_boot
    assert (found.state, found.value) == (state, value)


def test_a_container_that_hides_the_firmware_does_not_say_bios(tmp_path: Path) -> None:
    (tmp_path / "sys/firmware").mkdir(parents=True)
    (tmp_path / "sys/module").mkdir()
    assert system(tmp_path, {"/sys/module/x": ""}).secure_boot.state == "unknown"


def test_a_variable_that_may_not_be_read_is_denied(tmp_path: Path) -> None:
    nodes = {f"{VARIABLES}/SecureBoot-{GLOBAL}": {"open": "EACCES"}}
    assert system(tmp_path, {f"{VARIABLES}/SecureBoot-{GLOBAL}": ON}, nodes=nodes).secure_boot.state == "denied"


# --- kernel options ----------------------------------------------------------------------------------


def test_only_kernel_options_that_matter_are_kept_and_nothing_behind_the_dashes(tmp_path: Path) -> None:
    line = (
        "BOOT_IMAGE=/vmlinuz root=UUID=1f1a quiet nomodeset modprobe.blacklist=nouveau,amdgpu "
        "rd.driver.blacklist=nouveau nvidia-drm.modeset=1 NVreg=1 "
        "amdgpu.ppfeaturemask=0xffffffff iommu=pt amd_iommu=on pci=realloc,noaer "
        "module_blacklist=nvidia nokaslr vfio-pci.ids=10de:2684 password=x -- nouveau.modeset=0 --token=secret"
    )
    assert system(tmp_path, {"/proc/cmdline": line + "\n"}).kernel_options.value == (
        "nomodeset",
        "modprobe.blacklist=nouveau,amdgpu",
        "rd.driver.blacklist=nouveau",
        "nvidia-drm.modeset=1",
        "amdgpu.ppfeaturemask=0xffffffff",
        "iommu=pt",
        "amd_iommu=on",
        "pci=realloc,noaer",
        "module_blacklist=nvidia",
        "nokaslr",
        "vfio-pci.ids=10de:2684",
    )


# --- WSL, Jetson -------------------------------------------------------------------------------------

WSL_KERNEL = "5.15.146.1-microsoft-standard-WSL2"


@pytest.mark.parametrize(
    ("release", "files", "environ", "state"),
    [
        (WSL_KERNEL, {}, {}, "known"),
        ("6.6.36-custom", {"/dev/dxg": "", "/usr/lib/wsl/lib/libcuda.so.1": ""}, {}, "known"),
        ("6.6.36-custom", {}, {"WSL_DISTRO_NAME": "Ubuntu"}, "known"),
        ("6.8.0-1020-azure", {}, {}, "absent"),
        # A guest of Hyper-V with a shared GPU has the node, not WSL's folder.
        ("6.8.0-45-generic", {"/dev/dxg": ""}, {}, "absent"),
    ],
)
def test_wsl(tmp_path: Path, release: str, files: Files, environ: dict[str, str], state: str) -> None:
    found = system(tmp_path, files, uname={"release": release, "machine": "x86_64"}, environ=environ)
    assert found.wsl.state == state
    assert found.wsl.value == (release if state == "known" else None)
    assert (found.virtual_machine.value == "hyper-v") == (state == "known")


def test_a_docker_container_in_wsl_is_both(tmp_path: Path) -> None:
    found = system(tmp_path, {"/.dockerenv": ""}, uname={"release": WSL_KERNEL, "machine": "x86_64"})
    assert (found.wsl.value, found.container.value) == (WSL_KERNEL, "docker")


TEGRA_RELEASE = (
    "# R36 (release), REVISION: 4.3, GCID: 38968081, BOARD: generic, EABI: aarch64, DATE: Wed Jan  8 2025\n"
)
ORIN = b"nvidia,p3737-0000+p3701-0005\0nvidia,p3701-0005\0nvidia,tegra234\0nvidia,tegra23x\0"


def jetson(root: Path, files: Files, release: str = "5.15.148-tegra", machine: str = "aarch64") -> Fact[Jetson]:
    return system(root, files, uname={"release": release, "machine": machine}).jetson


def test_a_jetson_names_its_board_and_l4t(tmp_path: Path) -> None:
    files: Files = {
        "/proc/device-tree/compatible": ORIN,
        "/proc/device-tree/model": b"NVIDIA Jetson AGX Orin Developer Kit\0",
        "/etc/nv_tegra_release": TEGRA_RELEASE,
    }
    found = jetson(tmp_path, files).value
    assert found is not None and "nvidia,tegra234" in found.compatible
    assert (found.model, found.l4t) == ("NVIDIA Jetson AGX Orin Developer Kit", "36.4.3")


def test_a_container_on_a_jetson_sees_the_release_file_only(tmp_path: Path) -> None:
    files: Files = {"/etc/nv_tegra_release": TEGRA_RELEASE, "/.dockerenv": ""}
    assert jetson(tmp_path, files, release="6.8.12").value == Jetson(l4t="36.4.3")


def test_other_arm_machines_are_no_jetson(tmp_path: Path) -> None:
    assert jetson(
        tmp_path, {"/proc/device-tree/compatible": b"raspberrypi,5-model-b\0brcm,bcm2712\0"}, "6.6.31"
    ).absent
    assert jetson(tmp_path, {"/etc/os-release": "ID=ubuntu\n"}, release="6.8.0-1020-nvidia-64k").absent


def test_a_pc_with_a_left_over_release_file_is_no_jetson(tmp_path: Path) -> None:
    assert jetson(tmp_path, {"/etc/nv_tegra_release": TEGRA_RELEASE}, machine="x86_64").absent


# --- virtual machines --------------------------------------------------------------------------------

GUEST = "processor : 0\nflags\t: fpu vme lm hypervisor avx2\n"
METAL = "processor : 0\nflags\t: fpu vme lm avx2\n"
DSDT = b"DSDTS\x0f\0\0\x02wFIRECKFCVMDSDT" + bytes(40)
ARM = "processor : 0\nFeatures\t: fp asimd evtstrm\nCPU architecture: 8\n"


@pytest.mark.parametrize(
    ("cpuinfo", "vendor", "product", "kind"),
    [
        (METAL, "ASUSTeK COMPUTER INC.", "System Product Name", None),
        (METAL, "Amazon EC2", "p4d.24xlarge-metal", None),
        (METAL, "Alibaba Cloud", "Alibaba Cloud ECS", None),
        (METAL, "Microsoft Corporation", "Surface Laptop Studio", None),
        (METAL, "Google", "Eve", None),
        (GUEST, "Alibaba Cloud", "Alibaba Cloud ECS", "alibaba"),
        (GUEST, "Amazon EC2", "c5.large", "aws"),
        (ARM, "Amazon EC2", "a1.medium", "aws"),
        (ARM, "Amazon EC2", "a1.metal", None),
        (GUEST, "Google", "Google Compute Engine", "gce"),
        (METAL, "Amazon EC2", "p4d.24xlarge", "aws"),
        (METAL, "QEMU", "Ubuntu 24.04 PC (i440FX + PIIX, 1996)", "kvm"),
        (METAL, "KubeVirt", "None", "kvm"),
        (METAL, "Parallels Software International Inc.", "Parallels Virtual Platform", "parallels"),
        (GUEST, "Linode", "Compute Instance", "linode"),
        (METAL, "Vultr", "VBM-48C-1024GB-8-A100", None),
        (GUEST, "VMware, Inc.", "VMware Virtual Platform", "vmware"),
        (METAL, "VMware, Inc.", "VMware Virtual Platform", "vmware"),
        (GUEST, "Microsoft Corporation", "Virtual Machine", "hyper-v"),
        (GUEST, "QEMU", "Standard PC (Q35 + ICH9, 2009)", "kvm"),
        (ARM, "QEMU", "KVM Virtual Machine", "kvm"),
        (GUEST, "Bochs", "Bochs", "kvm"),
        (GUEST, "Red Hat", "RHEV Hypervisor", "kvm"),
        (GUEST, "Xen", "HVM domU", "xen"),
        (GUEST, "innotek GmbH", "VirtualBox", "virtualbox"),
        (GUEST, "Parallels Software International Inc.", "Parallels Virtual Platform", "parallels"),
        (GUEST, "Somebody", "Something", "unknown hypervisor"),
    ],
)
def test_hypervisor_by_the_processor_and_the_firmware(
    tmp_path: Path, cpuinfo: str, vendor: str, product: str, kind: str | None
) -> None:
    files: Files = {
        "/proc/cpuinfo": cpuinfo,
        "/sys/class/dmi/id/sys_vendor": vendor + "\n",
        "/sys/class/dmi/id/product_name": product + "\n",
    }
    found = system(tmp_path, files).virtual_machine
    assert found.value == kind
    assert found.known or found.absent


def test_azure_is_told_from_any_hyper_v_by_its_chassis(tmp_path: Path) -> None:
    files: Files = {
        "/proc/cpuinfo": GUEST,
        "/sys/class/dmi/id/sys_vendor": "Microsoft Corporation\n",
        "/sys/class/dmi/id/product_name": "Virtual Machine\n",
        "/sys/class/dmi/id/chassis_asset_tag": "7783-7084-3265-9085-8269-3286-77\n",
    }
    assert system(tmp_path, files).virtual_machine.value == "azure"


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        ({"/proc/cpuinfo": GUEST, "/sys/firmware/acpi/tables/DSDT": DSDT}, "firecracker"),
        ({"/proc/cpuinfo": GUEST, "/proc/cmdline": "reboot=k panic=1 -- --firecracker-init"}, "firecracker"),
        ({"/proc/cpuinfo": ARM, "/proc/device-tree/compatible": b"linux,dummy-virt\0"}, "kvm"),
        ({"/proc/cpuinfo": METAL, "/sys/hypervisor/type": "xen\n"}, "xen"),
        ({"/proc/cpuinfo": GUEST, "/sys/hypervisor/type": "xen\n", "/proc/xen/capabilities": "control_d\n"}, None),
    ],
)
def test_hypervisors_without_firmware_texts(tmp_path: Path, files: Files, kind: str | None) -> None:
    assert system(tmp_path, files).virtual_machine.value == kind


def test_a_machine_whose_firmware_is_not_recorded_may_be_virtual(tmp_path: Path) -> None:
    assert system(tmp_path, {"/proc/cpuinfo": METAL}).virtual_machine.state == "unknown"


# --- user, groups, suspends --------------------------------------------------------------------------


def test_groups_have_names_but_a_persons_own_group_has_none(tmp_path: Path) -> None:
    group = "root:x:0:\nvideo:x:44:ann\nrender:x:109:ann\nann:x:1000:\nbroken\nodd:x:minus:\n"
    found = system(tmp_path, {"/etc/group": group}, user={"uid": 1000, "gids": [44, 1000, 4242]})
    assert found.user.groups == ("video",) and found.user.gids == (44, 1000, 4242)
    assert found.groups == {"render": 109, "video": 44}


def test_suspends(tmp_path: Path) -> None:
    assert system(tmp_path, {"/sys/power/suspend_stats/success": "3\n"}).suspends.value == 3
    assert system(tmp_path / "other", {"/etc/os-release": "ID=x"}).suspends.state == "unknown"


# --- the machine that runs this test -----------------------------------------------------------------


def test_the_running_system_answers() -> None:
    found = probe_system(LiveHost())
    assert found.kernel.known and found.arch.known and found.cpu_flags.known
    assert found.memory.value is not None and found.memory.value > 1 << 28
    assert found.user.uid >= 0


def test_without_os_release_the_distro_package_is_asked_on_a_running_system_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import distro

    monkeypatch.setattr(distro, "id", lambda: "slackware")
    monkeypatch.setattr("gpudoctor.probes.system._OS_RELEASES", ("/nowhere/os-release",))
    assert probe_system(RecordedHost(tmp_path)).os.state == "unknown"
    running = probe_system(LiveHost()).os
    assert running.value is not None and running.value.id == "slackware"
