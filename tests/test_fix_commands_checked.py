"""The commands for a distribution put to its own package manager, as far as that is here: it must understand them.

Nothing is installed: apt-get simulates; dnf, zypper and pacman have no repositories, so that they get as far as
looking for the packages; what they do not understand they refuse before that.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpudoctor.finding import (
    AnyRemedy,
    InstallDriver,
    InstallRocmDriver,
    InstallSystemPackage,
    RebuildModule,
    StartService,
)
from gpudoctor.machine import InstalledModule, Machine, Os, known
from gpudoctor.matrix.load import load_matrix
from gpudoctor.planner.place import place
from gpudoctor.planner.plan import steps_together
from gpudoctor.situation import Situation
from gpudoctor.step import ManualStep, RunStep
from tests.support.machines import nvidia_machine, system, with_stack

MATRIX = load_matrix()
SYSTEMS: dict[str, tuple[str, tuple[str, ...]]] = {
    "ubuntu 24.04": ("ubuntu", ("debian",)),
    "debian 12": ("debian", ()),
    "fedora 43": ("fedora", ()),
    "rhel 9.4": ("rhel", ("fedora",)),
    "rocky 10.0": ("rocky", ("rhel", "centos", "fedora")),
    "amzn 2023": ("amzn", ("fedora",)),
    "opensuse-leap 15.6": ("opensuse-leap", ("suse", "opensuse")),
    "arch ": ("arch", ()),
}
REMEDIES: tuple[AnyRemedy, ...] = (
    InstallDriver(branch="580", minimum="580.65.06"),
    InstallDriver(branch="535", flavour="proprietary"),
    InstallRocmDriver(),
    InstallRocmDriver(inbox=True),
    RebuildModule(module="nvidia", version="580.95.05"),
    StartService(service="nvidia-fabricmanager", package="nvidia-fabricmanager-580==580.95.05"),
    *(
        InstallSystemPackage(purpose=purpose, version="3.12" if purpose == "python-headers" else "")
        for purpose in (
            "nvidia-container-toolkit",
            "python-headers",
            "linux-firmware",
            "rocm",
            "libstdc++",
            "compiler",
        )
    ),
)


def on(name: str, **parts: Any) -> Machine:
    id, version = name.split(" ")
    os = known(Os(id=id, version=version, like=SYSTEMS[name][1]), "/etc/os-release")
    return nvidia_machine(system=system(os=os, **parts))


def commands(program: str) -> list[tuple[str, ...]]:
    """One command of each shape (verbs and options): names of packages are not what is asked here."""
    found: dict[tuple[str, ...], tuple[str, ...]] = {}
    for name in SYSTEMS:
        for machine in (on(name), on(name, secure_boot=known(True, "efivars"))):
            for remedy in REMEDIES:
                for step in steps_together((remedy,), place(machine), Situation(machine, MATRIX)):
                    if isinstance(step, RunStep):
                        for argv in (step.argv, *step.undo):
                            if argv[0] == program:
                                found.setdefault((*argv[1:3], *(a for a in argv if a.startswith("-"))), argv)
    return list(found.values())


def said(*argv: str) -> str:
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_apt_understands_its_commands() -> None:
    if shutil.which("apt-get") is None:
        pytest.skip("needs apt-get")
    for argv in commands("apt-get"):
        answer = said(argv[0], "--simulate", *argv[1:])
        assert "Command line option" not in answer, argv
        assert "Invalid operation" not in answer, argv
    assert "Command line option" in said("apt-get", "--simulate", "install", "--no-such-option", "x")


def test_apt_takes_a_version_whose_end_is_open(tmp_path: Path) -> None:
    """nvidia-fabricmanager-580=580.95.05-*: the distribution's own part of the version is not known."""
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        pytest.skip("needs apt-get and dpkg")
    index = tmp_path / "Packages"
    fields = {"Package": "made-up", "Version": "580.95.05-0ubuntu0.24.04.1", "Architecture": "all", "Size": "1"}
    fields |= {"Maintainer": "x <x@example.org>", "Description": "x", "Filename": "./x.deb", "SHA256": "0" * 64}
    index.write_text("".join(f"{name}: {value}\n" for name, value in fields.items()))
    (tmp_path / "list").write_text(f"deb [trusted=yes] file:{tmp_path} ./\n")
    (tmp_path / "status").write_text("")
    options = {
        "Dir::Etc::sourcelist": str(tmp_path / "list"),
        "Dir::Etc::sourceparts": "-",
        "Dir::State": str(tmp_path / "state"),
        "Dir::State::status": str(tmp_path / "status"),
        "Dir::Cache": str(tmp_path / "cache"),
        "APT::Sandbox::User": "root",
    }
    (tmp_path / "state" / "lists" / "partial").mkdir(parents=True)
    (tmp_path / "cache" / "archives" / "partial").mkdir(parents=True)
    settings = [part for name, value in options.items() for part in ("-o", f"{name}={value}")]
    said("apt-get", *settings, "update")
    assert "Inst made-up (580.95.05-0ubuntu0.24.04.1" in said(
        "apt-get", *settings, "--simulate", "install", "-y", "made-up=580.95.05-*"
    )
    assert "was not found" in said("apt-get", *settings, "--simulate", "install", "-y", "made-up=580.95.06-*")


def _dnf(root: Path) -> Callable[[tuple[str, ...]], str]:
    empty = [f"--installroot={root}", "--releasever=9", "--disablerepo=*", "--assumeno"]
    empty += [f"--setopt={name}={root}/{name}" for name in ("cachedir", "reposdir", "logdir", "persistdir")]
    return lambda argv: said("dnf", *empty, *argv[1:])


