"""The NVIDIA driver against its libraries, its GPUs and its services, and WSL: GPD120 to GPD129, GPD214."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gpudoctor.finding import InstallDriver, LoadModule, RebuildModule, StartService
from gpudoctor.machine import (
    DamagedFile,
    DeviceNode,
    DkmsModule,
    Fabric,
    HsaAgent,
    HsaApi,
    InstalledModule,
    Library,
    LoadPath,
    NvidiaApi,
    NvmlDevice,
    Os,
    RocmInstall,
    absent,
    known,
    unknown,
)
from tests.support.check_cases import below_torch, first, found, log, remedies
from tests.support.judging import finding, judged, questions, told
from tests.support.machines import (
    LIB,
    amd_gpu,
    amd_machine,
    change,
    nvidia_gpu,
    nvidia_machine,
    torch,
    with_stack,
    with_system,
    with_torch,
)

RUNNING = "6.8.0-60-generic"
HMM = "nvidia-uvm: uvm_pmm_gpu.c:3176 devmem_alloc_pagemap[pid:92821] request_free_mem_region() err -34"
H100 = nvidia_gpu("NVIDIA H100 80GB HBM3", "sm_90", datacenter=True)
GTX_1080 = nvidia_gpu("NVIDIA GeForce GTX 1080", "sm_61")
RTX_5090 = nvidia_gpu("NVIDIA GeForce RTX 5090", "sm_120", index=1)


def on_disk(version: str, kernel: str = RUNNING, flavour: str = "open"):
    path = f"/lib/modules/{kernel}/updates/dkms/nvidia.ko"
    return known((InstalledModule("nvidia", kernel, path, version, flavour),), "/lib/modules")  # type: ignore[arg-type]


def cuda(status: int):
    return known(NvidiaApi(status=status, library="libcuda.so.1"), "libcuda")


def nvml(status: int, *devices: NvmlDevice):
    return known(NvidiaApi(status=status, library="libnvidia-ml.so.1", devices=devices), "NVML")


def updated(loaded: str = "575.64.03", libraries: str = "580.95.05", **parts):
    return with_stack(nvidia_machine(driver=loaded), userland=known(libraries, f"{LIB}/libcuda.so"), **parts)


# --- libraries and module ---


def test_an_update_that_waits_for_a_reboot():
    machine = updated(modules_installed=on_disk("580.95.05"))
    assert below_torch(machine) == [("driver-installed-no-reboot", "error")]
    assert remedies(first(machine)) == ["Reboot"]


def test_libraries_without_a_module_of_their_version():
    machine = updated(modules_installed=on_disk("575.64.03"))
    assert below_torch(machine) == [("driver-lib-mismatch", "error")]
    assert remedies(first(machine)) == ["InstallDriver", "Reboot"]


def test_where_the_modules_on_disk_are_not_known_a_reboot_comes_first():
    machine = updated(modules_installed=unknown("not recorded"))
    assert remedies(first(machine)) == ["Reboot"]
    assert first(machine).confidence == "likely"


@pytest.mark.parametrize("parts", [{"nvml": nvml(18)}, {"cuda": cuda(803)}])
def test_the_drivers_own_word_makes_a_mismatch_certain(parts):
    machine = updated(modules_installed=on_disk("575.64.03"), **parts)
    assert (first(machine).slug, first(machine).confidence) == ("driver-lib-mismatch", "certain")


def test_nvml_18_without_any_version_read():
    machine = with_stack(nvidia_machine(), userland=unknown("no version"), nvml=nvml(18))
    assert below_torch(machine) == [("driver-lib-mismatch", "error")]


def test_a_driver_that_answers_is_of_one_version():
    assert below_torch(updated(cuda=cuda(0))) == []
    assert below_torch(updated(nvml=nvml(0, NvmlDevice(index=0)))) == []


@pytest.mark.parametrize(("loaded", "libraries"), [("580.95.05", "580.95.05"), ("580.95.05", "580.95")])
def test_the_same_version_is_silent_however_long_it_is_written(loaded, libraries):
    assert found(updated(loaded, libraries), "driver-lib-mismatch") == []


@pytest.mark.parametrize("where", ["wsl", "jetson"])
def test_versions_differ_by_design_on_wsl_and_jetson(where):
    assert "driver-lib-mismatch" not in dict(below_torch(with_system(updated(), **{where: known("x", "x")})))


def test_in_a_container_the_host_has_to_be_rebooted_and_the_container_made_anew():
    machine = with_system(updated(), container=known("docker", "/.dockerenv"))
    assert remedies(first(machine)) == ["AddContainerFlags", "Manual"]


def test_a_fabricated_803_of_cuda_compat_takes_compat_off_the_path():
    compat = Library("libcuda.so.1", "/usr/local/cuda/compat/libcuda.so.1", "570.124.06", "compat", "LD_LIBRARY_PATH")
    machine = change(nvidia_machine(H100), load_path=LoadPath((compat,), (LIB,), known(True, "ld.so.cache")))
    finding = found(with_stack(machine, cuda=cuda(803)), "driver-lib-mismatch")[0]
    assert "/usr/local/cuda/compat" in finding.fixes[0].remedies[0].text


def test_the_version_on_disk_may_be_told_by_dkms_alone():
    module = known((InstalledModule("nvidia", RUNNING, "/lib/modules/x/nvidia.ko", None, None),), "/lib/modules")
    trees = tuple(DkmsModule("nvidia", "580.95.05", RUNNING, status, "dkms") for status in ("installed",))
    assert first(updated(modules_installed=module, dkms=known(trees, "dkms"))).slug == "driver-installed-no-reboot"
    added = (DkmsModule("nvidia", "580.95.05", RUNNING, "added", "dkms"),)
    assert first(updated(modules_installed=module, dkms=known(added, "dkms"))).slug == "driver-lib-mismatch"


# --- the driver and the GPU ---


def test_590_no_longer_serves_pascal():
    machine = nvidia_machine(GTX_1080, driver="590.48.01", flavour="proprietary")
    assert below_torch(machine) == [("nvidia-driver-dropped-gpu", "error")]
    remedy = first(machine).fixes[0].remedies[0]
    assert isinstance(remedy, InstallDriver)
    assert (remedy.branch, remedy.flavour) == ("580", "proprietary")


def test_the_open_590_refuses_pascal_for_its_branch_first():
    gpu = change(GTX_1080, driver=absent("driver"))
    machine = with_stack(
        nvidia_machine(gpu, driver="590.48.01"),
        module=absent("proc"),
        modules_loaded=known((), "proc"),
        modules_installed=on_disk("590.48.01"),
    )
    assert below_torch(machine) == [("nvidia-driver-dropped-gpu", "error")]


def test_580_serves_pascal_and_470_kepler():
    assert below_torch(nvidia_machine(GTX_1080, driver="580.95.05", flavour="proprietary")) == []
    kepler = nvidia_gpu("NVIDIA Tesla K80", "sm_37")
    assert below_torch(nvidia_machine(kepler, driver="470.256.02", flavour="proprietary")) == []


def test_a_gpu_that_the_driver_lists_is_never_dropped():
    gpu = change(GTX_1080, nvml=NvmlDevice(index=0, name="NVIDIA GeForce GTX 1080"))
    machine = with_stack(nvidia_machine(gpu, driver="590.48.01"), nvml=nvml(0, NvmlDevice(index=0)))
    assert below_torch(machine) == []


def test_blackwell_needs_the_open_modules():
    machine = nvidia_machine(change(RTX_5090, index=0), driver="570.144", flavour="proprietary")
    assert below_torch(machine) == [("blackwell-open-module", "error")]
    remedy = first(machine).fixes[0].remedies[0]
    assert isinstance(remedy, InstallDriver)
    assert remedy.flavour == "open"


@pytest.mark.parametrize(("driver", "older"), [("550.163.01", True), ("570.144", False), ("580.95.05", False)])
def test_nobody_is_led_to_the_open_modules_of_a_driver_that_is_too_old_as_well(driver, older):
    message = first(nvidia_machine(change(RTX_5090, index=0), driver=driver, flavour="proprietary")).message
    assert ("too old" in message) is older


def test_pascal_is_refused_by_the_open_modules():
    machine = nvidia_machine(GTX_1080, driver="580.95.05", flavour="open")
    assert below_torch(machine) == [("open-module-unsupported-gpu", "error")]
    assert first(machine).fixes[0].remedies[0].flavour == "proprietary"


@pytest.mark.parametrize("flavour", ["open", "proprietary", None])
def test_ada_takes_both_flavours(flavour):
    assert below_torch(nvidia_machine(flavour=flavour)) == []


def test_where_the_flavour_is_not_known_the_drivers_own_line_counts():
    gpu = change(RTX_5090, index=0)
    line = "NVRM: installed in this system requires use of the NVIDIA open kernel modules."
    assert below_torch(nvidia_machine(gpu, flavour=None)) == []
    assert below_torch(nvidia_machine(gpu, flavour=None, **log(line))) == [("blackwell-open-module", "error")]


def test_early_open_modules_serve_data_centre_gpus_only():
    line = "NVRM: Open nvidia.ko is only ready for use on Data Center GPUs."
    machine = nvidia_machine(driver="535.183.01", **log(line))
    assert below_torch(machine) == [("open-module-unsupported-gpu", "error")]
    assert below_torch(nvidia_machine(driver="535.183.01")) == []
    assert below_torch(nvidia_machine(change(H100, datacenter=True), driver="525.60.13", **log(line))) == []


def test_gb10_needs_the_open_modules_too():
    gb10 = nvidia_gpu("NVIDIA GB10", "sm_121", integrated=True, unified_memory=True)
    assert below_torch(nvidia_machine(gb10, driver="580.95.05", flavour="open")) == []
    assert below_torch(nvidia_machine(gb10, driver="580.95.05", flavour="proprietary")) == [
        ("blackwell-open-module", "error")
    ]


def test_grace_hopper_needs_the_open_modules_and_a_plain_h100_does_not():
    gh200 = nvidia_gpu("NVIDIA GH200 480GB", "sm_90")
    assert found(nvidia_machine(gh200, flavour="proprietary"), "blackwell-open-module")
    assert below_torch(nvidia_machine(H100, flavour="proprietary")) == []


def test_two_gpus_that_no_one_driver_serves_are_told_what_each_needs():
    finding = first(nvidia_machine(GTX_1080, RTX_5090, driver="580.95.05", flavour="proprietary"))
    assert finding.slug == "blackwell-open-module"
    assert finding.device is not None
    assert finding.device.index == 1
    assert "GTX 1080" in finding.message


def test_two_dropped_gpus_do_not_excuse_each_other():
    second = change(GTX_1080, index=1, boot_vga=True)
    machine = nvidia_machine(GTX_1080, second, driver="590.48.01", flavour="proprietary")
    assert below_torch(machine) == [("nvidia-driver-dropped-gpu", "error")]


def test_where_one_driver_serves_all_gpus_the_others_are_not_spoken_of():
    machine = nvidia_machine(GTX_1080, nvidia_gpu(index=1), driver="590.48.01", flavour="proprietary")
    finding = first(machine)
    assert finding.fixes[0].remedies[0].branch == "580"
    assert "4090" not in finding.message


def test_an_older_gpu_that_the_driver_dropped_beside_a_newer_one_is_a_note():
    ada = nvidia_gpu(index=1)
    machine = nvidia_machine(GTX_1080, ada, driver="590.48.01")
    assert below_torch(machine) == [("nvidia-driver-dropped-gpu", "note")]


# --- fabric manager ---


def fabric(switches: int = 4, version=absent("/usr/bin"), running: object = unknown("x")):  # noqa: B008 - frozen
    return Fabric(switches=known(switches, "pci"), manager_version=version, manager_running=running)  # type: ignore[arg-type]


def test_switches_without_a_fabric_manager():
    machine = with_stack(nvidia_machine(H100), fabric=fabric())
    remedy = first(machine).fixes[0].remedies[0]
    assert below_torch(machine) == [("fabric-manager-not-running", "error")]
    assert isinstance(remedy, StartService)
    assert remedy.package == "nvidia-fabricmanager=580.95.05"


@pytest.mark.parametrize(
    ("version", "running", "slugs"),
    [
        (known("580.95.05", "dpkg"), known(True, "/proc"), []),
        (known("580.95.05", "dpkg"), known(False, "/proc"), ["fabric-manager-not-running"]),
        (known("535.183.01", "dpkg"), known(True, "/proc"), ["fabric-manager-not-running"]),
        (known("580.95.05", "dpkg"), unknown("no /proc"), []),
        (absent("/usr/bin"), known(True, "/proc"), []),
        (unknown("no version"), unknown("no /proc"), []),
    ],
)
def test_the_fabric_manager_has_to_run_and_be_the_drivers_twin(version, running, slugs):
    machine = with_stack(nvidia_machine(H100), fabric=fabric(version=version, running=running))
    assert [slug for slug, _ in below_torch(machine)] == slugs


def hgx_b200(*, absent_manager: bool = True, **parts):
    """Eight GPUs whose switches are no PCI devices of NVIDIA's."""
    eight = (nvidia_gpu("NVIDIA B200", "sm_100", index=n, datacenter=True) for n in range(8))
    manager = absent("/usr/bin") if absent_manager else known("580.95.05", "dpkg")
    return with_stack(nvidia_machine(*eight, **parts), fabric=fabric(0, manager))


