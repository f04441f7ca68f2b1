"""Driver, module, service and package remedies as commands of the distribution at hand.

On the host of a container, under WSL2 and on Jetson they are told in words: they happen elsewhere. Commands
here need root; they are never run unless gpudoctor was started as root and told to touch the system.
"""

from __future__ import annotations

import re

from gpudoctor.finding import (
    BlockModule,
    InstallDriver,
    InstallRocmDriver,
    InstallSystemPackage,
    JoinGroup,
    LoadModule,
    RebuildModule,
    StartService,
    UnblockModule,
)
from gpudoctor.fix.place import Family, Place, is_name, is_path, is_version
from gpudoctor.fix.steps import ManualStep, RunStep, Step

_INSTALL: dict[Family, tuple[str, ...]] = {
    "ubuntu": ("apt-get", "install", "-y"),
    "debian": ("apt-get", "install", "-y"),
    "fedora": ("dnf", "install", "-y"),
    "rhel": ("dnf", "install", "-y"),
    "suse": ("zypper", "--non-interactive", "install"),
    "arch": ("pacman", "-S", "--needed", "--noconfirm"),
}
_REMOVE: dict[Family, tuple[str, ...]] = {
    "ubuntu": ("apt-get", "remove", "-y"),
    "debian": ("apt-get", "remove", "-y"),
    "fedora": ("dnf", "remove", "-y"),
    "rhel": ("dnf", "remove", "-y"),
    "suse": ("zypper", "--non-interactive", "remove"),
    "arch": ("pacman", "-R", "--noconfirm"),
}

# Names of packages by purpose; a purpose without a name for a family is told in words.
_PACKAGES: dict[str, dict[Family, str]] = {
    "nvidia-container-toolkit": dict.fromkeys(_INSTALL, "nvidia-container-toolkit"),
    # The headers of that very Python: a distribution has several beside its own.
    "python-headers": {
        "ubuntu": "python{version}-dev",
        "debian": "python{version}-dev",
        "fedora": "python{version}-devel",
        "rhel": "python{version}-devel",
        "suse": "python{digits}-devel",
        "arch": "python",
    },
    "linux-firmware": {
        "ubuntu": "linux-firmware",
        "debian": "firmware-amd-graphics",
        "fedora": "amd-gpu-firmware",
        "rhel": "linux-firmware",
        "suse": "kernel-firmware-amdgpu",
        "arch": "linux-firmware-amdgpu",
    },
    "rocm": {"fedora": "rocm", "arch": "rocm-hip-runtime"},
    "libstdc++": {
        "ubuntu": "libstdc++6",
        "debian": "libstdc++6",
        "fedora": "libstdc++",
        "rhel": "libstdc++",
        "suse": "libstdc++6",
        "arch": "gcc-libs",
    },
    "compiler": {"ubuntu": "gcc", "debian": "gcc", "fedora": "gcc", "rhel": "gcc", "suse": "gcc", "arch": "gcc"},
}


def elsewhere(place: Place, text: str, why: str) -> ManualStep | None:
    """The same as words, where this is not the system that it happens on."""
    if place.wsl:
        return ManualStep(text=f"In Windows, not inside WSL: {text}", why=why, risk="root")
    if place.container:
        return ManualStep(text=f"On the host, not in this container: {text}", why=why, risk="root")
    return None


def install_driver(place: Place, remedy: InstallDriver) -> tuple[Step, ...]:
    """The NVIDIA driver of a branch, in the module flavour that the cards take."""
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
    if not _has_packages(place, remedy.branch):
        text = (
            f"{words[0].upper()}{words[1:]}.\nNo package of it is known for this release of the distribution: "
            "look for one in NVIDIA's repository, or use NVIDIA's own installer (the .run file)."
        )
        return (ManualStep(text=text, why=remedy.why, risk="root"), reboot("the new kernel module is loaded"))
    step = _driver_step(place, remedy, words)
    return (step, reboot("the new kernel module is loaded at the next start"))