def test_dnf_understands_its_commands(tmp_path: Path) -> None:
    if shutil.which("dnf") is None:
        pytest.skip("needs dnf")
    ask = _dnf(tmp_path)
    for argv in commands("dnf"):
        if argv[1] == "versionlock":
            continue  # a plug-in, which the step before it installs
        answer = ask(argv)
        assert "unrecognized arguments" not in answer, argv
        assert "No such command" not in answer, argv
        assert "invalid choice" not in answer, argv
    assert "unrecognized arguments" in ask(("dnf", "install", "--no-such-option", "x"))


def test_zypper_understands_its_commands(tmp_path: Path) -> None:
    if shutil.which("zypper") is None:
        pytest.skip("needs zypper")
    for argv in commands("zypper"):
        answer = said("zypper", "--root", str(tmp_path), "--no-refresh", *argv[1:3], "--dry-run", *argv[3:])
        assert "is not known" not in answer, argv
        assert "Unknown command" not in answer, argv
    assert "is not known" in said("zypper", "--root", str(tmp_path), "install", "--no-such-option", "x")


def test_pacman_understands_its_commands(tmp_path: Path) -> None:
    if shutil.which("pacman") is None:
        pytest.skip("needs pacman")
    (tmp_path / "db").mkdir()
    for argv in commands("pacman"):
        answer = said("pacman", "--root", str(tmp_path), "--dbpath", str(tmp_path / "db"), *argv[1:], "--print")
        assert "unrecognized option" not in answer, argv
        assert "invalid option" not in answer, argv
    assert "unrecognized option" in said("pacman", "-S", "--no-such-option", "x")


# --- names of packages, from the vendors' and distributions' documents -------------------------------


def installs(machine: Machine, remedy: AnyRemedy) -> str:
    steps = steps_together((remedy,), place(machine), Situation(machine, MATRIX))
    return "\n".join(" ".join(s.argv) if isinstance(s, RunStep) else s.text for s in steps if s.risk != "reboot")


@pytest.mark.parametrize(
    ("name", "remedy", "expected"),
    [
        ("rhel 9.4", InstallDriver("580"), "dnf module enable -y nvidia-driver:580-open"),
        ("amzn 2023", InstallDriver("580", flavour="proprietary"), "nvidia-driver:580-dkms"),
        ("rocky 10.0", InstallDriver("580"), "dnf versionlock add *nvidia*580*"),
        ("fedora 43", InstallDriver("595"), "akmod-nvidia xorg-x11-drv-nvidia-cuda"),
        (
            "fedora 43",
            InstallDriver("580", flavour="proprietary"),
            "akmod-nvidia-580xx xorg-x11-drv-nvidia-580xx",
        ),
        ("debian 12", InstallDriver("580"), "apt-get install nvidia-driver-pinning-580"),
        ("debian 12", InstallDriver("535", flavour="proprietary"), "they would stay.\napt-get install nvidia-driver"),
        (
            "opensuse-leap 15.6",
            InstallDriver("580", flavour="proprietary"),
            "zypper install nvidia-driver-G06-kmp-meta",
        ),
        ("opensuse-leap 15.6", InstallDriver("595"), "nvidia-open-driver-G07-signed-kmp-meta"),
        ("arch ", InstallDriver("580", flavour="proprietary"), "nvidia-580xx-dkms"),
        ("rhel 9.4", REMEDIES[5], "dnf install -y nvidia-fabricmanager-580.95.05"),
    ],
)
def test_the_packages_of_a_release(name: str, remedy: AnyRemedy, expected: str) -> None:
    assert expected in installs(on(name), remedy)


def test_secure_boot_takes_the_modules_that_ubuntu_signed() -> None:
    signed = {"secure_boot": known(True, "efivars")}
    expected = "apt-get install -y nvidia-driver-580-open linux-modules-nvidia-580-open-generic"
    assert installs(on("ubuntu 24.04", **signed), InstallDriver("580")) == expected
    newer = on("ubuntu 24.04", **signed, kernel=known("6.17.0-35-generic", "uname"))
    assert installs(newer, InstallDriver("580")) == f"{expected}-hwe-24.04"
    assert "linux-modules" not in installs(on("ubuntu 24.04"), InstallDriver("580"))


def test_modules_that_ubuntu_built_are_installed_for_the_running_kernel() -> None:
    other = "6.8.0-50-generic"
    module = InstalledModule("nvidia", other, f"/lib/modules/{other}/kernel/nvidia-580-open/nvidia.ko", "580.95.05")
    machine = with_stack(on("ubuntu 24.04"), modules_installed=known((module,), "/lib/modules"))
    text = installs(machine, RebuildModule("nvidia", "580.95.05"))
    assert text.splitlines()[0] == "apt-get install -y linux-modules-nvidia-580-open-6.8.0-60-generic"
    assert "dkms" not in text


def test_the_container_toolkit_is_made_known_to_the_engines() -> None:
    machine = on("ubuntu 24.04")
    steps = steps_together(
        (InstallSystemPackage("nvidia-container-toolkit"),), place(machine), Situation(machine, MATRIX)
    )
    assert isinstance(steps[-1], ManualStep)
    assert "nvidia-ctk runtime configure --runtime=docker" in steps[-1].text
    assert "nvidia-ctk cdi generate" in steps[-1].text