def test_a_blackwell_board_without_its_fabric_manager():
    remedies = first(hgx_b200()).fixes[0].remedies
    assert below_torch(hgx_b200()) == [("fabric-manager-not-running", "error")]
    assert "nvlsm" in remedies[0].text
    assert remedies[1].package == "nvidia-fabricmanager=580.95.05"
    assert below_torch(hgx_b200(absent_manager=False)) == []
    alone = nvidia_gpu("NVIDIA B200", "sm_100", datacenter=True)
    assert below_torch(with_stack(nvidia_machine(alone), fabric=fabric(0))) == []


def test_a_fabric_manager_that_ends_because_ib_umad_is_not_loaded():
    stopped = fabric(0, known("580.95.05", "dpkg"), known(False, "/proc"))
    board = with_stack(hgx_b200(), fabric=change(stopped, umad=known(False, "/sys/class/infiniband_mad")))
    guest = with_system(board, virtual_machine=known("aws", "dmi"))
    for machine in (board, guest):
        finding = first(machine)
        assert (finding.slug, finding.severity) == ("fabric-manager-not-running", "error")
        assert "ib_umad" in finding.message
        assert finding.fixes[0].remedies[0] == LoadModule("ib_umad", why=finding.fixes[0].remedies[0].why)
    loaded = with_stack(board, fabric=change(stopped, umad=known(True, "/sys/class/infiniband_mad")))
    assert "ib_umad" not in first(loaded).message
    runs = change(stopped, umad=known(False, "/sys"), manager_running=known(True, "/proc"))
    assert below_torch(with_stack(board, fabric=runs)) == []
    hopper = change(stopped, switches=known(4, "pci"), umad=known(False, "/sys"))
    assert "ib_umad" not in first(with_stack(nvidia_machine(H100), fabric=hopper)).message


