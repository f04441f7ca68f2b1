"""GPUs that are gone, damaged or cannot start: GPD102 to GPD106, and GPD101."""

from __future__ import annotations

import pytest

from gpudoctor.machine import BatchJob, KernelLog, NvidiaApi, NvmlDevice, absent, known, unknown
from tests.support.check_cases import below_torch, first, found, log, remedies, unanswered
from tests.support.machines import (
    amd_gpu,
    amd_machine,
    change,
    no_gpu_machine,
    nvidia_gpu,
    nvidia_machine,
    torch,
    with_stack,
    with_system,
)

XID_79 = "NVRM: Xid (PCI:0000:01:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
BIOS = "NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x22:0x56:884)"
GSP = "NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x62:0x65:1792)"
GFW = "NVRM: gpuWaitForGfwBootComplete_TU102: failed to wait for GFW_BOOT: (progress 0x3)"
ATOMICS = "kfd kfd: amdgpu: skipped device 1002:67df, PCI rejects atomics 730<0"


def nvml(*devices: NvmlDevice, status: int = 0, **parts: object):
    return known(NvidiaApi(status=status, devices=devices, **parts), "NVML")  # type: ignore[arg-type]


# --- off the bus ---


def test_a_gpu_whose_registers_read_ff_is_off_the_bus():
    machine = nvidia_machine(nvidia_gpu(off_bus=True))
    assert below_torch(machine)[0] == ("gpu-off-bus", "error")
    assert remedies(first(machine)) == ["Manual"] and not first(machine).want
    assert (
        first(machine).fixes[0].remedies[0].text.startswith("First save the report of `sudo nvidia-bug-report.sh`.")
    )


def test_a_gpu_that_must_be_reset_is_not_called_gone():
    gpu = nvidia_gpu(nvml=NvmlDevice(index=3, lost=True, why="GPU requires reset"))
    assert "must be reset" in first(nvidia_machine(gpu)).message
    assert "--gpu-reset -i 3" in first(nvidia_machine(gpu)).fixes[0].remedies[0].text


def test_a_lost_gpu_among_working_ones_is_an_error_about_that_gpu():
    lost = nvidia_gpu(index=1, nvml=NvmlDevice(index=1, lost=True, why="GPU is lost"))
    findings = found(nvidia_machine(nvidia_gpu(nvml=NvmlDevice(index=0)), lost), "gpu-off-bus")
    assert [(f.severity, f.device.index) for f in findings] == [("error", 1)]


def test_an_xid_79_alone_is_a_note():
    assert [f.severity for f in found(nvidia_machine(**log(XID_79)), "gpu-off-bus")] == ["note"]


def test_an_xid_79_of_a_gpu_that_the_driver_no_longer_lists_is_an_error():
    gpus = (nvidia_gpu(), nvidia_gpu(index=1, nvml=NvmlDevice(index=0, bdf="0000:02:00.0")))
    machine = with_stack(nvidia_machine(*gpus, **log(XID_79)), nvml=nvml(NvmlDevice(index=0, bdf="0000:02:00.0")))
    assert [(f.severity, f.device.bdf) for f in found(machine, "gpu-off-bus")] == [("error", "0000:01:00.0")]


def test_an_old_xid_of_a_gpu_that_works_now_is_no_error():
    gpu = nvidia_gpu(nvml=NvmlDevice(index=0, bdf="0000:01:00.0"))
    machine = with_stack(nvidia_machine(gpu, **log(XID_79)), nvml=nvml(NvmlDevice(index=0, bdf="0000:01:00.0")))
    assert {severity for _, severity in below_torch(machine)} == {"note"}


def test_nvml_that_says_lost_without_naming_a_gpu_is_an_error():
    machine = with_stack(nvidia_machine(), nvml=nvml(status=15, message="GPU is lost"))
    assert first(machine).slug == "gpu-off-bus"


def test_equal_gpus_off_the_bus_are_one_problem_with_each_of_them_named():
    lost = [nvidia_gpu(index=n, bdf=f"0000:0{n + 1}:00.0", off_bus=True) for n in (0, 1)]
    (one,) = found(nvidia_machine(*lost, nvidia_gpu(index=2, bdf="0000:03:00.0")), "gpu-off-bus")
    assert one.severity == "error" and "(2 GPUs)" in one.message
    assert one.saw == "PCI registers read ff (0000:01:00.0, 0000:02:00.0)"
    assert [device.bdf for device in one.devices] == ["0000:01:00.0", "0000:02:00.0"]
    radeon = amd_gpu(bdf="0000:0a:00.0", off_bus=True)
    assert len(found(nvidia_machine(*lost, radeon), "gpu-off-bus")) == 2
    asking = [nvidia_gpu(index=n, nvml=NvmlDevice(index=n, lost=True, why="GPU requires reset")) for n in (0, 1)]
    (one,) = found(nvidia_machine(*asking), "gpu-off-bus")
    assert "--gpu-reset -i 0,1" in one.fixes[0].remedies[0].text


