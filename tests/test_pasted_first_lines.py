"""The first line of a report on a pasted text, and the short forms of what a person names in one."""

from __future__ import annotations

import pytest

from gpudoctor.render.headline import headline
from gpudoctor.render.style import PLAIN
from gpudoctor.report import Subject, make_report
from tests.support.check_cases import matrix
from tests.support.judged_texts import judgement, machine
from tests.support.judging import judged

BOOT = """\
[    3.951410] [drm] initializing kernel modesetting (IP DISCOVERY 0x1002:0x744C 0x1DA2:0xE471 0xC8).
[    4.380470] kfd kfd: amdgpu: added device 1002:744c
[    4.400022] [drm] Initialized amdgpu 3.57.0 20150101 for 0000:03:00.0 on minor 1
"""
HANGS = "[  950.818174] amdgpu 0000:03:00.0: amdgpu: MES might be in unrecoverable state, issue a GPU reset\n"
TABLE = """\
| NVIDIA-SMI 580.95.05              Driver Version: 580.95.05      CUDA Version: 13.0     |
|   0  NVIDIA GeForce RTX 4070 Ti     Off |   00000000:01:00.0  On |                  N/A |
|  0%   41C    P8              9W /  285W |     812MiB /  12282MiB |      2%      Default |
"""
SHAPES = "RuntimeError: mat1 and mat2 shapes cannot be multiplied (64x1152 and 1024x10)\n"


def first_line(text: str) -> str:
    told = machine(text)
    report = make_report(told, matrix(), judged(told), subject=Subject(kind="text", label="text"))
    return "".join(part for part, _ in headline(report, PLAIN))


def test_a_warning_stands_before_what_was_not_checked() -> None:
    assert first_line(BOOT + HANGS) == "1 warning; 1 check could not be completed"


def test_a_log_of_a_healthy_start_says_so() -> None:
    assert first_line(BOOT).startswith("The text shows that the driver started the GPU, and tells of no fault.")
    assert judgement(BOOT).verdict == "unknown"


def test_an_error_of_tensors_is_none_of_the_gpu() -> None:
    assert first_line(f"I think my GPU is broken??\n{TABLE}{SHAPES}").startswith("The text tells of an error of the")


@pytest.mark.parametrize(
    ("name", "arch"),
    [("W7900", "gfx1100"), ("W7800", "gfx1100"), ("W6800", "gfx1030"), ("V620", "gfx1030"), ("9070 XT", "gfx1201")],
)
def test_a_short_name_of_an_amd_gpu(name: str, arch: str) -> None:
    [gpu] = machine(f"Trying QLoRA on my {name}:\ntorch 2.11.0+rocm7.2\n").gpus
    assert gpu.arch.value == arch


@pytest.mark.parametrize("name", ["ubuntu 22.04", "Ubuntu 22.04"])
def test_a_distribution_in_brackets(name: str) -> None:
    os = machine(f"my g5.xlarge ({name}) rebooted last night for unattended upgrades\n").system.os.value
    assert os is not None and (os.id, os.version) == ("ubuntu", "22.04")


def test_the_user_that_may_not_open_kfd_is_told_the_command() -> None:
    [found] = judgement("Unable to open /dev/kfd read-write: Permission denied\n").findings
    assert "sudo usermod -aG render,video $USER" in str(found.fixes)


@pytest.mark.parametrize(
    ("os", "key"), [("Ubuntu 24.04", "/var/lib/shim-signed/mok/MOK.der"), ("Debian 12", "/var/lib/dkms/mok.pub")]
)
def test_the_key_of_a_refused_module_is_that_of_the_distribution(os: str, key: str) -> None:
    text = f"{os}, RTX 3060\nmodprobe: ERROR: could not insert 'nvidia': Key was rejected by service\n"
    found = judgement(text).findings[0]
    assert found.slug == "secure-boot-module-rejected"
    assert f"sudo mokutil --import {key}" in str(found.fixes)
