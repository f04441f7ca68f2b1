"""What only the kernel log tells: NVLink, GSP, MES, refused firmware, refused modules, bad memory."""

from __future__ import annotations

import pytest

from gpudoctor.host.recorded_host import RecordedHost
from gpudoctor.machine import InstalledModule, NvmlDevice, absent, known, unknown
from gpudoctor.probes.kernel_log import probe_kernel_log
from tests.support.check_cases import below_torch, first, found, log, matrix
from tests.support.machines import amd_gpu, amd_machine, change, nvidia_gpu, nvidia_machine, with_stack, with_system

FATAL = "NVRM: Xid (PCI:0000:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 (0x021425c6 0x0 0x0 0x0 0x0 0x0)"
NONFATAL = "NVRM: Xid (PCI:0000:01:00): 145, RLW_CTRL Nonfatal XC0 i0 Link 00 (0x00000003 0x80000000 0x0 0x0)"
SWITCH = "nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"
HEARTBEAT = "NVRM: GPU0 _kgspRpcRecvPoll: GSP RM heartbeat timed out"
MES = "amdgpu 0000:03:00.0: amdgpu: MES failed to respond to msg=REMOVE_QUEUE"
RECOVERED = "amdgpu 0000:03:00.0: amdgpu: GPU reset(1) succeeded!"
REFUSED = "amdgpu 0000:03:00.0: amdgpu: failed to load ucode VCN0_RAM(0x3A)"
PAGE = "Memory failure: 0x4c3a21: Sending SIGBUS to python3:41822 due to hardware memory corruption"
RESTRICTED = "Lockdown: modprobe: unsigned module loading is restricted; see man kernel_lockdown.7"
REJECTED = "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service"

KERNEL = "6.8.0-60-generic"


def severities(machine, slug):
    return [finding.severity for finding in found(machine, slug)]


# --- NVLink ---


@pytest.mark.parametrize(
    ("lines", "severity"),
    [((FATAL,), "warning"), ((SWITCH,), "warning"), ((NONFATAL,), "note"), ((NONFATAL, FATAL), "warning")],
)
def test_an_nvlink_error_is_told_by_its_weight(lines, severity):
    assert severities(nvidia_machine(**log(*lines)), "nvlink-error") == [severity]


@pytest.mark.parametrize("xid", [74, 144, 145, 146, 147, 148, 149, 150])
def test_each_xid_of_a_link_is_one(xid):
    line = f"NVRM: Xid (PCI:0000:01:00): {xid}, Fatal, Link 03"
    finding = found(nvidia_machine(**log(line)), "nvlink-error")[0]
    assert f"Xid {xid}" in finding.message
    assert finding.fixes[0].remedies[0].text.startswith("End all programs")


def test_another_xid_says_nothing_about_links():
    line = "NVRM: Xid (PCI:0000:01:00): 31, pid=1, name=python, MMU Fault"
    assert severities(nvidia_machine(**log(line)), "nvlink-error") == []


# --- GSP ---


def test_a_processor_without_a_heartbeat_is_told_where_the_driver_does_not_list_the_gpu():
    machine = nvidia_machine(nvidia_gpu(nvml=None), **log(HEARTBEAT))
    assert "(GSP)" in found(machine, "gpu-reset-needed")[0].message


def test_a_heartbeat_that_was_missed_once_is_nothing_on_a_gpu_that_the_driver_lists():
    machine = nvidia_machine(nvidia_gpu(nvml=NvmlDevice(index=0)), **log(HEARTBEAT))
    assert severities(machine, "gpu-reset-needed") == []


def test_a_line_without_an_address_blames_none_of_several_gpus():
    gpus = (nvidia_gpu(nvml=None), nvidia_gpu(index=1, nvml=None))
    assert severities(nvidia_machine(*gpus, **log(HEARTBEAT)), "gpu-reset-needed") == []


# --- MES and firmware ---


def test_a_hanging_scheduler_is_a_warning_until_a_reset_has_succeeded():
    assert severities(amd_machine(**log(MES)), "amd-gpu-hang") == ["warning"]
    assert severities(amd_machine(**log(MES, RECOVERED)), "amd-gpu-hang") == ["note"]
    assert severities(amd_machine(**log(RECOVERED, MES)), "amd-gpu-hang") == ["warning"]


def test_a_hanging_queue_is_told_the_same_way():
    ring = "amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=1234, emitted seq=1236"
    finding = found(amd_machine(**log(ring, "amdgpu 0000:03:00.0: amdgpu: GPU reset begin!")), "amd-gpu-hang")[0]
    assert (finding.severity, "ppfeaturemask" in finding.fixes[1].remedies[0].text) == ("warning", True)
    assert severities(amd_machine(**log(ring, RECOVERED)), "amd-gpu-hang") == ["note"]


def test_firmware_images_that_the_driver_does_not_find_are_the_reason():
    lines = (
        "NVRM: RmFetchGspRmImages: No firmware image found",
        "NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x61:0x56:1)",
    )
    machine = nvidia_machine(nvidia_gpu(nvml=None), **log(*lines))
    assert first(machine).slug == "nvidia-firmware-missing"


