"""The NVIDIA driver against its own libraries and against the card (GPD122 to GPD126)."""

from __future__ import annotations

from gpudoctor import builds
from gpudoctor.builds.drivers import driver_serving, to_drive
from gpudoctor.check import Case, Verdicts, check
from gpudoctor.finding import AddContainerFlags, Evidence, Finding, Manual, Reboot, WayOut
from gpudoctor.machine import Gpu, Library

from .cards import called, finding
from .installed import (
    CUDA_MISMATCH,
    NVML_MISMATCH,
    core_modules,
    cuda_status,
    driver_answers,
    for_running_kernel,
    install_driver,
    nvidia_driver,
    nvidia_refusal,
    nvml_status,
    version_on_disk,
)
from .unserved import Weight, alike, because

# --- user space against kernel module -----------------------------------------------------------------


@check("GPD122", "driver-installed-no-reboot", "driver")
def driver_installed_no_reboot(case: Case) -> Verdicts:
    """A new NVIDIA driver was installed; the old module still runs.

    ## Why it matters
    The new libraries refuse to talk to the old kernel module: CUDA and nvidia-smi fail until the new one is loaded.

    ## How it is judged
    The loaded module and the libraries differ in version, and the module on disk for the running kernel has the
    libraries' version.

    ## Fix safety
    A reboot ends running programs and changes nothing on disk.
    """
    versions = _mismatch(case)
    if versions is None or not _on_disk(case, versions[1]):
        return
    loaded, libraries = versions
    yield Finding(
        severity="error",
        message=f"NVIDIA driver {libraries} is installed and the kernel still runs the module of {loaded}: "
        "reboot to finish the update.",
        saw=f"module {loaded}, libraries {libraries}",
        want=f"module {libraries}",
        subject=f"NVIDIA driver {libraries}",
        evidence=driver_answers(case),
        ways_out=(WayOut("Reboot", (Reboot(why=f"loads the module of {libraries}"),)),),
        supersedes=("driver-lib-mismatch", "no-driver", "driver-too-old"),
    )


@check("GPD123", "driver-lib-mismatch", "driver")
def driver_lib_mismatch(case: Case) -> Verdicts:
    """NVIDIA's libraries and kernel module are of different versions.

    ## Why it matters
    They work only in pairs: NVML says "Driver/library version mismatch" (18), CUDA fails with error 803.

    ## How it is judged
    By the loaded module's version against that of the first libcuda and libnvidia-ml on the load path. Certain where
    the driver itself says so. cuda-compat, WSL and Jetson differ on purpose and are left alone.

    ## Fix safety
    A reboot changes nothing on disk. Installing the driver again replaces its packages.
    """
    versions = _mismatch(case)
    says_so = nvml_status(case) == NVML_MISMATCH or cuda_status(case) == CUDA_MISMATCH
    if versions is not None and _on_disk(case, versions[1]):
        return
    compat = _compat(case)
    if versions is None and (not says_so or case.machine.system.wsl.known):
        return
    cards = case.machine.of_vendor("nvidia")
    if case.in_container:
        again = AddContainerFlags("recreate", why="the libraries are mounted when a container starts")
        on_host = Manual("On the host: reboot, if its driver was updated since the last boot.", risk="reboot")
        ways_out: tuple[WayOut, ...] = (WayOut("Start the container anew; reboot the host", (again, on_host)),)
    elif versions is None and compat is not None:
        text = f"Take {compat.path} off the load path ({compat.via}): the driver's own libcuda is the right one here."
        ways_out = (WayOut("Use the driver's own libcuda", (Manual(text),)),)
    else:
        reboot = WayOut("Reboot, in case an update is waiting for it", (Reboot(),))
        ways_out = (reboot, install_driver(case)) if cards else (reboot,)
        if versions is not None and _other_on_disk(case):
            ways_out = ways_out[::-1]
    saw = f"module {versions[0]}, libraries {versions[1]}" if versions else "the driver reports a version mismatch"
    yield Finding(
        severity="error",
        message="The NVIDIA kernel module and the NVIDIA libraries are of different versions"
        + (f" ({versions[0]} and {versions[1]})." if versions else ": the driver refuses to work."),
        saw=saw,
        want="the same version in both",
        subject="NVIDIA driver",
        confidence="certain" if says_so else "likely",
        evidence=driver_answers(case),
        ways_out=ways_out,
        supersedes=("no-driver", "driver-too-old"),
    )


