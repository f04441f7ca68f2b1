"""GPU drivers as packages of the distribution: names by branch, module flavour and release.

The steps need root, and run only if gpudoctor was started as root and allowed to change the system.
"""

from __future__ import annotations

from gpudoctor.finding import InstallDriver, InstallRocmDriver
from gpudoctor.planner.place import Family, Place
from gpudoctor.planner.system_packages import INSTALL, REMOVE, elsewhere
from gpudoctor.planner.system_steps import reboot
from gpudoctor.spelling import is_version
from gpudoctor.step import ManualStep, RunStep, Step

_DEBIANS_OWN = {"11": 470, "12": 535, "13": 550}
"""Branch that a release of Debian itself has (contrib, non-free)."""

_UBUNTU_KERNELS = {"22.04": "5.15", "24.04": "6.8", "26.04": "7.0"}
"""The kernel that a release came with; newer ones of the same flavour are its hardware-enablement kernels."""

_UBUNTU_FLAVOURS = ("generic", "lowlatency", "aws", "azure", "gcp", "oracle", "nvidia", "oem")


def install_driver(place: Place, remedy: InstallDriver) -> tuple[Step, ...]:
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
        return (outside,)
    steps = _by_packages(place, remedy)
    if not steps:
        hint = _hint(place, remedy) or (
            "gpudoctor knows no package of it for this release of the distribution: look for one in NVIDIA's "
            "repository, or use NVIDIA's own installer (the .run file)."
        )
        steps = (ManualStep(text=f"{words[0].upper()}{words[1:]}.\n{hint}", why=remedy.why, risk="root"),)
    return (*steps, reboot("loads the new kernel module"))


def _by_packages(place: Place, remedy: InstallDriver) -> tuple[Step, ...]:
    """Packages whose names are known, from the distribution's repository or one that can be enabled."""
    branch = int(remedy.branch.partition(".")[0]) if remedy.branch.partition(".")[0].isdigit() else 0
    major = place.release.partition(".")[0]
    if place.family == "ubuntu" and (not major.isdigit() or int(major) >= 22 or branch <= 550):
        return (_ubuntu(place, remedy),)
    if place.family == "debian" and 0 < branch <= _DEBIANS_OWN.get(major, 0):
        return (_debian(remedy),)
    if place.family == "rhel" and (major in ("8", "9", "2023") or not major):
        return _rhel_streams(remedy)
    if place.family == "rhel" and major == "10":
        return _rhel_locked(remedy)
    if place.family == "arch" and remedy.flavour == "open":
        return (_arch(place, remedy),)
    return ()


def _ubuntu(place: Place, remedy: InstallDriver) -> Step:
    name = f"{remedy.branch}{_open(remedy)}"
    packages = (f"nvidia-driver-{name}", *_signed_modules(place, name))
    why = remedy.why
    if len(packages) > 1:
        why = f"{why}; Secure Boot is on: these modules are signed, those that DKMS builds are not".lstrip("; ")
    argv = (*INSTALL["ubuntu"], *packages)
    return RunStep(argv=argv, why=why, risk="root", undo=((*REMOVE["ubuntu"], *packages),))


def _signed_modules(place: Place, name: str) -> tuple[str, ...]:
    """The package of modules that Ubuntu built and signed for the flavour of the running kernel."""
    flavour = place.kernel.rpartition("-")[2]
    if not place.secure_boot or flavour not in _UBUNTU_FLAVOURS:
        return ()
    first = _UBUNTU_KERNELS.get(place.release)
    later = flavour == "generic" and first is not None and not place.kernel.startswith(f"{first}.")
    return (f"linux-modules-nvidia-{name}-{flavour}" + (f"-hwe-{place.release}" if later else ""),)


def _debian(remedy: InstallDriver) -> Step:
    packages = ("nvidia-driver", "nvidia-open-kernel-dkms") if remedy.flavour == "open" else ("nvidia-driver",)
    why = f"{remedy.why}; the components contrib, non-free and non-free-firmware must be enabled".lstrip("; ")
    argv = (*INSTALL["debian"], *packages)
    return RunStep(argv=argv, why=why, risk="root", undo=((*REMOVE["debian"], *packages),))


def _rhel_streams(remedy: InstallDriver) -> tuple[Step, ...]:
    """NVIDIA's module streams: another enabled stream is reset first."""
    stream = f"nvidia-driver:{remedy.branch}{_open(remedy) or '-dkms'}"
    package = "nvidia-open" if remedy.flavour == "open" else "cuda-drivers"
    reset = ("dnf", "module", "reset", "-y", "nvidia-driver")
    return (
        RunStep(argv=reset, why="another stream may be enabled; NVIDIA's CUDA repository must be there", risk="root"),
        RunStep(
            argv=("dnf", "module", "enable", "-y", stream), why="keeps to the branch", risk="root", undo=(reset,)
        ),
        RunStep(
            argv=("dnf", "install", "-y", "--allowerasing", package),
            why=remedy.why,
            risk="root",
            undo=((*REMOVE["rhel"], package),),
        ),
    )


