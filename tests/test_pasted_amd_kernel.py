"""Pasted texts about AMD's GPUs: a kernel that is too old for the GPU, and a GPU that amdgpu did not start."""

from __future__ import annotations

import pytest

from tests.support.judged_texts import judgement, problems
from tests.support.pasted import ROCMINFO

OLD_KERNEL = "RX 9070 XT, Debian 12, kernel 6.1.0-28-amd64, torch 2.9.1+rocm6.4\n"
REPORT = (
    "PyTorch version: 2.8.0+rocm6.4\nROCM used to build PyTorch: 6.4\nOS: Ubuntu 22.04.5 LTS (x86_64)\n"
    "Python platform: Linux-5.15.0-91-generic-x86_64-with-glibc2.35\nIs CUDA available: False\n"
    "03:00.0 VGA compatible controller [0300]: Advanced Micro Devices, Inc. [AMD/ATI] Navi 31 "
    "[Radeon RX 7900 XT/7900 XTX/7900 GRE/7900M] [1002:744c] (rev c8)\n"
)


@pytest.mark.parametrize(
    "text",
    [
        f"{OLD_KERNEL}torch.cuda.is_available() returns False\n",
        f"{OLD_KERNEL}RuntimeError: No HIP GPUs are available\n",
        f"[    2.71] amdgpu 0000:0a:00.0: amdgpu: Fatal error during GPU init\n{OLD_KERNEL}",
        f"amdgpu: probe of 0000:0a:00.0 failed with error -22\n{OLD_KERNEL}",
        "[    1.750123] [drm] Unsupported asic.  Remove me when IP discovery init is in place.\nRX 9070\n",
        REPORT,
        "Radeon 8060S, Ubuntu 24.04, kernel 6.8.0-60-generic, torch 2.11.0+rocm7.2\n"
        "torch.cuda.is_available() returns False, rocminfo shows only the CPU\n",
    ],
)
def test_a_kernel_that_is_older_than_the_gpu_is_the_problem(text: str) -> None:
    assert problems(text) == ["amd-kernel-or-runtime-too-old"]


@pytest.mark.parametrize(
    "shown",
    [
        "torch.cuda.is_available() returns True",
        "$ rocminfo\nROCk module is loaded\nAgent 2\n  Name:                gfx1201\n  Device Type:          GPU",
        "It works fine with vLLM.",
        "[    4.4] kfd kfd: amdgpu: added device 1002:7550",
        "==== ROCm System Management Interface ====\n==== Concise Info ====\n"
        "GPU  Temp   AvgPwr  SCLK    MCLK   Fan  Perf  PwrCap  VRAM%  GPU%\n"
        "0    40.0c  30.0W   500Mhz  96Mhz  0%   auto  303.0W    5%   0%",
        "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 20.00 MiB.",
        "[1270.279661] amdgpu 0000:c5:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=26623, emitted seq=26624",
        "amdgpu-dkms is installed",
        "",
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied",
        "How do I choose the tensor parallel size?",
    ],
)
def test_a_gpu_that_works_or_has_amds_driver_is_not_too_new_for_the_kernel(shown: str) -> None:
    """Or that nobody misses: most who run ROCm on an old kernel have AMD's own driver."""
    assert "amd-kernel-or-runtime-too-old" not in problems(f"{OLD_KERNEL}{shown}\n")


def test_a_kernel_that_nobody_named_is_no_problem() -> None:
    log = (
        "[    5.331000] [drm] initializing kernel modesetting (IP DISCOVERY 0x1002:0x7550 0x1849:0x5410 0xC0).\n"
        "[    5.340] amdgpu 0000:03:00.0: Direct firmware load for amdgpu/psp_14_0_3_sos.bin failed with error -2\n"
        "[    5.350000] amdgpu 0000:03:00.0: amdgpu: Fatal error during GPU init\n"
    )
    [found] = judgement(log).findings
    assert (found.slug, "psp_14_0_3_sos" in found.message) == ("no-driver", True)


def test_a_gpu_that_amdgpu_could_not_take_has_no_driver_whatever_the_kernel() -> None:
    text = "amdgpu 0000:03:00.0: probe with driver amdgpu failed with error -22\nRX 9070 XT, kernel 6.17.0\n"
    assert problems(text) == ["no-driver"]


ONLY_THE_PROCESSOR = ROCMINFO.partition("*******\nAgent 2\n")[0] + "*** Done ***\n"


@pytest.mark.parametrize(
    ("gpu", "told", "slug"),
    [
        ("RX 580", ONLY_THE_PROCESSOR, "amd-pcie-atomics"),
        ("RX 570", "there is no GPU agent in rocminfo", "amd-pcie-atomics"),
        ("Radeon R9 380", "rocminfo does not list the card", "amd-pcie-atomics"),
        ("Radeon Pro WX 5100", "rocminfo and clinfo do not detect the gpu", "amd-pcie-atomics"),
        # GPUs that need none, and one that needs them unless its firmware is new.
        ("RX Vega 64", "rocminfo does not show my GPU", "amd-kernel-or-runtime-too-old"),
        ("RX 6600", "there is no GPU agent in rocminfo", "amd-kernel-or-runtime-too-old"),
        ("RX 6600", ONLY_THE_PROCESSOR, "no-driver"),
    ],
)
def test_a_gpu_that_always_needs_atomics_is_not_listed_for_want_of_them(gpu: str, told: str, slug: str) -> None:
    assert problems(f"{gpu}, Ubuntu 22.04, ROCm 5.4\n{told}\n")[:1] == [slug]


def test_rocminfo_that_lists_the_gpu_is_no_fault() -> None:
    assert problems("RX 580: rocminfo shows the card, and does not say which driver I have.\n") == []