@pytest.mark.parametrize("where", [{"virtual_machine": known("kvm", "dmi")}, {"arch": known("aarch64", "uname")}])
def test_blackwell_gpus_whose_switches_are_elsewhere(where):
    assert below_torch(with_system(hgx_b200(), **where)) == []
    assert below_torch(hgx_b200(container="docker")) == []


def test_cuda_that_starts_needs_no_fabric_manager():
    assert below_torch(with_stack(nvidia_machine(H100), fabric=fabric(), cuda=cuda(0))) == []


def test_in_a_container_802_speaks_of_the_host():
    machine = with_stack(nvidia_machine(H100, container="docker"), cuda=cuda(802))
    assert below_torch(machine) == [("fabric-manager-not-running", "error")]
    assert remedies(first(machine)) == ["Manual"]
    assert below_torch(with_stack(nvidia_machine(H100, container="docker"), fabric=fabric())) == []


# --- CUDA's start ---


def test_802_on_a_consumer_gpu_is_the_look_alike():
    machine = with_stack(nvidia_machine(), cuda=cuda(802))
    assert below_torch(machine) == [("cuda-init-hmm-kaslr", "error")]
    assert first(machine).confidence == "possible"


@pytest.mark.parametrize("status", [802, 999])
def test_the_line_of_nvidia_uvm_makes_it_certain(status):
    machine = with_stack(nvidia_machine(H100, **log(HMM)), cuda=cuda(status))
    assert below_torch(machine) == [("cuda-init-hmm-kaslr", "error")]
    assert first(machine).evidence[-1].source == "dmesg"
    remedy = first(machine).fixes[0].remedies[0]
    assert isinstance(remedy, LoadModule)
    assert remedy.options == ("uvm_disable_hmm=1",)


