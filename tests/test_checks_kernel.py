"""Why the kernel has no driver for a GPU: GPD110 to GPD116, and GPD119."""

from __future__ import annotations

import pytest

from gpudoctor.finding import (
    BlockModule,
    InstallDriver,
    InstallRocmDriver,
    LoadModule,
    Manual,
    RebuildModule,
    UnblockModule,
)
from gpudoctor.machine import BlockedModule, DkmsModule, InstalledModule, NvidiaApi, absent, known, unknown
from tests.support.check_cases import below_torch, first, found, log, remedies, unanswered
from tests.support.judging import judged
from tests.support.machines import (
    amd_gpu,
    amd_machine,
    change,
    nvidia_gpu,
    nvidia_machine,
    torch,
    with_environment,
    with_stack,
    with_system,
)

RUNNING, BEFORE = "6.8.0-60-generic", "6.8.0-59-generic"
REJECTED = "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service"
NOTHING_BOUND = absent("/sys/bus/pci/devices/0000:01:00.0/driver")


def module(kernel: str = RUNNING, version: str = "580.95.05", flavour: str = "open", name: str = "nvidia"):
    path = f"/lib/modules/{kernel}/updates/dkms/{name}.ko"
    return InstalledModule(name=name, kernel=kernel, path=path, version=version, flavour=flavour)  # type: ignore[arg-type]


def dkms(kernel: str, status: str, name: str = "nvidia", version: str = "580.95.05"):
    return DkmsModule(name=name, version=version, kernel=kernel, status=status, source=f"/var/lib/dkms/{name}")  # type: ignore[arg-type]


def without_driver(gpu=None, *modules, torch=torch(), **parts):  # noqa: B008 - frozen
    """A box whose GPU no kernel driver has; `modules` lie on disk, user space is of no version unless given."""
    gpu = gpu or nvidia_gpu(driver=NOTHING_BOUND)
    stack = {
        "module": absent("/proc/modules", "the module nvidia is not loaded"),
        "modules_loaded": known((), "/proc/modules"),
        "modules_installed": known(modules, "/lib/modules"),
        "userland": absent("the load path"),
        "nodes": known((), "/dev"),
        "proc_gpus": absent("/proc/driver/nvidia/gpus"),
    }
    return with_stack(nvidia_machine(gpu, torch=torch), **{**stack, **parts})


def amd_without_driver(gpu=None, **parts):
    gpu = gpu or amd_gpu(driver=absent("driver"), kfd_node=None)
    stack = {
        "module": absent("/sys/module/amdgpu"),
        "modules_loaded": known((), "/proc/modules"),
        "kfd": absent("/dev/kfd"),
        "render_nodes": known((), "/dev/dri"),
        "topology": absent("/sys/class/kfd"),
    }
    return with_stack(amd_machine(gpu), **{**stack, **parts})


# --- no driver at all ---


def test_a_gpu_without_any_driver_gets_the_driver_of_its_branch_and_flavour():
    finding = first(without_driver())
    assert (finding.slug, remedies(finding)) == ("no-driver", ["InstallDriver", "Reboot"])
    remedy = finding.fixes[0].remedies[0]
    assert isinstance(remedy, InstallDriver)
    assert remedy.flavour == "open"


@pytest.mark.parametrize(
    ("name", "sm", "branch"), [("NVIDIA GeForce GTX 1080", "sm_61", "580"), ("NVIDIA Tesla K80", "sm_37", "470")]
)
def test_an_old_gpu_gets_its_last_branch_with_proprietary_modules(name, sm, branch):
    finding = first(without_driver(nvidia_gpu(name, sm, driver=NOTHING_BOUND), torch=torch("1.13.1+cu117")))
    remedy = finding.fixes[0].remedies[0]
    assert isinstance(remedy, InstallDriver)
    assert (remedy.branch, remedy.flavour) == (branch, "proprietary")


def test_a_module_that_is_there_is_loaded_before_anything_is_installed():
    finding = first(without_driver(None, module()))
    assert (finding.slug, remedies(finding)) == ("no-driver", ["LoadModule"])


