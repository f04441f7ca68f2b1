"""GPUs on the PCI bus, and kernel modules: small sysfs trees with values that real machines show."""

from __future__ import annotations

import gzip
import lzma
import struct
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudoctor.host import LiveHost
from gpudoctor.host.recorded_host import RecordedHost
from gpudoctor.probes.modinfo import read_modinfo
from gpudoctor.probes.modules import (
    blocked_modules,
    dkms_modules,
    installed_modules,
    loaded_modules,
    module_name,
)
from gpudoctor.probes.os_packages import package_version
from gpudoctor.probes.pci import probe_pci
from gpudoctor.probes.pci_address import normal_address
from tests.support.codeobject_files import zstd_frame

BUS = "/sys/bus/pci/devices"
KERNEL = "6.8.0-60-generic"


def write(root: Path, path: str, content: str | bytes = "") -> None:
    place = root / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content.encode() if isinstance(content, str) else content)


def link(root: Path, path: str, target: str) -> None:
    place = root / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)


def uevent(pci_id: str, pci_class: str, driver: str = "") -> str:
    bound = f"DRIVER={driver}\n" if driver else ""
    return f"{bound}PCI_CLASS={pci_class}\nPCI_ID={pci_id}\n"


def test_a_gpu_with_nothing_but_uevent_and_vendor(tmp_path: Path) -> None:
    write(tmp_path, f"{BUS}/0000:0b:00.0/uevent", uevent("1002:73FF", "30000", "amdgpu"))
    write(tmp_path, f"{BUS}/0000:0b:00.0/vendor", "0x1002\n")
    (gpu,) = probe_pci(RecordedHost(tmp_path)).value or ()
    assert (gpu.bdf, gpu.pci_id, gpu.class_code) == ("0000:0b:00.0", "1002:73ff", "030000")
    assert (gpu.driver.value, gpu.revision) == ("amdgpu", None)
    assert gpu.is_gpu


def test_a_gpu_with_nothing_but_number_files(tmp_path: Path) -> None:
    folder = f"{BUS}/0000:01:00.0"
    for name, content in (("vendor", "0x10de"), ("device", "0x2b85"), ("class", "0x030000"), ("revision", "0xa1")):
        write(tmp_path, f"{folder}/{name}", content + "\n")
    write(tmp_path, f"{folder}/boot_vga", "1\n")
    write(tmp_path, f"{folder}/power/runtime_status", "suspended\n")
    (gpu,) = probe_pci(RecordedHost(tmp_path)).value or ()
    assert (gpu.pci_id, gpu.class_code, gpu.revision) == ("10de:2b85", "030000", "a1")
    assert gpu.boot_vga
    assert gpu.runtime_status == "suspended"
    assert gpu.driver.state == "unknown", "neither a uevent nor a link was recorded"


def test_no_driver_line_in_a_uevent_means_no_driver(tmp_path: Path) -> None:
    write(tmp_path, f"{BUS}/0000:01:00.0/uevent", uevent("10DE:2684", "30000"))
    (gpu,) = probe_pci(RecordedHost(tmp_path)).value or ()
    assert gpu.driver.state == "absent"


@pytest.mark.parametrize(
    ("pci_id", "pci_class", "gpu", "switch"),
    [
        ("10DE:1DB2", "30200", True, False),
        ("10DE:2684", "30000", True, False),
        ("10DE:22BA", "40300", False, False),
        ("10DE:22A3", "68000", False, True),
        ("10DE:1AF1", "68000", False, True),
        ("10DE:0057", "68000", False, False),
        ("1002:74A1", "120000", True, False),
        ("1002:150E", "38000", True, False),
        ("1002:AB28", "40300", False, False),
        ("8086:56A0", "30000", False, False),
        ("1A03:2000", "30000", False, False),
    ],
)
def test_what_is_a_gpu_and_what_is_a_switch(
    tmp_path: Path, pci_id: str, pci_class: str, gpu: bool, switch: bool
) -> None:
    write(tmp_path, f"{BUS}/0000:3b:00.0/uevent", uevent(pci_id, pci_class))
    found = probe_pci(RecordedHost(tmp_path)).value or ()
    assert [(device.is_gpu, device.is_nvswitch) for device in found] == ([(gpu, switch)] if gpu or switch else [])