def _mismatch(case: Case) -> tuple[str, str] | None:
    """(loaded module, libraries) where they differ and nothing explains it; the driver's own word goes first."""
    machine = case.machine
    module, libraries = machine.nvidia.module.value, machine.nvidia.userland.value
    if module is None or libraries is None or machine.system.wsl.known or machine.system.jetson.known:
        return None
    if nvml_status(case) == 0 or cuda_status(case) == 0 or baked_in(case) is not None:
        return None
    return None if _same(module.version, libraries) else (module.version, libraries)


def _same(one: str, other: str) -> bool:
    """Whether two driver versions agree as far as both go ("580.95" and "580.95.05" may be one)."""
    mine, theirs = one.split("."), other.split(".")
    shorter = min(len(mine), len(theirs))
    return one == other or (
        shorter > 1
        and [int(n[:9]) if n.isdecimal() else n for n in mine[:shorter]]
        == [int(n[:9]) if n.isdecimal() else n for n in theirs[:shorter]]
    )


def _on_disk(case: Case, version: str) -> bool:
    if case.in_container:
        return False
    there = version_on_disk(case)
    return there is not None and _same(there, version)


def _other_on_disk(case: Case) -> bool:
    """A boot would not bring the libraries' module: the one on disk is of another version, or there is none."""
    if version_on_disk(case):
        return True
    installed = case.machine.nvidia.modules_installed
    return installed.known and for_running_kernel(case, core_modules(case)) is None


def _compat(case: Case) -> Library | None:
    first = case.machine.load_path.first("libcuda.so.1")
    return first if first is not None and first.kind == "compat" else None


def baked_in(case: Case) -> Library | None:
    """A driver library that is part of the container's image, not mounted, and not of the loaded module's version."""
    module = case.machine.nvidia.module.value
    if not case.in_container or module is None:
        return None
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        library = case.machine.load_path.first(name)
        if library is None or library.version is None or library.kind not in ("driver", "image"):
            continue
        if (library.kind == "image" or library.mounted is False) and not _same(library.version, module.version):
            return library
    return None


# --- the driver against the card ------------------------------------------------------------------------


def _refused(case: Case, slug: str) -> list[tuple[Weight, tuple[Gpu, ...]]]:
    """Cards that the driver refuses by this rule: unserved ones, and those it took and does not list as working."""
    unserved = because(case, slug)
    seen = {id(gpu) for _, cards in unserved for gpu in cards}
    silent = [
        gpu
        for gpu in case.machine.of_vendor("nvidia")
        if id(gpu) not in seen
        and gpu.driver.value in (None, "nvidia")
        and gpu.nvml is None
        and not any(api.value and api.value.status == 0 and api.value.devices for api in case.machine.nvidia.answered)
        and not case.machine.system.wsl.known
        and nvidia_refusal(case, gpu) == slug
    ]
    return [*unserved, *alike(case, silent)]


def _others(case: Case, cards: tuple[Gpu, ...]) -> str:
    """A sentence about cards of the same machine that no driver serves together with these."""
    if not builds.apart(case.machine, case.matrix, cards):
        return ""
    rest = to_drive(case.machine, case.matrix, cards)
    rivals = [gpu for gpu in rest if driver_serving(case.machine, case.matrix, (*cards, gpu)) is None]
    needs = dict.fromkeys(f"{gpu.name} takes {builds.taken(case.matrix, gpu)}" for gpu in rivals)
    return f" {'; '.join(needs)}: one driver cannot serve both." if needs else ""


