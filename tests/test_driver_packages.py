"""Drivers as distributions ship them: which branch, by which packages, and what a person does elsewhere."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gpudoctor.finding import InstallDriver, InstallRocmDriver, InstallSystemPackage
from gpudoctor.host.recorded_host import RecordedHost
from gpudoctor.intake.text.reading import read_text
from gpudoctor.machine import BlockedModule, Gpu, InstalledModule, LoadPath, Machine, Os, absent, known
from gpudoctor.matrix.load import load_matrix
from gpudoctor.planner.place import place
from gpudoctor.planner.plan import fixes_for, steps_together
from gpudoctor.probes.os_packages import package_version
from gpudoctor.probes.system import probe_system
from gpudoctor.situation import Situation
from gpudoctor.situation.driver_choice import driver_to_install
from gpudoctor.step import ManualStep, RunStep
from tests.support.check_cases import first, found
from tests.support.machines import change, nvidia_gpu, nvidia_machine, system, torch, with_stack

MATRIX = load_matrix()
KEPLER = nvidia_gpu("Tesla K80", "sm_37", chip="GK210")
PASCAL = nvidia_gpu("NVIDIA GeForce GTX 1080", "sm_61", chip="GP104")
ADA = nvidia_gpu("NVIDIA GeForce RTX 4090", "sm_89", chip="AD102")
BLACKWELL = nvidia_gpu("NVIDIA GeForce RTX 5090", "sm_120", chip="GB202")


def release(id: str, version: str = "", *like: str, **parts: str) -> Os:
    return Os(id=id, version=version, like=like, **parts)


UBUNTU = release("ubuntu", "24.04", "debian", codename="noble")
DEBIAN_12 = release("debian", "12", codename="bookworm")
SILVERBLUE = release("fedora", "43", image="rpm-ostree")


def without_driver(os: Os, *gpus: Gpu, kept: str = "2.9.1+cpu", **parts: Any) -> Machine:
    machine = nvidia_machine(*gpus, torch=torch(kept), system=system(os=known(os, "/etc/os-release"), **parts))
    bare = change(machine, load_path=LoadPath(), gpus=tuple(change(gpu, driver=absent("/sys")) for gpu in gpus))
    return with_stack(bare, module=absent("/proc"), userland=absent("/usr/lib"), modules_loaded=known((), "/proc"))


def shown(machine: Machine, remedy: Any) -> str:
    steps = steps_together((remedy,), place(machine), Situation(machine, MATRIX))
    return "\n".join(" ".join(step.argv) if isinstance(step, RunStep) else step.text for step in steps)


def installs(machine: Machine) -> tuple[str, str, str]:
    """Branch and flavour of the driver for a machine, and its steps."""
    driver = driver_to_install(Situation(machine, MATRIX))
    assert driver is not None
    return driver.branch, driver.flavour, shown(machine, driver)


@pytest.mark.parametrize(
    ("os", "gpu", "branch", "flavour", "step"),
    [
        (UBUNTU, ADA, "580", "open", "apt-get install -y nvidia-driver-580-open"),
        (UBUNTU, PASCAL, "580", "proprietary", "apt-get install -y nvidia-driver-580"),
        (DEBIAN_12, ADA, "535", "proprietary", "apt-get install -y nvidia-driver libcuda1 nvidia-smi"),
        (DEBIAN_12, BLACKWELL, "580", "open", "apt-get install nvidia-driver-pinning-580"),
        (release("debian", "13"), ADA, "550", "open", "nvidia-driver nvidia-open-kernel-dkms libcuda1"),
        (release("debian", "11"), PASCAL, "535", "proprietary", "apt-get install -y nvidia-driver libcuda1"),
        (release("fedora", "43"), ADA, "595", "open", "dnf install akmod-nvidia xorg-x11-drv-nvidia-cuda"),
        (release("fedora", "43"), PASCAL, "580", "proprietary", "akmod-nvidia-580xx xorg-x11-drv-nvidia-580xx-cuda"),
        (release("rhel", "9.6", "fedora"), PASCAL, "580", "proprietary", "nvidia-driver:580-dkms"),
        (release("almalinux", "10.2", "rhel"), ADA, "580", "open", "dnf versionlock add *nvidia*580*"),
        (release("opensuse-leap", "15.6", "suse"), ADA, "595", "open", "nvidia-open-driver-G07-signed-kmp-meta"),
        (release("opensuse-leap", "15.6", "suse"), PASCAL, "580", "proprietary", "nvidia-driver-G06-kmp-meta"),
        (release("sles", "15.7", "suse"), ADA, "580", "open", "nvidia-open-driver-G06-signed-kmp-meta"),
        (release("arch"), ADA, "610", "open", "pacman -Syu --needed --noconfirm nvidia-open"),
        (release("arch"), PASCAL, "580", "proprietary", "nvidia-580xx-dkms nvidia-580xx-utils"),
        # What is based on another one, by its codename, its number, or its kin.
        (release("linuxmint", "22.1", "ubuntu", "debian"), ADA, "580", "open", "nvidia-driver-580-open"),
        (release("zorin", "99", "ubuntu", codename="jammy"), ADA, "580", "open", "nvidia-driver-580-open"),
        (release("linuxmint", "7", "debian", codename="trixie"), ADA, "550", "open", "nvidia-open-kernel-dkms"),
        (release("pop", "24.04", "ubuntu", codename="noble"), BLACKWELL, "595", "open", "system76-driver-nvidia"),
        (release("pop", "22.04", "ubuntu", codename="jammy"), PASCAL, "580", "proprietary", "nvidia-driver-580"),
        (release("nobara", "43", "rhel", "centos", "fedora"), ADA, "595", "open", "dnf install akmod-nvidia"),
        (release("endeavouros", "", "arch"), ADA, "610", "open", "pacman -Syu"),
        (release("kali", "2026.3", "debian"), ADA, "550", "proprietary", "nvidia-driver libcuda1"),
        (release("springdale", "9.4", "rhel", "fedora"), ADA, "580", "open", "nvidia-driver:580-open"),
    ],
)
def test_the_branch_is_one_that_the_distribution_ships(
    os: Os, gpu: Gpu, branch: str, flavour: str, step: str
) -> None:
    found = installs(without_driver(os, gpu))
    assert found[:2] == (branch, flavour)
    assert step in found[2]


@pytest.mark.parametrize(
    ("os", "told"),
    [
        (release("nixos", "25.11"), "nvidiaPackages.legacy_580"),
        (release("gentoo"), "without the USE flag kernel-open"),
        (release("manjaro", "", "arch"), "mhwd"),
        (release("cachyos", "", "arch"), "chwd -a"),
        (release("bazzite", "43", "fedora", image="rpm-ostree"), "bazzite-nvidia:stable"),
        (SILVERBLUE, "rpm-ostree install akmod-nvidia-580xx"),
        (release("opensuse-microos", "20260101", "suse", image="transactional-update"), "gpudoctor knows no package"),
        (release("ubuntu", "25.04", "debian"), "gpudoctor knows no package"),
    ],
)
def test_no_package_manager_runs_where_it_would_not_help(os: Os, told: str) -> None:
    machine = without_driver(os, PASCAL)
    driver = driver_to_install(Situation(machine, MATRIX))
    assert driver is not None
    steps = steps_together((driver,), place(machine), Situation(machine, MATRIX))
    assert all(isinstance(step, ManualStep) for step in steps)
    assert told in shown(machine, driver)


@pytest.mark.parametrize(
    ("os", "told"),
    [
        (UBUNTU, "apt-get install -y nvidia-driver-470-server"),
        (release("ubuntu", "22.04", "debian"), "apt-get install -y nvidia-driver-470-server"),
        (DEBIAN_12, "apt-get install -y nvidia-tesla-470-driver libnvidia-tesla-470-cuda1 nvidia-tesla-470-smi"),
        (release("debian", "13"), "no package"),
        (release("ubuntu", "26.04", "debian"), "no package"),
    ],
)
def test_the_last_driver_of_an_old_gpu_is_installed_where_it_is_shipped(os: Os, told: str) -> None:
    """Ubuntu's nvidia-driver-470 brought 535 for some time, which refuses the GPU; the one for servers never did."""
    branch, _, text = installs(without_driver(os, KEPLER, kept="1.12.1+cu113"))
    assert branch == "470"
    assert told in text


