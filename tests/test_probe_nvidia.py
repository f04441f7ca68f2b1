"""The NVIDIA stack from files, and nvidia-smi's texts. Values are those that real drivers print."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudoctor.host.recorded_host import RecordedHost
from gpudoctor.machine import Library, LoadPath, NvidiaStack, NvmlDevice, System, absent, known
from gpudoctor.probes.load_path import userland_version
from gpudoctor.probes.nvidia_answers import ask_nvidia
from gpudoctor.probes.nvidia_files import parse_banner, probe_nvidia
from gpudoctor.probes.nvidia_smi import parse_smi
from gpudoctor.probes.pci import probe_pci

BARE = System(kernel=known("6.8.0-60-generic", "uname"), container=absent("/.dockerenv"))
MIB = 1 << 20


def write(root: Path, path: str, content: str = "") -> None:
    place = root / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(content)


def stack(root: Path, system: System = BARE) -> NvidiaStack:
    host = RecordedHost(root)
    return probe_nvidia(host, probe_pci(host), system)


@pytest.mark.parametrize(
    ("banner", "version", "flavour"),
    [
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023\n"
            "GCC version:  gcc version 11.4.0",
            "535.129.03",
            "proprietary",
        ),
        (
            "NVRM version:  NVIDIA UNIX Open Kernel Module for x86_64  515.57  Release Build Mi 20. Jul 11:53:35",
            "515.57",
            "open",
        ),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  540.4.0  Release Build", "540.4.0", "open"),
    ],
)
def test_the_modules_banner(banner: str, version: str, flavour: str) -> None:
    module = parse_banner(banner)
    assert module is not None
    assert (module.version, module.flavour) == (version, flavour)


def test_a_banner_that_is_garbage_is_unknown(tmp_path: Path) -> None:
    write(tmp_path, "/proc/driver/nvidia/version", "\x07\x00rubbish")
    assert stack(tmp_path).module.state == "unknown"


def test_no_module_is_known_to_be_absent_only_where_modules_can_be_listed(tmp_path: Path) -> None:
    assert stack(tmp_path).module.state == "unknown"
    write(tmp_path, "/proc/modules", "snd 1 0 - Live 0x0\n")
    assert stack(tmp_path).module.state == "absent"


def test_gpus_of_the_module_and_their_nodes(tmp_path: Path) -> None:
    information = (
        "Model: \t\t NVIDIA GeForce RTX 4090\nBus Location: \t 0000:01:00.0\nDevice Minor: \t 3\nGPU Excluded:\t No\n"
    )
    write(tmp_path, "/proc/driver/nvidia/gpus/0000:01:00.0/information", information)
    for name in ("nvidia3", "nvidiactl", "nvidia-uvm", "nvidia-caps/nvidia-cap1", "sda", "nvidia-fs0"):
        write(tmp_path, f"/dev/{name}")
    nodes = {"/dev/nvidia3": {"mode": "0666", "uid": 0, "gid": 0, "open": "EPERM"}}
    write(tmp_path, "/gpudoctor-host.json", json.dumps({"nodes": nodes}))
    found = stack(tmp_path)
    assert found.proc_gpus.value == ("0000:01:00.0",)
    (gpu,) = found.proc_details
    assert (gpu.model, gpu.minor, gpu.excluded) == ("NVIDIA GeForce RTX 4090", 3, False)
    assert {node.path: node.opened for node in found.nodes.value or ()} == {
        "/dev/nvidia3": "EPERM",
        "/dev/nvidiactl": "ok",
        "/dev/nvidia-uvm": "ok",
        "/dev/nvidia-caps/nvidia-cap1": "untried",
    }


def test_the_drivers_own_library_tells_user_space_not_compat_or_a_stub(tmp_path: Path) -> None:
    found = LoadPath(
        found=(
            Library("libcuda.so.1", "/usr/local/cuda/compat/libcuda.so.1", "580.65.06", "compat"),
            Library("libnvidia-ml.so.1", "/usr/lib/libnvidia-ml.so.1", "550.54.15", "driver"),
        )
    )
    assert userland_version(RecordedHost(tmp_path), found).value == "550.54.15"


def switch(root: Path, number: int = 1) -> None:
    for n in range(number):
        write(root, f"/sys/bus/pci/devices/0000:0{n + 4}:00.0/uevent", "PCI_CLASS=68000\nPCI_ID=10DE:22A3\n")


def test_an_nvswitch_machine_without_its_manager(tmp_path: Path) -> None:
    switch(tmp_path, 4)
    write(tmp_path, "/usr/bin/bash")
    write(tmp_path, "/proc/1/comm", "systemd\n")
    fabric = stack(tmp_path).fabric
    assert fabric.switches.value == 4
    assert fabric.manager_version.state == "absent"
    assert fabric.manager_running.value is False


def test_a_running_fabric_manager_has_a_cut_name(tmp_path: Path) -> None:
    switch(tmp_path)
    write(tmp_path, "/usr/bin/nv-fabricmanager")
    write(tmp_path, "/proc/831/comm", "nv-fabricmanage\n")
    status = "Package: nvidia-fabricmanager-550\nStatus: install ok installed\nVersion: 550.54.15-1\n"
    write(tmp_path, "/var/lib/dpkg/status", status)
    fabric = stack(tmp_path).fabric
    assert (fabric.manager_version.value, fabric.manager_running.value) == ("550.54.15", True)
    assert fabric.umad.state == "unknown"
    write(tmp_path, "/sys/class/infiniband_mad/abi_version", "5\n")
    assert stack(tmp_path).fabric.umad.value is True


@pytest.mark.parametrize(
    "line",
    [
        "Fabric Manager version is : 535.183.01",
        "fabric manager NVIDIA GPU driver interface version 535.183.01 don't match with driver version 535.183.06. "
        "Please update with matching NVIDIA driver package.",
    ],
)
def test_the_fabric_managers_own_log_tells_its_version(tmp_path: Path, line: str) -> None:
    switch(tmp_path)
    write(tmp_path, "/usr/bin/nv-fabricmanager")
    write(tmp_path, "/var/log/fabricmanager.log", f"[Nov 26 2026 09:28:28] [ERROR] [tid 1507] {line}\n")
    assert stack(tmp_path).fabric.manager_version.value == "535.183.01"


def test_in_a_container_the_fabric_manager_cannot_be_seen(tmp_path: Path) -> None:
    switch(tmp_path)
    write(tmp_path, "/proc/1/comm", "bash\n")
    inside = System(container=known("docker", "/.dockerenv"))
    assert stack(tmp_path, inside).fabric.manager_running.state == "unknown"


def test_switch_nodes_count_where_the_bus_cannot_be_read(tmp_path: Path) -> None:
    for name in ("nvidia-nvswitch0", "nvidia-nvswitch1", "nvidia-nvswitchctl"):
        write(tmp_path, f"/dev/{name}")
    assert stack(tmp_path).fabric.switches.value == 2


def test_the_container_toolkit(tmp_path: Path) -> None:
    write(tmp_path, "/usr/bin/bash")
    assert stack(tmp_path).toolkit.state == "absent"
    write(tmp_path, "/usr/bin/nvidia-container-runtime")
    assert stack(tmp_path).toolkit.value == "/usr/bin/nvidia-container-runtime"


# --- nvidia-smi ------------------------------------------------------------------------------------

TABLE = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.54.14              Driver Version: 550.54.14      CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA H100 NVL                On  |   00000000:AD:00.0 Off |                    2 |
| N/A   32C    P0             61W /  310W |      11MiB /  95830MiB |      0%   E. Process |
|                                         |                        |              Enabled |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA GeForce RTX 4080 ...    Off |   00000000:01:00.0  On |                  N/A |
| N/A   42C    P8              2W /   90W |      67MiB /  12282MiB |     10%      Default |
|                                         |                        |                  N/A |
+-----------------------------------------+------------------------+----------------------+
"""