def _rhel_locked(remedy: InstallDriver) -> tuple[Step, ...]:
    """Release 10 has no module streams: locking the versions keeps the branch."""
    package = "nvidia-open" if remedy.flavour == "open" else "cuda-drivers"
    pattern = f"*nvidia*{remedy.branch}*"
    return (
        RunStep(
            argv=("dnf", "install", "-y", "python3-dnf-plugin-versionlock"),
            why="locks versions; NVIDIA's CUDA repository must be enabled",
            risk="root",
        ),
        RunStep(
            argv=("dnf", "versionlock", "add", pattern),
            why="keeps to the branch",
            risk="root",
            undo=(("dnf", "versionlock", "delete", pattern),),
        ),
        RunStep(
            argv=("dnf", "install", "-y", "--allowerasing", package),
            why=remedy.why,
            risk="root",
            undo=((*REMOVE["rhel"], package),),
        ),
    )


def _arch(place: Place, remedy: InstallDriver) -> Step:
    """Arch has only the newest branch, and prebuilt modules for its two usual kernels."""
    kernel = place.kernel
    package = "nvidia-open-lts" if kernel.endswith("-lts") else "nvidia-open" if "-arch" in kernel else ""
    why = f"{remedy.why}; with the whole system, because the modules are built for the newest kernel".lstrip("; ")
    argv = ("pacman", "-Syu", "--needed", "--noconfirm", package or "nvidia-open-dkms")
    return RunStep(argv=argv, why=why, risk="root", undo=((*REMOVE["arch"], argv[-1]),))


def _hint(place: Place, remedy: InstallDriver) -> str:
    """The commands for repositories that a person must add first."""
    opened = remedy.flavour == "open"
    branch = remedy.branch.partition(".")[0]
    if place.family == "debian":
        package = "nvidia-open" if opened else "cuda-drivers"
        return f"From NVIDIA's CUDA repository: apt-get install nvidia-driver-pinning-{branch} {package}"
    if place.family == "fedora":
        legacy = "" if opened else f"-{branch}xx"
        packages = f"akmod-nvidia{legacy} xorg-x11-drv-nvidia{legacy}-cuda"
        return f"From RPM Fusion: dnf install {packages}, and wait until akmods has built the module"
    if place.family == "suse":
        series = "G07" if branch.isdigit() and int(branch) >= 595 else "G06"
        module = f"nvidia-open-driver-{series}-signed-kmp-meta" if opened else f"nvidia-driver-{series}-kmp-meta"
        return f"From NVIDIA's repository: zypper install {module} nvidia-userspace-meta-{series}"
    if place.family == "arch":
        return f"From the AUR: nvidia-{branch}xx-dkms nvidia-{branch}xx-utils"
    return ""


def _open(remedy: InstallDriver) -> str:
    return "-open" if remedy.flavour == "open" else ""


_AMDS_PACKAGES: dict[Family, str] = {
    "ubuntu": "apt-get update && apt-get install linux-headers-$(uname -r) amdgpu-dkms",
    "debian": "apt-get update && apt-get install linux-headers-$(uname -r) amdgpu-dkms",
    "rhel": "dnf install kernel-headers-$(uname -r) kernel-devel-$(uname -r) amdgpu-dkms",
    "suse": "zypper refresh && zypper install kernel-default-devel amdgpu-dkms",
}
"""No distribution has amdgpu-dkms: these work once AMD's own repository is set up, which names its release."""


def install_rocm_driver(place: Place, remedy: InstallRocmDriver) -> tuple[Step, ...]:
    """AMD's kernel driver, or the kernel's own in its place."""
    words = (
        "remove amdgpu-dkms, so that the kernel's own amdgpu loads"
        if remedy.inbox
        else "install amdgpu-dkms from AMD's repository for this distribution, with the kernel headers"
    )
    if outside := elsewhere(place, words + ", and reboot", remedy.why):
        return (outside,)
    told: Step = ManualStep(text=f"{words[0].upper()}{words[1:]}.", why=remedy.why, risk="root")
    command = _AMDS_PACKAGES.get(place.family)
    if command and remedy.inbox:
        add, remove = (*INSTALL[place.family], "amdgpu-dkms"), (*REMOVE[place.family], "amdgpu-dkms")
        told = RunStep(argv=remove, why=remedy.why, risk="root", undo=(add,))
    elif command:
        text = (
            "No distribution has amdgpu-dkms: first set up AMD's repository for this release (amdgpu-install, from "
            f"repo.radeon.com/amdgpu-install). Then, as root:\n{command}"
        )
        told = ManualStep(text=text, why=remedy.why, risk="root")
    return (told, reboot("loads the new kernel driver"))