def test_a_reset_that_failed_after_the_hang_is_the_problem():
    failed = "amdgpu 0000:03:00.0: amdgpu: GPU reset(1) failed"
    machine = amd_machine(**log(MES, failed))
    assert severities(machine, "amd-gpu-hang") == []
    assert severities(machine, "gpu-reset-needed") == ["warning"]


def test_firmware_that_the_gpu_refuses_is_linux_firmware_and_not_the_bios():
    gpu = amd_gpu(driver=absent("uevent", "no driver is bound"), nodes=(), kfd_node=None)
    machine = with_stack(
        change(amd_machine(gpu), **log(REFUSED, "amdgpu 0000:03:00.0: amdgpu: Fatal error during GPU init")),
        topology=known((), "/sys/class/kfd/kfd/topology/nodes"),
    )
    finding = first(machine)
    assert (finding.slug, finding.severity) == ("no-driver", "error")
    assert "refuses the firmware" in finding.message
    assert finding.fixes[0].title == "Install another release of linux-firmware"


def test_firmware_that_was_refused_once_does_not_blame_a_working_gpu():
    assert below_torch(amd_machine(**log(REFUSED))) == []


# --- signatures ---


def unloaded(**system: object):
    gpu = nvidia_gpu(driver=absent("uevent", "no driver is bound"), nodes=(), nvml=None)
    module = InstalledModule("nvidia", KERNEL, f"/lib/modules/{KERNEL}/nvidia.ko", "580.95.05", "open")
    machine = with_stack(
        nvidia_machine(gpu),
        module=absent("/proc/driver/nvidia", "not loaded"),
        modules_loaded=known((), "/proc/modules"),
        modules_installed=known((module,), "/lib/modules"),
        nvml=unknown("not probed"),
        cuda=unknown("not probed"),
    )
    return with_system(machine, kernel=known(KERNEL, "uname"), **system)


def test_lockdown_is_named_and_not_secure_boot_where_secure_boot_is_off():
    machine = change(unloaded(lockdown=known("integrity", "/sys/kernel/security/lockdown")), **log(RESTRICTED))
    finding = first(machine)
    assert (finding.slug, finding.confidence) == ("kernel-lockdown", "certain")
    assert "Secure Boot" not in finding.message


def test_a_line_of_lockdown_alone_does_not_say_secure_boot():
    machine = change(unloaded(secure_boot=unknown("not mounted"), lockdown=unknown("not mounted")), **log(RESTRICTED))
    assert first(machine).slug == "kernel-lockdown"


def test_lockdown_that_secure_boot_brings_is_secure_boot():
    machine = unloaded(secure_boot=known(True, "efivars"), lockdown=known("integrity", "lockdown"))
    assert first(change(machine, **log(RESTRICTED))).slug == "secure-boot-module-rejected"


def test_an_option_of_the_kernel_that_enforces_signatures_is_likely_the_reason():
    machine = unloaded(kernel_options=known(("module.sig_enforce=1",), "/proc/cmdline"))
    assert (first(machine).slug, first(machine).confidence) == ("kernel-lockdown", "likely")


def test_a_rejected_key_without_more_is_secure_boot():
    assert first(change(unloaded(), **log(REJECTED))).slug == "secure-boot-module-rejected"


def test_lockdown_beside_a_loaded_module_is_silent():
    machine = with_system(nvidia_machine(), lockdown=known("integrity", "lockdown"))
    assert below_torch(machine) == []


# --- memory ---


def test_bad_memory_of_the_system_is_a_warning():
    finding = first(nvidia_machine(**log(PAGE)))
    assert (finding.slug, finding.severity) == ("system-memory-error", "warning")


def test_a_page_that_was_recovered_is_silent(tmp_path):
    recovered = "[ 5114.0] Memory failure: 0x4c3a21: recovery action for clean LRU page: Recovered"
    assert read_faults(tmp_path, recovered) == []
    assert read_faults(tmp_path, f"[ 5114.0] {PAGE}") == ["memory-page-offline"]


def read_faults(root, line):
    place = root / "var/log/dmesg"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(line + "\n")
    return [fault.kind for fault in probe_kernel_log(RecordedHost(root), matrix().tables.log_patterns).value.faults]


# --- starts that fail ---

FAILED = "NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x63:0x0:1905)"
MAPPING = "NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x22:0x56:897)"
FELL = "NVRM: Xid (PCI:0000:01:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


def test_a_start_that_failed_with_an_unknown_code_is_an_error():
    finding = first(nvidia_machine(nvidia_gpu(nvml=None), **log(FAILED)))
    assert (finding.slug, finding.severity) == ("no-driver", "error")
    assert "RmInitAdapter failed" in finding.message


def test_a_start_that_failed_once_is_nothing_on_a_gpu_that_answers():
    assert below_torch(nvidia_machine(nvidia_gpu(nvml=NvmlDevice(index=0)), **log(FAILED))) == []


def test_a_failed_start_after_the_gpu_fell_off_the_bus_is_an_effect():
    assert first(nvidia_machine(nvidia_gpu(nvml=None), **log(FELL, MAPPING))).slug == "gpu-off-bus"
    assert first(nvidia_machine(nvidia_gpu(nvml=None), **log(MAPPING))).slug == "driver-init-failed-bios"