# Before 450 the table had no CUDA version and no MIG line.
OLD_TABLE = """\
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 384.130                Driver Version: 384.130                   |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  Tesla K80           Off  | 00000000:00:1E.0 Off |                    0 |
| N/A   32C    P8    27W / 149W |      0MiB / 11439MiB |      0%      Default |
+-------------------------------+----------------------+----------------------+
"""

QUERY = """\
==============NVSMI LOG==============

Timestamp                                 : Thu Nov 14 15:35:07 2024
Driver Version                            : 590.48.01
CUDA Version                              : 13.1

Attached GPUs                             : 1
GPU 00000000:00:09.0
    Product Name                          : NVIDIA H100 80GB HBM3
    MIG Mode
        Current                           : Enabled
        Pending                           : Enabled
    MIG Device
        Index                             : 0
        ECC Errors
            Volatile
                SRAM Uncorrectable        : 7
        Shared FB Memory Usage
            Total                         : 40448 MiB
    GPU UUID                              : GPU-00000000-0000-0000-0000-000000000000
    PCI
        Device Id                         : 0x233010DE
    FB Memory Usage
        Total                             : 81559 MiB
        Used                              : 59 MiB
    Compute Mode                          : Exclusive_Process
    ECC Errors
        Volatile
            SRAM Correctable              : 4
            SRAM Uncorrectable Parity     : 1
            DRAM Uncorrectable            : 2
        Aggregate
            DRAM Uncorrectable            : 9
    Remapped Rows
        Pending                           : Yes
        Remapping Failure Occurred        : No
    Fabric
        State                             : In Progress
    Processes
        Process ID                        : 77
            Type                          : C
        Process ID                        : 78
            Type                          : G
"""

