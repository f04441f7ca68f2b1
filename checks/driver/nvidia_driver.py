"""Whether the NVIDIA driver matches its own libraries and supports the GPU (GPD122 to GPD126).

Whether it is new enough for the CUDA of torch: `checks/runtime/driver_for_cuda.py`.
"""

from __future__ import annotations

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import AddContainerFlags, Evidence, Finding, Fix, Manual, NotJudged, Reboot, by_hand
from gpudoctor.machine import Gpu, Library
from gpudoctor.situation import Situation
from gpudoctor.situation.driver_library import baked_in, same_version
from gpudoctor.situation.gpu_groups import called, finding
from gpudoctor.situation.kernel_log import log_evidence
from gpudoctor.situation.kernel_modules import for_running_kernel, version_on_disk
from gpudoctor.situation.no_kernel_driver import because
from gpudoctor.situation.nvidia_driver import (
    CUDA_MISMATCH,
    NVML_MISMATCH,
    cuda_status,
    driver_answers,
    kernel_driver,
    nvml_status,
    refusals,
)
from gpudoctor.situation.working_gpus import Weight, by_weight_and_name, has_build, worthwhile

# --- user space against kernel module -----------------------------------------------------------------


@check("GPD122", "driver-installed-no-reboot", "driver")
def driver_installed_no_reboot(situation: Situation) -> Verdicts:
    """A new NVIDIA driver is installed, but the old kernel module still runs.

    ## Why it matters
    The new libraries refuse to talk to the old kernel module: CUDA and nvidia-smi fail until the new one is loaded.

    ## How it is judged
    The loaded module and the libraries differ in version; the module on disk for this kernel has the libraries'.

    ## Fix safety
    A reboot ends running programs and changes nothing on disk.
    """
    versions = _mismatch(situation)
    if versions is None or not _on_disk(situation, versions[1]):
        return
    loaded, libraries = versions
    yield Finding(
        severity="error",
        message=f"NVIDIA driver {libraries} is installed, but the kernel still runs the module of {loaded}: "
        "reboot to finish the update.",
        saw=f"module {loaded}, libraries {libraries}",
        want=f"module {libraries}",
        subject=f"NVIDIA driver {libraries}",
        evidence=driver_answers(situation),
        fixes=(
            Fix("Reboot", (Reboot(why=f"loads the module of {libraries}"),)),
            by_hand("Load the new module without a reboot", _RELOAD, "root"),
        ),
        supersedes=("driver-lib-mismatch", "no-driver", "driver-too-old"),
    )


_RELOAD = (
    "Stop the desktop and all programs that use the GPU. Then, as root: `modprobe -r nvidia_drm nvidia_modeset "
    "nvidia_uvm nvidia && modprobe nvidia`"
)


