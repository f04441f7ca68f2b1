"""GPU drivers as packages of the distribution: the rows of the matrix say which branches it ships, and how.

The steps need root, and run only if gpudoctor was started as root and allowed to change the system.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from gpudoctor.finding import InstallDriver, InstallRocmDriver
from gpudoctor.machine import Os
from gpudoctor.matrix.driver_packages import keeps_newer
from gpudoctor.matrix.versions import figures
from gpudoctor.plain_text import capital
from gpudoctor.planner.place import Family, Place
from gpudoctor.planner.system_packages import INSTALL, LAYERING, REMOVE, elsewhere, install, is_fixed
from gpudoctor.planner.system_steps import reboot
from gpudoctor.safe_arguments import is_version
from gpudoctor.step import ManualStep, RunStep, Step, as_root

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpudoctor.matrix.questions import Matrix
    from gpudoctor.matrix.rows import DriverPackage

_UBUNTU_FLAVOURS = ("generic", "lowlatency", "aws", "azure", "gcp", "oracle", "nvidia", "oem")


def install_driver(place: Place, remedy: InstallDriver, matrix: Matrix) -> tuple[Step, ...]:
    """The NVIDIA driver of a branch, in the module flavour that the GPUs need."""
    if not (is_version(remedy.branch) and (not remedy.minimum or is_version(remedy.minimum))):
        return (ManualStep(text="Install a newer NVIDIA driver.", why=remedy.why, risk="root"),)
    exact = bool(remedy.minimum) and remedy.minimum != remedy.branch
    at_least = f", {remedy.minimum} or newer" if exact else ""
    words = f"install the NVIDIA driver of branch {remedy.branch}{at_least}, with its {remedy.flavour} kernel modules"
    if place.jetson:
        text = "Update JetPack: on a Jetson the driver comes with L4T."
        return (ManualStep(text=text, why=remedy.why, risk="root"),)
    if place.wsl:
        text = f"In Windows, not inside WSL: install the NVIDIA driver {remedy.branch} or newer, then wsl --shutdown."
        return (ManualStep(text=text, why=remedy.why, risk="reboot"),)
    if outside := elsewhere(place, words + ", and reboot it", remedy.why):
        return outside
    row = matrix.distributions.driver_package(place.os, remedy.branch, remedy.flavour)
    if row is None or row.by_hand or is_fixed(place) or (keeps_newer(row, place.driver) and not place.run_file):
        text = f"{capital(words)}.\n{_instructions(place, remedy, matrix, row)}"
        steps: tuple[Step, ...] = (ManualStep(text=text, why=remedy.why, risk="root"),)
    else:
        steps = (*_without_run_file(place), *_by_packages(place, remedy, row, matrix))
    return (*steps, reboot("loads the new kernel module"))


# --- commands --------------------------------------------------------------------------------------


def _without_run_file(place: Place) -> tuple[Step, ...]:
    """The installer's own files go first: they lie where the packages put theirs, in another version."""
    if not place.run_file:
        return ()
    why = "NVIDIA's own installer (a .run file) put the present driver here; packages do not replace its files"
    return (as_root((place.run_file, "--silent"), why),)


def _by_packages(place: Place, remedy: InstallDriver, row: DriverPackage, matrix: Matrix) -> tuple[Step, ...]:
    """Packages from the distribution's repository, or from one that can hold several branches."""
    *before, last = _commands(place, remedy, row, matrix)
    if place.driver and not place.run_file and isinstance(last, RunStep):
        # Taking the new packages away would leave no driver: which packages brought the present one is not known.
        last = replace(last, undo=(), why=_because(last.why, f"to undo it, install driver {place.driver} again"))
    return (*before, last)


def _commands(place: Place, remedy: InstallDriver, row: DriverPackage, matrix: Matrix) -> tuple[Step, ...]:
    if place.family == "ubuntu":
        return (_ubuntu(place, remedy, row, matrix),)
    if place.family == "arch":
        return (_arch(place, remedy),)
    if row.stream:
        return (*_stream(row), *_older_versions(place, remedy), _allowing_erasure(remedy, row))
    if row.locked:
        return (*_lock_versions(row), *_older_versions(place, remedy), _allowing_erasure(remedy, row))
    components = "the components contrib, non-free and non-free-firmware must be enabled"
    return (install(place, row.packages, _because(remedy.why, components)),)


def _because(why: str, also: str) -> str:
    return f"{why}; {also}".lstrip("; ")


def _goes_back(place: Place, remedy: InstallDriver) -> bool:
    """Whether the present driver is of a newer branch: package managers go forward unless they are told."""
    return figures(place.driver)[:1] > figures(remedy.branch)[:1]


def _older_versions(place: Place, remedy: InstallDriver) -> tuple[Step, ...]:
    """`dnf install` leaves a newer version as it is; distro-sync takes it down to what is now on offer."""
    if not _goes_back(place, remedy):
        return ()
    argv = ("dnf", "distro-sync", "-y", "--allowerasing", "*nvidia*")
    return (as_root(argv, f"the present driver, {place.driver}, is newer: dnf would keep it"),)


