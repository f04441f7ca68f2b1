"""Texts that tell of two faults: both are named, and what is only the effect of one is not."""

from __future__ import annotations

import pytest

from tests.support.judged_texts import problems


@pytest.mark.parametrize(
    ("text", "slugs"),
    [
        # Two sentences of one line.
        (
            "After the kernel update nvidia-smi does not work. And my torch was the cpu-only one, 2.5.1+cpu.",
            {"nvidia-dkms-kernel-mismatch", "torch-cpu-only"},
        ),
        (
            "CUDA_VISIBLE_DEVICES is empty, torch finds no GPU. flash-attn was made for another torch, import fails.",
            {"cuda-visible-devices", "flash-attn-abi"},
        ),
        (
            "The nvidia module was not loaded because secure boot refused it. When it worked, training on both 3090 "
            "hung in NCCL without NCCL_P2P_DISABLE=1.",
            {"secure-boot-module-rejected", "nccl-p2p-hang"},
        ),
        (
            "I upgraded to a 5090 and put in the closed driver 570. nvidia-smi: no devices. My torch is still 2.4 "
            "with cu121.",
            {"blackwell-open-module", "torch-no-arch-for-gpu"},
        ),
        # Two clauses of one sentence.
        (
            "After the kernel update nvidia-smi fails on the host, and in docker I forgot --gpus all, so torch sees "
            "no GPU there.",
            {"nvidia-dkms-kernel-mismatch", "container-no-gpu"},
        ),
        (
            "I installed onnxruntime and onnxruntime-gpu together, and only root can open /dev/nvidia0.",
            {"ort-cpu-and-gpu-both", "gpu-device-permission"},
        ),
        (
            "After suspend CUDA does not work until I reload nvidia_uvm, and CUDA_VISIBLE_DEVICES is set to 3 "
            "although I have one GPU.",
            {"nvidia-uvm-after-suspend", "cuda-visible-devices"},
        ),
        (
            "Secure Boot does not let the nvidia module load and pip installed the CPU version of torch.",
            {"secure-boot-module-rejected", "torch-cpu-only"},
        ),
        (
            "The container runs without --gpus all and torch sees no GPU, and its /dev/shm has only 64 MB so the "
            "workers of the data loader die with a bus error.",
            {"container-no-gpu", "shm-small"},
        ),
        (
            "Since the kernel upgrade the nvidia module is missing, and my .bashrc sets CUDA_VISIBLE_DEVICES to an "
            "empty value.",
            {"nvidia-dkms-kernel-mismatch", "cuda-visible-devices"},
        ),
        ("Only root sees the GPU and the venv has torch+cpu installed.", {"gpu-device-permission", "torch-cpu-only"}),
        # The second clause is the effect of the first.
        ("With secure boot enabled nvidia-smi fails, and torch runs on the CPU.", {"secure-boot-module-rejected"}),
        ("Since the kernel update nvidia-smi fails and CUDA is not available.", {"nvidia-dkms-kernel-mismatch"}),
        # Two parts of one sentence.
        (
            "My user is not in the render group and torch is a CUDA build, RX 7800 XT.",
            {"amd-device-permission", "cuda-torch-on-amd"},
        ),
        (
            "My user is not in the render group, and amdgpu-dkms fails to build on the new kernel. RX 7800 XT.",
            {"amd-device-permission", "amd-dkms-kernel-mismatch"},
        ),
        # A sentence beside the message of another fault.
        (
            "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service\n"
            "And pip always installs the CPU-only version of torch.",
            {"secure-boot-module-rejected", "torch-cpu-only"},
        ),
        (
            "rocBLAS error: Cannot read /opt/rocm/lib/rocblas/library/TensileLibrary.dat: No such file or directory "
            "for GPU arch : gfx1031\nMy user is not in the render group, so I start it with sudo.",
            {"rocblas-no-arch", "amd-device-permission"},
        ),
        # The effect of the fault, and words about the message, are no second fault.
        ("After the kernel update nvidia-smi fails. torch does not see the GPU.", {"nvidia-dkms-kernel-mismatch"}),
        (
            "nvidia-smi works on the host, but in the docker container torch finds no GPU. I installed torch cu128, "
            "not the CPU build.",
            {"container-no-gpu"},
        ),
        (
            "RuntimeError: CUDA error: no kernel image is available for execution on the device\n"
            "My torch is still 2.4 with cu121, and I have an RTX 5090.",
            {"torch-no-arch-for-gpu"},
        ),
        (
            "Blender with HIP crashes on my RX 6600. Fixed by LD_PRELOAD=/nix/store/x/lib/libamd_comgr.so.3",
            {"rocm-runtime-bug"},
        ),
        (
            "Could not locate cudnn_ops64_9.dll. Please make sure it is in your library path!\n"
            "It was because I had a CPU version of torch installed. I installed the proper torch version.",
            {"cudnn-mismatch"},
        ),
    ],
)
def test_two_faults_are_both_told_and_one_is_told_once(text: str, slugs: set[str]) -> None:
    assert set(problems(text)) == slugs


def test_what_a_message_says_comes_before_what_words_beside_it_suggest() -> None:
    text = (
        "Error installing cutorch for a GTX 1080 with cuda 7.5, Driver Version: 367.27 in Ubuntu 14.04. It says "
        "nvcc fatal   : Unsupported gpu architecture 'compute_61'\n"
        "CUDA driver version does not fit: my driver is too old for this CUDA."
    )
    assert problems(text)[0] == "cuda-toolkit-mismatch"