# --- ECC ---


@pytest.mark.parametrize(
    ("counters", "severity"),
    [
        ({"ecc_uncorrectable": 3}, "error"),
        ({"remap_pending": True, "ecc_uncorrectable": 0}, "error"),
        ({"remap_pending": True, "ecc_uncorrectable": 1}, "error"),
        ({"remap_failed": True}, "error"),
        ({"ecc_uncorrectable_ever": 7, "ecc_uncorrectable": 0}, "note"),
    ],
)
def test_open_memory_errors_are_errors_and_old_ones_a_note(counters, severity):
    machine = nvidia_machine(nvidia_gpu("NVIDIA A100-SXM4-80GB", "sm_80", nvml=NvmlDevice(index=0, **counters)))
    assert [f.severity for f in found(machine, "gpu-ecc")] == [severity]


def test_clean_counters_are_silent():
    clean = NvmlDevice(
        index=0, ecc_uncorrectable=0, ecc_uncorrectable_ever=0, remap_failed=False, remap_pending=False
    )
    assert found(nvidia_machine(nvidia_gpu(nvml=clean)), "gpu-ecc") == []


def test_a_pending_remapping_beside_an_uncontained_error_is_told_with_that_error():
    line = "NVRM: Xid (PCI:0000:01:00): 95, pid=4411, name=python, Uncontained: FBHUB. RST: No, D-RST: No"
    waiting = nvidia_gpu(nvml=NvmlDevice(index=0, remap_pending=True))
    (one,) = found(nvidia_machine(waiting, **log(line)), "gpu-ecc")
    assert one.severity == "error" and "Uncontained" in one.saw


def test_a_failed_remapping_asks_for_another_gpu_a_pending_one_for_a_reset():
    failed, pending = ({"remap_failed": True}, {"remap_pending": True})
    titles = [
        found(nvidia_machine(nvidia_gpu(nvml=NvmlDevice(index=0, **state))), "gpu-ecc")[0].fixes[0].title
        for state in (failed, pending)
    ]
    assert titles == ["Replace the GPU", "Reset the GPU"]


def test_log_lines_about_memory_are_a_note_about_their_gpu():
    line = "NVRM: Xid (PCI:0000:02:00): 48, pid=1234, DBE (double bit error)"
    machine = nvidia_machine(nvidia_gpu(), nvidia_gpu(index=1), **log(line))
    assert [(f.severity, f.device.index) for f in found(machine, "gpu-ecc")] == [("note", 1)]


@pytest.mark.parametrize(("xid", "asks"), [(48, False), (63, None), (64, True), (95, True)])
def test_an_error_that_ends_only_with_a_reset_says_so_from_the_log_alone(xid, asks):
    line = f"NVRM: Xid (PCI:0000:01:00): {xid}, pid=1234, name=python, Uncontained: FBHUB. RST: Yes, D-RST: No"
    fixes = [len(f.fixes) for f in found(nvidia_machine(**log(line)), "gpu-ecc")]
    assert fixes == ([] if asks is None else [int(asks)])


# --- what the driver asks for ---


def action(change: str, slot: str = "0000:01:00") -> str:
    return f"NVRM: Xid (PCI:{slot}): 154, GPU recovery action changed from {change}"


@pytest.mark.parametrize(
    ("changes", "fix"),
    [
        (["0x0 (None) to 0x2 (Node Reboot Required)"], "Reboot the machine"),
        (["0x0 (None) to 0x2 (OS Reboot)"], "Reboot the machine"),
        (["0x0 (None) to 0x1 (GPU Reset Required)"], "Reset the GPU"),
        (
            ["0x0 (None) to 0x1 (GPU Reset Required)", "0x1 (GPU Reset) to 0x2 (Node Reboot)"],
            "Reboot the machine",
        ),
        (["0x0 (None) to 0x3 (Drain P2P)"], "End the programs on the GPUs linked by NVLink"),
        (["0x0 (None) to 0x4 (Drain and Reset)"], "Reset the GPU"),
        (["0x0 (None) to 0x1 (GPU Reset Required)", "0x1 (GPU Reset Required) to 0x0 (None)"], None),
    ],
)
def test_what_the_driver_asks_for_is_the_way_out(changes, fix):
    machine = nvidia_machine(**log(*map(action, changes)))
    assert [(f.severity, f.fixes[0].title) for f in found(machine, "gpu-reset-needed")] == (
        [("warning", fix)] if fix else []
    )