def test_cuda_that_is_not_initialised_beside_nvml_that_works_is_the_look_alike_of_the_open_modules():
    works = nvml(0, NvmlDevice(index=0))
    machine = with_stack(nvidia_machine(), cuda=cuda(3), nvml=works)
    assert below_torch(machine) == [("cuda-init-hmm-kaslr", "error")]
    assert first(machine).confidence == "possible"
    closed = machine.nvidia.module.value
    proprietary = with_stack(machine, module=known(replace(closed, flavour="proprietary"), "modinfo"))
    assert below_torch(proprietary) == [("no-driver", "error")]
    assert below_torch(with_stack(machine, nvml=nvml(9))) != [("cuda-init-hmm-kaslr", "error")]


def test_the_line_alone_or_a_cuda_that_starts_is_silent():
    assert below_torch(nvidia_machine(**log(HMM))) == []
    assert below_torch(with_stack(nvidia_machine(**log(HMM)), cuda=cuda(0))) == []


def test_cuda_dead_after_a_suspend():
    machine = with_system(with_stack(nvidia_machine(), cuda=cuda(999), nvml=nvml(0)), suspends=known(2, "/sys/power"))
    assert below_torch(machine) == [("nvidia-uvm-after-suspend", "error")]
    remedy = first(machine).fixes[0].remedies[0]
    assert (type(remedy), remedy.reload) == (LoadModule, True)