XML = """\
<?xml version="1.0" ?>
<nvidia_smi_log>
  <driver_version>580.65.06</driver_version><cuda_version>13.0</cuda_version>
  <gpu id="00000000:0A:00.0">
    <product_name>NVIDIA B200</product_name><mig_mode><current_mig>Disabled</current_mig></mig_mode>
    <mig_devices>None</mig_devices><vgpu_software/><uuid>GPU-1</uuid>
    <platformInfo><module_id>1</module_id></platformInfo>
    <pci><pci_device_id>290110DE</pci_device_id></pci>
    <fb_memory_usage><total>183359 MiB</total><used>0 MiB</used></fb_memory_usage>
    <compute_mode>Prohibited</compute_mode>
    <ecc_errors><volatile><dram_correctable>3</dram_correctable><dram_uncorrectable>5</dram_uncorrectable></volatile>
    <aggregate><sram_uncorrectable_parity>N/A</sram_uncorrectable_parity><dram_uncorrectable>8</dram_uncorrectable>
    </aggregate></ecc_errors>
    <remapped_rows><remapped_row_pending>No</remapped_row_pending><remapped_row_failure>Yes</remapped_row_failure>
    </remapped_rows><fabric><state>Completed</state></fabric><processes></processes>
  </gpu>
  <gpu id="00000000:0B:00.0"><product_name>NVIDIA B200</product_name>
    <fb_memory_usage><total>GPU is lost</total></fb_memory_usage>
"""


def test_the_virtualisation_mode_and_the_licence_of_a_vgpu() -> None:
    text = (
        "==============NVSMI LOG==============\n\nGPU 00000000:02:01.0\n    Product Name        : NVIDIA A40-48C\n"
        "    GPU Virtualization Mode\n        Virtualization Mode : {mode}\n        Host VGPU Mode      : N/A\n"
        "    vGPU Software Licensed Product\n        Product Name        : NVIDIA Virtual Compute Server\n"
        "        License Status      : {licence}\n"
    )
    for mode, licence, told in (
        ("VGPU", "Unlicensed (Restricted)", ("vgpu", False)),
        ("VGPU", "Licensed (Expiry: 2026-12-1 9:0:0 GMT)", ("vgpu", True)),
        ("Pass-Through", "N/A", ("pass-through", None)),
        ("Host VGPU", "N/A", ("host-vgpu", None)),
        ("None", "N/A", ("none", None)),
    ):
        (device,) = parse_smi(text.format(mode=mode, licence=licence)).devices
        assert (device.virtualization, device.licensed) == told
    xml = XML.replace(
        "<vgpu_software/>",
        "<gpu_virtualization_mode><virtualization_mode>VGPU</virtualization_mode></gpu_virtualization_mode>"
        "<vgpu_software_licensed_product><licensed_product_name>x</licensed_product_name>"
        "<license_status>Unlicensed</license_status></vgpu_software_licensed_product>",
    )
    assert (parse_smi(xml).devices[0].virtualization, parse_smi(xml).devices[0].licensed) == ("vgpu", False)


def test_the_table() -> None:
    api = parse_smi(TABLE)
    assert api is not None
    assert api.devices is not None
    assert (api.status, api.driver_version, api.cuda_version) == (0, "550.54.14", "12.4")
    first, second = api.devices
    assert (first.index, first.name, first.bdf) == (0, "NVIDIA H100 NVL", "0000:ad:00.0")
    assert (first.memory, first.memory_used) == (95830 * MIB, 11 * MIB)
    assert (first.compute_mode, first.mig, first.ecc_uncorrectable) == ("exclusive", True, 2)
    assert (second.name, second.mig, second.ecc_uncorrectable) == ("NVIDIA GeForce RTX 4080 ...", None, None)