@check("GPD124", "nvidia-driver-dropped-gpu", "driver")
def nvidia_driver_dropped_gpu(case: Case) -> Verdicts:
    """The NVIDIA driver branch no longer supports this card.

    ## Why it matters
    Each architecture has a last driver branch: 470 for Kepler, 580 for Maxwell, Pascal and Volta. A newer driver
    loads, or not, and leaves the card alone.

    ## How it is judged
    By the driver's branch (loaded module, else the one installed for this kernel, else the libraries) against the
    last branch of the card's architecture. A card that the driver lists as working is never meant.

    ## Fix safety
    Needs root and a reboot; an older driver replaces the newer one for all cards of the machine.
    """
    version, _, source = nvidia_driver(case)
    for severity, cards in _refused(case, "nvidia-driver-dropped-gpu"):
        last = case.matrix.last_branch(cards[0].arch.value or "")
        yield finding(
            severity,
            cards,
            message=f"NVIDIA driver {version} no longer supports {called(cards)}: {last} is its last branch."
            + _others(case, cards),
            saw=version or "",
            want=f"branch {last}",
            evidence=(Evidence("nvidia.driver", version or "", source), Evidence.of("gpu.arch", cards[0].arch)),
            ways_out=(install_driver(case, cards),),
            refs=("CUDA driver branches and architectures, NVIDIA",),
            supersedes=("no-driver", "driver-init-failed-hw", "open-module-unsupported-gpu"),
        )


@check("GPD125", "blackwell-open-module", "driver")
def blackwell_open_module(case: Case) -> Verdicts:
    """The card needs the open kernel modules; the proprietary ones are there.

    ## Why it matters
    Blackwell and Grace Hopper are served by NVIDIA's open kernel modules alone. With the proprietary ones the card is
    on the bus, and nvidia-smi says "No devices were found".

    ## How it is judged
    By the flavour of the loaded module (else of the one installed for this kernel) and the card's architecture.

    ## Fix safety
    Needs root and a reboot; the other flavour of the same driver replaces the present one.
    """
    version, flavour, source = nvidia_driver(case)
    for severity, cards in _refused(case, "blackwell-open-module"):
        yield finding(
            severity,
            cards,
            message=f"{called(cards)} needs NVIDIA's open kernel modules; the proprietary ones of driver {version} "
            "refuse it." + _others(case, cards),
            saw=f"{flavour} modules {version}",
            want="open modules",
            evidence=(
                Evidence("nvidia.module.flavour", flavour or "", source),
                Evidence.of("gpu.arch", cards[0].arch),
                *(Evidence("kernel_log", f.line, "kernel log") for f in case.log_faults("blackwell-open-module")[:1]),
            ),
            ways_out=(install_driver(case, cards),),
            supersedes=("no-driver", "driver-init-failed-hw", "driver-init-failed-bios"),
        )


@check("GPD126", "open-module-unsupported-gpu", "driver")
def open_module_unsupported_gpu(case: Case) -> Verdicts:
    """The open kernel modules are there, and this card is too old for them.

    ## Why it matters
    NVIDIA's open kernel modules need the card's own management processor, which came with Turing: Maxwell, Pascal and
    Volta cards are refused.

    ## How it is judged
    By the flavour of the loaded module (else of the one installed for this kernel) and the card's architecture.

    ## Fix safety
    Needs root and a reboot; the other flavour of the same driver replaces the present one.
    """
    version, flavour, source = nvidia_driver(case)
    for severity, cards in _refused(case, "open-module-unsupported-gpu"):
        yield finding(
            severity,
            cards,
            message=f"{called(cards)} is too old for NVIDIA's open kernel modules ({version}); it needs the "
            f"proprietary ones.{_others(case, cards)}"
            if case.matrix.module_flavour(cards[0].arch.value or "", cards[0].name) == "refused"
            else f"The open kernel modules of driver {version} serve data-centre cards only, not {called(cards)}.",
            saw=f"{flavour or 'open'} modules {version}",
            want="proprietary modules, or a newer driver",
            evidence=(
                Evidence("nvidia.module.flavour", flavour or "", source),
                Evidence.of("gpu.arch", cards[0].arch),
            ),
            ways_out=(install_driver(case, cards),),
            supersedes=("no-driver", "driver-init-failed-hw"),
        )