@pytest.mark.parametrize(("status", "suspends"), [(0, 2), (999, 0), (100, 2)])
def test_without_both_signs_suspend_is_not_blamed(status, suspends):
    machine = with_system(with_stack(nvidia_machine(), cuda=cuda(status)), suspends=known(suspends, "/sys/power"))
    assert "nvidia-uvm-after-suspend" not in dict(below_torch(machine))


# --- WSL ---

WSL_LIBRARY = Library("libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1", None, "wsl", "ld.so.cache")
LINUX_LIBRARY = Library("libcuda.so.1", f"{LIB}/libcuda.so.535.183.01", "535.183.01", "driver", "ld.so.cache")


def wsl(*libraries: Library, dxg: bool = True, patient=torch(), **parts):  # noqa: B008 - frozen
    nodes = (DeviceNode(path="/dev/dxg", opened="ok"),) if dxg else ()
    machine = with_stack(
        nvidia_machine(torch=patient),
        module=absent("/proc/driver"),
        modules_loaded=known((), "/proc/modules"),
        userland=absent("load path"),
        nodes=known(nodes, "/dev"),
        **parts,
    )
    machine = change(
        machine, gpus=(), load_path=LoadPath(libraries, (LIB, "/usr/lib/wsl/lib"), known(True, "ld.so.cache"))
    )
    return with_system(machine, wsl=known("5.15.153.1-microsoft-standard-WSL2", "uname"))


def test_a_healthy_wsl_is_silent():
    assert below_torch(wsl(WSL_LIBRARY)) == []
    assert below_torch(wsl(WSL_LIBRARY, cuda=cuda(0), nvml=nvml(0))) == []
    assert below_torch(wsl(WSL_LIBRARY, LINUX_LIBRARY)) == []


def test_a_linux_driver_inside_wsl_that_comes_first():
    machine = wsl(LINUX_LIBRARY, WSL_LIBRARY)
    assert below_torch(machine) == [("wsl-driver", "error")]
    assert "libnvidia-compute" in first(machine).fixes[0].remedies[0].text


