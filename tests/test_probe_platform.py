"""Limits, clock, PCI routes and AMD's boards, read from recorded machines and from the running system."""

from __future__ import annotations

import json
import os
import resource
import struct
from pathlib import Path
from typing import Any

import pytest

from gpudoctor.host import LiveHost
from gpudoctor.host.recorded_host import RecordedHost
from gpudoctor.machine import Board, Clock, Gpu
from gpudoctor.probes.amd_board import amd_board
from gpudoctor.probes.clock import probe_clock, probe_clock_source
from gpudoctor.probes.nvidia_smi import parse_smi
from gpudoctor.probes.pci_routes import probe_acs, probe_iommu
from gpudoctor.probes.process_limits import probe_limits
from gpudoctor.probes.system import probe_system
from tests.support.hosts import Host

GPU, BRIDGE = "0000:03:00.0", "0000:00:01.1"
PCI = "/sys/bus/pci/devices"


def recorded(host: Host) -> RecordedHost:
    host.file("/gpudoctor-host.json", json.dumps(host.json))
    return RecordedHost(str(host.root))


# --- limits ------------------------------------------------------------------------------------------

LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units
Max cpu time              unlimited            unlimited            seconds
Max locked memory         8388608              8388608              bytes
Max open files            1024                 524288               files
"""
KUBERNETES = "Name:\tpython\nCapInh:\t0000000000000000\nCapEff:\t00000000a80465fb\n"  # with IPC_LOCK (bit 14)
PLAIN = "Name:\tpython\nCapEff:\t0000000000000000\n"


def limits(host: Host) -> Any:
    seen = recorded(host)
    in_namespace = probe_system(seen).user.in_namespace
    return probe_limits(seen, rdma=True, in_group=False, in_namespace=in_namespace)


def test_the_limits_of_a_recorded_process(tmp_path: Path) -> None:
    host = Host(tmp_path).ubuntu().file("/proc/self/limits", LIMITS).file("/proc/self/status", PLAIN)
    found = limits(host).value
    assert (found.locked_memory, found.open_files, found.locks_any_memory) == (8 << 20, 1024, False)


def test_a_capability_lifts_the_limit_except_in_a_user_namespace(tmp_path: Path) -> None:
    host = Host(tmp_path).ubuntu().file("/proc/self/limits", LIMITS)
    host.file("/proc/self/status", KUBERNETES).file("/proc/self/uid_map", "         0          0 4294967295\n")
    assert limits(host).value.locks_any_memory is True
    assert limits(host.file("/proc/self/uid_map", "0 100000 65536\n")).value.locks_any_memory is False


def test_unlimited_and_what_nobody_recorded(tmp_path: Path) -> None:
    host = Host(tmp_path).ubuntu().file("/proc/self/limits", LIMITS.replace("8388608 ", "unlimited"))
    assert limits(host).value.locked_memory is None
    host.remove("/proc/self/limits").file("/proc/1/limits", LIMITS)
    assert not limits(host).known, "the first process is no measure for a job's"


def test_the_limits_of_this_process() -> None:
    found = probe_limits(LiveHost(), rdma=True, in_group=True, in_namespace=False).value
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert found is not None
    assert found.open_files == (None if soft == resource.RLIM_INFINITY else soft)
    assert found.cpus == len(os.sched_getaffinity(0))


def test_huge_pages(tmp_path: Path) -> None:
    host = Host(tmp_path).ubuntu()
    host.file("/proc/meminfo", "MemTotal: 65536000 kB\nHugePages_Total:    5128\nHugepagesize:       2048 kB\n")
    system = probe_system(recorded(host))
    assert (system.hugepages.value, system.memory.value) == (5128 * 2048 * 1024, 65536000 * 1024)
    host.file("/proc/meminfo", "MemTotal: 65536000 kB\nHugePages_Total: -1\nHugepagesize: many kB\n")
    assert not probe_system(recorded(host)).hugepages.known


# --- clock -------------------------------------------------------------------------------------------


def test_clock_source_and_time_service(tmp_path: Path) -> None:
    host = Host(tmp_path).ubuntu()
    host.file("/sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n")
    host.file("/run/systemd/timesync/synchronized")
    assert probe_clock_source(recorded(host)).value == "hpet"
    assert probe_clock(recorded(host)).value == Clock(service="systemd-timesyncd", synchronized=True)
    host.remove("/run/systemd/timesync/synchronized").file("/run/systemd/timesync/clock")
    assert probe_clock(recorded(host)).value == Clock(service="systemd-timesyncd")


def test_no_time_service_is_seen(tmp_path: Path) -> None:
    assert not probe_clock(recorded(Host(tmp_path).ubuntu())).known
    host = Host(tmp_path / "b").ubuntu().file("/run/chrony/chronyd.pid", "812\n")
    assert probe_clock(recorded(host)).value == Clock(service="chronyd")


def test_the_kernel_tells_of_its_clock() -> None:
    found = probe_clock(LiveHost()).value
    assert found is None or found.synchronized in (True, False)
    assert found is None or found.error is None or 0 <= found.error < 16_000_000


# --- PCI routes --------------------------------------------------------------------------------------


def bridge(control: int | None, *, whole: bool = True) -> bytes:
    """A bridge's configuration space: advanced error reporting at 0x100, access control behind it."""
    space = bytearray(4096 if whole else 64)
    if whole:
        after = 0x148 if control is not None else 0
        struct.pack_into("<I", space, 0x100, 0x0001 | 2 << 16 | after << 20)
        if control is not None:
            struct.pack_into("<IHH", space, 0x148, 0x000D | 1 << 16, 0x1F, control)
    return bytes(space)