@pytest.mark.parametrize("gpu", [KEPLER, PASCAL, BLACKWELL])
def test_where_no_distribution_is_known_ubuntus_package_is_among_the_names(gpu: Gpu) -> None:
    branch, _, text = installs(without_driver(Os(id=""), gpu, kept="1.12.1+cu113"))
    assert f"Ubuntu: nvidia-driver-{branch}" in text


@pytest.mark.parametrize(
    "os", [release("ubuntu", "20.04", "debian"), release("linuxmint", "20.3", "ubuntu", "debian")]
)
def test_an_old_release_has_its_own_newest_branch_and_no_early_open_modules(os: Os) -> None:
    for gpu in (PASCAL, ADA):
        branch, flavour, steps = installs(without_driver(os, gpu))
        assert (branch, flavour) == ("535", "proprietary")
        assert "nvidia-driver-535" in steps
    branch, _, steps = installs(without_driver(os, BLACKWELL))
    assert int(branch) >= 580
    assert "knows no package" in steps


@pytest.mark.parametrize("os", [DEBIAN_12, UBUNTU, release("debian", "11")])
def test_a_legacy_branch_is_not_chosen_where_another_supports_the_gpu(os: Os) -> None:
    assert installs(without_driver(os, PASCAL))[0] in ("535", "580")