def _has_packages(place: Place, branch: str) -> bool:
    """Ubuntu before 22.04 stops at branch 550; NVIDIA's modules for dnf are those of release 8 and 9."""
    major = place.release.partition(".")[0]
    if not major.isdigit():
        return True
    if place.family == "ubuntu":
        return int(major) >= 22 or int(branch.partition(".")[0]) <= 550
    return place.family != "rhel" or int(major) in (8, 9)


def _driver_step(place: Place, remedy: InstallDriver, words: str) -> Step:
    flavour = "-open" if remedy.flavour == "open" else ""
    if place.family == "ubuntu":
        package = f"nvidia-driver-{remedy.branch}{flavour}"
        argv = (*_INSTALL["ubuntu"], package)
        return RunStep(argv=argv, why=remedy.why, risk="root", undo=((*_REMOVE["ubuntu"], package),))
    if place.family == "rhel":
        stream = f"nvidia-driver:{remedy.branch}{flavour or '-dkms'}"
        argv = ("dnf", "module", "install", "-y", stream)
        why = f"{remedy.why}; from NVIDIA's CUDA repository, which must be enabled".lstrip("; ")
        return RunStep(argv=argv, why=why, risk="root", undo=(("dnf", "module", "remove", "-y", stream),))
    hints: dict[Family, str] = {
        "debian": f"From NVIDIA's CUDA repository: apt-get install nvidia-driver-pinning-{remedy.branch} "
        + ("nvidia-open" if flavour else "cuda-drivers"),
        "fedora": "From RPM Fusion: dnf install "
        + ("akmod-nvidia" if flavour else f"akmod-nvidia-{remedy.branch}xx")
        + ", and wait until akmods has built the module",
        "suse": "From NVIDIA's repository: zypper install "
        + ("nvidia-open-driver-G06-signed-kmp-default" if flavour else "nvidia-driver-G06-kmp-default")
        + f", of branch {remedy.branch}",
        "arch": "pacman -Syu nvidia-open" if flavour else f"From the AUR: nvidia-{remedy.branch}xx-dkms",
        "other": "",
    }
    hint = hints.get(place.family, "")
    text = f"{words[0].upper()}{words[1:]}." + (f"\n{hint}" if hint else "")
    return ManualStep(text=text, why=remedy.why, risk="root")


def reboot(why: str) -> ManualStep:
    """A plan stops at a reboot: a person does it."""
    return ManualStep(text="Reboot.", why=why, risk="reboot")


def install_rocm_driver(place: Place, remedy: InstallRocmDriver) -> tuple[Step, ...]:
    """AMD's kernel driver, or the kernel's own in its place."""
    words = (
        "remove amdgpu-dkms, so that the kernel's own amdgpu loads"
        if remedy.inbox
        else "install amdgpu-dkms from AMD's repository for this distribution, with the kernel headers"
    )
    if outside := elsewhere(place, words + ", and reboot", remedy.why):
        return (outside,)
    if place.family in ("ubuntu", "debian", "rhel", "suse"):
        add, remove = (*_INSTALL[place.family], "amdgpu-dkms"), (*_REMOVE[place.family], "amdgpu-dkms")
        why = remedy.why if remedy.inbox else f"{remedy.why}; AMD's repository must be enabled".lstrip("; ")
        argv, undo = (remove, add) if remedy.inbox else (add, remove)
        step: Step = RunStep(argv=argv, why=why, risk="root", undo=(undo,))
    else:
        step = ManualStep(text=f"{words[0].upper()}{words[1:]}.", why=remedy.why, risk="root")
    return (step, reboot("the new kernel driver is loaded at the next start"))