def test_an_old_table() -> None:
    api = parse_smi(OLD_TABLE)
    assert api is not None
    assert api.devices is not None
    assert (api.driver_version, api.cuda_version) == ("384.130", None)
    assert (api.devices[0].name, api.devices[0].memory, api.devices[0].compute_mode) == (
        "Tesla K80",
        11439 * MIB,
        "default",
    )


def test_the_long_form() -> None:
    api = parse_smi(QUERY)
    assert api is not None
    assert api.devices is not None
    (gpu,) = api.devices
    assert (api.driver_version, api.cuda_version) == ("590.48.01", "13.1")
    assert (gpu.bdf, gpu.pci_id, gpu.compute_mode) == ("0000:00:09.0", "10de:2330", "exclusive")
    assert (gpu.memory, gpu.memory_used) == (81559 * MIB, 59 * MIB)
    assert (gpu.mig, [mig.memory for mig in gpu.mig_devices]) == (True, [40448 * MIB])
    assert (gpu.ecc_uncorrectable, gpu.ecc_uncorrectable_ever) == (3, 9), "a slice's counter is not the GPU's"
    assert (gpu.remap_pending, gpu.remap_failed) == (True, False)
    assert (gpu.fabric, gpu.processes) == ("in-progress", 1)


def test_xml_that_is_cut_off_keeps_the_gpus_before() -> None:
    api = parse_smi(XML)
    assert api is not None
    assert api.devices is not None
    whole, lost = api.devices
    assert (whole.pci_id, whole.memory, whole.compute_mode) == ("10de:2901", 183359 * MIB, "prohibited")
    assert (whole.ecc_uncorrectable, whole.ecc_uncorrectable_ever, whole.remap_failed) == (5, 8, True)
    assert (whole.mig, whole.fabric, whole.lost) == (False, "completed", False)
    assert (lost.bdf, lost.lost, lost.why) == ("0000:0b:00.0", True, "GPU is lost")


def test_the_list_with_slices() -> None:
    api = parse_smi(
        "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0a)\n"
        "  MIG 3g.40gb     Device  0: (UUID: MIG-0b)\n  MIG 1g.10gb     Device  1: (UUID: MIG-0c)\n"
        "GPU 1: Tesla T4 (UUID: GPU-0d)\n"
    )
    assert api is not None
    assert api.devices is not None
    assert [(gpu.name, len(gpu.mig_devices), gpu.mig) for gpu in api.devices] == [
        ("NVIDIA H100 80GB HBM3", 2, True),
        ("Tesla T4", 0, None),
    ]
    assert api.devices[0].mig_devices[0].profile == "3g.40gb"


def test_csv() -> None:
    api = parse_smi(
        "index, name, pci.bus_id, driver_version, memory.total [MiB], compute_cap\n"
        "0, NVIDIA GeForce RTX 2080 SUPER, 00000000:01:00.0, 535.54.03, 8192 MiB, 7.5\nbroken row\n"
    )
    assert api is not None
    assert api.devices is not None
    (gpu,) = api.devices
    assert (gpu.capability, gpu.memory, api.driver_version) == ("7.5", 8192 * MIB, "535.54.03")


@pytest.mark.parametrize(
    ("stdout", "stderr", "status"),
    [
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that", "", 9),
        ("Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.95", "", 18),
        ("Failed to initialize NVML: Unknown Error", "", 999),
        ("Failed to initialize NVML: Insufficient Permissions", "", 4),
        ("Failed to initialize NVML: GPU access blocked by the operating system", "", 17),
        ("", "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.", 12),
    ],
)
def test_failures_carry_nvmls_code(stdout: str, stderr: str, status: int) -> None:
    api = parse_smi(stdout, stderr)
    assert api is not None
    assert api.status == status
    assert api.devices is None
    assert api.message


def test_a_gpu_whose_handle_cannot_be_had_is_lost() -> None:
    api = parse_smi(
        "Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost.  Reboot the system to recover it"
    )
    assert api is not None
    assert [(gpu.bdf, gpu.lost) for gpu in api.devices or ()] == [("0000:02:00.0", True)]
    older = parse_smi("Unable to determine the device handle for GPU0: 0000:0B:00.0: Unknown Error")
    assert older is not None
    assert [gpu.bdf for gpu in older.devices or ()] == ["0000:0b:00.0"]