@pytest.mark.parametrize(
    "machine",
    [wsl(WSL_LIBRARY, dxg=False), wsl(), wsl(WSL_LIBRARY, cuda=cuda(100)), wsl(WSL_LIBRARY, nvml=nvml(9))],
    ids=["no dxg", "no libcuda", "CUDA sees no GPU", "NVML fails"],
)
def test_windows_driver_that_does_not_reach_wsl(machine):
    assert below_torch(machine) == [("wsl-driver", "error")]
    assert "wsl --update" in first(machine).fixes[0].remedies[0].text


def test_other_nodes_are_not_dxg():
    stray = with_stack(wsl(WSL_LIBRARY), nodes=known((DeviceNode(path="/dev/nvhost-ctrl", opened="ok"),), "/dev"))
    assert below_torch(stray) == [("wsl-driver", "error")]


def test_wsl_without_a_gpu_and_without_a_gpu_build_is_a_note():
    assert below_torch(wsl(dxg=False, patient=None)) == [("no-gpu", "note")]


def rocm_wsl(version: str, gpu=None, variables=None, **system):
    machine = change(wsl(patient=torch(version)), variables=variables or {}, gpus=(gpu,) if gpu else ())
    return with_system(machine, **system)


def test_rocm_7_2_on_wsl_is_told_to_look_behind_dxg():
    machine = rocm_wsl("2.12.0+rocm7.2")
    assert below_torch(machine) == [("rocm-wsl-dxg-env", "error")]
    assert first(machine).fixes[0].remedies[0].value == "1"


def test_the_variable_set_or_a_release_that_needs_none_is_silent():
    assert below_torch(rocm_wsl("2.12.0+rocm7.2", variables={"HSA_ENABLE_DXG_DETECTION": "1"})) == []
    assert below_torch(rocm_wsl("2.15.0+rocm10.0")) == []
    assert below_torch(amd_machine(torch=torch("2.12.0+rocm7.2"))) == []


def test_a_later_release_looks_unless_it_is_forbidden():
    machine = rocm_wsl("2.15.0+rocm10.0", variables={"HSA_ENABLE_DXG_DETECTION": "0"})
    assert (first(machine).slug, remedies(first(machine))) == ("rocm-wsl-dxg-env", ["UnsetVariable"])


def test_a_runtime_that_lists_a_gpu_needs_nothing():
    hsa = known(HsaApi(status=0, agents=(HsaAgent(name="gfx1100", kind="gpu"),)), "libhsa")
    machine = rocm_wsl("2.12.0+rocm7.2")
    assert below_torch(change(machine, amd=change(machine.amd, hsa=hsa))) == []


def test_a_gpu_that_rocm_on_wsl_does_not_serve():
    gpu = amd_gpu("AMD Radeon RX 6700 XT", "gfx1031", bdf=None, kfd_node=None)
    machine = rocm_wsl("2.12.0+rocm7.2", gpu, {"HSA_ENABLE_DXG_DETECTION": "1"})
    assert below_torch(machine) == [("rocm-wsl-unsupported", "error")]


@pytest.mark.parametrize("version", ["2.9.1+rocm6.4", "2.1.0+rocm5.6", "2.14.1+rocm7.14"])
@pytest.mark.parametrize("gfx", ["gfx1030", "gfx1031", "gfx1102", "gfx906"])
def test_a_gpu_that_no_release_serves_in_wsl_gets_no_other_torch(version, gfx):
    gpu = amd_gpu(f"AMD GPU {gfx}", gfx, bdf=None, kfd_node=None)
    machine = with_torch(rocm_wsl(version, gpu), own_hsa_runtime=True)
    assert [item for item in told(machine) if item[1] == "error"] == [("rocm-wsl-unsupported", "error")]
    assert [fix.title for fix in first(machine).fixes] == ["Run on native Linux or Windows"]
    # Beside a GPU that ROCm supports there it is only left out.
    other = amd_gpu("AMD Radeon RX 7900 XTX", "gfx1100", bdf=None, kfd_node=None)
    both = change(rocm_wsl("2.11.0+rocm7.2", variables={"HSA_ENABLE_DXG_DETECTION": "1"}), gpus=(other, gpu))
    assert [item for item in told(both) if item[1] != "note"] == []