def test_virtual_functions_of_a_shared_gpu_are_no_gpus(tmp_path: Path) -> None:
    for function in range(3):
        write(tmp_path, f"{BUS}/0000:3b:00.{function}/uevent", uevent("10DE:20B5", "30200", "nvidia"))
        if function:
            link(tmp_path, f"{BUS}/0000:3b:00.{function}/physfn", "../0000:3b:00.0")
    assert [device.bdf for device in probe_pci(RecordedHost(tmp_path)).value or ()] == ["0000:3b:00.0"]


def test_a_gpu_that_reads_all_ones_is_dead_and_a_sleeping_one_is_not_touched(tmp_path: Path) -> None:
    for bdf, status in (("0000:01:00.0", "active"), ("0000:02:00.0", "suspended")):
        write(tmp_path, f"{BUS}/{bdf}/uevent", uevent("10DE:2684", "30000", "nvidia"))
        write(tmp_path, f"{BUS}/{bdf}/config", b"\xff" * 64)
        write(tmp_path, f"{BUS}/{bdf}/power/runtime_status", status)
    assert [device.dead for device in probe_pci(RecordedHost(tmp_path)).value or ()] == [True, False]


def test_render_nodes_and_memory_of_an_amd_gpu(tmp_path: Path) -> None:
    folder = f"{BUS}/0000:0b:00.0"
    write(tmp_path, f"{folder}/uevent", uevent("1002:687F", "30000", "amdgpu"))
    write(tmp_path, f"{folder}/mem_info_vram_total", "8573157376\n")
    write(tmp_path, f"{folder}/drm/card0/dev", "226:0\n")
    write(tmp_path, f"{folder}/drm/renderD128/dev", "226:128\n")
    (gpu,) = probe_pci(RecordedHost(tmp_path)).value or ()
    assert (gpu.render_nodes, gpu.memory) == (("/dev/dri/renderD128",), 8573157376)


def test_a_recording_without_sysfs_says_nothing(tmp_path: Path) -> None:
    assert probe_pci(RecordedHost(tmp_path)).state == "unknown"
    (tmp_path / "sys/bus/pci/devices").mkdir(parents=True)
    assert probe_pci(RecordedHost(tmp_path)).value == ()


@pytest.mark.parametrize(
    "content", ["\0\0\xff", "PCI_ID=10DE:\nPCI_CLASS=30000\n", "PCI_ID=10DE:zzzz\nPCI_CLASS=30000"]
)
def test_garbage_costs_one_device(tmp_path: Path, content: str) -> None:
    write(tmp_path, f"{BUS}/0000:01:00.0/uevent", content)
    write(tmp_path, f"{BUS}/0000:02:00.0/uevent", uevent("10DE:2684", "30000"))
    assert [device.bdf for device in probe_pci(RecordedHost(tmp_path)).value or ()] == ["0000:02:00.0"]


@given(st.integers(0, 0xFFFF), st.integers(0, 0xFF), st.integers(0, 0x1F), st.integers(0, 7))
def test_addresses_have_one_form(domain: int, bus: int, device: int, function: int) -> None:
    normal = f"{domain:04x}:{bus:02x}:{device:02x}.{function}"
    assert normal_address(f"{domain:08X}:{bus:02X}:{device:02X}.{function}") == normal
    assert normal_address(normal) == normal


@given(st.text(max_size=40))
def test_no_text_breaks_the_address_reader(text: str) -> None:
    assert (normal := normal_address(text)) is None or normal_address(normal) == normal


# --- modules ---------------------------------------------------------------------------------------


def test_loaded_and_built_in_modules(tmp_path: Path) -> None:
    names = ("nvidia", "nvidia_uvm", "amdgpu")
    assert loaded_modules(RecordedHost(tmp_path), names).state == "unknown"
    write(tmp_path, "/proc/modules", "nvidia_uvm 4096 0 - Live 0x0\nnvidia 60000 2 nvidia_uvm, Live 0x0 (OE)\n")
    assert loaded_modules(RecordedHost(tmp_path), names).value == ("nvidia", "nvidia_uvm")
    write(tmp_path, "/sys/module/amdgpu/parameters/ppfeaturemask", "0\n")
    assert "amdgpu" in (loaded_modules(RecordedHost(tmp_path), names).value or ())


