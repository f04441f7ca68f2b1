"""The NVIDIA driver that a machine needs, and what a person can do if no one driver supports all its GPUs. One kernel
module drives all NVIDIA GPUs of a machine, in one branch and one flavour, so the driver is chosen for the whole
machine. The open kernel modules refuse all GPUs before Turing and are the only ones for Blackwell; and a GPU's last
branch may be older than another's first driver."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpudoctor.finding import Fix, InstallDriver, ModuleFlavour, Reboot, UnblockModule, by_hand
from gpudoctor.isa import capability, cuda_runs
from gpudoctor.machine import Gpu, Os, archs_of
from gpudoctor.matrix.versions import figures
from gpudoctor.situation import Situation, answer_once
from gpudoctor.situation.c_library import MUSL, c_library, too_old_for
from gpudoctor.situation.kernel_modules import blocking_rules
from gpudoctor.situation.nvidia_driver import cuda_driver, kernel_driver, no_driver, refusal
from gpudoctor.situation.virtual_gpu import guest_driver, is_vgpu
from gpudoctor.situation.wsl import OUTSIDE_WSL, never_in_wsl

if TYPE_CHECKING:
    from gpudoctor.matrix.questions import Matrix
    from gpudoctor.matrix.rows import TorchBuild

Option = tuple[InstallDriver, tuple[Gpu, ...]]
"""A driver, and the GPUs that it supports."""


# --- the driver to install ---------------------------------------------------------------------------


def driver_to_install(
    situation: Situation,
    gpus: tuple[Gpu, ...] = (),
    *,
    cuda: str | None = None,
    at_least: str | None = None,
    why: str = "",
) -> InstallDriver | None:
    """The driver that supports all GPUs that this machine must drive, and `gpus`; preferably one that runs the
    present frameworks and `cuda`, and is no older than `at_least`. None if no one driver supports them all, a GPU is
    unknown, or no torch build supports any: the driver would help none of them."""
    driven = gpus_to_drive(situation, gpus)
    if not any(runs_some_build(situation.matrix, gpu) for gpu in driven):
        return None
    return driver_serving(situation, driven, cuda=cuda, at_least=at_least, why=why)


def driver_serving(
    situation: Situation,
    gpus: tuple[Gpu, ...],
    *,
    cuda: str | None = None,
    at_least: str | None = None,
    why: str = "",
) -> InstallDriver | None:
    """The driver that supports exactly these GPUs: of the branches that the distribution ships, if that is known."""
    matrix = situation.matrix
    flavours = flavours_serving(matrix, gpus)
    if not flavours:
        return None
    sms = archs_of(gpus)
    firsts = [first for gpu in gpus if (first := matrix.nvidia.first_driver(gpu.arch.value, gpu.chip, gpu.pci_id))]
    first = max(firsts, key=figures, default=None)
    cudas = [one.cuda for one in situation.frameworks if one.cuda and one.meant_for_gpu]
    floors = [floor for one in (*cudas, cuda) if one and (floor := matrix.nvidia.floor(one))]
    wanted = max((version for version in (first, at_least, *floors) if version), key=figures, default=None)
    present = cuda_driver(situation.machine)
    for oldest in (wanted, first):
        row = matrix.distributions.driver_to_package(distribution(situation), sms, oldest, flavours, present=present)
        if row is not None:
            same = oldest is not None and figures(oldest)[:1] == figures(row.branch)
            minimum = oldest if same and oldest else row.branch
            return InstallDriver(branch=row.branch, minimum=minimum, flavour=row.flavour, why=why)
        if chosen := matrix.nvidia.branch_to_install(sms, oldest, present=present):
            return InstallDriver(branch=chosen[0], minimum=chosen[1], flavour=flavours[0], why=why)
    return None


def distribution(situation: Situation) -> Os:
    """The distribution whose packages bring the driver; an unknown one where the driver comes from outside."""
    outside = situation.in_container or situation.in_wsl or situation.on_jetson
    return Os() if outside else situation.machine.system.os.value or Os()


def flavours_serving(matrix: Matrix, gpus: tuple[Gpu, ...]) -> tuple[ModuleFlavour, ...]:
    """The kernel-module flavours that support all these GPUs, the better first; none if a GPU is unknown."""
    rules = {matrix.nvidia.module_flavour(gpu.arch.value, gpu.name) for gpu in gpus}
    if not rules or None in rules or {"required", "refused"} <= rules:
        return ()
    if "refused" in rules:
        return ("proprietary",)
    return ("open",) if "required" in rules else ("open", "proprietary")


@answer_once
def gpus_to_drive(situation: Situation, gpus: tuple[Gpu, ...] = ()) -> tuple[Gpu, ...]:
    """The NVIDIA GPUs that the machine's one driver must support, `gpus` among them. GPUs reserved for virtual
    machines need no driver here, and a GPU without any torch build does not restrict the others. Visibility variables
    and containers choose GPUs for a process, but the kernel module is shared."""
    asked = tuple(gpu for gpu in gpus if gpu.vendor == "nvidia" and gpu.arch.value)
    there = situation.machine.of_vendor("nvidia")
    others = (gpu for gpu in there if gpu not in asked and not gpu.reserved)
    ours = (*asked, *(gpu for gpu in others if gpu.arch.value))
    computing = [gpu for gpu in ours if runs_some_build(situation.matrix, gpu)]
    return tuple(gpu for gpu in ours if gpu in asked or gpu in computing) if computing else ours


def runs_some_build(matrix: Matrix, gpu: Gpu) -> bool:
    """Whether some torch build has code for this NVIDIA GPU, or it is too new to be known."""
    if not gpu.arch.value:
        return True
    builds = (build for build in matrix.torch.builds() if build.cuda and build.archs)
    return any(cuda_runs(gpu.arch.value, build.archs or (), build.ptx or ()).runs == "yes" for build in builds)


def driver_after_fix(situation: Situation, gpus: tuple[Gpu, ...]) -> str | None:
    """The driver that builds are chosen for: the present one, unless there is none or the GPUs need another. A driver
    that does not support a GPU must be replaced, whatever torch needs. None if unknown, or if the driver's number
    tells nothing (WSL2, Jetson)."""
    driver = cuda_driver(situation.machine)
    if not _has_to_change(situation, gpus):
        return driver
    chosen = driver_to_install(situation)
    if chosen is None:
        return driver
    return newest_release(situation, chosen)


def newest_release(situation: Situation, driver: InstallDriver) -> str:
    """The release that installing this driver brings, as far as it is known."""
    package = situation.matrix.distributions.driver_package(distribution(situation), driver.branch, driver.flavour)
    branch = situation.matrix.nvidia.branch(driver.branch)
    return (package.version if package else None) or (branch.latest if branch else None) or driver.minimum


def _has_to_change(situation: Situation, gpus: tuple[Gpu, ...]) -> bool:
    """Whether there is no driver, or it refuses one of these GPUs."""
    return no_driver(situation.machine) or any(refusal(situation, gpu) for gpu in gpus)


# --- no one driver supports all ----------------------------------------------------------------------


@answer_once
def driver_options(situation: Situation, gpus: tuple[Gpu, ...] = ()) -> tuple[Option, ...]:
    """The drivers to choose from, each with the GPUs that it supports, the newest GPU's driver first. Empty if one
    driver supports all GPUs that the machine must drive, or if no driver is known for some GPU."""
    driven = gpus_to_drive(situation, gpus)
    if driver_serving(situation, driven) is not None:
        return ()
    newest_first = sorted(driven, key=lambda gpu: capability(gpu.arch.value) or (), reverse=True)
    groups: list[tuple[Gpu, ...]] = []
    for start in newest_first:
        group: tuple[Gpu, ...] = (start,)
        for gpu in newest_first:
            if gpu.key != start.key and driver_serving(situation, (*group, gpu)) is not None:
                group = (*group, gpu)
        if not any(set(group) <= set(other) for other in groups):
            groups.append(group)
    drivers = [(driver_serving(situation, group), group) for group in groups]
    found = tuple((driver, group) for driver, group in drivers if driver is not None)
    return found if len(found) > 1 else ()


def left_without_a_driver(situation: Situation, served: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """The GPUs that some driver supports, and none beside those that are served."""
    return tuple(gpu for gpu in gpus_to_drive(situation) if gpu not in served) if driver_options(situation) else ()


def choice_before_torch(situation: Situation, gpus: tuple[Gpu, ...]) -> Fix | None:
    """The choice that comes before any torch for these GPUs: there is no driver or it refuses one of them, and no one
    driver supports all; or ROCm inside WSL supports none of them. None if there is nothing to choose."""
    if gpus and all(never_in_wsl(situation, gpu) for gpu in gpus):
        return OUTSIDE_WSL
    return choose_gpus(situation, gpus) if _has_to_change(situation, gpus) else None


def choose_gpus(situation: Situation, gpus: tuple[Gpu, ...] = ()) -> Fix | None:
    """What a person can do if no one driver supports all GPUs; None if one does. gpudoctor does not choose: every
    driver puts some GPU out of service."""
    options = driver_options(situation, gpus)
    if not options:
        return None
    driven = gpus_to_drive(situation, gpus)
    kinds = tuple({gpu.name: gpu for gpu in driven}.values())
    needs = "; ".join(f"{gpu.name} needs {driver_needs(situation.matrix, gpu)}" for gpu in kinds)
    choice = _choice(situation, driven, options)
    text = f"No one NVIDIA driver supports all GPUs of this machine: {needs}. {choice}"
    return by_hand("Choose the GPUs to use: no one driver supports all", text, "root")


def _choice(situation: Situation, gpus: tuple[Gpu, ...], options: tuple[Option, ...]) -> str:
    """Keep the present driver for the GPUs that it supports, or choose another one."""
    present = cuda_driver(situation.machine)
    served = tuple(gpu for gpu in gpus if not refusal(situation, gpu))
    elsewhere = "in another machine, or in a virtual machine (bound to vfio-pci) with its own driver"
    if present is None or not served or len(served) == len(gpus):
        fixes = "; or ".join(f"{driver_name(driver)} for {_names(group)}" for driver, group in options)
        return f"Choose: {fixes}. Use the other GPUs {elsewhere}."
    _, flavour, _ = kernel_driver(situation)
    modules = f" ({flavour} kernel modules)" if flavour else ""
    rest = tuple(gpu for gpu in gpus if gpu not in served)
    others = [
        f"{driver_name(driver)} supports {_names(group)}"
        for driver, group in options
        if any(gpu in rest for gpu in group)
    ]
    return (
        f"Driver {present}{modules} supports {_names(served)}: keep it for these. Use {_names(rest)} {elsewhere}. "
        f"Or install the other driver: {'; '.join(others)}."
    )


def driver_name(driver: InstallDriver) -> str:
    """ "NVIDIA driver 580 (open kernel modules)"."""
    return f"NVIDIA driver {driver.branch} ({driver.flavour} kernel modules)"


def driver_needs(matrix: Matrix, gpu: Gpu) -> str:
    """The drivers that a GPU needs: "the open kernel modules, from driver 570.86.16 on"."""
    sm = gpu.arch.value or ""
    rules = {"required": "the open kernel modules", "refused": "the proprietary kernel modules"}
    rule = matrix.nvidia.module_flavour(sm, gpu.name) or ""
    first, last = matrix.nvidia.first_driver(sm, gpu.chip, gpu.pci_id), matrix.nvidia.last_branch(sm)
    span = (f"from driver {first} on" if first else "", f"up to branch {last}" if last else "")
    return ", ".join(part for part in (rules.get(rule, "kernel modules of either flavour"), *span) if part)


def _names(gpus: tuple[Gpu, ...]) -> str:
    return " and ".join(dict.fromkeys(gpu.name for gpu in gpus))


# --- the fix -----------------------------------------------------------------------------------------


def install_driver(situation: Situation, gpus: tuple[Gpu, ...] = (), *, at_least: str | None = None) -> Fix:
    """The fix that installs the machine's NVIDIA driver, `at_least` that if the GPUs have one: on the host if this is
    a container, in Windows if this is WSL. If no one driver supports these GPUs and the others, the choice that a
    person has."""
    asked = gpus or situation.machine.of_vendor("nvidia")
    if situation.in_wsl:
        text = "Update the NVIDIA driver in Windows (not in WSL), then run `wsl --shutdown`."
        return by_hand("Update the NVIDIA driver in Windows", text, "reboot")
    if asked and not any(runs_some_build(situation.matrix, gpu) for gpu in asked):
        return no_build_for(asked)
    if elsewhere := no_build_loads(situation, asked):
        return elsewhere
    remedy = driver_to_install(situation, gpus, at_least=at_least, why=_left_without(situation, gpus))
    if remedy is None:
        text = f"Install a driver that names {_named(asked)} in its list of supported GPUs."
        unknown = by_hand("Install the GPU's driver", text, "root")
        return choose_gpus(situation, gpus) or unknown
    what = driver_name(remedy)
    if any(map(is_vgpu, situation.machine.of_vendor("nvidia"))):
        return guest_driver(remedy.branch)
    if situation.in_container:
        return by_hand(
            f"Install {what} on the host",
            f"Outside this container, with the host's package manager: install {what}. Then reboot the host.",
            "reboot",
        )
    return Fix(f"Install {what}", (remedy, *unblocking(situation), _BOOT))


def _named(gpus: tuple[Gpu, ...]) -> str:
    """The names of GPUs, in a sentence. One of which only the maker is known has none."""
    names = dict.fromkeys(gpu.name for gpu in gpus if not re.match(r"(NVIDIA|AMD) GPU\b", gpu.name))
    return ", ".join(names) or "the GPU (`lspci -nn` tells which it is)"


_BOOT = Reboot(why="the new kernel module is loaded at boot")


def unblocking(situation: Situation) -> tuple[UnblockModule, ...]:
    """What takes away the rules that would keep a new driver from loading; a person's own choice stays."""
    rules = (rule for rule in blocking_rules(situation, "nvidia") if not rule.chosen)
    return tuple(UnblockModule("nvidia", rule.source, why=f"it contains: {rule.rule}") for rule in rules)