@pytest.mark.parametrize(("name", "excluded"), [("AMD Radeon RX 7700", True), ("AMD Radeon RX 7800 XT", False)])
def test_products_that_amd_leaves_out_by_name(name, excluded):
    gpu = amd_gpu(name, "gfx1101", bdf=None, kfd_node=None)
    assert bool(found(rocm_wsl("2.15.0+rocm10.0", gpu), "rocm-wsl-unsupported")) is excluded


def test_the_runtime_of_older_wheels_does_not_know_wsl():
    machine = with_torch(rocm_wsl("2.5.1+rocm6.2"), own_hsa_runtime=True)
    assert below_torch(machine) == [("rocm-wsl-unsupported", "error")]
    assert "torch/lib/libhsa-runtime64.so*" in first(machine).fixes[0].remedies[0].text
    assert below_torch(with_torch(machine, own_hsa_runtime=False)) == []
    # That the system's own runtime lists the GPU tells nothing of torch's.
    hsa = known(HsaApi(status=0, agents=(HsaAgent(name="gfx1100", kind="gpu"),)), "libhsa")
    assert below_torch(change(machine, amd=change(machine.amd, hsa=hsa))) == [("rocm-wsl-unsupported", "error")]
    newer = with_torch(rocm_wsl("2.10.0+rocm7.1"), own_hsa_runtime=True)
    assert "ROCm 7.2 or newer" in first(newer).fixes[0].remedies[0].text


@pytest.mark.parametrize("problem", ["missing", "changed"])
def test_the_runtime_that_amds_guide_takes_out_of_torch_is_no_damage(problem):
    exchanged = (DamagedFile(path="/opt/venv/torch/lib/libhsa-runtime64.so", problem=problem),)
    machine = with_torch(rocm_wsl("2.5.1+rocm6.2"), damaged=exchanged, hip="6.2.41133", own_hsa_runtime=True)
    assert [finding for finding in told(machine) if finding[1] == "error"] == []
    native = with_torch(amd_machine(torch=torch("2.5.1+rocm6.2")), damaged=exchanged, hip="6.2.41133")
    assert ("torch-install-damaged" in dict(told(native))) is (problem == "missing")


def test_no_file_of_wsl_names_an_amd_gpu():
    machine = change(rocm_wsl("2.12.0+rocm7.2", variables={"HSA_ENABLE_DXG_DETECTION": "1"}), gpus=())
    assert ["/dev/dxg" in question.why for question in questions(machine)] == [True]
    hsa = known(HsaApi(status=0, agents=(HsaAgent(name="gfx1100", kind="gpu"),)), "libhsa")
    assert questions(change(machine, amd=change(machine.amd, hsa=hsa))) == []


def test_another_distribution_whose_runtime_fails():
    oracle = known(Os(id="ol", version="9.4", name="Oracle Linux 9.4"), "os-release")
    machine = rocm_wsl("2.12.0+rocm7.2", variables={"HSA_ENABLE_DXG_DETECTION": "1"}, os=oracle)
    failed = change(machine, amd=change(machine.amd, hsa=known(HsaApi(status=4104), "libhsa")))
    assert found(machine, "rocm-wsl-unsupported") == []
    assert [f.severity for f in found(failed, "rocm-wsl-unsupported")] == ["error"]


def test_a_runtime_that_does_not_start_although_it_looks_for_the_gpu():
    """No file names the GPU of a WSL system: only the runtime's own failure tells."""
    status = known(HsaApi(status=4104), "libhsa")
    for variables, expected in (
        ({}, "rocm-wsl-dxg-env"),
        ({"HSA_ENABLE_DXG_DETECTION": "1"}, "rocm-wsl-unsupported"),
    ):
        machine = change(rocm_wsl("2.12.0+rocm7.2", variables=variables), gpus=())
        machine = change(machine, amd=change(machine.amd, hsa=status))
        assert below_torch(machine) == [(expected, "error")]