def rebuild_module(place: Place, remedy: RebuildModule) -> tuple[Step, ...]:
    """Headers of the running kernel, then DKMS."""
    if not is_name(remedy.module):
        return (ManualStep(text="Build the kernel module again with DKMS.", why=remedy.why, risk="root"),)
    words = f"install the headers of the running kernel and build the DKMS module {remedy.module} again"
    if outside := elsewhere(place, words, remedy.why):
        return (outside,)
    headers = _headers(place)
    if not place.kernel or headers is None:
        return (ManualStep(text=f"{words[0].upper()}{words[1:]}.", why=remedy.why, risk="root"),)
    version = f"/{remedy.version}" if remedy.version and is_version(remedy.version) else ""
    build = ("dkms", "install", f"{remedy.module}{version}", "-k", place.kernel) if version else (
        "dkms", "autoinstall", "-k", place.kernel
    )  # fmt: skip
    return (
        RunStep(argv=(*_INSTALL[place.family], headers), why="DKMS builds against them", risk="root"),
        RunStep(argv=build, why=remedy.why, risk="root"),
        RunStep(argv=("modprobe", remedy.module), why="loads what was built", risk="root"),
    )


def _headers(place: Place) -> str | None:
    names: dict[Family, str] = {
        "ubuntu": f"linux-headers-{place.kernel}",
        "debian": f"linux-headers-{place.kernel}",
        "fedora": f"kernel-devel-{place.kernel}",
        "rhel": f"kernel-devel-{place.kernel}",
        "suse": "kernel-default-devel",
        "arch": "linux-headers",
    }
    return names.get(place.family)


def load_module(place: Place, remedy: LoadModule) -> tuple[Step, ...]:
    """modprobe, after taking the module out where it must be loaded anew."""
    plain = all(re.fullmatch(r"[a-z0-9_]+=[A-Za-z0-9_.-]+", option) for option in remedy.options)
    if not (is_name(remedy.module) and plain):
        return (ManualStep(text="Load the kernel module.", why=remedy.why, risk="root"),)
    command = " ".join(("modprobe", remedy.module, *remedy.options))
    words = f"modprobe -r {remedy.module} && {command}" if remedy.reload else command
    if outside := elsewhere(place, words, remedy.why):
        return (outside,)
    load = RunStep(
        argv=("modprobe", remedy.module, *remedy.options),
        why=remedy.why,
        risk="root",
        undo=() if remedy.reload else (("modprobe", "-r", remedy.module),),
    )
    if not remedy.reload:
        return (load,)
    unload = RunStep(
        argv=("modprobe", "-r", remedy.module),
        why="programs that use the card must be stopped first",
        risk="root",
        undo=(("modprobe", remedy.module),),
    )
    return (unload, load)


def unblock_module(place: Place, remedy: UnblockModule) -> tuple[Step, ...]:
    """The rule that keeps a module out is taken away by the hand that owns the file."""
    if "prime-select" in remedy.source:
        if outside := elsewhere(place, "prime-select nvidia, then reboot", remedy.why):
            return (outside,)
        undo = (("prime-select", "intel"),)
        return (
            RunStep(argv=("prime-select", "nvidia"), why=remedy.why, risk="root", undo=undo),
            reboot("takes effect"),
        )
    source = remedy.source if is_path(remedy.source) else "the file that holds it"
    if "cmdline" in source:
        text = f"Take what blocks {_shown(remedy.module)} out of the kernel command line (boot loader), and reboot."
    else:
        text = (
            f"Take the rule that blocks {_shown(remedy.module)} out of {source}, build the initial ramdisk again "
            f"({_initramfs(place)}), and reboot."
        )
    if outside := elsewhere(place, text, remedy.why):
        return (outside,)
    return (ManualStep(text=text, why=remedy.why, risk="reboot"),)


def block_module(place: Place, remedy: BlockModule) -> tuple[Step, ...]:
    """A rule in modprobe.d that keeps a rival driver from the card."""
    module = _shown(remedy.module)
    modeset = f"options {module} modeset=0\n" if module == "nouveau" else ""
    text = (
        f"Write into /etc/modprobe.d/blacklist-{module}.conf:\nblacklist {module}\n{modeset}"
        f"then build the initial ramdisk again ({_initramfs(place)}), and reboot."
    )
    if outside := elsewhere(place, text, remedy.why):
        return (outside,)
    return (ManualStep(text=text, why=remedy.why, risk="reboot"),)