def test_eight_equal_gpus_are_one_finding():
    gpus = [nvidia_gpu("NVIDIA H100 80GB HBM3", "sm_90", index=n, driver=NOTHING_BOUND) for n in range(8)]
    machine = change(without_driver(), gpus=tuple(gpus))
    assert [f.subject for f in found(machine, "no-driver")] == ["NVIDIA H100 80GB HBM3 (8 GPUs)"]


def test_a_gpu_whose_driver_link_was_not_recorded_is_judged_by_the_loaded_modules():
    gpu = nvidia_gpu(driver=unknown("not recorded"))
    assert below_torch(without_driver(gpu)) == [("no-driver", "error")]
    assert below_torch(without_driver(gpu, modules_loaded=unknown("not recorded"), nodes=unknown("x"))) == []


def test_in_a_container_the_driver_is_missing_on_the_host():
    machine = without_driver(None, blocked=known((BlockedModule("nvidia", "blacklist nvidia", "/etc/x"),), "image"))
    finding = first(with_system(machine, container=known("docker", "/.dockerenv")))
    assert (finding.slug, remedies(finding)) == ("no-driver", ["Manual"])
    assert "host" in finding.message
    (step,) = finding.fixes[0].remedies  # a plan shows it alone, without the title of the fix
    assert "install NVIDIA driver 580 (open kernel modules)" in step.text and "host" in step.text


def test_wsl_and_jetson_have_no_such_fault():
    gpu = nvidia_gpu(driver=unknown("no PCI"), bdf=None)
    for where in ("wsl", "jetson"):
        machine = with_system(without_driver(gpu), **{where: known("x", "x")})
        assert "no-driver" not in dict(below_torch(machine))


def test_an_amd_gpu_without_amdgpu():
    finding = first(amd_without_driver())
    assert (finding.slug, remedies(finding)) == ("no-driver", ["LoadModule"])


def test_a_gpu_of_the_radeon_driver_is_told_that_rocm_never_served_it():
    gpu = amd_gpu("AMD Radeon HD 7870", driver=known("radeon", "driver"), kfd_node=None)
    finding = first(amd_without_driver(change(gpu, arch=unknown("not in it"))))
    assert (finding.slug, finding.severity) == ("no-driver", "error")
    assert "radeon" in finding.message


def test_a_driver_that_does_not_start_for_no_known_reason():
    machine = with_stack(nvidia_machine(), cuda=known(NvidiaApi(status=999, message="unknown error"), "libcuda"))
    assert below_torch(machine) == [("no-driver", "error")]
    assert remedies(first(machine)) == ["Reboot", "Manual"]


@pytest.mark.parametrize("status", [0, 2, 46])
def test_a_busy_gpu_is_not_a_missing_driver(status):
    assert below_torch(with_stack(nvidia_machine(), cuda=known(NvidiaApi(status=status), "libcuda"))) == []


def test_cuda_that_sees_no_gpu_is_not_well_unless_a_variable_may_hide_it():
    machine = with_stack(nvidia_machine(), cuda=known(NvidiaApi(status=100), "libcuda"))
    assert below_torch(machine) == [("no-driver", "error")]
    assert below_torch(change(machine, variables={"CUDA_VISIBLE_DEVICES": "GPU-0a0a"})) == []


# --- a display GPU beside a working one ---


def test_an_old_display_gpu_without_a_driver_beside_a_working_one_is_a_note():
    old = nvidia_gpu("NVIDIA GeForce GT 710", "sm_35", index=1, driver=known("nouveau", "driver"))
    assert below_torch(nvidia_machine(nvidia_gpu(), old)) == [("nouveau-conflict", "note")]


def test_the_newer_gpu_without_a_driver_beside_an_old_one_is_an_error():
    new = nvidia_gpu("NVIDIA GeForce RTX 5090", "sm_120", driver=known("nouveau", "driver"))
    old = nvidia_gpu("NVIDIA GeForce GTX 1080", "sm_61", index=1)
    assert below_torch(nvidia_machine(new, old, flavour="proprietary"))[0] == ("nouveau-conflict", "error")


