"""Why the kernel's driver does not have a GPU (GPD110 to GPD116)."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import (
    BlockModule,
    Evidence,
    Finding,
    Fix,
    InstallDriver,
    InstallRocmDriver,
    LoadModule,
    Manual,
    NotJudged,
    Reboot,
    RebuildModule,
    UnblockModule,
    by_hand,
)
from gpudoctor.machine import Gpu
from gpudoctor.matrix.versions import figures
from gpudoctor.situation import Situation
from gpudoctor.situation.gpu_groups import called, finding, group_by
from gpudoctor.situation.issue_findings import firmware_in_question, of_slug
from gpudoctor.situation.kernel_log import log_evidence
from gpudoctor.situation.kernel_modules import (
    blocking_rules,
    core_modules,
    for_running_kernel,
    has_backports,
    kernel_too_old,
    kernel_with_the_chip,
    newer_than_described_kernel,
    unbuilt_dkms,
)
from gpudoctor.situation.no_kernel_driver import because, rival, without_kfd
from gpudoctor.situation.nvidia_driver import refusal
from gpudoctor.situation.working_gpus import worthwhile

_MODULES = {"NovaCore": "nova_core", "nova-core": "nova_core"}
"""The name that modprobe knows a module by, where the bus has another name for its driver."""


@check("GPD110", "nouveau-conflict", "driver")
def nouveau_conflict(situation: Situation) -> Verdicts:
    """Another kernel driver (nouveau, nova) owns the NVIDIA GPU.

    ## Why it matters
    CUDA works only with NVIDIA's own kernel module. While nouveau or nova has the GPU, that module cannot take it.

    ## How it is judged
    The check reads which driver the PCI bus names for the GPU. A display GPU beside a working one is a note.

    ## Fix safety
    Needs root and a reboot; the screen then runs on another driver. To undo it, remove the rule and the driver.
    """
    for severity, gpus in because(situation, "nouveau-conflict"):
        from gpudoctor.situation.driver_choice import install_driver, unblocking

        name = rival(situation, gpus[0]) or "nouveau"
        modules = core_modules(situation)
        ready = for_running_kernel(situation) is not None and refusal(situation, gpus[0]) is None
        fix = install_driver(situation, gpus)
        module = _MODULES.get(name, name)
        block = BlockModule(module, why=f"{name} must not take the GPU before NVIDIA's driver does")
        reboot = Reboot(why=f"{name} releases the GPU only at a reboot")
        installs = any(isinstance(step, InstallDriver) for step in fix.remedies)
        if not situation.in_container and (ready or installs):
            installed = tuple(step for step in fix.remedies if not isinstance(step, Reboot))
            steps = unblocking(situation) if ready else installed
            title = f"Stop {name} from taking the GPU" if ready else f"{fix.title} to replace {name}"
            fix = Fix(title, (*steps, block, reboot))
        yield finding(
            severity,
            gpus,
            message=f"The kernel driver {name} has taken {called(gpus)}; CUDA needs NVIDIA's own kernel driver.",
            saw=name,
            want="nvidia",
            evidence=(
                Evidence.of("gpu.driver", gpus[0].driver),
                *(Evidence("nvidia.modules_installed", f"{m.name} for {m.kernel}", m.path) for m in modules[:1]),
            ),
            fixes=worthwhile(situation, gpus, (fix,)),
            supersedes=("no-driver",),
        )


@check("GPD111", "module-blacklisted", "driver")
def module_blacklisted(situation: Situation) -> Verdicts:
    """A rule keeps the GPU's kernel module from loading.

    ## Why it matters
    The driver is installed but never loads. A line in modprobe.d, the kernel command line, or a graphics switch
    (prime-select, envycontrol) forbids it.

    ## How it is judged
    The check reads the rules that modprobe and the kernel obey, for a GPU without a driver whose module is installed.
    It is a note if a person chose this with a graphics switch. A plain "blacklist" keeps NVIDIA's module from loading
    only at boot where the first CUDA program loads it by its name (for root, or with nvidia-modprobe): then only
    level driver tells.

    ## Fix safety
    Needs root. A copy of the rule is kept beside its file, so that it can be put back.
    """
    for severity, gpus in because(situation, "module-blacklisted"):
        vendor = gpus[0].vendor
        module = "nvidia" if vendor == "nvidia" else "amdgpu"
        rules = blocking_rules(situation, vendor)
        missed = situation.expected_vendor == vendor and not situation.usable_of(vendor)
        if rules:
            rule, source, chosen = rules[0].rule, rules[0].source, all(one.chosen for one in rules)
            unblock = tuple(UnblockModule(module, one.source, why=f"it contains: {one.rule}") for one in rules)
            fix = Fix(f"Remove the rule and load {module}", (*unblock, LoadModule(module)))
            if chosen:
                fix = Fix("Switch the GPU on", unblock)
            elif all("cmdline" in one.source for one in rules):  # gone at the next boot, which loads the module
                fix = Fix(f"Remove {rule} from the kernel command line", unblock)
        else:
            rule, source, chosen = "nomodeset", situation.machine.system.kernel_options.source, False
            unblock_amdgpu = UnblockModule(module, source, why="amdgpu does not start under nomodeset")
            fix = Fix("Remove nomodeset from the kernel command line", (unblock_amdgpu, Reboot()))
        yield finding(
            "note" if chosen else severity,
            gpus,
            message=f"{called(gpus)} is switched off on purpose ({rule})"
            + (", and this environment is made for it." if missed else ".")
            if chosen
            else f"A rule keeps the kernel module {module} for {called(gpus)} from loading: {rule}",
            saw=rule,
            want=f"{module} loaded",
            evidence=(Evidence(f"{vendor}.blocked", rule, source), Evidence.of("gpu.driver", gpus[0].driver)),
            fixes=worthwhile(situation, gpus, (fix,)),
            supersedes=("no-driver", "no-gpu"),
        )


@check("GPD113", "nvidia-dkms-kernel-mismatch", "driver")
def nvidia_dkms_kernel_mismatch(situation: Situation) -> Verdicts:
    """The NVIDIA kernel module was built for another kernel.

    ## Why it matters
    After a kernel update the module must be built again. If that build failed (no headers, or a driver too old for
    the kernel), the driver is gone after the reboot.

    ## How it is judged
    The check reads the module files below /lib/modules and the DKMS status: the module exists for other kernels, but
    not for the running one. Where DKMS left the log of a build that failed, the same build would fail again. Of a
    machine that is only described it is a warning if its driver is known not to build on its kernel: distributions
    patch some drivers.

    ## Fix safety
    Needs root. It builds and installs a module, and removes nothing.
    """
    kernel = situation.machine.system.kernel.value or ""
    modules, trees = core_modules(situation), unbuilt_dkms(situation, "nvidia")
    built = [(tree.version, tree.kernel) for tree in trees] + [(module.version, module.kernel) for module in modules]
    version = max((version for version, _ in built if version), key=figures, default=None)
    vain = {tree.kernel for tree in trees if tree.failed} - {module.kernel for module in modules}
    elsewhere = sorted({other for _, other in built if other} - {kernel, *vain}, key=figures)
    updated = bool(elsewhere) and figures(elsewhere[-1]) > figures(kernel)
    limits = situation.matrix.nvidia.kernel_limits(version, kernel) if version else ()
    failed = any(tree.failed and (tree.version, tree.kernel) == (version, kernel) for tree in trees)
    for severity, gpus in because(situation, "nvidia-dkms-kernel-mismatch"):
        build = RebuildModule("nvidia", version or "", why="needs the headers of the running kernel")
        tree = next((tree.name for tree in trees if tree.version == version), build.module)
        build = build if tree == build.module else replace(build, tree=tree)
        rebuild = Fix(f"Build the module for kernel {kernel}", (build, LoadModule("nvidia")))
        newer = _newer_than(version or "", situation, gpus)
        rebuild = _by_akmods(kernel) if any("/extra/nvidia/" in module.path for module in modules) else rebuild
        boot = Manual(f"Choose kernel {elsewhere[-1]} in the boot menu.", risk="reboot") if elsewhere else None
        reboot = (
            Reboot(why=f"kernel {elsewhere[-1]} is newer than the running one, and has the module")
            if updated
            else None
        )
        module = f"NVIDIA module {version}" if version else "NVIDIA module"
        yield finding(
            severity,
            gpus,
            message=f"The {module} was not built for the running kernel {kernel}"
            + (f": this driver does not build on it (kernel {limits[0].kernel})." if limits else _of_build(failed)),
            saw=", ".join(elsewhere) or "not built",
            want=kernel,
            evidence=(
                Evidence.of("system.kernel", situation.machine.system.kernel),
                *(Evidence("nvidia.modules_installed", f"{m.name} for {m.kernel}", m.path) for m in modules[:2]),
                *(Evidence("nvidia.dkms", f"{t.version} {t.text}", t.source) for t in trees[:2]),
            ),
            fixes=worthwhile(
                situation,
                gpus,
                (
                    *((Fix(f"Reboot into kernel {elsewhere[-1]}", (reboot,)),) if reboot else ()),
                    *(() if reboot else (newer,) if limits or failed else (rebuild, newer)),
                    *((Fix("Boot the kernel that has the module", (boot,)),) if boot and not reboot else ()),
                ),
            ),
            refs=tuple(limit.source for limit in limits),
            supersedes=("no-driver",),
        )
    yield from _described_apart(situation, kernel)


def _described_apart(situation: Situation, kernel: str) -> Iterator[Finding]:
    """A described driver that does not build on the described kernel. Where one of them was not stated, or a module
    was seen, there is nothing to compare."""
    module, gpus = situation.machine.nvidia.module, situation.usable_of("nvidia")
    stated = {module.source, situation.machine.system.kernel.source} == {"description"}
    if not stated or not gpus or module.value is None or situation.in_wsl:
        return
    for limit in situation.matrix.nvidia.kernel_limits(module.value.version or "", kernel)[:1]:
        fixed = f" Fixed by: {limit.fixed_by}." if limit.fixed_by else ""
        yield finding(
            "warning",
            gpus,
            message=f"NVIDIA driver {module.value.version} is known not to build on kernel {kernel} (kernel "
            f"{limit.kernel}). Unless the distribution patched it, {called(gpus)} has no driver there.{fixed}",
            saw=f"driver {module.value.version}",
            want=f"a driver for kernel {kernel}",
            confidence="likely",
            evidence=(Evidence.of("system.kernel", situation.machine.system.kernel),),
            fixes=worthwhile(situation, gpus, (_newer_than(module.value.version or "", situation, gpus),)),
            refs=(limit.source,),
        )


def _newer_than(version: str, situation: Situation, gpus: tuple[Gpu, ...]) -> Fix:
    """The fix that installs a driver; of the branch that is there already, a newer release."""
    from gpudoctor.situation.driver_choice import install_driver, newest_release

    fix = install_driver(situation, gpus)
    driver = next((remedy for remedy in fix.remedies if isinstance(remedy, InstallDriver)), None)
    newest = newest_release(situation, driver) if driver else ""
    if driver is None or driver.branch != version.partition(".")[0] or figures(newest) <= figures(version):
        return fix
    remedies = tuple(replace(one, minimum=newest) if one == driver else one for one in fix.remedies)
    return Fix(f"Update NVIDIA driver {version} to {newest} or newer", remedies)


def _of_build(failed: bool) -> str:
    return ": its build failed. The end of its make.log says why." if failed else "."


def _by_akmods(kernel: str) -> Fix:
    """RPM Fusion's packages install the module below extra/nvidia; DKMS installs it below extra or updates."""
    text = f"As root: `dnf install kernel-devel-{kernel}`, `akmods --force --kernels {kernel}`, `modprobe nvidia`."
    return by_hand(f"Build the module for kernel {kernel}", text, "root")


