"""Texts that tell of a fault that is over, of what others see, or of a machine that another one was set up from."""

from __future__ import annotations

import pytest

from tests.support.judged_texts import judgement, machine, problems

NO_GPUS = '"RuntimeError: No HIP GPUs are available"'
NO_CODE = '"HIP error: invalid device function"'


@pytest.mark.parametrize(
    "text",
    [
        f"Update: solved! It was {NO_GPUS} because my user was not in the render group. "
        "After sudo usermod -aG render,video $USER and a logout it works on my RX 6900 XT. Thanks all.",
        f"Fixed it. The {NO_CODE} came from a wrong HSA_OVERRIDE_GFX_VERSION, "
        "after unsetting it my RX 9060 XT works fine.",
        f"{NO_CODE} was caused by the old wheel, after I took torch 2.9.1+rocm6.4 everything works. RX 7900 XTX",
    ],
)
def test_a_fault_that_was_mended_is_none(text: str) -> None:
    assert problems(text) == []


@pytest.mark.parametrize(
    "text",
    [
        f"{NO_GPUS} on my RX 6900 XT. After a reboot it works, but after an hour it fails again.",
        f"RX 6900 XT: {NO_GPUS} as my user, after sudo su it works.",
        f"RX 6900 XT: {NO_GPUS}. After sudo usermod it works only as root.",
        f"Fixed it for Ollama, but torch says {NO_GPUS} on my RX 6900 XT",
    ],
)
def test_a_fault_that_comes_back_or_is_only_avoided_remains(text: str) -> None:
    assert "amd-device-permission" in problems(text)


@pytest.mark.parametrize(
    "text",
    [
        f"I am thinking of buying a used RX 6700 XT or a RTX 3060 12GB for stable diffusion. I read that the 6700 XT "
        f"throws {NO_CODE} and needs an environment variable, is that still so? Which of both would you take?",
        f"Which card should I buy for ROCm? A friend says with the RX 7600 he gets {NO_GPUS}.",
    ],
)
def test_who_asks_what_to_buy_has_no_fault(text: str) -> None:
    assert problems(text) == []


@pytest.mark.parametrize(
    "text",
    [
        f"I have an RX 6700 XT and get {NO_CODE}. Should I buy an RTX 3060 instead?",
        f"Which card should I buy? My RX 6700 XT says {NO_CODE}",
        f"RX 6700 XT: RuntimeError {NO_CODE}. What should I do?",
    ],
)
def test_who_has_a_fault_may_ask_what_to_buy(text: str) -> None:
    assert problems(text) == ["torch-rocm-no-arch-for-gpu"]


@pytest.mark.parametrize(
    ("text", "gpu"),
    [
        (
            "RX 9070 (gfx1201), torch 2.10.0+rocm7.1: segmentation fault. I copied my old bashrc from the 6700 XT "
            "machine, it has\n\nexport HSA_OVERRIDE_GFX_VERSION=10.3.0\n",
            "gfx1201",
        ),
        (
            "gfx1151, torch 2.11.0+rocm7.2. I still had HSA_OVERRIDE_GFX_VERSION=10.3.0 in my environment from an "
            "older desktop with a 6600 XT, and python core dumps at the first .cuda().",
            "gfx1151",
        ),
    ],
)
def test_a_setting_from_another_machine_is_judged_on_this_one(text: str, gpu: str) -> None:
    assert [one.arch.value for one in machine(text).gpus] == [gpu]
    assert problems(text)[0] == "hsa-override-wrong"


@pytest.mark.parametrize(
    ("text", "gpu"),
    [
        ("From the RTX 4090 machine I get: torch 1.10.0+cu102, CUDA error: no kernel image is available", "sm_89"),
        ("My old PC with a GTX 1080 says with torch 2.9.1+cu128 that no kernel image is available", "sm_61"),
        ("I have an old GTX 1080 in this box, torch 2.9.1+cu128, no kernel image is available", "sm_61"),
    ],
)
def test_the_only_machine_of_a_text_is_the_one_that_it_is_about(text: str, gpu: str) -> None:
    assert [one.arch.value for one in machine(text).gpus] == [gpu]


FAULT = (
    "Memory access fault by GPU node-1 on address 0x7ff96a9ac000. Reason: Page not present or supervisor privilege.\n"
)


@pytest.mark.parametrize(
    "listed",
    [
        "ii  firmware-amd-graphics  20251125-1  all  Binary firmware for AMD/ATI graphics chips",
        "amd-gpu-firmware-20251125-1.fc43.noarch",
        "linux-firmware-amdgpu 20251125-1",
        "- **linux-firmware**: 20251125-1.fc43",
    ],
)
def test_a_list_of_packages_tells_the_firmware(listed: str) -> None:
    found = judgement(f"Radeon 8060S (gfx1151), torch 2.9.1+rocm7.1\n{FAULT}{listed}\n").findings
    assert any(one.slug == "amd-firmware-regression" and "20260110" in str(one.fixes) for one in found)


@pytest.mark.parametrize(
    "listed",
    [
        "linux-firmware-amdgpu 20251111-1",
        "linux-firmware-amdgpu 20260110-1",
        "linux-firmware 20251125 -> 20260110",
        "ii  firmware-realtek  20251125-1  all",
    ],
)
def test_another_firmware_is_not_blamed(listed: str) -> None:
    text = f"Radeon 8060S (gfx1151), torch 2.9.1+rocm7.1\n{FAULT}{listed}\n"
    assert "amd-firmware-regression" not in problems(text)


SCRIPT = "#SBATCH -p gpu\n#SBATCH -n 8\n{option}python train.py\nRuntimeError: No CUDA GPUs are available\n"


def test_what_an_interactive_job_was_given_says_nothing_of_a_script() -> None:
    interactive = "It works with salloc --gres=gpu:1 python train.py\n"
    assert problems(SCRIPT.format(option="") + interactive)[0] == "job-without-gpu"
    assert problems(SCRIPT.format(option="#SBATCH --gres=gpu:1\n") + interactive)[0] != "job-without-gpu"
    assert problems("salloc --gres=gpu:1 python train.py\nRuntimeError: No CUDA GPUs are available")[0] != (
        "job-without-gpu"
    )