def test_an_nvidia_display_gpu_in_an_amd_box_is_a_note():
    display = nvidia_gpu(driver=known("nouveau", "driver"), index=1)
    machine = change(amd_machine(), gpus=(amd_gpu(), display))
    assert below_torch(machine) == [("nouveau-conflict", "note")]


def test_amd_graphics_of_the_processor_do_not_count_as_the_working_gpu():
    igpu = amd_gpu("AMD Radeon Graphics", "gfx1036", integrated=True)
    machine = without_driver()
    assert below_torch(change(machine, gpus=(*machine.gpus, igpu)))[0] == ("no-driver", "error")


def amd_beside(the_nvidia=None, **amd):
    """An AMD GPU beside an NVIDIA one (without a driver unless given), no torch."""
    machine = without_driver(the_nvidia, torch=None)
    gpu = amd_gpu("AMD Radeon", "gfx1036", **amd)
    return change(machine, gpus=(*machine.gpus, gpu), amd=amd_machine(gpu).amd)


def test_without_torch_a_discrete_amd_gpu_does_the_work_and_integrated_graphics_do_not():
    assert below_torch(amd_beside()) == [("no-driver", "note")]
    assert below_torch(amd_beside(integrated=True)) == [("no-driver", "error")]


def test_without_torch_integrated_amd_graphics_without_a_driver_are_a_note():
    gpu = amd_gpu("AMD Radeon Graphics", "gfx1036", integrated=True, driver=absent("driver"), kfd_node=None)
    bare = amd_without_driver(gpu)
    assert below_torch(with_environment(bare, torch=absent("site"))) == [("no-driver", "note")]
    assert below_torch(bare) == [("no-driver", "error")]


def test_a_gpu_that_no_torch_ever_served_is_a_note_unless_a_gpu_build_is_there():
    fermi = nvidia_gpu("NVIDIA GeForce GT 610", "sm_21", driver=known("nouveau", "driver"))
    assert below_torch(without_driver(fermi, torch=None)) == [("nouveau-conflict", "note")]
    assert below_torch(without_driver(fermi)) == [("nouveau-conflict", "error")]
    (fix,) = first(without_driver(fermi)).fixes
    assert "CPU" in fix.title and all(isinstance(remedy, Manual) for remedy in fix.remedies)


@pytest.mark.parametrize(
    ("name", "arch", "driver"),
    [("NVIDIA GeForce GT 620", "sm_21", None), ("NVIDIA GeForce GT 750M", "sm_30", "580.95.05")],
)
def test_no_driver_is_proposed_for_a_gpu_that_no_torch_build_serves(name, arch, driver):
    gpu = nvidia_gpu(name, arch, **({} if driver else {"driver": NOTHING_BOUND}))
    machine = nvidia_machine(gpu, driver=driver, flavour="proprietary") if driver else without_driver(gpu)
    proposed = [remedy for finding in judged(machine).findings for fix in finding.fixes for remedy in fix.remedies]
    assert proposed and not any(isinstance(remedy, (InstallDriver, LoadModule)) for remedy in proposed)


def test_no_installed_module_is_loaded_for_a_gpu_that_no_torch_build_serves():
    gpu = nvidia_gpu("NVIDIA GeForce GT 620", "sm_21", driver=NOTHING_BOUND)
    module = known((InstalledModule("nvidia", RUNNING, "/lib/modules/nvidia.ko", "390.157"),), "/lib/modules")
    for parts in ({}, {"blocked": known((BlockedModule("nvidia", "blacklist nvidia", "/etc/modprobe.d/x"),), "x")}):
        finding = first(without_driver(gpu, modules_installed=module, **parts))
        assert [fix.title for fix in finding.fixes] == ["Use another GPU, or the CPU"]


def test_an_old_gpu_that_some_build_still_serves_gets_its_last_driver():
    old = without_driver(nvidia_gpu("NVIDIA GeForce GTX 980", "sm_52", driver=NOTHING_BOUND))
    (install,) = [remedy for remedy in first(old).fixes[0].remedies if isinstance(remedy, InstallDriver)]
    assert install.branch == "580"