def both_parts_of_one_driver(situation: Situation, module: str, libraries: str) -> Fix | None:
    """The fix that installs kernel module and libraries together in the branch of one of them, the libraries' first.
    None if that branch is not to be had, or does not support the GPUs."""
    gpus = gpus_to_drive(situation)
    flavours = flavours_serving(situation.matrix, gpus)
    _, present, _ = kernel_driver(situation)
    preferred = sorted(flavours, key=lambda flavour: flavour != present)
    for branch in dict.fromkeys(version.partition(".")[0] for version in (libraries, module)):
        for flavour in preferred:
            rows = situation.matrix.distributions.driver_packages(distribution(situation))
            row = situation.matrix.distributions.driver_package(distribution(situation), branch, flavour)
            if (rows and row is None) or not _runs_all(situation, branch, gpus):
                continue
            remedy = InstallDriver(branch=branch, minimum=branch, flavour=flavour, why="both in one version")
            title = f"Install kernel module and libraries of {driver_name(remedy)} together"
            return Fix(title, (remedy, *unblocking(situation), _BOOT))
    return None


def _runs_all(situation: Situation, branch: str, gpus: tuple[Gpu, ...]) -> bool:
    """Whether a branch supports all these GPUs, by their first and last branches."""
    matrix, number = situation.matrix, figures(branch)[:1]
    firsts = (matrix.nvidia.first_driver(gpu.arch.value, gpu.chip, gpu.pci_id) for gpu in gpus)
    lasts = (matrix.nvidia.last_branch(gpu.arch.value) for gpu in gpus)
    new_enough = all(first is None or number >= figures(first)[:1] for first in firsts)
    return new_enough and all(last is None or number <= figures(last)[:1] for last in lasts)