@check("GPD123", "driver-lib-mismatch", "driver")
def driver_lib_mismatch(situation: Situation) -> Verdicts:
    """NVIDIA's libraries and kernel module have different versions.

    ## Why it matters
    They work only in pairs: NVML reports "Driver/library version mismatch" (18), and CUDA fails with error 803.

    ## How it is judged
    The check compares the loaded module's version with that of the first libcuda and libnvidia-ml on the load path.
    Certain if the driver itself reports the mismatch; likely where a pasted kernel log does. On WSL, Jetson and with
    cuda-compat they differ on purpose.

    ## Fix safety
    A reboot changes nothing on disk. Installing the driver again replaces its packages.
    """
    versions = _mismatch(situation)
    reported = nvml_status(situation) == NVML_MISMATCH or cuda_status(situation) == CUDA_MISMATCH
    logged = situation.log_is_the_complaint and situation.log_faults("driver-lib-mismatch")
    if versions is not None and _on_disk(situation, versions[1]):
        return
    if _unknown_module(situation):
        yield NotJudged(_NO_VERSION, matters=situation.expected_vendor == "nvidia")
    compat = _compat(situation)
    if versions is None and (not (reported or logged) or situation.in_wsl):
        return
    gpus = situation.machine.of_vendor("nvidia")
    if situation.in_container:
        again = AddContainerFlags("recreate", why="the libraries are mounted when a container starts")
        on_host = Manual("If the host's driver was updated since its last boot, reboot the host.", risk="reboot")
        fixes: tuple[Fix, ...] = (Fix("Recreate the container, or reboot the host", (again, on_host)),)
    elif versions is None and compat is not None:
        text = f"Remove {compat.path} from the load path ({compat.via}); this machine needs the driver's own libcuda."
        fixes = (by_hand("Use the driver's own libcuda", text),)
    else:
        from gpudoctor.situation.driver_choice import both_parts_of_one_driver, install_driver

        reboot = Fix("Reboot, in case a driver update needs it", (Reboot(),))
        together = both_parts_of_one_driver(situation, *versions) if versions and gpus else None
        install = worthwhile(situation, gpus, (together or install_driver(situation),)) if gpus else ()
        first = versions is not None and _other_on_disk(situation)
        fixes = (*install, reboot) if first else (reboot, *install)
    saw = f"module {versions[0]}, libraries {versions[1]}" if versions else "the driver reports a version mismatch"
    yield Finding(
        severity="error",
        message="The NVIDIA kernel module and the NVIDIA libraries have different versions"
        + (f" ({versions[0]} and {versions[1]})." if versions else ": the driver refuses to work."),
        saw=saw,
        want="the same version in both",
        subject="NVIDIA driver",
        confidence="certain" if reported else "likely",
        evidence=driver_answers(situation),
        fixes=fixes,
        # The firmware of the loaded module went with its libraries.
        supersedes=("no-driver", "driver-too-old", "nvidia-firmware-missing"),
    )


_NO_VERSION = "the version of the loaded NVIDIA kernel module cannot be read, and it may not be that of the libraries"


def _unknown_module(situation: Situation) -> bool:
    """Whether a loaded module states no version, and the driver was not asked whether its parts fit."""
    machine = situation.machine
    loaded = "nvidia" in (machine.nvidia.modules_loaded.value or ()) and machine.nvidia.module.undecided
    asked = nvml_status(situation) is not None or cuda_status(situation) is not None
    elsewhere = situation.in_wsl or situation.on_jetson
    return loaded and machine.nvidia.userland.known and not asked and not elsewhere


def _mismatch(situation: Situation) -> tuple[str, str] | None:
    """(loaded module, libraries) if they differ and nothing explains it; the driver's own answer takes precedence."""
    machine = situation.machine
    module, libraries = machine.nvidia.module.value, machine.nvidia.userland.value
    if module is None or libraries is None or situation.in_wsl or situation.on_jetson:
        return None
    if nvml_status(situation) == 0 or cuda_status(situation) == 0 or baked_in(situation) is not None:
        return None
    return None if same_version(module.version, libraries) else (module.version, libraries)


def _on_disk(situation: Situation, version: str) -> bool:
    if situation.in_container:
        return False
    found = version_on_disk(situation)
    return found is not None and same_version(found, version)


def _other_on_disk(situation: Situation) -> bool:
    """Whether a reboot would not help: the module on disk has another version, or there is none."""
    if version_on_disk(situation):
        return True
    installed = situation.machine.nvidia.modules_installed
    return installed.known and for_running_kernel(situation) is None


def _compat(situation: Situation) -> Library | None:
    first = situation.machine.load_path.first("libcuda.so.1")
    return first if first is not None and first.kind == "compat" else None


# --- the driver against the GPU ------------------------------------------------------------------------