def elf_module(**info: str) -> bytes:
    """A 64-bit object with nothing but the .modinfo section of a kernel module."""
    modinfo = b"".join(f"{key}={value}\0".encode() for key, value in info.items())
    names = b"\0.modinfo\0.shstrtab\0"
    table = 64 + len(modinfo) + len(names)
    header = (
        b"\x7fELF\x02\x01\x01"
        + bytes(9)
        + struct.pack("<HHIQQQIHHHHHH", 1, 62, 1, 0, 0, table, 0, 64, 0, 0, 64, 3, 2)
    )
    sections = [(0, 0, 0, 0), (1, 1, 64, len(modinfo)), (10, 3, 64 + len(modinfo), len(names))]
    return (
        header
        + modinfo
        + names
        + b"".join(
            struct.pack("<IIQQQQIIQQ", name, kind, 0, 0, offset, size, 0, 0, 1, 0)
            for name, kind, offset, size in sections
        )
    )


def test_module_files_tell_version_and_flavour(tmp_path: Path) -> None:
    old, new = "6.8.0-59-generic", KERNEL
    write(
        tmp_path,
        f"/lib/modules/{old}/updates/dkms/nvidia.ko",
        elf_module(version="580.95.05", license="Dual MIT/GPL"),
    )
    packed = lzma.compress(elf_module(version="550.54.15", license="NVIDIA"))
    write(tmp_path, f"/lib/modules/{new}/extra/nvidia/nvidia.ko.xz", packed)
    write(tmp_path, f"/lib/modules/{new}/kernel/drivers/gpu/drm/nouveau/nouveau.ko.zst", b"\x28\xb5\x2f\xfd")
    found = installed_modules(RecordedHost(tmp_path), new, ("nvidia", "nouveau")).value or ()
    assert [(m.name, m.kernel, m.version, m.flavour) for m in found] == [
        ("nvidia", old, "580.95.05", "open"),
        ("nvidia", new, "550.54.15", "proprietary"),
        ("nouveau", new, None, None),
    ]


@pytest.mark.parametrize(
    ("ending", "packed"),
    [("", bytes), (".xz", lzma.compress), (".gz", gzip.compress), (".zst", zstd_frame)],
    ids=["plain", "xz", "gzip", "zstd"],
)
def test_module_files_are_read_as_distributions_pack_them(
    tmp_path: Path, ending: str, packed: Callable[[bytes], bytes]
) -> None:
    module = tmp_path / f"nvidia.ko{ending}"
    module.write_bytes(packed(elf_module(version="550.54.15", license="NVIDIA")))
    assert read_modinfo(LiveHost(), str(module)) == {"version": "550.54.15", "license": "NVIDIA"}


def test_a_huge_packed_module_is_told_by_its_sibling_or_its_source(tmp_path: Path) -> None:
    folder = f"/lib/modules/{KERNEL}/extra"
    write(tmp_path, f"{folder}/nvidia.ko.xz", bytes(4 << 20))
    write(
        tmp_path,
        f"{folder}/nvidia-modeset.ko.xz",
        lzma.compress(elf_module(version="575.64", license="Dual MIT/GPL")),
    )
    (found,) = installed_modules(RecordedHost(tmp_path), KERNEL, ("nvidia",)).value or ()
    assert (found.version, found.flavour) == ("575.64", "open")


def test_modules_that_only_the_index_knows(tmp_path: Path) -> None:
    write(tmp_path, f"/lib/modules/{KERNEL}/vendor/video/nvidia.ko", elf_module(version="570.1", license="NVIDIA"))
    write(tmp_path, f"/lib/modules/{KERNEL}/modules.dep", "vendor/video/nvidia.ko: kernel/drm.ko\nkernel/drm.ko:\n")
    (found,) = installed_modules(RecordedHost(tmp_path), KERNEL, ("nvidia",)).value or ()
    assert found.path == f"/lib/modules/{KERNEL}/vendor/video/nvidia.ko"


def test_without_the_running_kernels_folder_nothing_is_claimed(tmp_path: Path) -> None:
    (tmp_path / "lib/modules/5.15.0-1-generic").mkdir(parents=True)
    assert installed_modules(RecordedHost(tmp_path), KERNEL, ("nvidia",)).state == "unknown"
    (tmp_path / f"lib/modules/{KERNEL}").mkdir()
    assert installed_modules(RecordedHost(tmp_path), KERNEL, ("nvidia",)).value == ()


@given(st.binary(max_size=400))
def test_no_bytes_break_the_module_reader(content: bytes) -> None:
    for data in (content, elf_module(version="1")[:40] + content):
        with TemporaryDirectory() as folder:
            write(Path(folder), "/nvidia.ko", data)
            assert isinstance(read_modinfo(RecordedHost(Path(folder)), "/nvidia.ko"), dict)


