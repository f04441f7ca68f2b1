"""Healthy texts, and texts about something else, that new patterns could take for a fault; each beside its fault."""

from __future__ import annotations

import pytest

from tests.support.judged_texts import first, problems


@pytest.mark.parametrize(
    "text",
    [
        # The nodes of ROCm belong to root, and their group decides.
        "ls says that /dev/kfd is owned by root, group render, mode 0660. It works on the RX 7900 XTX.",
        "/dev/kfd belongs to root and to the group render, and my RX 7900 XTX works.",
        "My /dev/kfd was root:root 0600, after a udev rule it is root:render, all good",
        # A job for the CPU.
        "My sbatch job runs without --gres on the CPU partition, that is fine.",
        # Docker Desktop itself.
        "Docker Desktop does not start on Ubuntu 24.04",
        # Programs that look for both vendors' GPUs.
        "No AMD GPUs were found. NVIDIA GeForce RTX 4090 found, training works.",
        "RTX 3060. UserWarning: Specified provider 'ROCMExecutionProvider' is not in available provider names."
        "Available providers: 'TensorrtExecutionProvider, CUDAExecutionProvider, CPUExecutionProvider'",
        # Where a process waits is in every profile of it.
        "py-spy of my training: rocr::core::InterruptSignal::WaitRelaxed takes 3 % of the time on MI300X",
    ],
)
def test_what_is_in_order_is_no_problem(text: str) -> None:
    assert not problems(text)


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("/dev/kfd is owned by root:root in my container, RX 7900 XTX", "amd-device-permission"),
        ("/dev/kfd is owned by root instead of the group render on my RX 7900 XTX", "amd-device-permission"),
        ("My sbatch script has no --gres, and torch finds no GPU", "job-without-gpu"),
        ("Docker Desktop on Ubuntu: docker run --gpus all does not find my RTX 4060", "container-no-gpu"),
        (
            "RX 7900 XTX. UserWarning: Specified provider 'ROCMExecutionProvider' is not in available provider names."
            "Available providers: 'TensorrtExecutionProvider, CUDAExecutionProvider, CPUExecutionProvider'",
            "framework-other-vendor",
        ),
        ("rocr::core::InterruptSignal::WaitRelaxed (libhsa-runtime64.so.1), MI210, it hangs", "rocm-runtime-bug"),
    ],
)
def test_the_fault_beside_it_is_one(text: str, slug: str) -> None:
    assert slug in problems(text)


@pytest.mark.parametrize(
    ("update", "slug"),
    [
        ("I ran the system updates", "driver-installed-no-reboot"),
        ("I did a pip upgrade", "nvidia-uvm-after-suspend"),
        ("I installed the ComfyUI update", "nvidia-uvm-after-suspend"),
    ],
)
def test_only_an_update_of_the_system_replaces_the_driver(update: str, slug: str) -> None:
    assert first(f"{update}, and now: RuntimeError: CUDA unknown error").slug == slug


def test_no_driver_is_installed_inside_wsl() -> None:
    text = (
        "torch.cuda.is_available()\nFalse\nPyTorch version: 1.10.0+cu111\nCUDA used to build PyTorch: 11.1\n"
        "Python platform: Linux-{}-x86_64-with-glibc2.31\n"
    )
    inside, outside = (first(text.format(kernel)) for kernel in ("5.10.102.1-microsoft-standard-WSL2", "5.10.0-20"))
    assert (inside.slug, outside.slug) == ("wsl-driver", "no-driver")
    assert "Look at the driver" not in [fix.title for fix in inside.fixes]
    assert "Update the Windows driver and WSL" in [fix.title for fix in inside.fixes]
    assert "Look at the driver" in [fix.title for fix in outside.fixes]


def test_a_pod_waits_for_an_amd_gpu_in_a_cluster_with_both() -> None:
    text = "Our nodes have A100 and MI210. 0/3 nodes are available: 3 Insufficient amd.com/gpu."
    assert first(text).severity == "warning"
    assert problems("My node has an RTX 4090. 0/1 nodes are available: 1 Insufficient amd.com/gpu.")


@pytest.mark.parametrize(
    ("machine", "slug"),
    [("My server has one RTX 3090", "cuda-visible-devices"), ("My server has 4 RTX 3090", "no-driver")],
)
def test_a_variable_hides_nothing_where_several_gpus_are_counted(machine: str, slug: str) -> None:
    text = f"{machine}.\nexport CUDA_VISIBLE_DEVICES=2,3\ntorch 2.6.0+cu124\nRuntimeError: CUDA is not available\n"
    assert first(text).slug == slug


def test_the_driver_of_a_service_is_meant_where_the_text_is_about_that_service() -> None:
    text = "{} the provided PTX was compiled with an unsupported toolchain."
    there, elsewhere = (first(text.format(place)) for place in ("Colab:", "On my own T4, not on Colab:"))
    assert there.slug == elsewhere.slug == "driver-too-old"
    assert "numba" in there.fixes[0].title and elsewhere.fixes[0].title.startswith("Update the NVIDIA driver")