@check("GPD114", "amd-dkms-kernel-mismatch", "driver")
def amd_dkms_kernel_mismatch(situation: Situation) -> Verdicts:
    """The amdgpu-dkms module was not built for the running kernel.

    ## Why it matters
    AMD's driver package replaces the kernel's own driver. If its build failed, the GPU has no driver or no compute.

    ## How it is judged
    The check reads the DKMS status: amdgpu is registered but not installed for the running kernel, and amdgpu is not
    loaded or KFD does not have the GPU. If the kernel's own amdgpu works, an unbuilt DKMS tree does not matter.

    ## Fix safety
    Needs root. Removing amdgpu-dkms restores the kernel's own driver; the package can be installed again.
    """
    slug, kernel = "amd-dkms-kernel-mismatch", situation.machine.system.kernel.value or ""
    trees, lines = unbuilt_dkms(situation, "amd"), situation.log_faults(slug)
    for severity, gpus in (*because(situation, slug), *without_kfd(situation, slug)):
        version = trees[0].version if trees else ""
        rocm = situation.machine.amd.rocm.value
        limits = situation.matrix.amd.dkms_limits(version, rocm[0].version if rocm else None, kernel)
        failed = any(tree.failed and tree.kernel == kernel for tree in trees)
        build = RebuildModule("amdgpu", version, why="needs the headers of the running kernel")
        rebuild = Fix(f"Build amdgpu-dkms for kernel {kernel}", (build, Reboot()))
        own = InstallRocmDriver(inbox=True, why="the kernel's own driver needs no build")
        inbox = Fix("Use the kernel's own amdgpu instead of amdgpu-dkms", (own, Reboot()))
        newer = InstallRocmDriver(why=f"amdgpu-dkms {version} does not build on this kernel")
        replaced = Fix("Install a newer amdgpu-dkms", (newer, Reboot()))
        known = kernel_too_old(situation, gpus[0]) is None
        hopeless = bool(limits) or failed
        fixes = ((inbox,) if known else ()) + ((replaced,) if hopeless else (rebuild,))
        yield finding(
            severity,
            gpus,
            message=f"{f'amdgpu-dkms {version}'.strip()} is not installed for the running kernel {kernel}, and "
            f"{called(gpus)} has no working driver"
            + (f": it does not build on it (kernel {limits[0].kernel})." if limits else _of_build(failed)),
            saw=", ".join(tree.text for tree in trees) or lines[-1].line,
            want=f"installed for {kernel}",
            evidence=(
                Evidence.of("system.kernel", situation.machine.system.kernel),
                *(Evidence("amd.dkms", f"{t.version} {t.text}", t.source) for t in trees[:2]),
                Evidence.of("amd.module", situation.machine.amd.module),
                *log_evidence(situation, lines[-1:]),
            ),
            fixes=worthwhile(situation, gpus, fixes if hopeless else fixes[::-1]),
            refs=tuple(limit.source for limit in limits),
            supersedes=("no-driver", "amd-kfd-missing"),
        )