@pytest.mark.parametrize(
    ("os", "branch", "told", "not_told"),
    [
        # Debian's own package has the name of NVIDIA's, and apt keeps the newer version.
        (DEBIAN_12, "580", "nvidia-driver-pinning-580\nand then", "-y nvidia-driver"),
        (DEBIAN_12, "580", "apt-get full-upgrade", "535"),
        (release("debian", "13"), "580", "nvidia-driver-pinning-580\nand then", "-y nvidia-driver"),
        (release("debian", "11"), "535", "First remove the packages of the present driver, 590.48.01", "-y"),
        (release("kali", "2026.3", "debian"), "550", "First remove the packages of the present driver", "-y"),
        # Ubuntu's names have the branch: they replace one another.
        (UBUNTU, "580", "apt-get install -y nvidia-driver-580", "First"),
        (release("rhel", "9.6", "fedora"), "580", "dnf distro-sync -y --allowerasing *nvidia*\ndnf install", "First"),
        (release("rocky", "10.1", "rhel"), "580", "dnf distro-sync -y --allowerasing *nvidia*\ndnf install", "First"),
        (release("fedora", "43"), "580", "dnf install --allowerasing akmod-nvidia-580xx", "First"),
        (release("opensuse-leap", "15.6", "suse"), "580", "First remove the packages of the present driver", "-y"),
        (release("arch"), "580", "Remove the packages of the present driver before", "-y"),
    ],
)
def test_a_newer_driver_really_goes(os: Os, branch: str, told: str, not_told: str) -> None:
    driven = nvidia_machine(PASCAL, driver="590.48.01", system=system(os=known(os, "/etc/os-release")))
    found = installs(driven)
    assert found[0] == branch
    assert told in found[2] and not_told not in found[2]


def test_a_driver_of_nvidias_own_installer_goes_by_that_and_the_distributions_own_takes_its_place() -> None:
    driven = nvidia_machine(PASCAL, driver="590.48.01", system=system(os=known(DEBIAN_12, "/etc/os-release")))
    by_file = change(driven, nvidia=change(driven.nvidia, run_file=known("/usr/bin/nvidia-uninstall", "/usr/bin")))
    driver = InstallDriver(branch="535", minimum="535", flavour="proprietary")
    assert "nvidia-uninstall --silent\napt-get install -y nvidia-driver" in shown(by_file, driver)


def test_nothing_goes_back_where_the_present_driver_is_older() -> None:
    driven = nvidia_machine(ADA, driver="470.82.01", system=system(os=known(DEBIAN_12, "/etc/os-release")))
    assert "apt-get install -y nvidia-driver libcuda1" in installs(driven)[2]
    rocky = change(driven, system=system(os=known(release("rocky", "9.4", "rhel"), "/etc/os-release")))
    assert "distro-sync" not in installs(rocky)[2]