def test_a_gpu_that_the_matrix_does_not_know_is_not_taken_for_an_old_one():
    new = change(nvidia_gpu("NVIDIA 10de:9999", driver=NOTHING_BOUND), arch=unknown("no row"))
    machine = without_driver(new, torch=None)
    assert below_torch(machine) == [("no-driver", "error")]
    assert remedies(first(machine)) == ["Manual"]


def test_in_a_container_without_a_gpu_build_the_hosts_driver_is_nobodys_trouble():
    machine = with_system(without_driver(torch=None), container=known("docker", "/.dockerenv"))
    assert below_torch(machine) == [("no-driver", "note")]


# --- nouveau ---


@pytest.mark.parametrize(
    ("rival", "module"), [("nouveau", "nouveau"), ("nova_core", "nova_core"), ("NovaCore", "nova_core")]
)
def test_a_rival_driver_is_kept_off_and_nvidias_installed(rival, module):
    machine = without_driver(nvidia_gpu(driver=known(rival, "driver")), modules_loaded=known((rival,), "proc"))
    finding = first(machine)
    assert below_torch(machine) == [("nouveau-conflict", "error")]
    assert remedies(finding) == ["InstallDriver", "BlockModule", "Reboot"]
    assert BlockModule(module, why=f"{rival} must not take the GPU before NVIDIA's driver does") in (
        finding.fixes[0].remedies
    )


def test_with_nvidias_module_there_nouveau_only_has_to_let_go():
    machine = without_driver(nvidia_gpu(driver=known("nouveau", "driver")), module())
    assert remedies(first(machine)) == ["BlockModule", "Reboot"]


def test_a_module_of_the_wrong_flavour_is_replaced_when_nouveau_goes():
    gpu = nvidia_gpu("NVIDIA GeForce RTX 5090", "sm_120", driver=known("nouveau", "driver"))
    machine = without_driver(gpu, module(flavour="proprietary"))
    assert remedies(first(machine)) == ["InstallDriver", "BlockModule", "Reboot"]


# --- rules ---


def rule(chosen: bool = False, name: str = "nvidia"):
    return known((BlockedModule(name, f"blacklist {name}", "/etc/modprobe.d/no.conf", chosen=chosen),), "/etc")


def test_a_rule_against_an_installed_module_is_taken_away():
    machine = without_driver(None, module(), blocked=rule())
    assert below_torch(machine) == [("module-blacklisted", "error")]
    assert remedies(first(machine)) == ["UnblockModule", "LoadModule"]
    remedy = first(machine).fixes[0].remedies[0]
    assert isinstance(remedy, UnblockModule)
    assert remedy.source == "/etc/modprobe.d/no.conf"


def test_an_option_of_the_boot_loader_is_named_and_gone_with_the_reboot():
    option = known((BlockedModule("nvidia", "module_blacklist=nvidia", "/proc/cmdline"),), "/proc/cmdline")
    fix = first(without_driver(None, module(), blocked=option)).fixes[0]
    assert fix.title == "Remove module_blacklist=nvidia from the kernel command line"
    assert [type(remedy).__name__ for remedy in fix.remedies] == ["UnblockModule"]


def test_a_gpu_switched_off_with_prime_select_is_a_note_that_tells_who_misses_it():
    off = without_driver(None, module(), blocked=rule(chosen=True))
    assert below_torch(off) == [("module-blacklisted", "note")]
    assert "this environment is made for it" in first(off).message
    assert [fix.title for fix in first(off).fixes] == ["Switch the GPU on"]
    on_the_cpu = without_driver(None, module(), blocked=rule(chosen=True), torch=torch("2.9.1+cpu"))
    assert below_torch(on_the_cpu) == [("module-blacklisted", "note")]
    assert "this environment" not in first(on_the_cpu).message
    for_amd = without_driver(None, module(), blocked=rule(chosen=True), torch=torch("2.9.1+rocm6.4"))
    machine = change(for_amd, gpus=(*for_amd.gpus, amd_gpu()), amd=amd_machine().amd)
    assert below_torch(machine) == [("module-blacklisted", "note")]