LOST_TABLE = """\
| NVIDIA-SMI 580.95.05              Driver Version: 580.95.05      CUDA Version: 13.0     |
|   0  NVIDIA GeForce RTX 3090        Off |   00000000:01:00.0 Off |                  N/A |
| ERR!   45C    P8             25W / 350W |       4MiB /  24576MiB |      0%      Default |
|                                         |                        |                  N/A |
|   1  ERR!                           Off |   00000000:02:00.0 Off |                  N/A |
| ERR!  ERR! ERR!             ERR! / ERR! |      GPU is lost       |     N/A      Default |
|                                         |                        |                  N/A |
"""


def test_a_lost_gpu_in_a_table_and_a_fan_that_is_not_read() -> None:
    api = parse_smi(LOST_TABLE)
    assert api is not None
    assert [(gpu.name, gpu.lost) for gpu in api.devices or ()] == [("NVIDIA GeForce RTX 3090", False), ("", True)]


def test_a_lost_gpu_in_columns() -> None:
    api = parse_smi("index, name, pci.bus_id\n0, NVIDIA A100, 00000000:01:00.0\n1, [GPU is lost], 00000000:02:00.0\n")
    assert api is not None
    assert [(gpu.name, gpu.lost) for gpu in api.devices or ()] == [("NVIDIA A100", False), ("", True)]


def test_no_devices_is_an_answer_and_rubbish_is_none() -> None:
    api = parse_smi("No devices were found")
    assert api is not None
    assert api.devices == ()
    assert parse_smi("bash: nvidia-smi: something else entirely") is None
    assert parse_smi("") is None


def devices_of(text: str) -> tuple[NvmlDevice, ...]:
    api = parse_smi(text)
    return (api.devices or ()) if api else ()


@given(st.text(max_size=300), st.sampled_from([TABLE, QUERY, XML, ""]), st.integers(0, 1800))
def test_no_text_breaks_the_reader(noise: str, text: str, cut: int) -> None:
    whole = {device.bdf for device in devices_of(text)}
    for part in (text[:cut] + noise, noise + text[cut:]):
        assert {device.bdf for device in devices_of(part)} <= whole | {""}


def test_a_recording_is_read_and_never_run(tmp_path: Path) -> None:
    commands = {"nvidia-smi": {"stdout": TABLE}, "nvidia-smi -q": {"stdout": QUERY}}
    write(tmp_path, "/gpudoctor-host.json", json.dumps({"commands": commands}))
    nvml, cuda, smi = ask_nvidia(RecordedHost(tmp_path))
    assert (nvml.state, cuda.state) == ("unknown", "unknown")
    assert smi.value is not None
    assert smi.value.driver_version == "590.48.01", "the fuller answer is taken"


@pytest.mark.parametrize("mode", ["Enabled", "Disabled"])
def test_a_recorded_list_of_gpus_leaves_mig_as_the_query_tells_it(tmp_path: Path, mode: str) -> None:
    query = QUERY.replace("Enabled", mode)
    listed = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-00000000-0000-0000-0000-000000000000)\n"
    commands = {"nvidia-smi -q": {"stdout": query}, "nvidia-smi -L": {"stdout": listed}}
    write(tmp_path, "/gpudoctor-host.json", json.dumps({"commands": commands}))
    smi = ask_nvidia(RecordedHost(tmp_path))[2].value
    assert smi is not None and smi.devices is not None
    assert (smi.devices[0].mig, smi.devices[0].mig_pending) == (mode == "Enabled",) * 2


def test_a_recording_without_nvidia_smi_is_unknown(tmp_path: Path) -> None:
    assert [fact.state for fact in ask_nvidia(RecordedHost(tmp_path))] == ["unknown"] * 3


# --- CUDA toolkit --------------------------------------------------------------------------------------


def test_the_ptxas_of_the_default_toolkit_and_its_cuda(tmp_path: Path) -> None:
    write(tmp_path, "/usr/local/cuda/README", "")
    assert stack(tmp_path).ptxas.absent
    write(tmp_path, "/usr/local/cuda/bin/ptxas", "")
    assert stack(tmp_path).ptxas.state == "unknown"
    versions = {"cuda": {"name": "CUDA SDK", "version": "13.0.20250912"}, "nvcc": {"version": "13.0.88"}}
    write(tmp_path, "/usr/local/cuda/version.json", json.dumps(versions, indent=3))
    assert stack(tmp_path).ptxas.value == "13.0"