@pytest.mark.parametrize(
    ("file_name", "module"),
    [
        ("nvidia.ko", "nvidia"),
        ("nvidia-uvm.ko.zst", "nvidia_uvm"),
        ("nvidia-current.ko", "nvidia"),
        ("nvidia-tesla-535.ko.xz", "nvidia"),
        ("nvidia-current-modeset.ko", "nvidia_current_modeset"),
        ("amdgpu.ko.gz", "amdgpu"),
        ("nvidia.txt", ""),
    ],
)
def test_module_names(file_name: str, module: str) -> None:
    assert module_name(file_name) == module


def test_dkms_states(tmp_path: Path) -> None:
    tree = "/var/lib/dkms/nvidia"
    for version in ("550.54.15", "535.1.1"):
        link(tmp_path, f"{tree}/{version}/source", f"/usr/src/nvidia-{version}")
    (tmp_path / "usr/src/nvidia-550.54.15").mkdir(parents=True)
    for kernel in ("6.8.0-59-generic", KERNEL):
        write(tmp_path, f"{tree}/550.54.15/{kernel}/x86_64/module/nvidia.ko.zst")
    link(tmp_path, f"{tree}/kernel-6.8.0-59-generic-x86_64", "550.54.15/6.8.0-59-generic/x86_64")
    (tmp_path / "var/lib/dkms/nvidia-fs/2.20").mkdir(parents=True)
    found = dkms_modules(RecordedHost(tmp_path), "nvidia").value or ()
    assert {(m.version, m.kernel, m.status) for m in found} == {
        ("550.54.15", "6.8.0-59-generic", "installed"),
        ("550.54.15", KERNEL, "built"),
        ("535.1.1", "", "broken"),
    }
    (tmp_path / "usr/src/nvidia-535.1.1").mkdir()
    assert {
        m.status for m in dkms_modules(RecordedHost(tmp_path), "nvidia").value or () if m.version == "535.1.1"
    } == {"added"}


def test_what_keeps_modules_from_loading(tmp_path: Path) -> None:
    write(
        tmp_path,
        "/etc/modprobe.d/mine.conf",
        "# blacklist nvidia\nblacklist nouveau\ninstall nvidia-uvm /bin/false\n",
    )
    write(
        tmp_path,
        "/lib/modprobe.d/blacklist-nvidia.conf",
        "# made by nvidia-prime\nblacklist nvidia\nalias nvidia off\n",
    )
    write(tmp_path, "/proc/cmdline", "root=/dev/sda1 modprobe.blacklist=nvidiafb,amdgpu nomodeset quiet\n")
    names = ("nvidia", "nvidia_uvm", "nouveau", "amdgpu")
    found = blocked_modules(RecordedHost(tmp_path), names).value or ()
    assert [(rule.module, rule.rule, rule.chosen) for rule in found] == [
        ("nouveau", "blacklist nouveau", False),
        ("nvidia_uvm", "install nvidia-uvm /bin/false", False),
        ("nvidia", "blacklist nvidia", True),
        ("nvidia", "alias nvidia off", True),
        ("amdgpu", "modprobe.blacklist=nvidiafb,amdgpu", False),
        ("amdgpu", "nomodeset", False),
    ]


def test_a_file_in_etc_replaces_the_packages_file_of_that_name(tmp_path: Path) -> None:
    write(tmp_path, "/etc/modprobe.d/nvidia.conf", "\n")
    write(tmp_path, "/usr/lib/modprobe.d/nvidia.conf", "blacklist nvidia\n")
    assert blocked_modules(RecordedHost(tmp_path), ("nvidia",)).value == ()


# --- packages of the distribution ----------------------------------------------------------------------


def test_versions_from_dpkg_and_pacman(tmp_path: Path) -> None:
    assert package_version(RecordedHost(tmp_path), "linux-firmware").state == "unknown"
    (tmp_path / "var/lib/pacman/local/linux-firmware-20250708-1").mkdir(parents=True)
    assert package_version(RecordedHost(tmp_path), "linux-firmware").value == "20250708-1"
    status = (
        "Package: linux-firmware-extra\nStatus: install ok installed\nVersion: 1\n\n"
        "Package: linux-firmware\nStatus: install ok installed\nVersion: 1:20240318.git3b128b60-0ubuntu2.15\n\n"
        "Package: rocm-core\nStatus: deinstall ok config-files\nVersion: 6.4.1\n"
    )
    write(tmp_path, "/var/lib/dpkg/status", status)
    host = RecordedHost(tmp_path)
    assert package_version(host, "linux-firmware").value == "20240318.git3b128b60-0ubuntu2.15"
    assert package_version(host, "rocm-core").state == "absent"