def test_a_rule_against_a_module_that_is_not_installed_is_no_cause():
    assert first(without_driver(blocked=rule())).slug == "no-driver"


def test_a_rule_against_another_module_or_beside_a_working_gpu_is_silent():
    assert below_torch(with_stack(nvidia_machine(), blocked=rule())) == []
    assert first(without_driver(None, module(), blocked=rule(name="nvidiafb"))).slug == "no-driver"


def test_nomodeset_keeps_amdgpu_from_starting():
    machine = with_system(amd_without_driver(), kernel_options=known(("quiet", "nomodeset"), "/proc/cmdline"))
    assert below_torch(machine) == [("module-blacklisted", "error")]
    assert remedies(first(machine)) == ["UnblockModule", "Reboot"]


def test_a_rule_against_amdgpu():
    machine = amd_without_driver(blocked=rule(name="amdgpu"))
    assert below_torch(machine) == [("module-blacklisted", "error")]
    assert [remedy.module for remedy in first(machine).fixes[0].remedies] == ["amdgpu", "amdgpu"]


# --- Secure Boot ---


def test_a_rejected_key_is_certain():
    machine = change(without_driver(None, module()), **log(REJECTED))
    finding = first(machine)
    assert (finding.slug, finding.confidence) == ("secure-boot-module-rejected", "certain")
    assert len(finding.fixes) == 2


def test_secure_boot_and_a_module_that_is_not_loaded_are_likely():
    machine = with_system(without_driver(None, module()), secure_boot=known(True, "efivars"))
    assert (first(machine).slug, first(machine).confidence) == ("secure-boot-module-rejected", "likely")


def test_a_line_about_amds_module_does_not_explain_nvidias():
    machine = change(without_driver(None, module()), **log(REJECTED.replace("nvidia", "amdgpu")))
    assert first(machine).slug == "no-driver"


def test_a_module_refused_for_another_kernel_is_built_anew_though_its_file_is_there():
    line = "nvidia: disagrees about version of symbol module_layout"
    assert first(change(without_driver(None, module()), **log(line))).slug == "nvidia-dkms-kernel-mismatch"
    unknown_symbol = "amdgpu: Unknown symbol amd_iommu_bind_pasid (err 0)"
    finding = first(change(amd_without_driver(), **log(unknown_symbol)))
    assert (finding.slug, remedies(finding)) == ("amd-dkms-kernel-mismatch", ["RebuildModule", "Reboot"])


@pytest.mark.parametrize("modules", [(), (module(BEFORE),)])
def test_secure_boot_is_no_cause_where_there_is_no_module_to_load(modules):
    machine = with_system(without_driver(None, *modules), secure_boot=known(True, "efivars"))
    assert first(machine).slug != "secure-boot-module-rejected"


def test_secure_boot_with_a_loaded_module_is_silent():
    assert below_torch(with_system(nvidia_machine(), secure_boot=known(True, "efivars"))) == []


# --- modules of another kernel ---


def test_a_module_of_the_kernel_before_is_built_anew():
    machine = without_driver(None, module(BEFORE))
    finding = first(machine)
    assert below_torch(machine) == [("nvidia-dkms-kernel-mismatch", "error")]
    assert remedies(finding) == ["RebuildModule", "LoadModule"]
    assert (finding.saw, finding.want) == (BEFORE, RUNNING)


def test_a_module_of_a_newer_kernel_only_waits_for_a_reboot():
    finding = first(without_driver(None, module("6.8.0-61-generic")))
    assert remedies(finding) == ["Reboot"]
    assert "6.8.0-61-generic" in finding.fixes[0].title


def test_a_module_that_akmods_built_is_built_by_akmods():
    rpm_fusion = change(module(BEFORE), path=f"/lib/modules/{BEFORE}/extra/nvidia/nvidia.ko.xz")
    (remedy,) = first(without_driver(None, rpm_fusion)).fixes[0].remedies
    assert f"akmods --force --kernels {RUNNING}" in remedy.text