def routed(tmp_path: Path, space: bytes) -> tuple[RecordedHost, tuple[Gpu, ...]]:
    host = Host(tmp_path).ubuntu()
    place = f"/sys/devices/pci0000:00/{BRIDGE}/{GPU}"
    host.file(f"{place}/vendor", "0x10de\n").file(f"{place}/iommu_group/type", "DMA-FQ\n")
    host.link(f"{PCI}/{GPU}", f"../../../devices/pci0000:00/{BRIDGE}/{GPU}")
    host.link(f"{PCI}/{BRIDGE}", f"../../../devices/pci0000:00/{BRIDGE}")
    host.file(f"/sys/devices/pci0000:00/{BRIDGE}/config", space)
    return recorded(host), (Gpu(vendor="nvidia", name="GPU", bdf=GPU),)


@pytest.mark.parametrize(("control", "redirects"), [(0x1D, True), (0x04, True), (0x01, False), (0x00, False)])
def test_acs_redirects_by_the_bits_of_the_control_register(tmp_path: Path, control: int, redirects: bool) -> None:
    host, gpus = routed(tmp_path, bridge(control))
    assert probe_acs(host, gpus).value == ((BRIDGE,) if redirects else ())


def test_a_bridge_without_acs_and_one_that_only_root_may_read(tmp_path: Path) -> None:
    assert probe_acs(*routed(tmp_path / "a", bridge(None))).value == ()
    assert probe_acs(*routed(tmp_path / "b", bridge(0x1D, whole=False))).state == "denied"
    loop = bytearray(bridge(None))
    struct.pack_into("<I", loop, 0x100, 0x0001 | 0x100 << 20)
    assert probe_acs(*routed(tmp_path / "c", bytes(loop))).value == ()
    assert probe_acs(*routed(tmp_path / "d", b"\xff" * 4096)).value == ()


def test_the_mode_of_the_iommu(tmp_path: Path) -> None:
    host, gpus = routed(tmp_path, bridge(None))
    assert probe_iommu(host, gpus).value == "DMA-FQ"
    without = Host(tmp_path / "b").ubuntu().file(f"{PCI}/{GPU}/vendor", "0x10de\n")
    assert probe_iommu(recorded(without), gpus).absent
    assert not probe_iommu(recorded(without), ()).known


# --- boards ------------------------------------------------------------------------------------------


