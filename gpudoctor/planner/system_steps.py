"""Module, service and group remedies as commands of the distribution.

On the host of a container, under WSL2 and on Jetson they are text for a person, because they happen elsewhere. The
commands need root, and run only if gpudoctor was started as root and allowed to change the system.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpudoctor.finding import BlockModule, JoinGroup, LoadModule, RebuildModule, StartService, UnblockModule
from gpudoctor.plain_text import capital
from gpudoctor.planner.place import Family, Place, by_manager, is_path
from gpudoctor.planner.system_packages import INSTALL, elsewhere, exact_package, is_fixed
from gpudoctor.safe_arguments import is_name, is_version
from gpudoctor.step import ManualStep, Step, as_root

if TYPE_CHECKING:
    from gpudoctor.matrix.questions import Matrix


def reboot(why: str) -> ManualStep:
    """A plan stops at a reboot: a person does it."""
    return ManualStep(text="Reboot.", why=why, risk="reboot")


def rebuild_module(place: Place, remedy: RebuildModule, matrix: Matrix) -> tuple[Step, ...]:
    """Headers of the running kernel, then DKMS."""
    if not is_name(remedy.module):
        return (ManualStep(text="Build the kernel module again with DKMS.", why=remedy.why, risk="root"),)
    if place.prebuilt_nvidia and remedy.module == "nvidia" and place.family == "ubuntu" and place.kernel:
        return _prebuilt_modules(place, remedy)
    words = f"install the headers of the running kernel and build the DKMS module {remedy.module} again"
    if outside := elsewhere(place, words, remedy.why):
        return outside
    headers = _headers(place, matrix)
    if not place.kernel or headers is None or is_fixed(place):
        return (ManualStep(text=f"{capital(words)}.", why=remedy.why, risk="root"),)
    version = f"/{remedy.version}" if remedy.version and is_version(remedy.version) else ""
    tree = remedy.tree if is_name(remedy.tree) else remedy.module
    build = ("install", f"{tree}{version}") if version else ("autoinstall",)
    return (
        as_root((*INSTALL[place.family], headers), "DKMS builds against them"),
        as_root(("dkms", *build, "-k", place.kernel), remedy.why),
        as_root(("modprobe", remedy.module), "loads what was built"),
    )


def _prebuilt_modules(place: Place, remedy: RebuildModule) -> tuple[Step, ...]:
    """Ubuntu's own signed modules for this very kernel: nothing is built here."""
    package = f"linux-modules-nvidia-{place.prebuilt_nvidia}-{place.kernel}"
    if outside := elsewhere(place, f"install {package}", remedy.why):
        return outside
    why = "the driver's modules come from Ubuntu, in a separate package for each kernel"
    return (exact_package(place, package, "", why), as_root(("modprobe", "nvidia"), "loads what was installed"))


def _headers(place: Place, matrix: Matrix) -> str | None:
    """The headers of the running kernel, whose release tells its flavour ("-pve", "el9uek", "-lts")."""
    kernel = place.kernel
    names: dict[Family, str] = {
        "ubuntu": f"linux-headers-{kernel}",
        "debian": f"{'proxmox' if kernel.endswith('-pve') else 'linux'}-headers-{kernel}",
        "fedora": f"kernel-devel-{kernel}",
        "rhel": f"{_rhel_package(place, matrix)}-devel-{kernel}",
        "suse": f"kernel-{kernel.rpartition('-')[2]}-devel",
        "arch": f"linux{_arch_flavour(kernel)}-headers",
    }
    return names.get(place.family)


def _rhel_package(place: Place, matrix: Matrix) -> str:
    """The package of the running kernel: "kernel6.12" of Amazon Linux, "kernel-uek" of Oracle's, else "kernel"."""
    series = ".".join(place.kernel.split(".")[:2])
    rows = (row for row in matrix.distributions.kernels(place.os) if row.kernel == series)
    own = next((row.package for row in rows if row.package.endswith(series)), "kernel")
    return "kernel-uek" if "uek" in place.kernel else own


def _arch_flavour(kernel: str) -> str:
    """ "-lts" of 6.12.65-1-lts; Manjaro has a package for each series: "612" of 6.12.48-1-MANJARO."""
    flavour = re.search(r"-\d+(-[A-Za-z][\w-]*)$", kernel)
    if flavour is None:
        return ""
    return "".join(kernel.split(".")[:2]) if flavour[1] == "-MANJARO" else flavour[1]