def test_a_runtime_that_finds_no_gpu_and_no_librocdxg():
    """ROCm inside WSL reaches the driver of Windows through librocdxg, which the wheel of torch does not bring."""
    gpu = amd_gpu("AMD Radeon RX 7900 XTX", "gfx1100", bdf=None, kfd_node=None)
    machine = rocm_wsl("2.12.0+rocm7.2", gpu, {"HSA_ENABLE_DXG_DETECTION": "1"})
    machine = change(machine, load_path=LoadPath((), (LIB,), known(True, "ld.so.cache")))
    assert below_torch(machine) == []  # nobody asked the runtime
    silent = change(machine, amd=change(machine.amd, hsa=known(HsaApi(status=0), "libhsa")))
    assert below_torch(silent) == [("rocm-wsl-unsupported", "error")]
    assert "librocdxg" in first(silent).fixes[0].title
    bridge = Library("librocdxg.so", "/opt/rocm/lib/librocdxg.so", via="ld.so.cache", kind="other")
    there = change(silent, load_path=LoadPath((bridge,), (LIB,), known(True, "ld.so.cache")))
    assert below_torch(there) == []


def test_a_rocm_build_where_windows_has_an_nvidia_driver_is_the_wrong_build():
    machine = change(
        with_torch(rocm_wsl("2.9.1+rocm6.4"), own_hsa_runtime=True),
        load_path=LoadPath((WSL_LIBRARY,), (LIB, "/usr/lib/wsl/lib"), known(True, "ld.so.cache")),
    )
    assert [item for item in told(machine) if item[1] == "error"] == [("torch-wrong-build-or-cpu", "error")]
    # ROCm 7.2 would look behind /dev/dxg only when told to: no help where the GPU is NVIDIA's.
    newer = with_torch(machine, version="2.12.0+rocm7.2", rocm="7.2", build="rocm7.2")
    assert [item[0] for item in told(newer) if item[1] == "error"] == ["torch-wrong-build-or-cpu"]
    # Where ROCm is installed, too, an AMD GPU is meant.
    both = change(machine, amd=change(machine.amd, rocm=known((RocmInstall("6.4.2", "/opt/rocm"),), "/opt")))
    assert [item[0] for item in told(both) if item[1] == "error"] == ["rocm-wsl-unsupported"]


def test_a_cuda_build_where_rocm_is_installed_and_windows_has_no_nvidia_driver_is_the_wrong_build():
    machine = wsl()
    amd = change(machine, amd=change(machine.amd, rocm=known((RocmInstall("7.2.1", "/opt/rocm"),), "/opt")))
    assert [item for item in told(amd) if item[1] == "error"] == [("cuda-torch-on-amd", "error")]
    assert "ROCm build" in finding(amd, "cuda-torch-on-amd").fixes[0].remedies[0].text
    bridge = Library("librocdxg.so", "/opt/rocm/lib/librocdxg.so", None, "toolkit", "ld.so.cache")
    assert [item[0] for item in told(wsl(bridge)) if item[1] == "error"] == ["cuda-torch-on-amd"]
    with_both = change(amd, load_path=LoadPath((WSL_LIBRARY,), (LIB,), known(True, "ld.so.cache")))
    assert [item for item in told(with_both) if item[1] == "error"] == []


@pytest.mark.parametrize("status", [3, 100, 802, 803, 804, 999])
@pytest.mark.parametrize("arch", ["sm_89", "sm_120", "sm_21"])
def test_no_linux_driver_or_module_is_proposed_inside_wsl(status, arch):
    gpu = nvidia_gpu("NVIDIA GPU", arch, bdf=None, nodes=("/dev/dxg",), driver=known("dxgkrnl", "/dev/dxg"))
    machine = with_system(
        nvidia_machine(gpu),
        wsl=known("6.6.87.2-microsoft-standard-WSL2", "uname"),
        suspends=known(2, "/sys/power"),
    )
    machine = with_stack(machine, module=absent("/proc"), nodes=known((DeviceNode("/dev/dxg", opened="ok"),), "/dev"))
    machine = with_stack(machine, cuda=cuda(status), nvml=known(NvidiaApi(status=0), "nvml"))
    proposed = [remedy for finding in judged(machine).findings for fix in finding.fixes for remedy in fix.remedies]
    assert not any(isinstance(remedy, (InstallDriver, LoadModule, RebuildModule)) for remedy in proposed)