def _refused(situation: Situation, slug: str) -> list[tuple[Weight, tuple[Gpu, ...]]]:
    """GPUs that the driver refuses by this rule: not bound to it, or bound and not listed as working."""
    unserved = because(situation, slug)
    seen = {gpu.key for _, gpus in unserved for gpu in gpus}
    silent = [
        gpu
        for gpu in situation.machine.of_vendor("nvidia")
        if gpu.key not in seen
        and gpu.driver.value in (None, "nvidia")
        and gpu.nvml is None
        and not any(
            api.value and api.value.status == 0 and api.value.devices for api in situation.machine.nvidia.answered
        )
        and not situation.in_wsl
        and slug in refusals(situation, gpu)
    ]
    weighed = (*unserved, *by_weight_and_name(situation, silent))
    return [(_weight(situation, severity, gpus), gpus) for severity, gpus in weighed]


def _weight(situation: Situation, severity: Weight, gpus: tuple[Gpu, ...]) -> Weight:
    """An error where a person described these GPUs to be used together, and one driver could support them all."""
    from gpudoctor.situation.driver_choice import driver_options

    named = all(gpu.source == situation.machine.buses.source for gpu in situation.machine.gpus)
    together = named and situation.machine.buses.source == "description" and driver_options(situation, gpus)
    return "error" if together and has_build(situation, gpus[0]) else severity


def _others(situation: Situation, gpus: tuple[Gpu, ...]) -> str:
    """A sentence about GPUs of this machine that no driver supports together with these."""
    from gpudoctor.situation.driver_choice import driver_needs, driver_options, driver_serving, gpus_to_drive

    if not driver_options(situation, gpus):
        return ""
    rest = gpus_to_drive(situation, gpus)
    rivals = [gpu for gpu in rest if driver_serving(situation, (*gpus, gpu)) is None]
    needs = dict.fromkeys(f"{gpu.name} needs {driver_needs(situation.matrix, gpu)}" for gpu in rivals)
    return f" {'; '.join(needs)}: one driver cannot support both." if needs else ""


@check("GPD124", "nvidia-driver-dropped-gpu", "driver")
def nvidia_driver_dropped_gpu(situation: Situation) -> Verdicts:
    """The NVIDIA driver branch no longer supports this GPU.

    ## Why it matters
    Each architecture has a last driver branch: 470 for Kepler, 580 for Maxwell, Pascal and Volta. A newer driver,
    loaded or not, does not use the GPU.

    ## How it is judged
    The check compares the driver's branch with the last branch of the GPU's architecture. The branch is that of the
    loaded module, else of the module installed for this kernel, else of the libraries. A listed GPU is fine.

    ## Fix safety
    Needs root and a reboot. An older driver replaces the newer one for all GPUs of the machine.
    """
    version, _, source = kernel_driver(situation)
    for severity, gpus in _refused(situation, "nvidia-driver-dropped-gpu"):
        last = situation.matrix.nvidia.last_branch(gpus[0].arch.value)
        fixes = _other_driver(situation, gpus)
        if situation.torch is None and severity == "error" and not has_build(situation, gpus[0]):
            fixes = (_last_branch(last), *fixes)
        yield finding(
            severity,
            gpus,
            message=f"NVIDIA driver {version} no longer supports {called(gpus)}: {last} is its last branch."
            + _others(situation, gpus),
            saw=version or "",
            want=f"branch {last}",
            evidence=(Evidence("nvidia.driver", version or "", source), Evidence.of("gpu.arch", gpus[0].arch)),
            fixes=fixes,
            refs=("CUDA driver branches and architectures, NVIDIA",),
            supersedes=("no-driver", "driver-init-failed-hw", "open-module-unsupported-gpu"),
        )


def _last_branch(last: str | None) -> Fix:
    """The driver for a GPU that no torch build supports: it may still serve the screen and other programs."""
    text = (
        f"Install the NVIDIA driver of branch {last}, with a kernel that it supports. Only the screen and other "
        "programs can use the GPU then: no released torch has code for it."
    )
    return by_hand(f"Install the NVIDIA driver of branch {last}", text, "reboot")