def _initramfs(place: Place) -> str:
    commands: dict[Family, str] = {
        "ubuntu": "update-initramfs -u",
        "debian": "update-initramfs -u",
        "arch": "mkinitcpio -P",
    }
    return commands.get(place.family, "dracut --force")


def start_service(place: Place, remedy: StartService) -> tuple[Step, ...]:
    """Install what brings the service, in its exact version where one is given, and start it."""
    name, _, version = remedy.package.replace("==", "=").partition("=")
    sound = is_name(remedy.service) and (not name or is_name(name)) and (not version or is_version(version))
    if not sound:
        return (ManualStep(text="Start the service.", why=remedy.why, risk="root"),)
    package = f"{name} {version}".strip()
    words = (f"install {package}, then " if package else "") + f"systemctl enable --now {remedy.service}"
    if outside := elsewhere(place, words, remedy.why):
        return (outside,)
    steps: list[Step] = []
    if name:
        steps.append(_exact_package(place, name, version, remedy.why))
    steps.append(
        RunStep(
            argv=("systemctl", "enable", "--now", remedy.service),
            why=remedy.why,
            risk="root",
            undo=(("systemctl", "disable", "--now", remedy.service),),
        )
    )
    return tuple(steps)


def _exact_package(place: Place, name: str, version: str, why: str) -> Step:
    if place.family == "other":
        return ManualStep(text=f"Install {name} {version}.".replace(" .", "."), why=why, risk="root")
    pinned: dict[Family, str] = {
        "ubuntu": f"{name}={version}-*",
        "debian": f"{name}={version}-*",
        "fedora": f"{name}-{version}",
        "rhel": f"{name}-{version}",
        "suse": f"{name}={version}",
        "arch": name,
    }
    package = pinned[place.family] if version else name
    undo = ((*_REMOVE[place.family], name),)
    return RunStep(argv=(*_INSTALL[place.family], package), why=why, risk="root", undo=undo)


def install_system_package(place: Place, remedy: InstallSystemPackage) -> tuple[Step, ...]:
    """A package of the distribution by its purpose; the toolkit belongs to the host of a container."""
    purpose = remedy.purpose if is_name(remedy.purpose) or remedy.purpose == "libstdc++" else "the package"
    host_only = purpose in ("nvidia-container-toolkit", "linux-firmware")
    if host_only and (outside := elsewhere(place, f"install {purpose}", remedy.why)):
        return (outside,)
    package = _PACKAGES.get(purpose, {}).get(place.family)
    if package is None:
        text = f"Install {purpose}" + (f" {_shown(remedy.version)}" if remedy.version else "") + "."
        return (ManualStep(text=text, why=remedy.why, risk="root"),)
    version = remedy.version if is_version(remedy.version) else ""
    if purpose == "python-headers":
        named = package.format(version=version or "3", digits=version.replace(".", "") or "3")
        return (_exact_package(place, named, "", remedy.why),)
    return (_exact_package(place, package, version, remedy.why),)


def join_group(place: Place, remedy: JoinGroup) -> tuple[Step, ...]:
    """Told in words: the report names no user."""
    if not is_name(remedy.group):
        return (ManualStep(text="Join the group that owns the device node.", why=remedy.why, risk="root"),)
    if place.container:
        text = f"Start the container again with --group-add, giving the number of the host's group {remedy.group}."
        return (ManualStep(text=text, why=remedy.why),)
    text = f'sudo usermod -aG {remedy.group} "$USER"\nthen log out and in again'
    return (ManualStep(text=text, why=remedy.why, risk="root"),)


def _shown(text: str) -> str:
    return text if is_name(text) else "it"