def test_a_dkms_tree_that_was_never_installed_for_this_kernel():
    machine = without_driver(dkms=known((dkms(BEFORE, "installed"), dkms(RUNNING, "broken")), "dkms"))
    remedy = first(machine).fixes[0].remedies[0]
    assert remedy == RebuildModule("nvidia", "580.95.05", why="needs the headers of the running kernel")


def test_a_driver_that_does_not_build_on_this_kernel_is_replaced_not_rebuilt():
    machine = without_driver(None, module("6.17.0-5-generic", version="580.119.02"))
    finding = first(with_system(machine, kernel=known("7.0.0-1-generic", "uname")))
    assert finding.slug == "nvidia-dkms-kernel-mismatch"
    assert remedies(finding)[0] == "InstallDriver"


def test_a_module_that_was_seen_was_built_whatever_is_known_of_its_release() -> None:
    machine = nvidia_machine()
    seen = known(change(machine.nvidia.module.value, version="590.48.01"), "/proc/driver/nvidia/version")
    newer = with_system(with_stack(machine, module=seen), kernel=known("7.0.0-1011-gcp", "uname"))
    assert found(newer, "nvidia-dkms-kernel-mismatch") == []
    both = with_stack(newer, module=change(seen, source="description"))
    described = with_system(both, kernel=known("7.0.0-1011-gcp", "description"))
    assert [one.severity for one in found(described, "nvidia-dkms-kernel-mismatch")] == ["warning"]


def test_other_kernels_modules_beside_a_loaded_one_are_silent():
    assert below_torch(with_stack(nvidia_machine(), modules_installed=known((module(BEFORE),), "lib"))) == []


def test_amdgpu_dkms_that_was_not_built():
    trees = known((dkms(BEFORE, "installed", "amdgpu", "6.12.12"),), "/var/lib/dkms")
    machine = amd_without_driver(dkms=trees)
    assert below_torch(machine) == [("amd-dkms-kernel-mismatch", "error")]
    assert remedies(first(machine)) == ["RebuildModule", "Reboot"]


def test_amdgpu_dkms_that_cannot_be_built_gives_way_to_the_kernels_own():
    trees = known((dkms("6.8.0-60-generic", "installed", "amdgpu", "6.12.12"),), "/var/lib/dkms")
    machine = with_system(amd_without_driver(dkms=trees), kernel=known("6.14.0-24-generic", "uname"))
    finding = first(machine)
    assert finding.slug == "amd-dkms-kernel-mismatch"
    assert finding.fixes[0].remedies[0] == InstallRocmDriver(inbox=True, why="the kernel's own driver needs no build")


def test_an_unbuilt_dkms_tree_is_silent_where_the_kernels_own_driver_serves():
    trees = known((dkms(BEFORE, "installed", "amdgpu", "6.12.12"),), "/var/lib/dkms")
    assert below_torch(with_stack(amd_machine(), dkms=trees)) == []


# --- a kernel older than the GPU ---


def test_a_kernel_from_before_the_gpu_is_too_old():
    gpu = amd_gpu("AMD Radeon RX 9070 XT", "gfx1201", driver=absent("driver"), kfd_node=None)
    machine = with_system(amd_without_driver(gpu), kernel=known("6.5.0-45-generic", "uname"))
    assert below_torch(machine) == [("amd-kernel-or-runtime-too-old", "error")]
    assert remedies(first(machine)) == ["InstallKernel", "Reboot"]


def test_a_driver_package_stands_in_for_an_old_kernel():
    gpu = amd_gpu("AMD Radeon RX 9070 XT", "gfx1201")
    trees = known((dkms("6.5.0-45-generic", "installed", "amdgpu", "6.16.6"),), "/var/lib/dkms")
    machine = with_system(with_stack(amd_machine(gpu), dkms=trees), kernel=known("6.5.0-45-generic", "uname"))
    assert below_torch(machine) == []