def test_the_undo_of_a_driver_never_leaves_the_machine_without_one() -> None:
    """Removing the new packages would not bring back the driver that they replaced."""
    os = known(UBUNTU, "/etc/os-release")
    driven = nvidia_machine(PASCAL, driver="590.48.01", system=system(os=os))
    remedy = InstallDriver(branch="580", minimum="580", flavour="proprietary")
    step, _ = steps_together((remedy,), place(driven), Situation(driven, MATRIX))
    assert isinstance(step, RunStep) and step.undo == ()
    assert "to undo it, install driver 590.48.01 again" in step.why
    bare = without_driver(UBUNTU, PASCAL)
    first_driver, _ = steps_together((remedy,), place(bare), Situation(bare, MATRIX))
    assert isinstance(first_driver, RunStep) and "remove" in first_driver.undo[0]


@pytest.mark.parametrize(
    ("os", "same"),
    [
        (release("ubuntu", "22.04.5", "debian"), release("ubuntu", "22.04", "debian")),
        (release("pop", "22.04.1", "ubuntu"), release("pop", "22.04", "ubuntu")),
        (release("debian", "12.9"), release("debian", "12")),
        (release("fedora", "43.1.6"), release("fedora", "43")),
        (release("bazzite", "43.20251110", "fedora"), release("bazzite", "43", "fedora")),
        (release("opensuse-leap", "15.6.2", "suse"), release("opensuse-leap", "15.6", "suse")),
    ],
)
def test_a_point_release_is_its_release(os: Os, same: Os) -> None:
    assert MATRIX.images.releases(os) == MATRIX.images.releases(same)
    assert MATRIX.distributions.driver_packages(os) == MATRIX.distributions.driver_packages(same)
    assert MATRIX.distributions.kernels(os) == MATRIX.distributions.kernels(same)
    assert MATRIX.images.libc_of(os) == MATRIX.images.libc_of(same)


def test_a_minor_release_of_rhel_has_a_kernel_of_its_own() -> None:
    old, new = release("rhel", "9.4", "fedora"), release("rhel", "9.6", "fedora")
    assert MATRIX.images.releases(old) != MATRIX.images.releases(new)
    assert MATRIX.distributions.driver_packages(old) == MATRIX.distributions.driver_packages(new)


def test_the_floor_of_the_installed_torch_decides_between_the_repositories() -> None:
    assert installs(without_driver(DEBIAN_12, ADA, kept="2.9.1+cu128"))[0] == "535"
    assert installs(without_driver(DEBIAN_12, ADA, kept="2.9.1+cu130"))[0] == "580"


def test_packages_of_an_image_are_layered() -> None:
    machine = without_driver(SILVERBLUE, ADA)
    headers = InstallSystemPackage(purpose="python-headers", version="3.12")
    assert shown(machine, headers) == "rpm-ostree install python3.12-devel, then reboot."
    steam = without_driver(release("steamos", "3.7", "arch", image="SteamOS"), ADA)
    assert shown(steam, headers).startswith("Install the headers of Python 3.12: python3.12-dev on Debian")


# --- a driver that NVIDIA's own installer put there --------------------------------------------------


def test_the_installers_files_go_before_the_packages_come() -> None:
    machine = with_stack(without_driver(UBUNTU, ADA), run_file=known("/usr/bin/nvidia-uninstall", "x"))
    lines = shown(machine, InstallDriver("580")).splitlines()
    assert lines[:2] == ["/usr/bin/nvidia-uninstall --silent", "apt-get install -y nvidia-driver-580-open"]
    by_hand = with_stack(without_driver(DEBIAN_12, BLACKWELL), run_file=known("/usr/bin/nvidia-uninstall", "x"))
    text = shown(by_hand, InstallDriver("580"))
    assert text.index("/usr/bin/nvidia-uninstall") < text.index("nvidia-driver-pinning-580")


def test_the_installer_is_not_named_where_it_cannot_work() -> None:
    old = release("ubuntu", "20.04", "debian")
    assert ".run" in shown(without_driver(old, ADA), InstallDriver("580"))
    assert "enrol" in shown(without_driver(old, ADA, secure_boot=known(True, "efivars")), InstallDriver("580"))
    for os in (SILVERBLUE, release("nixos", "25.11"), release("opensuse-microos", "1", image="transactional-update")):
        assert ".run" not in shown(without_driver(os, ADA), InstallDriver("535"))