@check("GPD115", "amd-kernel-or-runtime-too-old", "driver")
def amd_kernel_or_runtime_too_old(situation: Situation) -> Verdicts:
    """The kernel's amdgpu driver is too old for the GPU.

    ## Why it matters
    If KFD does not know a chip, the chip gets no compute node. HIP does not find it, or the runtime does not start.

    ## How it is judged
    The running kernel is older than the first one that supports the chip, no AMD driver package is installed, and
    amdgpu or KFD does not have the GPU. Distributions with backports (Red Hat, SUSE) make this less certain.
    The same holds for a machine that is only described, unless the description names AMD's driver or shows that the
    GPU works. A kernel that nobody named counts for nothing.

    ## Fix safety
    A newer kernel or amdgpu-dkms needs root and a reboot; the old kernel stays in the boot menu.
    """
    slug, kernel = "amd-kernel-or-runtime-too-old", situation.machine.system.kernel.value or "?"
    for severity, gpus in (*because(situation, slug), *without_kfd(situation, slug)):
        first, lines = kernel_too_old(situation, gpus[0]), situation.log_faults(slug)
        yield finding(
            severity,
            gpus,
            message=f"Kernel {kernel} is too old for {called(gpus)}: Linux {first} is the first that supports it."
            if first
            else f"The kernel driver gives {called(gpus)} no compute access, as if it did not know the chip.",
            saw=kernel,
            want=f"Linux {first} or newer, or amdgpu-dkms" if first else "a KFD node for the GPU",
            confidence="certain" if lines else "possible" if has_backports(situation) or not first else "likely",
            evidence=(
                Evidence.of("system.kernel", situation.machine.system.kernel),
                Evidence.of("gpu.arch", gpus[0].arch),
                Evidence.of("gpu.driver", gpus[0].driver),
                *log_evidence(situation, lines[-1:]),
            ),
            fixes=worthwhile(situation, gpus, kernel_with_the_chip(situation, first)),
            supersedes=("no-driver", "amd-kfd-missing"),
        )
    yield from _needs_driver_package(situation)


