"""Texts of support tools and whole issue threads: what nvidia-bug-report, /proc and titles tell."""

from __future__ import annotations

import pytest

from gpudoctor.render.formats import report_text
from gpudoctor.report import Subject, make_report
from tests.support.check_cases import matrix
from tests.support.judged_texts import judgement, machine, problems

RULE = "____________________________________________\n\n"
NO_KERNEL = "CUDA error: no kernel image is available for execution on the device"
NO_HIP_GPU = "RuntimeError: No HIP GPUs are available\n"


def bug_report(module: str, gpu: str) -> str:
    """The blocks of nvidia-bug-report.log that tell of the system and of the driver."""
    return (
        f"{RULE}Start of NVIDIA bug report log file.\n\n"
        "uname: Linux node1 6.2.0-35-generic #35~22.04.1-Ubuntu SMP PREEMPT_DYNAMIC x86_64 x86_64 GNU/Linux\n"
        f"{RULE}*** /etc/issue\n*** ls: -rw-r--r-- 1 root root 26 2023-08-07 /etc/issue\n"
        "Ubuntu 22.04.3 LTS \\n \\l\n\n"
        f"{RULE}*** /proc/driver/nvidia/version\n"
        f"NVRM version: NVIDIA UNIX {module}  Release Build\nGCC version:  gcc version 12.3.0\n"
        f"{RULE}01:00.0 VGA compatible controller [0300]: NVIDIA Corporation {gpu} (rev a1)\n"
    )


@pytest.mark.parametrize(
    ("module", "flavour"),
    [
        ("x86_64 Kernel Module  580.95.05", "proprietary"),
        ("Open Kernel Module for x86_64  580.95.05", "open"),
        ("Open Kernel Module for aarch64  580.95.05", "open"),
    ],
)
def test_a_bug_report_tells_the_system_and_which_kernel_module_is_loaded(module: str, flavour: str) -> None:
    read = machine(bug_report(module, "GA102GL [RTX A6000] [10de:2230]"))
    os, loaded = read.system.os.value, read.nvidia.module.value
    assert os and loaded
    assert (os.name, loaded.version, loaded.flavour) == ("Ubuntu 22.04.3 LTS", "580.95.05", flavour)


def test_the_kernel_module_that_a_text_shows_is_judged() -> None:
    blackwell = "GB202 [GeForce RTX 5090] [10de:2b85]"
    assert problems(bug_report("x86_64 Kernel Module  580.95.05", blackwell)) == ["blackwell-open-module"]
    assert not problems(bug_report("Open Kernel Module for x86_64  580.95.05", blackwell))


def test_a_line_of_the_kernel_that_lost_its_stamp_is_read() -> None:
    lost = "NVRM: Xid (PCI:0000:dc:00): 79, pid=1818990, name=python3, GPU has fallen off the bus."
    assert problems(f"The node fails once a week.\nkernel: {lost}\n") == problems(f"[ 12.345678] {lost}\n")


def test_a_message_in_a_title_is_cited_without_the_mark_of_the_title() -> None:
    (found,) = judgement(f"# RTX 5080 {NO_KERNEL}\n").findings
    assert found.saw.startswith("RTX 5080 CUDA error")


@pytest.mark.parametrize("text", ["系统windows11\n显卡rtx5070ti", "System: Windows 11, RTX 5070 TI"])
def test_a_system_and_a_gpu_are_known_beside_letters_of_other_scripts(text: str) -> None:
    read = machine(f"RuntimeError: {NO_KERNEL}\n{text}\n")
    assert read.pasted
    assert read.pasted.foreign == "windows"
    assert read.gpus[0].name.lower().replace(" ", "").endswith("5070ti")


@pytest.mark.parametrize(
    ("text", "system"),
    [
        ("From my Mac I ssh into my server (RTX 3090).", ""),
        ("I work on my macbook over ssh, the server has an RTX 3090.", ""),
        ("I connect from Windows 11 by ssh to a server with an RTX 3090.", ""),
        ("I ssh into my Mac mini.", "macos"),
        ("My Mac studio: I ssh into it.", "macos"),
        ("My key is in C:\\Users\\me\\.ssh\\id, on Windows 11 with an RTX 3090.", "windows"),
    ],
)
def test_the_machine_that_a_person_works_from_is_not_the_one_that_is_meant(text: str, system: str) -> None:
    read = machine(f"{text}\nFailed to initialize NVML: Driver/library version mismatch\n")
    assert read.pasted
    assert read.pasted.foreign == system


@pytest.mark.parametrize(
    "text",
    [
        "nouveau conflicts with nvidia, how do I blacklist it? GTX 1060",
        "torch.cuda.is_available() is False on my GTX 1060, pip list says torch 2.9.1+cpu",
    ],
)
def test_a_gpu_is_read_beside_lists_that_list_no_gpus(text: str) -> None:
    assert [gpu.name for gpu in machine(text).gpus] == ["GTX 1060"]


def test_a_version_of_windows_in_another_word_is_none() -> None:
    read = machine(f"RuntimeError: {NO_KERNEL}\nsubwindows10 and windows100\n")
    assert read.pasted
    assert not read.pasted.foreign


INDEX = "--index-url https://download.pytorch.org/whl/cu117"


@pytest.mark.parametrize(
    ("asked", "version"),
    [("torch==1.13.1+cu117", "1.13.1+cu117"), ("torch==1.13.1", "1.13.1+cu117"), ("torch", "2.0.1+cu117")],
)
def test_a_command_that_pins_torch_tells_its_version(asked: str, version: str) -> None:
    torch = machine(f"GPU 0: NVIDIA A100\n$ pip install {asked} torchvision {INDEX}\n").torch
    assert torch
    assert torch.version == version


@pytest.mark.parametrize(
    ("options", "first"), [("--device /dev/dri --device /dev/kfd", "amd-device-permission"), ("", "container-no-gpu")]
)
def test_a_container_that_was_given_gpus_is_not_blamed_for_having_none(options: str, first: str) -> None:
    text = f"$ docker run -ti --rm {options} ubuntu:22.04\n{NO_HIP_GPU}"
    causes = [slug for finding in judgement(text).findings for slug in (finding.slug, *finding.possible_causes)]
    assert causes[0] == first
    assert ("container-no-gpu" in causes) == (first == "container-no-gpu")


def test_no_name_and_no_command_of_a_comment_is_broken_at_a_hyphen() -> None:
    read = machine(f"# RTX 5080 {NO_KERNEL}\n")
    report = make_report(
        read, matrix(), judgement(f"# RTX 5080 {NO_KERNEL}\n"), subject=Subject(kind="text", label="")
    )
    lines = report_text(report, "markdown").splitlines()
    assert any("ext-built-without-gpu-arch" in line for line in lines if "[GPD" not in line)
    assert not any(line.endswith("-") and not line.startswith("|") for line in lines)
