"""Packages of the distribution by their purpose, with its own names and commands."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gpudoctor.finding import InstallKernel, InstallSystemPackage
from gpudoctor.matrix.driver_packages import kernel_package
from gpudoctor.matrix.versions import figures
from gpudoctor.plain_text import capital
from gpudoctor.planner.place import Family, Place, by_manager
from gpudoctor.safe_arguments import is_name, is_version
from gpudoctor.step import ManualStep, Step, as_root

if TYPE_CHECKING:
    from gpudoctor.matrix.questions import Matrix

INSTALL: dict[Family, tuple[str, ...]] = by_manager(
    apt=("apt-get", "install", "-y"),
    dnf=("dnf", "install", "-y"),
    zypper=("zypper", "--non-interactive", "install"),
    pacman=("pacman", "-S", "--needed", "--noconfirm"),
)
REMOVE: dict[Family, tuple[str, ...]] = by_manager(
    apt=("apt-get", "remove", "-y"),
    dnf=("dnf", "remove", "-y"),
    zypper=("zypper", "--non-interactive", "remove"),
    pacman=("pacman", "-R", "--noconfirm"),
)

# Names by purpose; for a family without a name the step is text for a person.
_NAMES: dict[str, dict[Family, str]] = {
    "nvidia-container-toolkit": dict.fromkeys(INSTALL, "nvidia-container-toolkit"),
    # The headers of that very Python: a distribution has several beside its own.
    "python-headers": by_manager(
        apt="python{version}-dev", dnf="python{version}-devel", zypper="python{digits}-devel", pacman="python"
    ),
    "linux-firmware": {
        "ubuntu": "linux-firmware",
        "debian": "firmware-amd-graphics",
        "fedora": "amd-gpu-firmware",
        "rhel": "linux-firmware",
        "suse": "kernel-firmware-amdgpu",
        "arch": "linux-firmware-amdgpu",
    },
    "rocm": {"fedora": "rocm", "arch": "rocm-hip-runtime"},
    "libstdc++": by_manager(apt="libstdc++6", dnf="libstdc++", zypper="libstdc++6", pacman="gcc-libs"),
    "compiler": dict.fromkeys(INSTALL, "gcc"),
}

_HEADERS = (
    "Install the headers of Python {version}: python{version}-dev on Debian and Ubuntu, python{version}-devel on "
    "Fedora and RHEL (python3-devel for the distribution's own Python), python{digits}-devel on openSUSE. Arch and "
    "conda have them in the package python."
)
"""Where the distribution is not known."""

LAYERING = {"rpm-ostree": "rpm-ostree install", "transactional-update": "transactional-update pkg install"}
"""What adds a package to a root that is replaced as a whole: it is there after a reboot."""

_OF_ANOTHER_REPOSITORY: dict[str, tuple[Family, ...]] = {
    "nvidia-container-toolkit": ("ubuntu", "debian", "fedora", "rhel", "suse")
}


def is_fixed(place: Place) -> bool:
    """Whether no package manager changes this system: its root is an image, or its tool is not known."""
    return bool(place.os.image) or place.family not in INSTALL


def install(place: Place, packages: Iterable[str], why: str, *, undo: Iterable[str] = ()) -> Step:
    """Packages of the distribution; `undo` names what is removed again, if not the same."""
    packages = tuple(packages)
    names = " ".join(packages)
    if is_fixed(place):
        layering = LAYERING.get(place.os.image)
        text = f"{layering} {names}, then reboot." if layering else f"Install {names}."
        return ManualStep(text=text, why=why, risk="root")
    removed = (*REMOVE[place.family], *(tuple(undo) or packages))
    return as_root((*INSTALL[place.family], *packages), why, removed)


def elsewhere(place: Place, text: str, why: str) -> tuple[Step, ...]:
    """The same for a person, if it has to be done on another system; else nothing."""
    where = "In Windows, not inside WSL" if place.wsl else "On the host, not in this container"
    return (ManualStep(text=f"{where}: {text}", why=why, risk="root"),) if place.wsl or place.container else ()


def install_system_package(place: Place, remedy: InstallSystemPackage, matrix: Matrix) -> tuple[Step, ...]:
    """A package of the distribution by its purpose; the toolkit belongs to the host of a container."""
    purpose = remedy.purpose if is_name(remedy.purpose) or remedy.purpose == "libstdc++" else "the package"
    after = _after(purpose)
    host_only = purpose in ("nvidia-container-toolkit", "linux-firmware")
    if host_only and not _own_toolkit(place, purpose):
        then = "".join(f"\n{line}" for step in after for line in step.text.splitlines())
        if outside := elsewhere(place, f"install {purpose}{then}", remedy.why):
            return outside
    package = _NAMES.get(purpose, {}).get(place.family)
    version = remedy.version if is_version(remedy.version) else ""
    digits = version.replace(".", "") or "3"
    if package is None:
        text = f"Install {purpose}" + (f" {version}" if version else "") + "."
        if purpose == "python-headers":
            text = _HEADERS.format(version=version or "3", digits=digits)
        return (ManualStep(text=text, why=remedy.why, risk="root"), *after)
    if purpose == "python-headers":
        package = package.format(version=version or "3", digits=digits)
        version = ""
    if purpose == "linux-firmware":
        return (_firmware(place, package, remedy, matrix),)
    why = remedy.why
    if place.family in _OF_ANOTHER_REPOSITORY.get(purpose, ()):
        why = f"{why}; from NVIDIA's repository for it, which must be enabled".lstrip("; ")
    return (exact_package(place, package, version, why), *after)


def _firmware(place: Place, package: str, remedy: InstallSystemPackage, matrix: Matrix) -> Step:
    """The newest firmware of the distribution; `version` is the first release that helps. Some distributions keep
    the package at a date for as long as they live."""
    row, first = matrix.distributions.firmware_package(place.os), remedy.version
    if row is not None and (not first or figures(row.version) < figures(first)):
        newer = row.newer or "the linux-firmware repository of the kernel's developers"
        needed = f"{first} or newer is needed" if first else "later GPUs need a newer one"
        text = f"{package} of this release is of {row.version}, and {needed}: take it from {newer}."
        return ManualStep(text=text, why=remedy.why, risk="root")
    after = (
        f"it must be of {first} or newer afterwards"
        if first
        else "if the kernel log still names a missing file afterwards, this release of the distribution is too old"
    )
    return install(place, (package,), f"{remedy.why}; {after}".lstrip("; "))


def install_kernel(place: Place, remedy: InstallKernel, matrix: Matrix) -> tuple[Step, ...]:
    """A kernel that the distribution ships. It runs after a reboot; the present one stays in the boot menu."""
    row = next((row for row in matrix.distributions.kernels(place.os) if row.kernel == remedy.version), None)
    package = kernel_package(row, place.kernel) if row else ""
    words = f"install Linux {remedy.version}" + (f" ({package})" if package else "")
    if outside := elsewhere(place, f"{words}, and boot it", remedy.why):
        return outside
    newest = f"Linux {remedy.version}" + (" or newer" if row and row.rolling else "")
    why = "; ".join(filter(None, (remedy.why.rstrip("."), newest, "the present kernel stays in the boot menu")))
    if row is None or is_fixed(place):
        update = _UPDATED.get(place.os.image)
        text = f"{update}, then boot the new kernel." if update else f"{capital(words)}."
        return (ManualStep(text=text, why=why, risk="root"),)
    if place.arch != "x86_64":
        package = package.replace("amd64", _DEBIAN_ARCHES.get(place.arch, place.arch))
    if row.repository:
        why = f"{why}; {row.repository} must be enabled"
        argv: tuple[str, ...] = (*INSTALL[place.family], "-t", row.repository, package)
    elif place.family == "arch":
        argv = ("pacman", "-Syu", "--needed", "--noconfirm", package)
    elif place.family == "suse":
        argv = ("zypper", "--non-interactive", "dup")
    elif package == "kernel":
        argv = ("dnf", "upgrade", "-y", package)
    else:
        argv = (*INSTALL[place.family], package)
    return (as_root(argv, why),)


_DEBIAN_ARCHES = {"aarch64": "arm64"}

_UPDATED = {"rpm-ostree": "rpm-ostree upgrade", "transactional-update": "transactional-update dup"}
"""What brings the newest kernel to a root that is replaced as a whole."""


def _own_toolkit(place: Place, purpose: str) -> bool:
    """Inside WSL the container toolkit belongs to the distribution there, unlike the driver."""
    return place.wsl and not place.container and purpose == "nvidia-container-toolkit"


def _after(purpose: str) -> tuple[ManualStep, ...]:
    """What tells the container engines about the toolkit. Only a person knows which of them is in use."""
    if purpose != "nvidia-container-toolkit":
        return ()
    text = (
        "For docker: sudo nvidia-ctk runtime configure --runtime=docker, then sudo systemctl restart docker\n"
        "For podman: sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
    )
    why = "the container engine must know it; a restart ends running containers"
    return (ManualStep(text=text, why=why, risk="root"),)


def exact_package(place: Place, name: str, version: str, why: str) -> Step:
    """A package, in its vendor's version if one is given (the distribution's own part of it is open)."""
    if place.family == "other":
        return ManualStep(text=f"Install {name} {version}.".replace(" .", "."), why=why, risk="root")
    pinned = by_manager(apt=f"{name}={version}-*", dnf=f"{name}-{version}", zypper=f"{name}={version}", pacman=name)
    return install(place, (pinned[place.family] if version else name,), why, undo=(name,))