def test_the_uninstaller_and_the_kind_of_system_are_read(tmp_path: Path) -> None:
    from gpudoctor.probes.nvidia_files import _run_file

    files = {
        "etc/os-release": 'ID=linuxmint\nID_LIKE="ubuntu debian"\nVERSION_ID="22.1"\nVERSION_CODENAME=xia\n'
        "UBUNTU_CODENAME=noble\n",
        "usr/bin/nvidia-uninstall": "",
        "run/ostree-booted": "",
    }
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    host = RecordedHost(tmp_path)
    os = probe_system(host).os.value
    assert os is not None and (os.codename, os.image) == ("noble", "rpm-ostree")
    assert _run_file(host).value == "/usr/bin/nvidia-uninstall"
    (tmp_path / "usr/bin/nvidia-uninstall").unlink()
    assert _run_file(host).value is None
    (tmp_path / "run/ostree-booted").unlink()
    assert probe_system(host).os.value == change(os, image="")


# --- library and module ------------------------------------------------------------------------------


def half_updated(os: Os, loaded: str, libraries: str, on_disk: str, *gpus: Gpu) -> Machine:
    kernel = "6.8.0-60-generic"
    module = InstalledModule("nvidia", kernel, f"/lib/modules/{kernel}/updates/dkms/nvidia.ko", on_disk, "open")
    machine = nvidia_machine(*(gpus or (ADA,)), driver=loaded, system=system(os=known(os, "/etc/os-release")))
    return with_stack(machine, userland=known(libraries, "x"), modules_installed=known((module,), "/lib/modules"))


def test_library_and_module_come_together_before_the_branch_changes() -> None:
    machine = half_updated(DEBIAN_12, "535.216.03", "535.309.01", "535.216.03")
    (mismatch,) = found(machine, "driver-lib-mismatch")
    title = mismatch.fixes[0].title
    assert "535" in title and "together" in title
    # A branch that is not shipped any more gives way to one that is.
    (gone,) = found(half_updated(UBUNTU, "570.133.07", "570.211.01", "570.133.07"), "driver-lib-mismatch")
    assert gone.fixes[0].title == "Install NVIDIA driver 580 (open kernel modules)"


def test_a_finished_update_needs_a_reboot_or_the_new_module() -> None:
    (update,) = found(half_updated(UBUNTU, "580.95.05", "580.126.09", "580.126.09"), "driver-installed-no-reboot")
    assert [fix.title for fix in update.fixes] == ["Reboot", "Load the new module without a reboot"]


def test_a_blacklist_goes_before_the_reboot() -> None:
    rule = BlockedModule("nvidia", "blacklist nvidia", "/etc/modprobe.d/no-nvidia.conf")
    chosen = BlockedModule("nvidia", "blacklist nvidia", "/etc/modprobe.d/envycontrol.conf", chosen=True)
    machine = without_driver(UBUNTU, ADA)
    machine = with_stack(machine, blocked=known((rule, chosen), "x"), modules_installed=known((), "x"))
    (fix, *_) = fixes_for(first(machine), Situation(machine, MATRIX))
    texts = [step.text if isinstance(step, ManualStep) else " ".join(step.argv) for step in fix.steps]
    assert "apt-get" in texts[0] and "no-nvidia.conf" in texts[1] and texts[-1] == "Reboot."
    assert not any("envycontrol" in text for text in texts)


# --- AMD ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("os", "kernel", "supported"),
    [
        (UBUNTU, "6.8.0-60-generic", True),
        (UBUNTU, "6.17.0-20-generic", True),
        (UBUNTU, "6.14.0-24-generic", False),
        (release("fedora", "43"), "6.17.1-300.fc43.x86_64", False),
        (release("arch"), "6.18.1-arch1-1", False),
        (release("rhel", "9.6", "fedora"), "5.14.0-570.el9.x86_64", True),
    ],
)
def test_amds_driver_package_only_where_amd_supports_it(os: Os, kernel: str, supported: bool) -> None:
    machine = without_driver(os, ADA, kernel=known(kernel, "uname"))
    text = shown(machine, InstallRocmDriver())
    assert ("repo.radeon.com" in text) == supported
    assert ("use the kernel's own amdgpu" in text) == (not supported)