@check("GPD125", "blackwell-open-module", "driver")
def blackwell_open_module(situation: Situation) -> Verdicts:
    """The GPU needs the open kernel modules, not the proprietary ones.

    ## Why it matters
    Blackwell and Grace Hopper work only with NVIDIA's open kernel modules. With the proprietary ones the GPU is on
    the bus, but nvidia-smi says "No devices were found".

    ## How it is judged
    The check compares the flavour of the loaded module, else of the one for this kernel, with the GPU's architecture.

    ## Fix safety
    Needs root and a reboot. The other flavour of the same driver replaces the present one.
    """
    version, flavour, _ = kernel_driver(situation)
    assumed = situation.machine.assumes("NVIDIA driver")
    modules = f"{flavour} modules" if assumed else f"{flavour} modules {version}"
    for severity, gpus in _refused(situation, "blackwell-open-module"):
        yield finding(
            severity,
            gpus,
            message=f"{called(gpus)} needs NVIDIA's open kernel modules; the proprietary ones"
            f"{'' if assumed else f' of driver {version}'} refuse it."
            + (" The driver is too old for it, too." if "driver-too-old" in refusals(situation, gpus[0]) else "")
            + _others(situation, gpus),
            saw=modules,
            want="open modules",
            evidence=(
                *_flavour_evidence(situation, gpus),
                *log_evidence(situation, situation.log_faults("blackwell-open-module")[:1]),
            ),
            fixes=(_OPEN_FLAVOUR,) if assumed and not _others(situation, gpus) else _other_driver(situation, gpus),
            supersedes=("no-driver", "driver-init-failed-hw", "driver-init-failed-bios"),
        )


_OPEN_FLAVOUR = by_hand(
    "Install the open kernel modules of the installed driver",
    "`cat /proc/driver/nvidia/version` or `modinfo nvidia` tells its version. Ubuntu: nvidia-driver-BRANCH-open; "
    "Debian: nvidia-open-kernel-dkms; NVIDIA's repository: nvidia-open; Arch: nvidia-open-dkms; the .run file: "
    "--kernel-module-type=open. Then reboot.",
    "reboot",
)
"""Where nobody told which driver is installed."""


def _flavour_evidence(situation: Situation, gpus: tuple[Gpu, ...]) -> tuple[Evidence, ...]:
    _, flavour, source = kernel_driver(situation)
    return (Evidence("nvidia.module.flavour", flavour or "", source), Evidence.of("gpu.arch", gpus[0].arch))


def _other_driver(situation: Situation, gpus: tuple[Gpu, ...]) -> tuple[Fix, ...]:
    from gpudoctor.situation.driver_choice import install_driver

    return worthwhile(situation, gpus, (install_driver(situation, gpus),))


@check("GPD126", "open-module-unsupported-gpu", "driver")
def open_module_unsupported_gpu(situation: Situation) -> Verdicts:
    """The open kernel modules are installed, but this GPU is too old for them.

    ## Why it matters
    The open kernel modules need the GPU's management processor, which came with Turing. They refuse older GPUs.

    ## How it is judged
    The check compares the flavour of the loaded module, else of the one for this kernel, with the GPU's architecture.

    ## Fix safety
    Needs root and a reboot. The other flavour of the same driver replaces the present one.
    """
    version, flavour, _ = kernel_driver(situation)
    for severity, gpus in _refused(situation, "open-module-unsupported-gpu"):
        yield finding(
            severity,
            gpus,
            message=f"{called(gpus)} is too old for NVIDIA's open kernel modules ({version}); it needs the "
            f"proprietary ones.{_others(situation, gpus)}"
            if situation.matrix.nvidia.module_flavour(gpus[0].arch.value, gpus[0].name) == "refused"
            else f"The open kernel modules of driver {version} support only data-centre GPUs, not {called(gpus)}.",
            saw=f"{flavour or 'open'} modules {version}",
            want="proprietary modules, or a newer driver",
            evidence=_flavour_evidence(situation, gpus),
            fixes=_other_driver(situation, gpus),
            supersedes=("no-driver", "driver-init-failed-hw"),
        )