def test_amds_own_module_is_not_called_a_kernel_that_is_too_old():
    gpu = amd_gpu("AMD Radeon RX 9070 XT", "gfx1201", kfd_node=None)
    machine = with_system(amd_machine(gpu), kernel=known("6.5.0-45-generic", "uname"))
    assert "Kernel 6.5" in first(machine).message
    own = first(with_stack(machine, module=known("6.16.6", "/sys/module/amdgpu/version")))
    assert "Kernel 6.5" not in own.message


def test_a_driver_package_for_the_running_kernel_speaks_against_an_old_kernel():
    gpu = amd_gpu("AMD Radeon RX 9070 XT", "gfx1201", driver=absent("driver"), kfd_node=None)
    for kernel, slug in (("6.5.0-45-generic", "no-driver"), ("6.5.0-44-generic", "amd-dkms-kernel-mismatch")):
        trees = known((dkms(kernel, "installed", "amdgpu", "6.16.6"),), "/var/lib/dkms")
        machine = with_system(amd_without_driver(gpu, dkms=trees), kernel=known("6.5.0-45-generic", "uname"))
        assert first(machine).slug == slug


def test_backports_make_an_old_kernel_number_uncertain():
    gpu = amd_gpu("AMD Radeon RX 9070 XT", "gfx1201", driver=absent("driver"), kfd_node=None)
    machine = with_system(amd_without_driver(gpu), kernel=known("5.14.0-503.el9.x86_64", "uname"))
    assert first(machine).confidence == "possible"


def test_kfds_own_line_about_an_unknown_chip_is_certain():
    gpu = amd_gpu("AMD Radeon RX 7900 XTX", "gfx1100", kfd_node=None)
    machine = amd_machine(gpu, **log("kfd kfd: amdgpu: GC IP 0b0000  not supported in kfd"))
    assert (first(machine).slug, first(machine).confidence) == ("amd-kernel-or-runtime-too-old", "certain")


# --- firmware ---


@pytest.mark.parametrize(
    ("package", "gfx", "found_slugs"),
    [
        ("20251125-1", "gfx1151", ["warning"]),
        ("20240318.git3b128b60-0ubuntu2.20251125", "gfx1151", []),
        ("20260110-1", "gfx1151", []),
        ("20251125-1", "gfx1100", ["warning"]),
        ("20251125-2", "gfx1100", []),
        ("20251125.gitabcdef0-0ubuntu1", "gfx1150", ["warning"]),
        ("20251125-1", "gfx1101", []),
    ],
)
def test_a_firmware_release_known_to_trouble_the_gpu(package, gfx, found_slugs):
    machine = with_stack(amd_machine(amd_gpu("AMD Radeon", gfx)), firmware_package=known(package, "dpkg"))
    assert [f.severity for f in found(machine, "amd-firmware-regression")] == found_slugs


def test_the_fix_of_a_firmware_release_is_another_one_and_a_reboot():
    machine = with_stack(amd_machine(amd_gpu("AMD Radeon", "gfx1151")), firmware_package=known("20251125-1", "dpkg"))
    (told_here,) = found(machine, "amd-firmware-regression")
    assert [type(remedy).__name__ for remedy in told_here.fixes[0].remedies] == ["InstallSystemPackage", "Reboot"]
    assert "20251125-1" in told_here.saw


def test_the_firmware_of_integrated_graphics_beside_a_cuda_torch_does_not_matter():
    strix = amd_gpu("AMD Radeon 8060S", "gfx1151", integrated=True)
    troubled = with_stack(amd_machine(strix), firmware_package=known("20251125-1", "dpkg"))
    assert len(found(troubled, "amd-firmware-regression")) == 1
    both = change(nvidia_machine(nvidia_gpu(), strix), amd=troubled.amd)
    assert found(both, "amd-firmware-regression") == []


def test_an_unknown_firmware_release_does_not_matter():
    machine = with_stack(amd_machine(amd_gpu("AMD Radeon 8060S", "gfx1151")), firmware_package=unknown("no database"))
    assert [question.matters for question in unanswered(machine, "amd-firmware-regression")] == [False]
