"""GPUs put together: what each source adds, and which one wins, against the project's own matrix."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from gpudoctor.machine import (
    AmdStack,
    DeviceNode,
    Fact,
    Gpu,
    HsaAgent,
    HsaApi,
    Jetson,
    KfdNode,
    NvidiaApi,
    NvidiaStack,
    NvmlDevice,
    ProcGpu,
    System,
    absent,
    known,
    unknown,
)
from gpudoctor.matrix.load import load_matrix
from gpudoctor.matrix.questions import Matrix
from gpudoctor.probes.gpus import assemble
from gpudoctor.probes.pci import PciDevice

LINUX = System(wsl=absent("uname"), jetson=absent("uname"))
GIB = 1 << 30


@cache
def matrix() -> Matrix:
    return load_matrix()


def pci(pci_id: str, bdf: str = "0000:01:00.0", driver: str | None = None, **more: object) -> PciDevice:
    vendor, device = pci_id.split(":")
    default = "nvidia" if vendor == "10de" else "amdgpu"
    bound: Fact[str] = absent("uevent") if driver == "" else known(driver or default, "uevent")
    options = {"class_code": "030000", "driver": bound, **more}
    return PciDevice(bdf=bdf, vendor=vendor, device=device, **options)  # type: ignore[arg-type]


def bus(*devices: PciDevice) -> Fact[tuple[PciDevice, ...]]:
    return known(devices, "/sys/bus/pci/devices")


def nvml(*devices: NvmlDevice) -> Fact[NvidiaApi]:
    return known(NvidiaApi(0, driver_version="580.95.05", devices=devices), "libnvidia-ml.so.1")


def gpus(
    found: Fact[tuple[PciDevice, ...]] | None = None,
    amd: AmdStack | None = None,
    nvidia: NvidiaStack | None = None,
    system: System = LINUX,
) -> tuple[Gpu, ...]:
    return assemble(found or bus(), amd or AmdStack(), nvidia or NvidiaStack(), system, matrix())[0]


# --- NVIDIA ----------------------------------------------------------------------------------------


def test_a_gpu_without_any_driver_is_told_by_its_pci_id() -> None:
    (gpu,) = gpus(bus(pci("10de:2b85", driver="", boot_vga=True)))
    assert (gpu.name, gpu.arch.value, gpu.chip, gpu.family) == (
        "NVIDIA GeForce RTX 5090",
        "sm_120",
        "GB202",
        "Blackwell",
    )
    assert (gpu.driver.state, gpu.boot_vga, gpu.datacenter, gpu.integrated) == ("absent", True, False, False)


def test_the_drivers_capability_beats_the_table_and_serves_unknown_ids() -> None:
    listed = nvml(
        NvmlDevice(
            index=0, name="NVIDIA Future 9090", bdf="0000:01:00.0", capability="13.0", memory=48 * GIB, uuid="GPU-1"
        )
    )
    (gpu,) = gpus(bus(pci("10de:fff0")), nvidia=NvidiaStack(nvml=listed))
    assert (gpu.name, gpu.arch.value, gpu.memory.value, gpu.uuid) == (
        "NVIDIA Future 9090",
        "sm_130",
        48 * GIB,
        "GPU-1",
    )
    (silent,) = gpus(bus(pci("10de:fff0")))
    assert silent.arch.state == "unknown"
    assert "10de:fff0" in silent.name


def test_nvmls_order_is_the_order_and_gpus_it_leaves_out_have_no_number() -> None:
    listed = nvml(NvmlDevice(0, bdf="0000:41:00.0"), NvmlDevice(1, bdf="0000:81:00.0"))
    found = gpus(
        bus(pci("10de:1b06", "0000:02:00.0"), pci("10de:2204", "0000:81:00.0"), pci("10de:2204", "0000:41:00.0")),
        nvidia=NvidiaStack(nvml=listed),
    )
    assert [(gpu.bdf, gpu.index) for gpu in found] == [
        ("0000:02:00.0", None),
        ("0000:41:00.0", 0),
        ("0000:81:00.0", 1),
    ]


@pytest.mark.parametrize("holder", ["vfio-pci", "nvgrace-gpu-vfio-pci", "xen-pciback", "pci-stub"])
def test_a_gpu_that_is_held_for_a_virtual_machine_is_not_counted(holder: str) -> None:
    found = gpus(bus(pci("10de:2684", "0000:01:00.0", driver=holder), pci("10de:2684", "0000:02:00.0", driver="")))
    assert [(gpu.reserved, gpu.index) for gpu in found] == [(True, None), (False, 0)]


def test_without_a_driver_level_the_modules_gpus_are_counted_by_address() -> None:
    found = gpus(
        bus(
            pci("10de:2204", "0000:81:00.0"),
            pci("10de:2204", "0000:41:00.0"),
            pci("10de:1b06", "0000:02:00.0", driver="vfio-pci"),
        )
    )
    assert [(gpu.bdf, gpu.index) for gpu in found] == [
        ("0000:02:00.0", None),
        ("0000:41:00.0", 0),
        ("0000:81:00.0", 1),
    ]


def test_the_node_of_a_gpu_is_its_minor_not_its_place() -> None:
    listed = (
        ProcGpu("0000:01:00.0", minor=1),
        ProcGpu("0000:02:00.0", minor=0),
        ProcGpu("0000:03:00.0", excluded=True),
    )
    found = gpus(
        bus(pci("10de:2684", "0000:01:00.0"), pci("10de:2684", "0000:02:00.0")),
        nvidia=NvidiaStack(proc_details=listed),
    )
    assert [gpu.nodes for gpu in found] == [("/dev/nvidia1",), ("/dev/nvidia0",)]


def test_a_sandbox_without_sysfs_shows_what_the_module_lists() -> None:
    stack = NvidiaStack(
        proc_details=(ProcGpu("0000:01:00.0", model="NVIDIA H100 80GB HBM3", minor=0),),
        proc_gpus=known(("0000:01:00.0",), "/proc/driver/nvidia/gpus"),
    )
    (gpu,) = gpus(absent("/sys/bus/pci/devices"), nvidia=stack)
    assert (gpu.name, gpu.arch.value, gpu.driver.value) == ("NVIDIA H100 80GB HBM3", "sm_90", "nvidia")


def test_a_lone_node_is_a_gpu_of_which_nothing_is_known() -> None:
    stack = NvidiaStack(nodes=known((DeviceNode("/dev/nvidia0", "ok"), DeviceNode("/dev/nvidiactl", "ok")), "/dev"))
    (gpu,) = gpus(absent("/sys/bus/pci/devices"), nvidia=stack)
    assert (gpu.arch.state, gpu.nodes) == ("unknown", ("/dev/nvidia0",))


def test_a_gpu_that_the_table_names_short_is_not_guessed_wrongly() -> None:
    def told(name: str) -> str | None:
        listed = known(NvidiaApi(0, devices=(NvmlDevice(0, name=name, bdf="0000:01:00.0"),)), "nvidia-smi")
        return gpus(nvidia=NvidiaStack(smi=listed))[0].arch.value

    assert told("NVIDIA GeForce RTX 4080 ...") == "sm_89"
    assert told("NVIDIA RTX 4000 Ada Gene...") == "sm_89"
    assert told("NVIDIA RTX 6000 Ad...") is None  # the Turing GPU or the Ada GPU
    assert told("NVIDIA GeForce RTX 40...") is None
    assert told("Some Other GPU") is None


def test_libcuda_does_not_hide_gpus_that_a_variable_hides_from_it() -> None:
    stack = NvidiaStack(
        nvml=nvml(NvmlDevice(0, bdf="0000:01:00.0"), NvmlDevice(1, bdf="0000:02:00.0")),
        cuda=known(NvidiaApi(0, devices=(NvmlDevice(0, bdf="0000:02:00.0", capability="8.9"),)), "libcuda.so.1"),
    )
    first, second = gpus(nvidia=stack)
    assert (first.index, second.index, second.arch.value) == (0, 1, "sm_89")


def test_a_lost_gpu_stays_a_gpu() -> None:
    stack = NvidiaStack(nvml=nvml(NvmlDevice(0, bdf="0000:02:00.0", lost=True, why="GPU is lost")))
    (gpu,) = gpus(bus(pci("10de:2684", "0000:02:00.0", dead=True)), nvidia=stack)
    assert gpu.off_bus
    assert gpu.nvml is not None
    assert gpu.nvml.lost


def test_wsl_knows_no_pci_until_the_driver_is_asked() -> None:
    wsl = System(wsl=known("5.15.167.4-microsoft-standard-WSL2", "uname"), jetson=absent("uname"))
    dxg = known((DeviceNode("/dev/dxg", "ok"),), "/dev")
    quiet = NvidiaStack(nodes=dxg, userland=known("560.94", "/usr/lib/wsl/lib/libcuda.so.1"))
    (gpu,) = gpus(bus(), nvidia=quiet, system=wsl)
    assert (gpu.vendor, gpu.arch.state, gpu.bdf) == ("nvidia", "unknown", None)
    listed = nvml(NvmlDevice(0, name="NVIDIA GeForce RTX 4070", bdf="0000:01:00.0", pci_id="10de:2786"))
    (gpu,) = gpus(bus(), nvidia=NvidiaStack(nodes=dxg, nvml=listed), system=wsl)
    assert (gpu.name, gpu.arch.value, gpu.index) == ("NVIDIA GeForce RTX 4070", "sm_89", 0)
    assert gpus(bus(), nvidia=NvidiaStack(nodes=dxg), system=wsl) == (), "an AMD or Intel GPU may be behind /dev/dxg"


@pytest.mark.parametrize(
    ("board", "arch"),
    [
        (
            Jetson("NVIDIA Jetson AGX Orin Developer Kit", "36.4.3", "nvidia,p3737-0000+p3701-0005 nvidia,tegra234"),
            "sm_87",
        ),
        (Jetson("Jetson-AGX", "32.7.1", "nvidia,p2972-0000 nvidia,tegra194"), "sm_72"),
        (Jetson("Some Board", "99.1", "nvidia,tegra999"), None),
    ],
)
def test_a_jetson_is_told_by_its_device_tree(board: Jetson, arch: str | None) -> None:
    system = System(wsl=absent("uname"), jetson=known(board, "/proc/device-tree/compatible"))
    (gpu,) = gpus(bus(), nvidia=NvidiaStack(modules_loaded=known(("nvgpu",), "/proc/modules")), system=system)
    assert (gpu.arch.value, gpu.integrated, gpu.unified_memory, gpu.driver.value) == (arch, True, True, "nvgpu")


def test_a_jetson_whose_driver_answers_without_an_address_is_one_gpu() -> None:
    board = Jetson("NVIDIA Jetson Orin Nano", "36.4.3", "nvidia,tegra234")
    system = System(wsl=absent("uname"), jetson=known(board, "/proc/device-tree"))
    listed = nvml(NvmlDevice(0, name="Orin (nvgpu)", capability="8.7"))
    (gpu,) = gpus(bus(), nvidia=NvidiaStack(nvml=listed), system=system)
    assert (gpu.arch.value, gpu.integrated, gpu.index) == ("sm_87", True, 0)


def test_gb10_shares_the_systems_memory() -> None:
    (gpu,) = gpus(bus(pci("10de:2e12", "000f:01:00.0")))
    assert (gpu.arch.value, gpu.integrated, gpu.unified_memory) == ("sm_121", True, True)


# --- AMD -------------------------------------------------------------------------------------------


def kfd(*nodes: KfdNode) -> Fact[tuple[KfdNode, ...]]:
    return known((KfdNode(0), *nodes), "/sys/class/kfd/kfd/topology/nodes")


def test_kfds_target_beats_the_table() -> None:
    node = KfdNode(
        1, gfx="gfx1031", bdf="0000:03:00.0", pci_id="1002:73df", render_minor=128, simd_count=80, memory=12 * GIB
    )
    (gpu,) = gpus(bus(pci("1002:73df", "0000:03:00.0", revision="c1")), AmdStack(topology=kfd(node)))
    assert (gpu.arch.value, gpu.family, gpu.kfd_node, gpu.index) == ("gfx1031", "RDNA2", 1, 0)
    assert (gpu.nodes, gpu.memory.value) == (("/dev/dri/renderD128",), 12 * GIB)
    assert gpu.name.startswith("AMD Radeon RX 6700")
    (other,) = gpus(None, AmdStack(topology=kfd(KfdNode(1, gfx="gfx1099", bdf="0000:03:00.0", simd_count=8))))
    assert other.arch.value == "gfx1099"


def test_a_gpu_that_kfd_does_not_have_comes_last_and_without_a_number() -> None:
    node = KfdNode(2, gfx="gfx1100", bdf="0000:09:00.0", pci_id="1002:744c", simd_count=192)
    found = gpus(
        bus(pci("1002:73bf", "0000:03:00.0", driver=""), pci("1002:744c", "0000:09:00.0")),
        AmdStack(topology=kfd(node)),
    )
    assert [(gpu.arch.value, gpu.kfd_node, gpu.index) for gpu in found] == [
        ("gfx1100", 2, 0),
        ("gfx1030", None, None),
    ]


def test_an_integrated_gpu_beside_a_discrete_one() -> None:
    nodes = (
        KfdNode(1, gfx="gfx1100", bdf="0000:03:00.0", pci_id="1002:744c", simd_count=192),
        KfdNode(2, gfx="gfx1036", bdf="0000:12:00.0", pci_id="1002:164e", simd_count=4),
    )
    found = gpus(
        bus(pci("1002:744c", "0000:03:00.0"), pci("1002:164e", "0000:12:00.0")), AmdStack(topology=kfd(*nodes))
    )
    assert [(gpu.arch.value, gpu.integrated, gpu.unified_memory) for gpu in found] == [
        ("gfx1100", False, False),
        ("gfx1036", True, True),
    ]


def test_a_partitioned_gpu_is_one_gpu_for_each_node() -> None:
    nodes = tuple(
        KfdNode(2 + n, gfx="gfx942", bdf=f"0000:0a:00.{n}", pci_id="1002:74a2", render_minor=128 + n, simd_count=80)
        for n in range(4)
    )
    device = pci("1002:74a2", "0000:0a:00.0", class_code="120000")
    found = gpus(bus(device), AmdStack(topology=kfd(*nodes)))
    assert [(gpu.index, gpu.kfd_node, gpu.bdf) for gpu in found] == [(n, 2 + n, "0000:0a:00.0") for n in range(4)]
    assert [gpu.nodes for gpu in found] == [(f"/dev/dri/renderD{128 + n}",) for n in range(4)]


def test_mi300a_has_one_memory_and_is_no_desktop_apu() -> None:
    node = KfdNode(1, gfx="gfx942", bdf="0000:01:00.0", pci_id="1002:74a0", simd_count=912)
    (gpu,) = gpus(bus(pci("1002:74a0", class_code="120000")), AmdStack(topology=kfd(node)))
    assert (gpu.unified_memory, gpu.integrated) == (True, False)


def test_a_hidden_node_is_no_second_gpu() -> None:
    (gpu,) = gpus(bus(pci("1002:744c")), AmdStack(topology=kfd(KfdNode(1, readable=False))))
    assert (gpu.arch.value, gpu.kfd_node) == ("gfx1100", None)


@pytest.mark.parametrize(
    ("pci_id", "driver", "counts"),
    [
        ("1002:515e", "radeon", False),
        ("1002:515e", "", False),
        ("1002:6738", "radeon", False),
        ("1002:6738", "amdgpu", True),
        ("1002:7fff", "", True),
        ("1002:1fff", "", True),
        ("1002:9999", "", False),
    ],
)
def test_old_chips_are_left_out_and_new_ones_are_not(pci_id: str, driver: str, counts: bool) -> None:
    found = gpus(bus(pci(pci_id, driver=driver)))
    assert bool(found) is counts
    assert all(gpu.arch.undecided for gpu in found)


def test_the_runtimes_agents_are_gpus_where_nothing_else_shows_any() -> None:
    agents = (
        HsaAgent(name="AMD Ryzen 9", kind="cpu"),
        HsaAgent(
            name="gfx1030", isa=("gfx1030",), bdf="0000:0c:00.0", product="AMD Radeon RX 6700 XT", pci_id="1002:73df"
        ),
    )
    hsa = known(HsaApi(0, agents=agents), "rocminfo (recorded)")
    (gpu,) = gpus(unknown("not in this recording"), AmdStack(hsa=hsa))
    assert (gpu.name, gpu.arch.value, gpu.bdf) == ("AMD Radeon RX 6700 XT", "gfx1031", "0000:0c:00.0"), (
        "the agent's target follows an override, the chip does not"
    )


# --- whether there was anything to look at -------------------------------------------------------------


def test_an_empty_bus_was_searched_and_a_missing_recording_was_not(tmp_path: Path) -> None:
    def searched(found: Fact[tuple[PciDevice, ...]], system: System = LINUX) -> str:
        return assemble(found, AmdStack(), NvidiaStack(), system, matrix())[1].state

    assert searched(bus()) == "known"
    assert searched(absent("/sys/bus/pci/devices")) == "absent"
    assert searched(unknown("not in this recording")) == "unknown"


def test_both_makers_in_one_machine() -> None:
    node = KfdNode(1, gfx="gfx1036", bdf="0000:12:00.0", pci_id="1002:164e", simd_count=4)
    found = gpus(
        bus(pci("1002:164e", "0000:12:00.0"), pci("10de:2684", "0000:01:00.0")), AmdStack(topology=kfd(node))
    )
    assert [(gpu.vendor, gpu.index) for gpu in found] == [("nvidia", 0), ("amd", 0)]