def test_a_firmware_package_that_stays_old_is_not_installed_again() -> None:
    firmware = InstallSystemPackage("linux-firmware")
    assert shown(without_driver(UBUNTU, ADA), firmware) == "apt-get install -y linux-firmware"
    old = shown(without_driver(DEBIAN_12, ADA), firmware)
    assert "20230210" in old and "bookworm-backports" in old
    mint = without_driver(release("linuxmint", "6", "debian", codename="bookworm"), ADA)
    assert "20230210" in shown(mint, InstallSystemPackage("linux-firmware", version="20260110"))


def test_the_rpm_database_tells_the_firmware(tmp_path: Path) -> None:
    if shutil.which("rpmbuild") is None or shutil.which("rpm") is None:
        pytest.skip("needs rpm and rpmbuild")
    spec = tmp_path / "firmware.spec"
    lines = ("Name: amd-gpu-firmware", "Version: 20251125", "Release: 1.fc43", "Summary: x", "License: x")
    spec.write_text("\n".join((*lines, "BuildArch: noarch", "%description", "x", "%files", "")))
    top, root = tmp_path / "top", tmp_path / "root"
    build = ("rpmbuild", "--define", f"_topdir {top}", "-bb", str(spec))
    subprocess.run(build, check=True, capture_output=True)
    (package,) = top.glob("RPMS/noarch/*.rpm")
    root.mkdir()
    into = ("--define", "_db_backend sqlite", "--root", str(root), "--dbpath", "/usr/lib/sysimage/rpm")
    subprocess.run(("rpm", *into, "--nodeps", "-i", str(package)), check=True, capture_output=True)
    host = RecordedHost(root)
    assert package_version(host, "linux-firmware|amd-gpu-firmware").value == "20251125-1.fc43"
    assert package_version(host, "rocm-core").state == "absent"
    (database,) = root.glob("usr/lib/sysimage/rpm/rpmdb.sqlite")
    database.write_bytes(database.read_bytes()[:3000])
    assert package_version(host, "amd-gpu-firmware").state == "unknown"


# --- what no driver removes --------------------------------------------------------------------------


@pytest.mark.parametrize("os", [release("centos", "7", "rhel"), release("alpine", "3.20")])
def test_no_driver_is_proposed_where_no_torch_loads(os: Os) -> None:
    machine = change(without_driver(os, BLACKWELL), system=system(os=known(os, "x"), libc=absent("x")))
    (fix,) = first(machine).fixes
    assert "C library" in fix.title
    assert "No driver helps torch here" in str(fix.remedies)
    new = without_driver(UBUNTU, BLACKWELL)
    assert "Install NVIDIA driver" in first(new).fixes[0].title


@pytest.mark.parametrize(
    ("os", "sm", "branch"),
    [
        (Os(id="arch"), "sm_61", "580"),
        (Os(id="arch"), "sm_37", "470"),
        (Os(id="ubuntu", version="24.04", like=("debian",), codename="noble"), "sm_61", "580"),
        (Os(id="ubuntu", version="24.04", like=("debian",), codename="noble"), "sm_37", "470"),
        (Os(id="ubuntu", version="26.04", like=("debian",), codename="resolute"), "sm_37", None),
    ],
)
def test_no_branch_after_the_last_one_of_a_gpu_is_chosen(os: Os, sm: str, branch: str | None) -> None:
    row = MATRIX.distributions.driver_to_package(os, (sm,), None, ("open", "proprietary"))
    assert (row.branch if row else None) == branch


def test_where_the_distribution_is_unknown_the_packages_of_the_usual_ones_are_named() -> None:
    text = "RTX 3060, driver 535, torch 2.12: torch.cuda.is_available() is False"
    machine = read_text(text.encode(), MATRIX)
    told = shown(machine, InstallDriver(branch="580", flavour="open", why=""))
    assert "Ubuntu: nvidia-driver-580-open" in told
    assert "gpudoctor knows no package" not in told
    assert "gpudoctor knows no package" in shown(without_driver(release("solus"), ADA), INSTALL_580)


INSTALL_580 = InstallDriver(branch="580", flavour="open", why="")