def test_the_board_of_an_amd_gpu(tmp_path: Path) -> None:
    host, folder = Host(tmp_path).ubuntu(), f"{PCI}/{GPU}"
    host.file(f"{folder}/vbios_version", "113-M3000100-102\n")
    host.file(f"{folder}/current_link_speed", "8.0 GT/s PCIe\n").file(f"{folder}/max_link_speed", "32.0 GT/s PCIe\n")
    host.file(f"{folder}/current_link_width", "8\n").file(f"{folder}/max_link_width", "16\n")
    host.file(f"{folder}/hwmon/hwmon7/power1_cap", "750000000\n")
    host.file(f"{folder}/hwmon/hwmon7/power1_cap_default", "750000000\n")
    gpu = Gpu(vendor="amd", name="AMD Instinct MI300X", bdf=GPU)
    found = Board(
        vbios="113-M3000100-102", pcie_generation=3, pcie_generation_max=5, pcie_width=8, pcie_width_max=16,
        power_limit=750, power_limit_default=750,
    )  # fmt: skip
    assert amd_board(recorded(host), gpu) == found
    assert amd_board(recorded(host), gpu, 7).links_up == 7
    asleep = Gpu(vendor="amd", name="AMD Instinct MI300X", bdf=GPU, suspended=True)
    assert amd_board(recorded(host), asleep) == Board()
    host.file(f"{folder}/current_link_speed", "Unknown\n").file(f"{folder}/current_link_width", "255x\n")
    host.file(f"{folder}/vbios_version", "\xff\x00bad value").file(f"{folder}/hwmon/hwmon7/power1_cap", "-5\n")
    garbled = amd_board(recorded(host), gpu)
    assert (garbled.pcie_generation, garbled.pcie_width, garbled.vbios, garbled.power_limit) == (None, None, "", None)


def metrics(status: int, *, form: int = 3, size: int = 120) -> bytes:
    """gpu_metrics 1.`form`, as amdgpu writes it: what a GPU does not measure is 0xff."""
    return struct.pack("<HBB", size, 1, form) + b"\xff" * 108 + struct.pack("<Q", status) + b"\xff" * (size - 120)


@pytest.mark.parametrize(
    ("content", "reasons"),
    [
        (metrics(0), ()),
        (metrics(1 << 36), ("thermal",)),  # the hot spot, as an RX 7600S recorded it
        (metrics(1 << 0 | 1 << 16 | 1 << 46), ("power-cap", "hardware-thermal")),
        (metrics(1 << 57), ()),
        (metrics(2**64 - 1), None),
        (metrics(1 << 36, form=4), None),
        (metrics(1 << 36, size=160), None),
        (metrics(1 << 36)[:100], None),
    ],
)
def test_what_an_amd_gpu_is_throttled_for(tmp_path: Path, content: bytes, reasons: tuple[str, ...] | None) -> None:
    host = Host(tmp_path).ubuntu().file(f"{PCI}/{GPU}/gpu_metrics", content)
    assert amd_board(recorded(host), Gpu(vendor="amd", name="AMD Radeon RX 7600S", bdf=GPU)).throttled == reasons


def test_the_record_of_a_recording_has_these_facts(tmp_path: Path) -> None:
    host = Host(tmp_path).ubuntu().amd_gpu("744c", "gfx1100")
    host.file(f"{PCI}/{GPU}/vbios_version", "113-D70200-X01\n")
    machine = host.check()["machine"]
    assert [gpu["amd_board"]["vbios"] for gpu in machine["gpus"]] == ["113-D70200-X01"]


SMI = """\
==============NVSMI LOG==============

Driver Version                            : 555.42.02
CUDA Version                              : 12.5

GPU 00000000:03:00.0
    Product Name                          : NVIDIA A100-SXM4-80GB
    Persistence Mode                      : Enabled
    VBIOS Version                         : 92.00.9E.00.02
    Inforom Version
        Image Version                     : G506.0212.00.01
    GSP Firmware Version                  : 555.42.02
    PCI
        GPU Link Info
            PCIe Generation
                Max                       : 4
                Current                   : 1
            Link Width
                Max                       : 16x
                Current                   : 8x
    Clocks Event Reasons
        Idle                              : Active
        SW Power Cap                      : Active
        HW Slowdown                       : Not Active
            HW Thermal Slowdown           : Active
    GPU Power Readings
        Current Power Limit               : 500.00 W
        Default Power Limit               : 400.00 W
    Module Power Readings
        Current Power Limit               : N/A
"""


def test_what_nvidia_smi_says_of_a_board() -> None:
    api = parse_smi(SMI)
    assert api is not None
    (device,) = api.devices or ()
    assert device.board == Board(
        vbios="92.00.9E.00.02", inforom="G506.0212.00.01", gsp_firmware="555.42.02", pcie_generation=1,
        pcie_generation_max=4, pcie_width=8, pcie_width_max=16, power_limit=500, power_limit_default=400,
        throttled=("power-cap", "hardware-thermal"), persistence=True,
    )  # fmt: skip