def test_a_processor_that_did_not_answer_is_a_note_until_the_driver_lists_the_gpu():
    line = "NVRM: Xid (PCI:0000:01:00): 119, pid=1, name=x, Timeout after 6s of waiting for RPC response"
    unasked, listed = nvidia_gpu(), nvidia_gpu(nvml=NvmlDevice(index=0, bdf="0000:01:00.0"))
    seen = [
        [f.severity for f in found(nvidia_machine(g, **log(line)), "gpu-reset-needed")] for g in (unasked, listed)
    ]
    assert seen == [["note"], []]


def test_a_lost_gpu_is_one_finding():
    lost = nvidia_gpu(nvml=NvmlDevice(index=0, lost=True, why="GPU is lost"))
    machine = nvidia_machine(lost, **log(XID_79, action("0x0 (None) to 0x2 (Node Reboot Required)")))
    assert [slug for slug, severity in below_torch(machine) if severity != "note"] == ["gpu-off-bus"]


def test_a_reset_is_asked_for_the_gpu_that_the_line_names():
    line = action("0x0 (None) to 0x1 (GPU Reset Required)", "0000:02:00")
    (finding,) = found(nvidia_machine(nvidia_gpu(), nvidia_gpu(index=1), **log(line)), "gpu-reset-needed")
    assert finding.device.bdf == "0000:02:00.0"
    assert "--gpu-reset -i 0000:02:00.0" in finding.fixes[0].remedies[0].text


# --- a driver that cannot start the GPU ---


@pytest.mark.parametrize(
    ("lines", "slug"),
    [((BIOS,), "driver-init-failed-bios"), ((GFW, GSP), "driver-init-failed-hw"), ((GFW,), "driver-init-failed-hw")],
)
def test_the_drivers_codes_tell_firmware_settings_from_hardware(lines, slug):
    machine = with_stack(nvidia_machine(nvidia_gpu("NVIDIA GeForce RTX 5090", "sm_120"), **log(*lines)), nvml=nvml())
    assert below_torch(machine) == [(slug, "error")]
    assert first(machine).confidence == "certain"


NO_FIRMWARE = (
    "nvidia 0000:01:00.0: Direct firmware load for nvidia/580.95.05/gsp_ga10x.bin failed with error -2",
    "NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x61:0x56:1927)",
)


def test_a_driver_without_the_firmware_of_its_gpu():
    machine = with_stack(nvidia_machine(**log(*NO_FIRMWARE)), nvml=nvml())
    assert below_torch(machine) == [("nvidia-firmware-missing", "error")]
    assert "/lib/firmware/nvidia/580.95.05/gsp_ga10x.bin is missing" in first(machine).message


@pytest.mark.parametrize(
    ("files", "weight"),
    [
        (absent("/lib/firmware/nvidia/580.95.05"), ["error"]),
        (known(("gsp_tu10x.bin",), "/lib/firmware"), ["error"]),
        (known(("gsp_ga10x.bin",), "/lib/firmware"), []),
        (known(("gsp_ga10x.bin.zst",), "/lib/firmware"), []),
        (unknown("elsewhere"), ["note"]),
    ],
)
def test_the_file_itself_tells_where_the_driver_was_not_asked(files, weight):
    machine = with_stack(nvidia_machine(driver="580.95.05", **log(*NO_FIRMWARE)), firmware=files)
    assert [f.severity for f in found(machine, "nvidia-firmware-missing")] == weight


def test_firmware_that_the_initial_ramdisk_lacked_may_have_been_found_since():
    assert below_torch(nvidia_machine(**log(*NO_FIRMWARE))) == [("nvidia-firmware-missing", "note")]
    gpu = nvidia_gpu(nvml=NvmlDevice(index=0, bdf="0000:01:00.0"))
    assert below_torch(nvidia_machine(gpu, **log(*NO_FIRMWARE))) == []


def test_without_the_drivers_own_word_a_failed_start_is_likely():
    assert found(nvidia_machine(**log(BIOS)), "driver-init-failed-bios")[0].confidence == "likely"


def test_a_gpu_that_is_passed_through_gets_its_address_space_from_the_hypervisor():
    for guest in (False, True):
        where = known("kvm", "/sys/class/dmi/id") if guest else absent("/sys/class/dmi")
        finding = first(with_system(nvidia_machine(**log(BIOS)), virtual_machine=where))
        assert finding.slug == "driver-init-failed-bios"
        assert ("virtual machine" in finding.fixes[0].title) == guest
        assert ("hypervisor" in finding.message) == guest


def test_a_failed_start_of_a_gpu_that_works_now_is_silent():
    gpu = nvidia_gpu(nvml=NvmlDevice(index=0, bdf="0000:01:00.0"))
    assert below_torch(nvidia_machine(gpu, **log(BIOS))) == []


def test_the_wrong_module_flavour_explains_a_failed_start():
    gpu = nvidia_gpu("NVIDIA GeForce RTX 5090", "sm_120")
    machine = with_stack(nvidia_machine(gpu, flavour="proprietary", **log(BIOS)), nvml=nvml())
    assert below_torch(machine) == [("blackwell-open-module", "error")]