def no_build_loads(situation: Situation, gpus: tuple[Gpu, ...]) -> Fix | None:
    """What is left if the C library loads no torch that has code for these GPUs: no driver helps them here. None if
    some build loads, and in a container, where another image keeps the driver."""
    libc, torch = c_library(situation), situation.torch
    own = torch is None or torch.origin in ("pypi", "download.pytorch.org", "nightly", "amd")
    if libc is None or not own or situation.in_container or not gpus:
        return None
    builds = situation.matrix.torch.builds(situation.platform)
    serving = [build for build in builds if any(_has_code(situation, build, gpu) for gpu in gpus)]
    needs = [situation.matrix.torch.glibc_of(build) for build in serving]
    if not needs or not all(too_old_for(libc, needed) for needed in needs):
        return None
    needed = "glibc" if libc == MUSL else f"glibc {min((n for n in needs if n), key=figures)} or newer"
    text = (
        f"No driver helps torch here: every build that has code for {_names(gpus)} needs {needed}, and this system "
        f"has {libc}. Use a {'distribution' if libc == MUSL else 'newer distribution'}, or an image, that has it."
    )
    return by_hand("Use a distribution or an image with a C library that torch loads with", text)


def _has_code(situation: Situation, build: TorchBuild, gpu: Gpu) -> bool:
    arch = gpu.arch.value or ""
    if gpu.vendor == "amd":
        return bool(build.rocm) and situation.matrix.gpus.gfx_answer(arch, build.archs or ()).runs == "yes"
    return bool(build.cuda) and cuda_runs(arch, build.archs or (), build.ptx or ()).runs == "yes"


def no_build_for(gpus: tuple[Gpu, ...]) -> Fix:
    """What is left for GPUs that no torch build supports: no driver helps them."""
    archs = dict.fromkeys(gpu.arch.value or gpu.name for gpu in gpus)
    text = f"Use another GPU, or the CPU: no released torch has code for {' and '.join(archs)}, whatever its driver."
    return by_hand("Use another GPU, or the CPU", text, elsewhere=True)


def _left_without(situation: Situation, gpus: tuple[Gpu, ...]) -> str:
    """The GPUs without any torch build that the driver for these GPUs does not support."""
    chosen = gpus_to_drive(situation, gpus)
    rest = [gpu for gpu in situation.machine.of_vendor("nvidia") if gpu not in chosen and not gpu.reserved]
    left = [gpu for gpu in rest if gpu.arch.value and driver_to_install(situation, (*gpus, gpu)) is None]
    if not left:
        return ""
    return f"it does not support {', '.join(gpu.name for gpu in left)}, for which no torch build exists"