def load_module(place: Place, remedy: LoadModule) -> tuple[Step, ...]:
    """modprobe, after removing the module if it must be loaded again."""
    sound = all(re.fullmatch(r"[a-z0-9_]+=[A-Za-z0-9_.-]+", option) for option in remedy.options)
    if not (is_name(remedy.module) and sound):
        return (ManualStep(text="Load the kernel module.", why=remedy.why, risk="root"),)
    command = " ".join(("modprobe", remedy.module, *remedy.options))
    words = f"modprobe -r {remedy.module} && {command}" if remedy.reload else command
    if outside := elsewhere(place, words, remedy.why):
        return outside
    plain, remove = ("modprobe", remedy.module), ("modprobe", "-r", remedy.module)
    load = (*plain, *remedy.options)
    if not remedy.reload:
        return (as_root(load, remedy.why, remove),)
    return (as_root(remove, "programs that use the GPU must be stopped first", plain), as_root(load, remedy.why))


def unblock_module(place: Place, remedy: UnblockModule) -> tuple[Step, ...]:
    """Remove the rule that blocks a module, by the tool that owns the file."""
    if "prime-select" in remedy.source:
        if outside := elsewhere(place, "prime-select nvidia, then reboot", remedy.why):
            return outside
        choose = as_root(("prime-select", "nvidia"), remedy.why, ("prime-select", "intel"))
        return (choose, reboot("takes effect"))
    source = remedy.source if is_path(remedy.source) else "the file that holds it"
    if "cmdline" in source:
        text = f"Remove what blocks {_shown(remedy.module)} from the kernel command line (boot loader), and reboot."
    else:
        text = (
            f"Remove the rule that blocks {_shown(remedy.module)} from {source}, build the initial ramdisk again "
            f"({_initramfs(place)}), and reboot."
        )
    return elsewhere(place, text, remedy.why) or (ManualStep(text=text, why=remedy.why, risk="reboot"),)


def block_module(place: Place, remedy: BlockModule) -> tuple[Step, ...]:
    """A rule in modprobe.d that keeps a rival driver from the GPU."""
    module = _shown(remedy.module)
    modeset = f"options {module} modeset=0\n" if module == "nouveau" else ""
    text = (
        f"Write into /etc/modprobe.d/blacklist-{module}.conf:\nblacklist {module}\n{modeset}"
        f"then build the initial ramdisk again ({_initramfs(place)})."
    )
    if place.os.image == "rpm-ostree":
        options = " ".join(f"--append={name}.blacklist={module}" for name in ("rd.driver", "modprobe"))
        text = f"rpm-ostree kargs {options}\nthen reboot."
    return elsewhere(place, text, remedy.why) or (ManualStep(text=text, why=remedy.why, risk="reboot"),)


def _initramfs(place: Place) -> str:
    dracut = "dracut --force"
    commands = by_manager(apt="update-initramfs -u", dnf=dracut, zypper=dracut, pacman="mkinitcpio -P")
    return commands.get(place.family, dracut)


def start_service(place: Place, remedy: StartService) -> tuple[Step, ...]:
    """Install the package of the service, in its exact version if one is given, and start the service."""
    name, _, version = remedy.package.replace("==", "=").partition("=")
    sound = is_name(remedy.service) and (not name or is_name(name)) and (not version or is_version(version))
    if not sound:
        return (ManualStep(text="Start the service.", why=remedy.why, risk="root"),)
    name = _named_here(place, name, version)
    package = f"{name} {version}".strip()
    words = (f"install {package}, then " if package else "") + f"systemctl enable --now {remedy.service}"
    if outside := elsewhere(place, words, remedy.why):
        return outside
    first = (exact_package(place, name, version, remedy.why),) if name else ()
    enable, disable = (("systemctl", verb, "--now", remedy.service) for verb in ("enable", "disable"))
    return (*first, as_root(enable, remedy.why, disable))


def _named_here(place: Place, name: str, version: str) -> str:
    """The fabric manager has its branch in its name only with apt; NVIDIA renamed its rpms with branch 580."""
    if not name.startswith("nvidia-fabricmanager-") or place.family not in ("fedora", "rhel", "suse"):
        return name
    major = version.partition(".")[0]
    return "nvidia-fabric-manager" if major.isdigit() and int(major) < 580 else "nvidia-fabricmanager"


def join_group(place: Place, remedy: JoinGroup) -> tuple[Step, ...]:
    """Text for a person, because the report names no user."""
    if not is_name(remedy.group):
        return (ManualStep(text="Join the group that owns the device node.", why=remedy.why, risk="root"),)
    if place.container:
        number = f"the number of the host's group {remedy.group}"
        text = f"On its host, start the container again with --group-add and {number}."
        return (ManualStep(text=text, why=remedy.why),)
    text = f'sudo usermod -aG {remedy.group} "$USER"\nthen log out and in again'
    return (ManualStep(text=text, why=remedy.why, risk="root"),)


def _shown(text: str) -> str:
    return text if is_name(text) else "it"