@check("GPD116", "amd-firmware-regression", "driver")
def amd_firmware_regression(situation: Situation) -> Verdicts:
    """The installed linux-firmware release is known to break this GPU.

    ## Why it matters
    Some releases of the GPU firmware make ROCm hang or fail on certain chips. Another release fixes it.

    ## How it is judged
    The check compares the chip and the installed linux-firmware package with known bad pairs in the matrix, or finds
    the symptom in the kernel log.

    ## Fix safety
    Another release of the package needs root and a reboot; the old one can be installed again.
    """
    yield from of_slug(situation, "amd-firmware-regression")
    if firmware_in_question(situation):
        yield NotJudged(f"the release of linux-firmware is not known ({situation.machine.amd.firmware_package.why})")


def _needs_driver_package(situation: Situation) -> Iterator[Finding]:
    """Described GPUs that the described kernel's own amdgpu does not support."""
    kernel = situation.machine.system.kernel
    for group in group_by(newer_than_described_kernel(situation), lambda gpu: gpu.name).values():
        first = kernel_too_old(situation, group[0])
        yield finding(
            "error",
            group,
            message=f"Kernel {kernel.value} is too old for {called(group)}: Linux {first} is the first that supports "
            "it.",
            saw=kernel.value or "",
            want=f"Linux {first} or newer, or amdgpu-dkms",
            evidence=(Evidence.of("system.kernel", kernel), Evidence.of("gpu.arch", group[0].arch)),
            fixes=kernel_with_the_chip(situation, first),
        )