def test_a_failed_start_of_another_slot_does_not_blame_this_gpu():
    other = "NVRM: GPU 0000:41:00.0: RmInitAdapter failed! (0x62:0x65:1792)"
    assert found(nvidia_machine(**log(other)), "driver-init-failed-hw") == []


# --- PCIe atomics ---


def polaris(**parts: object):
    return amd_gpu("AMD Radeon RX 580", "gfx803", pci_id="1002:67df", kfd_node=None, **parts)


def test_the_kernels_line_about_atomics_is_certain():
    machine = amd_machine(polaris(), **log(ATOMICS))
    assert below_torch(machine) == [("amd-pcie-atomics", "error")]
    assert first(machine).confidence == "certain"


def test_a_line_about_another_device_does_not_count():
    machine = amd_machine(polaris(), **log(ATOMICS.replace("67df", "699f")))
    assert "amd-pcie-atomics" not in dict(below_torch(machine))


def test_without_a_log_a_gpu_that_kfd_leaves_out_is_likely_the_slot():
    machine = amd_machine(polaris(), kernel_log=unknown("not permitted"))
    assert [f.confidence for f in found(machine, "amd-pcie-atomics")] == ["likely"]


def test_a_gpu_with_a_kfd_node_has_its_atomics():
    assert below_torch(amd_machine(amd_gpu(pci_id="1002:744c"), **log(ATOMICS))) == []


def test_a_recording_without_kfd_says_nothing_about_atomics():
    machine = with_stack(amd_machine(polaris()), topology=unknown("not recorded"), kfd=unknown("not recorded"))
    assert below_torch(change(machine, kernel_log=unknown("not recorded"))) == []


def test_an_igpu_that_kfd_leaves_out_beside_a_gpu_is_silent():
    igpu = amd_gpu("AMD Radeon Graphics", "gfx1036", index=1, integrated=True, kfd_node=None)
    assert below_torch(amd_machine(amd_gpu(), igpu)) == []


# --- no GPU ---


def test_a_machine_without_gpus_and_without_a_gpu_build_is_a_note():
    for patient in (None, torch("2.13.0+cpu")):
        assert below_torch(no_gpu_machine(torch=patient)) == [("no-gpu", "note")]


@pytest.mark.parametrize("build", ["2.9.1+cu128", "2.9.1+rocm6.4"])
def test_a_gpu_build_without_a_gpu_is_an_error(build):
    machine = no_gpu_machine(torch=torch(build))
    assert below_torch(machine) == [("no-gpu", "error")]
    assert remedies(first(machine)) == ["Manual"]


def test_a_bus_that_was_not_read_is_an_open_question_not_a_missing_gpu():
    machine = no_gpu_machine(torch=torch(), buses=unknown("no /sys in this recording"))
    assert below_torch(machine) == []
    assert [question.matters for question in unanswered(machine, "no-gpu")] == [True]


def test_the_unread_bus_does_not_matter_without_a_gpu_build():
    machine = no_gpu_machine(torch=torch("2.13.0+cpu"), buses=unknown("no /sys in this recording"))
    assert [question.matters for question in unanswered(machine, "no-gpu")] == [False]


def test_the_only_gpu_reserved_for_virtual_machines_is_no_driver_fault():
    gpu = nvidia_gpu(driver=known("vfio-pci", "driver"))
    reserved = with_stack(nvidia_machine(gpu, torch=None), module=absent("proc"), modules_loaded=known((), "proc"))
    assert below_torch(reserved) == [("no-gpu", "note")]
    finding = first(nvidia_machine(gpu))
    assert (finding.slug, finding.severity) == ("no-gpu", "error")
    assert "vfio-pci" in finding.message


def test_a_gpu_for_a_virtual_machine_beside_one_for_us_is_silent():
    machine = nvidia_machine(nvidia_gpu(), nvidia_gpu(index=1, driver=known("vfio-pci", "driver")))
    assert below_torch(machine) == []


def test_a_cpu_task_on_a_machine_without_gpus_is_no_fault():
    machine = no_gpu_machine(torch=torch(), variables={"CUDA_VISIBLE_DEVICES": ""})
    assert below_torch(with_system(machine, job=known(BatchJob(kind="ray", gpus=0), "RAY_JOB_ID"))) == []


def test_healthy_boxes_are_silent():
    for machine in (nvidia_machine(), amd_machine(), nvidia_machine(container="docker"), amd_machine(torch=None)):
        assert below_torch(machine) == []


def test_an_unreadable_log_changes_nothing():
    assert below_torch(nvidia_machine(kernel_log=unknown("permission denied"))) == []
    assert below_torch(nvidia_machine(kernel_log=known(KernelLog(), "dmesg"))) == []