def _ubuntu(place: Place, remedy: InstallDriver, row: DriverPackage, matrix: Matrix) -> Step:
    for_servers = bool(row.server) and "-server" in place.prebuilt_nvidia
    packages = row.server if for_servers else row.packages
    signed = _signed_modules(place, packages[0], matrix)
    why = remedy.why
    if signed:
        signs = "the modules for this kernel come from Ubuntu, built and signed; those that DKMS builds are not"
        why = _because(why, signs)
    if _goes_back(place, remedy):
        first = f"install {row.pin} first" if row.pin else "remove its packages first"
        why = _because(why, f"if the present driver is from NVIDIA's repository, {first}")
    return install(place, (*packages, *signed), why)


def _signed_modules(place: Place, package: str, matrix: Matrix) -> tuple[str, ...]:
    """The package of modules that Ubuntu built and signed for the flavour of the running kernel."""
    name, flavour = package.removeprefix("nvidia-driver-"), place.kernel.rpartition("-")[2]
    built = place.secure_boot or place.prebuilt_nvidia
    if not built or flavour not in _UBUNTU_FLAVOURS or name == package:
        return ()
    release = matrix.images.releases(place.os)[-1].removeprefix("ubuntu-")
    came_with = [row.kernel for row in matrix.distributions.kernels(place.os) if row.package == "linux-generic"]
    enablement = flavour == "generic" and came_with and not place.kernel.startswith(f"{came_with[0]}.")
    return (f"linux-modules-nvidia-{name}-{flavour}" + (f"-hwe-{release}" if enablement else ""),)


def _stream(row: DriverPackage) -> tuple[Step, ...]:
    """A dnf module stream holds one branch: another enabled stream is reset first."""
    reset = ("dnf", "module", "reset", "-y", "nvidia-driver")
    enable = ("dnf", "module", "enable", "-y", f"nvidia-driver:{row.stream}")
    return (
        as_root(reset, f"another stream may be enabled; {row.repository} must be there"),
        as_root(enable, "keeps to the branch", reset),
    )


def _lock_versions(row: DriverPackage) -> tuple[Step, ...]:
    """A repository without streams holds several branches: locking the versions keeps to one."""
    lock, pattern = ("dnf", "versionlock"), f"*nvidia*{row.branch}*"
    plugin = ("dnf", "install", "-y", "python3-dnf-plugin-versionlock")
    return (
        as_root(plugin, f"locks versions; {row.repository} must be enabled"),
        as_root((*lock, "add", pattern), "keeps to the branch", (*lock, "delete", pattern)),
    )


def _allowing_erasure(remedy: InstallDriver, row: DriverPackage) -> Step:
    argv = ("dnf", "install", "-y", "--allowerasing", *row.packages)
    return as_root(argv, remedy.why, (*REMOVE["rhel"], *row.packages))


def _arch(place: Place, remedy: InstallDriver) -> Step:
    """Arch has prebuilt modules for its two usual kernels."""
    kernel = place.kernel
    package = "nvidia-open-lts" if kernel.endswith("-lts") else "nvidia-open" if "-arch" in kernel else ""
    why = _because(remedy.why, "with the whole system, because the modules are built for the newest kernel")
    argv = ("pacman", "-Syu", "--needed", "--noconfirm", package or "nvidia-open-dkms")
    return as_root(argv, why, (*REMOVE["arch"], argv[-1]))


# --- instructions ------------------------------------------------------------------------------------


def _instructions(place: Place, remedy: InstallDriver, matrix: Matrix, row: DriverPackage | None) -> str:
    """What a person does where no command of the plan installs this driver."""
    lines = []
    if place.run_file and not is_fixed(place):
        lines.append(f"First remove the driver that NVIDIA's own installer put here: {place.run_file}")
    branch = remedy.branch.partition(".")[0]
    if told := matrix.distributions.driver_instruction(place.os, remedy.flavour, branch):
        lines.append(f"{told}.")
    elif row is not None:
        lines.append(_from_repository(place, remedy, row))
    else:
        lines.append(_unknown_package(place, remedy, matrix))
    return "\n".join(lines)


def _from_repository(place: Place, remedy: InstallDriver, row: DriverPackage) -> str:
    installer, back = LAYERING.get(place.os.image) or _TYPED.get(place.family, ""), _goes_back(place, remedy)
    if back and installer == "dnf install":
        installer += " --allowerasing"  # the two drivers conflict
    command = f"{installer} {' '.join(row.packages)}".strip()
    if row.pin:
        command = f"{installer} {row.pin}\nand then, so that this one is already in effect:\n{command}"
    told = f"From {row.repository}:\n{command}" if row.repository else command
    then = [f"{row.then}."] if row.then and not is_fixed(place) else []
    if back and row.pin:
        then.append("apt-get full-upgrade\ntakes the other packages of the present driver down to that branch, too.")
    elif back and place.family in ("debian", "suse"):
        told = f"First remove the packages of the present driver, {place.driver}: they would stay.\n{told}"
    return "\n".join((told, *then))


_TYPED: dict[Family, str] = {
    "ubuntu": "apt-get install",
    "debian": "apt-get install",
    "fedora": "dnf install",
    "rhel": "dnf install",
    "suse": "zypper install",
}
"""The command as a person types it, who answers its questions."""


_USUAL_SYSTEMS = ("Ubuntu", "Debian 13", "Fedora", "RHEL", "Arch")
"""Where most people install a driver; packages differ little in what is made of them."""


def _unknown_package(place: Place, remedy: InstallDriver, matrix: Matrix) -> str:
    if not place.os.id and (usual := list(_usual_packages(remedy, matrix))):
        return "\n".join(("As your distribution calls it, as root:", *usual))
    known = "gpudoctor knows no package of it for this release. " if place.os.id else ""
    text = f"{known}Look for one in the distribution's documents"
    if is_fixed(place) and place.os.id:
        return f"{text}."
    signed = "" if not place.secure_boot else ", which Secure Boot lets load only if you enrol a key for its modules"
    return f"{text} or in NVIDIA's repository; else use NVIDIA's own installer (the .run file){signed}."


def _usual_packages(remedy: InstallDriver, matrix: Matrix) -> Iterator[str]:
    """The driver's packages in the distributions that most people have, where it is unknown which it is."""
    for name in _USUAL_SYSTEMS:
        os = Os(id=name.split()[0].lower(), version=name.partition(" ")[2])
        if row := matrix.distributions.driver_package(os, remedy.branch, remedy.flavour):
            home = f" (from {row.repository})" if row.repository else ""
            yield f"{name.split()[0]}: {' '.join(row.packages)}{home}"


# --- AMD -----------------------------------------------------------------------------------------------

_AMDS_PACKAGES: dict[Family, str] = {
    "ubuntu": "apt-get update && apt-get install linux-headers-$(uname -r) amdgpu-dkms",
    "debian": "apt-get update && apt-get install linux-headers-$(uname -r) amdgpu-dkms",
    "rhel": "dnf install kernel-headers-$(uname -r) kernel-devel-$(uname -r) amdgpu-dkms",
    "suse": "zypper refresh && zypper install kernel-default-devel amdgpu-dkms",
}
"""No distribution has amdgpu-dkms: these work once AMD's own repository is set up, which names its release."""


def install_rocm_driver(place: Place, remedy: InstallRocmDriver, matrix: Matrix) -> tuple[Step, ...]:
    """AMD's kernel driver, or the kernel's own in its place."""
    words = (
        "remove amdgpu-dkms, so that the kernel's own amdgpu loads"
        if remedy.inbox
        else "install amdgpu-dkms from AMD's repository for this distribution, with the kernel headers"
    )
    if outside := elsewhere(place, words + ", and reboot", remedy.why):
        return outside
    command = _AMDS_PACKAGES.get(place.family)
    if remedy.inbox:
        step: Step = ManualStep(text=f"{capital(words)}.", why=remedy.why, risk="root")
        if command and not is_fixed(place):
            add, remove = (*INSTALL[place.family], "amdgpu-dkms"), (*REMOVE[place.family], "amdgpu-dkms")
            step = as_root(remove, remedy.why, add)
        return (step, reboot("loads the new kernel driver"))
    if place.os.id and not matrix.distributions.supports_amdgpu_dkms(place.os, remedy.kernel or place.kernel):
        return (_own_kernel_driver(place, remedy, matrix), reboot("starts the new kernel"))
    text = f"{capital(words)}."
    if command:
        text = (
            "No distribution has amdgpu-dkms: first set up AMD's repository for this release (amdgpu-install, from "
            f"repo.radeon.com/amdgpu-install). Then, as root:\n{command}"
        )
    if remedy.kernel:
        text = f"Boot Linux {remedy.kernel}. {text}"
    return (ManualStep(text=text, why=remedy.why, risk="root"), reboot("loads the new kernel driver"))


def _own_kernel_driver(place: Place, remedy: InstallRocmDriver, matrix: Matrix) -> Step:
    """AMD supports its package on some releases and kernels only; elsewhere it may not even build."""
    kernels = [
        row.kernel.removeprefix("==").removesuffix(".*") for row in matrix.distributions.amdgpu_dkms_systems(place.os)
    ]
    limits = f"only this distribution's kernels {' and '.join(kernels)}" if kernels else "other distributions"
    text = (
        f"AMD's driver package (amdgpu-dkms) supports {limits}: use the kernel's own amdgpu. Install the newest "
        "kernel and the newest firmware package of the distribution."
    )
    return ManualStep(text=text, why=remedy.why, risk="root")
